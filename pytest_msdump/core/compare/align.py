"""Bring two opened tensors to one logical shape, by everything that is known of the pair. Reads no data.

Memory formats are undone first, then come axis orders, `transpose` and `reshape`. A side that is a sample is compared
with the first rows of the other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core.compare.user_code import Extras
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.layouts.axes import ReshapedView, known_axes, meet
from pytest_msdump.core.layouts.blocks import format_name
from pytest_msdump.core.model.tensor import ForwardingView, Pair, TensorRef, TensorView, Transform
from pytest_msdump.core.text import Message

if TYPE_CHECKING:
    import numpy.typing as npt

    from pytest_msdump.core.layouts.converters import Converters

# Loaded by the first tensor that is in a memory format.
_LAYOUT = "pytest_msdump.core.layouts.device_layout"
# By the first pair of which a part is meant.
_PARTS = "pytest_msdump.core.layouts.parts"
_NO_TRANSFORM = Transform()
_PLAIN_ORDERS = frozenset({"NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC"})
# A rule file says one of these; which of them the right side was saved in shows in its shape only.
_CHANNELS_MOVE = {"NHWC": "NCHW", "NCHW": "NHWC"}


class Sampled(NamedTuple):
    """That a pair is a sample; `total` is the number of elements of the whole tensor, if known."""

    total: int | None = None


class AlignedViews(NamedTuple):
    """Two tensors of one shape, `left` and `right`, and how they came to it."""

    left: TensorView
    right: TensorView
    left_logical: TensorView
    right_logical: TensorView
    transform: Transform
    sampled: Sampled | None
    remarks: tuple[Message, ...] = ()

    def first(self, count: int | None) -> tuple[TensorView, TensorView]:
        """Return the first `count` elements of both sides; the sides as they are if they have no more."""
        if count is None or count >= self.left.size:
            return self.left, self.right
        return FirstElements(self.left, count), FirstElements(self.right, count)


class OpenedPair(NamedTuple):
    """A pair whose tensors are open and of one logical shape, as stages see it; `left` and `right` are as opened."""

    pair: Pair
    left: TensorView
    right: TensorView
    aligned: AlignedViews
    extras: Extras

    @property
    def seen(self) -> tuple[TensorView, TensorView]:
        """Both sides in one shape, as far as they are looked at."""
        return self.aligned.first(self.extras.first)


class FirstElements(ForwardingView):
    """The first elements of a tensor in C order, at their places in the whole one (a `model.tensor.TensorView`)."""

    def __init__(self, view: TensorView, count: int) -> None:
        super().__init__(view)
        self._count = count

    @property
    def size(self) -> int:
        """Number of elements that can be read."""
        return min(self._count, self._view.size)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop`, which have to be among the first."""
        return self._view.read(start, min(stop, self.size))

    def permuted(self, axes: tuple[int, ...]) -> FirstElements:
        """Return the first elements of the tensor with its axes in another order."""
        return FirstElements(self._view.permuted(axes), self._count)


class UnknownSampleError(TensorShapeError):
    """A sample that was not taken by the rule that is known: its pair is undefined."""


def align(pair: Pair, left: TensorView, right: TensorView, converters: Converters | None = None) -> AlignedViews:
    """Bring two opened tensors to one logical shape; TensorShapeError where that fails, or a sample is not known."""
    _refuse_device_samples(pair, left, right)
    try:
        return _aligned(pair, left, right, converters)
    except TensorShapeError as error:
        entry = None if converters or isinstance(error, UnknownSampleError) else _fitting_formats(pair, left, right)
        if entry is None:
            raise
        raise TensorShapeError(Message("other_formats_fit", {"why": error.message, "entry": entry})) from error


def _fitting_formats(pair: Pair, left: TensorView, right: TensorView) -> str | None:
    """Return the axis orders under which a tensor in a device's format meets the other side; ``None`` if none does."""
    if not any(may_be_padded(view.spec.memory_format) for view in (left, right)):
        return None
    for left_format, right_format in ((None, "NHWC"), (None, "NCHW"), ("NHWC", "NHWC"), ("NHWC", "NCHW")):
        transform = replace(pair.transform, left_format=left_format, right_format=right_format)
        with suppress(TensorShapeError):
            _aligned(replace(pair, transform=transform), left, right, None)
            sides = (("left_format", left_format), ("right_format", right_format))
            return ", ".join(f'{name} = "{order}"' for name, order in sides if order)
    return None


