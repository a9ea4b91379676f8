"""What of a result takes part in a diff: of each tensor its names, verdict, numbers and limits; of a run its whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.core.limits.permissions import BEYOND, LOOSER, PERMITTED, meets
from pytest_msdump.core.model.comparison import FAILING, Limit
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.report.coverage import counts, coverage_problems
from pytest_msdump.core.report.json_report import read_json, report_from

# Notes by which a person lets a pair pass, and what a rule on choices lets pass.
_PERMITTING = frozenset({LOOSER, BEYOND, PERMITTED, "near_ties", "same_choices", "behind_ties"})
_LARGEST_WHOLE = 2**1023


class Tensor(NamedTuple):
    """One pair of a result.

    `limits` are by metric and level, `numbers` what these are held to, `failed` the metrics beyond theirs. `otherwise`
    says that it fails by something that has no limit, `permitted` that it passes by what a person named.
    """

    left: str
    at: Coordinates
    right: str
    right_at: Coordinates
    piece: object
    outcome: str
    limits: Mapping[tuple[str, str], float]
    numbers: Mapping[str, float]
    failed: frozenset[str]
    is_equal: bool
    elements: int | None
    judged_as: str
    nan: str
    permitted: bool
    otherwise: bool

    @property
    def fails(self) -> bool:
        """Whether the verdict fails a test item."""
        return self.outcome in FAILING

    def within(self, metric: str, bound: float) -> bool | None:
        """Return whether it would meet a limit; ``None`` where its number was not measured."""
        if self.is_equal:
            return True
        value = self.numbers.get(metric)
        return None if value is None else meets(value, Limit(metric, bound, ""))


@dataclass(frozen=True)
class Result:
    """One saved result; `coverage` is the share of the right side that was compared, `problems` why that fails."""

    name: str
    profile: str
    complete: bool
    coverage: float
    problems: tuple[str, ...]
    counts: Mapping[str, int]
    left: str
    right: str
    run: Mapping[str, str]
    tensors: tuple[Tensor, ...] = field(repr=False)


def read_result(path: Path) -> Result:
    """Read a results.json, or the one in a folder; ConfigError where it is none."""
    file = path / "results.json" if path.is_dir() else path
    return result_of(report_from(read_json(file), place=str(file)), str(path))


def result_of(report: Report, name: str = "") -> Result:
    """Return what of a report takes part."""
    return Result(
        name=name,
        profile=report.profile,
        complete=report.complete,
        coverage=report.coverage.value,
        problems=coverage_problems(report),
        counts=counts(report),
        left=report.left.directory,
        right=report.right.directory,
        run=report.run,
        tensors=tuple(map(_tensor, report.records)),
    )


def _tensor(record: Record) -> Tensor:
    checks = [one for one in record.checks if one.limit is not None and one.outcome != "skipped"]
    measured = {one.metric: one.value for one in checks} | {name: record.judged_value(name) for name in record.metrics}
    known = {name: _number(name, one) for name, one in measured.items()}
    numbers = {name: one for name, one in known.items() if one is not None}
    if record.right_zero_mismatch:
        # What a relative error leaves out fails any limit on it.
        numbers |= dict.fromkeys(RELATIVE_METRICS & numbers.keys(), math.inf)
    failed = frozenset(one.metric for one in checks if one.outcome in FAILING)
    findings = record.verdict.findings
    codes = {one.message.code for one in findings} | {one.code for one in record.notes}
    return Tensor(
        left=record.left.address,
        at=record.left.at,
        right=record.right.address,
        right_at=record.right.at,
        piece=record.transform.piece,
        outcome=record.verdict.outcome,
        limits={(one.metric, one.level or "fail"): float(one.limit) for one in checks if one.limit is not None},
        numbers=numbers,
        failed=failed,
        is_equal=record.equal is True,
        elements=record.elements,
        judged_as=record.judged_as,
        nan=record.nan,
        permitted=not codes.isdisjoint(_PERMITTING) or record.known_drift is not None,
        otherwise=any(one.outcome in FAILING and one.metric not in failed for one in findings),
    )


def _number(metric: str, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or METRICS[metric].direction == "none":
        return None
    # Sums of integers may be beyond what a float64 holds.
    return float(value) if isinstance(value, float) or abs(value) < _LARGEST_WHOLE else math.inf
