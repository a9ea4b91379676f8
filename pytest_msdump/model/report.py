"""One pair's record and the whole report, as results.json has them (INTERFACE 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pytest_msdump.model.comparison import Comparison, CustomResult
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.model.statistics import StatisticComparison
    from pytest_msdump.model.tensor import TensorSpec
    from pytest_msdump.model.verdict import FileRemark, Limits, Verdict

__all__ = ["Check", "CheckRow", "Record", "Report", "SideInfo"]


class Check(NamedTuple):
    """One line of the failure table: a metric, its number, its limit, who set it, and what came of it.

    `outcome` is "ok", "fail", "warn", "undefined" or "skipped"; letter case does not matter.
    """

    metric: str
    value: float | int | tuple[float, ...] | None
    limit: float | None
    level: str | None
    rule: str | None
    outcome: str


# Any tuple of a Check's fields in a Check's order will do for a record.
CheckRow = tuple[str, float | int | tuple[float, ...] | None, float | None, str | None, str | None, str]


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one pair.

    `comparison` is ``None`` when nothing could be measured (verdict `error`) or the pair was not run (`not_run`).
    `left_spec` and `right_spec` are what the files really held; a field left open there is taken from what the file's
    name claims. `checks` are the limits one by one, as judging made them. `custom` is what a user's own algorithms
    returned, by name. `statistics` is set where a tensor was not saved, and then there is no `comparison`. `diagnosis`
    says what the drift of a failing pair looks like, `spread` where and for which values it errs, as plain JSON values.
    `remarks` are of the files, whatever their values.
    """

    pair: Pair
    left_spec: TensorSpec
    right_spec: TensorSpec
    verdict: Verdict
    limits: Limits
    checks: Sequence[CheckRow] = ()
    comparison: Comparison | None = None
    custom: Mapping[str, CustomResult] = field(default_factory=dict)
    statistics: StatisticComparison | None = None
    diagnosis: tuple[Mapping[str, Any], ...] = ()
    spread: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[FileRemark, ...] = ()


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side of the report: directory, reader, what is known of the run, and sentences for the header.

    `operators` and `tensors` count what the side holds, compared or not. `partial_run` says how many of the `tensors`
    are `newer`, where a later run into the same directory wrote some of them only; else it is empty.
    """

    directory: str
    reader: str
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    operators: int = 0
    tensors: int = 0
    partial_run: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result of one suite, as plain JSON values.

    `records`, `unmatched`, `missing` and `coverage` are results.json's entries (see `reporting.records.to_json` and
    `reporting.assemble`): they travel between processes in this form, and `msdump check` reads them back in this form.
    `network` has an entry for each operator of the left side's compiled model, where a rule file tells of one (see
    `matching.network`). `notes` are sentences on the run as a whole: which code of a user ran, how much was looked at.
    `rerun` is what follows ``msdump compare`` to do it again.
    `localised_by` says what told who feeds whom, and `edges` who does: producer and consumer by their records' `order`.
    `ended` is false of what stands in results.json from the start of a run until its end; it has no records.
    """

    left: SideInfo
    right: SideInfo
    profile: str
    limits: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...] = ()
    unmatched: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[Mapping[str, Any], ...] = ()
    coverage: Mapping[str, Any] = field(default_factory=dict)
    network: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    localised_by: str = ""
    edges: tuple[tuple[int, int], ...] = ()
    ended: bool = True

    @property
    def complete(self) -> bool:
        """Whether every pair was run."""
        return self.ended and "not_run" not in map(itemgetter("verdict"), self.records)
