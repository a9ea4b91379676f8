"""Whatever way a pair goes, its record is the same; and usual pairs go the short way."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import EACH, needs_kernel
from readers.dumpmade import FLOAT, FLOAT16, FRACTAL_Z, INT8, NC1HWC0, dump2, message, op_output, put

from pytest_msdump.compiled import VARIABLE
from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.memory_formats.storing import stored
from pytest_msdump.model.overflow import OverflowEntry
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.report import Report, SideInfo
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey
from pytest_msdump.pipeline import alike
from pytest_msdump.pipeline.alike import Kinds, entries_of_usual
from pytest_msdump.pipeline.comparing import compare_pair
from pytest_msdump.pipeline.conditions import Conditions, conditions_of, entries_of, entry_of
from pytest_msdump.pipeline.gathering import measured, put_together
from pytest_msdump.pipeline.indexing import reader
from pytest_msdump.pipeline.planning import Plan, plan
from pytest_msdump.reporting.csv_report import csv_content
from pytest_msdump.reporting.formed import FormedRecord, numbers_of
from pytest_msdump.reporting.records import written
from pytest_msdump.reporting.vendor_cells import ALGORITHMS, number_cells
from pytest_msdump.reporting.vendor_lines import Line, left_lines
from pytest_msdump.reporting.vendor_table import nine_columns, vendor_table
from pytest_msdump.reporting.written import WrittenRecord, line_of, parsed_together, with_more
from pytest_msdump.suite import load_suite
from pytest_msdump.testing.builder import write_mindspore, write_reference

Array = npt.NDArray[Any]

DATA_TYPES = {"float32": FLOAT, "float16": FLOAT16, "int8": INT8}

# Nearly everything is within these.
LOOSE = {
    "cosine": -0.999,
    "max_abs": 1e39,
    "rel_euclid": 1e39,
    "max_rel": 1e39,
    "mean_rel": 1e39,
    "rmse": 1e39,
    "saturated_count": 10**6,
    "normalized_max_error": 1e39,
}

# What `dtype`, thresholds, rules … of a suite say.
SUITES: list[dict[str, Any]] = [
    {"rule": [{"match": "*", **LOOSE}]},
    {"rule": [{"match": "op[01]", **LOOSE}]},
    {},
    {"profile": "strict"},
    {"rule": [{"match": "*", "cosine": 0.5}]},
    {"profile": "bitwise"},
    {"nan": "forbid"},
    {"without": ["kl_divergence"]},
    {"rule": [{"match": "*", "cosine_similarity": {"fail": 0.5, "warn": 0.99}, "allclose": {"rtol": 0, "atol": 1}}]},
    {
        "rule": [
            {"match": "op1", "max_absolute_error": 0.5},
            {"match": "op*", "dtype": "float16", "cosine_similarity": 0.1},
        ]
    },
    {"known_drift": [{"match": "op0", "cosine_similarity": 0.2, "reason": "100 % s", "until": "2999-01-01"}]},
    {"known_drift": [{"match": "op*", "cosine_similarity": 0.2, "reason": "it is over", "until": "2001-01-01"}]},
]


@pytest.fixture(params=EACH)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


by_each_kernel = pytest.mark.usefixtures("_kernel")


def planned(folder: Path, **table: Any) -> Plan:
    sides = {"left": str(folder / "left"), "right": str(folder / "right")}
    # As a suite file has them: `[[msdump.rule]]` and the like.
    return plan(load_suite(file=None, table={**sides, **table}, options={}, directory=folder))


def in_blocks(values: Array, *, tells_shape: bool = True) -> bytes:
    """A dump file whose only output is NCHW in blocks of 16 channels."""
    batch, channels, height, width = values.shape
    outer = -(-channels // 16)
    padded = np.zeros((batch, outer * 16, height, width), values.dtype)
    padded[:, :channels] = values
    blocks = padded.reshape(batch, outer, 16, height, width).transpose(0, 1, 3, 4, 2)
    header = message(
        outputs=[
            op_output(
                DATA_TYPES[values.dtype.name],
                blocks.shape,
                blocks.nbytes,
                memory_format=NC1HWC0,
                original=values.shape if tells_shape else None,
            )
        ]
    )
    return dump2(header, np.ascontiguousarray(blocks).tobytes())


def write_left(folder: Path, kind: str, tensors: dict[str, Array]) -> None:
    if kind == "reference":
        write_reference(folder, tensors)
    elif kind == "mindspore":
        write_mindspore(folder, [("Add", name, "output", 0, values) for name, values in tensors.items()])
    else:
        for number, (name, values) in enumerate(tensors.items()):
            content = in_blocks(values, tells_shape=kind == "ascend")
            put(folder, f"Conv2D.{name}.{number}.1.{1_600_000_000_000_000 + number}", content)


def side(shape: tuple[int, ...], dtype: str, style: str, rng: np.random.Generator) -> Array:
    values = np.asarray(rng.normal(size=shape) * 3)
    if style == "with zeros":
        values[rng.random(shape) < 0.2] = 0
    if np.dtype(dtype).kind == "f":
        if style == "saturated":
            values.flat[0] = float(np.finfo(dtype).max)
        if style == "special":
            values.flat[rng.integers(values.size)] = rng.choice([math.nan, math.inf])
        if style == "huge":
            values *= float(np.finfo(dtype).max) / 16
        if style == "constant":
            values[...] = 1.0
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def beside(values: Array, relation: str, dtype: str, rng: np.random.Generator) -> Array:
    if relation == "equal":
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    if relation == "unlike":
        return side(values.shape, dtype, "usual", rng)
    drift = {"near": 1e-4, "near, but for a zero": 1e-4, "far": 0.3}[relation]
    with np.errstate(all="ignore"):
        found = np.asarray(values.astype("float64") * (1 + drift * rng.normal(size=values.shape))).astype(dtype)
    if relation == "near, but for a zero" and found.size:
        found.flat[np.argmin(abs(found.astype("float64")))] = 0
    return found


@st.composite
def dumps(draw: st.DrawFn) -> tuple[str, dict[str, Array], dict[str, Array], dict[str, Any]]:
    kind = draw(st.sampled_from(["reference", "mindspore", "ascend", "ascend without shapes"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    channels = draw(st.sampled_from([3, 16, 20, 32]))
    types = st.sampled_from(
        list(DATA_TYPES) if kind.startswith("ascend") else ["float32", "float64", "float16", "int8", "int32"]
    )
    shapes = [(2, channels, 3, 2), (1, channels, 1, 1), (1, 1, 1, 1), (1, channels, 40, 30)]
    if not kind.startswith("ascend"):
        shapes += [(), (7,), (3, 5), (0, 4)]
    left_type = draw(types)
    right_type = draw(st.sampled_from([left_type, left_type, "float32", "int32"]))
    shape = draw(st.sampled_from(shapes))
    left, right = {}, {}
    for number in range(3):
        style = draw(st.sampled_from(["usual", "usual", "with zeros", "saturated", "special", "huge", "constant"]))
        values = side(shape, left_type, style if math.prod(shape) else "usual", rng)
        relation = draw(st.sampled_from(["equal", "near", "near", "near, but for a zero", "far", "unlike"]))
        left[f"op{number}"] = values
        right[f"op{number}"] = beside(values, relation, right_type, rng)
    return kind, left, right, draw(st.sampled_from(SUITES))


def the_long_way(pair: Pair, conditions: Conditions) -> Any:
    record = compare_pair(pair, conditions.policy, conditions.extras)
    return written(record, left_root=conditions.left_root, right_root=conditions.right_root)


def assert_same(short: Any, long: Any) -> None:
    assert short.line == line_of(short) == line_of(long)
    assert list(short) == list(long)
    assert len(short) == len(long)
    # As texts: 1 is not to become 1.0.
    assert repr({key: short[key] for key in short}) == repr({key: long[key] for key in long})
    assert repr([short.get(key, "none") for key in (*short, "nobody has this")]) == repr(
        [long.get(key, "none") for key in (*short, "nobody has this")]
    )
    for keys in (("order",), ("left", "metrics"), ("checks", "findings"), tuple(long), ("worst", "elements", "vendor")):
        (one,), (other,) = parsed_together([short], keys), parsed_together([long], keys)
        assert repr([one[key] for key in keys]) == repr([other[key] for key in keys])
    whole, names = json.loads(long.line), (*METRICS, "nobody")
    for keys in (("metrics",), ("vendor",), ("metrics", "vendor")):
        for wanted in (names, ("cosine_similarity", "max_relative_error"), ("mean_relative_error",), ()):
            found = [list(one) if isinstance(one, tuple) else one for one in numbers_of(short, keys, wanted)]
            assert repr(found) == repr(list(numbers_of(whole, keys, wanted)))
    assert number_cells(short, ALGORITHMS) == number_cells(whole, ALGORITHMS)


@by_each_kernel
@settings(
    deadline=None,
    max_examples=int(os.environ.get("MSDUMP_KERNEL_CASES", "120")) // 4,
    suppress_health_check=list(HealthCheck),
)
@given(made=dumps())
def test_the_short_way_leads_to_the_same_record(made: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind, left, right, table = made
    folder = tmp_path_factory.mktemp("dumps")
    write_left(folder / "left", kind, left)
    write_reference(folder / "right", right)
    found = planned(folder, **table)
    conditions = conditions_of(found)
    assert len(found.pairing.pairs) == 3
    together = entries_of_usual(found.pairing.pairs, conditions)
    for pair, short in zip(found.pairing.pairs, together, strict=True):
        long = the_long_way(pair, conditions)
        assert line_of(entry_of(pair, conditions)) == line_of(long)
        assert entries_of_usual([pair], conditions) == [short]
        if short is None:
            continue
        assert long["verdict"] == "pass"
        assert_same(short, long)
        assert_same(pickle.loads(pickle.dumps(short)), long)
        more = {"amplification": 1.5, "weak": [0, None]}
        assert_same(with_more(short, more), with_more(long, more))
        assert_same(with_more(with_more(short, {"a": 1}), {"b": "ü"}), with_more(with_more(long, {"a": 1}), {"b": "ü"}))
        assert with_more(short, {"verdict": "fail"}) == with_more(long, {"verdict": "fail"})
        assert lines_of([short]) == lines_of([json.loads(long.line)])


def lines_of(records: list[Any]) -> list[Any]:
    """What the vendor's table is made of, but for where it comes from."""
    side = SideInfo("folder", "ascend", operators=100)
    lines = left_lines(Report(side, side, "default", {}, tuple(records)))
    told = [[getattr(line, name) for name in Line.__slots__ if name not in ("entry", "record")] for line in lines]
    return [[list(value) if isinstance(value, tuple) else value for value in one] for one in told]


