"""``msdump convert … --to dump``: arrays, or tensors of any dump, into binary dump files of a device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, MsdumpError

if TYPE_CHECKING:
    from pytest_msdump.converting.arrays_to_dumps import Said
    from pytest_msdump.converting.dump_names import DumpPlan
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
    from pytest_msdump.converting.dump_names import Source, fitting_names, plan_dumps
    from pytest_msdump.pipeline.opening import open_view

    said = _said(parsed)
    tensors = [Source(tensor.ref, file.name, file.folder) for file in sources for tensor in file.tensors]
    plans, others = plan_dumps(tensors, parsed.kind)
    left_out = sorted({*others, *(path.name for path in unexplained)})
    if not plans:
        example = f", e.g. {left_out[0]}" if left_out else ""
        raise ConfigError(f"no name tells a dump file{example}; give {fitting_names(parsed.kind)}, see msdump rename")
    out = Path(parsed.out)
    _check(plans, out)
    written, failed = [], []
    for plan in plans:
        remove_leftovers((out / plan.path).parent)
        try:
            written.append(write_planned(plan, out, open_view, said=said))
        except (MsdumpError, OSError, MemoryError) as error:
            failed.append(f"{plan.path}: {error or 'there is not enough memory'}")
    if left_out:
        _say(f"left out, of other names: {_files(len(left_out))}, e.g. {left_out[0]}")
    _say_some(failed)
    print(f"wrote {len(written)} of {_files(len(plans))} into {out}")  # noqa: T201 - what was done
    return int(bool(failed))


def _said(parsed: argparse.Namespace) -> Said:
    from pytest_msdump.converting.arrays_to_dumps import Said
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
        wanted=parsed.memory_format,
        converters=converters,
    )


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise ConfigError(f"--shape {text}: give lengths separated by commas, e.g. 2,19,5,7")
    return tuple(int(part) for part in parts)


def _check(plans: Iterable[DumpPlan], out: Path) -> None:
    """Refuse a target that is one of the sources."""
    for plan in plans:
        target = out / plan.path
        if target.exists() and any(target.samefile(source.ref.source.path) for _, source in plan.parts):
            raise ConfigError(f"--out {out}: {plan.path} there is what is to be converted; name another folder")


def _say_some(failed: Sequence[str]) -> None:
    for reason in failed[:_TOLD]:
        _say(f"FAILED {reason}")
    if len(failed) > _TOLD:
        _say(f"FAILED {len(failed) - _TOLD} more")


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _say(sentence: str) -> None:
    from pytest_msdump.reporting.numbers import one_line_text

    print(one_line_text(f"msdump convert: {sentence}"), file=sys.stderr)  # noqa: T201 - a command talks
