"""Find the pairs of an operator that was typed, and make a plan for these alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.spellings import typed_addresses
from pytest_msdump.core.model.tensor import Pair, TensorKey, TensorRef, Unmatched

_MOST_LISTED = 20
_SLOT = re.compile(r"[0-9]{1,9}")


class Wanted(NamedTuple):
    """One operator's tensors: outputs or inputs, all of them or the one with a number."""

    operator: str
    io: str = "output"
    slot: int | None = None


def wanted(text: str, io: str | None = None, slot: int | None = None) -> Wanted:
    """Read an operator or an address as it was typed; `io` and `slot` may not contradict it.

    >>> wanted("a:b"), wanted("conv1:input:2")
    (Wanted(operator='a:b', io='output', slot=None), Wanted(operator='conv1', io='input', slot=2))
    """
    operator, *rest = text.rsplit(":", 2)
    if len(rest) != 2 or rest[0] not in ("input", "output") or not _SLOT.fullmatch(rest[1]):
        return Wanted(text, io or "output", slot)
    if io not in (None, rest[0]) or slot not in (None, int(rest[1])):
        raise ConfigError(f"{text} is one tensor, and {io or rest[0]} {'' if slot is None else slot} another; say one")
    return Wanted(operator, rest[0], int(rest[1]))


def chosen_pairs(plan: Plan, choice: Wanted) -> tuple[int, ...]:
    """Return the numbers of the pairs of one operator."""
    named: list[tuple[int, Pair]] = []
    alone: list[Unmatched] = []
    for names, side in ((names, side) for names in plan.names.readings(choice.operator) for side in ("left", "right")):
        named = [(n, pair) for n, pair in enumerate(plan.pairing.pairs) if _is_of(names, getattr(pair, side))]
        alone = [one for one in getattr(plan.pairing, f"unmatched_{side}") if _is_of(names, one.ref)]
        if named or alone:
            break
    if not named and not alone:
        raise UnknownNameError(_unknown(plan, choice.operator))
    found = tuple(number for number, pair in named if _is_meant(pair.left.key, choice))
    if found:
        return found
    left_alone = [one for one in alone if _is_meant(one.ref.key, choice)]
    if left_alone:
        one = left_alone[0]
        candidates = f"; did you mean {', '.join(one.candidates)}?" if one.candidates else ""
        raise MsdumpError(f"{terminal_text(one.ref.key.address)} has no partner: {one.reason}{candidates}")
    known = sorted({(key.io, key.slot) for key in [*(pair.left.key for _, pair in named), *(a.ref.key for a in alone)]})
    tensor = choice.io if choice.slot is None else f"{choice.io} {choice.slot}"
    raise ConfigError(
        f"operator {terminal_text(choice.operator)} has no {tensor}; it has {', '.join(f'{io} {n}' for io, n in known)}"
    )


def only(plan: Plan, numbers: Sequence[int]) -> Plan:
    """Return the plan for some pairs alone; its coverage is theirs."""
    pairs = tuple(plan.pairing.pairs[number] for number in numbers)
    count = len({id(pair.right) for pair in pairs})
    alone = replace(plan.pairing, pairs=pairs, unmatched_left=(), unmatched_right=(), missing=())
    return replace(plan, pairing=replace(alone, right_total=count, right_paired=count))


def _is_meant(key: TensorKey, choice: Wanted) -> bool:
    return key.io == choice.io and choice.slot in (None, key.slot)


def _is_of(names: frozenset[str], ref: TensorRef) -> bool:
    return not names.isdisjoint(typed_addresses(ref.key))


def _unknown(plan: Plan, operator: str) -> str:
    pairing = plan.pairing
    refs = [*(pair.left for pair in pairing.pairs), *(one.ref for one in pairing.unmatched_left)]
    names = sorted({ref.key.op.label for ref in refs})
    hint = nearest(operator, names)
    if hint.startswith("known: ") and len(names) > _MOST_LISTED:
        hint = f"known: {', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED} more"
    return terminal_text(f"no operator is called '{operator}' among those that are selected; {hint}")
