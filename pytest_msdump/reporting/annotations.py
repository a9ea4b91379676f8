"""What fails, as a machine of CI puts it beside the code: a place, a title and a sentence for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.reporting.failure import one_line
from pytest_msdump.reporting.roles import folded_line, role_line
from pytest_msdump.reporting.tally import coverage_problems

__all__ = ["Annotation", "Locate", "Place", "annotate"]

# A file of the repository, its parts joined by "/", and a line counted from 1; no file where nobody knows of any.
Place = tuple[str | None, int]
# Where a record, or (without one) the suite as a whole, belongs.
Locate = Callable[[Record | None], Place]

# Kinds by their weight.
_RANKS = ("coverage", "cause", "unknown", "inherited")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing that fails.

    Parameters
    ----------
    kind : str
        ``"coverage"``, or what a tensor is to the failure: ``"cause"``, ``"unknown"``, ``"inherited"``.
    verdict : str
        The tensor's; ``"fail"`` of the coverage.
    place : Place
        File and line it belongs to.
    identity : tuple of str
        What tells it from all others, and stays when numbers or lines change.
    title, lines : str, tuple of str
        Texts of one line each.
    folded : bool
        Whether a cause of it is told already.
    """

    kind: str
    verdict: str
    place: Place
    identity: tuple[str, ...]
    title: str
    lines: tuple[str, ...]
    folded: bool = False


def annotate(reports: Sequence[tuple[Report, Locate]]) -> list[Annotation]:
    """Return what fails in some suites: coverage, then causes, then what may be one, then what is inherited.

    Parameters
    ----------
    reports : sequence of (Report, Locate)
        Each suite's report, and what tells where its tensors belong.
    """
    found = [one for report, locate in reports for one in _of(report, locate)]
    return sorted(found, key=lambda one: _RANKS.index(one.kind))


def _of(report: Report, locate: Locate) -> Iterator[Annotation]:
    suite = locate(None)
    for number, problem in enumerate(coverage_problems(report)):
        identity = ("coverage", suite[0] or "", str(number))
        yield Annotation("coverage", "fail", suite, identity, "msdump: coverage", (terminal_text(problem),))
    for record in report.records:
        if record.fails:
            yield _of_record(record, suite, locate)


def _of_record(record: Record, suite: Place, locate: Locate) -> Annotation:
    left, right = record.left.address, record.right.address
    role = role_line(record)
    return Annotation(
        kind=record.role or "unknown",
        verdict=record.verdict.outcome,
        place=locate(record),
        identity=("tensor", suite[0] or "", left, right, *(str(getattr(record.left.at, name)) for name in COORDINATES)),
        title=f"msdump: {terminal_text(left)}",
        lines=tuple(line for line in (one_line(record), role) if line),
        folded=folded_line([record]) is not None,
    )
