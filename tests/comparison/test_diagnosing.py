"""Failing pairs say what their drift looks like: in the record, as plain JSON values, and in the failure text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from dump_builder import write_reference

from pytest_msdump.assertions import compare
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import compare_views
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.user_code import Extras
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.report.record_json import to_text

X = np.random.default_rng(1).normal(size=(8, 16, 10)).astype(np.float32)


def entry_of(record):
    return json.loads(to_text(record))


def test_a_record_holds_the_diagnosis_with_its_numbers():
    left = X.copy()
    left[:, 3] = 0
    (found,) = entry_of(compare(left, X))["diagnosis"]
    assert found["id"] == "one_slice"
    assert found["confidence"] == "high"
    assert found["index"] == {"1": 3}
    assert "at index 3 of axis 1, where 80 of 80 elements differ" in found["evidence"]


def test_a_pair_that_passes_or_has_no_known_pattern_has_no_key():
    noise = np.random.default_rng(2).normal(size=X.shape).astype(np.float32)
    assert "diagnosis" not in entry_of(compare(X, X * np.float32(1.000001)))
    record = compare(X + noise, X)
    assert record.verdict.outcome == "fail"
    assert "diagnosis" not in entry_of(record)


def test_a_tensor_that_is_mostly_nan_is_looked_at_no_further():
    left = 2 * X
    left[:5] = np.nan
    assert [found.id for found in compare(left, X).diagnosis] == ["nonfinite"]


def test_no_more_elements_are_looked_at_than_were_asked_for():
    """What is beyond the first elements differs in another way, and is not read."""
    left = 2 * X
    left[4:] = -1
    seen = []

    class Counting(ArrayView):
        def read(self, start, stop):
            seen.append(stop)
            return super().read(start, stop)

    pair = Pair(*(ref_of() for _ in range(2)), how="file")
    record = compare_views(pair, Counting(left), Counting(X), Policy(), Extras(first=600))
    assert [found.id for found in record.diagnosis] == ["scaled"]
    assert max(seen) <= 600


def ref_of():
    from pathlib import Path

    from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource

    spec = ArrayView(X).spec
    return TensorRef(TensorKey(OpKey("x"), "output", 0), spec, TensorSource.of(Path("x")), reader="array")


def test_of_many_failures_the_first_are_explained_and_all_where_all_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_reference(tmp_path / "R", {f"op{number}": X for number in range(34)})
    write_reference(tmp_path / "L", {f"op{number}": -X for number in range(34)})

    def explained(*options: str) -> list[bool]:
        assert main(["compare", "L", "R", *options]) == 1
        tensors = json.loads(Path("msdump-report/results.json").read_text())["tensors"]
        return [bool(entry.get("diagnosis")) for entry in tensors]

    assert explained() == [True] * 32 + [False] * 2
    assert explained("--show", "all") == [True] * 34
