"""From the vendor's words to the one engine: a suite without a file, and what stands on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pytest_msdump.settings import OPTIONS
from pytest_msdump.suite import Suite, load_suite

__all__ = ["said", "vendor_suite"]


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


def said(program: str, sentence: str) -> None:
    """Tell a person something that is no result."""
    print(f"{program}: {sentence}", file=sys.stderr)  # noqa: T201 - a command talks
