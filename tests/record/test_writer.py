"""What the writer writes: names, bytes, order, and a manifest that tells the rest."""

import json
import re
from contextlib import suppress

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.core.errors import ConfigError, IncompleteRecordingError
from pytest_msdump.record import DumpWriter, RawArray

NUMPY_TYPES = list("?bBhHiIlLqQefdFD")


def manifest_of(folder):
    return json.loads((folder / "msdump.json").read_text("utf-8"))


@pytest.mark.parametrize("code", NUMPY_TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_of_numpy_is_saved_bit_for_bit(tmp_path, code, order):
    bits = np.random.default_rng(7).integers(0, 2 if code == "?" else 256, 3 * 4 * np.dtype(code).itemsize, np.uint8)
    array = bits.view(np.dtype(code).newbyteorder(order)).reshape(3, 4)
    with DumpWriter(tmp_path / "d") as writer:
        path = writer.write("op", array)
    read = open_dump(tmp_path / "d").read("op")
    for loaded in (np.load(path, allow_pickle=False), *([read] if order == "<" else [])):
        assert loaded.dtype == array.dtype
        assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "code"),
    [("bfloat16", "<u2"), ("float8_e4m3fn", "|u1"), ("float8_e5m2", "|u1"), ("complex32", "<u4"), ("int4", "|i1")],
)
def test_types_that_numpy_lacks_are_saved_as_their_bits_and_named_in_the_manifest(tmp_path, dtype, code):
    bits = np.random.default_rng(7).integers(0, 256, 6 * np.dtype(code).itemsize, np.uint8).tobytes()
    with DumpWriter(tmp_path / "d") as writer:
        path = writer.write("op", RawArray(bits, (2, 3), dtype))
    loaded = np.load(path)
    assert (loaded.dtype.str, loaded.shape, loaded.tobytes()) == (code, (2, 3), bits)
    assert manifest_of(tmp_path / "d")["tensors"][path.name]["dtype"] == dtype


def test_bits_may_be_given_as_an_array_and_a_type(tmp_path):
    bits = np.array([0x3F80, 0x7FC1], "uint16")
    with DumpWriter(tmp_path / "d") as writer:
        path = writer.write("op", bits, dtype="BFloat16")
    assert np.load(path).tolist() == bits.tolist()
    assert manifest_of(tmp_path / "d")["tensors"][path.name] == {"op": "op", "dtype": "bfloat16"}


def test_bits_that_do_not_make_up_the_shape_are_refused(tmp_path):
    with DumpWriter(tmp_path / "d") as writer, pytest.raises(ConfigError, match="10 bytes of bfloat16"):
        writer.write("op", RawArray(bytes(10), (2, 3), "bfloat16"))


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.zeros(2, "f4,i4"), np.zeros(2, "M8[s]")])
def test_what_holds_no_numbers_is_refused(tmp_path, array):
    with DumpWriter(tmp_path / "d") as writer, pytest.raises(ConfigError, match="cannot be recorded as numbers"):
        writer.write("op", array)


def test_two_true_names_of_one_spelling_get_two_file_names(tmp_path):
    with DumpWriter(tmp_path / "d") as writer:
        names = [writer.write(op, np.zeros(1)).name for op in ("a.b", "a/b", "a.b", "a_b_2", "c_input")]
        names.append(writer.write("c", np.zeros(1), io="input").name)
    assert [name.split(".")[0] for name in names] == ["a_b", "a_b_2", "a_b", "a_b_2_2", "c_input", "c_2_input"]


def test_timestamps_rise_also_when_the_clock_goes_back(tmp_path, monkeypatch):
    times = iter([1_700_000_000_000_005_000, 1_700_000_000_000_005_000, 1_600_000_000_000_000_000])
    monkeypatch.setattr("pytest_msdump.capabilities.record.writer.time.time_ns", lambda: next(times))
    with DumpWriter(tmp_path / "d") as writer:
        stamps = [int(writer.write("op", np.zeros(1)).name.split(".")[2]) for _ in range(3)]
    assert stamps == [1_700_000_000_000_005, 1_700_000_000_000_006, 1_700_000_000_000_007]


def test_a_flat_dump_has_one_iteration(tmp_path):
    with DumpWriter(tmp_path / "d") as writer, pytest.raises(ConfigError, match="iterations=True"):
        writer.write("op", np.zeros(1), iteration=1)


def test_names_beyond_255_bytes_go_through_a_mapping(tmp_path):
    with DumpWriter(tmp_path / "d") as writer:
        paths = [writer.write(f"{'x' * 300}/{number}", np.full(1, number)) for number in range(2)]
    rows = [row.split(",") for row in (tmp_path / "d/mapping.csv").read_text().splitlines()]
    assert [path.name for path in paths] == ["400000000.npy", "400000001.npy"] == [short for short, _ in rows]
    assert all(re.fullmatch(rf"x{{300}}_{number}\.0\.\d{{16}}\.npy", rows[number][1]) for number in range(2))
    assert manifest_of(tmp_path / "d")["tensors"]["400000001.npy"]["op"] == f"{'x' * 300}/1"


def test_a_run_that_breaks_leaves_no_manifest_that_says_complete(tmp_path):
    with suppress(KeyError), DumpWriter(tmp_path / "d") as writer:
        writer.write("op", np.zeros(1))
        raise KeyError
    assert manifest_of(tmp_path / "d")["complete"] is False
    assert [path.name for path in (tmp_path / "d").iterdir() if path.suffix != ".npy"] == ["msdump.json"]
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(ConfigError, match="not empty"):
        DumpWriter(tmp_path)


BYTES, HALVES = np.arange(256, dtype="u1"), np.arange(2**16, dtype="u2")


@pytest.mark.parametrize(
    ("dtype", "codes", "values"),
    [
        ("bfloat16", HALVES, (HALVES.astype("u4") << 16).view("f4")),
        # float8_e5m2 is the upper half of float16.
        ("float8_e5m2", BYTES, (BYTES.astype("u2") << 8).view("f2").astype("f4")),
        ("complex32", HALVES, HALVES.view("f2").astype("f4").view("c8")),
        ("int4", np.arange(-8, 8, dtype="i1"), np.arange(-8, 8)),
    ],
)
def test_every_code_of_types_that_numpy_lacks_is_read_back_as_its_value(tmp_path, dtype, codes, values):
    with DumpWriter(tmp_path / "d") as writer:
        writer.write("op", RawArray(codes, values.shape, dtype))
    dump = open_dump(tmp_path / "d")
    assert dump.open("op").dtype == dtype
    read = dump.read("op")
    # Part by part: numpy 1 warns of an invalid value when it compares a complex NaN with an infinity.
    np.testing.assert_array_equal(read.real, values.real)
    np.testing.assert_array_equal(read.imag, values.imag)
