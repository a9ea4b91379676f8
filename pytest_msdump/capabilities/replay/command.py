"""``msdump replay LEFT``: each operator gets its own inputs again, and those that are wrong by themselves are named."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.kernels.again import replay
from pytest_msdump.capabilities.kernels.report_text import replay_entry, replay_lines
from pytest_msdump.capabilities.replay.reference_model import load_reference, record_reference
from pytest_msdump.cli.compare import suite_file
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import Outcome, add_quiet, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.opening import as_path, index
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.describe import wrapped
from pytest_msdump.core.report.coverage import percent
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import (
    ALLOW_INCOMPLETE,
    COMMAND_FLAGS,
    OPTIONS,
    OUTPUT_OPTIONS,
    argparse_kwargs,
    option_values,
    parse_coverage,
)
from pytest_msdump.core.storage.files import make_directory
from pytest_msdump.core.suite import load_suite

DESCRIPTION = (
    "Give each operator of one dump its own inputs again, and name those that are wrong by themselves. Without a "
    "model, operators are computed in float64 from the attributes in the graph: a mistake of a port is never seen, a "
    "wrong kernel, device or upgrade is. With --model, each module of the reference goes on with what LEFT has in its "
    "place: a mistake of the port is seen, at its module alone. Exit code 0: none is wrong; 1: one is, one is not "
    "within limits (--model), a tensor is damaged, or too few could be replayed; 4 for a usage error."
)
EXAMPLES = (
    "msdump replay trained",
    "msdump replay evaluated --graph graph_0.ir",
    "msdump replay trained --json",
    "msdump replay trained --model reference.py:build",
    "msdump replay exported --model model.onnx",
)

# The folder of the recorded reference in that of the reports.
_REFERENCE = "reference"
# What only one of the two ways takes; both take --all, --allow-incomplete and --quiet.
_KERNEL_OPTIONS = {"graph": "--graph"}
_OPTIONS = (
    *("config", "fusion", "select", "deselect", "pair_by", "align", "profile", "threshold", "min_coverage"),
    *("limits", "spread", "jobs", "report", "report_dir"),
)
_EVERYTHING = next(option for option in OUTPUT_OPTIONS if option.kind == "word")
_LEAST = next(option for option in OPTIONS if option.name == "min_replayed")
_MODEL_OPTIONS = (
    *(option for option in OPTIONS if option.name in _OPTIONS),
    *(option for option in OUTPUT_OPTIONS if option.name == "show" and option is not _EVERYTHING),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump, then the options of each way."""
    parser.add_argument("left", metavar="LEFT", help="the dump of the run under test")
    for option in (ALLOW_INCOMPLETE, _EVERYTHING, _LEAST):
        parser.add_argument(*option.cli_flags, **argparse_kwargs(option))
    add_quiet(parser, "-q")
    kernels = parser.add_argument_group("without a model")
    kernels.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph outside of the dump; repeatable"
    )
    model = parser.add_argument_group("with a model")
    model.add_argument(
        "--model",
        metavar="FILE:FUNCTION",
        help="run FILE, whose FUNCTION returns the reference as a PyTorch or Keras model, alone or with its inputs; or "
        "name a MODEL.onnx, which runs node by node",
    )
    for option in _MODEL_OPTIONS:
        model.add_argument(*option.cli_flags, **argparse_kwargs(option))


def run(parsed: argparse.Namespace) -> int:
    """Replay, print; return the exit code."""
    everything = parsed.msdump_show == _EVERYTHING.value
    options = {
        option.dest: option.cli_flags[0] for option in _MODEL_OPTIONS if not (everything and option.name == "show")
    }
    foreign, way = (options, "with --model") if parsed.model is None else (_KERNEL_OPTIONS, "without --model")
    for name, flag in foreign.items():
        if getattr(parsed, name):
            raise ConfigError(f"{flag}: is only taken {way}; see msdump replay --help")
    return _kernels(parsed) if parsed.model is None else _modules(parsed)


def _modules(parsed: argparse.Namespace) -> int:
    """Record the reference, compare with it, replay it: a gate whose right side is the reference model itself."""
    progress = Progress("msdump replay", quiet=parsed.quiet)
    typed = str(Path.cwd() / parsed.model)
    left = index(as_path(parsed.left), allow_incomplete=bool(parsed.msdump_allow_incomplete))
    reference = load_reference(typed)
    options: dict[str, Any] = option_values(parsed) | {"left": parsed.left, "right": _REFERENCE, "replay": typed}
    suite = load_suite(
        file=suite_file(options.pop("config"), Path.cwd(), options),
        options=options,
        directory=Path.cwd(),
        spelled=COMMAND_FLAGS | {"left": "LEFT"},
    )
    # Kept beside the report, so that the commands in it work.
    right = suite.report_dir / _REFERENCE
    shutil.rmtree(right, ignore_errors=True)
    make_directory(suite.report_dir)
    with progress.step("recording the reference"):
        record_reference(reference, left, right)
    with progress.step("indexing and pairing"):
        planned = plan(replace(suite, name=parsed.model, right=suite.right._replace(path=right)))
    show = parsed.msdump_show or "causes"
    return gate(planned, show=show, progress=progress, reference=reference, say=phrases(parsed))


def _kernels(parsed: argparse.Namespace) -> int:
    progress = Progress("msdump replay", quiet=parsed.quiet)
    with progress.step("indexing"):
        dump = index(
            as_path(parsed.left),
            graph_files=[Path(name) for name in parsed.graph],
            allow_incomplete=bool(parsed.msdump_allow_incomplete),
        )
    found = replay(dump, watch=progress)
    typed = parsed.msdump_min_replayed
    least = _LEAST.value if typed is None else parse_coverage(typed, flag=True, where="--min-replayed")
    is_enough = 0 < found.calls >= least * found.replayable
    if not parsed.json:
        unfolded = parsed.msdump_show == _EVERYTHING.value
        language, width = phrases(parsed), terminal_width(80, least=60)
        print_lines(replay_lines(found, unfolded=unfolded, width=width, say=language))
        if found.replayed and not is_enough:
            text = language("replayed_below", k=found.calls, total=found.replayable, wanted=percent(least))
            print_lines(wrapped(text, width, indent=0))
    return Outcome(
        bool(found.accused or found.damaged) or not found.replayed or not is_enough,
        "replay",
        lambda: {**replay_entry(found), "replayable": found.replayable, "least": least},
    )
