"""The options, declared once, and what their text means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
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
        parse_threshold,
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
    "parse_threshold",
]

# What pytest declares at every start need not bring what only a gate reads.
_HOMES = {
    "ALLOW_INCOMPLETE": "pytest_msdump.settings.options",
    "COMMAND_FLAGS": "pytest_msdump.settings.options",
    "FIXTURE_OPTIONS": "pytest_msdump.settings.options",
    "OPTIONS": "pytest_msdump.settings.options",
    "Option": "pytest_msdump.settings.options",
    "REPORT_KINDS": "pytest_msdump.settings.options",
    "TELLING_OPTIONS": "pytest_msdump.settings.options",
    "argparse_kwargs": "pytest_msdump.settings.options",
    "given": "pytest_msdump.settings.options",
    "ini_kwargs": "pytest_msdump.settings.options",
    "language_of": "pytest_msdump.settings.options",
    "parse_count": "pytest_msdump.settings.values",
    "parse_coverage": "pytest_msdump.settings.values",
    "parse_jobs": "pytest_msdump.settings.values",
    "parse_report": "pytest_msdump.settings.values",
    "parse_spec": "pytest_msdump.settings.values",
    "parse_threshold": "pytest_msdump.settings.values",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
