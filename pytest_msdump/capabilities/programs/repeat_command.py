"""``msdump repeat -n 3 -- COMMAND``: whether a program makes the same numbers each time, and where that begins."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_msdump.cli.output import add_quiet, phrases, print_lines
from pytest_msdump.core.errors import ConfigError

DESCRIPTION = (
    "Run a program that dumps several times, keep digests of its tensors alone, and name the first operator whose "
    "output differs between runs although its inputs are equal. {directory} in COMMAND is the folder to dump to, a new "
    "one for each run. Exit code 0: all runs are equal; 1: they differ; 4: a run failed, or dumped nothing."
)
EXAMPLES = (
    "msdump repeat -- python evaluate.py --dump {directory}",
    "msdump repeat -n 5 -- env DUMP_TO={directory} python evaluate.py",
    "msdump repeat --dump-config data_dump.json -- python train.py",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the program, how often it runs, and how it learns where to dump to."""
    parser.add_argument("program", metavar="COMMAND", nargs="+", help="the program and its arguments, after --")
    parser.add_argument("-n", "--runs", metavar="N", type=int, default=3, help="how often it runs (default: 3)")
    parser.add_argument(
        "--dump-config",
        metavar="FILE",
        help="a data_dump.json, which the program gets as MINDSPORE_DUMP_CONFIG with its own folder in it",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=600.0, help="seconds that one run may take (default: 600)"
    )
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Run the program, compare what it dumped, and print what differs; return the exit code."""
    from pytest_msdump.capabilities.frameworks.recorder import opened
    from pytest_msdump.capabilities.programs.program import DIRECTORY, run_program
    from pytest_msdump.capabilities.programs.repeats import repeat, repeat_lines
    from pytest_msdump.capabilities.record.process import own_folder
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.report.progress import Progress

    if parsed.dump_config is None and not any(DIRECTORY in word for word in parsed.program):
        raise ConfigError(
            f"nothing says where the program dumps to: write {DIRECTORY} where COMMAND takes its folder, or give "
            "--dump-config FILE"
        )
    progress = Progress("msdump repeat", quiet=parsed.quiet)

    def made(directory: Path) -> Dump:
        with progress.step(directory.name.replace("_", " ")):
            ran = run_program(
                parsed.program,
                directory,
                dump_config=parsed.dump_config,
                timeout=parsed.timeout,
                # The end of what it prints is shown where it fails.
                show=len,
            )
            return opened(ran).dump

    with own_folder() as folder:
        found = repeat(made, parsed.runs, folder)
    print_lines(repeat_lines(found, phrases(parsed)))
    return 0 if found.is_equal else 1
