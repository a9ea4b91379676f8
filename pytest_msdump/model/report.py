"""One pair's record and the whole report, as results.json has them (INTERFACE 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.pairing import Pair, Pairing
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.model.verdict import Limits, Verdict

__all__ = ["Record", "Report", "SideInfo"]


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one pair.

    `comparison` is ``None`` when nothing could be measured (verdict `error`) or the pair was not run (`not_run`).
    `left_spec` and `right_spec` are what the files really held; while unopened, what their names claim.
    """

    pair: Pair
    left_spec: TensorSpec
    right_spec: TensorSpec
    verdict: Verdict
    limits: Limits
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side of the report: directory, reader, what is known of the run, and sentences for the header."""

    directory: str
    reader: str
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result of one suite.

    `records` are results.json's entries of `tensors` (plain JSON values, see `reporting.records.to_json`), in order:
    they travel between processes in this form, and `msdump check` reads them back in this form.
    """

    left: SideInfo
    right: SideInfo
    profile: str
    limits: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]
    pairing: Pairing | None = None
    complete: bool = True
    min_coverage: float | None = None
    unmatched: tuple[Mapping[str, Any], ...] = ()
    coverage: Mapping[str, Any] = field(default_factory=dict)
