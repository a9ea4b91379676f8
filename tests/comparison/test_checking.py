"""Checks of whole dumps: which tensors are looked at, which iterations meet, what cannot be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.assertions import assert_unsuspicious
from pytest_msdump.capabilities.inspect.checks import check_dump, parse_settings
from pytest_msdump.capabilities.inspect.command_text import check_lines
from pytest_msdump.core.compare.opening import index, open_dump
from pytest_msdump.core.text import say

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden" / "h_overflow"
ROOT = Path(__file__).parents[2]
GOOD = (
    *(f"tests/data/lenet/{run}" for run in ("target", "reference", "target_bad", "target_bad2")),
    *(f"tests/data/hazards/{run}" for run in ("bf16", "longname", "rerun_same_dir", "while_loop")),
    "tests/data/training",
    *(
        f"tests/data/ascend_golden/{case}/{side}"
        for case in ("a_fusion_nchw", "b2_names", "b_npu_vs_npu", "c_caffe_quant", "f_detail_split", "l_ffts", "m_nano")
        for side in ("left", "right")
    ),
    "example_suites/01_lenet_port/run",
    "example_suites/01_lenet_port/reference",
    "example_suites/02_failing_on_purpose/run",
    "example_suites/04_ascend_fused_conv/run",
    "example_suites/04_ascend_fused_conv/drifted",
    "example_suites/04_ascend_fused_conv/reference",
    "example_suites/05_quantised/run",
    "example_suites/05_quantised/reference",
    "example_suites/07_tensorflow_to_onnx/references/tensorflow",
)
GRADIENT = ("MatMul", "Gradients/Default/MatMul-op0", "output", 0, [1.0, 2.0])


def checked(root, *texts):
    return check_dump(index(root), parse_settings(texts))


def found(root, *texts):
    return [(hit.check, hit.ref.key.address) for hit in checked(root, *texts).hits]


def weights_over_time(root, values, *, trains=True, name="fc.weight", **where):
    for iteration, value in values.items():
        tensors = [("Parameter", name, "output", 0, value)]
        write_mindspore(root, [GRADIENT, *tensors] if trains else tensors, iteration=iteration, **where)


@pytest.mark.parametrize("run", GOOD)
def test_good_runs_are_clean(run):
    result = checked(ROOT / run)
    assert [(hit.check, hit.ref.key.address) for hit in result.hits] == []
    assert result.is_clean
    assert result.tensors == len(result.dump.refs) > 0


def test_a_gradient_that_is_zero_up_to_the_optimizer_is_told(tmp_path):
    """The run's own zeros, of a maximum that is subtracted again, are not; they end in a sum."""
    root = tmp_path / "run"
    shutil.copytree(ROOT / "tests/data/training", root)
    (file,) = root.rglob("*Grad_BiasAdd_BiasAddGrad-op1.*")
    np.save(file, np.zeros_like(np.load(file)))
    (address,) = {address for _, address in found(root)}
    assert address.endswith("Grad_BiasAdd/BiasAddGrad-op1:output:0")
    assert {check for check, _ in found(root)} == {"tensor_all_zero", "gradient_vanishing"}


def test_zeros_of_gradients_are_told_where_their_sum_is_zero_too(tmp_path):
    root = tmp_path / "run"
    shutil.copytree(ROOT / "tests/data/training", root)
    for file in (*root.rglob("*.Gradients_*.output.*.npy"), *root.rglob("*.Expand_*.output.*.npy")):
        np.save(file, np.zeros_like(np.load(file)))
    gradients = {hit.ref.key.op.label for hit in checked(root).hits if hit.check == "gradient_vanishing"}
    assert len(gradients) == len([*root.rglob("*.Gradients_*.output.*.npy")])


