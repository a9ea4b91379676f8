"""Faults of the vendor's tool that concern conversion, each with the right answer. Numbers as they were collected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from semantics import ascend_made as made
from test_dtypes_low_precision import e4m3fn, e5m2, hifloat8

from pytest_msdump.cli import main

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
RNG = np.random.default_rng(60)
HALF = RNG.standard_normal((2, 19, 5, 7)).astype(np.float16)


def convert(out: Path, source: Path, *words: str) -> int:
    return main(["convert", str(source), "--out", str(out), *words])


@pytest.mark.parametrize("origin", ["NCHW", "NHWC", "HWCN"])
@pytest.mark.parametrize("wanted", ["NCHW", "NHWC", "HWCN", "CHWN"])
def test_fault_02_every_order_holds_all_elements_whatever_the_origins_order(origin, wanted, tmp_path):
    original = tuple("NCHW".index(letter) for letter in origin)
    file = made.device(
        tmp_path / "dump",
        "Conv2D",
        "conv",
        made.nc1hwc0(HALF),
        memory_format="NC1HWC0",
        original=tuple(HALF.shape[axis] for axis in original),
    )
    assert convert(tmp_path / "out", file, "--memory-format", wanted) == 0
    (path,) = (tmp_path / "out").iterdir()
    expected = HALF.transpose(["NCHW".index(letter) for letter in wanted])
    assert path.name == f"{file.name}.output.0.{'x'.join(map(str, expected.shape))}.npy"
    np.testing.assert_array_equal(np.load(path), expected)


def test_fault_08_a_tensor_whose_data_is_shorter_than_its_shape_fails_and_is_listed(tmp_path, capsys):
    source = GOLDEN / "b5_broken_files" / "left" / "Add.shortdata.8.3.1600000000000004"
    assert convert(tmp_path / "out", source) == 1
    (listed,) = (tmp_path / "out").iterdir()
    first, reason = listed.read_text().splitlines()
    assert first == str(source)
    assert "needs 1554 bytes, the header gives it 100" in reason
    assert "needs 1554 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "decode", "label"),
    [
        ("Op.fp8_e4m3_all.23.1.1600000000000023", e4m3fn, "convert_fp8_e4m3"),
        ("Op.fp8_e5m2_all.24.1.1600000000000024", e5m2, "convert_fp8_e5m2"),
        ("Op.hif8_all.25.1.1600000000000025", hifloat8, "convert_hif8"),
    ],
)
def test_fault_09_all_codes_of_8_bit_floats_have_their_values(name, decode, label, tmp_path):
    case = GOLDEN / "d2_values_dump"
    assert convert(tmp_path, case / "left" / name) == 0
    ours = np.load(tmp_path / f"{name}.output.0.npy")
    expected = np.array([decode(code) for code in range(256)], np.float32)
    np.testing.assert_array_equal(ours.reshape(-1)[:256], expected)
    theirs = np.load(case / "expected" / label / "out" / f"{name}.output.0.npy")
    assert not np.array_equal(ours, theirs, equal_nan=True)


def test_fault_31_an_int8_matrix_may_end_anywhere_in_its_last_block(tmp_path):
    values = RNG.integers(-128, 128, (20, 33), dtype=np.int8)
    file = made.device(
        tmp_path / "dump",
        "MatMul",
        "nz8",
        made.fractal_nz(values, block=32),
        memory_format="FRACTAL_NZ",
        original=values.shape,
    )
    assert convert(tmp_path / "out", file, "--memory-format", "ND") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{file.name}.output.0.20x33.npy"), values)
