"""The vendor's table of what can be compared with what: six rows, each with every kind of file that it allows.

Each passes with right data, fails at the one tensor that was spoilt, and asks for the rule file that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from semantics import ascend_made as made
from semantics.gate import ask

Array = npt.NDArray[Any]
RNG = np.random.default_rng(3)
CONV = RNG.standard_normal((2, 19, 5, 7)).astype(np.float32)
FC = RNG.standard_normal((20, 33)).astype(np.float32)


def spoilt(values: Array) -> Array:
    """The same with one channel, or column, of the wrong sign."""
    out = values.copy()
    out[:, 7] *= -1
    return out


class Row(NamedTuple):
    """How a row's two sides and rule files are made, which flags it needs, and a wrong set of flags."""

    left: Callable[[Path, Callable[[Array], Array], str], None]
    right: Callable[[Path, str], None]
    needed: tuple[str, ...]
    wrong: tuple[str, ...]
    left_forms: tuple[str, ...] = ("device",)
    right_forms: tuple[str, ...] = ("npy", "pb")


def device_left(folder: Path, change: Callable[[Array], Array], _form: str) -> None:
    half = change(CONV).astype(np.float16)
    made.device(
        folder / "left", "Conv2D", "conv1bn1", made.nc1hwc0(half), memory_format="NC1HWC0", original=half.shape, time=1
    )
    matrix = FC.astype(np.float16)
    made.device(
        folder / "left", "MatMul", "fc1", made.fractal_nz(matrix), memory_format="FRACTAL_NZ", original=FC.shape, time=2
    )
    made.rules(
        folder / "model.json",
        made.operator("conv1bn1", "Conv2D", ["conv1", "bn1"]),
        made.operator("fc1", "MatMul", inputs=("conv1bn1:0",)),
    )
    made.rules(folder / "quant.json", made.operator("conv1bn1", "Conv2D", ["conv1", "bn1"]))


def quantised_device_left(folder: Path, change: Callable[[Array], Array], _form: str) -> None:
    half = change(CONV).astype(np.float16)
    made.device(folder / "left", "AscendQuant", "data_quant_layer", np.ones((2, 3), np.int8), time=1)
    made.device(
        folder / "left",
        "AscendDequant",
        "conv1_dequant_layer",
        made.nc1hwc0(half),
        memory_format="NC1HWC0",
        original=half.shape,
        time=2,
    )
    made.device(folder / "left", "MatMul", "fc1", FC.astype(np.float16), original=FC.shape, time=3)
    made.rules(
        folder / "model.json",
        made.operator("data_quant_layer", "AscendQuant", dtype="DT_INT8"),
        made.operator("conv1", "Conv2D", inputs=("data_quant_layer:0",), dtype="DT_INT32"),
        made.operator("conv1_dequant_layer", "AscendDequant", inputs=("conv1:0",)),
        made.operator("fc1", "MatMul", inputs=("conv1_dequant_layer:0",)),
    )
    quantisation(folder)


def quantisation(folder: Path) -> None:
    made.rules(
        folder / "quant.json",
        made.operator("data_quant_layer", "Quant", [], dtype="DT_INT8"),
        made.operator("conv1", "Convolution", ["conv1"], inputs=("data_quant_layer:0",)),
        made.operator("conv1_dequant_layer", "DeQuant", ["conv1"], inputs=("conv1:0",)),
        made.operator("fc1", "InnerProduct", inputs=("conv1_dequant_layer:0",)),
    )


def quantised_original_left(folder: Path, change: Callable[[Array], Array], form: str) -> None:
    made.original(folder / "left", "data_quant_layer", np.ones((2, 3), np.int8), form=form, time=1)
    made.original(folder / "left", "conv1_dequant_layer", change(CONV), form=form, time=2)
    made.original(folder / "left", "fc1", FC, form=form, time=3)
    quantisation(folder)
    made.rules(folder / "model.json", made.operator("conv1_dequant_layer", "AscendDequant"))


def original_right(folder: Path, form: str) -> None:
    made.original(folder / "right", "bn1", CONV, form=form)
    made.original(folder / "right", "conv1", CONV, form=form)
    made.original(folder / "right", "fc1", FC, form=form)


def quantised_original_right(folder: Path, form: str) -> None:
    made.original(folder / "right", "data_quant_layer", np.ones((2, 3), np.int8), form=form)
    made.original(folder / "right", "conv1_dequant_layer", CONV, form=form)
    made.original(folder / "right", "fc1", FC, form=form)


