"""The options, declared once, and the readers of their values."""

from pytest_msdump.settings.options import (
    ALLOW_INCOMPLETE,
    COMMAND_FLAGS,
    FIXTURE_OPTIONS,
    GROUPS,
    OPTIONS,
    OUTPUT_OPTIONS,
    REPORT_KINDS,
    Option,
    argparse_kwargs,
    ini_kwargs,
    language_of,
    option_values,
)
from pytest_msdump.settings.values import parse_count, parse_coverage, parse_jobs, parse_report, parse_spec

__all__ = [
    "ALLOW_INCOMPLETE",
    "COMMAND_FLAGS",
    "FIXTURE_OPTIONS",
    "GROUPS",
    "OPTIONS",
    "OUTPUT_OPTIONS",
    "REPORT_KINDS",
    "Option",
    "argparse_kwargs",
    "ini_kwargs",
    "language_of",
    "option_values",
    "parse_count",
    "parse_coverage",
    "parse_jobs",
    "parse_report",
    "parse_spec",
]
