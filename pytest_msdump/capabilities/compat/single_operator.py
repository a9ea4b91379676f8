"""One operator in detail: the options of both vendor's programs, and what they are in ``msdump compare``."""

from __future__ import annotations

from pytest_msdump.capabilities.compat.arguments import Arguments, Flag, output_folder
from pytest_msdump.capabilities.elements.cells import NEWER, OLDER
from pytest_msdump.capabilities.elements.command import check_folder, detail_gate, whole_number
from pytest_msdump.capabilities.elements.writing import MOST_ROWS, MOST_TOP, DetailOptions
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.select_pairs import Wanted
from pytest_msdump.core.errors import ConfigError

NEWER_FLAGS = (
    Flag(("-op", "--op_name"), "operator", "compare one operator, and write it element by element", "OP"),
    Flag(("-o", "--output_tensor"), "output", "with -op: its output of this number (default: 0)", "K"),
    Flag(("-i", "--input_tensor"), "input", "with -op: its input of this number", "K"),
    Flag(("-n", "--topn"), "top", "with -op: list the N largest errors, 1 to 10000 (default: 20)", "N"),
    Flag(("-ml", "--max_line"), "rows", "with -op: elements in a file, 10000 to 1000000 (the default)", "N"),
    Flag(("--ignore_single_op_result",), "brief", "with -op: no files with every element"),
)
OLDER_FLAGS = (
    Flag(("-d",), "operator", "compare one operator, and write it element by element to the folder of -o", "OP"),
    Flag(("-t",), "kind", "with -d: input or output (the default)", "KIND"),
    Flag(("-i",), "slot", "with -d: of which number (default: 0)", "K"),
)

_FEWEST_ROWS = 10_000
_OF_ALL = {"range": "-r", "select": "-s", "mapping": "-map", "advisor": "-advisor", "overflow": "-overflow_detection"}


def check_newer(arguments: Arguments) -> None:
    """Refuse options for one operator without ``-op``, and options for all operators with it."""
    if "operator" not in arguments:
        _needs_operator(arguments, NEWER_FLAGS[1:], "-op")
        return
    for name, flag in _OF_ALL.items():
        if name in arguments:
            raise ConfigError(f"{flag}: is about all operators, and -op about one; leave one of them out")
    if "output" in arguments and "input" in arguments:
        raise ConfigError("-o and -i: one tensor is an output or an input; leave one of them out")


def check_older(arguments: Arguments) -> None:
    """Do as `check_newer` for the older program."""
    if "operator" not in arguments:
        _needs_operator(arguments, OLDER_FLAGS[1:], "-d")
    else:
        check_folder(arguments.values["table"])


def run_newer(planned: Plan, arguments: Arguments) -> int:
    """Compare the operator and write its files, in the titles of release 26.2.0."""
    kind = "input" if "input" in arguments else "output"
    choice = Wanted(arguments.values["operator"], kind, whole_number(arguments.get(kind), f"-{kind[0]}", 0, 10**9) or 0)
    options = DetailOptions(
        NEWER,
        top=whole_number(arguments.get("top"), "-n", 1, MOST_TOP) or DetailOptions().top,
        rows=whole_number(arguments.get("rows"), "-ml", _FEWEST_ROWS, MOST_ROWS) or MOST_ROWS,
        every_element="brief" not in arguments,
    )
    return detail_gate(planned, choice, output_folder(arguments.get("out")), options, prints_top=True)


def run_older(planned: Plan, arguments: Arguments) -> int:
    """Compare the operator and write its files, in the titles of the first releases."""
    kind = arguments.get("kind") or "output"
    if kind not in ("input", "output"):
        raise ConfigError(f"-t: {kind!r} is neither input nor output")
    choice = Wanted(arguments.values["operator"], kind, whole_number(arguments.get("slot"), "-i", 0, 10**9) or 0)
    folder = output_folder(arguments.values["table"], flag="-o")
    return detail_gate(planned, choice, folder, DetailOptions(OLDER))


def new_words(arguments: Arguments) -> list[str]:
    """Return the options of ``msdump compare`` that choose the operator and how much of it."""
    kind = "input" if "input" in arguments else arguments.get("kind") or "output"
    slot = arguments.get(kind) or arguments.get("slot") or "0"
    words = ["-d", arguments.values["operator"], "-t", kind, "-i", slot]
    words += ["--top", arguments.values["top"]] if "top" in arguments else []
    rows = "0" if "brief" in arguments else arguments.get("rows")
    return words + (["--rows", rows] if rows is not None else [])


def _needs_operator(arguments: Arguments, flags: tuple[Flag, ...], operator: str) -> None:
    for flag in flags:
        if flag.name in arguments:
            raise ConfigError(f"{flag.names[0]}: says more about one operator; say which with {operator} OP")
