"""A record that is kept as text is the record: what is known without parsing it, what is added, what is written."""

from __future__ import annotations

import json
import pickle
from contextlib import contextmanager
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
from pytest_msdump.reporting import written as module
from pytest_msdump.reporting.records import to_json, written
from pytest_msdump.reporting.values import dumps
from pytest_msdump.reporting.written import WrittenRecord, layout_of, line_of, parsed_together, with_more

ROOTS = {"left_root": samples.LEFT_ROOT, "right_root": samples.RIGHT_ROOT}


@contextmanager
def parsed():
    """What is parsed meanwhile."""
    sections, whole = [], module._parsed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_parsed", lambda section: sections.append(section) or whole(section))
        yield sections


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
    found, whole = written(record, **ROOTS), to_json(record, **ROOTS)
    with parsed() as sections:
        assert found.keys() == whole.keys()
        for key in ("order", "verdict", "elements", "equal"):
            assert repr(found[key]) == repr(whole[key])
        assert not sections
        assert dict(found) == whole
        assert sections


@pytest.mark.parametrize("record", [samples.passed(), *OTHERS])
def test_a_record_knows_its_keys_without_parsing(record):
    found, whole = written(record, **ROOTS), to_json(record, **ROOTS)
    with parsed() as sections:
        assert (list(found), len(found)) == (list(whole), len(whole))
        assert all(key in found for key in whole)
        assert "role" not in found
        assert found.get("role", "none") == "none"
        with pytest.raises(KeyError):
            found["role"]
    assert not sections
    assert all(repr(found[key]) == repr(whole[key]) == repr(found.get(key)) for key in whole)


def test_only_the_section_that_is_asked_for_is_parsed():
    found = written(samples.passed(), **ROOTS)
    with parsed() as sections:
        assert found["left"]["dtype"] == "float32"
    (section,) = sections
    assert json.loads(f"{{{section}}}").keys() == {"order", "left", "right"}


def test_what_was_parsed_of_many_records_is_not_kept():
    found = [written(samples.drifted(pair=samples.pair(order=number)), **ROOTS) for number in range(200)]
    assert [record["left"]["address"] for record in found] == [found[0]["left"]["address"]] * 200
    assert module._parsed.cache_info().currsize <= module._parsed.cache_info().maxsize < 100


DIFFERENT = (samples.drifted(), samples.passed(), *OTHERS)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(DIFFERENT), st.sampled_from(["text", "more", "values"])), max_size=150))
def test_records_that_are_parsed_together_say_what_each_says(drawn):
    forms = {
        "text": lambda record: written(record, **ROOTS),
        "more": lambda record: with_more(written(record, **ROOTS), {"amplification": 0.5}),
        "values": lambda record: to_json(record, **ROOTS),
    }
    records = [forms[form](record) for record, form in drawn]
    keys = ("left", "verdict", "vendor", "total_elements", "pair_note", "metrics", "amplification", "nobody")
    found = list(parsed_together(iter(records), keys))
    assert len(found) == len(records)
    for record, one in zip(records, found, strict=True):
        for key in keys:
            assert repr(one.get(key)) == repr(record.get(key))
            assert (key in one) == (key in record)


def test_a_record_that_tells_less_is_parsed_further():
    record = WrittenRecord(layout_of((("order", "verdict"),)), ('"order": 3, "verdict": "pass"',), {"order": 3})
    (found,) = parsed_together([record], ("verdict",))
    assert found["verdict"] == "pass"


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
        assert again._layout is layout_of(found._layout.sections)


def test_a_file_outside_of_the_dump_has_its_whole_name(tmp_path):
    source = replace(samples.right_ref().source, path=tmp_path / "b.npy")
    record = samples.drifted(pair=samples.pair(right=replace(samples.right_ref(), source=source)))
    assert written(record, left_root=Path(), right_root=tmp_path / "else")["right"]["file"] == str(tmp_path / "b.npy")
