"""results.json: counts, strictness, and reading it back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report import samples

from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.model.record import Diagnosis
from pytest_msdump.core.model.report import NetworkOperator
from pytest_msdump.core.model.tensor import Unmatched
from pytest_msdump.core.report.json_report import document, read_json, report_from, write_json
from pytest_msdump.core.report.packing import unpack
from pytest_msdump.core.text import plain_text


def a_report(records=None, **changes):
    left, right = samples.dumps()
    alone = [Unmatched("left", left.refs[0], plain_text("no right operator of that name"), ("conv1:output:0",))]
    pairing = samples.pairing([samples.pair()], alone, [Unmatched("right", right.refs[0], plain_text("no left one"))])
    records = [samples.drifted()] if records is None else records
    return assemble(left, right, pairing, records, profile="default", limits={"nan": "match"}, **changes)


def test_the_file_is_strict_json_with_one_tensor_a_line(tmp_path):
    records = [samples.drifted(), samples.passed()]
    path = write_json(a_report(records), tmp_path / "out")

    def refuse(name):
        raise AssertionError(name)

    text = path.read_text(encoding="ascii")
    packed = json.loads(text, parse_constant=refuse)
    full = document(a_report(records))
    # Where a passing record errs is left out.
    full["tensors"][1] |= {"where": {}, "worst": []}
    assert unpack(packed) == full
    assert [line.count('"elements"') for line in text.splitlines() if '"order":4' in line] == [1, 1]


@pytest.mark.parametrize("first", ["index", ", ", ""])
def test_whatever_names_hold_each_operator_has_a_line(tmp_path, first):
    names = ["}, {", '}, {"index', '"}, {"index": 1', "}, {\\", "x\n", "\udcff"]
    operators = tuple(
        NetworkOperator(number, number, first, names[number % 6], (names[number % 6], names[number % 5]), ("*",), first)
        for number in range(150)
    )
    path = write_json(replace(a_report(), network=operators), tmp_path)
    entries = [json.loads(json.dumps(one._asdict())) for one in operators]
    lines = path.read_text("ascii").splitlines()
    start = lines.index('"network": [') + 1
    assert [json.loads(line.removesuffix(",")) for line in lines[start : start + 150]] == entries
    assert lines[start + 150] == "]"
    assert read_json(path)["network"] == entries


def test_nan_outside_a_string_is_never_written(tmp_path):
    left_out = Diagnosis("scaled", "high", plain_text(""), {"factor": float("nan")})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(a_report([samples.drifted(diagnosis=(left_out,))]), tmp_path)


def test_a_file_name_that_is_no_utf8_can_be_written_and_read(tmp_path):
    name = b"caf\xe9.npy".decode("utf-8", errors="surrogateescape")
    record = samples.drifted()
    values = read_json(write_json(a_report([replace(record, left=record.left._replace(file=name))]), tmp_path))
    assert values["tensors"][0]["left"]["file"] == name


def test_a_report_survives_its_file(tmp_path):
    report = a_report(min_coverage=0.5)
    assert report_from(read_json(write_json(report, tmp_path))) == report


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "bad JSON at line 1 column 1"),
        (b'{"schema_version": 1,\n "left": }', "bad JSON at line 2 column 10"),
        (b'{"schema_version": 1, "x": NaN}', "NaN outside a string"),
        (b"\xff\xfe{}", "bad JSON"),
        (b"[" * 100_000, "bad JSON"),
        (b'{"x": ' + b"9" * 5000 + b"}", "bad JSON"),
        (b"[1]", "no schema_version"),
        (b'{"tensors": []}', "no schema_version"),
        (b'{"schema_version": true}', "no schema_version"),
        (b'{"schema_version": 2}', "schema_version 2, this release reads up to 1"),
    ],
    ids=["empty", "cut", "nan", "utf16", "deep", "long integer", "list", "no version", "bool", "later version"],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path, content, told):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_json(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MsdumpError, match="cannot be written") as refused:
        write_json(a_report(), tmp_path / "file")
    assert "\n" not in str(refused.value)
