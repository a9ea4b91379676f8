"""Bring two opened tensors to one logical shape, by everything that is known of the pair. Reads no data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_msdump.memory_formats.stored import Converters, target
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.pipeline.logical import logical_views, views_as_told, views_that_meet
from pytest_msdump.pipeline.sampling import Sampled, check_formats, meet_sampled
from pytest_msdump.text import Message

__all__ = ["Met", "axis_letters", "bring_together"]

_PLAIN_ORDERS = frozenset({"NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC"})


class Met(NamedTuple):
    """Two tensors of one shape; each side without its memory format but in its own axes; what was left to be done.

    `remarks` are of what their files hold beside the values.
    """

    left: TensorView
    right: TensorView
    left_logical: TensorView
    right_logical: TensorView
    transform: Transform
    sampled: Sampled | None
    remarks: tuple[Message, ...] = ()


def bring_together(pair: Pair, left: TensorView, right: TensorView, converters: Converters | None = None) -> Met:
    """Undo memory formats, then axis orders, `transpose`, `reshape`.

    Raises
    ------
    TensorShapeError
        The shapes cannot be brought together.
    UnknownSampleError
        A side is a sample that was not taken by the rule that is known.
    """
    if pair.left.sample is None and pair.right.sample is None and not converters:
        whole = views_that_meet(left, right, pair.transform)
        if whole is not None:
            return Met(whole[0], whole[1], whole[0], whole[1], whole[2], None, tuple(_trailing(left, right)))
    check_formats(pair, left, right)
    left_logical, right_logical, transform = logical_views(left, right, pair.transform, converters)
    own = left_logical, right_logical
    left_logical, right_logical = views_as_told(pair, left_logical, right_logical, transform)
    remarks = (*_trailing(left, right), *_shapes_from_graph(own, (left_logical, right_logical)))
    left_met, right_met, sampled = meet_sampled(pair, left_logical, right_logical, transform)
    return Met(left_met, right_met, left_logical, right_logical, transform, sampled, remarks)


def _trailing(left: TensorView, right: TensorView) -> Iterator[Message]:
    for side, view in (("left", left), ("right", right)):
        if view.spec.trailing_bytes:
            yield Message("trailing_bytes", {"side": side, "bytes": view.spec.trailing_bytes})


def _shapes_from_graph(own: tuple[TensorView, TensorView], told: tuple[TensorView, TensorView]) -> Iterator[Message]:
    """Yield the sides whose file says another shape than the graph, which won."""
    for side, before, after in zip(("left", "right"), own, told, strict=True):
        if before.shape != after.shape:
            yield Message("shape_from_graph", {"side": side, "stored": before.shape, "used": after.shape})


def axis_letters(left: TensorView, met: Met) -> str | None:
    """Return what the axes of two tensors are that have met, ``None`` where nobody tells.

    Parameters
    ----------
    left : TensorView
        The left side as it was opened.
    met : Met
        What `bring_together` made of it.
    """
    rank = len(met.left.shape)
    sides = {(name or "NCHW").upper() for name in (met.transform.left_format, met.transform.right_format)}
    is_told = met.transform.left_format is not None or met.transform.right_format is not None
    if rank == len("NCHW") and is_told:
        return sides.pop() if len(sides) == 1 else "NCHW"
    shape, letters = _told(left, met)
    # A side whose channels were moved to where the other has them is in no order that anybody has told.
    return letters if letters is not None and len(letters) == rank and shape == met.left.shape else None


def _told(left: TensorView, met: Met) -> tuple[tuple[int, ...] | None, str | None]:
    """Shape and axis order that the dump, or else the rule file, tells of the left side."""
    rule = met.transform.left_logical_format, met.transform.left_logical_shape
    if rule[0] is None and (left.spec.memory_format or "").upper() in ("", "ND", "DEFAULTFORMAT"):
        return None, None
    shape, letters = target(left.spec, rule_format=rule[0], rule_shape=rule[1])
    if shape is not None:
        return shape, letters
    own = (left.spec.memory_format or "").upper()
    return (left.shape, own) if own in _PLAIN_ORDERS else (None, None)
