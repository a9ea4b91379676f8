"""Blocks are copied to their places once: what is left of a block before and behind the range, and no padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.layouts.blocks import Part, Placement


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7), st.integers(1, 5), st.data())
def test_every_range_of_a_blocked_axis_is_filled_once(block, blocks, data):
    length = data.draw(st.integers((blocks - 1) * block + 1, blocks * block))
    low = data.draw(st.integers(0, length))
    high = data.draw(st.integers(low, length))
    placement = Placement(
        (length, 3), (Part(0, "outer", blocks, block), Part(1, "whole", 3), Part(0, "inner", block, block))
    )
    stored = np.arange(blocks * 3 * block).reshape(blocks, 3, block)
    ordered = stored.transpose([number for axis in (1, 0) for number in placement.parts_of(axis)])
    out = np.full((2, high - low), -1)
    for move in placement.moves((1, 0), [(1, 3), (low, high)]):
        source, room = ordered[move.stored], out[move.logical]
        assert (room == -1).all()
        out[move.logical] = source.reshape(room.shape)
    assert np.array_equal(out, stored.transpose(1, 0, 2).reshape(3, -1)[1:, low:high])


@pytest.mark.parametrize(("length", "copies"), [(16, 1), (32, 1), (19, 2), (3, 1)])
def test_whole_blocks_are_one_copy(length, copies):
    blocks = -(-length // 16)
    placement = Placement((length,), (Part(0, "outer", blocks, 16), Part(0, "inner", 16, 16)))
    _, moves = placement.whole
    assert len(moves) == copies
