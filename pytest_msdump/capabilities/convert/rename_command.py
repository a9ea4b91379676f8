"""``msdump rename FOLDER --pattern …``: foreign names of tensor files are brought to the grammar, or back."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from pytest_msdump.capabilities.convert.renaming import (
    RenamePlan,
    apply,
    new_undo_file,
    plan_renaming,
    read_undo,
    take_back,
)
from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.text import Phrases

DESCRIPTION = (
    "Rename the .npy files of a folder, and of its numbered sub-folders, to OP.SLOT.TIME.npy: all of those that the "
    "pattern fits, or none. No file is ever written over. A file for --undo is written first."
)
EXAMPLES = ("msdump rename saved --pattern '{op}-{slot}.npy' --dry-run",)

_OTHERS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folder and what to do with it."""
    parser.add_argument("folder", metavar="FOLDER", help="a folder of .npy files")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="the whole name: a template such as '{op}-{slot}.npy' ({op}, {slot}, {time}, {any}), or a regular "
        "expression with the named groups op, slot and time",
    )
    what.add_argument("--undo", metavar="FILE", help="take back what was renamed when FILE was written")
    parser.add_argument("--dry-run", action="store_true", help="show the new names, change nothing")
    parser.add_argument("--undo-file", metavar="FILE", help="write the undo file there, not beside FOLDER")


def run(parsed: argparse.Namespace) -> int:
    """Rename or take back, and print what was done; return the exit code."""
    folder = Path(parsed.folder)
    if parsed.undo is not None:
        return _take_back(folder, parsed)
    plan = plan_renaming(folder, parsed.pattern)
    undo = Path(parsed.undo_file) if parsed.undo_file is not None else new_undo_file(folder)
    if not parsed.dry_run:
        apply(plan, undo)
    print_lines(f"{move.old} -> {move.new}" for move in plan.moves)
    say, count = phrases(parsed), len(plan.moves)
    print_lines(_left_alone(plan, say))
    if parsed.dry_run:
        print_lines([say("would_rename", n=count)])
    else:
        shown = shell_line(["msdump", "rename", str(folder), "--undo", os.path.relpath(undo)])
        print_lines([say("renamed", n=count, line=shown)])
    return 0


def _take_back(folder: Path, parsed: argparse.Namespace) -> int:
    if parsed.dry_run or parsed.undo_file is not None:
        raise ConfigError("--undo takes back what was done, alone: leave --dry-run and --undo-file out")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory; give the folder that was renamed")
    count = take_back(folder, read_undo(Path(parsed.undo)))
    print_lines([phrases(parsed)("renamed_back" if count else "renamed_none", n=count)])
    return 0


def _left_alone(plan: RenamePlan, say: Phrases) -> Iterable[str]:
    if plan.fitting:
        yield say("left_alone_named", n=plan.fitting)
    if plan.others:
        yield say("left_alone_others", n=len(plan.others), names=say.named(plan.others, _OTHERS_SHOWN))
