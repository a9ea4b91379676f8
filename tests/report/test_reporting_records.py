"""results.json's entries: exactly the agreed keys, strict JSON, and read back without loss or trust."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from capabilities.vendor_tables.test_reporting_csv import a_report
from hypothesis import given, settings
from hypothesis import strategies as st
from report import samples

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.forms.values import ELEMENT
from pytest_msdump.core.model.comparison import (
    Comparison,
    CustomResult,
    Finding,
    GoldenErrors,
    Limits,
    Measurement,
    Nonfinite,
    StatisticComparison,
    ThreeWay,
    Verdict,
    WorstElement,
)
from pytest_msdump.core.model.dump import ArgumentDifference, KernelArguments
from pytest_msdump.core.model.record import (
    AxisErrors,
    BetterFit,
    Check,
    Diagnosis,
    Histogram,
    Local,
    MagnitudeErrors,
    Record,
    RoleReason,
    Spread,
    Suspect,
    ValueCounts,
    record_of,
    relative_file,
)
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    Pair,
    SourceFrame,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    Transform,
)
from pytest_msdump.core.report.json_report import document, report_from
from pytest_msdump.core.report.packing import pack, unpack, write_to_pack
from pytest_msdump.core.report.record_json import from_json, to_json, to_text
from pytest_msdump.core.text import Message, encode, plain_text

floats = st.floats(allow_nan=False)
counts = st.integers(0, 2**64 - 1)
indexes = st.lists(st.integers(0, 2**40), max_size=6).map(tuple)
scalars = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), floats, st.complex_numbers(allow_nan=False))
numbers = st.one_of(st.integers(-(2**70), 2**70), floats)


@st.composite
def measurements(draw):
    found = {}
    for metric in draw(st.sets(st.sampled_from(sorted(METRICS)))):
        value = st.tuples(floats, floats, floats, floats) if metric == "standard_deviation" else numbers
        kind = draw(st.sampled_from(["value", "undefined", "does not apply"]))
        found[metric] = Measurement(
            metric,
            value=draw(value) if kind == "value" else None,
            undefined=None if kind == "value" else plain_text(draw(st.text())),
            applies=kind != "does not apply",
            where=draw(st.none() | indexes),
        )
    return found


nonfinites = st.builds(
    Nonfinite,
    **dict.fromkeys(("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right"), counts),
    saturated=counts,
    mismatch=counts,
    first_mismatch=st.none() | indexes,
    first_nonfinite=st.none() | indexes,
)
comparisons = st.builds(
    Comparison,
    elements=counts,
    finite=counts,
    differing=counts,
    right_zero_mismatch=counts,
    measurements=measurements(),
    nonfinite=nonfinites,
    worst=st.lists(st.builds(WorstElement, indexes, scalars, scalars, floats), max_size=5).map(tuple),
    rtol=floats,
    atol=floats,
    absolute_error_sum=st.none() | numbers,
    vendor=st.dictionaries(st.sampled_from(sorted(METRICS)), floats),
)


@settings(deadline=None, max_examples=60)
@given(comparison=comparisons)
def test_a_comparison_survives_results_json_exactly(comparison):
    written = json.dumps(samples.entry(samples.drifted(comparison=comparison, checks=())), allow_nan=False)
    stored = from_json(json.loads(written))
    assert stored.comparison == comparison
    # Equality is blind to what is told apart here: 1 and 1.0, True and 1, 0.0 and -0.0.
    assert repr(stored.comparison.worst) == repr(comparison.worst)
    for metric, measurement in comparison.measurements.items():
        assert repr(stored.comparison.measurements[metric]) == repr(measurement)


@settings(deadline=None, max_examples=200)
@given(comparison=comparisons)
def test_what_the_file_leaves_out_of_a_record_is_filled_in_exactly(comparison):
    records = [
        samples.drifted(comparison=comparison, checks=()),
        samples.drifted(comparison=replace(comparison, worst=()), verdict=Verdict("pass")),
        full(),
    ]
    entries = [samples.entry(record) for record in records]
    entries[1]["where"] = {}
    shared: dict[str, int] = {}
    packed = [pack(write_to_pack(record), shared, json.dumps) for record in records]
    document = json.loads(json.dumps({"shared": list(map(json.loads, shared)), "tensors": packed}))
    # Equality is blind to what is told apart here: 1 and 1.0.
    written = [json.dumps(one, sort_keys=True) for one in unpack(document)["tensors"]]
    assert written == [json.dumps(entry, sort_keys=True) for entry in entries]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, complex(math.nan, 1), complex(0.0, -math.inf), -0.0])
def test_numbers_that_json_does_not_have_survive(value):
    assert repr(ELEMENT.read(json.loads(json.dumps(encode(value), allow_nan=False)), "")) == repr(value)


@pytest.mark.parametrize("value", ["nan", "1.0", None, [1.0], [1, 2, 3], [[1, 2], 3], {}])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="must be a number"):
        ELEMENT.read(value, "value")


def test_the_numbers_are_where_the_interface_says():
    entry = samples.entry(samples.drifted())
    assert entry["metrics"]["cosine_similarity"] == 0.390510547323438
    assert entry["where"]["max_absolute_error"] == [0, 3, 1, 2]
    assert entry["worst"][0] == {
        "index": [0, 3, 1, 2], "left": 0.12344391644001007, "right": 1.4984176158905029, "ratio": 75103.93,
    }  # fmt: skip
    assert entry["would_pass"]["cosine_similarity"] == 0.39
    assert entry["findings"][0]["metric"] == "cosine_similarity"
    assert entry["findings"][0]["sentence"].startswith("cosine_similarity 0.390511 is below 0.999")
    assert (entry["order"], entry["rank"], entry["net"], entry["how"], entry["verdict"]) == (
        4,
        0,
        "Lenet",
        "mapped",
        "fail",
    )
    assert entry["left"]["shape"] == [1, 12, 7, 7]
    assert entry["checks"][0] == {
        "metric": "cosine_similarity", "value": 0.390510547323438, "limit": 0.999, "level": "fail",
        "rule": samples.RULE, "outcome": "fail",
    }  # fmt: skip


def test_a_pair_that_was_not_run_says_so_and_has_no_numbers():
    entry = to_json(samples.not_run())
    assert (entry["verdict"], entry["elements"], entry["equal"], entry["metrics"]) == ("not_run", None, None, {})
    assert from_json(entry).comparison is None


NOTE = Message("repeated_tensor", {"side": "left", "n": 2, "occurrence": 1})


def full():
    """A record in which every field is set."""
    why = RoleReason("unseen", (Suspect("a", "not dumped"), Suspect("b", "no partner", 3)), ("w",), ("p",))
    statistics = StatisticComparison(
        Statistics({"maximum": math.inf, "md5": "d" * 32, "count": 4, "minimum": None}),
        Statistics({"maximum": 1.0, "md5": "e" * 32}, digits=None),
        ("left", "right"),
        ("maximum", "md5"),
        at_least={"max_absolute_error": math.inf},
        equal_bits=False,
        elements=4,
        note=plain_text("N"),
    )
    spread = Spread(
        Histogram(-3, (1, 0, 2)),
        MagnitudeErrors(0, (0.5,), (1.0,)),
        AxisErrors(1, 2, (0.25, 1.0)),
        ((0.0, 1.5),),
        (0, 2),
        ValueCounts(-1.0, 2.0, (1, 2), (0, 3)),
    )
    fits = (
        BetterFit("right", "b:output:0", "clear", "W", 1e-8, "same", map={"left": "a", "right": "b", "reshape": True}),
        BetterFit("left", "c:output:0", "ambiguous", "W", 0.0, "transposed", "several"),
    )
    errors = GoldenErrors(4, 0.5, 0.25, math.inf, 0.125, 0.0, None)
    three_way = ThreeWay("golden", "third", errors, errors._replace(error_balance=0.5))
    numbers = {"total_elements": 900, "near_zero": 1, "absolute_error_sum": 2**70, "three_way": three_way}
    comparison = samples.measured(sampled=True, **numbers)
    record = samples.drifted(
        pair=samples.pair(
            transform=Transform("NHWC", "NCHW", (0, 2, 1), True, (2, 3), "NHWC"), note=NOTE, uncompared=(1, 2)
        ),
        limits=Limits(judged_as="float16", nan="forbid", known_drift="exp", notes=(plain_text("expired"),)),
        comparison=comparison,
        statistics=statistics,
        custom={"mine": CustomResult("1", "m")},
        remarks=(Message("trailing_bytes", {"side": "left", "bytes": 3}),),
        diagnosis=(Diagnosis("scaled", "high", plain_text("E"), {"factor": 2.0, "index": {"1": 3}}),),
        spread=spread,
        kernel_args={"left": KernelArguments("k.json", {"pad": "1"}), "right": KernelArguments("r.json", note="cut")},
        differing_arguments=(ArgumentDifference("attribute", "pad", None, "same"),),
        role="unknown",
        causes=("a:output:0",),
        suspects=("b",),
        role_reason="R",
        role_why=why,
        amplification=2.5,
        suspicious=fits,
        local=Local("fail", "score", 40.0, 16.0, ("act",)),
    )
    more = {"logical_shape": (2, 3), "device_address": 7, "overflows": ("O",), "row": 9}
    frame = SourceFrame("net.py", 3, "x = f(x)")
    left, right = (side._replace(source=frame, **more) for side in (record.left, record.right))
    return replace(record, left=left, right=right, golden="g.npy", third="t.npy")


ALL_KINDS = [samples.drifted, samples.passed, samples.unreadable, samples.not_run, full]


@pytest.mark.parametrize("made", ALL_KINDS)
def test_a_record_survives_its_text_and_other_processes(made):
    record = made()
    again = from_json(json.loads(to_text(record)))
    assert again == record
    assert to_text(again) == to_text(record)
    assert pickle.loads(pickle.dumps(record)) == record


def test_every_field_of_a_record_is_written():
    usual, told = samples.drifted(), full()
    same = [name for name in Record.__slots__ if getattr(told, name) == getattr(usual, name)]
    assert same == ["order", "verdict", "how", "by", "checks", "parts"]
    for name in set(Record.__slots__) - set(same):
        assert to_text(replace(told, **{name: getattr(usual, name)})) != to_text(told), name


def test_keys_stand_in_the_order_that_the_page_of_the_format_gives():
    """The order of each key in the file, so that two runs can be compared line by line."""
    assert list(to_json(full())) == [
        "order", "left", "right", "rank", "net", "graph", "iteration", "occurrence", "source", "how", "by",
        "transform", "verdict", "elements", "total_elements", "near_zero", "sampled", "equal", "finite", "differing",
        "right_zero_mismatch", "rtol", "atol", "absolute_error_sum", "metrics", "undefined", "not_applicable",
        "where", "vendor", "three_way", "nonfinite", "worst", "pair_note", "pair_note_said", "uncompared", "golden",
        "third", "statistics",
        "file_remarks", "diagnosis",
        "spread", "custom", "would_pass", "findings", "checks", "judged_as", "nan", "known_drift", "notes",
        "notes_said",
        "kernel_args", "differing_arguments", "role", "causes", "suspects", "role_reason", "role_why",
        "amplification", "suspicious", "local",
    ]  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(comparison=comparisons, text=st.text(), limit=st.none() | st.integers(0, 9) | st.floats(0, 9), name=st.text())
def test_the_text_is_strict_json_in_ascii(comparison, text, limit, name):
    checks = (Check("cosine_similarity", 0, limit, "fail", text, "fail"),)
    verdict = Verdict(
        "fail",
        (Finding("fail", plain_text(text), None, limit, 0), Finding("note", plain_text(text))),
        {"rmse": float("inf")},
    )
    ref = samples.left_ref()
    left = replace(ref, key=TensorKey(OpKey(name, ref.key.op.at, text or None, name), "output", 0))
    pair = samples.pair(left=left, by=text)
    line = to_text(samples.drifted(comparison=comparison, checks=checks, verdict=verdict, pair=pair))
    assert line.isascii()
    assert line == json.dumps(json.loads(line), allow_nan=False)
    entry = json.loads(line)
    assert (entry["left"]["address"], entry["by"]) == (f"{name}:output:0", text)
    assert [finding["sentence"] for finding in entry["findings"]] == [text, text]
    assert repr([entry["checks"][0]["limit"], entry["findings"][0]["value"]]) == repr([limit, limit])


def test_a_file_outside_of_the_dump_has_its_whole_name(tmp_path):
    source = TensorSource.of(tmp_path / "b.npy")
    pair = samples.pair(right=replace(samples.right_ref(), source=source))
    assert record_of(pair, roots=(Path(), tmp_path / "else")).right.file == str(tmp_path / "b.npy")


@pytest.mark.parametrize("true_name", [None, "", "Default/a", 'Default/"ü"\\n'])
@pytest.mark.parametrize("name", ["Default_a", 'a"b\\c', "ü\x7f", "a\udc80"])
@pytest.mark.parametrize(
    ("folder", "root", "file"),
    [
        ("/dump", "/dump", "a.npy"),
        ("/dump/a/b", "/dump", "a/b/a.npy"),
        ("/dumping", "/dump", "/dumping/a.npy"),
        ("/elsewhere", "/dump", "/elsewhere/a.npy"),
        ("/dump", "/dump/a.npy", "a.npy"),
        ("dump/a", "dump", "a/a.npy"),
        ("dump", ".", "dump/a.npy"),
        (".", ".", "a.npy"),
        ("/dump", "/", "dump/a.npy"),
        ("/", "/", "a.npy"),
    ],
)
def test_names_are_those_of_the_tensors(name, true_name, folder, root, file):
    source = TensorSource(Path(folder), "a.npy")
    key = TensorKey(OpKey(name, Coordinates(iteration=3), "Conv2D", true_name), "output", 12)
    ref = TensorRef(key, TensorSpec(), source, "npy-folder")
    spec = TensorSpec("float32", (2, 3), "NCHW", (2, 3))
    pair = Pair(ref, ref, "name", "by", order=7)
    entry = json.loads(to_text(record_of(pair, specs=(spec, spec), roots=(Path(root), Path(root)))))
    assert (entry["order"], entry["how"], entry["by"], entry["iteration"]) == (7, "name", "by", 3)
    side = entry["left"]
    assert (side["address"], side["name"], side["true_name"]) == (key.address, name, true_name)
    assert side["file"] == file == relative_file(source.path, Path(root))
    assert (side["op_type"], side["dtype"], side["shape"], side["memory_format"]) == (
        *("Conv2D", "float32"),
        *([2, 3], "NCHW"),
    )
    assert entry["right"] == {**side, "at": {"iteration": 3}}


BROKEN = [
    (("verdict",), "perfect", ".verdict: expected one of pass"),
    (("left",), None, ": 'left' is missing"),
    (("left", "address"), "conv1", ".left.address: expected OP:input:SLOT"),
    (("left", "address"), "conv1:output:٣", ".left.address: expected OP:input:SLOT"),
    (("right", "dtype"), 4, ".right.dtype: expected a text, found 4"),
    (("right", "at", "rank"), "0", ".right.at.rank: expected a count, found '0'"),
    (("rank",), True, ".rank: expected a count, found True"),
    (("elements",), -1, ".elements: expected a count, found -1"),
    (("finite",), None, ": 'finite' is missing"),
    (("metrics",), [], ".metrics: expected a JSON object"),
    (("metrics", "cosine_similarity"), "good", ".metrics.cosine_similarity: expected a number, found 'good'"),
    (("metrics", "standard_deviation"), [1.0, "x"], ".metrics.standard_deviation: expected a list of 4"),
    (("undefined", "kl_divergence"), 3, ".undefined.kl_divergence: expected a text"),
    (("where", "max_absolute_error"), [0.5], ".where.max_absolute_error: expected a list of integers"),
    (("nonfinite", "nan_left"), "no", ".nonfinite.nan_left: expected a count"),
    (("worst",), {}, ".worst: expected a list"),
    (("worst", 0), 7, ".worst[0]: expected a JSON object"),
    (("worst", 1, "ratio"), [1, 2], ".worst[1].ratio: expected a number"),
    (("rtol",), "", ".rtol: expected a number"),
    (("vendor", "mean_relative_error"), None, ".vendor.mean_relative_error: expected a number"),
]


def report_of(entry):
    """The report that a file with this record alone is read as."""
    values = document(a_report([samples.drifted()]))
    return report_from({**values, "tensors": [entry]})


@pytest.mark.parametrize(("path", "value", "told"), BROKEN, ids=lambda part: str(part)[:40])
def test_a_broken_entry_is_refused_by_the_name_of_its_key(path, value, told):
    entry = copy.deepcopy(samples.entry(samples.drifted()))
    holder = entry
    for key in path[:-1]:
        holder = holder[key]
    if value is None and path[-1] != "mean_relative_error":
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    with pytest.raises(ConfigError) as refused:
        report_of(entry)
    assert str(refused.value).startswith(f"results.json: tensors[0]{told}")
    assert "\n" not in str(refused.value)
