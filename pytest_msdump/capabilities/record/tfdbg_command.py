"""``msdump tfdbg tensor_name FILE``: commands to paste into TensorFlow's debugger, which save every tensor."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_msdump.capabilities.record.tf_graphs import print_commands, read_listing
from pytest_msdump.cli.output import print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.files import read_user_file

DESCRIPTION = (
    "Read the list that 'lt > tensor_name' saved inside of TensorFlow's debugger, and print the pt commands that save "
    "each tensor as OP.SLOT.TIME.npy. Paste them at its prompt; if that does not work, type 'mouse off' there first."
)
EXAMPLES = ("msdump tfdbg tensor_names.txt --folder saved",)

_LARGEST_BYTES = 256 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the list."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FILE",
        help="what 'lt > FILE' saved; '-' for standard input (tensor_name FILE, too)",
    )
    parser.add_argument(
        "--folder", default="", metavar="DIR", help="folder that tfdbg saves to (default: where it runs)"
    )
    parser.add_argument("--time", metavar="µs", help="time of the first file, 16 digits (default: now)")


def run(parsed: argparse.Namespace) -> int:
    """Print the commands for a list; return the exit code."""
    name = _file(parsed.words)
    if any(letter.isspace() for letter in parsed.folder):
        raise ConfigError(f"--folder '{parsed.folder}': tfdbg takes no path with blanks; give another folder")
    commands = print_commands(read_listing(_text(name), source=name), first=_first(parsed.time), folder=parsed.folder)
    # First all of them: half a list would be taken for the whole.
    print_lines(list(commands))
    return 0


def _file(words: list[str]) -> str:
    if len(words) == 2 and words[0] == "tensor_name":
        return words[1]
    if len(words) > 1:
        raise ConfigError("give one file: msdump tfdbg FILE")
    return words[0]


def _first(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) == 16 and text[0] != "0"):
        raise ConfigError(f"--time {text}: give 16 digits, microseconds since 1970")
    return int(text)


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read(_LARGEST_BYTES)
    content = read_user_file(Path(name), _LARGEST_BYTES, want="save a list inside of tfdbg with: lt > tensor_name")
    return content.decode("utf-8", errors="replace")
