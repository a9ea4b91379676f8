"""``msdump accept RESULTS GLOB``: write failures of a run as known drifts into its suite file."""

from __future__ import annotations

import argparse
import datetime
import glob
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.cli.check import judged_by, names_of
from pytest_msdump.cli.output import phrases, print_lines, terminal_width
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line, terminal_text, toml_value
from pytest_msdump.core.limits.policy import KnownDrift, Policy
from pytest_msdump.core.limits.resolve import accepts, operator_text, settled
from pytest_msdump.core.matching import MapEntry, parse_address
from pytest_msdump.core.model.spellings import addresses, glob_matches
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, module_of
from pytest_msdump.core.report.json_report import read_json, report_from
from pytest_msdump.core.report.shown import short_reason
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.settings.options import COMMAND_FLAGS
from pytest_msdump.core.storage.files import read_user_file, replacing
from pytest_msdump.core.suite import MOST_BYTES, Suite, load_suite, parse_toml
from pytest_msdump.core.text import ENGLISH

if TYPE_CHECKING:
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report

DESCRIPTION = (
    "Accept failing tensors of a run until a day: adds a [[msdump.known_drift]] for each of them to the suite file, "
    "with limits that the run just meets. Nothing else in the file changes. Exit code 0: they are added; 4: usage "
    "error, or one of them fails for another reason than a limit, and nothing is added."
)
EXAMPLES = ("msdump accept drifted '*fc2*' --reason 'ticket 412' --until 2099-12-31",)

