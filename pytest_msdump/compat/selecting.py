"""Operators by their number in the compiled model: ``-r start,end,step`` and ``-s i,j``, each with its whole group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.groups import Group, group_operators
from pytest_msdump.matching.rules import combined
from pytest_msdump.model.pairing import Pair, Unmatched
from pytest_msdump.pipeline.planning import Plan

__all__ = ["chosen_groups", "narrowed"]

_NUMBER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_LAST = -1
_MOST_LISTED = 20


def chosen_groups(
    plan: Plan, *, span: str | None, numbers: str | None
) -> tuple[tuple[Group, ...] | None, tuple[str, ...]]:
    """Read ``-r`` or ``-s``.

    Parameters
    ----------
    plan : Plan
        Its rule files tell the numbers.
    span : str, optional
        ``start,end,step``; what is left blank is 1, the last operator, and 1; ``-1`` is the last one as well.
    numbers : str, optional
        ``i,j,…``

    Returns
    -------
    groups, notes
        Every group that an operator so chosen is in, ``None`` where neither option was given; and what is to be said
        of numbers that no operator has.

    Raises
    ------
    ConfigError
        Both are given, there is no rule file, it is not of that form, or no operator has any of the numbers.
    """
    if span is None and numbers is None:
        return None, ()
    if span is not None and numbers is not None:
        raise ConfigError("-r and -s cannot both choose operators; give one of them")
    flag = "-r" if numbers is None else "-s"
    if plan.rules.base is None:
        raise ConfigError(f"{flag}: operators are chosen by their number in the compiled model; give its JSON with -f")
    groups = group_operators(combined(plan.rules))
    known = {operator.id for group in groups for operator in group.operators}
    wanted = _spanned(span or "", max(known, default=0)) if numbers is None else _listed(numbers)
    absent = sorted(set(wanted) - known) if numbers is not None else []
    chosen = tuple(group for group in groups if any(operator.id in wanted for operator in group.operators))
    if not chosen:
        raise ConfigError(f"{flag}: no operator of {plan.rules.label} has such a number; they go up to {max(known)}")
    return chosen, _absent_note(absent)


def _absent_note(absent: list[int]) -> tuple[str, ...]:
    if not absent:
        return ()
    more = f" and {len(absent) - _MOST_LISTED} more" if len(absent) > _MOST_LISTED else ""
    return (f"-s: no operator has the number {', '.join(map(str, absent[:_MOST_LISTED]))}{more}",)


def _listed(text: str) -> frozenset[int]:
    return frozenset(_number(part, "-s", text) for part in text.split(","))


def _spanned(text: str, last: int) -> frozenset[int]:
    parts = text.split(",")
    if len(parts) > 3:
        raise ConfigError(f"-r: {text!r} is not start,end,step")
    defaults = (1, _LAST, 1)
    start, end, step = (
        _number(parts[place], "-r", text) if place < len(parts) and parts[place].strip() else default
        for place, default in enumerate(defaults)
    )
    start, end = (last if number == _LAST else number for number in (start, end))
    if start < 0 or end < start or step < 1:
        raise ConfigError(f"-r: {text!r}: start must not be beyond end, the last being {last}, and step at least 1")
    # Numbers beyond the last operator's would only fill memory.
    return frozenset([*range(start, min(end, last) + 1, step), end])


def _number(text: str, flag: str, whole: str) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise ConfigError(f"{flag}: {whole!r}: {text.strip()!r} is not a number of an operator")
    return int(text)


def narrowed(plan: Plan, groups: Iterable[Group]) -> Plan:
    """Return the plan for the operators of some groups alone.

    Parameters
    ----------
    plan : Plan
        For the whole model.
    groups : iterable of Group
        From `chosen_groups`.

    Returns
    -------
    Plan
        Its coverage is that of the right tensors that these operators have as partners.

    Notes
    -----
    Globs would not do: they look at both sides, and what feeds the next operator has this one's name on the right.
    """
    names = {operator.name for group in groups for operator in group.operators}

    def concerns(one: Pair | Unmatched) -> bool:
        op = (one.left if isinstance(one, Pair) else one.ref).key.op
        return op.label in names or op.name in names

    pairs = tuple(pair for pair in plan.pairing.pairs if concerns(pair))
    count = len({id(pair.right) for pair in pairs})
    pairing = replace(
        plan.pairing,
        pairs=pairs,
        unmatched_left=tuple(one for one in plan.pairing.unmatched_left if concerns(one)),
        unmatched_right=(),
        missing=tuple(one for one in plan.pairing.missing if one.left.rsplit(":", 2)[0] in names),
        right_total=count,
        right_paired=count,
    )
    return replace(plan, pairing=pairing)
