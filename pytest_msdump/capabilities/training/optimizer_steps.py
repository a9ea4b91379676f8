"""What two runs did with their weights, read from their dumps: gradients, and weights before and after each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from math import hypot, prod, sqrt
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.training.optimizer_rules import Array, Steps
from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.matching.kinds import weight_name
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Record

GRADIENT, BEFORE, AFTER, STATE = "gradient", "before", "after", "state"
_OF_RECORDERS = {"grad": GRADIENT, "grad_output": "grad_output", "grad_input": "grad_input", "updated": AFTER}
# So much is read of a run, however large it is: iterations, weights, elements of all weights and of one file.
_MOST_STEPS, _MOST_WEIGHTS, _MOST_ELEMENTS, _MOST_READ = 4, 1024, 4096, 2**20
# A step is made of a few rounded numbers: its error, beside the rounding of the weight that it was added to.
_RELATIVE, _OF_ALL = 2e-5, 5e-6
_UNITS = {"float64": 2**-53, "float16": 2**-11, "bfloat16": 2**-8}


class Kind(NamedTuple):
    """What of a training step a tensor is, and of which weight; both empty for what a layer gives."""

    name: str = ""
    weight: str = ""


def kind_of(record: Record) -> Kind:
    """Return what of a training step a tensor is."""
    label = record.left.key.op.label
    stem, _, own = label.rpartition("/")
    if stem and own in _OF_RECORDERS:
        return Kind(_OF_RECORDERS[own], _named(stem))
    if record.left.op_type == PARAMETER:
        return Kind(BEFORE, _named(label))
    if record.left.op_type == "Optimizer":
        return Kind(STATE, _named(stem))
    known = weight_name(label) or weight_name(record.right.key.op.label)
    if known is None:
        return Kind()
    return Kind(AFTER if not known.state else GRADIENT if known.state == GRADIENT else STATE, known.weight)


def _named(label: str) -> str:
    known = weight_name(label)
    return label if known is None else known.weight


def norms_of(record: Record) -> tuple[float, float] | None:
    """Return the norms of both sides of a pair, from its statistics."""
    spread = record.metrics.get("standard_deviation")
    if not isinstance(spread, Sequence):
        return None
    left, right = (hypot(*spread[at : at + 2]) * sqrt(record.elements or 0) for at in (0, 2))
    return left, right


@dataclass
class Weight:
    """One weight: the numbers of its pairs by kind and iteration, and its values of both sides once they are read."""

    pairs: dict[tuple[str, int], int] = field(default_factory=dict)
    values: dict[tuple[str, int], Array] = field(default_factory=dict)


class Training:
    """The weights of two runs.

    `weights` are by name in the order of the left; `iterations` are those, from the first on, that are looked at.
    """

    def __init__(self, plan: Plan, records: Mapping[int, Record]) -> None:
        self._plan = plan
        self.records = records
        self.weights: dict[str, Weight] = {}
        self.is_known_after = False
        found: defaultdict[str, Weight] = defaultdict(Weight)
        for number in sorted(records, key=lambda one: (records[one].order, one)):
            record, kind = records[number], kind_of(records[number])
            if kind.name in (GRADIENT, BEFORE, AFTER) and record.left.key.io == "output":
                # A later backward pass adds to what is there.
                found[kind.weight].pairs[kind.name, record.left.at.iteration or 0] = number
                self.is_known_after |= kind.name == AFTER
        known = {iteration for one in found.values() for _, iteration in one.pairs}
        self.iterations = sorted(known)[:_MOST_STEPS]
        self.weights = dict(found) if len(found) <= _MOST_WEIGHTS else {}

    def read(self, kinds: Sequence[str]) -> None:
        """Read some elements of all weights, the same ones of each kind and iteration."""
        most = max(_MOST_ELEMENTS // max(len(self.weights), 1), 16)
        for weight in self.weights.values():
            for (kind, iteration), number in weight.pairs.items():
                if kind in kinds and iteration in self.iterations and (kind, iteration) not in weight.values:
                    values = self._read(number, most)
                    if values is not None:
                        weight.values[kind, iteration] = values

    def rows(self, number: int) -> Array | None:
        """Return both sides of a pair as rows of its last axis; ``None`` of a large one."""
        shape = self.records[number].left.shape or ()
        values = self._read(number, _MOST_READ)
        if values is None or not shape or values[0].size != prod(shape):
            return None
        return values.reshape(2, -1, shape[-1])

    def _read(self, number: int, most: int) -> Array | None:
        pair = self._plan.pairing.pairs[number]
        if pair.left.is_unseen or pair.right.is_unseen:
            return None
        with suppress(MsdumpError, OSError, ValueError), ExitStack() as stack:
            left, right = (stack.enter_context(closing(open_view(one))) for one in (pair.left, pair.right))
            views = align(pair, left, right, self._plan.extras.converters)
            size = min(views.left.size, _MOST_READ)
            places = np.linspace(0, size - 1, min(size, most)).astype(int)
            sides = np.stack([to_double(one.read(0, size))[places] for one in views[:2]])
            return sides if size and np.isfinite(sides).all() else None
        return None

    def label(self, name: str) -> str:
        """Return what the left calls a weight."""
        pairs = self.weights[name].pairs
        number = next((number for (kind, _), number in pairs.items() if kind != GRADIENT), next(iter(pairs.values())))
        return self.records[number].left.key.op.label.removesuffix("/updated")

    def norms(self, iteration: int) -> tuple[float, float] | None:
        """Return the norms of all gradients of an iteration, of both sides; ``None`` where one is not known."""
        numbers = [
            one.pairs[GRADIENT, iteration] for one in self.weights.values() if (GRADIENT, iteration) in one.pairs
        ]
        found = [norms_of(self.records[number]) for number in numbers]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        return hypot(*(one[0] for one in known)), hypot(*(one[1] for one in known))


class Moves:
    """The weights that have gradients, and their steps on both sides; `still` do not move on the left alone."""

    def __init__(self, training: Training, *, is_before: bool) -> None:
        training.read((GRADIENT, BEFORE, AFTER))
        self._training, self.label = training, training.label
        self._is_before = is_before
        self.names: list[str] = []
        self.still: list[str] = []
        self._placed: list[tuple[Array, Array, Array]] = []
        self.iterations = training.iterations
        # The last iteration may lack what follows it.
        while self.iterations and not any(self._series(one) for one in training.weights.values()):
            self.iterations = self.iterations[:-1]
        for name, weight in training.weights.items():
            gradients = [training.records[one] for (kind, _), one in weight.pairs.items() if kind == GRADIENT]
            # Gradients that are zero in exact arithmetic are rounding, and Adam makes steps of it.
            if any(one.verdict.outcome == "warn" for one in gradients):
                continue
            series = self._series(weight)
            if series is None:
                moved = self._moved_without_gradient(weight)
                self.still += [name] if moved is not None and not moved[0].any() and moved[1].any() else []
                continue
            self.names.append(name)
            self._placed.append(series)

    @property
    def knows_first(self) -> bool:
        """Whether the weights before the first step are known."""
        return all(np.isfinite(before[:, 0]).all() for _, before, _ in self._placed)

    def _weights(self, weight: Weight) -> tuple[list[Array | None], list[Array | None]]:
        own = weight.values
        before, after = [], []
        for iteration in self.iterations:
            plain = own.get((BEFORE, iteration))
            is_plain_after = plain is not None and not self._is_before
            before.append(None if is_plain_after else plain)
            after.append(own.get((AFTER, iteration), plain if is_plain_after else None))
        starts = [own.get((BEFORE, one)) for one in self._training.iterations[1:]] if self._is_before else []
        starts += [None] * (len(after) - len(starts))
        after = [one if one is not None else later for one, later in zip(after, starts, strict=False)]
        before = [one if one is not None or not at else after[at - 1] for at, one in enumerate(before)]
        return before, after

    def _series(self, weight: Weight) -> tuple[Array, Array, Array] | None:
        """Return gradients, weights before and weights after each step: side × iteration × element."""
        gradients = [weight.values.get((GRADIENT, one)) for one in self.iterations]
        before, after = self._weights(weight)
        if not before:
            return None
        if before[0] is None and after[0] is not None:
            before[0] = np.full_like(after[0], np.nan)
        parts = [*gradients, *before, *after]
        known = [one for one in parts if one is not None]
        if len(known) < len(parts) or len({one.shape for one in known}) > 1:
            return None
        found = [np.stack(known[at : at + len(gradients)], axis=1) for at in range(0, len(parts), len(gradients))]
        return found[0], found[1], found[2]

    def _moved_without_gradient(self, weight: Weight) -> Array | None:
        before, after = self._weights(weight)
        known = [
            (one, other) for one, other in zip(before, after, strict=False) if one is not None and other is not None
        ]
        if not known or any((GRADIENT, one) in weight.values for one in self.iterations):
            return None
        return np.stack([np.abs(other - one).max(axis=1) for one, other in known], axis=1)

    def steps(self, side: int, start: Array | None = None) -> Steps | None:
        """Return the steps of the left (0) or the right (1); `start` are the weights before the first, if not known."""
        if not self._placed:
            return None
        gradients, before, after = (np.concatenate([one[at][side] for one in self._placed], axis=1) for at in range(3))
        owner = np.concatenate([np.full(one[0].shape[2], at) for at, one in enumerate(self._placed)])
        if start is not None:
            before[0] = start
        is_open = not np.isfinite(before[0]).all()
        before[0] = np.where(np.isfinite(before[0]), before[0], after[0])
        moved = after - before
        unit, of_gradient = self._unit((BEFORE, AFTER)), self._unit((GRADIENT,))
        count = np.bincount(owner)
        size = np.sqrt(np.stack([np.bincount(owner, row) / count for row in np.square(moved)]))[:, owner]
        noise = unit * np.maximum(np.abs(before), np.abs(after)) + max(_RELATIVE, 2 * of_gradient) * np.abs(moved)
        noise = noise + max(_OF_ALL, of_gradient) * size + 1e-30
        if is_open:
            noise[0] = np.inf
        norms = [self._training.norms(one) for one in self.iterations]
        total = [np.nan if one is None else one[side] for one in norms]
        return Steps(gradients, before, moved, noise, owner, np.array(total))

    def _unit(self, kinds: Sequence[str]) -> float:
        """Return the rounding unit of the coarsest type of these tensors."""
        numbers = (
            number
            for name in self.names
            for (kind, _), number in self._training.weights[name].pairs.items()
            if kind in kinds
        )
        records = (self._training.records[number] for number in numbers)
        return max(
            (_UNITS.get(str(side.dtype), 2**-24) for one in records for side in (one.left, one.right)), default=0
        )
