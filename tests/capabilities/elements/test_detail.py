"""Files of one pair: their names, their rows, all of them or none."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import write_detail
from pytest_msdump.capabilities.elements.cells import NEWER
from pytest_msdump.capabilities.elements.writing import DetailOptions, detail_views, named_axes
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError, MsdumpError, TensorShapeError

RNG = np.random.default_rng(7)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (3, 4), (2, 3, 5), (2, 3, 4, 5), (2, 1, 3, 2, 4), (1, 2, 1, 2, 1, 2)]
)
def test_coordinates_lead_to_the_element_whatever_the_rank(shape, tmp_path):
    left, right = RNG.standard_normal((2, *shape)).astype(np.float32)
    found = write_detail(left, right, directory=tmp_path, name="op")
    told = rows(tmp_path / "op_output_0_0.csv")
    assert len(told) == left.size
    for number, (index, coordinates, one, other, absolute, _) in enumerate(told):
        place = tuple(map(int, coordinates.split())) if shape else ()
        assert int(index) == number
        assert float(one) == pytest.approx(float(left[place]), rel=1e-6, abs=6e-7)
        assert float(other) == pytest.approx(float(right[place]), rel=1e-6, abs=6e-7)
        assert float(absolute) == pytest.approx(abs(float(left[place]) - float(right[place])), rel=1e-6, abs=6e-7)
    assert found.summary["TotalCount"] == str(left.size)


@pytest.mark.parametrize(
    ("shape", "letters", "pads", "label"),
    [
        ((2, 3, 4, 5), "NHWC", False, "N H W C"),
        ((2, 3, 4, 5), None, False, "0 1 2 3"),
        ((2, 3, 4, 5), None, True, "N C H W"),
        ((2, 3), "NCHW", True, "N C H W"),
        ((2, 3), "NCHW", False, "0 1"),
        ((1, 2, 3, 4, 5), "NCDHW", True, "N C D H W"),
        ((1, 2, 3, 4, 5), None, True, "N C H W"),
        ((), None, True, "ID"),
    ],
)
def test_axes_have_letters_only_where_they_are_known(shape, letters, pads, label):
    assert named_axes(shape, letters, pads=pads).label == label


def test_files_are_split_where_they_are_full(tmp_path):
    left = np.arange(25)
    found = write_detail(left, left + 1, directory=tmp_path, name="op", rows=10)
    assert [file.name for file in found.files[3:]] == [f"op_output_0_{first}.csv" for first in (0, 10, 20)]
    assert [[row[0] for row in rows(file)] for file in found.files[3:]] == [
        [str(number) for number in part] for part in (range(10), range(10, 20), range(20, 25))
    ]


def test_a_full_file_is_not_followed_by_an_empty_one(tmp_path):
    left = np.arange(20)
    found = write_detail(left, left, directory=tmp_path, name="op", rows=10)
    assert len(found.files) == 5


def test_reading_in_blocks_changes_nothing(tmp_path, monkeypatch):
    from pytest_msdump.capabilities.elements import writing

    left, right = RNG.standard_normal((2, 1000))
    one = write_detail(left, right, directory=tmp_path / "one", name="op", rows=300)
    monkeypatch.setattr(writing, "_BLOCK_ELEMENTS", 77)
    monkeypatch.setattr(writing, "_TILE_ELEMENTS", 13)
    other = write_detail(left, right, directory=tmp_path / "other", name="op", rows=300)
    assert [file.read_bytes() for file in one.files] == [file.read_bytes() for file in other.files]


class Broken(ArrayView):
    """Ends in the middle, like a file that was cut off meanwhile."""

    def read(self, start, stop):
        if start:
            raise MsdumpError("cut off")
        return super().read(start, stop)


def test_a_tensor_that_breaks_off_leaves_the_old_files_alone(tmp_path):
    left = np.arange(300_000)
    write_detail(left[:5], left[:5], directory=tmp_path, name="op")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(MsdumpError, match="cut off"):
        detail_views(Broken(left), ArrayView(left), tmp_path, "op_output_0", names=("op", "op"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MsdumpError, match="name another folder"):
        write_detail([1.0], [2.0], directory=tmp_path / "file" / "below")


def test_fault_09_an_8_bit_float_is_shown_as_what_its_bits_mean(tmp_path):
    values = np.array([np.nan, 448.0, -0.001953125], np.float32)
    found = detail_views(
        ArrayView(values, "float8_e4m3fn"),
        ArrayView(values, "float8_e4m3fn"),
        tmp_path,
        "op",
        names=("op", "op"),
        options=DetailOptions(NEWER),
    )
    told = rows(next(file for file in found.files if file.name == "op_0.csv"))
    assert [row[2] for row in told] == ["nan\t", "448.000000\t", "-0.001953\t"]


def test_a_name_that_is_too_long_is_replaced_and_recorded(tmp_path):
    names = ["block/" * 60 + "conv", "block/" * 60 + "relu,1"]
    digests = [hashlib.sha256(name.encode()).hexdigest()[:32] for name in names]
    for name, digest in zip(names, digests, strict=True):
        found = write_detail([1.0], [2.0], directory=tmp_path, name=name)
        assert found.files[0].name == f"{digest}_output_0_summary.txt"
    with (tmp_path / "simple_op_mapping.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [[digest, name] for digest, name in zip(digests, names, strict=True)]


def test_a_name_cannot_lead_out_of_the_folder(tmp_path):
    found = write_detail([1.0], [2.0], directory=tmp_path / "in", name="../../a\\b:c\n")
    assert {file.parent for file in found.files} == {tmp_path / "in"}
    assert found.summary["LeftOp"] == "../../a\\b:c\\n"


@pytest.mark.parametrize("number", [0, -1, 10_001, True, 1.5])
def test_a_list_that_cannot_be_meant_is_refused(number, tmp_path):
    with pytest.raises(ConfigError, match=r"top is .*; give a whole number from 1 to 10000"):
        write_detail([1.0], [2.0], directory=tmp_path, top=number)


def test_shapes_that_differ_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(TensorShapeError, match="transpose"):
        write_detail(np.zeros((2, 3)), np.zeros((3, 2)), directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert write_detail(np.zeros((2, 3)), np.zeros((3, 2)), directory=tmp_path, transpose=(1, 0)).files


def test_the_longest_name_that_fits_is_kept(tmp_path):
    longest = 255 - len("_output_0_absolute_error_topn.csv")
    for length in (longest, longest + 1):
        found = write_detail([1.0], [2.0], directory=tmp_path, name="n" * length)
        assert found.files[0].name.startswith("n" * length) == (length == longest)
        assert max(len(file.name) for file in found.files) <= 255
