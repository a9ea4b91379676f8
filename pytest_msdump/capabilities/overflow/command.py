"""``msdump overflow DIR``: which operators overflowed, where it began, and what the device says of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pytest_msdump.capabilities.overflow.device import OperatorOverflow, Overflows, find_overflows, write_overflow_files
from pytest_msdump.cli.output import add_quiet, phrases, print_lines
from pytest_msdump.core.compare.opening import as_path, index
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.describe import frame_lines, where_text
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.tables import titled
from pytest_msdump.core.settings.options import ALLOW_INCOMPLETE, argparse_kwargs
from pytest_msdump.core.text import Phrases, message_of_note

DESCRIPTION = (
    "Look through one dump for NaN, Inf and saturated values, and for the overflow files (Opdebug) of the device's own "
    "check. Exit code 1 when there is any."
)
EXAMPLES = ("msdump overflow run", "msdump overflow run --out findings")

_MOST_SHOWN = 20
_WIDTH = 100
_ORDER = ("origin", "unknown", "propagated")
_MARGIN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump, and the vendor's flags for the files to write."""
    parser.add_argument("directory", nargs="?", metavar="DIR", help="a dump")
    parser.add_argument("-d", dest="dump", metavar="DIR", help="the same, as in the vendor's tool")
    parser.add_argument("-o", "-out", "--out", metavar="OUT", help="folder for JSON, npy and overflow_summary_TIME.txt")
    parser.add_argument(
        "-n", dest="first", type=int, default=1, metavar="N", help="with --out: overflow files to write, 1 to 5"
    )
    parser.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Find, print, write; return the exit code."""
    if (parsed.directory is None) == (parsed.dump is None):
        raise ConfigError("give one dump: msdump overflow DIR")
    if not 1 <= parsed.first <= 5:
        raise ConfigError(f"-n {parsed.first}: give a number from 1 to 5")
    allowed = bool(parsed.msdump_allow_incomplete)
    progress = Progress("msdump overflow", quiet=parsed.quiet)
    with progress.step("indexing"):
        dump = index(as_path(parsed.directory or parsed.dump), allow_incomplete=allowed)
    found = find_overflows(dump, watch=progress)
    say = phrases(parsed)
    print_lines(_lines(found, say))
    if parsed.out is not None:
        # Local time without a zone, as the vendor's file names have it.
        files = write_overflow_files(found, Path(parsed.out), first=parsed.first, now=datetime.now())
        print_lines([say("wrote_files", n=len(files), place=parsed.out)])
    return int(not found.is_clean)


def _lines(found: Overflows, say: Phrases) -> Iterator[str]:
    """Yield all lines: counts, origins, propagated overflows, reports that belong to no dumped operator."""
    dump = found.dump
    yield say("about_dump", command="msdump overflow", directory=str(dump.root), reader=dump.reader)
    yield from _counts(found, say)
    for note in dump.notes:
        yield f"  {say.of(message_of_note(note))}"
    operators = sorted(found.operators, key=lambda operator: (_ORDER.index(operator.role), operator.order))
    for operator in operators[:_MOST_SHOWN]:
        yield ""
        yield from _operator(operator, _total(found), say)
    if len(operators) > _MOST_SHOWN:
        yield ""
        yield say("and_more_operators", n=len(operators) - _MOST_SHOWN)
    for report in found.unplaced:
        entry = report.entry
        yield ""
        about = {"task": entry.task_id, "stream": entry.stream_id, "unit": entry.unit, "words": entry.words}
        yield titled(say("overflow_not_dumped"), say("overflow_task", **about), _MARGIN)
        yield titled("", say("overflow_alone", file=str(report.file.path)), _MARGIN)
    for name, problem in found.unreadable:
        yield ""
        yield titled(say("unreadable"), problem if problem.startswith(name) else f"{name}: {problem}", _MARGIN)


def _counts(found: Overflows, say: Phrases) -> Iterator[str]:
    operators, files = len(found.operators), len(found.files)
    origins = sum(operator.role == "origin" for operator in found.operators)
    if not operators:
        yield f"  {say('overflow_none')}"
    else:
        yield f"  {say('overflow_count', n=operators, operators=_total(found), origins=origins)}"
    entries = sum(entry.is_overflow for file in found.files for entry in file.entries)
    if files:
        yield f"  {say('overflow_device', n=entries, files=files)}"


def _total(found: Overflows) -> int:
    return len({ref.key.op for ref in found.dump.refs})


def _operator(operator: OperatorOverflow, total: int, say: Phrases) -> Iterator[str]:
    op = operator.op
    yield titled(say(f"overflow_{operator.role}"), op.label + (f"  ({op.op_type})" if op.op_type else ""), _MARGIN)
    where = where_text(op.at)
    place, why = say("nth_operator", place=operator.order + 1, operators=total), say(f"is_overflow_{operator.role}")
    yield titled("", say.joined(filter(None, (place, where, why)), "between_clauses"), _MARGIN)
    line = next((ref.line for ref, _ in operator.tensors if ref.line is not None), None)
    if line is not None:
        yield from frame_lines(line, _WIDTH, indent=_MARGIN)
    for report in operator.reported:
        yield titled("", say.of(report.entry.message), _MARGIN)
    for ref, side in operator.tensors:
        yield titled("", f"{ref.key.io}:{ref.key.slot}  {say.of(side.overflow)}", _MARGIN)
    if operator.tensors:
        yield titled("", str(operator.tensors[0][0].source.path), _MARGIN)
