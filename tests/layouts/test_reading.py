"""What it costs to read a padded tensor, and what becomes of headers and rules that cannot be right."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.core.layouts.blocks import Part, Placement, place
from pytest_msdump.core.layouts.device_layout import logical, stored, target
from pytest_msdump.core.layouts.gather import BlockedView
from pytest_msdump.core.model.tensor import TensorSpec, TensorView


class Counting:
    """Zeros of any size that are nowhere, or an array; one buffer for all reads, as files have it."""

    def __init__(
        self,
        shape: tuple[int, ...],
        memory_format: str,
        logical_shape: tuple[int, ...] | None = None,
        *,
        groups: int = 1,
        values: np.ndarray | None = None,
        dtype: str = "float32",
    ) -> None:
        self.spec = TensorSpec(dtype, shape, memory_format, logical_shape, groups)
        self.shape, self.dtype, self.size = shape, dtype, prod(shape)
        self.reads = self.elements = 0
        self._values = None if values is None else values.reshape(-1)
        self._buffer = np.empty(0, dtype)

    def read(self, start: int, stop: int) -> np.ndarray:
        self.reads += 1
        self.elements += stop - start
        if self._buffer.size < stop - start:
            self._buffer = np.zeros(stop - start, self.dtype)
        found = self._buffer[: stop - start]
        if self._values is not None:
            found[:] = self._values[start:stop]
        return found

    def blocks(self, block_elements: int) -> Iterator[np.ndarray]:
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        parts = tuple(Part(axis, "whole", length) for axis, length in enumerate(self.shape))
        return BlockedView(self, Placement(self.shape, parts), order=axes)

    def close(self) -> None:
        pass


def values_of(view: TensorView, block: int = 10**9) -> np.ndarray:
    return np.concatenate([part.copy() for part in view.blocks(block)]).reshape(view.shape)


def test_sixteen_rows_of_a_vocabulary_are_one_window():
    source = Counting((9496, 4, 16, 16), "FRACTAL_NZ", (64, 151936))
    assert peak_of(logical(source), (64, 151936)) < 60 * 2**20
    assert source.elements == source.size


def peak_of(view: TensorView, shape: tuple[int, ...]) -> int:
    """Read all of a view and return the most bytes that this took at once."""
    assert view.shape == shape
    tracemalloc.start()
    try:
        for _ in view.blocks(2**18):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_no_order_of_the_axes_is_read_element_by_element(order):
    source = Counting((4, 4, 128, 100, 16), "NC1HWC0")
    placed = place("NC1HWC0", source.shape, (4, 60, 128, 100), "NCHW")
    view = BlockedView(source, placed, order=order, window_elements=2**18)
    for _ in view.blocks(2**16):
        pass
    assert source.reads <= 1000


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(1, 300), st.data())
def test_a_borrowed_buffer_is_never_handed_on(lengths, window, data):
    """A file's buffer is overwritten by its next read; what a view keeps must be its own."""
    shape = tuple(lengths)
    values = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    parts = tuple(Part(axis, "whole", length) for axis, length in enumerate(shape))
    source = Counting(shape, "ND", values=values)
    view = BlockedView(source, Placement(shape, parts), order=order, window_elements=window)
    first = view.read(0, 1)
    kept = float(first[0])
    source.read(0, source.size)[:] = -1
    assert view.read(0, 1)[0] == kept == values.reshape(-1)[0]
    assert np.array_equal(values_of(view, 11), values.transpose(order))


def test_axes_can_change_places_after_a_shape_without_the_axes_of_length_1():
    values = np.arange(3 * 21, dtype=np.float32).reshape(3, 21)
    lying = stored(values, "NC1HWC0", padding=np.nan)
    turned = logical(Counting(lying.shape, "NC1HWC0", (3, 21), values=lying)).permuted((1, 0))
    assert turned.shape == (21, 3)
    assert np.array_equal(values_of(turned), values.T)
    assert np.array_equal(values_of(turned.permuted((1, 0))), values)


def test_axes_can_change_places_after_a_header_gave_a_flat_tensor_its_shape():
    values = np.arange(2 * 3 * 5, dtype=np.float32)
    turned = logical(Counting((30,), "ND", (2, 3, 5), values=values)).permuted((2, 0, 1))
    assert np.array_equal(values_of(turned), values.reshape(2, 3, 5).transpose(2, 0, 1))


# -- lengths that a rule leaves open ----------------------------------------------------------------------------------


def test_a_length_in_blocks_cannot_be_read_there():
    spec = TensorSpec("float32", (8, 2, 5, 7, 16), "NC1HWC0")
    assert target(spec, rule_format="NCHW", rule_shape=(8, -1, 5, 7)) == (None, None)
    assert target(spec, rule_format=None, rule_shape=(-1, 19, 5, 7)) == (None, None)
    said = TensorSpec("float32", (8, 2, 5, 7, 16), "NC1HWC0", (8, 19, 5, 7))
    assert target(said, rule_format="NCHW", rule_shape=(8, -1, 5, 7)) == ((8, 19, 5, 7), "NCHW")
    view = Counting((8, 2, 5, 7, 16), "NC1HWC0", (8, 19, 5, 7))
    assert logical(view, logical_shape=(8, -1, 5, 7), logical_format="NCHW").shape == (8, 19, 5, 7)


# -- contradictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "letters", "groups"),
    [((20, 3, 3, 3), "NCHW", 3), ((2, 3, 3, 3), "NCHW", 4), ((20, 6, 3), "NCHW", 2), ((20, 6), None, 7)],
)
def test_groups_that_cannot_be_are_refused(shape, letters, groups):
    view = Counting((9, 2, 16, 16), "FRACTAL_Z", shape, groups=groups)
    with pytest.raises(TensorShapeError, match=r"FRACTAL_Z|groups"):
        logical(view, logical_shape=shape, logical_format=letters)


LENGTHS = st.sampled_from([-1, 0, 1, 1, 2, 3, 16, 16, 17, 10**9])
SHAPES = st.lists(LENGTHS, max_size=6).map(tuple)
FEW = st.lists(st.sampled_from([0, 1, 2, 3, 16, 32]), max_size=6).map(tuple).filter(lambda shape: prod(shape) < 30000)


@settings(deadline=None, max_examples=400)
@given(
    FEW,
    st.sampled_from([*MEMORY_FORMATS, "YUV", ""]),
    st.none() | SHAPES,
    st.none() | SHAPES,
    st.sampled_from([None, "", "NCHW", "NHWC", "HWCN", "NCDHW", "ND", "NNHW", "ABCD"]),
    st.sampled_from([-1, 0, 1, 2, 3, 48]),
)
def test_whatever_headers_and_rules_say_the_answer_is_a_tensor_or_our_error(
    lying, memory_format, header, rule, letters, groups
):
    view = Counting(lying, memory_format, header, groups=groups)
    with suppress(TensorShapeError):
        shape, order = target(view.spec, rule_format=letters, rule_shape=rule)
        for found in (logical(view, logical_shape=shape, logical_format=order), logical(view, logical_shape=rule)):
            turned = found.permuted(tuple(range(len(found.shape)))[::-1])
            assert turned.read(0, turned.size).size == found.size == prod(found.shape)
