"""Dump files byte by byte: hand-checked, and decoded by something that is not ours; read back by our reader, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capabilities.convert.independent_dump import decode

from pytest_msdump.capabilities.ascend.dump_file import open_output, open_part
from pytest_msdump.capabilities.ascend.dump_proto import DATA_TYPES
from pytest_msdump.capabilities.convert.dump_files import DumpTensor, write_dump
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.dtypes.decode import stored_as
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES

# The vendor's numbers, from its published schema; those of quantised integers are the integers'.
NUMBERS = {
    "float32": 1,
    "float16": 2,
    "int8": 3,
    "uint8": 4,
    "int16": 5,
    "uint16": 6,
    "int32": 7,
    "int64": 8,
    "uint32": 9,
    "uint64": 10,
    "bool": 11,
    "float64": 12,
    "complex64": 16,
    "complex128": 17,
    "bfloat16": 27,
    "int4": 28,
    "uint1": 29,
    "int2": 30,
    "uint2": 31,
    "complex32": 32,
    "hifloat8": 33,
    "float8_e5m2": 34,
    "float8_e4m3fn": 35,
    "float8_e8m0": 36,
}


def view(values: object, dtype: str | None = None) -> ArrayView:
    return ArrayView(np.asarray(values), dtype)


def test_a_file_by_hand(tmp_path: Path) -> None:
    """Written out with the schema in hand: u64 length, DumpData, then the input's and the output's bytes."""
    path = write_dump(
        tmp_path / "Add.op.1.2.1600000000000001",
        [
            DumpTensor(view(np.float16([[1], [-2]])), memory_format="NHWC", original_shape=(2,)),
            DumpTensor(view(np.int32(-1)), io="input"),
        ],
        op_name="op",
        dump_time=300,
    )
    expected = bytes.fromhex(
        "27 00 00 00 00 00 00 00"  # 39 bytes of header
        "0a 03 32 2e 30"  # 1 version: "2.0"
        "10 ac 02"  # 2 dump_time: 300
        "1a 11"  # 3 output: 17 bytes
        "  08 02  10 01"  # FLOAT16, NHWC
        "  1a 04 0a 02 02 01"  # 3 shape: dims 2, 1
        "  30 04"  # 6 size: 4
        "  3a 03 0a 01 02"  # 7 original_shape: 2
        "22 06"  # 4 input: 6 bytes
        "  08 07  10 02"  # INT32, ND
        "  28 04"  # 5 size: 4
        "32 02 6f 70"  # 6 op_name: "op"
        "ff ff ff ff"  # the input
        "00 3c 00 c0"  # the output: 1, -2
    )
    assert path.read_bytes() == expected
    assert open_part(path, 0).read(0, 1).tolist() == [-1]
    assert open_output(path, 0).spec.logical_shape == (2,)


def codes(dtype: str) -> np.ndarray:
    """Bytes of a type: every code of one or two bytes, some of wider ones, not-a-numbers among them."""
    bits = stored_as(dtype).bits
    if dtype == "bool":
        return np.array([0, 1, 1], np.uint8)
    if bits <= 8:
        return np.arange(256, dtype=np.uint8)
    if bits == 16:
        return np.arange(2**16, dtype="<u2").view(np.uint8)
    return np.random.default_rng(bits).integers(0, 256, 64 * bits, dtype=np.uint8)


def test_every_type_that_has_a_number_and_numbers_is_tried() -> None:
    assert set(NUMBERS) == {kind.dtype for kind in DATA_TYPES.values() if DTYPES[kind.dtype].native}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_bit_of_every_type_gets_there_and_back(dtype: str, tmp_path: Path) -> None:
    raw, form = codes(dtype), stored_as(dtype)
    with np.errstate(all="ignore"):
        values = form.decode(raw.view(form.stored)).copy()
    if dtype == "complex32":
        values = values[~np.isnan(values)]
        raw = np.frombuffer(values.view(np.float32).astype("<f2").tobytes(), np.uint8)
    path = write_dump(tmp_path / "d", [DumpTensor(view(values, dtype))])
    (output,) = decode(path.read_bytes())["output"]
    assert (output["data_type"], output["shape"], output["size"]) == (NUMBERS[dtype], (values.size,), raw.size)
    assert output["data"] == raw.tobytes()
    with open_part(path, 0) as back:
        assert back.dtype == dtype
        assert back.read(0, back.size).tobytes() == values.tobytes()


def test_the_header_says_what_is_known(tmp_path: Path) -> None:
    path = write_dump(
        tmp_path / "d",
        [
            DumpTensor(view(np.zeros((6, 2, 16, 16), np.int8)), "output", None, "FracZ", (20, 6, 3, 2), 4),
            DumpTensor(view(np.zeros((0, 300), np.float32)), "input"),
            DumpTensor(view(np.zeros((1, 1, 1, 1, 16), np.uint8)), "input", memory_format="NC1HWC0"),
        ],
    )
    told = decode(path.read_bytes())
    (output,) = told["output"]
    assert {key: output[key] for key in ("format", "original_shape", "sub_format")} == {
        "format": 4,
        "original_shape": (20, 6, 3, 2),
        "sub_format": 4,
    }
    empty, blocked = told["input"]
    assert empty == {"data_type": 1, "format": 2, "shape": (0, 300), "original_shape": (0, 300), "data": b""}
    assert "original_shape" not in blocked
    assert "dump_time" not in told
    assert open_part(path, 2).spec.groups == 4


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    good, bad = DumpTensor(view([1.0])), DumpTensor(view([1.0, 0.1]), dtype="bfloat16")
    with pytest.raises(MsdumpError, match=r"0\.1 is none that bfloat16 has"):
        write_dump(tmp_path / "d", [good, bad])
    with pytest.raises(ConfigError, match="no number for the data type uint4"):
        write_dump(tmp_path / "d", [DumpTensor(view(np.uint8([1]), "uint4"))])
    with pytest.raises(ConfigError, match="unknown memory format 'NCWH'; did you mean"):
        write_dump(tmp_path / "d", [DumpTensor(view([1]), memory_format="NCWH")])
    with pytest.raises(MsdumpError, match="of no tensor"):
        write_dump(tmp_path / "d", [])
    assert not list(tmp_path.iterdir())