# -- who goes which way ------------------------------------------------------------------------------------------------


OVERFLOW = OverflowEntry("AIC", task_id=1, stream_id=2, status=(1,))


def network(folder: Path, dtype: str = "float32", count: int = 4, scale: float = 1.0001, **more: Array) -> Path:
    rng = np.random.default_rng(3)
    left = {f"op{number}": rng.normal(size=(2, 32, 3, 2)).astype(dtype) for number in range(count)} | more
    write_left(folder / "left", "ascend" if not more else "reference", left)
    write_reference(folder / "right", {name: values * np.asarray(scale, values.dtype) for name, values in left.items()})
    return folder


def usual(folder: Path, change: Any = None, **table: Any) -> Iterator[Any]:
    found = planned(folder, **table)
    conditions = conditions_of(found)
    yield from entries_of_usual([change(pair) if change else pair for pair in found.pairing.pairs], conditions)


@by_each_kernel
def test_usual_pairs_go_the_short_way(tmp_path: Path) -> None:
    assert all(usual(network(tmp_path)))
    assert all(usual(network(tmp_path, scale=1.0)))
    # What stands in their way stands in the way of nobody else.
    np.save(next((tmp_path / "right").glob("op2.*")), np.zeros((2, 32, 3, 2), "float32"))
    assert [entry is not None for entry in usual(tmp_path)] == [True, True, False, True]


