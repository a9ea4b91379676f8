"""All that the record of a pair depends on beside its files: plain values, so that the work can be done elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.lazy_dataclass import dataclass, field, replace
from pytest_msdump.pipeline.alike import Kinds, entries_of_usual

if TYPE_CHECKING:
    from pytest_msdump.judging.policy import Policy
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.pipeline.extras import Extras
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["Conditions", "conditions_of", "entries_of", "entry_of"]

# Small files of so many pairs are held at a time, of up to 32 KiB each.
_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every pair of a plan is compared under. Can be pickled where `extras` holds no code of a user.

    Parameters
    ----------
    policy : Policy
        What pairs are judged by.
    extras : Extras
        A user's own code, how much of each tensor to look at, and what to keep of it.
    left_root, right_root : Path
        What the names of files in records are relative to.
    """

    policy: Policy
    extras: Extras
    left_root: Path
    right_root: Path
    # What `pipeline.alike` worked out by them; no part of what they say.
    kinds: Kinds = field(default_factory=Kinds, init=False, repr=False, compare=False)


def conditions_of(plan: Plan) -> Conditions:
    """Return what the pairs of `plan` are compared under."""
    extras = replace(plan.extras, spread=plan.suite.spread)
    return Conditions(plan.suite.policy, extras, plan.left.root, plan.right.root)


def entries_of(pairs: Iterable[Pair], conditions: Conditions) -> Iterator[Mapping[str, Any]]:
    """Compare pairs, and yield their records in their order, as results.json has them but for what only the plan knows.

    May run in any thread or process that sees the files; the same everywhere, and whatever pairs there are beside one.
    Small files are read some pairs ahead.
    """
    rest = iter(pairs)
    while some := list(islice(rest, _TOGETHER)):
        for pair, usual in zip(some, entries_of_usual(some, conditions), strict=True):
            yield _entry_of(pair, conditions) if usual is None else usual


def entry_of(pair: Pair, conditions: Conditions) -> Mapping[str, Any]:
    """Compare one pair and return its record."""
    return next(entries_of((pair,), conditions))


def _entry_of(pair: Pair, conditions: Conditions) -> Mapping[str, Any]:
    """Compare any pair."""
    # They bring numpy, which is half of what a network of small tensors needs else before its first pair.
    from pytest_msdump.pipeline.comparing import compare_pair
    from pytest_msdump.reporting.records import written

    record = compare_pair(pair, conditions.policy, conditions.extras)
    return written(record, left_root=conditions.left_root, right_root=conditions.right_root)
