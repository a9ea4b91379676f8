"""``msdump replay LEFT --model FILE:FUNCTION``: a gate whose right side is the reference model itself."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.cli.compare import suite_file
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import argument_groups, phrases
from pytest_msdump.comparison.indexing import index
from pytest_msdump.comparison.opening import as_path
from pytest_msdump.comparison.planning import plan
from pytest_msdump.errors import ConfigError
from pytest_msdump.replay.reference_model import load_reference, record_reference
from pytest_msdump.report.progress import Progress
from pytest_msdump.settings.options import COMMAND_FLAGS, OPTIONS, OUTPUT_OPTIONS, argparse_kwargs, option_values
from pytest_msdump.suite import load_suite

__all__ = ["add_model_arguments", "run_with_model"]

_OPTIONS = (
    *("config", "fusion", "select", "deselect", "pair_by", "align", "profile", "threshold", "min_coverage"),
    *("spread", "jobs", "report", "report_dir"),
)
_SHOWN = ("show", "lang")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the model, and the options of a comparison with it."""
    groups = argument_groups(parser)
    groups["inputs"].add_argument(
        "--model",
        metavar="FILE:FUNCTION",
        help="run FILE, whose FUNCTION returns the reference as a PyTorch model, alone or with its inputs, and give "
        "each of its modules the inputs that LEFT had there",
    )
    for option in (*OPTIONS, *OUTPUT_OPTIONS):
        if option.name in (_OPTIONS if option in OPTIONS else _SHOWN):
            groups[option.group].add_argument(*option.cli_flags, **argparse_kwargs(option))


def run_with_model(parsed: argparse.Namespace) -> int:
    """Record the reference, compare with it, replay it; return the exit code."""
    if parsed.model is None:
        raise ConfigError("--model: say which reference to replay, as in --model reference.py:build")
    progress = Progress("msdump replay", quiet=parsed.quiet)
    typed = str(Path.cwd() / parsed.model)
    allowed = bool(getattr(parsed, "msdump_allow_incomplete", False))
    left = index(as_path(parsed.left), allow_incomplete=allowed)
    reference = load_reference(typed)
    with tempfile.TemporaryDirectory(prefix="msdump-reference-") as folder:
        right = Path(folder) / "reference"
        with progress.step("recording the reference"):
            record_reference(reference, left, right)
        options: dict[str, Any] = option_values(parsed) | {"left": parsed.left, "right": str(right), "replay": typed}
        suite = load_suite(
            file=suite_file(options.pop("config"), Path.cwd(), options),
            options=options,
            directory=Path.cwd(),
            spelled=COMMAND_FLAGS | {"left": "LEFT"},
        )
        with progress.step("indexing and pairing"):
            planned = plan(replace(suite, name=parsed.model))
        show = parsed.msdump_show or "causes"
        return gate(planned, show=show, progress=progress, reference=reference, say=phrases(parsed))
