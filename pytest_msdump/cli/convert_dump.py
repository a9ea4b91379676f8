"""``msdump convert … --to dump``: arrays, or tensors of any dump, into binary dump files of a device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text

if TYPE_CHECKING:
    from pytest_msdump.converting.arrays_to_dumps import Said
    from pytest_msdump.converting.dump_names import DumpPlan
    from pytest_msdump.converting.one_file import Outcome
    from pytest_msdump.converting.sources import SourceFile

__all__ = ["add_dump_arguments", "refuse_dump_arguments", "to_dumps"]

# As of `converting.dump_names.KINDS`, which loads what a command line that converts nothing does not need.
_KINDS = ("caffe", "tf", "quant", "offline", "sim")
_ONLY_HERE = {"kind": "--kind", "dtype": "--dtype", "groups": "--groups"}
_TOLD = 5


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what only dump files need to be told."""
    parser.add_argument(
        "--kind", choices=_KINDS, help="with --to dump: whose files; by the names of the arrays by default"
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
    from pytest_msdump.converting.array_files import remove_leftovers
    from pytest_msdump.converting.arrays_to_dumps import write_planned
    from pytest_msdump.converting.dump_names import Source, plan_dumps
    from pytest_msdump.converting.one_file import Outcome
    from pytest_msdump.converting.side_files import write_failed_list
    from pytest_msdump.pipeline.opening import open_view

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
    return _told(outcomes, write_failed_list(outcomes, out), out)


def _told(outcomes: Sequence[Outcome], failed_list: Path | None, out: Path) -> int:
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
    from pytest_msdump.converting.arrays_to_dumps import Said
    from pytest_msdump.converting.formats import known_format
    from pytest_msdump.memory_formats.custom import load_converters

    if parsed.groups is not None and not 1 <= parsed.groups < 2**31:
        raise ConfigError(f"--groups {parsed.groups}: give a number from 1 on")
    converters, files = load_converters(Path(parsed.code)) if parsed.code is not None else ({}, ())
    if files:
        _say(f"ran user code: {', '.join(map(str, files))}")
    return Said(
        dtype=parsed.dtype,
        memory_format=parsed.from_format,
        shape=None if parsed.shape is None else _shape(parsed.shape),
        groups=parsed.groups,
        wanted=parsed.memory_format and known_format(parsed.memory_format, flag="--memory-format"),
        converters=converters,
    )


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise ConfigError(f"--shape {text}: give lengths separated by commas, e.g. 2,19,5,7")
    return tuple(int(part) for part in parts)


def _check(parsed: argparse.Namespace, plans: Sequence[DumpPlan], left_out: Sequence[str]) -> None:
    """Refuse what cannot be meant: nothing to write, one shape for many files, a target that is one of the sources."""
    from pytest_msdump.converting.dump_names import fitting_names

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
