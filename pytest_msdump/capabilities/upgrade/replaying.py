"""Whether operators of a run are right by themselves: float64 replay by the model that ran, or by definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_msdump.capabilities.frameworks.onnx import load_model
from pytest_msdump.capabilities.kernels.again import replay
from pytest_msdump.capabilities.replay.reference_model import Reference, replay_plan
from pytest_msdump.capabilities.upgrade.running import Run
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import Message, plain_text

# Values of settings that say how coarse products may be: the unit of what they round to.
_PRECISIONS: Mapping[str, float] = {
    **dict.fromkeys(("tf32", "high", "float16", "fp16", "half"), 2.0**-11),
    **dict.fromkeys(("medium", "bf16", "bfloat16"), 2.0**-8),
}
# What such settings are for.
_PRODUCTS = re.compile(r"matmul|gemm|conv|dense|linear|attention|einsum|bmm|mm$", re.IGNORECASE)


@dataclass(frozen=True)
class Judged:
    """An operator by itself: right, wrong by `score` over `limit`, or not judged (``None``), and why not."""

    is_right: bool | None
    why: Message | None = None
    score: float = 0.0
    limit: float = 0.0

    def is_of(self, settings: Iterable[str], op_type: str) -> bool:
        """Whether a precision among its side's own settings explains how far it is off."""
        units = [_PRECISIONS[one.lower()] for one in settings if one.lower() in _PRECISIONS]
        coarser = max(units, default=0.0) / rounding_unit("float32")
        return bool(_PRODUCTS.search(op_type)) and 0 < self.score <= self.limit * coarser


def judged(run: Run, other: Run, typed: Reference | None) -> dict[str, Judged]:
    """Judge the operators of a run by label; `other` is the run of the other side, `typed` the model of ``--model``."""
    reference = typed
    # A dump of before has no model beside it: it was recorded of the same.
    model = run.model or other.model
    if reference is None and model is not None:
        reference = Reference(load_model(model), None, model.name)
    if reference is None:
        return _by_definitions(run.dump)
    sides = {"left": str(run.dump.root), "right": str(other.dump.root)}
    planned = plan(load_suite(file=None, table=sides, options={}, directory=run.dump.root))
    try:
        found = replay_plan(planned, reference)
    except ConfigError as error:
        why = plain_text(str(error))
        return {pair.left.key.op.label: Judged(None, why) for pair in planned.pairing.pairs}
    result: dict[str, Judged] = {}
    for number, local in found.items():
        label = planned.pairing.pairs[number].left.key.op.label
        outcome = {"pass": True, "fail": False, "error": False}.get(local.outcome)
        one = Judged(outcome, local.why, local.score or 0.0, local.limit or 0.0)
        result[label] = _worse(result.get(label), one)
    return result


def _by_definitions(dump: Dump) -> dict[str, Judged]:
    # The graph of a recording says as much as that of a compiler, where it has attributes.
    graphs = tuple((at, graph._replace(is_recorded=False)) for at, graph in dump.graphs)
    found = replay(replace(dump, graphs=graphs))
    result: dict[str, Judged] = {}
    for one in found.replayed:
        score = one.score
        is_sum = score.rule in ("sum", "approximation")
        judgement = Judged(score.is_sound, None, score.value if is_sum else 0.0, score.limit)
        result[one.op.label] = _worse(result.get(one.op.label), judgement)
    for refused in found.refused:
        result[refused.op.label] = _worse(result.get(refused.op.label), Judged(None, refused.why))
    return result


def _worse(one: Judged | None, other: Judged) -> Judged:
    """Return the worse of two judgements: wrong, then not judged, then right."""
    rank: dict[Any, int] = {False: 2, None: 1, True: 0}
    return other if one is None or rank[other.is_right] > rank[one.is_right] else one
