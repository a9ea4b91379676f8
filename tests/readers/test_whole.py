"""What is read whole is a usual tensor of a small file, and nothing else is."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from readers.dumpmade import FLOAT, FLOAT16, dump2, message, op_output, put

from pytest_msdump.errors import TensorFileError
from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers import stored_file
from pytest_msdump.readers.ascend import AscendReader
from pytest_msdump.readers.ascend_whole import whole_part
from pytest_msdump.readers.npy import open_npy
from pytest_msdump.readers.whole import whole_npy
from pytest_msdump.storage.urls import located

UNKNOWN = TensorSpec()
VALUES = np.arange(24, dtype="float32").reshape(2, 3, 4)


def saved(folder: Path, values: Any = VALUES, **how: Any) -> str:
    np.save(folder / "a.npy", values, **how)
    return str(folder / "a.npy")


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
)
@pytest.mark.parametrize("shape", [(2, 3, 4), (24,), (), (0, 3)])
def test_a_small_array_is_what_its_view_tells(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.resize(VALUES, shape).astype(dtype)
    path = saved(tmp_path, values)
    for claimed in (UNKNOWN, TensorSpec(dtype, (1,), "NHWC")):
        whole = whole_npy(path, claimed)
        assert whole is not None
        content, start, kind = whole
        with open_npy(path, claimed) as view:
            assert (kind.spec, kind.dtype, kind.shape) == (view.spec, view.dtype, view.shape)
        assert content[start:] == values.tobytes()
        assert kind.size == values.nbytes
    assert whole_npy(Path(path), claimed) == whole


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint64", "complex64", ">f4", "V2"])
def test_other_types_are_opened(tmp_path: Path, dtype: str) -> None:
    assert whole_npy(saved(tmp_path, np.zeros(4, dtype)), UNKNOWN) is None


def test_what_is_not_usual_is_opened(tmp_path: Path) -> None:
    path = saved(tmp_path)
    usual = Path(path).read_bytes()
    assert whole_npy(path, UNKNOWN) is not None
    assert whole_npy(path, TensorSpec("bfloat16")) is None
    assert whole_npy(saved(tmp_path, np.asfortranarray(VALUES)), UNKNOWN) is None
    assert whole_npy(saved(tmp_path, np.zeros(2**13, "float32")), UNKNOWN) is None
    for content in (
        b"",
        b"\x93NUMPY",
        usual[:-1],
        usual + b"x",
        usual[:100],
        usual.replace(b"False", b"Fals "),
        b"PK\x03\x04",
    ):
        Path(path).write_bytes(content)
        assert whole_npy(path, UNKNOWN) is None, content


def test_what_is_no_file_is_opened_and_then_refused(tmp_path: Path) -> None:
    assert whole_npy(str(tmp_path), UNKNOWN) is None
    assert whole_npy(str(tmp_path / "nobody.npy"), UNKNOWN) is None
    assert whole_npy("a\0b", UNKNOWN) is None
    os.mkfifo(tmp_path / "pipe.npy")
    assert whole_npy(str(tmp_path / "pipe.npy"), UNKNOWN) is None
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        assert whole_npy(str(tmp_path / "s"), UNKNOWN) is None


def test_a_file_of_which_the_system_tells_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, closed = saved(tmp_path), []

    def fstat(descriptor: int) -> os.stat_result:
        closed.append(descriptor)
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patched:
        patched.setattr(stored_file, "_COMPILED", None)
        patched.setattr(stored_file.os, "fstat", fstat)
        assert whole_npy(path, UNKNOWN) is None
        with pytest.raises(TensorFileError, match=r"a\.npy: cannot be read: Stale file handle; check the file"):
            open_npy(path, UNKNOWN)
    for descriptor in closed:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_headers_of_any_length_are_not_kept(tmp_path: Path) -> None:
    path = Path(saved(tmp_path))
    content = path.read_bytes()
    length = int.from_bytes(content[8:10], "little")
    header = content[10 : 10 + length].rstrip() + b" " * 300 + b"\n"
    path.write_bytes(content[:8] + len(header).to_bytes(2, "little") + header + content[10 + length :])
    with open_npy(path, UNKNOWN) as view:
        assert view.shape == (2, 3, 4)
    assert whole_npy(path, UNKNOWN) is None


def test_what_is_elsewhere_is_opened() -> None:
    assert whole_npy(located("memory://dump/a.npy", Path()), UNKNOWN) is None


def test_a_part_of_a_dump_file_is_where_its_header_says(tmp_path: Path) -> None:
    second = np.arange(8, dtype="float16")
    header = message(outputs=[op_output(FLOAT, VALUES.shape, VALUES.nbytes), op_output(FLOAT16, (8,), second.nbytes)])
    put(tmp_path, "Add.op.1.1.1600000000000001", dump2(header, VALUES.tobytes(), second.tobytes()))
    reader = AscendReader()
    for ref, values in zip(reader.index(tmp_path).refs, (VALUES, second), strict=True):
        whole = reader.open_whole(ref)
        assert whole is not None
        content, start, kind = whole
        with reader.open(ref) as view:  # type: ignore[attr-defined]
            assert (kind.spec, kind.dtype, kind.shape) == (view.spec, view.dtype, view.shape)
        assert content[start : start + kind.size] == values.tobytes()
        source = ref.source
        assert whole_part(source.location, None) is None
        assert whole_part(source.location, "something else") is None
        assert reader.open_whole(replace(ref, source=replace(source, pieces=(source.path,)))) is None
        tensor, state = source.noted  # type: ignore[misc]
        for change in ({"size": kind.size - 1}, {"start": len(content) - kind.size + 1}, {"shape": (99,)}):
            assert whole_part(source.location, source.noted._replace(tensor=tensor._replace(**change))) is None  # type: ignore[attr-defined]
        other = source.noted._replace(state=state._replace(modified_ns=1))  # type: ignore[attr-defined]
        assert whole_part(source.location, other) is None
