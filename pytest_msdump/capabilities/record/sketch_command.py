"""``msdump sketch DIR -o OUT``: a dump as sketches, small enough to be committed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pytest_msdump.capabilities.record.writer import sketch_dump
from pytest_msdump.capabilities.statistics.count_sketch import BUCKETS
from pytest_msdump.cli.output import add_quiet, phrases, print_lines
from pytest_msdump.core.compare.opening import as_path, index
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.progress import Progress

DESCRIPTION = (
    "Write a sketch of each tensor of a dump into a new folder: 8 KB a tensor, with its statistics and a digest. Other "
    "dumps and other sketches can be compared with it; the tensors themselves are not in it."
)
EXAMPLES = ("msdump sketch run -o sketches", "msdump sketch run -o partly --full 'conv*'")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump, the new folder, what is kept whole, and how large a sketch is."""
    parser.add_argument("dump", metavar="DIR", help="a dump of any format")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="a new folder, or an empty one")
    parser.add_argument("--full", metavar="GLOB", action="append", default=[], help="keep these operators whole")
    parser.add_argument(
        "--buckets",
        metavar="N",
        type=int,
        default=BUCKETS,
        help="numbers of a sketch: 1024, or 4096 for intervals half as wide in 32 KB a tensor (default: 1024)",
    )
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Write the sketches and say how large they are; return the exit code."""
    out = Path(parsed.out)
    dump = index(as_path(parsed.dump))
    if not dump.refs:
        raise ConfigError(f"{parsed.dump}: holds no tensor")
    with Progress("msdump sketch", quiet=parsed.quiet).step("sketching"):
        count = sketch_dump(dump, out, full=parsed.full, buckets=parsed.buckets)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print_lines([phrases(parsed)("sketched", n=count, place=os.path.relpath(out), size=f"{size / 1e6:.1f}")])
    return 0
