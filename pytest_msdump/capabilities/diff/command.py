"""``msdump diff BEFORE AFTER``: what became better and worse between two saved results."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.diff.difference import difference
from pytest_msdump.capabilities.diff.saved import Result, read_result
from pytest_msdump.capabilities.diff.shown import about, lines, markdown, verdict
from pytest_msdump.cli.output import Outcome, phrases, print_lines, terminal_width
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.settings.options import finite
from pytest_msdump.core.storage.files import in_utf8, make_folder, write_file

DESCRIPTION = (
    "Compare two results of one suite, an earlier and a later one: what is fixed, broken, worse, better, new or gone. "
    "Exit code 1 when something became worse: a limit was crossed, or with --factor a number grew so many times; less "
    "was compared, or the later run did not end."
)
EXAMPLES = (
    "msdump diff accepted/results.json msdump-report/results.json",
    "msdump diff accepted msdump-report --factor 2 -o diff.md",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare both results, what counts as worse, and what is printed."""
    parser.add_argument("before", metavar="BEFORE", help="results.json of the earlier run, or its folder")
    parser.add_argument("after", metavar="AFTER", help="results.json of the later run, or its folder")
    parser.add_argument(
        "--factor", metavar="F", help="a number within its limits that grew so many times is worse, too, e.g. 2"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="write Markdown for a merge request into FILE")
    parser.add_argument("--full", action="store_true", help="name every tensor, not the first 10 of each kind")


def run(parsed: argparse.Namespace) -> int:
    """Compare, print, write; return 1 when something became worse."""
    factor = _factor(parsed.factor)
    if parsed.out is not None and Path(parsed.out).is_dir():
        raise ConfigError(f"-o: {parsed.out} is a folder; name a file, e.g. {Path(parsed.out) / 'diff.md'}")
    before, after = read_result(Path(parsed.before)), read_result(Path(parsed.after))
    found, say = difference(before, after, factor), phrases(parsed)
    most = {"most": None} if parsed.full else {}
    print_lines(about(which, one, say) for which, one in (("before", before), ("after", after)))
    print_lines(lines(found, width=terminal_width(), say=say, **most))
    print_lines([verdict(found, say)])
    if parsed.out is not None:
        file = Path(parsed.out).absolute()
        make_folder(file.parent, "-o")
        write_file(file.parent, file.name, in_utf8(markdown(before, after, found)))
        print_lines([os.path.relpath(file)])
    return Outcome(found.worse, "diff", lambda: {"after": _side(after), **asdict(found), "before": _side(before)})


def _side(one: Result) -> dict[str, Any]:
    values = asdict(replace(one, tensors=()))
    del values["tensors"]
    return values


def _factor(text: str | None) -> float | None:
    if text is None:
        return None
    refusal = f"--factor: {text!r} is no number above 1; write e.g. 2"
    number = finite(text, refusal)
    if number <= 1 or not math.isfinite(number):
        raise ConfigError(refusal)
    return number
