"""Which steps of two runs are the same, by what they compute, in which order, and on which shapes: reads no tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.matching.kinds import FINISHED_BY, FOLDED_INTO

Shape = tuple[int, ...]
Array = npt.NDArray[np.int64]

# How much speaks for a pair. A name counts less than a kind: a module that is folded into another lends it its name.
_KIND, _SHAPE = 8, 1
_SAME_NAME, _PART_OF_NAME = 3, 1
# Above every sum of the others.
_PAIRED = 10**7
# So many cells take 400 MB; two longer runs are not aligned.
_MOST_CELLS = 50_000_000
_MOST_NAMES = 2_000_000
_TOKENS = re.compile(r"[a-z]+|[0-9]+")


@dataclass(frozen=True)
class AlignedStep:
    """One value of a run: the tensors that hold it, by number, in execution order; the first one is computed."""

    members: tuple[int, ...]
    kinds: frozenset[tuple[str, int]]
    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    inner: AlignedStep | None = field(default=None, compare=False)

    def is_of(self, kind: str) -> bool:
        """Whether it is the first output of an operator of that kind."""
        return (kind, 0) in self.kinds

    @cached_property
    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """Words and numbers of each name, also of the inner step."""
        own = tuple(dict.fromkeys(map(tokens_of, self.names)))
        return own if self.inner is None else (*self.inner.tokens, *own)


@dataclass(frozen=True)
class LayerAlignment:
    """Pairs of steps, by number, that are in every best alignment, and pairs that are in some of them."""

    certain: tuple[tuple[int, int], ...] = ()
    possible: tuple[tuple[int, int], ...] = ()


def fused_steps(
    left: Sequence[AlignedStep], right: Sequence[AlignedStep]
) -> tuple[list[AlignedStep], list[AlignedStep]]:
    """Join steps that one framework computes in several operators, and those that one side has folded into one."""
    ours, theirs = (_joined(steps, FINISHED_BY) for steps in (left, right))
    fold_left, fold_right = (_joined(steps, FOLDED_INTO) for steps in (ours, theirs))
    # A tool that folds normalisations into convolutions does so everywhere.
    if len(theirs) == len(fold_right):
        ours = fold_left
    elif len(ours) == len(fold_left):
        theirs = fold_right
    return ours, theirs


def _joined(steps: Sequence[AlignedStep], after: Mapping[str, str]) -> list[AlignedStep]:
    joined: list[AlignedStep] = []
    before: AlignedStep | None = None
    for step in steps:
        is_followed = before is not None and any(before.is_of(one) and step.is_of(then) for one, then in after.items())
        if before is not None and is_followed and shapes_agree(before.shapes, step.shapes):
            joined[-1] = AlignedStep(step.members, before.kinds, step.names, step.shapes, inner=before)
            before = None
        else:
            joined.append(step)
            before = step
    return joined


def shapes_agree(left: Sequence[Shape], right: Sequence[Shape]) -> bool:
    """Whether two shapes agree but for the order of axes and axes of length 1; an unknown one agrees with any."""
    return not left or not right or not {_long(shape) for shape in left}.isdisjoint(_long(shape) for shape in right)


def _long(shape: Shape) -> Shape:
    return tuple(sorted(length for length in shape if length != 1))


def tokens_of(name: str) -> tuple[str, ...]:
    """Return the words and numbers of a name."""
    return tuple(_TOKENS.findall(name.lower()))


def name_agreement(one: Sequence[str], other: Sequence[str]) -> int:
    """Return 1 if all words of the shorter name are in the longer in order, 3 if little else is in it, or 0."""
    few, many = sorted((one, other), key=len)
    rest = iter(many)
    if not few or not all(token in rest for token in few):
        return 0
    return _SAME_NAME if set(many) <= set(few) | {many[-1]} else _PART_OF_NAME


def align_steps(
    left: Sequence[AlignedStep],
    right: Sequence[AlignedStep],
    *,
    paired: Mapping[int, int],
    preferred: Sequence[tuple[int, int]] = (),
) -> LayerAlignment:
    """Align two runs by kind and shape (Needleman and Wunsch); `paired` are known, `preferred` decide if equal."""
    if len(left) * len(right) > _MOST_CELLS or not left or not right:
        return LayerAlignment()
    scores = _Scores(left, right, paired, preferred)
    behind = np.zeros((len(left) + 1, len(right) + 1), dtype=np.int64)
    for number in range(len(left) - 1, -1, -1):
        behind[number] = _with_row(behind[number + 1, ::-1], (behind[number + 1, 1:] + scores.row(number))[::-1])[::-1]
    best = int(behind[0, 0])
    before = np.zeros(len(right) + 1, dtype=np.int64)
    certain: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for number in range(len(left)):
        row = scores.row(number)
        through = np.flatnonzero((row > 0) & (before[:-1] + row + behind[number + 1, 1:] == best)).tolist()
        may_be_left_out = bool((before + behind[number + 1] == best).any())
        (certain if len(through) == 1 and not may_be_left_out else possible).extend((number, one) for one in through)
        before = _with_row(before, before[:-1] + row)
    is_vague = _vague(left, right, certain, {*preferred, *paired.items()})
    return LayerAlignment(
        tuple(pair for pair in certain if pair not in is_vague and pair[0] not in paired), (*possible, *is_vague)
    )


def _with_row(above: Array, through: Array) -> Array:
    """Return the next row of best sums: a step left out, paired, or a step of the other side left out."""
    row = above.copy()
    np.maximum(row[1:], through, out=row[1:])
    return np.maximum.accumulate(row)


def _vague(
    left: Sequence[AlignedStep],
    right: Sequence[AlignedStep],
    pairs: Sequence[tuple[int, int]],
    known: set[tuple[int, int]],
) -> set[tuple[int, int]]:
    """Return neighbours that compute the same beside each other, so that nothing says in which order: query and key."""
    found: set[tuple[int, int]] = set()
    for pair, after in pairwise(pairs):
        if after == (pair[0] + 1, pair[1] + 1) and all(left[one].is_of("linear") for one, _ in (pair, after)):
            ours, theirs = (
                [steps[number].shapes for number in numbers]
                for steps, numbers in zip((left, right), zip(pair, after, strict=True), strict=True)
            )
            if ours[0] == ours[1] and theirs[0] == theirs[1]:
                found |= {pair, after}
    return {pair for pair in found if pair not in known and names_agreement(left[pair[0]], right[pair[1]]) < _SAME_NAME}


def names_agreement(one: AlignedStep, other: AlignedStep) -> int:
    """Return how well the names of two steps agree, as `name_agreement` does."""
    return max((name_agreement(a, b) for a in one.tokens for b in other.tokens), default=0)


class _Scores:
    """What speaks for each pair; rows are made when they are asked for."""

    def __init__(
        self,
        left: Sequence[AlignedStep],
        right: Sequence[AlignedStep],
        paired: Mapping[int, int],
        preferred: Sequence[tuple[int, int]],
    ) -> None:
        self._width, self._paired, self._taken = len(right), paired, sorted(set(paired.values()))
        # All preferences together are less than one of anything else.
        self._unit = 1 + len(preferred)
        self._preferred: dict[int, list[int]] = {}
        for one, other in preferred:
            self._preferred.setdefault(one, []).append(other)
        sorts: tuple[dict[tuple[object, ...], int], ...] = ({}, {})
        numbers = [
            [sort.setdefault((step.kinds, step.shapes), len(sort)) for step in steps]
            for steps, sort in zip((left, right), sorts, strict=True)
        ]
        firsts = [
            [steps[number.index(sort)] for sort in range(len(known))]
            for steps, number, known in zip((left, right), numbers, sorts, strict=True)
        ]
        self._table = np.array([[_likeness(one, other) for other in firsts[1]] for one in firsts[0]], dtype=np.int64)
        self._left_sorts, self._right_sorts = numbers[0], np.array(numbers[1])
        self._left, self._right = left, right
        self._has_names = len(left) * len(right) <= _MOST_NAMES
        self._rows: dict[int, Array] = {}

    def row(self, number: int) -> Array:
        """Return what speaks for each right step as the partner of a left one; less than 0 for what cannot be."""
        if number in self._rows:
            return self._rows.pop(number)
        if number in self._paired:
            known: Array = np.full(self._width, -1, dtype=np.int64)
            known[self._paired[number]] = _PAIRED * self._unit
            return known
        row: Array = self._table[self._left_sorts[number], self._right_sorts].copy()
        row[self._taken] = -1
        for other in np.flatnonzero(row > 0).tolist() if self._has_names else ():
            row[other] += names_agreement(self._left[number], self._right[other])
        row *= self._unit
        for other in self._preferred.get(number, ()):
            row[other] += row[other] > 0
        # Asked for once more on the way forward.
        self._rows[number] = row
        return row


def _likeness(one: AlignedStep, other: AlignedStep) -> int:
    """Return what kind and shape say for a pair; less than 0 where they speak against it."""
    if one.kinds.isdisjoint(other.kinds):
        return -1
    if not set(one.shapes).isdisjoint(other.shapes):
        return _KIND + 2 * _SHAPE
    if not one.shapes or not other.shapes:
        return _KIND
    if shapes_agree(one.shapes, other.shapes):
        return _KIND + _SHAPE
    sizes = {prod(shape) for shape in one.shapes}, {prod(shape) for shape in other.shapes}
    return _KIND if not sizes[0].isdisjoint(sizes[1]) else -1
