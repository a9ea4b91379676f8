"""There and back through files: arrays and dumps of every type, memory formats of every row, all bit by bit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from capabilities.convert.independent_dump import decode

from pytest_msdump import cli
from pytest_msdump.capabilities.compat import dump_data_conversion, shape_conversion
from pytest_msdump.core.dtypes.decode import stored_as
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS, may_be_padded

TIME = 1600000000000001
NUMPY = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMPY += ("float16", "float32", "float64", "complex64", "complex128")
# Types that an npy file holds as another one, and what says so.
SAID = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0", "hifloat8", "int4", "int2", "uint2", "uint1")
NAMES = {
    "caffe": "{0}.0.{1}",
    "tf": "{0}.0.{1}",
    "quant": "{0}.0.{1}",
    "offline": "Op.{0}.3.{1}.0",
    "sim": "Op.{0}.3.1.{1}.0",
}


def values_of(dtype: str) -> np.ndarray:
    """Every code of narrow types; of wide ones random bits, NaN with payloads among them."""
    if dtype == "bool":
        return np.array([[True, False], [False, False]])
    if dtype in NUMPY:
        raw = np.random.default_rng(len(dtype)).integers(0, 256, 24 * np.dtype(dtype).itemsize, dtype=np.uint8)
        return raw.view(dtype).reshape(2, 3, 4)
    codes = np.arange(2**16, dtype="<u2") if dtype == "bfloat16" else np.arange(256, dtype=np.uint8)
    return stored_as(dtype).decode(codes).reshape(2, -1)


def saved(folder: Path, kind: str, dtype: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAMES[kind].format(dtype, TIME)}.npy"
    np.save(path, values_of(dtype))
    return path


def back_of(folder: Path, kind: str, dtype: str) -> Path:
    name = NAMES[kind].format(dtype, TIME)
    return folder / (f"{name}.npy" if kind in ("caffe", "tf", "quant") else f"{name[:-2]}.output.0.npy")


def convert(*words: object) -> int:
    return cli.main(["convert", *map(str, words)])


def test_types_are_all_that_a_dump_can_hold() -> None:
    known = {name for name, fact in DTYPES.items() if fact.native}
    # The last ones have no number in a dump file; complex32 is told of below.
    others = {"complex32", "uint4", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"}
    assert known - others == {*NUMPY, *SAID}


@pytest.mark.parametrize("kind", NAMES)
def test_arrays_of_numpys_own_types_come_back_byte_by_byte(kind: str, tmp_path: Path) -> None:
    sources = [saved(tmp_path / "npy", kind, dtype) for dtype in NUMPY]
    words = ["-type", kind, "-i", str(tmp_path / "npy"), "-o", str(tmp_path / "dump")]
    assert dump_data_conversion.main([*words, "-target", "dump"]) == 0
    words = ["-type", kind, "-i", str(tmp_path / "dump"), "-o", str(tmp_path / "back")]
    assert dump_data_conversion.main([*words, "-target", "numpy"]) == 0
    for dtype, source in zip(NUMPY, sources, strict=True):
        assert back_of(tmp_path / "back", kind, dtype).read_bytes() == source.read_bytes()


def test_bits_that_npy_has_no_type_for_are_taken_as_they_are(tmp_path: Path) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    for name, array, dtype in (
        ("a", bits, "bfloat16"),
        ("b", bits.view("V2"), "bfloat16"),
        ("c", np.arange(256, dtype=np.uint8), "float8_e5m2"),
        ("d", np.array([0x3C00_C000, 0x0001_7BFF], np.uint32), "complex32"),
    ):
        source = tmp_path / f"{name}.0.{TIME}.npy"
        np.save(source, array)
        assert convert(source, "--to", "dump", "--dtype", dtype, "--out", tmp_path / "dump") == 0
        dump = tmp_path / "dump" / f"{name}.0.{TIME}.pb"
        assert decode(dump.read_bytes())["output"][0]["data"] == array.tobytes()


def test_names_of_mindspore_say_type_and_format(tmp_path: Path) -> None:
    """Inputs and outputs of one operator become one file; what the names say stands in its header."""
    stem = f"Conv2D.Default_conv-op0.3.1.{TIME}"
    weights = np.arange(2 * 1 * 2 * 2 * 16, dtype=np.float16).reshape(2, 1, 2, 2, 16)
    np.save(tmp_path / f"{stem}.input.0.NC1HWC0.float16.npy", weights)
    np.save(tmp_path / f"{stem}.output.0.DefaultFormat.bfloat16.npy", np.float32([[1, -2]]))
    np.save(tmp_path / f"{stem}.output.1.DefaultFormat.int64.npy", np.int64(7))
    assert convert(tmp_path, "--to", "dump", "--out", f"{tmp_path}_dump") == 0
    (dump,) = Path(f"{tmp_path}_dump").iterdir()
    told = decode(dump.read_bytes())
    assert dump.name == stem
    assert [(one["data_type"], one.get("format"), one.get("shape")) for one in (*told["input"], *told["output"])] == [
        (2, 3, (2, 1, 2, 2, 16)),
        (27, 2, (1, 2)),
        (8, 2, None),
    ]
    assert "original_shape" not in told["input"][0]
    assert told["output"][0]["data"].hex() == "803f00c0"


LOGICAL = {"NCHW": ("NCHW", (2, 19, 5, 7)), "NCDHW": ("NCDHW", (2, 19, 3, 5, 7)), "IJ": ("ND", (3, 2, 37, 21))}
LOGICAL["NCS"] = ("NCHW", (20, 3, 5, 2))
FORMATS = [name for name in MEMORY_FORMATS if name != "ND"]


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_tensor_of_every_memory_format_comes_back_from_its_logical_shape(
    memory_format: str, dtype: str, tmp_path: Path
) -> None:
    """Stored → logical → stored through files: the block lengths of the device are found again, and the padding."""
    plain, shape = LOGICAL[MEMORY_FORMATS[memory_format].axes]
    if memory_format == plain:
        plain = "NHWC" if len(shape) == 4 else "NDHWC"
    values = np.random.default_rng(3).integers(1, 100, np.prod(shape)).astype(dtype).reshape(shape)
    source = tmp_path / f"Op.a.1.1.{TIME}.0.npy"
    np.save(source, values)
    first, plain_dump, second = tmp_path / "first", tmp_path / "plain", tmp_path / "second"
    to_dump = ("--to", "dump", "--kind", "offline")
    assert convert(source, *to_dump, "--out", plain_dump, "--from-format", plain) == 0
    logical = plain_dump / f"Op.a.1.1.{TIME}"
    assert convert(logical, "--to", "dump", "--out", first, "--memory-format", memory_format) == 0
    stored = first / f"Op.a.1.1.{TIME}"
    (output,) = decode(stored.read_bytes())["output"]
    if may_be_padded(memory_format):
        if not memory_format.endswith("C04"):
            assert output["shape"][-1] == (32 if dtype == "int8" else 16)
        assert output["original_shape"] == shape
        assert len(output["data"]) > values.nbytes
    # Stored to logical, by the script.
    out = tmp_path / "logical"
    assert convert(stored, "--out", out, "--memory-format", plain) == 0
    (array,) = out.iterdir()
    assert np.load(array).tobytes() == values.tobytes()
    # And logical to stored.
    assert shape_conversion.main(["-i", str(logical), "-format", memory_format, "-o", str(second)]) == 0
    (again,) = second.iterdir()
    assert np.load(again).tobytes() == output["data"]
    assert re.search(r"\.output\.0\.([\dx]+)\.npy$", again.name)[1] == "x".join(map(str, output["shape"]))


def test_blocks_of_another_length_than_a_device_takes_stay_that_long(tmp_path: Path) -> None:
    stored = np.arange(2 * 3 * 5 * 7 * 8, dtype=np.float16).reshape(2, 3, 5, 7, 8)
    source = tmp_path / f"Op.a.1.1.{TIME}.0.npy"
    np.save(source, stored)
    assert convert(source, "--to", "dump", "--from-format", "NC1HWC0", "--out", tmp_path / "dump") == 0
    dump = tmp_path / "dump" / f"Op.a.1.1.{TIME}"
    # Of the array's own shape nothing is known but that it is in blocks.
    assert "original_shape" not in decode(dump.read_bytes())["output"][0]
    assert shape_conversion.main(["-i", str(dump), "-format", "NHWC1C0", "-o", str(tmp_path / "out")]) == 0
    (array,) = (tmp_path / "out").iterdir()
    assert np.load(array).tobytes() == stored.transpose(0, 2, 3, 1, 4).tobytes()


def test_a_grouped_weight_comes_back_through_its_blocks(tmp_path: Path) -> None:
    values = np.arange(20 * 6 * 3 * 2, dtype=np.float16).reshape(20, 6, 3, 2)
    source = tmp_path / f"Const.w.1.1.{TIME}.0.npy"
    np.save(source, values)
    common = ("--to", "dump", "--kind", "offline", "--from-format", "NCHW", "--groups", "4")
    assert convert(source, *common, "--memory-format", "FRACTAL_Z", "--out", tmp_path / "dump") == 0
    dump = tmp_path / "dump" / f"Const.w.1.1.{TIME}"
    assert decode(dump.read_bytes())["output"][0]["sub_format"] == 4
    assert shape_conversion.main(["-i", str(dump), "-format", "NCHW", "-o", str(tmp_path / "out")]) == 0
    (array,) = (tmp_path / "out").iterdir()
    assert np.load(array).tobytes() == values.tobytes()