@pytest.mark.parametrize(("op_type", "first"), [("BatchNorm", 1), ("BNTrainingUpdateV2", 1), ("BatchNormGrad", 3)])
def test_what_an_operator_keeps_for_its_gradient_may_be_zero_and_never_nan(tmp_path, op_type, first):
    slots = [(op_type, "Default/bn", "output", slot, [1.0 if slot < first else 0.0] * 3) for slot in range(5)]
    write_mindspore(tmp_path / "good", slots)
    assert found(tmp_path / "good") == []
    assert len(found(tmp_path / "good", "tensor_all_zero=on")) == 5 - first
    write_mindspore(tmp_path / "dead", [(op_type, "Default/bn", "output", slot, [0.0] * 3) for slot in range(5)])
    assert found(tmp_path / "dead") == [("tensor_all_zero", f"Default/bn:output:{slot}") for slot in range(first)]
    write_mindspore(tmp_path / "nan", [(op_type, "Default/bn", "output", 4, [0.0, np.nan])])
    assert found(tmp_path / "nan") == [("tensor_overflow", "Default/bn:output:4")]


@pytest.mark.parametrize("name", ["fc.bias", "bn.beta"])
def test_weights_that_are_added_may_begin_at_zero_and_grow_from_there(tmp_path, name):
    weights_over_time(tmp_path, {0: [0.0, 0.0], 1: [0.1, 0.2], 2: [0.3, 0.4], 3: [0.3, 0.4]}, name=name)
    told = [(hit.check, hit.ref.key.op.at.iteration) for hit in checked(tmp_path).hits]
    assert told == [("weight_not_changed", 3)]
    asked = [(hit.check, hit.ref.key.op.at.iteration) for hit in checked(tmp_path, "weight_change_too_large=on").hits]
    assert ("weight_change_too_large", 2) in asked


def test_the_first_step_may_be_large_and_has_to_be_one(tmp_path):
    weights_over_time(tmp_path, {0: [1.0, 2.0], 1: [2.0, 1.0], 2: [3.0, 2.0]})
    told = [(hit.check, hit.previous.key.op.at.iteration) for hit in checked(tmp_path).hits]
    assert told == [("weight_change_too_large", 1)]
    weights_over_time(tmp_path / "still", {0: [1.0, 2.0], 1: [1.0, 2.0]})
    assert [check for check, _ in found(tmp_path / "still")] == ["weight_not_changed"]
    assert "weight_change_too_large" in {check for check, _ in found(tmp_path, "weight_change_too_large=on")}


def test_inputs_are_looked_through_for_overflow_and_else_only_without_an_output(tmp_path):
    write_mindspore(
        tmp_path,
        [
            ("Mul", "Default/a", "input", 0, [np.nan]),
            ("Mul", "Default/a", "input", 1, [0.0]),
            ("Mul", "Default/a", "output", 0, [1.0]),
            ("Mul", "Default/b", "input", 0, [0.0]),
        ],
    )
    assert found(tmp_path) == [("tensor_overflow", "Default/a:input:0"), ("tensor_all_zero", "Default/b:input:0")]


def test_weights_meet_the_iteration_before_them_in_order_of_numbers(tmp_path):
    weights_over_time(tmp_path, {2: [1.0], 9: [1.05], 10: [1.05], 11: [2.0]})
    result = checked(tmp_path)
    assert (result.weights, result.steps) == (4, 3)
    told = [(hit.check, hit.previous.key.op.at.iteration, hit.ref.key.op.at.iteration) for hit in result.hits]
    assert told == [("weight_not_changed", 9, 10), ("weight_change_too_large", 10, 11)]


def test_weights_of_a_run_without_gradients_may_stand_still(tmp_path):
    weights_over_time(tmp_path, {0: [1.0], 1: [1.0]}, trains=False)
    result = checked(tmp_path)
    assert result.is_clean
    assert "no operator of this run computes gradients" in say(result.notes[0])
    assert found(tmp_path, "weight_not_changed=on") == [("weight_not_changed", "fc_weight:output:0")]


def test_a_file_that_cannot_be_read_is_told_and_stops_no_other(tmp_path):
    write_mindspore(
        tmp_path,
        [("Mul", f"Default/{name}", "output", 0, [value]) for name, value in zip("abc", (1, 0.5, 0.0), strict=True)],
    )
    (file,) = tmp_path.rglob("Mul.Default_b.*")
    file.write_bytes(file.read_bytes()[:-2])
    result = checked(tmp_path)
    assert [hit.ref.key.op.name for hit in result.hits] == ["Default_c"]
    assert [ref.key.op.name for ref, _ in result.unreadable] == ["Default_b"]
    assert result.tensors == 2
    assert not result.is_clean


