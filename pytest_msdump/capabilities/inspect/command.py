"""``msdump inspect``: what is in a dump or a file, what a line of the program made, what looks wrong by itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.convert.one_file import save_text
from pytest_msdump.capabilities.graphs.operators import operators_of_line
from pytest_msdump.capabilities.inspect import command_text as inspect_text
from pytest_msdump.capabilities.inspect.checks import check_dump, parse_settings
from pytest_msdump.capabilities.inspect.command_text import check_lines, verify_lines
from pytest_msdump.capabilities.inspect.entries import check_entry, file_entry, line_entry, survey_entry, verify_entry
from pytest_msdump.capabilities.inspect.file import (
    inspect_file,
    tensors_of,
)
from pytest_msdump.capabilities.inspect.survey import survey, verify
from pytest_msdump.cli.output import Outcome, add_quiet, argument_groups, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.opening import as_path, index, listed
from pytest_msdump.core.dumps.base import is_whole_dump
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import ALLOW_INCOMPLETE, argparse_kwargs

DESCRIPTION = (
    "Without options: what is in a dump (operators, coordinates, sizes, what is odd) or in a file (kind, header, type, "
    "shapes, statistics, a histogram, the operator and the line that made it). Exit code 0; 1 when something cannot be "
    "read, a check hits, or tensors and their statistics differ; 4 for a usage error."
)
EXAMPLES = ("msdump inspect run", "msdump inspect a.npy", "msdump inspect run --check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to look at, and what to print of it."""
    inputs, modes, output = argument_groups(parser, ("inputs", "what to do", "output")).values()
    inputs.add_argument("target", metavar="PATH", help="a dump, or one file of it")
    what = modes.add_mutually_exclusive_group()
    what.add_argument(
        "--line",
        metavar="FILE:LINE",
        help="operators made by a line of the program, given as FILE:LINE or as a piece of code",
    )
    what.add_argument(
        "--check", action="store_true", help="check the dump by itself: NaN, zeros, weights that do not change"
    )
    what.add_argument("--verify", action="store_true", help="compare tensors with the statistics that their run saved")
    what.add_argument(
        "--save-txt",
        metavar="OUT",
        help="write the tensors of the file as text, one value a line: to OUT if it ends in .txt, else to OUT/NAME.txt",
    )
    modes.add_argument(
        "--check-set",
        action="append",
        default=[],
        metavar="CHECK.PARAMETER=NUMBER",
        help="with --check: a threshold, e.g. weight_not_changed.rtol=1e-4, or CHECK=on|off; repeatable",
    )
    inputs.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph outside of the dump; repeatable"
    )
    inputs.add_argument(
        "--root", metavar="DIR", help="the dump that the file belongs to, if the file's own folder is not enough"
    )
    inputs.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    modes.add_argument("--txt-header", action="store_true", help="with --save-txt: shape and dtype in a line with #")
    output.add_argument(
        "--bins", type=int, default=10, metavar="N", help="bars of a file's histogram, 1 to 100 (default: 10)"
    )
    output.add_argument("--all", action="store_true", dest="everything", help="list everything, however long")
    add_quiet(output, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Look and print; return the exit code."""
    target = listed(as_path(parsed.target))
    if not 1 <= parsed.bins <= 100:
        raise ConfigError(f"--bins {parsed.bins}: give a number from 1 to 100")
    if parsed.check_set and not parsed.check:
        raise ConfigError("--check-set sets thresholds of --check; give that, too")
    if parsed.root and not target.is_file():
        raise ConfigError("--root says which dump a file is in; with a dump, give only that")
    if parsed.txt_header and parsed.save_txt is None:
        raise ConfigError("--txt-header is about --save-txt OUT; give that, too")
    for option, runs in (("line", _line), ("check", _check), ("verify", _verify), ("save_txt", _save)):
        if getattr(parsed, option):
            return runs(target, parsed)
    return _survey(target, parsed) if is_whole_dump(target) else _file(target, parsed)


def _indexed(target: Path, parsed: argparse.Namespace, progress: Progress | None = None) -> Dump:
    graphs = [Path(name) for name in parsed.graph]
    with (progress or Progress("msdump inspect", quiet=parsed.quiet)).step("indexing"):
        return index(target, graph_files=graphs, allow_incomplete=bool(parsed.msdump_allow_incomplete))


def _survey(target: Path, parsed: argparse.Namespace) -> int:
    progress = Progress("msdump inspect", quiet=parsed.quiet)
    found = survey(_indexed(target, parsed, progress), watch=progress)
    return _told(
        parsed, int(bool(found.unreadable) or not found.dump.refs), survey_entry, inspect_text.survey_lines, found
    )


def _file(target: Path, parsed: argparse.Namespace) -> int:
    root = Path(parsed.root) if parsed.root else None
    with Progress("msdump inspect", quiet=parsed.quiet).step("reading"):
        found = inspect_file(target, bins=parsed.bins, graph_files=[Path(name) for name in parsed.graph], root=root)
    return _told(parsed, int(not found.is_readable), file_entry, inspect_text.file_lines, found)


def _line(target: Path, parsed: argparse.Namespace) -> int:
    dump = _indexed(target if target.is_dir() else target.parent, parsed)
    found = operators_of_line(dump, parsed.line)
    return _told(parsed, 0, line_entry, inspect_text.line_lines, dump, parsed.line, found)


def _check(target: Path, parsed: argparse.Namespace) -> int:
    progress = Progress("msdump inspect", quiet=parsed.quiet)
    checked = check_dump(_indexed(target, parsed, progress), parse_settings(parsed.check_set), watch=progress)
    return _told(parsed, int(not checked.is_clean), check_entry, check_lines, checked)


def _verify(target: Path, parsed: argparse.Namespace) -> int:
    progress = Progress("msdump inspect", quiet=parsed.quiet)
    found = verify(_indexed(target, parsed, progress), watch=progress)
    return _told(parsed, int(not found.is_clean), verify_entry, verify_lines, found)


def _save(target: Path, parsed: argparse.Namespace) -> int:
    if not target.is_file():
        raise ConfigError(f"--save-txt: {target} is not a file; give one tensor file")
    print_lines(
        map(str, save_text(target, tensors_of(target)[1], Path(parsed.save_txt), with_header=parsed.txt_header))
    )
    return 0


def _told(
    parsed: argparse.Namespace,
    code: int,
    entry: Callable[..., dict[str, Any]],
    lines: Callable[..., Iterable[str]],
    *found: object,
) -> Outcome:
    """Print what was found, unless a document is asked for; return the exit code with it."""
    width = terminal_width(100, least=60)
    shown = () if parsed.json else lines(*found, width=width, everything=parsed.everything, say=phrases(parsed))
    for line in shown:
        print(terminal_lines(line))
    return Outcome(code, f"inspect_{entry.__name__.removesuffix('_entry')}", lambda: entry(*found))
