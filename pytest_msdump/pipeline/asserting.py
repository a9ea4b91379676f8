"""Assertion helpers: the same engine and the same text as the gate, inside ordinary tests. Work without pytest, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.judging.policy import Policy
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.report import Record, Report
from pytest_msdump.pipeline.comparing import compare_pair, compare_views
from pytest_msdump.pipeline.gathering import gathered, measured
from pytest_msdump.pipeline.given import Tensor, opened
from pytest_msdump.pipeline.planning import plan
from pytest_msdump.reporting.coverage import coverage_text
from pytest_msdump.reporting.failure import failure_text
from pytest_msdump.reporting.records import to_json
from pytest_msdump.reporting.summary import header_lines, summary_lines
from pytest_msdump.reporting.tally import FAILING, coverage_problems
from pytest_msdump.storage.paths import RemotePath
from pytest_msdump.suite import load_suite

__all__ = ["assert_close", "assert_dumps_close", "compare"]

_SHOWN_OPERATORS = 3
_WIDTH = 100


def compare(
    left: Tensor | Pair,
    right: Tensor | None = None,
    *,
    profile: str = "default",
    nan: str = "match",
    transpose: tuple[int, ...] | None = None,
    reshape: bool = False,
    name: str = "tensor",
    **limits: float,
) -> Record:
    """Measure and judge two tensors. Says nothing by itself: read `verdict` and `comparison`.

    Parameters
    ----------
    left, right : array_like, TensorView, TensorRef, str or Path
        The value under test and its reference. A `Pair` (of the fixture ``msdump_pairs``) stands for both.
    profile : str
        Named limits.
    nan : str
        ``"match"`` or ``"forbid"``.
    transpose : tuple of int, optional
        Axes of the right side, to meet the left.
    reshape : bool
        Whether the right side may have another shape with the same values in C order.
    name : str
        What messages call arrays that have no name of their own.
    **limits : float
        Limits by metric id or short form, e.g. ``cosine=0.9999``; they win over the profile.

    Returns
    -------
    Record
        Its verdict is ``error`` when shapes or files cannot be brought together.

    Raises
    ------
    ConfigError
        An unknown profile or metric, or a limit that cannot be meant.

    Examples
    --------
    >>> compare([1.0, 2.0], [1.0, 2.5], max_abs=0.6, norm_max=1, rel_euclid=1, cosine=0).verdict.outcome
    'pass'
    """
    # Numbers of an array library are numbers; what is none is refused where limits are checked.
    plain = {metric: bound.item() if hasattr(bound, "item") else bound for metric, bound in limits.items()}
    policy = Policy(profile=profile, nan=nan, nan_rule=f'nan="{nan}"', marker=plain)
    if isinstance(left, Pair):
        if right is not None:
            raise ConfigError("a Pair stands for both sides; give no right side beside it")
        return compare_pair(left, policy)
    if right is None:
        raise ConfigError("there is no right side; give the reference as the second argument")
    with ExitStack() as stack:
        left_ref, left_view = opened(left, name, stack)
        right_ref, right_view = opened(right, name, stack)
        pair = Pair(left_ref, right_ref, how="file", transform=Transform(transpose=transpose, reshape=reshape))
        return compare_views(pair, left_view, right_view, policy)


def assert_close(left: Tensor | Pair, right: Tensor | None = None, **options: Any) -> None:
    """Fail, with the gate's failure text, unless the two tensors are within the limits.

    Parameters
    ----------
    left, right, **options
        As `compare` takes them.

    Raises
    ------
    AssertionError
        The verdict is ``fail``, ``undefined`` or ``error``.

    Examples
    --------
    >>> import numpy
    >>> assert_close(numpy.ones(3), numpy.ones(3))
    """
    __tracebackhide__ = True
    record = compare(left, right, **options)
    if record.verdict.outcome in FAILING:
        raise AssertionError("\n" + failure_text([_entry(record)], operators=1, width=_WIDTH))


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
    report = gathered(planned, {number: measured(planned, number) for number in range(len(planned.pairing.pairs))})
    problem = _dumps_problem(report)
    if problem:
        raise AssertionError("\n" + problem)
    return report


def _entry(record: Record) -> dict[str, Any]:
    """A record of two loose tensors as reports have it."""
    return to_json(record, left_root=Path(), right_root=Path())


def _dumps_problem(report: Report) -> str | None:
    """What is wrong with a whole report, for a person; ``None`` when nothing is."""
    failing = [record for record in report.records if record["verdict"] in FAILING]
    problems = coverage_problems(report)
    if not failing and not problems:
        return None
    lines = header_lines(report.left, report.right, pairs=len(report.records), profile=report.profile)
    lines += summary_lines(report, width=_WIDTH)
    for order in sorted({record["order"] for record in failing})[:_SHOWN_OPERATORS]:
        records = [record for record in report.records if record["order"] == order]
        lines += ["", failure_text(records, operators=report.left.operators, width=_WIDTH)]
    if problems:
        lines += ["", coverage_text(report, width=_WIDTH)]
    return "\n".join(lines)


def _side(given: Any) -> Path | str:
    """A side as a suite file has it; an opened dump stands for its folder."""
    return given if isinstance(given, RemotePath) else fspath(given)
