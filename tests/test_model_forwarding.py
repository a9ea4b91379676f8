"""A view before another one says what that one says, but for what it says itself."""

from __future__ import annotations

import numpy as np

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.model.tensor import ForwardingView


class Half(ForwardingView):
    """The first half, doubled."""

    @property
    def size(self):
        return self._view.size // 2

    def read(self, start, stop):
        return 2 * self._view.read(start, stop)


class Closing(ArrayView):
    closed = False

    def close(self):
        self.closed = True


def test_everything_is_asked_of_the_other_view():
    whole = Closing(np.arange(6.0, dtype="f4").reshape(2, 3))
    view = ForwardingView(whole)
    assert (view.spec, view.shape, view.dtype, view.size) == (whole.spec, (2, 3), "float32", 6)
    assert view.read(1, 4).tolist() == [1, 2, 3]
    assert [block.tolist() for block in view.blocks(4)] == [[0, 1, 2, 3], [4, 5]]
    assert view.permuted((1, 0)).read(0, 6).tolist() == [0, 3, 1, 4, 2, 5]
    view.close()
    assert whole.closed


def test_blocks_are_those_of_what_a_class_reads_itself():
    view = Half(ArrayView(np.arange(10.0)))
    assert [block.tolist() for block in view.blocks(2)] == [[0, 2], [4, 6], [8]]
    assert view.shape == (10,)
