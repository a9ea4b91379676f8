"""The marker `msdump_pairs`: one run of a test for each pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.comparison.planning import Plan, plan
from pytest_msdump.errors import MsdumpError
from pytest_msdump.plugin.session import GATE
from pytest_msdump.suite import load_suite

__all__ = ["parametrize_by_pair"]


def parametrize_by_pair(metafunc: pytest.Metafunc) -> None:
    """Give the test's argument ``msdump_pair`` every pair of the marker's dumps, or of the session's suite."""
    marker = metafunc.definition.get_closest_marker("msdump_pairs")
    if marker is None:
        return
    try:
        pairing = _plan(metafunc, marker).pairing
    except MsdumpError as error:
        pytest.fail(f"marker msdump_pairs: {error}", pytrace=False)
    if not pairing.pairs:
        # An empty parameter set would be skipped, and a gate that skips passes.
        pytest.fail("marker msdump_pairs: nothing was paired; see `msdump compare LEFT RIGHT`", pytrace=False)
    metafunc.parametrize("msdump_pair", pairing.pairs, ids=[pair.left.key.address for pair in pairing.pairs])


def _plan(metafunc: pytest.Metafunc, marker: pytest.Mark) -> Plan:
    """The plan of the marker's own dumps, whose paths start from the test's file; else the session's."""
    if not marker.kwargs:
        return metafunc.config.stash[GATE].plan_of_session()
    folder = Path(metafunc.definition.path).parent
    table: dict[str, Any] = {
        key: str(folder / value) if key in ("left", "right") else value for key, value in marker.kwargs.items()
    }
    entries = table.get("map")
    if isinstance(entries, dict):
        table["map"] = [{"left": left, "right": right} for left, right in entries.items()]
    return plan(load_suite(file=None, table=table, options={}, directory=folder, name="marker msdump_pairs"))