def _aligned(pair: Pair, left: TensorView, right: TensorView, converters: Converters | None) -> AlignedViews:
    left_logical, right_logical, transform = logical_views(left, right, pair.transform, converters)
    shaped = views_with_graph_shapes(pair, left_logical, right_logical, transform)
    remarks = _remarks(pair, (left, right), (left_logical, right_logical), shaped)
    if transform.piece is not None or transform.crop is not None:
        shaped, cropped = import_module(_PARTS).in_pieces(*shaped, transform)
        remarks = (*remarks, *cropped)
    left_met, right_met, sampled = _meet_sampled(pair, *shaped, transform)
    if type(right_met) is ReshapedView and right_met is not shaped[1]:
        transform = replace(transform, reshape=True)
    return AlignedViews(left_met, right_met, *shaped, transform, sampled, remarks)


def axis_letters(left: TensorView, shape: tuple[int, ...], transform: Transform) -> str | None:
    """Return names of axes, e.g. ``"NCHW"``, or ``None`` if nothing states them."""
    rank = len(shape)
    orders = (transform.left_format, transform.right_format)
    if rank == len("NCHW") and any(orders):
        sides = {(name or "NCHW").upper() for name in orders}
        return sides.pop() if len(sides) == 1 else "NCHW"
    stated, letters = _stated_order(left, transform)
    # If the channels of a side were moved to where the other side has them, nothing states its order.
    return letters if letters is not None and len(letters) == rank and stated == shape else None


def _stated_order(left: TensorView, transform: Transform) -> tuple[tuple[int, ...] | None, str | None]:
    """Shape and axis order of the left side as the dump, or else the rule file, states them."""
    own = (left.spec.memory_format or "").upper()
    if transform.left_logical_format is None and own in ("", "ND", "DEFAULTFORMAT"):
        return None, None
    shape, letters = import_module(_LAYOUT).target(
        left.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape
    )
    if shape is not None:
        return shape, letters
    return (left.shape, own) if own in _PLAIN_ORDERS else (None, None)


_Views = tuple[TensorView, TensorView]


def _remarks(pair: Pair, opened: _Views, logical: _Views, shaped: _Views) -> tuple[Message, ...]:
    """Say what files hold beside values, and where a header has another type or shape than the graph."""
    trailing, contradicted, reshaped = [], [], []
    refs = (pair.left, pair.right)
    for side, ref, view, stored, used in zip(("left", "right"), refs, opened, logical, shaped, strict=True):
        said, held = ref.spec, view.spec
        if held.trailing_bytes:
            trailing.append(Message("trailing_bytes", {"side": side, "bytes": held.trailing_bytes}))
        if said.dtype_from and said.dtype != held.dtype:
            about = {"graph": said.dtype_from, "said": said.dtype, "held": held.dtype}
            contradicted.append(Message("not_as_in_graph", {"side": side, **about}))
        if held.shape_from and import_module(_LAYOUT).target(held, rule_format=None, rule_shape=None)[0] is None:
            held_shape = f"{held.memory_format} {view.shape}"
            about = {"graph": held.shape_from, "said": str(held.logical_shape), "held": held_shape}
            contradicted.append(Message("not_as_in_graph", {"side": side, **about}))
        if stored is not used and stored.shape != used.shape:
            reshaped.append(Message("shape_from_graph", {"side": side, "stored": stored.shape, "used": used.shape}))
    return (*trailing, *contradicted, *reshaped)


def logical_views(
    left: TensorView, right: TensorView, transform: Transform, converters: Converters | None = None
) -> tuple[TensorView, TensorView, Transform]:
    """Undo the memory format of both sides; return them without padding, and the transform that is left to be done."""
    if transform == _NO_TRANSFORM and not converters and _is_plain(left) and _is_plain(right):
        return left, right, transform
    layout = import_module(_LAYOUT)
    right_shape, right_format = layout.target(right.spec, rule_format=None, rule_shape=None)
    if right_shape is None and may_be_padded(right.spec.memory_format):
        # Padded, and nothing of its own says by how much: the tensor it is paired with does, on either side.
        right_shape, right_format = layout.target(left.spec, rule_format=None, rule_shape=None)
    right = layout.logical(right, logical_shape=right_shape, logical_format=right_format, converters=converters)
    shape, axes = layout.target(
        left.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape
    )
    if shape is None and may_be_padded(left.spec.memory_format):
        shape, axes = right.shape, transform.right_format
    left = layout.logical(left, logical_shape=shape, logical_format=axes, converters=converters)
    if axes is None or known_axes(axes) is None or transform.left_format is not None:
        return left, right, transform
    if transform.right_format is not None:
        return left, right, replace(transform, left_format=axes)
    if transform.left_logical_format is None:
        return left, right, transform
    return _with_moved_channels(left, right, axes), right, transform


def _is_plain(view: TensorView) -> bool:
    """Whether a tensor has no memory format, and no other shape than its own."""
    spec = view.spec
    return format_name(spec.memory_format) == "ND" and spec.logical_shape in (None, view.shape)


