"""``msdump convert SRC… --out OUT``: tensors of dumps become arrays, archives, raw bytes or text, one file each.

``--to dump`` is in `cli.convert`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.cli.output import Progress, add_quiet
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.settings import ALLOW_INCOMPLETE, argparse_kwargs

if TYPE_CHECKING:
    from pytest_msdump.convert.arrays_to_dumps import DumpPlan, Said
    from pytest_msdump.convert.one_file import Outcome, Wishes
    from pytest_msdump.convert.sources import SourceFile
    from pytest_msdump.model.tensor import TensorRef

__all__ = ["add_arguments", "run"]

# As of `convert.arrays_to_dumps.KINDS`, which loads what a command line that converts nothing does not need.
_DUMP_KINDS = ("caffe", "tf", "quant", "offline", "sim")
_ONLY_HERE = {"kind": "--kind", "dtype": "--dtype", "groups": "--groups"}
_TOLD = 5


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what only dump files need to be told."""
    parser.add_argument(
        "--kind", choices=_DUMP_KINDS, help="with --to dump: whose files; by the names of the arrays by default"
    )
    parser.add_argument(
        "--dtype", metavar="TYPE", help="with --to dump: what the elements are where npy cannot say it, e.g. bfloat16"
    )
    parser.add_argument("--groups", type=int, metavar="N", help="with --to dump: groups of a convolution, for weights")


def refuse_dump_arguments(parsed: argparse.Namespace) -> None:
    """Refuse what only dump files have.

    Raises
    ------
    ConfigError
        One of them is there.
    """
    for name, flag in _ONLY_HERE.items():
        if getattr(parsed, name, None) is not None:
            raise ConfigError(f"{flag} is for --to dump; --to {parsed.to} was asked for")


def to_dumps(parsed: argparse.Namespace, sources: Sequence[SourceFile], unexplained: Sequence[Path]) -> int:
    """Write dump files, tell; return the exit code.

    Raises
    ------
    ConfigError
        Nothing can become a dump file, or a dump cannot say what it was told to.
    """
    from pytest_msdump.comparison.opening import open_view
    from pytest_msdump.convert.array_files import remove_leftovers
    from pytest_msdump.convert.arrays_to_dumps import Source, plan_dumps, write_planned
    from pytest_msdump.convert.one_file import Outcome, write_failed_list

    tensors = [Source(tensor.ref, file.name, file.folder) for file in sources for tensor in file.tensors]
    plans, others = plan_dumps(tensors, parsed.kind)
    left_out = sorted({*others, *(path.name for path in unexplained)})
    out = Path(parsed.out)
    _check(parsed, plans, left_out)
    said = _said(parsed)
    _make(out)
    for folder in {(out / plan.path).parent for plan in plans}:
        remove_leftovers(folder)
    outcomes = []
    for plan in plans:
        outcome = Outcome(plan.parts[0][1].ref.source.path)
        try:
            outcome.written.append(write_planned(plan, out, open_view, said=said))
        except (MsdumpError, OSError, MemoryError) as error:
            reason = str(error).removeprefix(f"{outcome.path}: ")
            outcome.failures.append(("", reason or "there is not enough memory"))
        outcomes.append(outcome)
    if left_out:
        _say(f"left out, of other names: {_files(len(left_out))}, e.g. {left_out[0]}")
    return _print_dump_outcomes(outcomes, write_failed_list(outcomes, out), out)


