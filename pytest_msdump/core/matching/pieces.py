"""Which part of one tensor each of several others is that lie side by side in it, by their shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pytest_msdump.core.model.tensor import AxisRange, TensorPiece, refines
from pytest_msdump.core.text import Message, Parameter

Shape = tuple[int, ...]


def pieces_between(
    side: str, whole: Shape, parts: Sequence[Shape], *, axis: int, reshape: bool = False, index: int | None = None
) -> list[TensorPiece] | Message:
    """Return which piece of a tensor of `side` each of the tensors is that lie side by side along an axis.

    With `index`, they are one entry along the leading axis of the whole.
    """
    said: dict[str, Parameter] = {"shapes": ", ".join(map(str, parts)), "axis": axis, "whole": whole, "side": side}
    ranks = {len(shape) for shape in parts}
    if len(ranks) > 1 or not -min(ranks) <= axis < min(ranks):
        return Message("parts_do_not_join", said)
    along = axis % min(ranks)
    if len({(*shape[:along], *shape[along + 1 :]) for shape in parts}) > 1:
        return Message("parts_do_not_join", said)
    joined = (*parts[0][:along], sum(shape[along] for shape in parts), *parts[0][along + 1 :])
    stacked: tuple[AxisRange, ...] = ()
    if index is not None:
        if not whole or index >= whole[0]:
            return Message("no_such_index", {**said, "index": index})
        joined, along, stacked = (whole[0], *joined), along + 1, (AxisRange(0, index, index + 1),)
    if prod(joined) != prod(whole) or not (reshape or refines(joined, whole)):
        return Message("parts_make_another", {**said, "joined": joined})
    found, start = [], 0
    for shape in parts:
        stop = start + shape[along - bool(stacked)]
        # Of a tensor that is all of its axis every range is the whole.
        ranges = (*stacked, AxisRange(along, start, stop)) if len(parts) > 1 else stacked
        found.append(TensorPiece(side, joined, ranges))
        start = stop
    return found
