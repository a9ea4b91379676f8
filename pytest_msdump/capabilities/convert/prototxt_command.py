"""``msdump prototxt IN``: a Caffe network without in-place layers, so that each layer's output can be dumped."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_msdump.capabilities.convert.prototxt import rewire_file
from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record.caffe import shared_bytes

DESCRIPTION = (
    "Write new_NAME.prototxt beside a Caffe network: every in-place top gets a name of its own and its consumers read "
    "that, so that a dump holds the output of each layer. Nothing else in the file changes; weights load as before."
)
EXAMPLES = ("msdump prototxt net.prototxt",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the network."""
    parser.add_argument("file", metavar="IN", help="a prototxt file")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE instead of new_NAME.prototxt")
    parser.add_argument(
        "--phase", choices=("TEST", "TRAIN"), default="TEST", help="whose layers to rename; TEST by default"
    )
    parser.add_argument(
        "--reference",
        metavar="DIR",
        help="write nothing; list the layers of this dump that hold the bytes of an in-place layer (exit code 1)",
    )


def run(parsed: argparse.Namespace) -> int:
    """Rewire, write, print; return the exit code."""
    if parsed.reference is not None:
        return _check(parsed)
    out = Path(parsed.out) if parsed.out is not None else None
    target, rewired = rewire_file(Path(parsed.file), out=out, phase=parsed.phase)
    lines = [f"{entry.layer}: {entry.old} -> {entry.new}" for entry in rewired.renamed]
    say, count = phrases(parsed), len(rewired.renamed)
    lines += [say("note", text=note) for note in rewired.notes]
    print_lines([*lines, say("tops_renamed" if count else "tops_none", n=count, file=str(target))])
    return 0


def _check(parsed: argparse.Namespace) -> int:
    if parsed.out is not None:
        raise ConfigError("--reference writes nothing: leave --out out")
    found = shared_bytes(Path(parsed.file), Path(parsed.reference), phase=parsed.phase)
    say = phrases(parsed)
    lines = [say("holds_bytes_of", layer=one.layer, over=one.over, blob=one.blob) for one in found]
    print_lines([*lines, say("make_reference_again" if found else "holds_no_bytes_of", file=parsed.file)])
    return int(bool(found))
