"""``python -m pytest_msdump.compat.shape_conversion -i FILE -format FORMAT -o DIR …``: the older script's command line.

References: Ascend "Accuracy Comparison Tool", "How Do I Convert the Format of a Dump File?", the script
``shape_conversion.pyc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from pytest_msdump.capabilities.arrays.writer import remove_leftovers, write_view
from pytest_msdump.capabilities.ascend.dump_file import open_part, read_header
from pytest_msdump.capabilities.compat.arguments import Arguments, Flag, Grammar, output_folder, run_program, say
from pytest_msdump.capabilities.convert.formats import Converted, convert_shape, header_format
from pytest_msdump.core.dumps.array_reader import StoredView
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.escape import shell_line, terminal_text
from pytest_msdump.core.layouts.converters import Converters, load_converters

_PROGRAM = "shape_conversion"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Write one tensor of a dump file in another memory format: FILE.output.K.1x3x224x224.npy. "
    "Exit code 0: done; 1: the tensor cannot be read, or not be brought to the format; 4: usage error.",
    flags=(
        Flag(("-i",), "file", "a dump file", "FILE", required=True),
        Flag(("-format",), "format", "memory format to bring it to, e.g. NCHW", "FORMAT", required=True),
        Flag(("-o",), "out", "folder for the array", "DIR", required=True),
        Flag(("-shape",), "shape", "of the tensor without padding, e.g. 37,21; the header's by default", "SHAPE"),
        Flag(("-tensor",), "tensor", "output or input; output by default", "IO"),
        Flag(("-index",), "index", "number of the tensor; 0 by default", "K"),
        Flag(("-custom",), "custom", "folder above format_convert; runs your code in it", "DIR"),
    ),
)

_KINDS = ("output", "input")


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    wanted, shape = header_format(arguments.values["format"]), _shape(arguments.get("shape"))
    path = Path(arguments.values["file"])
    io, index = _which(arguments)
    with closing(_opened(path, io, index)) as view:
        converters = _converters(arguments.get("custom"))
        done = convert_shape(view, wanted, shape=shape, converters=converters)
        folder = output_folder(arguments.values["out"], flag="-o")
        remove_leftovers(folder)
        lengths = "x".join(map(str, done.view.shape))
        name = ".".join([path.name, io, str(index), *([lengths] if lengths else []), "npy"])
        print(terminal_text(str(write_view(done.view, folder / name))))  # noqa: T201 - the result
    _say_how(arguments, done, f"*:{io}:{index}")
    return 0


def _which(arguments: Arguments) -> tuple[str, int]:
    io, number = arguments.get("tensor") or "output", arguments.get("index") or "0"
    if io not in _KINDS:
        raise UnknownNameError(f"-tensor {io}: is not a kind of tensor; {nearest(io, _KINDS)}")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise ConfigError(f"-index {number}: give the number of a tensor, from 0")
    return io, int(number)


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    lengths = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 19]
    if len(lengths) != len(parts) or 0 in lengths:
        raise ConfigError(f"-shape {text}: give lengths greater than 0, separated by commas, e.g. 1,3,224,224")
    return tuple(lengths)


def _opened(path: Path, io: str, index: int) -> StoredView:
    if not path.is_file():
        raise ConfigError(f"-i {path}: no such file; give one dump file")
    header, *_ = read_header(path)
    numbers = {(one.io, one.slot): number for number, one in enumerate(header.tensors)}
    if (io, index) not in numbers:
        known = ", ".join(f"{kind} {slot}" for kind, slot in numbers) or "none"
        raise ConfigError(f"-index {index}: {path} has no {io} {index}; it has: {known}")
    return open_part(path, numbers[io, index])


def _converters(custom: str | None) -> Converters:
    if custom is None:
        return {}
    converters, files = load_converters(Path(custom))
    say(_PROGRAM, f"ran user code: {', '.join(map(str, files))}" if files else f"-custom {custom}: holds no conversion")
    return converters


def _say_how(arguments: Arguments, done: Converted, glob: str) -> None:
    """Say how the new command is spelled, and what the name of the file does not show."""
    words = ["msdump", "convert", arguments.values["file"], "--out", arguments.values["out"]]
    words += ["--memory-format", done.wanted, "--select", glob]
    for name, flag in (("shape", "--shape"), ("custom", "--code")):
        if name in arguments:
            words += [flag, arguments.values[name]]
    if done.source == done.wanted:
        say(_PROGRAM, f"the tensor is in {done.wanted} already: it was copied as it is, padding and all")
    if done.with_padding:
        say(_PROGRAM, f"whole blocks of channels were kept; without the padding: {shell_line(words)}")
    else:
        say(_PROGRAM, f"the same as: {shell_line(words)}")


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
