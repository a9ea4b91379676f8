"""``msdump replay LEFT --model FILE:FUNCTION``: each operator judged by itself."""

from __future__ import annotations

import argparse

from pytest_msdump.cli.output import add_quiet
from pytest_msdump.cli.replay_model import add_model_arguments, run_with_model

__all__ = ["DESCRIPTION", "EXAMPLES", "add_arguments", "run"]

DESCRIPTION = (
    "Run a reference model once, let each of its modules go on with what LEFT has in its place, and name the modules "
    "that are wrong by themselves. Exit code 0: none is, and all is within limits; 1: one is; 4: usage error."
)
EXAMPLES = ("msdump replay run --model reference.py:build",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump and the model."""
    parser.add_argument("left", metavar="LEFT", help="the dump of the run under test")
    add_model_arguments(parser)
    add_quiet(parser)


def run(parsed: argparse.Namespace) -> int:
    """Replay, print; return the exit code."""
    return run_with_model(parsed)
