"""One gate: a TOML file, the command line and defaults, brought together; and where such files are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.suite.discovery import is_suite_file, suite_files
    from pytest_msdump.suite.documents import read_toml
    from pytest_msdump.suite.load import load_suite
    from pytest_msdump.suite.values import SideChoice, Suite

__all__ = ["SideChoice", "Suite", "is_suite_file", "load_suite", "read_toml", "suite_files"]

# Whoever wants one of them need not load the others.
_HOMES = {
    "SideChoice": "values",
    "Suite": "values",
    "is_suite_file": "discovery",
    "load_suite": "load",
    "read_toml": "documents",
    "suite_files": "discovery",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
