"""From the vendor's words to the one engine: a suite without a file, and what stands on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pytest_msdump.compat.arguments import Arguments
from pytest_msdump.escape import shell_line, terminal_lines
from pytest_msdump.settings import OPTIONS
from pytest_msdump.suite import Suite, load_suite

__all__ = ["new_spelling", "said", "vendor_suite"]

# What both of the vendor's programs can say → flag of ``msdump compare``.
_NEW_FLAGS = {
    "fusion": "--fusion",
    "quant_fusion": "--quant-fusion",
    "close_fusion": "--close-fusion",
    "custom": "-custom",
}


def vendor_suite(options: Mapping[str, str | None], spelled: Mapping[str, str]) -> Suite:
    """Return the suite of a vendor's command line: inputs and outputs, the default limits, no suite file.

    Parameters
    ----------
    options : mapping
        Option of `settings` → what was typed; paths start from the current folder.
    spelled : mapping
        Option → how it is spelled on this command line, for messages.

    Raises
    ------
    ConfigError
        As `suite.load_suite`.
    """
    names = {option.name: option.cli_flags[-1] for option in OPTIONS}
    return load_suite(file=None, options={"io": "all", **options}, directory=Path.cwd(), spelled={**names, **spelled})


def new_spelling(arguments: Arguments, *more: str) -> str:
    """Return the command line of ``msdump`` that compares the same; `more` follows it."""
    words = ["msdump", "compare", arguments.values["left"], arguments.values["right"]]
    for name, flag in _NEW_FLAGS.items():
        if name in arguments:
            words += [flag, arguments.values[name]]
    return shell_line([*words, *more])


def said(program: str, sentence: str) -> None:
    """Tell a person something that is no result."""
    print(terminal_lines(f"{program}: {sentence}"), file=sys.stderr)  # noqa: T201 - a command talks
