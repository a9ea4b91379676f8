"""One gate: a TOML file, the command line and defaults, brought together."""

from pytest_msdump.suite.documents import read_toml
from pytest_msdump.suite.load import SideChoice, Suite, load_suite

__all__ = ["SideChoice", "Suite", "load_suite", "read_toml"]
