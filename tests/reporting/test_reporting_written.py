"""A record that is kept as text is the record: what is known without parsing it, what is added, what is written."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting import samples
from reporting.test_reporting_records import comparisons

from pytest_msdump.model.report import Check
from pytest_msdump.model.tensor import OpKey, TensorKey
from pytest_msdump.model.verdict import Finding, Verdict
from pytest_msdump.reporting.records import to_json, written
from pytest_msdump.reporting.written import MEASURED_KEYS, WrittenRecord, dumps, line_of, with_more

ROOTS = {"left_root": samples.LEFT_ROOT, "right_root": samples.RIGHT_ROOT}


def unparsed(record):
    """The record, and whether anything had to be parsed since."""
    found = written(record, **ROOTS)
    return found, lambda: not found._is_ordinary


def noted():
    return samples.drifted(pair=samples.pair(note="several of them"))


def sampled(**changes):
    return samples.drifted(comparison=samples.measured(**changes))


OTHERS = (samples.unreadable(), noted(), sampled(sampled=True), sampled(total_elements=9000))


@settings(deadline=None, max_examples=60)
@given(comparison=comparisons, text=st.text(), limit=st.none() | st.integers(0, 9) | st.floats(0, 9), name=st.text())
def test_the_text_is_strict_json_in_the_form_of_the_encoder(comparison, text, limit, name):
    checks = (Check("cosine_similarity", 0, limit, "fail", text, "FAIL"),)
    verdict = Verdict("fail", (Finding("fail", text, None, limit, 0), Finding("note", text)), {"rmse": float("inf")})
    ref = samples.left_ref()
    left = replace(ref, key=TensorKey(OpKey(name, ref.key.op.at, text or None, name), "output", 0))
    pair = samples.pair(left=left, by=text)
    record = samples.drifted(comparison=comparison, checks=checks, verdict=verdict, pair=pair)
    line = written(record, **ROOTS).line
    assert line == json.dumps(json.loads(line), allow_nan=False)
    entry = json.loads(line)
    assert (entry["left"]["address"], entry["by"]) == (f"{name}:output:0", text)
    assert [finding["sentence"] for finding in entry["findings"]] == [text, text]
    assert repr([entry["checks"][0]["limit"], entry["findings"][0]["value"]]) == repr([limit, limit])


def test_zero_is_written_as_what_it_is_whatever_was_written_before():
    for number in (0, 0.0, -0.0, 0):
        checks = (Check("rmse", number, number, "fail", "R", "ok"),)
        findings = (Finding("fail", "S", "rmse", number, number),)
        entry = samples.entry(samples.drifted(checks=checks, verdict=Verdict("fail", findings)))
        told = [*entry["checks"], *entry["findings"]]
        assert [repr(one[key]) for one in told for key in ("value", "limit")] == [repr(number)] * 4


@settings(deadline=None, max_examples=60)
@given(comparison=comparisons)
def test_what_is_known_without_parsing_is_what_the_text_says(comparison):
    record = samples.drifted(comparison=comparison, checks=())
    found, is_parsed = unparsed(record)
    whole = to_json(record, **ROOTS)
    for key in ("order", "verdict", "equal", "metrics"):
        assert repr(found[key]) == repr(whole[key])
    assert not is_parsed()
    assert dict(found) == whole
    assert is_parsed()


def test_an_ordinary_record_knows_its_keys_without_parsing():
    found, is_parsed = unparsed(samples.passed())
    assert set(MEASURED_KEYS) == to_json(samples.passed(), **ROOTS).keys()
    assert all(key in found for key in MEASURED_KEYS)
    assert not any(key in found for key in ("statistics", "total_elements", "sampled", "role", "source"))
    assert found.get("statistics") is None
    with pytest.raises(KeyError):
        found["source"]
    assert not is_parsed()
    assert found["left"]["dtype"] == "float32"
    assert is_parsed()


@pytest.mark.parametrize("record", OTHERS, ids=["unreadable", "noted", "sampled", "first elements"])
def test_a_record_out_of_the_ordinary_has_all_its_keys(record):
    found, whole = written(record, **ROOTS), to_json(record, **ROOTS)
    assert all(key in found for key in whole)
    assert list(found) == list(whole)
    assert len(found) == len(whole)
    assert found == whole


@pytest.mark.parametrize("record", [samples.passed(), *OTHERS])
@pytest.mark.parametrize("is_looked_into", [False, True])
def test_more_keys_follow_its_own(record, is_looked_into):
    more = {"amplification": 2.5, "role": "cause", "causes": ["a\u2028b"]}
    found, whole = written(record, **ROOTS), to_json(record, **ROOTS)
    if is_looked_into:
        dict(found)
    told = with_more(found, more)
    assert line_of(told) == dumps({**whole, **more})
    assert (told["role"], "amplification" in told, told["how"]) == ("cause", True, whole["how"])
    assert dict(told) == {**whole, **more}
    assert dict(found) == whole


def test_a_key_that_is_there_is_replaced():
    found = written(samples.passed(), **ROOTS)
    assert with_more(found, {}) is found
    for more in ({"order": 7}, {"how": "else"}):
        told = with_more(found, more)
        assert json.loads(line_of(told)) == {**found, **more} == dict(told)
        assert line_of(told) == dumps({**found, **more})


def test_a_record_travels_between_processes():
    for record in (samples.passed(), *OTHERS):
        found = written(record, **ROOTS)
        again = pickle.loads(pickle.dumps(found))
        assert isinstance(again, WrittenRecord)
        assert (again.line, dict(again)) == (found.line, dict(found))


def test_a_file_outside_of_the_dump_has_its_whole_name(tmp_path):
    source = replace(samples.right_ref().source, path=tmp_path / "b.npy")
    record = samples.drifted(pair=samples.pair(right=replace(samples.right_ref(), source=source)))
    assert written(record, left_root=Path(), right_root=tmp_path / "else")["right"]["file"] == str(tmp_path / "b.npy")
