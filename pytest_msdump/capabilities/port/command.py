"""``msdump port --torch FILE:FUNCTION --onnx FILE``: a model in two frameworks, from both to a verdict."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pytest_msdump.capabilities.port.sides import SIDES, Inputs, OnnxSide, Side, draw, read_inputs
from pytest_msdump.capabilities.suggest.init import profile_for
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import add_quiet, add_show, phrases, print_lines
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.model.describe import shape_text
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.storage.files import make_directory
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import Message, say

DESCRIPTION = (
    "Run a model in two frameworks on the same inputs, record both, and compare them. FUNCTION returns the model, or "
    "the model and its inputs; models of PyTorch, Keras and MindSpore are run in evaluation mode. The reference is the "
    "model of PyTorch, else that of Keras, else the ONNX file; of two of one kind the second. "
    "Exit code 0: within limits; 1: something drifted, or nothing pairs; 4: usage error."
)
EXAMPLES = (
    "msdump port --torch net.py:build --onnx net.onnx",
    "msdump port --onnx new.onnx --onnx old.onnx --inputs x.npz --keep ported",
)
_FOLDER, _SUITE = "port", "msdump.toml"
_LEFT, _RIGHT = "run", "reference"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two models, their inputs, and where the dumps go."""
    for side in SIDES:
        metavar = "FILE" if side is OnnxSide else "FILE:FUNCTION"
        parser.add_argument(
            f"--{side.option}", metavar=metavar, action="append", default=[], help=f"a model of {side.title}"
        )
    parser.add_argument(
        "--inputs", metavar="FILE", help="an .npz of named arrays (default: what a FUNCTION returned, else drawn)"
    )
    parser.add_argument("--profile", metavar="NAME", help="named limits (default: as msdump init chooses them)")
    parser.add_argument(
        "--keep", metavar="DIR", help="a new folder for both dumps and the suite (default: in --report-dir)"
    )
    parser.add_argument(
        "--report-dir", default="msdump-report", metavar="DIR", help="for the report (default: %(default)s)"
    )
    add_show(parser)
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Record both, gate them; return the exit code."""
    say_in, progress = phrases(parsed), Progress("msdump port", quiet=parsed.quiet)
    left, right = _sides(parsed)
    directory = _directory(parsed)
    inputs, note = _inputs(parsed, (right, left))
    make_directory(directory)
    suite = directory / _SUITE
    _write_suite(suite, parsed.profile or "default")
    for side, name in ((right, _RIGHT), (left, _LEFT)):
        with progress.step(f"running {side.text}"), _if_drawn(note, inputs):
            side.record(inputs, directory / name)
    planned = _planned(suite, parsed)
    if parsed.profile is None and (profile := profile_for(planned)[0]) != "default":
        _write_suite(suite, profile)
        planned = _planned(suite, parsed)
    files = tuple(dict.fromkeys(side.file for side in (left, right) if not isinstance(side, OnnxSide)))
    planned = replace(
        planned,
        left=replace(planned.left, notes=(*planned.left.notes, say(note))),
        extras=replace(NO_EXTRAS, files=files),
    )
    code = gate(planned, show=parsed.msdump_show or "causes", progress=progress, say=say_in)
    if parsed.keep is not None:
        print_lines([say_in("port_suite"), f"  {shell_line(['pytest', os.path.relpath(suite)])}"])
    return code


def _sides(parsed: argparse.Namespace) -> tuple[Side, Side]:
    """Return the run under test and the reference."""
    named = [(kind, text) for kind in SIDES for text in getattr(parsed, kind.option)]
    if len(named) != 2:
        flags = ", ".join(f"--{kind.option}" for kind in SIDES)
        raise ConfigError(f"name two models, by two of {flags}: there are {len(named)}")
    (first, one), (second, other) = named
    # Two of one kind are left and right as typed; of two kinds the first is the reference.
    return (first(one), second(other)) if first is second else (second(other), first(one))


def _directory(parsed: argparse.Namespace) -> Path:
    """Return the folder of both dumps: a new one, or that of an earlier run, emptied."""
    if parsed.keep is not None:
        directory = Path(parsed.keep).absolute()
        if directory.exists():
            raise ConfigError(f"--keep {parsed.keep}: is there already; name a new folder")
        return directory
    directory = Path(parsed.report_dir).absolute() / _FOLDER
    if directory.exists() and not (directory / _SUITE).is_file() and any(directory.iterdir()):
        raise ConfigError(f"{directory}: is there already, and nothing of an earlier run; give another --report-dir")
    shutil.rmtree(directory, ignore_errors=True)
    return directory


def _inputs(parsed: argparse.Namespace, sides: tuple[Side, Side]) -> tuple[Inputs, Message]:
    """Return the inputs of both models, and a note on where they are from; the reference's before the other's."""
    if parsed.inputs is not None:
        inputs = read_inputs(parsed.inputs)
        return inputs, Message("port_inputs_file", {"file": parsed.inputs, "inputs": _shapes(inputs)})
    for side in sides:
        if side.inputs is not None:
            return side.inputs, Message("port_inputs_returned", {"side": side.text, "inputs": _shapes(side.inputs)})
    for side in sides:
        if declared := side.declared:
            inputs = draw(declared)
            return inputs, Message("port_inputs_drawn", {"side": side.text, "inputs": _shapes(inputs)})
    raise ConfigError("neither model says what it takes; return its inputs beside it, or give --inputs FILE.npz")


@contextmanager
def _if_drawn(note: Message, inputs: Inputs) -> Iterator[None]:
    """Add to an error that the model may want other inputs than those that were drawn."""
    try:
        yield
    except ConfigError as error:
        if note.code != "port_inputs_drawn":
            raise
        why = f"the inputs were drawn ({_shapes(inputs)}); give --inputs FILE.npz with what the model was made for"
        raise ConfigError(f"{error}\n{why}") from error


def _shapes(inputs: Inputs) -> str:
    return ", ".join(map(_shape, inputs, inputs.values()))


def _shape(name: str, array: NDArray[Any]) -> str:
    """Say an input: its name, type, shape, and the range of integers."""
    text = f"{name} {array.dtype} {shape_text(array.shape)}"
    return f"{text} of {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iu" else text


def _write_suite(file: Path, profile: str) -> None:
    file.write_text(f'[msdump]\nleft = "{_LEFT}"\nright = "{_RIGHT}"\nprofile = "{profile}"\n', "utf-8")


def _planned(suite: Path, parsed: argparse.Namespace) -> Plan:
    options = {"report_dir": str(Path(parsed.report_dir).absolute()), "profile": parsed.profile}
    return plan(load_suite(file=suite, options=options, directory=Path.cwd()))