def test_nothing_to_look_at_is_not_clean(tmp_path):
    assert not checked(tmp_path).is_clean
    assert "there is no tensor in this dump" in "\n".join(check_lines(checked(tmp_path)))


def test_what_the_device_reports_is_a_hit_of_its_operator():
    (hit,) = checked(GOLDEN / "aicpu", "tensor_overflow=off").hits
    assert (hit.check, hit.ref.key.op.label) == ("operator_overflow", "Mul_7")
    assert say(hit.message) == "AICPU reports task 12, stream 3: status 7"
    assert found(GOLDEN / "aicpu", "tensor_overflow=off", "operator_overflow=off") == []


def test_what_the_device_reports_of_operators_without_a_dump_is_no_success():
    quiet = ("tensor_overflow=off",)
    result = checked(GOLDEN / "no_dump_file", *quiet)
    assert (result.hits, result.is_clean) == ((), False)
    ((path, message),) = result.reports
    assert path.name.startswith("Opdebug")
    assert "task 99, stream 3" in say(message)
    assert "nothing was dumped of it" in say(message)
    assert f"REPORTED  {path}" in lines(result)
    assert checked(GOLDEN / "no_dump_file", *quiet, "operator_overflow=off").is_clean
    assert "unknown unit 7" in say(checked(GOLDEN / "bad_acc_type", *quiet).reports[0][1])
    assert checked(GOLDEN / "status_zero", *quiet).is_clean


def statistic_csv(root, rows, columns="Max Value,Min Value,Avg Value,NaN Count,Zero Count,Count"):
    folder = root / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    head = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
    lines = [
        f'Mul,Default_{name},0,0,{100 + place},output,0,8,float32,"(2)",{values}'
        for place, (name, values) in enumerate(rows.items())
    ]
    (folder / "statistic.csv").write_text("\n".join([f"{head},{columns}", *lines, ""]), "utf-8")


def test_statistics_are_checked_as_far_as_they_tell(tmp_path):
    statistic_csv(tmp_path, {"a": "1,1,1,0,0,2", "b": "0,0,0,0,2,2", "c": "1,1,1,1,0,2"})
    result = checked(tmp_path, "tensor_too_large.abs_mean_gt=0.1", "tensor_too_large.max_gt=0.5")
    told = [(hit.check, hit.ref.key.op.name, hit.parameter) for hit in result.hits]
    assert told == [
        ("tensor_too_large", "Default_a", "max_gt"),
        ("tensor_all_zero", "Default_b", "zero_percentage_ge"),
        ("tensor_overflow", "Default_c", None),
        ("tensor_too_large", "Default_c", "max_gt"),
    ]
    assert say(result.notes[0]).startswith("3 tensors of these were saved as statistics only")


def test_statistics_that_do_not_tell_of_nan_are_said_to(tmp_path):
    statistic_csv(tmp_path, {"a": "1"}, columns="Max Value")
    assert any("overflow was not checked there" in say(note) for note in checked(tmp_path).notes)


def lines(result, **options):
    return list(check_lines(result, **options))


def test_the_assertion_takes_any_dump_and_settings_by_name(tmp_path):
    write_reference(tmp_path, {"a": [0.0, 0.0]})
    for dump in (tmp_path, str(tmp_path), index(tmp_path), open_dump(tmp_path)):
        with pytest.raises(AssertionError, match="tensor_all_zero"):
            assert_unsuspicious(dump)
        assert assert_unsuspicious(dump, {"tensor_all_zero": False}).is_clean
    with pytest.raises(AssertionError, match="tensor_too_small"):
        assert_unsuspicious(tmp_path, {"tensor_all_zero": "off", "tensor_too_small.max_lt": 1})


def test_a_weight_of_another_shape_is_told(tmp_path):
    weights_over_time(tmp_path, {0: [1.0], 1: [1.0, 2.0]})
    result = checked(tmp_path)
    assert not result.is_clean
    assert "its shape is (2,) and was (1,)" in result.unreadable[0][1]


def test_weights_that_were_turned_off_are_not_read_twice(tmp_path):
    weights_over_time(tmp_path, {0: [1.0], 1: [1.0]})
    result = checked(tmp_path, "weight_not_changed=off", "weight_change_too_small=off", "weight_change_too_large=off")
    assert (result.steps, result.hits, result.notes) == (0, (), ())
