"""The options, declared once, and what their text means."""

from __future__ import annotations

from pytest_msdump.settings.keywords import argparse_kwargs, ini_kwargs, pytest_kwargs
from pytest_msdump.settings.language import language_of
from pytest_msdump.settings.options import FIXTURE_OPTIONS, OPTIONS, TELLING_OPTIONS, Option, given
from pytest_msdump.settings.values import (
    REPORT_KINDS,
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
    parse_threshold,
)

__all__ = [
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
    "pytest_kwargs",
]
