"""One gate: a TOML file, the command line and defaults, brought together; and where such files are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
