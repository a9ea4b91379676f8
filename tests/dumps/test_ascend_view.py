from itertools import permutations

import numpy as np
import pytest
from dumps.dumpmade import BF16, FLOAT, FLOAT16, STRING, dump2, message, op_input, op_output, put
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


# Numbers of the header's table, quantised ones among them.
STORED = {
    **dict(enumerate(("<f4", "<f2", "i1", "u1", "<i2", "<u2", "<i4", "<i8", "<u4", "<u8"), 1)),
    12: "<f8",
    16: "<c8",
    17: "<c16",
    18: "i1",
    19: "<i2",
    20: "<i4",
    21: "u1",
    22: "<u2",
}


def test_numbers_are_those_that_were_stored(tmp_path):
    for data_type, stored in STORED.items():
        values = np.random.default_rng(1).integers(0, 255, 4 * np.dtype(stored).itemsize * 6).astype("u1").view(stored)
        header = message(outputs=[op_output(data_type, (6, 4), values.nbytes)])
        with opened(tmp_path, dump2(header, values.tobytes())) as view:
            read = whole(view)
            assert read.dtype.isnative
            assert read.tobytes() == values.tobytes()
            assert view.dtype == np.dtype(stored).name


def test_bool_and_bfloat16_are_decoded(tmp_path):
    # 1.0, -2.0, infinity and the smallest subnormal, of which a float32 has the upper half.
    bits = bytes.fromhex("803f 00c0 807f 0100")
    outputs = [op_output(11, (3,), 3), op_output(BF16, (4,), 8)]
    content = dump2(message(outputs=outputs), b"\x00\x01\x7f", bits)
    with opened(tmp_path, content, 0) as view:
        assert whole(view).tolist() == [False, True, True]
        # Each True is the same byte, so that sums and comparisons do not depend on how a device wrote it.
        assert whole(view).view("u1").tolist() == [0, 1, 1]
    with opened(tmp_path, content, 1) as view:
        assert whole(view).tolist() == [1.0, -2.0, float("inf"), 2.0**-133]
        assert view.dtype == "bfloat16"


def test_the_spec_is_what_the_header_says(tmp_path):
    output = op_output(FLOAT16, (1, 2, 3, 2, 16), 384, memory_format=3, original=(1, 19, 3, 2), groups=4)
    with opened(tmp_path, dump2(message(outputs=[output]), bytes(384))) as view:
        spec = view.spec
        assert (spec.dtype, spec.memory_format, spec.groups) == ("float16", "NC1HWC0", 4)
        assert (spec.shape, spec.logical_shape, view.shape) == ((1, 2, 3, 2, 16), (1, 19, 3, 2), (1, 2, 3, 2, 16))
        assert view.permuted((0, 1, 2, 3, 4)).spec == spec
        moved = view.permuted((0, 2, 3, 1, 4)).spec
        assert (moved.memory_format, moved.logical_shape) == (None, (1, 3, 2, 2, 16))


def test_scalars_and_empty_tensors(tmp_path):
    outputs = [op_output(FLOAT, None, 4), op_output(FLOAT, (0, 5), 0), op_output(FLOAT, (2, 0), 0)]
    content = dump2(message(outputs=outputs), np.float32(2.5).tobytes())
    for part, shape in enumerate([(), (0, 5), (2, 0)]):
        with opened(tmp_path, content, part) as view:
            assert view.shape == shape
            assert whole(view).tolist() == np.full(shape, 2.5).tolist()
            assert list(view.blocks(3)) if shape == () else not list(view.blocks(3))


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


def test_less_data_than_the_shape_needs_is_an_error(tmp_path):
    content = dump2(message(outputs=[op_output(FLOAT16, (37, 21), 100)]), bytes(2000))
    with pytest.raises(
        TensorFileError, match=r"output 0: shape .37, 21. of float16 needs 1554 bytes, the header gives it 100"
    ):
        opened(tmp_path, content)


def test_more_data_than_the_shape_needs_is_padding_when_the_header_counts_it(tmp_path):
    outputs = [op_output(FLOAT, (1,), 32), op_output(FLOAT, (1,), 4)]
    content = dump2(message(outputs=outputs), np.float32(1).tobytes() + b"\xff" * 28, np.float32(2).tobytes())
    for part, value in enumerate((1.0, 2.0)):
        with opened(tmp_path, content, part) as view:
            assert whole(view).tolist() == [value]


def test_what_is_cut_off_is_an_error_and_the_rest_is_read(tmp_path):
    outputs = [op_output(FLOAT, (2,), 8), op_output(FLOAT, (2,), 8)]
    content = dump2(message(outputs=outputs), np.arange(3, dtype="<f4").tobytes())
    with opened(tmp_path, content, 0) as view:
        assert whole(view).tolist() == [0.0, 1.0]
    with pytest.raises(TensorFileError, match="output 1: cut off, 4 of its 8 bytes are there"):
        opened(tmp_path, content, 1)


def test_what_is_cut_off_in_its_padding_is_cut_off(tmp_path):
    content = dump2(message(outputs=[op_output(FLOAT, (2,), 32)]), bytes(31))
    with pytest.raises(TensorFileError, match="output 0: cut off, 31 of its 32 bytes are there"):
        opened(tmp_path, content)


@pytest.mark.parametrize("label", ["UNDEFINED", "STRING", "RESOURCE", "VARIANT", "DUAL", "STRING_REF"])
def test_what_is_no_number_is_refused_by_name_and_the_others_are_read(tmp_path, label):
    value = {"UNDEFINED": 0, "STRING": STRING, "RESOURCE": 23, "STRING_REF": 24, "DUAL": 25, "VARIANT": 26}[label]
    content = dump2(message(outputs=[op_output(value, (4,), 4), op_output(FLOAT, (1,), 4)]), bytes(8))
    with pytest.raises(TensorFileError, match=f"output 0: {label} has no numeric meaning; "):
        opened(tmp_path, content, 0)
    with opened(tmp_path, content, 1) as view:
        assert whole(view).tolist() == [0.0]


def test_an_unknown_type_is_refused(tmp_path):
    with pytest.raises(TensorFileError, match="data type number 99 cannot be decoded"):
        opened(tmp_path, dump2(message(outputs=[op_output(99, (4,), 4)]), bytes(4)))


@pytest.mark.parametrize("shape", [(2**62, 2**62), (2**63,), (0, 2**62, 2**62), (2**64 - 1,)])
def test_a_shape_beyond_all_memory_is_refused(tmp_path, shape):
    with pytest.raises(TensorFileError, match=r"more than any memory holds"):
        opened(tmp_path, dump2(message(outputs=[op_output(3, shape, 2**64 - 1)]), bytes(4)))


def test_inputs_and_outputs_have_the_numbers_of_their_order(tmp_path):
    header = message(outputs=[op_output(FLOAT, (1,), 4)], inputs=[op_input(FLOAT, (1,), 4), op_input(FLOAT, (1,), 4)])
    content = dump2(header, np.arange(3, dtype="<f4").tobytes())
    for part in range(3):
        with opened(tmp_path, content, part) as view:
            assert whole(view).tolist() == [float(part)]
    with pytest.raises(TensorFileError, match="holds 3 tensors; the file has changed"):
        opened(tmp_path, content, 3)


def test_reading_after_close_is_refused_and_closing_twice_is_not(tmp_path):
    view = opened(tmp_path, dump2(message(outputs=[op_output(FLOAT, (2,), 8)]), bytes(8)))
    view.close()
    view.close()
    with pytest.raises(ValueError, match="after close"):
        view.read(0, 2)


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
