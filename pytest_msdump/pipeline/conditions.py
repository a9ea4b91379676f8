"""All that the record of a pair depends on beside its files: plain values, so that the work can be done elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_msdump.judging.policy import Policy
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.pipeline.extras import Extras
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["Conditions", "conditions_of", "entries_of", "entry_of"]


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


def conditions_of(plan: Plan) -> Conditions:
    """Return what the pairs of `plan` are compared under."""
    extras = replace(plan.extras, spread=plan.suite.spread)
    return Conditions(plan.suite.policy, extras, plan.left.root, plan.right.root)


def entries_of(pairs: Iterable[Pair], conditions: Conditions) -> Iterator[Mapping[str, Any]]:
    """Compare pairs, and yield their records in their order, as results.json has them but for what only the plan knows.

    May run in any thread or process that sees the files; the same everywhere, and whatever pairs there are beside one.
    """
    for pair in pairs:
        yield entry_of(pair, conditions)


def entry_of(pair: Pair, conditions: Conditions) -> Mapping[str, Any]:
    """Compare one pair and return its record."""
    # They bring numpy, which pairs whose records are kept from an earlier run do not need.
    from pytest_msdump.pipeline.comparing import compare_pair
    from pytest_msdump.reporting.records import written

    record = compare_pair(pair, conditions.policy, conditions.extras)
    return written(record, left_root=conditions.left_root, right_root=conditions.right_root)
