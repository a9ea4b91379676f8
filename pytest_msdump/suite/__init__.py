"""One gate: a TOML file, the command line and defaults, brought together; and where such files are."""

from __future__ import annotations

from pytest_msdump.suite.discovery import is_suite_file, suite_files
from pytest_msdump.suite.documents import read_toml
from pytest_msdump.suite.load import load_suite
from pytest_msdump.suite.values import SideChoice, Suite

__all__ = ["SideChoice", "Suite", "is_suite_file", "load_suite", "read_toml", "suite_files"]
