"""The dumps ``left`` and ``right`` of a folder, planned and compared as a suite says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite


def planned(folder: Path, **table: Any) -> Plan:
    """Plan the comparison; `table` has keys of a suite."""
    table = {"left": "left", "right": "right", **table}
    return plan(load_suite(file=None, table=table, options={}, directory=folder))


def reported(folder: Path, **table: Any) -> Report:
    """Compare, and return the report."""
    found = planned(folder, **table)
    return build_report(found, compare_plan(found))
