"""One gate: a TOML file, the command line and defaults, brought together; and where such files are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.suite.discovery import is_suite_file, suite_files
    from pytest_msdump.suite.keys import SideChoice, Suite
    from pytest_msdump.suite.load import load_suite, read_toml

__all__ = ["SideChoice", "Suite", "is_suite_file", "load_suite", "read_toml", "suite_files"]

# Whoever wants one of them need not load the others.
_HOMES = {
    "SideChoice": "pytest_msdump.suite.keys",
    "Suite": "pytest_msdump.suite.keys",
    "is_suite_file": "pytest_msdump.suite.discovery",
    "load_suite": "pytest_msdump.suite.load",
    "read_toml": "pytest_msdump.suite.load",
    "suite_files": "pytest_msdump.suite.discovery",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