# Of a sentence about one tensor, as much as a line of an error holds.
_SHOWN = 150
_NAMED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the results, which of them are accepted, why, until when, and the suite file."""
    parser.add_argument("results", metavar="RESULTS", help="results.json of a run, or its report directory")
    parser.add_argument("glob", metavar="GLOB", help="failing operators or tensors, e.g. 'softmax_*'")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; reports repeat it")
    parser.add_argument("--until", metavar="DATE", required=True, help="last day (UTC), e.g. 2027-01-31")
    parser.add_argument("--config", metavar="FILE", help="the suite file (default: that of the run)")


def run(parsed: argparse.Namespace) -> int:
    """Add the entries and say what they are."""
    until = _last_day(parsed.until)
    if not parsed.reason.strip():
        raise ConfigError("--reason: say why the drift is accepted")
    results = Path(parsed.results)
    results = results / "results.json" if results.is_dir() else results
    report = report_from(read_json(results), place=str(results))
    file = _suite_file(report, parsed.config)
    chosen = _chosen(report, parsed.glob, str(results), _suite(file, report).entries)
    # The suite may hold some of them already, from an earlier call.
    failing = [one for record in chosen if (one := judged_by(_policy(file, report), record)).fails]
    if not failing:
        raise ConfigError(f"{file}: accepts all of them already; run it again")
    name = "tool.msdump" if file.name == "pyproject.toml" else "msdump"
    drifts = [_drift(record, report, parsed.reason, until) for record in failing]
    _append(file, name, [line for drift in drifts for line in _entry(name, drift)], report, failing)
    named, width, say = os.path.relpath(file), terminal_width(), phrases(parsed)
    print_lines([say("accepted", date=until.isoformat(), file=named)])
    for record, drift in zip(failing, drifts, strict=True):
        where = f" [{shown}]" if (shown := drift.at.shown()) else ""
        text = f"{record.left.address} <-> {record.right.address}{where}: {_typed(drift, ', ')}"
        print_lines(f"  {line}" for line in hanging(terminal_text(text), width - 2))
    again = named if f".{file.name}".endswith(".msdump.toml") else f"--msdump-config={named}"
    print_lines([say("next_command"), f"  {shell_line(['pytest', again])}"])
    return 0


def _last_day(text: str) -> datetime.date:
    try:
        until = datetime.date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--until: {text!r} is no date; write e.g. 2027-01-31") from None
    if until < datetime.datetime.now(datetime.timezone.utc).date():
        raise ConfigError(f"--until: {until} has passed; name a day to come")
    return until


def _chosen(report: Report, typed: str, place: str, entries: Sequence[MapEntry]) -> list[Record]:
    """Return the failing records that are meant; refuse what no limit would let pass."""
    pattern = names_of(report).settle(typed)
    for one in report.missing:
        if glob_matches(pattern, (one.left,)) or glob_matches(typed, (one.left,)):
            raise ConfigError(
                f"{one.left} is missing: {one.reason:.{_SHOWN}}\n"
                "only a drift can be accepted; mend this, or leave it out of GLOB"
            )
    failing = [record for record in report.records if record.fails]
    say = ENGLISH.calling(report.left.shown)
    # Paths of modules: the one that both sides share, those that a map entry names, and the name that is shown.
    paths = {entry.label: {parse_address(name).op for name in (entry.left, entry.right)} for entry in entries}
    chosen = [
        record
        for record in failing
        if glob_matches(pattern, (*addresses(record.left.key), *addresses(record.right.key)))
        or glob_matches(typed, paths.get(record.by, {module_of(record.how, record.by)} - {""}))
        or glob_matches(typed, {say.name(record.left.key.op.label), say.name(record.left.address)})
    ]
    if not chosen:
        names = dict.fromkeys(say.name(record.left.key.op.label) for record in failing)
        found = f"failing: {ENGLISH.named(names, _NAMED)}" if names else "nothing failed"
        raise ConfigError(f"{place}: {typed!r} matches nothing that failed\n{found:.{_SHOWN}}")
    for record in chosen:
        if not record.verdict.accepted_bounds:
            raise ConfigError(
                f"{record.left.address} cannot be accepted: {short_reason([record]):.{_SHOWN}}\n"
                "only a number beyond its limit can; mend this, or leave it out of GLOB"
            )
    return chosen


def _suite_file(report: Report, typed: str | None) -> Path:
    """Return the suite file of the run, or the one that was typed."""
    if typed is None and report.rerun[:1] != ("--config",):
        raise ConfigError("the run had no suite file; name one with --config FILE ('msdump init' writes a first one)")
    file = Path(report.rerun[1] if typed is None else typed)
    if not file.is_file():
        raise ConfigError(f"there is no suite file {file}; name it with --config FILE")
    # A link stays one.
    return file.resolve()


def _drift(record: Record, report: Report, reason: str, until: datetime.date) -> KnownDrift:
    """Return the drift of this tensor and no other one of the run."""
    at = record.left.at
    varying = [name for name in COORDINATES if len({getattr(one.left.at, name) for one in report.records}) > 1]
    where = Coordinates(**{name: getattr(at, name) for name in varying})
    bounds = {metric: (bound, None) for metric, bound in record.verdict.accepted_bounds.items()}
    operator = operator_text(record.left.key.op, record.right.key.op, record.how, record.by)
    for key in (record.right.key, record.left.key):
        drift = KnownDrift(glob.escape(key.address), reason, until, bounds, at=where, operator=operator)
        covered = [one for one in report.records if accepts(drift, one.left.key, one.right.key)]
        if len(covered) == 1:
            return drift
    others = ENGLISH.named((f"{one.left.address} <-> {one.right.address}" for one in covered if one != record), _NAMED)
    raise ConfigError(
        f"{record.left.address} <-> {record.right.address} cannot be accepted alone: an entry of its name is of "
        f"{others:.{_SHOWN}}, too\n"
        "write one [[msdump.known_drift]] for all of them by hand, or give them names of their own"
    )


def _entry(table: str, drift: KnownDrift) -> Iterator[str]:
    yield from ("", f"[[{table}.known_drift]]", f"match = {toml_value(drift.match)}")
    yield f"operator = {toml_value(drift.operator)}"
    for name in COORDINATES:
        if (value := getattr(drift.at, name)) is not None:
            yield f"{name} = {toml_value(value)}"
    yield from (f"reason = {toml_value(drift.reason)}", f"until = {drift.until.isoformat()}")
    yield _typed(drift, "\n")


def _typed(drift: KnownDrift, between: str) -> str:
    return between.join(f"{metric} = {toml_value(bound)}" for metric, (bound, _) in drift.bounds.items())


def _append(file: Path, name: str, lines: Sequence[str], report: Report, failing: Sequence[Record]) -> None:
    """Add lines to the file, once it is certain that these records then are within their limits."""
    before = read_user_file(file, MOST_BYTES, want="name the suite file with --config FILE")
    gap = b"" if before.endswith(b"\n") else b"\n"
    after = before + gap + "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
    try:
        document: Any = parse_toml(after, str(file))
    except ConfigError as error:
        raise ConfigError(
            f"{error}\nthe file takes no further [[{name}.known_drift]] at its end; write all of them in this form"
        ) from None
    policy = _policy(file, report, document["msdump"] if name == "msdump" else document["tool"]["msdump"])
    for record in failing:
        if (judged := judged_by(policy, record)).fails:
            raise ConfigError(
                f"{judged.left.address} would still fail: {short_reason([judged]):.{_SHOWN}}\n"
                "limits of the run's command line go before known drifts; run it without them"
            )
    try:
        with replacing(file) as new:
            os.fchmod(new.fileno(), stat.S_IMODE(file.stat().st_mode))
            new.write(after)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from None


def _policy(file: Path, report: Report, table: Mapping[str, Any] | None = None) -> Policy:
    """Return the limits of the suite file, or of its table as it will be."""
    return settled(_suite(file, report, table).policy, names_of(report))


def _suite(file: Path, report: Report, table: Mapping[str, Any] | None = None) -> Suite:
    """Return the suite file, or its table as it will be, under the profile and limits of the run."""
    typed = [f"{metric}={bound}" for metric, bound in report.limits.get("threshold", {}).items()]
    return load_suite(
        file=file,
        table=table,
        # Sides are not read here; those of the run may be on another machine.
        options={"left": ".", "right": ".", "profile": report.profile, "threshold": typed},
        directory=Path.cwd(),
        spelled=COMMAND_FLAGS,
    )
