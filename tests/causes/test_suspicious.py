"""Pairs that are far off while another tensor fits: swapped, off by one; and what is no wrong pair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dump_builder import write_mindspore, write_reference
from two_dumps import reported

from pytest_msdump.capabilities.causes import mispaired
from pytest_msdump.capabilities.suggest.fingerprint import sample_of, sampled_distance
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import document, read_json, report_from
from pytest_msdump.core.report.summary import summary_lines
from pytest_msdump.core.suite import parse_toml

Array = npt.NDArray[Any]
Told = dict[str, list[tuple[str, str, str]]]


def values(count: int, shape: tuple[int, ...] = (4, 10)) -> list[Array]:
    """Tensors that have nothing in common."""
    numbers = np.random.default_rng(86)
    return [numbers.standard_normal(shape).astype("f4") for _ in range(count)]


def near(array: Array) -> Array:
    """The same within any limit."""
    return (array * (1 + 1e-6)).astype(array.dtype)


def write(folder: Path, left: Mapping[str, Array], right: Mapping[str, Array], **where: Any) -> None:
    write_mindspore(folder / "left", [("Op", name, "output", 0, array) for name, array in left.items()], **where)
    write_reference(folder / "right", right)


def report(folder: Path, mapping: Mapping[str, str] | None = None, **table: Any) -> Any:
    entries = [{"left": left, "right": right} for left, right in (mapping or {}).items()]
    return reported(folder, **({"map": entries} if entries else {}), **table)


def told(found: Any) -> Told:
    """By left operator: side, address and confidence of what fits better."""
    return {
        record.left.address.removesuffix(":output:0"): [
            (one.side, one.address.removesuffix(":output:0"), one.doubt or one.confidence) for one in record.suspicious
        ]
        for record in found.records
        if record.suspicious
    }


# -- what is a wrong pair --------------------------------------------------------------------------------------------


def test_two_that_were_swapped_are_told_with_the_entries_that_set_them_right(tmp_path: Path) -> None:
    a, b, c = values(3)
    write(tmp_path, {"a": near(a), "b": near(b), "c": near(c)}, {"a": a, "b": b, "c": c})
    assert told(report(tmp_path)) == {}
    found = report(tmp_path, {"a": "b", "b": "a"})
    assert told(found) == {"a": [("right", "a", "clear")], "b": [("right", "b", "clear")]}
    assert told(report(tmp_path, {"a": "a", "b": "b"})) == {}
    maps = [one.map for record in found.records for one in record.suspicious]
    assert maps == [{"left": f"{name}:output:0", "right": f"{name}:output:0"} for name in "ab"]
    set_right = report(tmp_path, {entry["left"]: entry["right"] for entry in maps})
    assert [record.verdict.outcome for record in set_right.records] == ["pass"] * 3


@pytest.mark.parametrize("is_flat", [False, True])
def test_entries_that_set_pairs_right_name_modules_and_work_as_printed(is_flat: bool, tmp_path: Path) -> None:
    a, b = values(2)
    ops = (
        ("net.a", "net.b")
        if is_flat
        else ("Default/network-Net/a-Dense/BiasAdd-op3", "Default/network-Net/b-Dense/Add-op7")
    )
    right = {"fc1": a, "fc2": b}
    write(tmp_path, dict(zip(ops, (near(a), near(b)), strict=True)), right)
    if is_flat:
        shutil.rmtree(tmp_path / "left")
        write_reference(tmp_path / "left", {"net.a": near(a), "net.b": near(b)})
    wrong = report(tmp_path, dict(zip(ops, ("fc2", "fc1"), strict=True)))
    lines = list(dropwhile(lambda line: "needs:" not in line, summary_lines(wrong, width=200)))[1:]
    entries = parse_toml("\n".join(lines).encode(), "printed")["msdump"]["map"]
    slot = ":output:0" if is_flat else ""
    names = ops if is_flat else ("a", "b")
    assert {(one["left"], one["right"]) for one in entries} == {
        (f"{name}{slot}", f"{other}{slot}") for name, other in zip(names, right, strict=True)
    }
    set_right = report(tmp_path, map=entries)
    assert [(one.left.key.op.label, one.verdict.outcome) for one in set_right.records] == [(op, "pass") for op in ops]


def test_names_that_meet_wrongly_are_told_where_both_are_far_off(tmp_path: Path) -> None:
    a, b = values(2)
    write(tmp_path, {"a": near(b), "b": near(a)}, {"a": a, "b": b})
    assert told(report(tmp_path)) == {"a": [("right", "b", "clear")], "b": [("right", "a", "clear")]}


def test_a_map_that_is_off_by_one_layer_is_told_layer_by_layer(tmp_path: Path) -> None:
    layers = values(6)
    write(
        tmp_path,
        {f"op{number}": near(layer) for number, layer in enumerate(layers)},
        {f"layer{number}": layer for number, layer in enumerate(layers)},
    )
    off = report(tmp_path, {f"op{number}": f"layer{number + 1}" for number in range(5)})
    assert told(off) == {f"op{number}": [("right", f"layer{number}", "clear")] for number in range(5)}


def test_shapes_that_do_not_meet_are_looked_at_too_and_the_entry_says_how_they_do(tmp_path: Path) -> None:
    a, b = values(1, (2, 3, 4, 5))[0], values(1, (7, 3))[0]
    write(tmp_path, {"x": near(a), "y": near(b)}, {"a": a.transpose(0, 2, 3, 1), "b": b.reshape(21)})
    found = report(tmp_path, {"x": "b", "y": "a"})
    entries = {record.left.address: record.suspicious[0] for record in found.records}
    assert entries["x:output:0"].map == {"left": "x:output:0", "right": "a:output:0", "transpose": [0, 3, 1, 2]}
    assert entries["y:output:0"].map == {"left": "y:output:0", "right": "b:output:0", "reshape": True}
    assert [entries[key].shape for key in ("x:output:0", "y:output:0")] == ["transposed", "reshaped"]


def test_an_entry_of_a_run_with_several_parts_is_for_one_of_them(tmp_path: Path) -> None:
    a, b = values(2)
    write(tmp_path, {"a": near(a), "b": near(b)}, {"a": a, "b": b})
    write_mindspore(tmp_path / "left", [("Op", "a", "output", 0, near(b)), ("Op", "b", "output", 0, a)], rank=1)
    found = report(tmp_path)
    assert {record.left.at.rank for record in found.records if record.verdict.outcome == "fail"} == {1}
    maps = [one.map for record in found.records for one in record.suspicious]
    parts = {"rank": 1, "net": "Net", "graph": 0, "iteration": 0}
    assert maps == [{"left": f"{one}:output:0", "right": f"{other}:output:0", **parts} for one, other in ("ab", "ba")]
    set_right = report(tmp_path, map=maps)
    assert [record.verdict.outcome for record in set_right.records] == ["pass"] * 4


# -- what is none ----------------------------------------------------------------------------------------------------


def test_what_names_pair_is_doubted_but_no_entry_is_offered_for_a_tensor_that_nobody_has(tmp_path: Path) -> None:
    conv, relu = values(2)
    write(tmp_path, {"relu": near(conv)}, {"conv": conv, "relu": relu})
    found = report(tmp_path)
    assert told(found) == {"relu": [("right", "conv", "names")]}
    assert found.records[0].suspicious[0].map is None
    assert told(report(tmp_path, {"relu": "relu"})) == {"relu": [("right", "conv", "clear")]}


def test_values_that_several_tensors_have_are_ambiguous(tmp_path: Path) -> None:
    a, b = values(2)
    write(tmp_path, {"x": near(a)}, {"b": b, "a1": a, "a2": a})
    assert told(report(tmp_path, {"x": "b"})) == {"x": [("right", "a1", "several"), ("right", "a2", "several")]}
    write(tmp_path / "twins", {"x": near(a), "y": near(a)}, {"b": b, "a": a})
    assert told(report(tmp_path / "twins", {"x": "b"})) == {"x": [("right", "a", "several")]}


def test_a_pair_that_holds_makes_a_free_tensor_of_the_same_values_ambiguous(tmp_path: Path) -> None:
    a, b = values(2)
    write(tmp_path, {"x": near(a), "y": near(a)}, {"b": b, "a1": a, "a2": a})
    assert told(report(tmp_path, {"x": "b", "y": "a1"})) == {"x": [("right", "a2", "several")]}


@pytest.mark.parametrize("value", [0.0, 3.0, np.nan])
def test_a_constant_is_nobody_s_partner(tmp_path: Path, value: float) -> None:
    (a,) = values(1)
    constant = np.full_like(a, value)
    write(tmp_path, {"x": constant, "y": near(a)}, {"a": a, "b": constant})
    assert told(report(tmp_path, {"x": "a"})).get("x", []) == [("left", "y", "clear")]
    write(tmp_path / "alone", {"x": constant}, {"a": a, "b": constant})
    assert told(report(tmp_path / "alone", {"x": "a"})) == {}


def test_what_is_only_like_it_is_no_partner(tmp_path: Path) -> None:
    a, b = values(2)
    noise = values(3)[2]
    write(tmp_path, {"x": (a + 0.03 * noise).astype("f4")}, {"b": b, "a": a})
    assert told(report(tmp_path, {"x": "b"})) == {}


def test_a_pair_that_is_not_far_off_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = values(2)
    write(tmp_path, {"a": (a * 1.05).astype("f4"), "b": near(b)}, {"a": a, "b": b, "c": (a * 1.05).astype("f4")})
    monkeypatch.setattr(mispaired, "_MispairSearch", None)
    found = report(tmp_path)
    assert [record.verdict.outcome for record in found.records] == ["fail", "pass"]


def test_where_the_distance_is_left_out_the_cosine_tells_what_is_far_off(tmp_path: Path) -> None:
    a, b, c = values(3)
    write(tmp_path, {"x": near(a), "y": near(b), "z": (c * 1.01).astype("f4")}, {"a": a, "b": b, "c": c})
    mapping = {"x": "b", "y": "a", "z": "c"}
    for without in (["rel_euclid"], ["rel_euclid", "kld"]):
        found = report(tmp_path, mapping, profile="torch", without=without)
        assert "relative_euclidean_distance" not in found.records[0].metrics
        assert told(found) == {"x": [("right", "a", "clear")], "y": [("right", "b", "clear")]}
    assert told(report(tmp_path, mapping, profile="torch", without=["rel_euclid", "cosine"])) == {}


def test_other_parts_of_the_run_and_inputs_are_no_candidates(tmp_path: Path) -> None:
    a, b = values(2)
    (tmp_path / "right").mkdir()
    for side, bad in (("left", b), ("right", a)):
        write_mindspore(tmp_path / side, [("Op", "a", "output", 0, bad)], iteration=0)
        write_mindspore(tmp_path / side, [("Op", "a", "output", 0, b), ("Op", "a", "input", 0, b)], iteration=1)
    assert told(report(tmp_path, io="all")) == {}


def test_a_file_that_cannot_be_read_is_nobody_s_partner(tmp_path: Path) -> None:
    a, b = values(2)
    write(tmp_path, {"x": near(a), "y": near(b)}, {"a": a, "b": b})
    (next((tmp_path / "right").glob("a.*"))).write_bytes(b"\x93NUMPY")
    assert told(report(tmp_path, {"x": "b", "y": "a"})) == {}


# -- the parts -------------------------------------------------------------------------------------------------------


def test_samples_of_huge_numbers_and_of_nan() -> None:
    def distance(one: Array, other: Array) -> float:
        return sampled_distance(sample_of(one), sample_of(other))

    big = np.array([1e300, -2e300])
    assert distance(big, big) == pytest.approx(0, abs=1e-7)
    assert distance(big, -big) == pytest.approx(2)
    assert distance(big, big * 1e-3) == pytest.approx(0.999)
    assert distance(big, big * 1j) == pytest.approx(np.sqrt(2))
    holes = np.array([1.0, np.nan, np.inf, 2.0])
    assert distance(holes, holes) == pytest.approx(0, abs=1e-7)
    whole = np.array([1.0, 5.0, 5.0, -2.0])
    assert distance(holes, whole) == distance(whole, holes) == pytest.approx(np.sqrt(16 / 5))
    assert distance(holes[:3], holes[:3]) == np.inf
    assert distance(np.zeros(3), np.zeros(3)) == 0
    assert distance(np.zeros(3), np.ones(3)) == 1
    assert distance(np.array([]), np.array([])) == 0


# -- what is said ----------------------------------------------------------------------------------------------------


@pytest.fixture
def swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    a, b = values(2)
    write(tmp_path, {"x": near(a), "y": near(b)}, {"a": a, "b": b})
    pairs = "".join(f'[[msdump.map]]\nleft = "{left}"\nright = "{right}"\n' for left, right in ("xb", "ya"))
    (tmp_path / "msdump.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{pairs}', "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_saved_report_keeps_it_and_a_damaged_one_is_refused(swapped: Path) -> None:
    assert main(["compare"]) == 1
    saved = read_json(swapped / "msdump-report" / "results.json")
    assert document(report_from(saved))["tensors"][0]["suspicious"][0]["map"]["right"] == "a:output:0"
    for key, value in (("side", "top"), ("shape", 3), ("doubt", "none"), ("map", {"left": 1}), ("why", None)):
        damaged = json.loads(json.dumps(saved))
        damaged["tensors"][0]["suspicious"][0][key] = value
        with pytest.raises(Exception, match="suspicious"):
            report_from(damaged)
