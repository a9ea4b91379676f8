"""``python -m pytest_msdump.compat.dump_data_conversion -type KIND -target dump|numpy -i PATH -o DIR``.

References: Ascend "Accuracy Comparison Tool", "How Do I Convert an .npy File into a Dump File?", the script
``dump_data_conversion.pyc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pytest_msdump.capabilities.compat.arguments import Flag, Grammar, run_msdump, run_program
from pytest_msdump.capabilities.convert import command as convert
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest

_PROGRAM = "dump_data_conversion"
_ARRAY = ".npy"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Write dump files of arrays, or arrays of dump files. "
    "Exit code 0: all converted; 1: something could not be; 4: usage error.",
    flags=(
        Flag(("-type",), "type", "whose data: caffe, tf, quant, offline or sim", "KIND", required=True),
        Flag(("-target",), "target", "dump or numpy: what to write", "TARGET", required=True),
        Flag(("-i",), "source", "a file, or a folder", "PATH", required=True),
        Flag(("-o",), "out", "folder for the files", "DIR", required=True),
    ),
)

_TYPES = ("caffe", "tf", "quant", "offline", "sim")
_TARGETS = ("dump", "numpy")


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    kind, target = arguments.values["type"], arguments.values["target"]
    for flag, word, known in (("-type", kind, _TYPES), ("-target", target, _TARGETS)):
        if word not in known:
            raise UnknownNameError(f"{flag} {word}: is not known; {nearest(word, known)}")
    source, out = arguments.values["source"], arguments.values["out"]
    if Path(source).is_file() and (Path(source).suffix == _ARRAY) != (target == "dump"):
        raise ConfigError(f"-i {source}: -target dump reads {_ARRAY} files, -target numpy dump files")
    more = [("--to", "dump"), ("--kind", kind)] if target == "dump" else []
    return run_msdump(_PROGRAM, convert, "convert", [source], [("--out", out), *more])


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
