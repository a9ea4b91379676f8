"""Sides that count the steps of a training differently, or save weights on different sides of a step.

MindSpore writes Parameters after the optimizer has written them. A loop of one's own may save them before its step:
then the left's iteration 0 has what the right has in iteration 1. That is said; no verdict changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.facts.checks import OPTIMIZERS
from pytest_msdump.core.matching.kinds import is_weight, weight_name
from pytest_msdump.core.model.pairing import Pair
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.text import Message, Parameter

# So many failing pairs are tried with the step before and the step after.
_MOST_TRIED = 64
_MOST_NAMED = 12
# This part of them must agree: another mistake may hide the rest.
_MOST = 0.75


def step_shift(
    plan: Plan, records: Mapping[int, Record], holds: Callable[[Pair, TensorRef], bool]
) -> Iterator[Message]:
    """Yield what to say where failing tensors of one iteration are within limits of another one of the right side."""
    steps: defaultdict[tuple[Any, ...], dict[int, TensorRef]] = defaultdict(dict)
    for ref in plan.right.refs:
        if ref.key.op.at.iteration is not None:
            steps[_but_iteration(ref)][ref.key.op.at.iteration] = ref
    failing = [plan.pairing.pairs[number] for number, record in records.items() if record.fails]
    if len(steps_known := {at for known in steps.values() for at in known}) == 1 and all(map(_is_weight, failing)):
        written = {ref.key.op.at.iteration for ref in plan.left.refs if _is_optimizer(ref)}
        if failing and {pair.left.key.op.at.iteration for pair in failing} <= written:
            yield Message("weights_of_one_step", {"n": len(failing)})
    for shift in (1, -1) if len(steps_known) > 1 else ():
        tried: Counter[bool] = Counter()
        agreeing: defaultdict[bool, list[Pair]] = defaultdict(list)
        for pair in failing[:_MOST_TRIED]:
            other = steps[_but_iteration(pair.right)].get((pair.right.key.op.at.iteration or 0) + shift)
            if other is not None and pair.left.key.op.at.iteration is not None:
                tried[_is_weight(pair)] += 1
                agreeing[_is_weight(pair)] += [pair] if holds(pair, other) else []
        alike = {kind for kind, pairs in agreeing.items() if pairs and len(pairs) >= _MOST * tried[kind]}
        if alike:
            kind = False not in alike
            pairs = agreeing[kind]
            said: dict[str, Parameter] = {
                "n": len(pairs),
                "tried": tried[kind],
                "arguments": _arguments(pairs, shift, is_narrow=kind),
            }
            code = "steps_shifted" if not kind else ("weights_saved_before" if shift > 0 else "weights_saved_after")
            yield Message(code, said)


def _arguments(pairs: Sequence[Pair], shift: int, *, is_narrow: bool) -> str:
    """Return the options that compare what belongs together."""
    ours = sorted({pair.left.key.op.at.iteration or 0 for pair in pairs})
    theirs = {pair.left.key.op.at.iteration or 0: (pair.right.key.op.at.iteration or 0) + shift for pair in pairs}
    arrows = ", ".join(f"{at}->{theirs[at]}" for at in ours)
    names = dict.fromkeys(pair.left.key.op.label for pair in pairs) if is_narrow else {}
    words = [f"--msdump-align=iteration={arrows}", f"--msdump-iteration={'|'.join(map(str, ours))}"]
    return shell_line([*words, *(f"--msdump-select={name}" for name in list(names)[:_MOST_NAMED])])


def _is_weight(pair: Pair) -> bool:
    """Whether it is something that a step changes: a weight, or what an optimizer keeps beside it."""
    name = weight_name(pair.right.key.op.label) if is_weight(pair.right.key.op) else None
    return name is not None and name.state != "gradient"


def _is_optimizer(ref: TensorRef) -> bool:
    return (ref.key.op.op_type or "").lower().startswith(OPTIMIZERS)


def _but_iteration(ref: TensorRef) -> tuple[Any, ...]:
    op, at = ref.key.op, ref.key.op.at
    return op.label, op.op_type, ref.key.io, ref.key.slot, at.rank, at.net, at.graph, at.occurrence
