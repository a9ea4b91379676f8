"""Entries of which one side names several tensors, or a crop: what numpy joined is judged part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from two_dumps import planned, reported

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import DumpWriter

RANDOM = np.random.default_rng(7)
# Grouped queries: of 4 heads of queries two each share keys and values.
Q, K, V = (RANDOM.normal(size=(2, 5, width)).astype("f4") for width in (8, 4, 4))
QKV = ["model.q", "model.k", "model.v"]


def write(folder: Path, **tensors: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in tensors.items():
        np.save(folder / f"{name.replace('__', '.')}.npy", values.astype("f4"))


def dumps(folder: Path, whole: np.ndarray, *, swapped: bool, **parts: np.ndarray) -> None:
    write(folder / ("right" if swapped else "left"), layer__qkv=whole)
    write(folder / ("left" if swapped else "right"), **parts)


def entry(*, swapped: bool = False, whole: str = "layer.qkv", names: object = QKV, **more: object) -> dict[str, object]:
    return {"left": names if swapped else whole, "right": whole if swapped else names, **more}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_each_part_has_a_verdict_and_numbers_of_its_own(tmp_path, swapped, merged):
    whole = np.concatenate([Q, K * 1.5, V], -1)
    whole = whole.reshape(10, 16) if merged else whole
    dumps(tmp_path, whole, swapped=swapped, model__q=Q, model__k=K, model__v=V)
    report = reported(tmp_path, map=[entry(swapped=swapped)])
    sides = [(record.left.name, record.right.name)[not swapped] for record in report.records]
    assert dict(zip(sides, [record.verdict.outcome for record in report.records], strict=True)) == {
        "model.q": "pass",
        "model.k": "fail",
        "model.v": "pass",
    }
    wrong = next(record for record in report.records if record.fails)
    # |1.5 k - k| / |k|, or the other way round.
    assert wrong.metrics["relative_euclidean_distance"] == pytest.approx(1 / 3 if swapped else 0.5, rel=1e-5)
    assert sorted(record.elements or 0 for record in report.records) == [40, 40, 80]
    assert report.coverage.value == 1
    assert report.coverage.right_total == (1 if swapped else 3)


def test_order_of_the_names_is_order_in_the_tensor(tmp_path):
    dumps(tmp_path, np.concatenate([Q, V, K], -1), swapped=False, model__q=Q, model__k=K, model__v=V)
    outcomes = [record.verdict.outcome for record in reported(tmp_path, map=[entry()]).records]
    assert outcomes == ["pass", "fail", "fail"]


def test_join_names_the_axis_and_templates_meet_with_slots(tmp_path):
    halves = [RANDOM.normal(size=(3, 2)) for _ in range(4)]
    for layer in range(2):
        pair = halves[2 * layer : 2 * layer + 2]
        write(tmp_path / "left", **{f"h__{layer}__both": np.concatenate(pair, 0)})
        write(tmp_path / "right", **{f"l__{layer}__{name}": one for name, one in zip("ab", pair, strict=True)})
    made = {"left": "h.{i}.both:output:0", "right": ["l.{i}.a:output:0", "l.{i}.b"], "join": 0}
    report = reported(tmp_path, map=[made])
    assert [record.verdict.outcome for record in report.records] == ["pass"] * 4
    assert report.coverage.value == 1
    made.pop("join")
    report = reported(tmp_path, map=[made])
    assert (report.records, len(report.missing)) == ((), 4)


def test_parts_meet_a_tensor_whose_axes_were_exchanged(tmp_path):
    weights = [RANDOM.normal(size=(6, width)) for width in (4, 2)]
    write(tmp_path / "left", w=np.concatenate([one.T for one in weights], 0))
    write(tmp_path / "right", a=weights[0], b=weights[1])
    report = reported(tmp_path, map=[{"left": "w", "right": ["a", "b"], "transpose": [1, 0]}])
    assert [record.verdict.outcome for record in report.records] == ["pass", "pass"]
    (tmp_path / "turned").mkdir()
    write(tmp_path / "turned" / "left", a=weights[0], b=weights[1])
    write(tmp_path / "turned" / "right", w=np.concatenate([one.T for one in weights], 0))
    report = reported(tmp_path / "turned", map=[{"right": "w", "left": ["a", "b"], "transpose": [1, 0]}])
    assert [record.verdict.outcome for record in report.records] == ["pass", "pass"]


@pytest.mark.parametrize("wrong", [None, 1])
def test_stacked_experts_meet_by_their_numbers(tmp_path, wrong):
    experts = [[RANDOM.normal(size=(4, 6)) for _ in range(2)] for _ in range(3)]
    write(tmp_path / "left", moe__w13=np.stack([np.concatenate(one, -1) for one in experts]))
    for number, (gate, up) in enumerate(experts):
        made = {f"e__{number}__gate": up if number == wrong else gate, f"e__{number}__up": up}
        write(tmp_path / "right", **made)
    report = reported(tmp_path, map=[entry(whole="moe.w13[{e}]", names=["e.{e}.gate", "e.{e}.up"])])
    failing = [record.right.name for record in report.records if record.fails]
    assert failing == ([] if wrong is None else [f"e.{wrong}.gate"])
    assert (len(report.records), report.coverage.value) == (6, 1)
    one = reported(tmp_path, map=[entry(whole="moe.w13[2]", names=["e.2.gate", "e.2.up"])], min_coverage=0)
    assert [record.verdict.outcome for record in one.records] == ["pass", "pass"]
    beyond = reported(tmp_path, map=[entry(whole="moe.w13[3]", names=["e.2.gate", "e.2.up"])])
    assert "no [3] along its first axis" in beyond.missing[0].reason


@pytest.mark.parametrize(
    ("whole", "parts", "why"),
    [
        (np.concatenate([Q, K], -1), {"model__q": Q, "model__k": K}, "model.v is not among those"),
        (np.concatenate([Q, K], -1), {"model__q": Q, "model__k": K, "model__v": V}, "name all its parts"),
        (np.concatenate([Q, K, V], -1), {"model__q": Q, "model__k": K, "model__v": V[:1]}, "other axes differ"),
    ],
)
def test_parts_that_do_not_make_the_tensor_are_missing(tmp_path, whole, parts, why):
    dumps(tmp_path, whole, swapped=False, **parts)
    report = reported(tmp_path, map=[entry()])
    assert report.records == ()
    assert any(why in one.reason for one in report.missing)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"left": ["a", "b"], "right": ["c", "d"]}, "on one side, and one tensor on the other"),
        ({"left": [], "right": "c"}, "on one side, and one tensor on the other"),
        ({"left": "a", "right": "b", "join": 0}, "several tensors lie"),
        ({"left": "layer.qkv", "right": ["a", "a[0]"]}, "index of the one tensor"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(tmp_path, made, why):
    dumps(tmp_path, Q, swapped=False, model__q=Q)
    with pytest.raises(ConfigError, match=why):
        planned(tmp_path, map=[made])


def test_a_left_tensor_in_two_entries_is_refused(tmp_path):
    dumps(tmp_path, np.concatenate([Q, K, V], -1), swapped=False, model__q=Q, model__k=K, model__v=V)
    for other in (entry(names="model.q"), entry(names=["model.q", "model.k"])):
        with pytest.raises(ConfigError, match="both name the left tensor"):
            planned(tmp_path, map=[entry(), other])


@pytest.mark.parametrize("profile", ["default", "bitwise"])
def test_a_crop_compares_what_both_have_and_counts_the_rest_of_the_right(tmp_path, profile):
    logits = RANDOM.normal(size=(6, 256))
    write(tmp_path / "left", head=logits, other=Q)
    write(tmp_path / "right", head=logits[:, :250].reshape(2, 3, 250), other=Q)
    options = {"map": [{"left": "head", "right": "head", "crop": "vocab"}], "profile": profile}
    report = reported(tmp_path, **options)
    assert [(record.verdict.outcome, record.elements) for record in report.records] == [("pass", 1500), ("pass", 80)]
    assert "6 of 256 along axis 1 left out" in report.records[0].verdict.findings[0].sentence
    assert report.coverage.value == 1
    (tmp_path / "left").rename(tmp_path / "middle")
    (tmp_path / "right").rename(tmp_path / "left")
    (tmp_path / "middle").rename(tmp_path / "right")
    assert reported(tmp_path, **options).coverage.value == pytest.approx((1 + 250 / 256) / 2)


def test_without_crop_and_along_another_axis_shapes_that_differ_are_errors(tmp_path):
    write(tmp_path / "left", head=np.zeros((6, 256)))
    write(tmp_path / "right", head=np.zeros((6, 250)))
    for more in ({}, {"crop": 0}):
        (record,) = reported(tmp_path, map=[{"left": "head", "right": "head", **more}]).records
        assert record.verdict.outcome == "error"


def test_merged_axes_meet_by_name_and_the_record_says_so(tmp_path):
    write(tmp_path / "left", same=Q.reshape(10, 8), turned=Q.transpose(0, 2, 1))
    write(tmp_path / "right", same=Q, turned=Q)
    same, turned = reported(tmp_path).records
    assert (same.verdict.outcome, same.transform.reshape) == ("pass", True)
    assert turned.verdict.outcome == "error"


@pytest.mark.parametrize(("second", "meets"), [((4, 6), False), ((4, 3), True)])
def test_a_module_that_gives_out_terms_of_one_shape_meets_no_single_output(tmp_path, second, meets):
    # As many tensors on both sides: an engine's block gives out hidden state and residual, and takes less.
    with DumpWriter(tmp_path / "left") as writer:
        writer.write("block.inner", Q)
        writer.write("block", np.ones((4, 6), "f4"), slot=0)
        writer.write("block", np.ones(second, "f4"), slot=1)
        writer.write("block", Q, io="input")
    with DumpWriter(tmp_path / "right") as writer:
        writer.write("block.inner", Q)
        writer.write("block", np.full((4, 6), 2, "f4"))
        writer.write("block", Q, io="input", slot=0)
        writer.write("block", Q, io="input", slot=1)
    names = {record.left.true_name or record.left.name for record in reported(tmp_path).records}
    assert names == ({"block", "block.inner"} if meets else {"block.inner"})
