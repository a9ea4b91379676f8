from itertools import permutations

import numpy as np
import pytest
from dumps.dumpmade import FLOAT, STRING, dump2, message, op_output, put
from dumps.reading import open_files
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.ascend.dump_file import open_part
from pytest_msdump.core.dumps.array_reader import Layout, PackedReader
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError, TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec

NAME = "Add.op.1.1.1600000000000001"


def opened(folder, content, part=0):
    return open_part(put(folder, NAME, content), part)


def whole(view):
    return view.read(0, view.size).reshape(view.shape).copy()


def test_axes_that_permute_nothing_are_refused(tmp_path):
    content = dump2(message(outputs=[op_output(FLOAT, (1, 2), 8), op_output(FLOAT, (), 4)]), bytes(12))
    with opened(tmp_path, content) as view, pytest.raises(TensorShapeError, match="name each of 0 to 1 once"):
        view.permuted((0, 0))
    with opened(tmp_path, content, 1) as view, pytest.raises(TensorShapeError, match="without axes"):
        view.permuted((0,))


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 3), (2, 1)])
def test_a_range_outside_of_the_tensor_is_refused(tmp_path, start, stop):
    content = dump2(message(outputs=[op_output(FLOAT, (2,), 8)]), bytes(8))
    with opened(tmp_path, content) as view, pytest.raises(ValueError, match="it has 2"):
        view.read(start, stop)


def test_what_is_cut_off_is_an_error_and_the_rest_is_read(tmp_path):
    outputs = [op_output(FLOAT, (2,), 8), op_output(FLOAT, (2,), 8)]
    content = dump2(message(outputs=outputs), np.arange(3, dtype="<f4").tobytes())
    with opened(tmp_path, content, 0) as view:
        assert whole(view).tolist() == [0.0, 1.0]
    with pytest.raises(TensorFileError, match="output 1: cut off, 4 of its 8 bytes are there"):
        opened(tmp_path, content, 1)


@pytest.mark.parametrize("label", ["UNDEFINED", "STRING", "RESOURCE", "VARIANT", "DUAL", "STRING_REF"])
def test_what_is_no_number_is_refused_by_name_and_the_others_are_read(tmp_path, label):
    value = {"UNDEFINED": 0, "STRING": STRING, "RESOURCE": 23, "STRING_REF": 24, "DUAL": 25, "VARIANT": 26}[label]
    content = dump2(message(outputs=[op_output(value, (4,), 4), op_output(FLOAT, (1,), 4)]), bytes(8))
    with pytest.raises(TensorFileError, match=f"output 0: {label} has no numeric meaning; "):
        opened(tmp_path, content, 0)
    with opened(tmp_path, content, 1) as view:
        assert whole(view).tolist() == [0.0]


@pytest.mark.parametrize("shape", [(2**62, 2**62), (2**63,), (0, 2**62, 2**62), (2**64 - 1,)])
def test_a_shape_beyond_all_memory_is_refused(tmp_path, shape):
    with pytest.raises(TensorFileError, match=r"more than any memory holds"):
        opened(tmp_path, dump2(message(outputs=[op_output(3, shape, 2**64 - 1)]), bytes(4)))


def test_a_file_that_is_refused_is_closed(tmp_path):
    path = put(tmp_path, NAME, dump2(message(outputs=[op_output(STRING, (2,), 8)]), bytes(8)))
    before = open_files()
    for _ in range(5):
        with pytest.raises(TensorFileError):
            open_part(path, 0)
    assert open_files() == before


def low_nibble_first(raw):
    return np.stack([raw & 15, raw >> 4], axis=1).ravel().astype("i1")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_elements_of_half_a_byte_are_read_in_any_order_from_any_place(tmp_path_factory, data):
    stored = np.random.default_rng(2).integers(0, 256, 30, dtype="u1")
    values = low_nibble_first(stored).reshape(3, 4, 5)
    axes = data.draw(st.sampled_from(list(permutations(range(3)))))
    file = StoredFile(put(tmp_path_factory.mktemp("packed"), NAME, b"xyz" + stored.tobytes()))
    steps = [np.array(values.strides)[axis].item() for axis in axes]
    shape = tuple(values.shape[axis] for axis in axes)
    reader = PackedReader(file, 3, Layout(TensorSpec(), shape, tuple(steps), 4, np.dtype("u1"), low_nibble_first))
    start = data.draw(st.integers(0, 60))
    stop = data.draw(st.integers(start, 60))
    assert reader.read(start, stop).tolist() == values.transpose(axes).ravel()[start:stop].tolist()
    file.close()


def test_elements_of_half_a_byte_are_picked_out_of_pieces_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_msdump.core.dumps.array_reader.BLOCK_BYTES", 7)
    stored = np.arange(30, dtype="u1")
    file = StoredFile(put(tmp_path, NAME, stored.tobytes()))
    seen = []

    def unpack(raw):
        seen.append(raw.size)
        return low_nibble_first(raw)

    reader = PackedReader(file, 0, Layout(TensorSpec(), (20, 3), (1, 20), 4, np.dtype("u1"), unpack))
    assert reader.read(0, 60).tolist() == low_nibble_first(stored).reshape(3, 20).T.ravel().tolist()
    assert max(seen) <= 5
    file.close()
