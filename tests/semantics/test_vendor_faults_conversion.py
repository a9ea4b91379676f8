"""Faults of the vendor's tool that concern conversion, each with the right answer. Numbers as they were collected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from semantics import ascend_made as made

from pytest_msdump.cli import main

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
