"""What is written is what numpy reads; a failure leaves no file."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.comparison.opening import ArrayView
from pytest_msdump.dumps.npy import write_npy
from pytest_msdump.errors import MsdumpError, TensorFileError


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0)])
def test_numpy_reads_back_what_was_written(dtype, shape, tmp_path):
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    found = np.load(write_npy(ArrayView(values), tmp_path / "a.npy"))
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert np.array_equal(found, values)


def test_a_tensor_of_many_blocks_is_whole(tmp_path):
    values = np.arange(300_000, dtype=np.int32).reshape(3, -1)
    assert np.array_equal(np.load(write_npy(ArrayView(values), tmp_path / "a.npy")), values)


def test_a_tensor_that_breaks_off_leaves_nothing(tmp_path):
    class Broken(ArrayView):
        def blocks(self, block_elements):  # noqa: ARG002 - the protocol's
            yield np.zeros(2, np.float32)
            raise TensorFileError("cut")

    with pytest.raises(TensorFileError):
        write_npy(Broken(np.zeros(4, np.float32)), tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MsdumpError, match=r"nowhere.*cannot be written"):
        write_npy(ArrayView(np.zeros(1)), tmp_path / "nowhere" / "a.npy")
