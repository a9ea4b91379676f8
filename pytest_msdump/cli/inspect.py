"""``msdump inspect``: what is in a dump or a file, what a line of the program made, what looks wrong by itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_msdump.cli import inspect_json, inspect_text
from pytest_msdump.cli.output import Progress, add_quiet, print_lines, terminal_width
from pytest_msdump.comparison.graph_operators import operators_of_line
from pytest_msdump.comparison.indexing import index, listed, names_arrays
from pytest_msdump.comparison.opening import as_path, open_logical
from pytest_msdump.dumps.array_files import file_name_of, is_named_array
from pytest_msdump.dumps.array_writer import text_bytes, whole_file
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import printed_json, terminal_lines
from pytest_msdump.inspect.check_text import check_lines, verify_lines
from pytest_msdump.inspect.checks import check_dump
from pytest_msdump.inspect.file import inspect_file, tensors_of
from pytest_msdump.inspect.hits import parse_settings
from pytest_msdump.inspect.survey import survey
from pytest_msdump.inspect.verify import verify
from pytest_msdump.model.dump import Dump
from pytest_msdump.settings import ALLOW_INCOMPLETE, argparse_kwargs

__all__ = ["DESCRIPTION", "add_arguments", "run"]

DESCRIPTION = (
    "Without options: what is in a dump (operators, coordinates, sizes, what is odd) or in a file (kind, header, type, "
    "shapes, statistics, a histogram, the operator and the line that made it). Exit code 0; 1 when something cannot be "
    "read, a check hits, or tensors and their statistics differ; 4 for a usage error."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to look at, and what to print of it."""
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
    return _file(target, parsed) if target.is_file() and not names_arrays(target) else _survey(target, parsed)


def _indexed(target: Path, parsed: argparse.Namespace) -> Dump:
    graphs = [Path(name) for name in parsed.graph]
    return index(target, graph_files=graphs, allow_incomplete=bool(parsed.msdump_allow_incomplete))


def _survey(target: Path, parsed: argparse.Namespace) -> int:
    found = survey(_indexed(target, parsed))
    _print(
        parsed,
        lambda: inspect_json.survey_entry(found),
        lambda width: inspect_text.survey_lines(found, width=width, everything=parsed.everything),
    )
    return int(bool(found.unreadable) or not found.dump.refs)


def _file(target: Path, parsed: argparse.Namespace) -> int:
    root = Path(parsed.root) if parsed.root else None
    found = inspect_file(target, bins=parsed.bins, graph_files=[Path(name) for name in parsed.graph], root=root)
    _print(
        parsed,
        lambda: inspect_json.file_entry(found),
        lambda width: inspect_text.file_lines(found, width=width, everything=parsed.everything),
    )
    return int(not found.is_readable)


def _line(target: Path, parsed: argparse.Namespace) -> int:
    dump = _indexed(target if target.is_dir() else target.parent, parsed)
    found = operators_of_line(dump, parsed.line)
    _print(
        parsed,
        lambda: inspect_json.line_entry(dump, parsed.line, found),
        lambda width: inspect_text.line_lines(dump, parsed.line, found, width=width, everything=parsed.everything),
    )
    return 0


def _check(target: Path, parsed: argparse.Namespace) -> int:
    progress = Progress("msdump inspect", quiet=parsed.quiet)
    checked = check_dump(_indexed(target, parsed), parse_settings(parsed.check_set), watch=progress)
    _print(
        parsed,
        lambda: inspect_json.check_entry(checked),
        lambda width: check_lines(checked, width=width, everything=parsed.everything),
    )
    return int(not checked.is_clean)


def _verify(target: Path, parsed: argparse.Namespace) -> int:
    found = verify(_indexed(target, parsed))
    _print(
        parsed,
        lambda: inspect_json.verify_entry(found),
        lambda width: verify_lines(found, width=width, everything=parsed.everything),
    )
    return int(not found.is_clean)


def _save(target: Path, parsed: argparse.Namespace) -> int:
    if not target.is_file():
        raise ConfigError(f"--save-txt: {target} is no file; give one tensor file")
    print_lines(map(str, save_text(target, Path(parsed.save_txt), with_header=parsed.txt_header)))
    return 0


def save_text(path: Path, out: Path, *, with_header: bool = False) -> Iterator[Path]:
    """Write every tensor of a file as text, in C order of its logical shape, and yield the files written.

    `out` is a file when it ends in ``.txt`` and is no folder, else a folder. Each value is written as ``%.18e``, which
    restores every float; integers are exact up to 2**53. `with_header` puts shape and type into a first line that
    begins with ``#``, which `numpy.loadtxt` skips.
    """
    _, refs = tensors_of(path)
    if not refs:
        raise ConfigError(f"{path}: holds no tensor that could be written as text")
    is_file = out.suffix.lower() == ".txt" and not out.is_dir()
    if is_file and len(refs) > 1:
        raise ConfigError(f"{out}: is one file, and {path.name} holds {len(refs)} tensors; name a folder")
    folder = out.parent if is_file else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{folder}: cannot be made: {error.strerror or error}; name another folder") from error
    written: set[Path] = set()
    for ref in refs:
        name = path.stem if path.suffix == ".npy" else f"{path.name}.{ref.key.io}.{ref.key.slot}"
        name = file_name_of(ref) if is_named_array(ref) else name
        target = out if is_file else out / f"{name}.txt"
        if target in written:
            raise MsdumpError(f"{target}: two arrays of {path} would be written there; convert one with --select")
        written.add(target)
        with closing(open_logical(ref)) as view, whole_file(target) as stream:
            stream.writelines(text_bytes(view, with_header=with_header))
        yield target


def _print(
    parsed: argparse.Namespace, entry: Callable[[], dict[str, Any]], lines: Callable[[int], Iterable[str]]
) -> None:
    """Print JSON or text of a width, whichever was asked for; only that one is made."""
    if parsed.json:
        print(printed_json(entry()))
        return
    for line in lines(terminal_width(100, least=60)):
        print(terminal_lines(line))
