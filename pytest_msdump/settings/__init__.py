"""The options, declared once, and what their text means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.settings.keywords import argparse_kwargs, ini_kwargs
    from pytest_msdump.settings.language import language_of
    from pytest_msdump.settings.options import (
        ALLOW_INCOMPLETE,
        FIXTURE_OPTIONS,
        OPTIONS,
        REPORT_KINDS,
        TELLING_OPTIONS,
        Option,
        given,
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
    "ALLOW_INCOMPLETE": "options",
    "FIXTURE_OPTIONS": "options",
    "OPTIONS": "options",
    "Option": "options",
    "REPORT_KINDS": "options",
    "TELLING_OPTIONS": "options",
    "argparse_kwargs": "keywords",
    "given": "options",
    "ini_kwargs": "keywords",
    "language_of": "language",
    "parse_count": "values",
    "parse_coverage": "values",
    "parse_jobs": "values",
    "parse_report": "values",
    "parse_spec": "values",
    "parse_threshold": "values",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