def _with_moved_channels(left: TensorView, right: TensorView, axes: str) -> TensorView:
    """Move the left side's channels if the right side has them at the other end, and only then fits."""
    other = _CHANNELS_MOVE.get(axes.upper())
    if other is None or len(left.shape) != len(axes) or left.shape == right.shape:
        return left
    order = tuple(axes.upper().index(letter) for letter in other)
    fits = tuple(left.shape[axis] for axis in order) == right.shape
    return left.permuted(order) if fits else left


def views_with_graph_shapes(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView]:
    """Give outputs of view operators the shape from a graph, if their files' own shapes differ and that helps."""
    if left.shape == right.shape or transform.transpose is not None or transform.reshape:
        return left, right
    left_shaped, right_shaped = _with_graph_shape(pair.left, left), _with_graph_shape(pair.right, right)
    for one, other in ((left_shaped, right), (left, right_shaped), (left_shaped, right_shaped)):
        if one.shape == other.shape:
            return one, other
    return left, right


def _with_graph_shape(ref: TensorRef, view: TensorView) -> TensorView:
    shape = ref.spec.logical_shape
    is_view = ref.key.io == "output" and ref.key.op.op_type in VIEW_TYPES
    if shape is None or not is_view or may_be_padded(view.spec.memory_format) or prod(shape) != view.size:
        return view
    return ReshapedView(view, shape)


class LeadingRows(FirstElements):
    """The first entries along the first axis of a tensor of one axis or more (a `model.tensor.TensorView`)."""

    def __init__(self, view: TensorView, rows: int) -> None:
        super().__init__(view, rows * prod(view.shape[1:]))
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part; an index is the same in the whole."""
        return (self._rows, *self._view.shape[1:])

    def permuted(self, axes: tuple[int, ...]) -> LeadingRows:
        """Return the part with its axes in another order, the first of which has to stay."""
        if axes[:1] != (0,):
            raise TensorShapeError(f"axes {list(axes)} move the first axis of a sample, along which it was taken")
        return LeadingRows(self._view.permuted(axes), self._rows)


def _refuse_device_samples(pair: Pair, left: TensorView, right: TensorView) -> None:
    """Refuse samples in a device's memory format: what their first axis was cut from is not known."""
    for side, ref, view in (("left", pair.left, left), ("right", pair.right, right)):
        if _is_cut(ref, view) and may_be_padded(view.spec.memory_format):
            raise UnknownSampleError(_unknown(side, ref, view, f"in {view.spec.memory_format}"))


def _meet_sampled(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView, Sampled | None]:
    """Bring two tensors to one logical shape, either of which may be a sample; then the longer side is cut, too."""
    is_met = left.shape == right.shape and transform == _NO_TRANSFORM
    try:
        met = (left, right) if is_met else meet(left, right, transform)
    except TensorShapeError as error:
        cut = {"left": _is_cut(pair.left, left), "right": _is_cut(pair.right, right)}
        if not any(cut.values()):
            raise
        return _meet_partly(pair, left, right, transform, cut, error)
    return (*met, Sampled() if _is_cut(pair.left, left) and _is_cut(pair.right, right) else None)


def _meet_partly(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform, cut: dict[str, bool], error: TensorShapeError
) -> tuple[TensorView, TensorView, Sampled]:
    """Cut the longer side to the length of the other, if that is a sample."""
    if left.shape and right.shape:
        is_left_shorter = left.shape[0] < right.shape[0]
        shorter, longer = ("left", "right") if is_left_shorter else ("right", "left")
        whole = right if is_left_shorter else left
        part = LeadingRows(whole, min(left.shape[0], right.shape[0]))
        if cut[shorter]:
            with suppress(TensorShapeError):
                met = meet(left, part, transform) if is_left_shorter else meet(part, right, transform)
                return (*met, Sampled(None if cut[longer] else whole.size))
    side, ref, view = ("left", pair.left, left) if cut["left"] else ("right", pair.right, right)
    other = right if cut["left"] else left
    raise UnknownSampleError(_unknown(side, ref, view, f"beside {other.shape}")) from error


def _is_cut(ref: TensorRef, view: TensorView) -> bool:
    """Whether a tensor may be a part: one that is shorter or longer than a sample may be is whole."""
    return ref.sample is not None and bool(view.shape) and view.shape[0] == ref.sample


def _unknown(side: str, ref: TensorRef, view: TensorView, where: str) -> str:
    return (
        f"the {side} side is a sample (sample_num {ref.sample}) of shape {view.shape} {where}: the rule by which it "
        "was taken is not known, so nothing was compared"
    )
