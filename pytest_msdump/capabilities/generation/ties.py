"""Indices that were chosen from values, as argmax and top-k do: which of those that differ are near ties.

A choice that differs is a near tie where the reference's values of both ids are nearer to each other than the error of
these values explains. That is a permission: a rule names the values, which have to be compared, and to pass.

References
----------
INTERFACE 5, near ties. vLLM compares log-probabilities where tokens differ, for the same reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from math import inf, isfinite, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.align import OpenedPair, align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.comparison import FAILING, Limits
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair, TensorView
from pytest_msdump.core.text import Message, Parameter

KEY = "ties"
# How many times the error of the values a margin may be, and how many times their RMS error counts.
_MARGINS, _RMS_ERRORS = 2.0, 4.0
# More near ties than this share of all choices, and than so many, are no ties; nor are so many, most of them to one id.
_MOST_SHARE, _MOST, _TO_ONE_FROM = 0.05, 4, 5

Indices = npt.NDArray[np.int64]


class Choice(NamedTuple):
    """A choice that differs: its place among the indices, the ids of both sides, margin and error of their values."""

    place: int
    left: int
    right: int
    margin: float
    error: float

    @property
    def is_near(self) -> bool:
        """Whether the error explains it."""
        return isfinite(self.margin) and self.margin <= _MARGINS * self.error


class Table(NamedTuple):
    """Where the values of a choice lie: `row` of `rows`, id `i` at ``offset(row, i)``; `k` choices are made in each."""

    rows: int
    width: int
    inner: int
    k: int
    skipped: int

    def offset(self, row: int, number: int) -> int:
        """Return the place of an id's value among all values."""
        row = row * self.skipped + self.skipped - 1
        outer, inner = divmod(row, self.inner)
        return (outer * self.width + number) * self.inner + inner


def table_of(indices: tuple[int, ...], values: tuple[int, ...]) -> Table | None:
    """Return how values of a shape make indices of another one; ``None`` where they do not.

    Indices lack one axis of the values (argmax), have it with length `k` (top-k), or are of the last row of each
    sequence alone. Axes of length 1 do not matter.

    Examples
    --------
    >>> table_of((2, 7), (2, 7, 100))
    Table(rows=14, width=100, inner=1, k=1, skipped=1)
    >>> table_of((2, 7, 4), (14, 100)).k, table_of((2, 1), (2, 7, 100)).skipped
    (4, 7)
    """
    count, size = prod(indices), prod(values)
    if not values or not size or not count:
        return None
    width = values[-1]
    rows = size // width
    if count == rows:
        return Table(rows, width, 1, 1, 1)
    for axis in range(len(values) - 1):
        if values[:axis] + values[axis + 1 :] == indices:
            return Table(count, values[axis], prod(values[axis + 1 :]), 1, 1)
    k = indices[-1] if indices else 1
    if 1 < k <= width and count == rows * k:
        return Table(rows, width, 1, k, 1)
    if len(values) > 2 and count == rows // values[-2]:
        return Table(count, width, 1, 1, values[-2])
    return None


def ties_message(opened: OpenedPair, limits: Limits, again: Callable[[Pair], Record]) -> Message | None:
    """Return what the differing indices of a pair are, where a rule names what they were chosen from."""
    chosen = opened.pair.parts.get("generation")
    if KEY not in limits.marks or chosen is None:
        return None
    if isinstance(chosen, Message):
        return Message("ties_not_judged", {"why": chosen, "rule": limits.marks[KEY][1]})
    name = chosen.right.key.op.label
    left, right = opened.seen
    if {DTYPES[view.dtype].kind for view in (left, right)} != {"integer"}:
        return _not_judged(limits, "ties_of_no_integers", values=name)
    if again(chosen).verdict.outcome in FAILING:
        return _not_judged(limits, "ties_values_fail", values=name)
    with ExitStack() as stack:
        values, others = (stack.enter_context(closing(open_view(ref))) for ref in (chosen.left, chosen.right))
        aligned = align(chosen, values, others)
        table = table_of(left.shape, aligned.left.shape)
        if table is None:
            shapes: dict[str, Parameter] = {"shape": left.shape, "of": aligned.left.shape}
            return _not_judged(limits, "ties_of_other_shape", values=name, **shapes)
        ours, theirs = (np.asarray(view.read(0, view.size)).astype(np.int64) for view in (left, right))
        if min(ours.min(), theirs.min()) < 0 or max(ours.max(), theirs.max()) >= table.width:
            return _not_judged(limits, "ties_out_of_range", values=name, n=table.width)
        found = list(differing(ours, theirs, table, aligned.left, aligned.right))
    return _message(found, table, left.shape, name)