@by_each_kernel
def test_each_of_very_many_pairs_has_its_own_record(tmp_path: Path) -> None:
    found = planned(network(tmp_path, count=150))
    conditions = conditions_of(found)
    for entries in (entries_of(found.pairing.pairs, conditions), entries_of_usual(found.pairing.pairs, conditions)):
        for pair, entry in zip(found.pairing.pairs, entries, strict=True):
            assert type(entry) is FormedRecord
            assert line_of(entry) == line_of(the_long_way(pair, conditions))


@by_each_kernel
def test_unusual_pairs_go_the_long_way(tmp_path: Path) -> None:
    network(tmp_path)
    for change in (
        {"note": "something to say"},
        {"left": {"sample": 3}},
        {"right": {"sample": 3}},
        {"left": {"reader": "statistics"}},
        {"left": {"overflows": (OVERFLOW,)}},
        {"right": {"overflows": (OVERFLOW,)}},
    ):

        def changed(pair: Pair, change: Any = change) -> Pair:
            return replace(
                pair, **{k: replace(getattr(pair, k), **v) if isinstance(v, dict) else v for k, v in change.items()}
            )

        assert not any(usual(tmp_path, changed)), change
    known_drift = [{"match": "*", "cosine_similarity": 0.2, "reason": "it is", "until": "2999-01-01"}]
    assert not any(usual(tmp_path, known_drift=known_drift))
    assert not any(usual(tmp_path, without=["kl_divergence"]))
    assert not any(usual(tmp_path, rule=[{"match": "*", "max_absolute_error": 1e-9}]))
    found = planned(tmp_path)
    for extras in ({"first": 3}, {"spread": "all"}, {"algorithms": {"a": min}}, {"converters": {("A", "B"): min}}):
        conditions = replace(conditions_of(found), extras=replace(found.extras, **extras))
        assert entries_of_usual(found.pairing.pairs[:1], conditions) == [None], extras