def _print_dump_outcomes(outcomes: Sequence[Outcome], failed_list: Path | None, out: Path) -> int:
    """Say what was done and what was not; return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.failures]
    for outcome in failed[:_TOLD]:
        _say(f"FAILED {outcome.path}: {outcome.failures[0][1]}")
    if failed_list is not None:
        _say(f"{_files(len(failed))} of {len(outcomes)} failed; all reasons are in {failed_list}")
    print(f"wrote {len(outcomes) - len(failed)} of {_files(len(outcomes))} into {terminal_text(str(out))}")  # noqa: T201 - what was done
    return int(bool(failed))


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be made: {error.strerror or error}") from error


def _said(parsed: argparse.Namespace) -> Said:
    from pytest_msdump.convert.arrays_to_dumps import Said
    from pytest_msdump.convert.formats import known_format
    from pytest_msdump.layouts.axes import load_converters

    if parsed.groups is not None and not 1 <= parsed.groups < 2**31:
        raise ConfigError(f"--groups {parsed.groups}: give a number from 1 on")
    converters, files = load_converters(Path(parsed.code)) if parsed.code is not None else ({}, ())
    if files:
        _say(f"ran user code: {', '.join(map(str, files))}")
    return Said(
        dtype=parsed.dtype,
        memory_format=parsed.from_format,
        shape=None if parsed.shape is None else _dump_shape(parsed.shape),
        groups=parsed.groups,
        wanted=parsed.memory_format and known_format(parsed.memory_format, flag="--memory-format"),
        converters=converters,
    )


def _dump_shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise ConfigError(f"--shape {text}: give lengths separated by commas, e.g. 2,19,5,7")
    return tuple(int(part) for part in parts)


def _check(parsed: argparse.Namespace, plans: Sequence[DumpPlan], left_out: Sequence[str]) -> None:
    """Refuse what cannot be meant: nothing to write, one shape for many files, a target that is one of the sources."""
    from pytest_msdump.convert.arrays_to_dumps import fitting_names

    if not plans:
        example = f", e.g. {left_out[0]}" if left_out else ""
        raise ConfigError(f"no name tells a dump file{example}; give {fitting_names(parsed.kind)}, see msdump rename")
    if parsed.shape is not None and len(plans) > 1:
        raise ConfigError(f"--shape is for one file, and there are {len(plans)}")
    if parsed.code is not None and parsed.memory_format is None:
        raise ConfigError("--code says how to bring a tensor to a memory format; give --memory-format, too")
    for plan in plans:
        target = Path(parsed.out) / plan.path
        if target.exists() and any(target.samefile(source.ref.source.path) for _, source in plan.parts):
            raise ConfigError(f"--out {parsed.out}: {plan.path} there is what is to be converted; name another folder")


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _say(sentence: str) -> None:
    print(terminal_text(f"msdump convert: {sentence}"), file=sys.stderr)  # noqa: T201 - a command talks


# -- ``msdump convert SRC… --out OUT`` -------------------------------------------------------------------------------


NAME = "convert"
HELP = "convert dumps to arrays, archives, raw bytes or text, and arrays to dump files"
DESCRIPTION = (
    "Write each tensor of dumps of any format into a file of its own, as it is stored or in another memory format. "
    "Exit code 0: all converted; 1: something could not be, which convert_failed_file_list.txt in OUT tells with the "
    "reasons; 4: usage error."
)

_KINDS = ("npy", "msnpy", "npz", "bin", "txt", "dump")


@dataclass
class _Found:
    """What there is to convert."""

    sources: list[SourceFile] = field(default_factory=list)
    unexplained: list[Path] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to convert, and to what."""
    parser.add_argument("sources", nargs="+", metavar="SRC", help="a dump, or one file of it; repeatable")
    parser.add_argument("--out", required=True, metavar="OUT", help="folder for the files; made when it is not there")
    parser.add_argument("--to", choices=_KINDS, default="npy", help="kind of file; msnpy: npy with MindSpore's names")
    parser.add_argument("--memory-format", metavar="FORMAT", help="e.g. NCHW; by default as stored")
    parser.add_argument(
        "--from-format", metavar="FORMAT", help="what the tensors are in, where their files do not tell"
    )
    parser.add_argument("--shape", metavar="2,19,5,7", help="of one file's tensor in FORMAT, without padding")
    parser.add_argument(
        "--select", action="append", default=[], metavar="GLOB", help="operators or OP:io:slot; repeatable"
    )
    parser.add_argument("--io", choices=("output", "input", "all"), default="all", help="which tensors")
    parser.add_argument("--code", metavar="DIR", help="folder above format_convert; your code in it is run")
    parser.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    add_dump_arguments(parser)
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; chosen by the number of files by default")
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Convert, tell; return the exit code."""
    from pytest_msdump.comparison.opening import open_view
    from pytest_msdump.convert.array_files import remove_leftovers
    from pytest_msdump.convert.one_file import convert_file, write_failed_list, write_mappings
    from pytest_msdump.convert.workers import converted, usual_jobs

    if parsed.jobs is not None and not 1 <= parsed.jobs <= 256:
        raise ConfigError(f"--jobs {parsed.jobs}: give a number from 1 to 256")
    if parsed.to != "dump":
        refuse_dump_arguments(parsed)
    found = _found(parsed)
    if parsed.to == "dump":
        return to_dumps(parsed, found.sources, found.unexplained)
    wishes = _wishes(parsed, found.sources)
    for folder in {wishes.out, *(wishes.out / source.folder for source in found.sources)}:
        remove_leftovers(folder)
    jobs = parsed.jobs or usual_jobs(len(found.sources))
    task = partial(convert_file, wishes=wishes, open_view=open_view)
    progress = Progress("msdump convert", quiet=parsed.quiet)
    outcomes = list(progress(converted(found.sources, task, jobs=jobs), "files", len(found.sources)))
    write_mappings([row for outcome in outcomes for row in outcome.names])
    return _print_outcomes(outcomes, write_failed_list(outcomes, wishes.out), found, wishes.out)


def _found(parsed: argparse.Namespace) -> _Found:
    """Index what was named; refuse what cannot be meant."""
    from pytest_msdump.comparison.indexing import index, listed
    from pytest_msdump.comparison.opening import as_path
    from pytest_msdump.convert.sources import claimed, sources_of
    from pytest_msdump.matching.selection import Chooser, Selection

    selection = Selection(select=tuple(parsed.select), io=parsed.io)
    chooser = Chooser(selection)

    def takes(ref: TensorRef) -> bool:
        return ref.key.io in selection.directions and chooser.takes_ref(ref)

    paths = [listed(as_path(text)) for text in parsed.sources]
    several = sum(path.is_dir() for path in paths) > 1
    _check_out(Path(parsed.out), paths)
    found = _Found()
    for path in paths:
        dump = index(path, allow_incomplete=bool(parsed.msdump_allow_incomplete))
        below = Path(path.resolve().name) if several and path.is_dir() else Path()
        everything = not parsed.select and parsed.io == "all"
        found.sources += sources_of(dump, takes=takes, everything=everything, below=below)
        found.unexplained += [path / name for name in dump.unexplained]
    if not found.sources and (parsed.select or parsed.io != "all"):
        raise ConfigError("nothing was selected; see what there is with msdump inspect, and change --select or --io")
    found.sources = claimed(found.sources, parsed.to)
    return found


def _check_out(out: Path, sources: Iterable[Path]) -> None:
    for source in sources:
        if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
            raise ConfigError(f"--out {out}: lies in {source}, and its files would become part of that dump")


def _wishes(parsed: argparse.Namespace, sources: Sequence[SourceFile]) -> Wishes:
    from pytest_msdump.convert.formats import known_format
    from pytest_msdump.convert.one_file import Wishes

    out = Path(parsed.out)
    shape = None if parsed.shape is None else _shape(parsed.shape)
    if shape is not None and len(sources) > 1:
        raise ConfigError(f"--shape is for one file, and there are {len(sources)}")
    if parsed.memory_format is None and (shape is not None or parsed.code is not None):
        raise ConfigError("--shape and --code say how to bring a tensor to a memory format; give --memory-format, too")
    code = None if parsed.code is None else Path(parsed.code)
    if code is not None:
        _run_code(code)
    wishes = Wishes(
        out=out,
        to=parsed.to,
        memory_format=parsed.memory_format and known_format(parsed.memory_format, flag="--memory-format"),
        from_format=parsed.from_format and known_format(parsed.from_format, flag="--from-format"),
        shape=shape,
        code=code,
        protected=frozenset(_identities(sources, out)),
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be made: {error.strerror or error}") from error
    return wishes


def _run_code(code: Path) -> None:
    """Load a user's conversions, and say which files ran (INTERFACE 8)."""
    from pytest_msdump.layouts.axes import load_converters

    _, files = load_converters(code)
    if not files:
        raise ConfigError(f"--code {code}: holds no format_convert/convert_FROM_to_TO.py; name the folder above it")
    _say(f"ran user code: {', '.join(map(str, files))}")


