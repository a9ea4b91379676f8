"""Indices that were chosen from values, as argmax and top-k do: which of those that differ are near ties.

A choice that differs is a near tie where the reference's values of both ids are nearer to each other than the error of
these values explains. That is a permission: a rule names the values, which have to be compared, and to pass.

References
----------
INTERFACE 5, near ties. vLLM compares log-probabilities where tokens differ, for the same reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from math import inf, isfinite, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.generation.logits import KEY as LOGITS
from pytest_msdump.capabilities.generation.logits import MEAN, with_softmax
from pytest_msdump.capabilities.generation.part import Part, SetAside, part_of, runs_without, token_at
from pytest_msdump.capabilities.shards.model import TokenRuns
from pytest_msdump.capabilities.shards.views import TokenView
from pytest_msdump.capabilities.tokens.where import lengths_in
from pytest_msdump.core.compare.align import OpenedPair, align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.user_code import NO_EXTRAS
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.layouts.axes import ReshapedView
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import FAILING, Comparison, Limits, Measurement
from pytest_msdump.core.model.record import CHOICES, Record
from pytest_msdump.core.model.tensor import Pair, TensorView
from pytest_msdump.core.text import Message, Parameter

KEY, ROUTES, ROUTES_METRIC = "ties", "routes", "changed_routes"
# How many times the error of the values a margin may be, and how many times their RMS error counts.
_MARGINS, MOST_RMS_ERRORS = 2.0, 4.0
# More near ties than this share of all choices, and than so many, are no ties; nor are so many, most of them to one id.
_MOST_SHARE, MOST, _TO_ONE_FROM = 0.05, 4, 5
_BEHIND = "behind_ties"

Indices = npt.NDArray[np.int64]


def is_near_tie(margin: float, error: float) -> bool:
    """Whether the error of two values explains their margin."""
    return isfinite(margin) and margin <= _MARGINS * error


def are_many(differing: int, choices: int) -> bool:
    """Whether so many near ties of all choices are too many for ties."""
    return differing > MOST and differing > _MOST_SHARE * choices


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
        return is_near_tie(self.margin, self.error)


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
    part = part_of(opened.pair)
    if KEY not in limits.marks or part.values is None:
        return None
    found, _ = near_rows(opened, part, again)
    is_judged = found.code in CHOICES or found.code == _BEHIND
    return found if is_judged else Message("ties_not_judged", {"why": found, "rule": limits.marks[KEY][1]})


def near_rows(opened: OpenedPair, part: Part, again: Callable[[Pair], Record]) -> tuple[Message, SetAside | None]:
    """Return what differs of indices, and, where no more than near ties do, the tokens whose choice is another one."""
    chosen = part.values
    if not isinstance(chosen, Pair):
        return chosen or Message("ties_nothing", {"values": ""}), None
    name = chosen.right.key.op.label
    left, right = opened.seen
    if {DTYPES[view.dtype].kind for view in (left, right)} != {"integer"}:
        return Message("ties_of_no_integers", {"values": name}), None
    fails = again(chosen).verdict.outcome in FAILING
    with ExitStack() as stack:
        values, others = (stack.enter_context(closing(open_view(ref))) for ref in (chosen.left, chosen.right))
        aligned = align(chosen, values, others)
        table = table_of(left.shape, aligned.left.shape)
        if table is None:
            return Message("ties_of_other_shape", {"values": name, "shape": left.shape, "of": aligned.left.shape}), None
        ours, theirs = (np.asarray(view.read(0, view.size)).astype(np.int64) for view in (left, right))
        if min(ours.min(), theirs.min()) < 0 or max(ours.max(), theirs.max()) >= table.width:
            return Message("ties_out_of_range", {"values": name, "n": table.width}), None
        aside = part.aside if part.aside and part.aside.count == table.rows and not part.aside.is_many else None
        rows = frozenset(aside.rows if aside else ())
        found = list(differing(ours, theirs, table, aligned.left, aligned.right, aside=rows))
    if fails and not found:
        return Message("ties_values_fail", {"values": name}), None
    if aside and not found and _differ_in(rows, ours, theirs, table):
        return Message(_BEHIND, aside.said), None
    lengths = lengths_in(opened.pair)
    message = _message(found, table, left.shape, name, fails=fails, lengths=lengths)
    if message.code not in ("near_ties", "same_choices") or table.skipped > 1:
        return message, None
    shape = left.shape[:-1] if table.k > 1 or (len(left.shape) > 1 and left.shape[-1] == 1) else left.shape
    return message, SetAside(shape, tuple(sorted({one.place // table.k for one in found})), (name,))


def _differ_in(rows: Iterable[int], ours: Indices, theirs: Indices, table: Table) -> bool:
    return any(set(ours[row * table.k :][: table.k]) != set(theirs[row * table.k :][: table.k]) for row in rows)


def _message(
    found: list[Choice], table: Table, shape: tuple[int, ...], name: str, *, fails: bool, lengths: tuple[int, ...]
) -> Message:
    total = table.rows * table.k
    if not found:
        return Message("same_choices", {"values": name})
    far = [one for one in found if not one.is_near]
    first = min(far or found, key=lambda one: one.place)
    place = tuple(int(one) for one in np.unravel_index(first.place, shape)) if shape else ()
    parameters: dict[str, Parameter] = {"n": len(found), "elements": total, "values": name, "place": place}
    parameters["token"] = _token(place, table, lengths)
    parameters |= {"left": first.left, "right": first.right, "margin": first.margin, "error": first.error}
    if fails:
        return Message("choices_of_failing", parameters)
    if far:
        return Message("choices_differ", {**parameters, "far": len(far)})
    one, times = Counter(one.left for one in found).most_common(1)[0]
    if len(found) >= _TO_ONE_FROM and times > len(found) / 2:
        return Message("ties_to_one", {**parameters, "times": times, "left": one})
    return Message("ties_too_many" if are_many(len(found), total) else "near_ties", parameters)


def _token(place: tuple[int, ...], table: Table, lengths: tuple[int, ...]) -> Message:
    """Return which sequence, token and choice an index of indices is of."""
    if table.inner != 1:
        return token_at(place, names=())
    if table.skipped > 1:
        # Of the last token of each sequence.
        return token_at(place[:1], names=("sequence",))
    of_token = place[:-1] if table.k > 1 or len(place) > 2 else place
    found = token_at(of_token, lengths=lengths)
    if table.k > 1 and found.code == "of_places":
        parts = found.parameters["parts"]
        return Message("of_places", {"parts": (*parts, Message("of_choice", {"n": place[-1]}))})  # type: ignore[misc]
    return token_at(place) if table.k > 1 else found


def differing(
    ours: Indices, theirs: Indices, table: Table, left: TensorView, right: TensorView, *, aside: frozenset[int]
) -> Iterator[Choice]:
    """Yield the choices that differ by more than their order, but for rows that are set aside.

    Equal values on the right are no other choice.
    """
    limit: float | None = None
    unit = 2 * rounding_unit(left.dtype, right.dtype)
    mine_of, other_of = ours.reshape(-1, table.k), theirs.reshape(-1, table.k)
    for row in np.flatnonzero((mine_of != other_of).any(-1)).tolist():
        if row in aside:
            continue
        mine, other = mine_of[row], other_of[row]
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
            # An id that the reference values more than its own choice was not chosen from these values.
            margin = abs(values[instead][1] - values[number][1])
            margin = margin if isfinite(margin) else inf
            if margin == 0:
                continue
            if limit is None:
                limit = MOST_RMS_ERRORS * _rms_error(left, right, table, aside)
            # Where hardly anything differs, one unit of the last place is no large error.
            most = max(limit, unit * abs(values[instead][1]))
            error = min(most, max(abs(values[one][0] - values[one][1]) for one in (number, instead)))
            place = row * table.k + int(np.flatnonzero(mine == number)[0])
            yield Choice(place, number, instead, margin, error if isfinite(margin) else 0.0)


def _value(view: TensorView, table: Table, row: int, number: int) -> float:
    place = table.offset(row, number)
    return float(to_double(view.read(place, place + 1))[0])


def _rms_error(left: TensorView, right: TensorView, table: Table, aside: frozenset[int]) -> float:
    """Return the RMS of l − r where both are finite, without rows that are set aside."""
    if aside and table.inner == table.skipped == 1:
        runs = TokenRuns(((table.rows,),), runs_without(aside, table.rows))
        left, right = (TokenView([ReshapedView(view, (table.rows, table.width))], runs) for view in (left, right))
    total, count = 0.0, 0
    for block in zip(left.blocks(2**18), right.blocks(2**18), strict=True):
        one, other = map(to_double, block)
        finite = np.isfinite(one) & np.isfinite(other)
        total += float(np.sum((one[finite] - other[finite]) ** 2))
        count += int(finite.sum())
    return (total / count) ** 0.5 if count else 0.0


# -- tokens that are routed to other experts --------------------------------------------------------------------------


def with_routes(
    opened: OpenedPair, measured: Comparison, limits: Limits, _excuse: Callable[..., Message | None]
) -> Comparison:
    """Add the share of tokens that go to other experts, whatever their order, of indices that route tokens."""
    if ROUTES not in limits.marks and ROUTES_METRIC not in limits.by_metric:
        return measured
    left, right = opened.seen
    found = Measurement(ROUTES_METRIC, undefined=Message("no_routes"))
    if left is opened.aligned.left and left.size and {DTYPES[one.dtype].kind for one in (left, right)} == {"integer"}:
        width = left.shape[-1] if len(left.shape) > 1 else 1
        ours, theirs = (np.sort(np.asarray(view.read(0, view.size)).reshape(-1, width)) for view in (left, right))
        changed = (ours != theirs).any(-1)
        found = Measurement(ROUTES_METRIC, float(changed.mean()))
    return replace(measured, measurements={**measured.measurements, ROUTES_METRIC: found})


# -- behind a near tie everything of that token differs for a good reason ---------------------------------------------


def aside_message(opened: OpenedPair, limits: Limits, _again: object) -> Message | None:
    """Return that a failing pair is within its limits but for tokens that are set aside; ``None`` where it is not."""
    part: Part = part_of(opened.pair)
    if part.aside is None or part.values is not None:
        return None
    left, right = opened.seen
    aside: SetAside = part.aside
    shape = _tokens_of(left.shape, aside)
    if shape is None:
        return None
    # Of no tensor less than half is judged.
    if aside.is_many or (len(aside.rows) > MOST and len(aside.rows) > aside.count / 2):
        return Message("behind_too_many_ties", aside.said)
    rest = _without(aside, shape, opened, limits)
    if rest is None:
        return None
    verdict, _ = judge(rest, limits, left_dtype=left.dtype, right_dtype=right.dtype)
    return None if verdict.outcome in FAILING else Message(_BEHIND, aside.said)


def _without(aside: SetAside, shape: tuple[int, ...], opened: OpenedPair, limits: Limits) -> Comparison | None:
    """Measure the tokens that are left; ``None`` where none are."""
    runs = TokenRuns((shape,), runs_without(aside.rows, aside.count))
    if not runs.runs:
        return None
    left, right = (TokenView([view], runs) for view in opened.seen)
    measured = measure(left, right, rtol=limits.rtol, atol=limits.atol, without=dict(limits.without))
    aligned = opened.aligned._replace(left=left, right=right)
    return with_softmax(opened._replace(aligned=aligned), measured, limits, lambda *_: None)


def with_rest_alone(pair: Pair, record: Record) -> Record:
    """Return a record that has what is measured of the tokens that are not set aside."""
    aside, whole = part_of(pair).aside, record.comparison
    if aside is None or aside.is_many or whole is None:
        return record
    marks = {LOGITS: (True, "")} if MEAN in whole.measurements else {}
    with closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
        opened = OpenedPair(pair, left, right, align(pair, left, right), NO_EXTRAS)
        shape = _tokens_of(opened.seen[0].shape, aside)
        rest = None if shape is None else _without(aside, shape, opened, Limits(marks=marks))
    # It stands for the whole tensor.
    return record if rest is None else replace(record, comparison=replace(rest, elements=whole.elements))


def _tokens_of(shape: tuple[int, ...], aside: SetAside) -> tuple[int, ...] | None:
    """Return the leading dimensions of a tensor that count tokens: as they are, or merged; ``None`` without these."""
    return next((tokens for tokens in (aside.shape, (aside.count,)) if shape[: len(tokens)] == tokens), None)
