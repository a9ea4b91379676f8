"""The options, declared once, and what their text means."""

from pytest_msdump.settings.options import (
    ALLOW_INCOMPLETE,
    COMMAND_FLAGS,
    FIXTURE_OPTIONS,
    OPTIONS,
    REPORT_KINDS,
    TELLING_OPTIONS,
    Option,
    argparse_kwargs,
    given,
    ini_kwargs,
    language_of,
)
from pytest_msdump.settings.values import (
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
)

__all__ = [
    "ALLOW_INCOMPLETE",
    "COMMAND_FLAGS",
    "FIXTURE_OPTIONS",
    "OPTIONS",
    "REPORT_KINDS",
    "TELLING_OPTIONS",
    "Option",
    "argparse_kwargs",
    "given",
    "ini_kwargs",
    "language_of",
    "parse_count",
    "parse_coverage",
    "parse_jobs",
    "parse_report",
    "parse_spec",
]