def tensorflow_right(folder: Path, form: str) -> None:
    made.original(folder / "right", "bn1", np.ascontiguousarray(CONV.transpose(0, 2, 3, 1)), form=form)
    made.original(folder / "right", "fc1", FC, form=form)


def tensorflow_left(folder: Path, change: Callable[[Array], Array], form: str) -> None:
    device_left(folder, change, form)
    made.rules(
        folder / "model.json",
        made.operator("conv1bn1", "Conv2D", ["conv1", "bn1"], _datadump_origin_format={"s": "NHWC"}),
        made.operator("fc1", "MatMul", inputs=("conv1bn1:0",)),
    )


def other_device_right(folder: Path, _form: str) -> None:
    half = CONV.astype(np.float16)
    made.device(
        folder / "right",
        "Conv2D",
        "conv1bn1",
        made.nc1hwc0(half),
        memory_format="NC1HWC0",
        original=half.shape,
        time=91,
    )
    matrix = made.fractal_nz(FC.astype(np.float16))
    made.device(folder / "right", "MatMul", "fc1", matrix, memory_format="FRACTAL_NZ", original=FC.shape, time=92)


ROWS = {
    "1 Ascend, Caffe": Row(device_left, original_right, ("-f",), ("-q",)),
    "2 quantised Ascend, Caffe": Row(quantised_device_left, original_right, ("-f", "-q"), ("-q",)),
    "3 quantised Caffe, Caffe": Row(
        quantised_original_left, original_right, ("-q",), ("-q", "--close-fusion"), left_forms=("npy", "quant")
    ),
    "4 quantised Ascend, quantised Caffe": Row(
        quantised_device_left, quantised_original_right, ("-f",), ("-f", "-q"), right_forms=("npy", "quant")
    ),
    "5 Ascend, TensorFlow": Row(tensorflow_left, tensorflow_right, ("-f",), ("-q",)),
    "6 Ascend, Ascend": Row(device_left, other_device_right, (), ("-f",), right_forms=("device",)),
}
CASES = [(name, left, right) for name, row in ROWS.items() for left in row.left_forms for right in row.right_forms]
FILES = {"-f": "model.json", "-q": "quant.json", "--close-fusion": "model.json"}


def flags(folder: Path, names: tuple[str, ...]) -> list[str]:
    return [part for name in names for part in (name, str(folder / FILES[name]))]


def dumped(folder: Path, case: tuple[str, str, str], change: Callable[[Array], Array]) -> Row:
    name, left, right = case
    row = ROWS[name]
    row.left(folder, change, left)
    row.right(folder, right)
    return row


@pytest.mark.parametrize("case", CASES, ids=" - ".join)
def test_right_data_passes(case, tmp_path):
    row = dumped(tmp_path, case, lambda values: values)
    answer = ask(tmp_path / "left", tmp_path / "right", *flags(tmp_path, row.needed))
    assert answer.code == 0, answer.text
    compared = {record["left"]["address"] for record in answer.results["tensors"]}
    assert "fc1:output:0" in compared
    assert len([address for address in compared if address.startswith("conv1")]) == 1


@pytest.mark.parametrize("case", CASES, ids=" - ".join)
def test_one_channel_of_the_wrong_sign_fails_where_it_is(case, tmp_path):
    row = dumped(tmp_path, case, spoilt)
    answer = ask(tmp_path / "left", tmp_path / "right", *flags(tmp_path, row.needed))
    assert answer.code == 1
    (record,) = [record for record in answer.results["tensors"] if record["verdict"] != "pass"]
    assert record["left"]["address"].startswith("conv1")
    channel = 3 if case[0].startswith("5") else 1
    assert {element["index"][channel] for element in record["worst"]} == {7}


@pytest.mark.parametrize("case", CASES, ids=" - ".join)
def test_the_wrong_rule_files_are_one_line_and_4(case, tmp_path):
    row = dumped(tmp_path, case, lambda values: values)
    answer = ask(tmp_path / "left", tmp_path / "right", *flags(tmp_path, row.wrong))
    assert answer.code == 4
    assert "needs" in answer.text
    needed = {"-f": "--msdump-fusion", "-q": "--msdump-quant-fusion"}
    for flag in row.needed:
        assert needed[flag] in answer.text
    assert answer.results == {}