def _shape(text: str) -> tuple[int, ...]:
    parts = text.replace("x", ",").split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise ConfigError(f"--shape {text}: give lengths separated by commas, e.g. 2,19,5,7")
    return tuple(int(part) for part in parts)


def _identities(sources: Iterable[SourceFile], out: Path) -> Iterator[tuple[int, int]]:
    """Tell the sources that a target could be: those that are in the output folder already."""
    real = out.resolve()
    for source in sources:
        if source.path.resolve().is_relative_to(real) or source.path.parent.resolve().is_relative_to(real):
            there = source.path.stat()
            yield there.st_dev, there.st_ino


def _print_outcomes(outcomes: Sequence[Outcome], failed_list: Path | None, found: _Found, out: Path) -> int:
    """Say what was done and what was not; return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.failures]
    written = sum(len(outcome.written) for outcome in outcomes)
    if found.unexplained:
        _say(f"left out, no dump files: {_files(len(found.unexplained))}, e.g. {min(found.unexplained)}")
    for outcome in failed[:_TOLD]:
        label, reason = outcome.failures[0]
        more = f" (and {len(outcome.failures) - 1} more of this file)" if len(outcome.failures) > 1 else ""
        _say(f"FAILED {outcome.path}: {label + ': ' if label else ''}{reason}{more}")
    if failed_list is not None:
        _say(f"{_files(len(failed))} of {len(outcomes)} failed; all reasons are in {failed_list}")
    done = f"converted {len(outcomes) - len(failed)} of {_files(len(outcomes))}: {_files(written)} in {out}"
    print(terminal_text(done))  # noqa: T201 - what the command is for
    return int(bool(failed) or not written)
