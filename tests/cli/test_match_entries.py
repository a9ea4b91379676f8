"""What `msdump match` tells of a pair is what its record in results.json would say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_msdump.cli.match import match_entry
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.pairing import Transform
from pytest_msdump.core.model.record import record_of
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.report.build import build_report
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import plain_text

DATA = Path(__file__).parents[1] / "data"
TURNED = Transform("NHWC", None, (0, 2, 3, 1), True, (1, 2, 3), "NCHW")


def planned(left: Path, right: Path):
    return plan(load_suite(file=None, options={"left": str(left), "right": str(right), "io": "all"}, directory=DATA))


@pytest.mark.parametrize(
    "changes", [{}, {"note": plain_text("twice")}, {"transform": TURNED, "by": "a map", "how": "mapped"}]
)
def test_an_entry_is_its_records(changes):
    one = planned(DATA / "lenet" / "target", DATA / "lenet" / "target")
    pairs = tuple(replace(pair, **changes) for pair in one.pairing.pairs)
    assert pairs
    one = replace(one, pairing=replace(one.pairing, pairs=pairs))
    entries = match_entry(one, build_report(one, {}))["pairs"]
    for entry, pair in zip(entries, pairs, strict=True):
        record = to_json(record_of(pair, roots=(one.left.root, one.right.root)))
        for name in ("order", *COORDINATES, "how", "by", "transform"):
            assert entry[name] == record[name]
        assert entry["note"] == record.get("pair_note")
        tensor = ("address", "op_type", "file", "dtype")
        for side, names in (("left", tensor), ("right", (*tensor, "at"))):
            assert entry[side] == {name: record[side][name] for name in names}
