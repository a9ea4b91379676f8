"""``python -m pytest_msdump.compat.msaccucmp convert -d FILE|DIR|A,B -out DIR …``: the newer script's command line.

References
----------
Ascend "Accuracy Comparison Tool", ``msaccucmp.py convert``, release 26.2.0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.cli import convert
from pytest_msdump.compat.arguments import Arguments, Flag, Grammar
from pytest_msdump.compat.batch import said
from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.escape import shell_line

__all__ = ["GRAMMAR", "run_convert"]

GRAMMAR = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp convert",
    summary="Write the tensors of dump files into arrays. Exit code 0: all converted; 1: something could not be, see "
    "convert_failed_file_list.txt; 4: usage error.",
    flags=(
        Flag(("-d", "--dump_path"), "dump", "a file, a folder, or files separated by commas", "PATH", True, True),
        Flag(("-out", "--output"), "out", "folder for the files; the current one by default", "DIR"),
        Flag(("-t", "--type"), "type", "npy, msnpy or bin; npy by default", "KIND"),
        Flag(("-f", "--format"), "format", "memory format to bring tensors to, e.g. NCHW", "FORMAT"),
        Flag(("-s", "--shape"), "shape", "of the tensor without padding, e.g. 2,19,5,7; of one file", "SHAPE", True),
        Flag(("-o", "--output_tensor"), "output", "only the output of this number; of one file", "K"),
        Flag(("-i", "--input_tensor"), "input", "only the input of this number; of one file", "K"),
        Flag(("-c", "--custom_script_path"), "custom", "folder above format_convert; your code in it is run", "DIR"),
        Flag(("-v", "--version"), "version", "accepted for old scripts; dump files tell what they are", "N"),
    ),
    refused={},
)

_KINDS = ("npy", "msnpy", "bin")
_ONE_FILE = {"shape": "-s", "output": "-o", "input": "-i"}


def run_convert(program: str, words: Sequence[str]) -> int:
    """Run the command line as ``msdump convert`` does, and say how that is typed; return the exit code.

    Raises
    ------
    ConfigError
        A wrong option, no such file, or nothing that could be converted.
    """
    arguments = GRAMMAR.parse(words)
    if "version" in arguments:
        said(program, "-v changes nothing: dump files tell what they are")
    options = _options(program, arguments)
    code = convert.run(argparse.Namespace(**options, msdump_allow_incomplete=None, quiet=False))
    said(program, f"the same as: {shell_line(_new_spelling(options))}")
    return code


def _options(program: str, arguments: Arguments) -> dict[str, object]:
    """Return what ``msdump convert`` would have read from its own command line."""
    sources = _sources(arguments.values["dump"])
    kind = arguments.get("type") or "npy"
    if kind == "pt":
        raise ConfigError("-t pt: a PyTorch file is a pickle, which is never written; take npy and torch.from_numpy")
    if kind not in _KINDS:
        raise UnknownNameError(f"-t {kind}: is not known; {nearest(kind, _KINDS)}")
    one_file = len(sources) == 1 and not Path(sources[0]).is_dir()
    for name, flag in _ONE_FILE.items():
        if name in arguments and not one_file:
            said(program, f"{flag} is left out: it is for one file, and {arguments.values['dump']} is more")
    return {
        "sources": sources,
        "out": arguments.get("out") or ".",
        "to": kind,
        "memory_format": arguments.get("format"),
        "from_format": None,
        "shape": arguments.get("shape") if one_file else None,
        "select": _selected(arguments) if one_file else [],
        "io": "all",
        "code": arguments.get("custom"),
        "jobs": None,
    }


def _sources(text: str) -> list[str]:
    if Path(text).exists():
        return [text]
    return [part for part in text.split(",") if part] or [text]


def _selected(arguments: Arguments) -> list[str]:
    globs = []
    for name in ("output", "input"):
        number = arguments.get(name)
        if number is None:
            continue
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise ConfigError(f"{_ONE_FILE[name]} {number}: give the number of a tensor, from 0")
        globs.append(f"*:{name}:{int(number)}")
    return globs


def _new_spelling(options: dict[str, object]) -> list[str]:
    sources, globs = options["sources"], options["select"]
    words = ["msdump", "convert", *(sources if isinstance(sources, list) else []), "--out", str(options["out"])]
    if options["to"] != "npy":
        words += ["--to", str(options["to"])]
    for name in ("memory_format", "shape", "code"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    for glob in globs if isinstance(globs, list) else []:
        words += ["--select", glob]
    return words
