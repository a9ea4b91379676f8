"""The view of the tokens that are to be compared: without padding, and through all steps of a sequence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec, TensorView
from pytest_msdump.core.text import Message
from pytest_msdump.model.shards import TokenRuns


def begins_with_tokens(views: Sequence[TensorView], tokens: TokenRuns) -> bool:
    """Whether tensors of all steps are of one kind and begin with the dimensions of the ids."""
    axes = len(tokens.shapes[0])
    kinds = {(view.dtype, view.shape[axes:]) for view in views}
    return len(kinds) == 1 and [view.shape[:axes] for view in views] == [*tokens.shapes]


class TokenView(TensorView):
    """The tokens of tensors that are to be compared, one after the other along the first axis.

    Parameters
    ----------
    views : sequence of TensorView
        The tensor of each step; one where all tokens are in one.
    tokens : TokenRuns
        Which tokens, and their order.
    """

    def __init__(self, views: Sequence[TensorView], tokens: TokenRuns) -> None:
        self._views, self._tokens, self._axes = tuple(views), tokens, len(tokens.shapes[0])
        self._rest = views[0].shape[self._axes :]
        # Where each run begins among the tokens compared, and each step among all.
        self._starts = [0, *accumulate(length for _, length in tokens.runs)]
        self._steps = [0, *accumulate(map(prod, tokens.shapes))]

    @property
    def spec(self) -> TensorSpec:
        """What the first file holds, with the shape of what is compared."""
        return replace(self._views[0].spec, shape=self.shape, logical_shape=self.shape, memory_format=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of tokens, and the dimensions behind them."""
        return self._starts[-1], *self._rest

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order."""
        out = np.empty(stop - start, self._views[0].read(0, 0).dtype)
        width, place = prod(self._rest), start
        while place < stop:
            run = bisect_right(self._starts, place // width) - 1
            until = min(stop, self._starts[run + 1] * width)
            first = self._tokens.runs[run][0]
            step = self._step_of(first)
            shift = (first - self._steps[step] - self._starts[run]) * width
            out[place - start : until - start] = self._views[step].read(place + shift, until + shift)
            place = until
        return out

    def source_of(self, index: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Return of which step's tensor an element is, and its index there."""
        run = bisect_right(self._starts, index[0]) - 1
        token = self._tokens.runs[run][0] + index[0] - self._starts[run]
        step = self._step_of(token)
        there = np.unravel_index(token - self._steps[step], self._tokens.shapes[step])
        return step, (*map(int, there), *index[1:])

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return these tokens with the axes behind them in another order; tokens stay the first axis."""
        order = tuple(axis % len(self.shape) for axis in axes)
        if order[0]:
            raise TensorShapeError(Message("tokens_come_first"))
        inner = (*range(self._axes), *(axis + self._axes - 1 for axis in order[1:]))
        return TokenView([view.permuted(inner) for view in self._views], self._tokens)

    def close(self) -> None:
        """Close the tensors of all steps."""
        for view in self._views:
            view.close()

    def _step_of(self, token: int) -> int:
        return bisect_right(self._steps, token) - 1
