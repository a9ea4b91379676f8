"""How much each operator amplifies the error of its inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import isfinite

from pytest_msdump.causes.edges import Group, Run
from pytest_msdump.model.record import Record
from pytest_msdump.model.tensor import TensorKey

__all__ = ["Amplification", "amplification"]

_ERROR = "relative_euclidean_distance"


def amplification(output: float | None, inputs: Iterable[float | None]) -> float | None:
    """Return error out over the largest error in; ``None`` if a number is missing, not finite or no input has an error.

    Examples
    --------
    >>> amplification(0.5, [0.001, None, 0.01])
    50.0
    """
    known = [value for value in inputs if value is not None]
    if output is None or not known or not all(map(isfinite, known)) or max(known) <= 0:
        return None
    ratio = output / max(known)
    return ratio if isfinite(ratio) else None


class Amplification:
    """The amplification of each operator of a group: add all records first, then ask.

    An operator's own inputs count where they were compared, else the outputs that feed it. `is_compared` is whether any
    tensor of the group was compared.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        # The errors of each operator's inputs and outputs by slot; of a tensor with several records the largest.
        self._inputs: defaultdict[Run, dict[int, float | None]] = defaultdict(dict)
        self._outputs: defaultdict[Run, dict[int, float | None]] = defaultdict(dict)
        self.is_compared = False

    def add(self, key: TensorKey, record: Record) -> None:
        """Take the error of a tensor of the group."""
        self.is_compared = True
        # Of operators with one name the first stands for all.
        if key.op not in self._group.namesakes:
            slots = (self._outputs if key.io == "output" else self._inputs)[self._group.run_of(key.op)]
            slots[key.slot] = _largest((slots.get(key.slot), _error(record)))

    def of(self, run: Run) -> float | None:
        """Return how much an operator amplifies; ``None`` if that is unknown."""
        outputs = self._outputs.get(run, {})
        # In the dump's order, on which the largest depends where one is NaN.
        slots = dict.fromkeys(ref.key.slot for ref in self._group.refs_of(run) if ref.key.io == "output")
        own = self._inputs.get(run, {})
        feeding = [
            self._outputs.get(entry.producer, {}).get(entry.output)
            for entry in self._group.inputs(run) or ()
            if entry.slot not in own
        ]
        return amplification(_largest(outputs.get(slot) for slot in slots), [*own.values(), *feeding])


def _largest(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), default=None)


def _error(record: Record) -> float | None:
    value = record.metrics.get(_ERROR)
    return float(value) if isinstance(value, (int, float)) else None
