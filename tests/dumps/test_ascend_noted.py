"""What indexing noted of a header saves reading it again, and never stands for a file that was written since."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from dumps.dumpmade import FLOAT, FLOAT16, dump2, message, op_output, put

from pytest_msdump.dumps import ascend_file
from pytest_msdump.dumps.ascend import AscendReader

NAME = "Add.op.1.1.1600000000000001"
VALUES = np.arange(4, dtype=np.float32)


def content(data_type: int, size: int) -> bytes:
    # The shape's second length makes up for the type, so that both files are of one size.
    header = message(outputs=[op_output(data_type, (1, 16 // size), 16)])
    return dump2(header, VALUES.tobytes())


@pytest.fixture
def ref(tmp_path):
    put(tmp_path, NAME, content(FLOAT, 4))
    (found,) = AscendReader().index(tmp_path).refs
    return found


def never(*_: object) -> None:
    raise AssertionError("the header was read again")


def test_a_header_is_read_once(ref, monkeypatch):
    monkeypatch.setattr(ascend_file, "parse_header", never)
    for known in (ref, pickle.loads(pickle.dumps(ref))):
        with AscendReader().open(known) as view:
            np.testing.assert_array_equal(view.read(0, 4), VALUES)


@pytest.mark.parametrize("how", ["written over", "put in its place"])
def test_a_file_written_since_is_read_as_it_is_now(ref, how):
    path = ref.source.path
    before = path.stat()
    new = content(FLOAT16, 2)
    assert len(new) == before.st_size
    if how == "written over":
        path.write_bytes(new)
    else:
        path.with_name("other").write_bytes(new)
        path.with_name("other").replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with AscendReader().open(ref) as view:
        assert (view.dtype, view.shape) == ("float16", (1, 8))


def test_notes_make_no_other_reference_of_one_tensor(ref, tmp_path):
    again = AscendReader().index(tmp_path).refs[0]
    path = ref.source.path
    os.utime(path, ns=(1, 1))
    (changed,) = AscendReader().index(tmp_path).refs
    assert ref == again == changed
    assert hash(ref) == hash(changed)
    assert "noted" not in repr(ref)
