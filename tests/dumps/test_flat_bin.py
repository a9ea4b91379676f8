from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.file_names import parse_flat
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec

# The examples of the documentation of release 1.3.
ADD = "Default--Add-op1_input_0_shape_1_3_3_4_Float32_DefaultFormat.bin"
CONV = (
    "Default--network-WithLossCell--_backbone-AlexNet--conv3-Conv2d--Conv2D-op107"
    "_output_0_shape_32_12_13_13_16_Float16_NC1HWC0.bin"
)


def save(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def opened(path, **kwargs):
    return open_flat(path, parse_flat(path.name).spec, **kwargs)


def test_the_documented_names_are_read():
    assert parse_flat(ADD) == (
        "Default_Add-op1",
        "Add",
        "input",
        0,
        (1, 3, 3, 4),
        "Float32",
        "DefaultFormat",
        "Default/Add-op1",
    )
    conv = parse_flat(CONV)
    # As releases since 2.1 and asynchronous dumps write the same operator.
    assert conv.op == "Default_network-WithLossCell__backbone-AlexNet_conv3-Conv2d_Conv2D-op107"
    assert conv[1:7] == ("Conv2D", "output", 0, (32, 12, 13, 13, 16), "Float16", "NC1HWC0")
    # Two hyphens are nothing but a slash.
    assert conv.true_name == "Default/network-WithLossCell/_backbone-AlexNet/conv3-Conv2d/Conv2D-op107"
    assert conv.spec == TensorSpec("float16", (32, 12, 13, 13, 16), "NC1HWC0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Scalars have no dimensions.
        ("a-op0_output_0_shape_Bool_DefaultFormat.bin", ("a-op0", "a", "output", 0, (), "Bool", "DefaultFormat")),
        ("a-op0_output_0_shape__Bool_DefaultFormat.bin", ("a-op0", "a", "output", 0, (), "Bool", "DefaultFormat")),
        ("a-op0_output_1_shape_0_Int8_ND.bin", ("a-op0", "a", "output", 1, (0,), "Int8", "ND")),
        (
            "a_op--b_c-op12_input_10_shape_4_4_16_16_Float16_FRACTAL_NZ.bin",
            ("a_op_b_c-op12", "b_c", "input", 10, (4, 4, 16, 16), "Float16", "FRACTAL_NZ"),
        ),
        (
            "x_output_0_shape_2_y-op0_input_3_shape_5_UInt8_NC1HWC0_C04.bin",
            ("x_output_0_shape_2_y-op0", None, "input", 3, (5,), "UInt8", "NC1HWC0_C04"),
        ),
        # Weights are not numbered, and keep the dots of their names, which later releases do not.
        (
            "fc1.weight_output_0_shape_3_Float64_DefaultFormat.bin",
            ("fc1_weight", "Parameter", "output", 0, (3,), "Float64", "DefaultFormat"),
        ),
        (
            "Default_scope_Add-op1_output_0_shape_3_Float7_ND.bin",
            ("Default_scope_Add-op1", None, "output", 0, (3,), "Float7", "ND"),
        ),
    ],
)
def test_names_are_read_from_the_right(name, expected):
    true_name = "a_op/b_c-op12" if "--" in name else None
    assert parse_flat(name) == (*expected, true_name)


@pytest.mark.parametrize(
    ("word", "dtype"),
    [("Float32", "<f4"), ("Float16", "<f2"), ("Float64", "<f8"), ("Int64", "<i8"), ("UInt16", "<u2"), ("Bool", "?")],
)
def test_bytes_are_in_c_order_and_little_endian(tmp_path, word, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    view = opened(save(tmp_path, f"a-op0_output_0_shape_2_3_4_{word}_NCHW.bin", array.tobytes()), block_bytes=16)
    assert (view.shape, view.size, view.dtype) == ((2, 3, 4), 24, word.lower())
    assert view.read(5, 20).tolist() == array.ravel()[5:20].tolist()
    turned = view.permuted((2, 0, 1))
    assert turned.read(0, 24).tolist() == array.transpose(2, 0, 1).ravel().tolist()
    assert turned.shape == (4, 2, 3)
    view.close()


@given(st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_file_opens_if_it_has_just_the_bytes_of_its_shape(tmp_path_factory, content):
    path = save(tmp_path_factory.mktemp("bin"), "a-op0_output_0_shape_2_3_Float32_NCHW.bin", content)
    if len(content) == 24:
        with opened(path) as view:
            assert view.read(0, 6).tobytes() == content
        return
    with pytest.raises(TensorFileError):
        opened(path)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("2_3_Float32", b"", "is empty (0 bytes); the run was probably killed while writing: dump it again"),
        ("2_3_Float32", bytes(23), "cut off after 23 of 24 bytes; the run was probably killed while writing"),
        (
            "2_3_Float32",
            bytes(28),
            "4 bytes too many: shape (2, 3) of float32 in its name needs 24; the file was renam",
        ),
        (
            "2_3_Float32",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 24\n",
            "is a Git LFS pointer, not the tensor itself; run `git lfs pull`",
        ),
        ("2_3_Float7", bytes(24), "data type Float7 in its name cannot be decoded"),
        ("2_String", bytes(24), "data type String in its name cannot be decoded"),
        (f"{'9' * 19}_9_Float32", b"", "is more than any memory holds"),
        (f"0_{'9' * 19}_9_Float32", b"", "is more than any memory holds"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused_with_the_reason(tmp_path, name, content, sentence):
    path = save(tmp_path, f"a-op0_output_0_shape_{name}_NCHW.bin", content)
    with pytest.raises(TensorFileError) as caught:
        opened(path)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_refused_file_is_closed(tmp_path):
    path = save(tmp_path, "a-op0_output_0_shape_1_Float32_NCHW.bin", bytes(3))
    before = len(list(Path("/proc/self/fd").iterdir()))
    errors = []
    for _ in range(5):
        with pytest.raises(TensorFileError) as caught:
            opened(path)
        # An error holds what its frames hold, so that nothing is closed by chance.
        errors.append(caught.value)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
