"""One mistake behind all failing gradients: a loss that is scaled, or gradients that are clipped on one side alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot, isfinite, sqrt
from typing import NamedTuple

from pytest_msdump.core.matching.kinds import weight_name
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Diagnosis, Record, RoleReason
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.text import Message

# Directions that differ by less, and factors that do, are the same: what rounding makes of them in 16 bits.
_SAME_DIRECTION, _SAME_FACTOR = 1e-4, 5e-3
# So many gradients show a factor that all have.
_LEAST = 3
_GRADIENT = "grad"
_OF_RECORDERS = {"grad": "gradient", "grad_output": "grad_output", "grad_input": "grad_input", "updated": "weight"}


class _Gradient(NamedTuple):
    number: int
    record: Record
    factor: float
    norms: tuple[float, float]
    is_of_weight: bool


def with_one_mistake(records: Mapping[int, Record]) -> dict[int, Record]:
    """Return the records that one sentence explains: the cause of all gradients, and what inherits from it.

    That is what fails before the backward pass (a loss that was recorded), else the first gradient.
    """
    by_part: defaultdict[Coordinates, list[int]] = defaultdict(list)
    for number in sorted(records, key=lambda number: records[number].order):
        by_part[records[number].left.at.part].append(number)
    for numbers in by_part.values():
        failing = {number: records[number] for number in numbers if records[number].fails}
        kinds = {number: _kind(records[number]) for number in numbers}
        of_kind = [number for number in numbers if _GRADIENT in kinds[number]]
        # Those before the first that fails were made before the mistake.
        begun = next((at for at, number in enumerate(of_kind) if number in failing), len(of_kind))
        gradients = [_gradient(number, records[number], kinds[number]) for number in of_kind[begun:]]
        diagnosis = None if None in gradients else _explanation([one for one in gradients if one is not None])
        if diagnosis is not None:
            forward = [number for number in failing if not kinds[number]]
            heads = [number for number in forward or failing if records[number].role == "cause"]
            first = (heads or [number for number in failing if not forward or number in forward])[0]
            return {first: _cause(records[first], None if forward else diagnosis)} | {
                number: _inherited(record, records[first].left.address)
                for number, record in failing.items()
                if number != first and kinds[number]
            }
        if failing:
            break
    return {}


def _kind(record: Record) -> str:
    """Return what of a training step a tensor is: a gradient, a state, a weight; empty for what a layer gives."""
    label = record.left.key.op.label
    own = label.rpartition("/")[2]
    if own in _OF_RECORDERS:
        return _OF_RECORDERS[own]
    if record.left.op_type in (PARAMETER, "Optimizer"):
        return "weight"
    known = weight_name(label)
    return "" if known is None else known.state or "weight"


def _gradient(number: int, record: Record, kind: str) -> _Gradient | None:
    """Return by how much a gradient is larger than the right's; ``None`` if it has another direction."""
    cosine, spread = record.metrics.get("cosine_similarity"), record.metrics.get("standard_deviation")
    if not isinstance(spread, Sequence):
        return None
    if record.elements == 1:
        cosine = 1.0 if spread[0] * spread[2] > 0 else -1.0
    if not isinstance(cosine, (int, float)):
        return None
    norms = [hypot(*spread[at : at + 2]) * sqrt(record.elements or 0) for at in (0, 2)]
    if not all(isfinite(norm) and norm > 0 for norm in norms) or cosine < 1 - _SAME_DIRECTION:
        return None
    return _Gradient(number, record, norms[0] / norms[1], (norms[0], norms[1]), kind == "gradient")


def _explanation(gradients: Sequence[_Gradient]) -> Diagnosis | None:
    scaled = [one for one in gradients if one.record.fails]
    is_of_weights = scaled == [one for one in gradients if one.is_of_weight] != gradients
    if len(scaled) < _LEAST or not (is_of_weights or len(scaled) == len(gradients)):
        return None
    factor = sorted(one.factor for one in scaled)[len(scaled) // 2]
    if any(abs(one.factor / factor - 1) > _SAME_FACTOR for one in scaled):
        return None
    found = {"n": len(scaled), "factor": factor}
    if is_of_weights:
        left, right = (hypot(*(one.norms[side] for one in scaled)) for side in (0, 1))
        evidence = Message("gradients_clipped", {**found, "left": left, "right": right})
        return Diagnosis("gradients_clipped", "high", evidence, {"factor": factor})
    return Diagnosis("loss_scaled", "high", Message("gradients_scaled", found), {"factor": factor})


def _cause(record: Record, diagnosis: Diagnosis | None) -> Record:
    found = (diagnosis, *record.diagnosis) if diagnosis is not None else record.diagnosis
    why = record.role_why if record.role == "cause" else RoleReason("passing")
    return replace(record, role="cause", causes=(), suspects=(), role_why=why, diagnosis=found)


def _inherited(record: Record, cause: str) -> Record:
    return replace(record, role="inherited", causes=(cause,), suspects=(), role_reason="", role_why=None)
