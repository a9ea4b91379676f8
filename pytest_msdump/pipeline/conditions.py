"""All that the record of a pair depends on beside its files: plain values, so that the work can be done elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_msdump.judging.policy import Policy
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.model.record import Record
    from pytest_msdump.pipeline.extras import Extras
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["Conditions", "compare_one", "compare_pairs", "conditions_of"]


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


def compare_pairs(pairs: Iterable[Pair], conditions: Conditions) -> Iterator[Record]:
    """Compare pairs and yield their records in their order, without what only the plan knows.

    May run in any thread or process that sees the files, with the same results.
    """
    for pair in pairs:
        yield compare_one(pair, conditions)


def compare_one(pair: Pair, conditions: Conditions) -> Record:
    """Compare one pair and return its record."""
    # They bring numpy, which pairs whose records are kept from an earlier run do not need.
    from pytest_msdump.pipeline.comparing import compare_pair

    roots = conditions.left_root, conditions.right_root
    return compare_pair(pair, conditions.policy, conditions.extras, roots)