def _not_judged(limits: Limits, code: str, **parameters: Parameter) -> Message:
    return Message("ties_not_judged", {"why": Message(code, parameters), "rule": limits.marks[KEY][1]})


def _message(found: list[Choice], table: Table, shape: tuple[int, ...], name: str) -> Message:
    total = table.rows * table.k
    if not found:
        return Message("same_choices", {"values": name})
    far = [one for one in found if not one.is_near]
    first = min(far or found, key=lambda one: one.place)
    place = tuple(int(one) for one in np.unravel_index(first.place, shape))
    parameters: dict[str, Parameter] = {"n": len(found), "elements": total, "values": name, "place": place}
    parameters |= {"left": first.left, "right": first.right, "margin": first.margin, "error": first.error}
    if far:
        return Message("choices_differ", {**parameters, "far": len(far)})
    one, times = Counter(one.left for one in found).most_common(1)[0]
    if len(found) >= _TO_ONE_FROM and times > len(found) / 2:
        return Message("ties_to_one", {**parameters, "times": times, "left": one})
    is_many = len(found) > _MOST and len(found) > _MOST_SHARE * total
    return Message("ties_too_many" if is_many else "near_ties", parameters)


def differing(ours: Indices, theirs: Indices, table: Table, left: TensorView, right: TensorView) -> Iterator[Choice]:
    """Yield the choices that differ by more than their order; equal values on the right are no other choice."""
    limit: float | None = None
    for row, (mine, other) in enumerate(zip(ours.reshape(-1, table.k), theirs.reshape(-1, table.k), strict=True)):
        gained, lost = ([*{*ids.tolist()} - {*others.tolist()}] for ids, others in ((mine, other), (other, mine)))
        if len(gained) != len(lost) or table.k == table.width:
            # An id twice, which no top-k makes; or all ids, of which only the order says anything.
            gained, lost = mine[mine != other].tolist(), other[mine != other].tolist()
        values = {number: tuple(_value(view, table, row, number) for view in (left, right)) for number in gained + lost}
        if table.k != table.width:
            # The best that was lost against the worst that was gained.
            gained.sort(key=lambda number: (values[number][1], number))
            lost.sort(key=lambda number: (-values[number][1], number))
        for number, instead in zip(gained, lost, strict=True):
            gaps = [values[instead][side] - values[number][side] for side in (0, 1)]
            # The left chose what is not less, and the right what is not less either: else these are other values.
            margin = max(gaps[0], abs(gaps[1])) if all(map(isfinite, gaps)) else inf
            if margin == 0:
                continue
            if limit is None:
                limit = _RMS_ERRORS * _rms_error(left, right)
            error = min(limit, max(abs(values[one][0] - values[one][1]) for one in (number, instead)))
            place = row * table.k + int(np.flatnonzero(mine == number)[0])
            yield Choice(place, number, instead, margin, error if isfinite(margin) else 0.0)


def _value(view: TensorView, table: Table, row: int, number: int) -> float:
    place = table.offset(row, number)
    return float(to_double(view.read(place, place + 1))[0])


def _rms_error(left: TensorView, right: TensorView) -> float:
    """Return the RMS of l − r where both are finite."""
    total, count = 0.0, 0
    for block in zip(left.blocks(2**18), right.blocks(2**18), strict=True):
        one, other = map(to_double, block)
        finite = np.isfinite(one) & np.isfinite(other)
        total += float(np.sum((one[finite] - other[finite]) ** 2))
        count += int(finite.sum())
    return (total / count) ** 0.5 if count else 0.0
