"""Arrays in memory as views."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorView

PLAIN = np.arange(60, dtype="int32").reshape(3, 4, 5)
WAYS: dict[str, Any] = {
    "C": PLAIN,
    "Fortran": np.asfortranarray(PLAIN),
    "transposed": np.ascontiguousarray(PLAIN.transpose(2, 0, 1)).transpose(1, 2, 0),
    "reversed": np.ascontiguousarray(PLAIN[::-1])[::-1],
    "big endian": PLAIN.astype(">i4"),
    "broadcast": np.broadcast_to(PLAIN, (3, 4, 5)),
    "list": PLAIN.tolist(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("span", [(0, 60), (0, 0), (7, 23), (59, 60)])
def test_reads_c_order_native_pieces(way: str, span: tuple[int, int]) -> None:
    view: TensorView = ArrayView(WAYS[way])
    piece = view.read(*span)
    assert piece.tolist() == list(range(*span))
    assert piece.dtype.isnative
    assert piece.ndim == 1


def test_the_whole_is_never_copied() -> None:
    array = np.zeros((1000, 1000), order="F")
    tracemalloc.start()
    for block in ArrayView(array).blocks(4096):
        assert block.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.nbytes / 20


def test_bfloat16_is_said_not_guessed() -> None:
    values = np.array([1.5, 2.0], "float32")
    assert ArrayView(values, "bfloat16").dtype == "bfloat16"
    assert ArrayView(values, "bfloat16").permuted((0,)).dtype == "bfloat16"
    assert ArrayView(values).dtype == "float32"


def test_a_dtype_the_array_cannot_hold_is_refused() -> None:
    with pytest.raises(TensorFileError, match="int32 does not hold bfloat16"):
        ArrayView(PLAIN, "bfloat16")
    with pytest.raises(TensorFileError, match="did you mean 'float32'"):
        ArrayView(PLAIN, "flaot32")
