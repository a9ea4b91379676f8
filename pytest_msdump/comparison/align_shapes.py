"""Bring two opened tensors to one logical shape, by everything that is known of the pair. Reads no data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.comparison.logical import logical_views, views_as_told, views_that_meet
from pytest_msdump.errors import TensorShapeError
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.layouts.axes import meet
from pytest_msdump.layouts.converters import Converters
from pytest_msdump.layouts.device_layout import target
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.tensor import ForwardingView, TensorRef, TensorView
from pytest_msdump.text import Message

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LeadingRows", "Met", "Sampled", "UnknownSampleError", "axis_letters", "bring_together"]


class UnknownSampleError(TensorShapeError):
    """A sample that was not taken by the rule that is known. It never leaves the pipeline: the pair is undefined."""


class LeadingRows(ForwardingView):
    """The first entries along the first axis of a tensor (a `model.tensor.TensorView`).

    Parameters
    ----------
    view : TensorView
        The whole tensor, of one axis or more.
    rows : int
        How many entries are kept.
    """

    def __init__(self, view: TensorView, rows: int) -> None:
        super().__init__(view)
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part; an index is the same in the whole."""
        return (self._rows, *self._view.shape[1:])

    @property
    def size(self) -> int:
        """Number of elements of the part."""
        return prod(self.shape)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop`; in C order those of the part are the first of the whole."""
        return self._view.read(start, min(stop, self.size))

    def permuted(self, axes: tuple[int, ...]) -> LeadingRows:
        """Return the part with its axes in another order, the first of which stays.

        Raises
        ------
        TensorShapeError
            The first axis would move.
        """
        if axes[:1] != (0,):
            raise TensorShapeError(f"axes {list(axes)} move the first axis of a sample, along which it was taken")
        return LeadingRows(self._view.permuted(axes), self._rows)


@dataclass(frozen=True, slots=True)
class Sampled:
    """That a pair is a sample; `total` is how many elements the whole tensor has, where that is known."""

    total: int | None = None


def check_formats(pair: Pair, left: TensorView, right: TensorView) -> None:
    """Refuse samples in a device's memory format: what their first axis was cut from is not known.

    Raises
    ------
    UnknownSampleError
        One of the sides is such a sample.
    """
    for side, ref, view in (("left", pair.left, left), ("right", pair.right, right)):
        if _is_cut(ref, view) and may_be_padded(view.spec.memory_format):
            raise UnknownSampleError(_unknown(side, ref, view, f"in {view.spec.memory_format}"))


def meet_sampled(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView, Sampled | None]:
    """Bring two tensors to one logical shape, as `layouts.axes.meet`, when either may be a sample.

    Returns
    -------
    left, right : TensorView
        Of equal shape.
    Sampled or None
        ``None`` when both are whole.

    Raises
    ------
    TensorShapeError
        The shapes differ, and no sample is the cause.
    UnknownSampleError
        One side is a sample, and the other is not what it can have been taken from.
    """
    is_left_cut, is_right_cut = _is_cut(pair.left, left), _is_cut(pair.right, right)
    if not is_left_cut and not is_right_cut:
        return (*meet(left, right, transform), None)
    cut = {"left": is_left_cut, "right": is_right_cut}
    try:
        met_left, met_right = meet(left, right, transform)
        return met_left, met_right, Sampled() if all(cut.values()) else None
    except TensorShapeError as error:
        return _met_partly(pair, left, right, transform, cut, error)


def _met_partly(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform, cut: dict[str, bool], error: TensorShapeError
) -> tuple[TensorView, TensorView, Sampled]:
    """Cut the longer side to the length of the other, if that is a sample."""
    if left.shape and right.shape:
        shorter = "left" if left.shape[0] < right.shape[0] else "right"
        longer, longer_side = (right, "right") if shorter == "left" else (left, "left")
        part = LeadingRows(longer, min(left.shape[0], right.shape[0]))
        try:
            if cut[shorter]:
                met = meet(left, part, transform) if shorter == "left" else meet(part, right, transform)
                return (*met, Sampled(None if cut[longer_side] else longer.size))
        except TensorShapeError:
            pass
    side, ref, view = ("left", pair.left, left) if cut["left"] else ("right", pair.right, right)
    other = right if cut["left"] else left
    raise UnknownSampleError(_unknown(side, ref, view, f"beside {other.shape}")) from error


def _is_cut(ref: TensorRef, view: TensorView) -> bool:
    """Whether a tensor may be a part: one that is shorter than a sample may be, or longer, is whole."""
    return ref.sample is not None and bool(view.shape) and view.shape[0] == ref.sample


def _unknown(side: str, ref: TensorRef, view: TensorView, where: str) -> str:
    return (
        f"the {side} side is a sample (sample_num {ref.sample}) of shape {view.shape} {where}: the rule by which it "
        "was taken is not known, so nothing was compared"
    )


# -- Bring two opened tensors to one logical shape, by everything that is known of the pair --------------------------


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
