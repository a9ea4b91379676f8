"""`msdump convert`: names, kinds, what is refused, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from semantics import ascend_made as made

from pytest_msdump.cli import main
from pytest_msdump.testing.builder import write_reference

RNG = np.random.default_rng(61)
HALF = RNG.standard_normal((2, 19, 5, 7)).astype(np.float16)
FAILED = "convert_failed_file_list.txt"


def convert(*words: object) -> int:
    return main(["convert", *map(str, words)])


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def conv(tmp_path) -> Path:
    return made.device(
        tmp_path / "dump", "Conv2D", "conv", made.nc1hwc0(HALF), memory_format="NC1HWC0", original=HALF.shape
    )


def test_what_is_converted_to_a_format_compares_equal_to_the_original(conv, tmp_path):
    assert convert(conv.parent, "--out", tmp_path / "out", "--memory-format", "NCHW") == 0
    write_reference(tmp_path / "reference", {"conv": HALF})
    words = ["--report-dir", str(tmp_path / "report"), "--profile", "bitwise"]
    assert main(["compare", str(tmp_path / "out"), str(tmp_path / "reference"), *words]) == 0
    assert main(["compare", str(tmp_path / "out"), str(conv.parent), *words]) == 0


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("npy", "output.0.2x19x5x7.npy"),
        ("msnpy", "output.0.NCHW.npy"),
        ("bin", "output.0.2_19_5_7.float16.NCHW.bin"),
        ("txt", "output.0.2x19x5x7.txt"),
        ("npz", "npz"),
    ],
)
def test_every_kind_holds_the_values_under_its_name(to, name, conv, tmp_path):
    assert convert(conv, "--out", tmp_path / "out", "--memory-format", "nchw", "--to", to) == 0
    (path,) = (tmp_path / "out").iterdir()
    assert path.name == f"{conv.name}.{name}"
    if to == "bin":
        assert path.read_bytes() == HALF.tobytes()
    elif to == "txt":
        np.testing.assert_array_equal(np.loadtxt(path).reshape(HALF.shape), HALF)
    elif to == "npz":
        with np.load(path) as archive:
            np.testing.assert_array_equal(archive["output.0"], HALF)
    else:
        np.testing.assert_array_equal(np.load(path), HALF)
