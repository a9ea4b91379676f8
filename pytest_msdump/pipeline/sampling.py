"""Samples of tensors: the same part of the other side is compared with them, and never taken for the whole.

References
----------
MindSpore "Dump" documentation, `sample_mode` and `sample_num` (Ascend, O0 and O1); its tests: a tensor is cut to
`sample_num` entries of its first axis. MindSpore 2.10 on CPU saves whole tensors whatever these keys say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.memory_formats.axes import meet
from pytest_msdump.memory_formats.stored import is_device_format
from pytest_msdump.model.forwarding import ForwardingView
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.tensor import TensorRef, TensorView

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LeadingRows", "Sampled", "UnknownSampleError", "check_formats", "meet_sampled"]


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
        if _is_cut(ref, view) and is_device_format(view.spec.memory_format):
            raise UnknownSampleError(_unknown(side, ref, view, f"in {view.spec.memory_format}"))


def meet_sampled(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView, Sampled | None]:
    """Bring two tensors to one logical shape, as `memory_formats.axes.meet`, when either may be a sample.

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