@by_each_kernel
def test_a_line_of_the_vendor_s_table_is_that_of_the_record_s_values(tmp_path: Path) -> None:
    network(tmp_path)

    def changed(pair: Pair) -> Pair:
        left, right, number = pair.left, pair.right, pair.order
        at = Coordinates(rank=number, net="Net", graph=number + 1, iteration=7, occurrence=2 if number else None)
        op = OpKey(left.key.op.name, at, None if number == 1 else "Conv2D", 'a/b:"ü"' if number == 2 else None)
        sources = [replace(ref.source, device_address=None if number else 12345) for ref in (left, right)]
        other = replace(right.key, op=replace(right.key.op, true_name="c:d:e" if number == 3 else None))
        return replace(
            pair,
            left=replace(left, key=TensorKey(op, "input", number), source=sources[0]),
            right=replace(right, key=other, source=sources[1]),
            transform=replace(pair.transform, left_logical_format="NCHW" if number < 2 else None),
            order=number * 3,
        )

    records = list(usual(tmp_path, changed))
    assert all(records)
    found = lines_of(records)
    assert found == lines_of([json.loads(record.line) for record in records])
    # Of records that came from elsewhere, and of some of each.
    assert found == lines_of(pickle.loads(pickle.dumps(records)))
    assert found == lines_of([records[0], json.loads(records[1].line), *records[2:]])
    assert [line[0] for line in found] == [0, 3, 6, 9]


