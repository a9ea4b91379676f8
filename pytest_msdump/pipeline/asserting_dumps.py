"""Assert on two whole dumps in one test: planned, compared and told as the gate does. Works without pytest, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pytest_msdump.model.report import Report
from pytest_msdump.pipeline.gathering import gathered, measured
from pytest_msdump.pipeline.planning import plan
from pytest_msdump.reporting.coverage import coverage_text
from pytest_msdump.reporting.failure import failure_text
from pytest_msdump.reporting.summary import header_lines, summary_lines
from pytest_msdump.reporting.tally import coverage_problems
from pytest_msdump.storage.remote import RemotePath
from pytest_msdump.suite import load_suite

__all__ = ["assert_dumps_close"]

_SHOWN_OPERATORS = 3
_WIDTH = 100


def assert_dumps_close(
    left: str | PathLike[str],
    right: str | PathLike[str],
    *,
    map: Mapping[str, str] | Iterable[Mapping[str, Any]] = (),  # noqa: A002 - the suite file's word
    profile: str = "default",
    min_coverage: float | None = None,
    limits: Mapping[str, float] | None = None,
    fusion: str | PathLike[str] | None = None,
    **options: Any,
) -> Report:
    """Fail unless every matched tensor of two dumps is within the limits. One test for a whole dump.

    Parameters
    ----------
    left, right : str or Path
        The run under test and the reference.
    map : mapping or list of mappings
        ``{left address: right address}``, or entries as ``[[msdump.map]]`` has them.
    profile : str
        Named limits.
    min_coverage : float, optional
        Least share of the right tensors that must have a partner, 0 to 1.
    limits : mapping, optional
        Limits of all tensors by metric id or short form; they win over the profile and over rules.
    fusion : str or Path, optional
        Fusion-mapping JSON: the compiled model of the left side.
    **options
        Any other key of a suite file: ``rule``, ``known_drift``, ``quant_fusion``, ``io``, ``nan``, ``select``, …

    Returns
    -------
    Report
        When nothing failed.

    Raises
    ------
    AssertionError
        A tensor drifts, a mapped tensor is missing, nothing could be paired, or too little was.
    ConfigError
        A dump is missing or unknown, or an option cannot be meant.
    """
    __tracebackhide__ = True
    entries = [{"left": one, "right": other} for one, other in map.items()] if isinstance(map, Mapping) else list(map)
    table = {"left": _side(left), "right": _side(right), "map": entries, "profile": profile, **options}
    if min_coverage is not None:
        table["min_coverage"] = min_coverage
    if fusion is not None:
        table["fusion"] = str(fusion)
    thresholds = [f"{metric}={float(bound)!r}" for metric, bound in (limits or {}).items()]
    suite = load_suite(
        file=None,
        table=table,
        options={"threshold": thresholds or None},
        directory=Path.cwd(),
        name="assert_dumps_close",
        spelled={"threshold": "limits"},
    )
    planned = plan(suite)
    report = gathered(planned, measured(planned))
    problem = _dumps_problem(report)
    if problem:
        raise AssertionError("\n" + problem)
    return report


def _dumps_problem(report: Report) -> str | None:
    """What is wrong with a whole report, for a person; ``None`` when nothing is."""
    failing = [record for record in report.records if record.fails]
    problems = coverage_problems(report)
    if not failing and not problems:
        return None
    lines = header_lines(report.left, report.right, pairs=len(report.records), profile=report.profile)
    lines += summary_lines(report, width=_WIDTH)
    for order in sorted({record.order for record in failing})[:_SHOWN_OPERATORS]:
        records = [record for record in report.records if record.order == order]
        lines += ["", failure_text(records, operators=report.left.operators, width=_WIDTH)]
    if problems:
        lines += ["", coverage_text(report, width=_WIDTH)]
    return "\n".join(lines)


def _side(given: Any) -> Path | str:
    """A side as a suite file has it; an opened dump stands for its folder."""
    return given if isinstance(given, RemotePath) else fspath(given)
