"""Overflow records: the vendor's JSON of real bytes, every cut refused, and what the status says."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from pytest_msdump.capabilities.overflow.chunks import OverflowEntry
from pytest_msdump.capabilities.overflow.opdebug import entries_of_json, record_as_json
from pytest_msdump.core.dumps.file_names import parse_opdebug
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.text import say

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden" / "h_overflow"
# Case → the vendor's JSON of its one overflow file. What it refused has none.
CONVERTED = {
    path.name.removesuffix("_convert"): next((path / "out").glob("*.json"), None)
    for path in sorted((GOLDEN / "expected").glob("*_convert"))
}


def entries_of_record(record: bytes, *, where: str) -> tuple[OverflowEntry, ...]:
    return entries_of_json(record_as_json(record, where=where), where=where)


def record_of(case: str) -> bytes:
    """Output 0 of the case's overflow file: all that follows its header."""
    (file,) = (GOLDEN / case).glob("Opdebug*")
    data = file.read_bytes()
    return data[8 + struct.unpack("<Q", data[:8])[0] :]


@pytest.mark.parametrize("case", [case for case, file in CONVERTED.items() if file])
def test_a_record_reads_as_the_vendors_json(case):
    expected = CONVERTED[case].read_text()
    found = record_as_json(record_of(case), where=case)
    assert json.dumps(found, indent=4) == expected


@pytest.mark.parametrize("case", [case for case, file in CONVERTED.items() if file])
def test_the_json_says_what_the_record_says(case):
    assert entries_of_json(json.loads(CONVERTED[case].read_text()), where=case) == entries_of_record(
        record_of(case), where=case
    )


@pytest.mark.parametrize("case", [case for case, file in CONVERTED.items() if file is None])
def test_what_is_no_record_is_refused_by_name(case):
    with pytest.raises(TensorFileError, match=case):
        entries_of_record(record_of(case), where=case)


def test_context_and_thread_0_are_numbers_and_65535_is_none():
    (entry,) = entries_of_record(record_of("ctx_thread"), where="")
    assert (entry.task_id, entry.stream_id, entry.context_id, entry.thread_id) == (12, 3, 0, 1)
    (entry,) = entries_of_record(record_of("aic_v0"), where="")
    assert (entry.context_id, entry.thread_id) == (None, None)


def test_every_unit_of_the_older_form_is_read_from_its_own_place():
    entries = {entry.unit: entry for entry in entries_of_record(record_of("old_dha_and_aicore"), where="")}
    assert {unit: (entry.task_id, entry.status, entry.is_overflow) for unit, entry in entries.items()} == {
        "DHA Atomic Add": (12, (1,), True),
        "L2 Atomic Add": (13, (0,), False),
        "AI Core": (13, (4,), True),
    }
    assert entries["AI Core"].fields["kernel_code"] == 0xABC


@pytest.mark.parametrize("case", ["aic_v0", "aiv_v1", "aicpu", "sdma", "old_aicore"])
def test_a_record_cut_anywhere_is_refused(case):
    record = record_of(case)
    for size in range(len(record)):
        with pytest.raises(TensorFileError):
            record_as_json(record[:size], where=case)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"acc_list": {}}, {"acc_list": [3]}, {"acc_list": {"acc_type": "AIC"}}, {"AI Core": 3}]
    + [
        {"AI Core": {"task_id": task, "stream_id": 1, "status": status}}
        for task, status in [("x", 1), (True, 1), (1, None), (1, [1, "y"]), ({}, 0), ("1" * 50, 0)]
    ],
)
def test_json_that_is_no_record_is_refused(document):
    with pytest.raises(TensorFileError, match=r"o\.json"):
        entries_of_json(document, where="o.json")


@pytest.mark.parametrize(
    ("unit", "status", "words"),
    [
        ("AI Core", (0,), "status 0"),
        ("AIC", (32,), "status 32: floating-point operation overflows"),
        (
            "AI Core",
            (272,),
            "status 272: integer addition, subtraction or multiplication overflows; conversion to float16 overflows",
        ),
        ("AIV", (33,), "status 33: floating-point operation overflows; unknown bits 0x1"),
        ("AIV", (1, 2, 3, 4), "status 1, 2, 3, 4"),
        ("AICPU", (32,), "status 32"),
    ],
)
def test_status_bits_are_told_in_words(unit, status, words):
    assert say(OverflowEntry(unit, 1, 1, status).words) == words


@pytest.mark.parametrize("name", ["{}.1600000000000050", "5.{}.1600000000000050", "5.9.1600000000000050.{}.1"])
def test_a_name_that_a_table_gave_may_hold_more_digits_than_a_number(name):
    name = f"Opdebug.Node_OpDebug.{name}"
    assert parse_opdebug(name.format("7")) is not None
    parse_opdebug(name.format("9" * 5000))


@pytest.mark.parametrize(
    "entry",
    [
        {"acc_type": "a" * 9000, "data": {"task_id": 1, "stream_id": 1}},
        {"acc_type": "AIC", "data": {"task_id": 1, "stream_id": 1, "b" * 9000: []}},
        {"acc_type": "AIC", "data": {"task_id": 1, "stream_id": "c" * 9000}},
    ],
)
def test_what_an_overflow_file_says_is_not_quoted_without_end(entry):
    with pytest.raises(TensorFileError) as refused:
        entries_of_json({"acc_list": entry}, where="a.json")
    assert len(str(refused.value)) < 300