@by_each_kernel
def test_lines_of_the_vendor_s_table_need_no_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test above compares the same with the same."""
    records = list(usual(network(tmp_path)))
    monkeypatch.setattr(json, "loads", None)
    assert len(lines_of(records)) == 4


@by_each_kernel
def test_the_vendor_s_table_is_that_of_the_records_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    others = {f"other{number}": rng.normal(size=(3, 4 + number)).astype("float16") for number in range(3)}
    found = planned(network(tmp_path, **others))
    spoilt = found.pairing.pairs[1].right.source.path
    np.save(spoilt, -np.load(spoilt))
    records = [*measured(found).values()]
    assert {type(record) for record in records} == {FormedRecord, WrittenRecord}
    report = put_together(found, dict(enumerate(records)))
    values = replace(report, records=tuple(json.loads(line_of(record)) for record in records))
    assert csv_content(report) == csv_content(values)
    assert vendor_table(report) == vendor_table(values)
    assert nine_columns(report) == nine_columns(values)


@by_each_kernel
@pytest.mark.parametrize("right", [(30,), (10, 3), (5, 6)])
def test_shapes_that_do_not_meet_go_the_long_way(tmp_path: Path, right: tuple[int, ...]) -> None:
    values = np.random.default_rng(5).normal(size=30).astype("float32")
    write_reference(tmp_path / "left", {"op0": values.reshape(3, 10), "op1": values.reshape(3, 10)})
    write_reference(tmp_path / "right", {"op0": values.reshape(right), "op1": values.reshape(3, 10)})
    assert [entry is not None for entry in usual(tmp_path)] == [False, True]


@by_each_kernel
def test_a_grouped_weight_in_another_order_of_axes_stops_nobody_else(tmp_path: Path) -> None:
    network(tmp_path)
    weight = np.random.default_rng(5).normal(size=(3, 3, 5, 6)).astype("float32")
    lying = stored(weight, "FRACTAL_Z", logical_format="HWCN", groups=2)
    told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=FRACTAL_Z, original=weight.shape, groups=2)
    put(tmp_path / "left", "Conv2D.weight.1.1.1600000000000000", dump2(message(outputs=[told]), lying.tobytes()))
    write_reference(tmp_path / "right", {"weight": weight})
    found = planned(tmp_path)
    entries = entries_of(found.pairing.pairs, conditions_of(found))
    verdicts = {entry["left"]["name"]: entry["verdict"] for entry in entries}
    assert verdicts == dict.fromkeys(["weight", "op0", "op1", "op2", "op3"], "pass")


@by_each_kernel
@pytest.mark.parametrize("error", [OSError(116, "Stale file handle"), TensorFileError("a reader of somebody else")])
def test_what_cannot_be_read_at_once_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    found = planned(network(tmp_path))
    conditions, first = conditions_of(found), found.pairing.pairs[0]
    plain = reader(first.right.reader)

    def open_whole(ref: Any) -> Any:
        if ref is first.right:
            raise error
        return plain.open_whole(ref)

    class Worse:
        def __getattr__(self, name: str) -> Any:
            return open_whole if name == "open_whole" else getattr(plain, name)

    monkeypatch.setattr(alike, "reader", lambda name: Worse() if name == first.right.reader else reader(name))
    entries = entries_of_usual(found.pairing.pairs, conditions)
    assert [entry is not None for entry in entries] == [False, True, True, True]
    assert line_of(entry_of(first, conditions)) == line_of(the_long_way(first, conditions))


def test_records_that_were_sent_share_their_form(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=(4, 6)).astype("float16")
    found = planned(network(tmp_path, other=values))
    entries = entries_of_usual(found.pairing.pairs, conditions_of(found))
    batches = [pickle.loads(pickle.dumps(entries)) for _ in range(3)]
    assert batches == [entries] * 3
    assert len({id(one.form) for one in entries}) == 2
    assert len({id(one.form) for batch in batches for one in batch}) == 2


def test_pairs_of_map_entries_share_their_kind(tmp_path: Path) -> None:
    entries = [{"left": f"op{number}", "right": f"op{number}"} for number in range(4)]
    found = planned(network(tmp_path), map=entries)
    assert [pair.how for pair in found.pairing.pairs] == ["mapped"] * 4
    assert len({id(pair.transform) for pair in found.pairing.pairs}) == 1


@by_each_kernel
def test_a_file_that_is_another_now_is_read_as_it_is(tmp_path: Path) -> None:
    network(tmp_path)
    found = planned(tmp_path)
    conditions = conditions_of(found)
    assert None not in entries_of_usual(found.pairing.pairs[:2], conditions)
    first, second, third, fourth = found.pairing.pairs
    path = Path(first.left.source.path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert entry_of(first, conditions)["verdict"] == "error"
    path.unlink()
    assert "cannot be opened" in entry_of(first, conditions)["findings"][0]["sentence"]
    right = Path(second.right.source.path)
    right.write_bytes(right.read_bytes() + b"x")
    assert "too many" in entry_of(second, conditions)["findings"][0]["sentence"]
    os.truncate(third.right.source.path, 40)
    assert entry_of(third, conditions)["verdict"] == "error"
    values = np.full((2, 32, 3, 2), 5, "float16")
    Path(fourth.left.source.path).write_bytes(in_blocks(values))
    assert (found_now := entry_of(fourth, conditions))["verdict"] == "fail"
    assert found_now["left"]["dtype"] == "float16"


def test_kinds_are_worked_out_where_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {f"odd{number}": np.arange(2.0, 9.0 + number).astype("float32") for number in range(5)}
    network(tmp_path, **shapes)
    found = planned(tmp_path)
    conditions = conditions_of(found)
    lines = [line_of(entry_of(pair, conditions)) for pair in found.pairing.pairs]
    again = pickle.loads(pickle.dumps(conditions))
    assert again == conditions
    assert not again.kinds._known
    monkeypatch.setattr("pytest_msdump.pipeline.alike._MOST_KINDS", 2)
    few = conditions_of(found)
    assert [line_of(entry_of(pair, few)) for pair in found.pairing.pairs] == lines
    assert len(few.kinds._known) <= 2
    assert isinstance(again.kinds, Kinds)


@needs_kernel
def test_a_network_of_usual_pairs_needs_no_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "compiled")
    network(tmp_path)
    program = (
        "import sys\nfrom pytest_msdump.cli import main\n"
        "code = main(['compare', 'left', 'right', '--report', 'json,csv', '--quiet'])\n"
        "print('numpy' in sys.modules)\nraise SystemExit(code)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "False"), ran.stdout + ran.stderr
