"""One gate: a TOML file, the command line and defaults, brought together."""

from pytest_msdump.core.suite.documents import MOST_BYTES, parse_toml, read_toml
from pytest_msdump.core.suite.load import SideChoice, Suite, load_suite

__all__ = ["MOST_BYTES", "SideChoice", "Suite", "load_suite", "parse_toml", "read_toml"]
