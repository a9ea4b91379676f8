"""Pairs that evidence speaks for, until all of one kind are known: then their shapes decide which are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.matching.leaving import Leaving
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.matching.transforms import Axes, Shape, fitting_orders, transform_between
from pytest_msdump.core.model.tensor import STRUCTURE
from pytest_msdump.core.text import Message


class _Candidate(NamedTuple):
    """A left and a right tensor, what speaks for them, and their shapes as far as they are known."""

    left: int
    right: int
    by: str
    name: str
    shapes: tuple[Shape | None, Shape | None]
    is_viewed: bool


class Candidates:
    """Candidates among two sides, and why other tensors are in none.

    `reopened` is the code of a reason that an earlier step gave and that does not hold for this one.
    """

    def __init__(self, state: PairingState, request: PairingRequest, *, reopened: str = "") -> None:
        self._state, self._request, self._reopened = state, request, reopened
        self._waiting: dict[tuple[int, int], _Candidate] = {}
        self._reasons: dict[tuple[str, int], Message] = {}
        # By number of axes, the orders that are the only ones to fit some pair.
        self._moved: defaultdict[int, set[Axes | None]] = defaultdict(set)

    def take(self, ours: Leaving, theirs: Leaving, by: str, *, name: str = "", among_namesakes: bool = False) -> None:
        """Take what leaves two layers as candidates, slot by slot; with a `name`, that is said where they do not fit.

        `among_namesakes`: what speaks for them tells layers of one name apart.
        """
        state = self._state
        for slot, left in ours.tensors.items():
            right = theirs.tensors.get(slot)
            if right is None or (left, right) in self._waiting:
                continue
            if all(
                self._is_open(side, ref, among_namesakes) for side, ref in ((state.left, left), (state.right, right))
            ):
                shapes = self._shape(state.left, left, ours), self._shape(state.right, right, theirs)
                # MindSpore on CPU writes what views put out with the shape of their input.
                types = (state.left.op_with(left).key.op_type, state.right.op_with(right).key.op_type)
                is_viewed = bool(ours.shape or theirs.shape or VIEW_TYPES.intersection(types))
                self._waiting[left, right] = _Candidate(left, right, by, name, shapes, is_viewed)
                self._note_order(*shapes)

    def say_why(self, side: str, refs: Iterable[int], why: Message) -> None:
        """Note why tensors get no partner, where nothing else is known."""
        for ref in refs:
            self._reasons.setdefault((side, ref), why)

    def add(self) -> None:
        """Add the candidates whose shapes agree up to layout and axes of length 1, and reasons for the rest."""
        state = self._state
        for one in self._waiting.values():
            transform = transform_between(
                one.shapes, self._request.formats, is_viewed=one.is_viewed, name=one.name, moved=self._moved
            )
            if isinstance(transform, Message):
                if one.name:
                    self.say_why("left", [one.left], transform)
                    self.say_why("right", [one.right], transform)
                continue
            state.add(FoundPair(one.left, one.right, STRUCTURE, one.by, transform))
            for key in (("left", one.left), ("right", one.right)):
                state.withheld.pop(key, None)
        for (name, ref), why in self._reasons.items():
            if self._is_open(state.left if name == "left" else state.right, ref, among_namesakes=False):
                state.withheld[name, ref] = why
        self._waiting.clear()
        self._reasons.clear()

    def _is_open(self, side: Side, ref: int, among_namesakes: bool) -> bool:
        is_ambiguous = not among_namesakes and (side.name, side.op_of[ref]) in self._state.ambiguous
        why = self._state.withheld.get((side.name, ref))
        is_withheld = why is not None and why.code != self._reopened
        return not is_ambiguous and not is_withheld and not self._state.is_paired(side.name, ref)

    def _shape(self, side: Side, ref: int, leaving: Leaving) -> Shape | None:
        return leaving.shape or self._request.shape_of(side.refs[ref])

    def _note_order(self, left: Shape | None, right: Shape | None) -> None:
        if left is not None and right is not None:
            fitting = fitting_orders(left, right)
            if len(fitting) == 1:
                self._moved[len(left)].add(fitting[0])
