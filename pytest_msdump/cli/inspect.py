"""``msdump inspect``: what is in a dump or a file, what a line of the program made, what looks wrong by itself."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.cli.output import Progress, add_quiet
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import printed_json, terminal_lines, terminal_text
from pytest_msdump.settings import ALLOW_INCOMPLETE, argparse_kwargs

if TYPE_CHECKING:
    from pytest_msdump.model.dump import Dump

__all__ = ["DESCRIPTION", "HELP", "NAME", "add_arguments", "run"]

NAME = "inspect"
HELP = "look into one dump or file, from a line of the program to its operators and back, and check it by itself"
DESCRIPTION = (
    "Without options: what is in a dump (operators, coordinates, sizes, what is odd) or in a file (kind, header, type, "
    "shapes, statistics, a histogram, the operator and the line that made it). Exit code 0; 1 when something cannot be "
    "read, a check hits, or tensors and their statistics differ; 4 for a usage error."
)

_NARROWEST = 60
_WITHOUT_TERMINAL = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to look at, and how to tell it."""
    parser.add_argument("target", metavar="PATH", help="a dump, or one file of it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--line",
        metavar="FILE:LINE",
        help="operators that a line of the program made; a piece of its code will do, too",
    )
    what.add_argument(
        "--check", action="store_true", help="check the dump by itself: NaN, zeros, weights that stand still"
    )
    what.add_argument(
        "--verify", action="store_true", help="hold tensors against the statistics that their run saved of them"
    )
    what.add_argument(
        "--save-txt",
        metavar="OUT",
        help="write the tensors of the file as text, one value a line: to OUT if it ends in .txt, else to OUT/NAME.txt",
    )
    parser.add_argument(
        "--check-set",
        action="append",
        default=[],
        metavar="CHECK.PARAMETER=NUMBER",
        help="with --check: a threshold, e.g. weight_not_changed.rtol=1e-4, or CHECK=on|off; repeatable",
    )
    parser.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph kept outside of the dump; repeatable"
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="the dump that the file is in, where the file's own directory does not tell it all",
    )
    parser.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    parser.add_argument("--txt-header", action="store_true", help="with --save-txt: shape and dtype in a line with #")
    parser.add_argument(
        "--bins", type=int, default=10, metavar="N", help="bars of a file's histogram, 1 to 100 (default: 10)"
    )
    parser.add_argument("--all", action="store_true", dest="everything", help="list everything, however long it gets")
    parser.add_argument("--json", action="store_true", help="print JSON, in which NaN and infinities are strings")
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Look, tell; return the exit code."""
    from pytest_msdump.comparison.indexing import listed
    from pytest_msdump.comparison.opening import as_path

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
    return _file(target, parsed) if target.is_file() else _survey(target, parsed)


def _indexed(target: Path, parsed: argparse.Namespace) -> Dump:
    from pytest_msdump.comparison.indexing import index

    graphs = [Path(name) for name in parsed.graph]
    return index(target, graph_files=graphs, allow_incomplete=bool(parsed.msdump_allow_incomplete))


def _survey(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli import inspect_json, inspect_text
    from pytest_msdump.inspect.survey import survey

    found = survey(_indexed(target, parsed))
    _tell(
        parsed,
        lambda: inspect_json.survey_entry(found),
        lambda width: inspect_text.survey_lines(found, width=width, everything=parsed.everything),
    )
    return int(bool(found.unreadable) or not found.dump.refs)


def _file(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli import inspect_file_text, inspect_json
    from pytest_msdump.inspect.file import inspect_file

    root = Path(parsed.root) if parsed.root else None
    found = inspect_file(target, bins=parsed.bins, graph_files=[Path(name) for name in parsed.graph], root=root)
    _tell(
        parsed,
        lambda: inspect_json.file_entry(found),
        lambda width: inspect_file_text.file_lines(found, width=width, everything=parsed.everything),
    )
    return int(not found.is_readable)


def _line(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli import inspect_json, inspect_text
    from pytest_msdump.comparison.placing import operators_of_line

    dump = _indexed(target if target.is_dir() else target.parent, parsed)
    found = operators_of_line(dump, parsed.line)
    _tell(
        parsed,
        lambda: inspect_json.line_entry(dump, parsed.line, found),
        lambda width: inspect_text.line_lines(dump, parsed.line, found, width=width, everything=parsed.everything),
    )
    return 0


def _check(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli import inspect_json
    from pytest_msdump.inspect.check_text import check_lines
    from pytest_msdump.inspect.checks import check_dump
    from pytest_msdump.inspect.hits import parse_settings

    progress = Progress("msdump inspect", quiet=parsed.quiet)
    checked = check_dump(_indexed(target, parsed), parse_settings(parsed.check_set), watch=progress)
    _tell(
        parsed,
        lambda: inspect_json.check_entry(checked),
        lambda width: check_lines(checked, width=width, everything=parsed.everything),
    )
    return int(not checked.is_clean)


def _verify(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli import inspect_text

    found = inspect_text.verified(_indexed(target, parsed))
    _tell(
        parsed,
        lambda: inspect_text.verify_entry(found),
        lambda width: inspect_text.verify_lines(found, width=width, everything=parsed.everything),
    )
    return int(not found.is_clean)


def _save(target: Path, parsed: argparse.Namespace) -> int:
    from pytest_msdump.cli.inspect_file_text import save_text

    if not target.is_file():
        raise ConfigError(f"--save-txt: {target} is no file; give one tensor file")
    for path in save_text(target, Path(parsed.save_txt), with_header=parsed.txt_header):
        print(terminal_text(str(path)))  # noqa: T201 - what the command is for
    return 0


def _tell(parsed: argparse.Namespace, entry: Any, lines: Any) -> None:
    """Print JSON or text, whichever was asked for; only that one is made."""
    if parsed.json:
        print(printed_json(entry()))  # noqa: T201 - what the command is for
        return
    width = max(_NARROWEST, shutil.get_terminal_size((_WITHOUT_TERMINAL, 24)).columns)
    told: Iterable[str] = lines(width)
    for line in told:
        print(terminal_lines(line))  # noqa: T201 - as above
