"""All that the record of a pair depends on beside its files: plain values, so that the work can be done elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.lazy_dataclass import dataclass, field, replace
from pytest_msdump.pipeline.alike import Kinds, entry_of_usual

if TYPE_CHECKING:
    from pytest_msdump.judging.policy import Policy
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.pipeline.extras import Extras
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["Conditions", "conditions_of", "entry_of"]


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


def entry_of(pair: Pair, conditions: Conditions) -> Mapping[str, Any]:
    """Compare one pair and return its record as results.json has it, but for what only the plan knows.

    May run in any thread or process that sees the files; the same everywhere.
    """
    usual = entry_of_usual(pair, conditions)
    if usual is not None:
        return usual
    # It brings numpy, which is half of what a network of small tensors needs else before its first pair.
    from pytest_msdump.pipeline.comparing import compare_pair
    from pytest_msdump.reporting.records import written

    record = compare_pair(pair, conditions.policy, conditions.extras)
    return written(record, left_root=conditions.left_root, right_root=conditions.right_root)
