"""What is kept because a dump has very many files that are alike: the same answers, and no answer of another file."""

import os

import numpy as np
import pytest
from dumps.dumpmade import FLOAT, chunk, dump2, message, op_output

from pytest_msdump.capabilities.ascend.header import parse_header
from pytest_msdump.capabilities.protobuf.wire import Memory
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.npy import parse_header as parse_npy
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import names_kept


def headers_of(*outputs):
    content = dump2(message(outputs=[op_output(FLOAT, shape, 24, address=at) for shape, at in outputs]), bytes(48))
    return parse_header(Memory(content)).tensors


def test_headers_that_are_alike_but_for_one_number_are_not_taken_for_each_other():
    one, same, other, moved = (headers_of(about)[0] for about in (((2, 3), 7), ((2, 3), 7), ((3, 2), 7), ((2, 3), 8)))
    assert one == same
    assert (one.shape, other.shape, one.address, moved.address) == ((2, 3), (3, 2), 7, 8)
    first, second = headers_of(((6,), 7), ((2, 3), 7))
    assert (first.slot, second.slot, second.start, second.shape) == (0, 1, first.start + 24, one.shape)


def test_a_kept_tensor_with_its_data_inside_points_into_its_own_file():
    for name in ("a", "a_longer_name"):
        content = chunk(6, name.encode()) + chunk(3, op_output(FLOAT, (2,), 0, data=b"ABCDEFGH"))
        tensor = parse_header(Memory(content)).tensors[0]
        assert content[tensor.start : tensor.start + tensor.size] == b"ABCDEFGH"


def test_npy_headers_that_are_alike_and_errors_name_their_own_file(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 1237), np.float32))
    content = (tmp_path / "a.npy").read_bytes()[:128]
    assert [parse_npy(content, where=name).shape for name in "abc"] == [(3, 1237)] * 3
    for name in ("one", "two"):
        with pytest.raises(TensorFileError, match=f"^{name}: its npy header"):
            parse_npy(content.replace(b"descr", b"dexcr"), where=name)


def test_every_directory_is_listed_once_while_a_dump_is_indexed(tmp_path, monkeypatch):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    for number in range(3):
        np.save(
            folder / f"ReLU.Default_ReLU-op{number}.0.0.{1600000000000000 + number}.output.0.DefaultFormat.npy",
            np.ones(2),
        )
    listed = []
    original = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.fspath(path)) or original(path))
    assert len(index(tmp_path).refs) == 3
    assert listed.count(str(folder)) == 1
    # Whoever asks later sees what is there then.
    (folder.parent / "1").mkdir()
    assert any(found.parts[-1:] == ("1",) for found in walk(tmp_path))
    assert listed.count(str(folder)) == 2


def test_what_was_listed_is_forgotten_also_after_an_error(tmp_path):
    def names():
        return [found.files for found in walk(tmp_path)]

    def fails():
        with names_kept():
            assert names() == [()]
            (tmp_path / "new").touch()
            assert names() == [()]
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert names() == [("new",)]
