"""From pairs to records, from records to a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump import registry
from pytest_msdump.comparison.assemble import assemble, coverage_of
from pytest_msdump.comparison.comparing import comparer_of
from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.record import Record, record_of
from pytest_msdump.model.report import NetworkOperator, Report
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.report.base import ReportKind
from pytest_msdump.report.json_report import write_json
from pytest_msdump.storage.files import open_regular

if TYPE_CHECKING:
    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.limits.policy import Policy
    from pytest_msdump.matching.coordinates import Align

__all__ = [
    "completed",
    "gathered",
    "measured",
    "paired",
    "policy_entry",
    "remove_reports",
    "start_report",
    "write_report",
]


# What only some reports need is loaded with the first of them: a pair of files that agree is told of at once.


def _csv(report: Report, directory: Path) -> Path:
    from pytest_msdump.report.vendor_table import write_csv

    return write_csv(report, directory)


def _html(report: Report, directory: Path) -> Path:
    from pytest_msdump.report.html.page import write_html

    return write_html(report, directory)


def _markdown(report: Report, directory: Path) -> Path:
    from pytest_msdump.report.markdown import write_markdown

    return write_markdown(report, directory)


# What is printed and not written.
_PRINTED = ("github",)
# Each kind of report, its file, and what stands in the first bytes of those that this package wrote.
_FILES: Mapping[str, tuple[str, bytes]] = {
    "json": ("results.json", b'{\n"schema_version": '),
    "csv": ("ops.csv", b"Index,OpType,NPUDump,"),
    "html": ("index.html", b'<meta name="generator" content="pytest-msdump">'),
    "md": ("summary.md", b"## msdump: "),
    "gitlab": ("gl-code-quality.json", b"msdump"),
}
_FIRST_BYTES = 4096


def measured(plan: Plan) -> dict[int, Record]:
    """Compare all pairs of the plan here and now; return their records by number."""
    compare = comparer_of(plan).compare
    return {number: completed(plan, number, compare(pair)) for number, pair in enumerate(plan.pairing.pairs)}


def completed(plan: Plan, number: int, record: Record) -> Record:
    """Add to the record of pair `number` what only the plan knows: arguments of the operators of a failing pair."""
    if not record.fails:
        return record
    from pytest_msdump.comparison.arguments import arguments_of_pair

    pair = plan.pairing.pairs[number]
    saved, differing = arguments_of_pair(pair, plan.left, plan.right, plan.argument_books)
    return replace(record, kernel_args=saved, differing_arguments=differing)


def gathered(plan: Plan, records: Mapping[int, Record]) -> Report:
    """Put the report together, and look over it; a pair without a record is `not_run`.

    Parameters
    ----------
    plan : Plan
        What was to be done.
    records : mapping of int to record
        What was done, by number of the pair.
    """
    roots = plan.left.root, plan.right.root
    found = [records.get(number) or record_of(pair, roots=roots) for number, pair in enumerate(plan.pairing.pairs)]
    return _with_roles(plan, _assembled(plan, found))


def _with_roles(plan: Plan, report: Report) -> Report:
    """Return the report with what all pairs together show: roles, edges, and pairs that are suspicious."""
    records = {number: record for number, record in enumerate(report.records) if record.was_run}
    # Two files are no network.
    if not records or plan.left.root.is_file():
        return report
    from pytest_msdump.causes.localise import localise

    found = localise(plan, records)
    placed = {**records, **found.records}
    if any(record.fails for record in records.values()):
        from pytest_msdump.causes.mispaired import mispaired

        suspicious = mispaired(plan, placed)
        placed |= {number: replace(placed[number], suspicious=fits) for number, fits in suspicious.items()}
    whole = tuple(placed.get(number, record) for number, record in enumerate(report.records))
    return replace(report, records=whole, localised_by=found.by, edges=found.edges)


def paired(plan: Plan) -> Report:
    """Put together what names alone tell: who met whom. Of the records, all `not_run`, it has no more than one."""
    return _assembled(plan, [record_of(pair) for pair in plan.pairing.pairs[:1]])


def _assembled(plan: Plan, records: Iterable[Record]) -> Report:
    return assemble(
        plan.left,
        plan.right,
        plan.pairing,
        records,
        profile=plan.suite.policy.profile,
        sides=plan.sides,
        limits=policy_entry(plan.suite.policy),
        min_coverage=plan.suite.min_coverage,
        network=_network(plan),
        notes=plan.extras.sentences,
        rerun=rerun_arguments(plan),
    )


def _network(plan: Plan) -> tuple[NetworkOperator, ...]:
    if not plan.rules.base:
        return ()
    from pytest_msdump.matching.rules import combined, network_of

    return network_of(combined(plan.rules))


def policy_entry(policy: Policy) -> dict[str, Any]:
    """What results.json keeps of the policy: who set limits, not every limit of every pair (records have those)."""
    return {
        "nan": policy.nan,
        "threshold": dict(policy.thresholds),
        "rules": [rule.label for rule in policy.rules],
        "known_drift": [drift.label for drift in policy.known_drift],
    }


def rerun_arguments(plan: Plan) -> tuple[str, ...]:
    """What follows ``msdump compare`` to compare the same two dumps by the same rules."""
    suite = plan.suite
    allowed = ("--allow-incomplete",) if suite.allow_incomplete else ()
    typed = (*allowed, *_arrows(suite.align), *_thresholds(suite.policy))
    if suite.file is not None:
        return ("--config", str(suite.file), *typed)
    files = (("--fusion", suite.fusion), ("--quant-fusion", suite.quant_fusion), ("--close-fusion", suite.close_fusion))
    profile = () if suite.policy.profile == "default" else ("--profile", suite.policy.profile)
    rules = tuple(word for flag, file in files if file is not None for word in (flag, str(file)))
    return (str(plan.left.root), str(plan.right.root), *rules, *profile, *typed)


def _arrows(align: Align) -> Iterator[str]:
    """Yield who meets whom, as it is typed."""
    for name in COORDINATES:
        for left, right in getattr(align, name, ()):
            yield f"--align={name}={left}->{right}"


def _thresholds(policy: Policy) -> tuple[str, ...]:
    """Limits of the command line, as they are typed."""
    return tuple(f"--threshold={metric}={bound!r}" for metric, bound in policy.thresholds.items())


def start_report(plan: Plan, directory: Path) -> None:
    """Let nothing of an earlier run stand for this one: results.json says that it has not ended, other files go.

    Where a suite writes no files, nothing is touched. What cannot be written now is told at the end, when the report
    cannot be written either.
    """
    kinds = [kind for kind in plan.suite.report if kind not in _PRINTED]
    if not kinds:
        return
    try:
        keep = write_json(_not_ended(plan), directory).name if "json" in kinds else ""
    except MsdumpError:
        keep = ""
    remove_reports(directory, kinds, keep=keep)


def remove_reports(directory: Path, kinds: Collection[str], *, keep: str = "") -> None:
    """Remove the files of some kinds of report, and of the other kinds what this package wrote, but no file `keep`."""
    for kind, (name, beginning) in _FILES.items():
        if name != keep and (kind in kinds or _begins_with(directory / name, beginning)):
            with suppress(OSError):
                (directory / name).unlink()
    for kind in kinds:
        if kind not in _FILES and kind not in _PRINTED:
            with suppress(OSError):
                (directory / _kind_elsewhere(kind).file).unlink()


def _kind_elsewhere(kind: str) -> ReportKind:
    """Return a kind of report of another package."""
    found: ReportKind = registry.entries("report")[kind]()
    return found


def _not_ended(plan: Plan) -> Report:
    left, right = plan.sides
    return Report(
        left=left,
        right=right,
        profile=plan.suite.policy.profile,
        limits=policy_entry(plan.suite.policy),
        coverage=coverage_of(plan.pairing, plan.left, plan.right, min_coverage=plan.suite.min_coverage),
        rerun=rerun_arguments(plan),
        ended=False,
    )


def _begins_with(file: Path, beginning: bytes) -> bool:
    """Whether the first bytes of a file hold these."""
    try:
        with open_regular(file) as stream:
            return beginning in stream.read(_FIRST_BYTES)
    except OSError:
        return False


def write_report(
    report: Report,
    kinds: tuple[str, ...],
    directory: Path,
    *,
    root: Path | None = None,
) -> list[Path]:
    """Write the wanted kinds of report and return the files; ``md`` also where a job of GitHub shows it.

    Parameters
    ----------
    report : Report
        What came out.
    kinds : tuple of str
        Of `settings.REPORT_KINDS`; ``github`` is printed by whoever tells the report, and is no file.
    directory : Path
        Where to.
    root : Path, optional
        The project's folder, where the paths in ``gitlab`` begin; see `report.ci`.

    Raises
    ------
    MsdumpError
        A file cannot be written; the text says which.
    """
    writers: Mapping[str, Callable[[], Path]] = {
        "json": lambda: write_json(report, directory),
        "csv": lambda: _csv(report, directory),
        "html": lambda: _html(report, directory),
        "md": lambda: _markdown(report, directory),
        "gitlab": lambda: _gitlab(report, directory, root),
    }
    files = [
        writers[kind]() if kind in writers else _kind_elsewhere(kind).write(report, directory)
        for kind in kinds
        if kind not in _PRINTED
    ]
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and "md" in kinds:
        from pytest_msdump.report.markdown import append_summary

        append_summary(report, Path(summary))
    return files


def _gitlab(report: Report, directory: Path, root: Path | None) -> Path:
    from pytest_msdump.report.ci import write_for_gitlab

    return write_for_gitlab([report], directory, root)
