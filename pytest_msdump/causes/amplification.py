"""How much each operator of a run makes an error grow: one pass over the records, then one over who feeds whom."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from pytest_msdump.causes.edges import Group, Run
from pytest_msdump.model.record import Record
from pytest_msdump.model.tensor import TensorKey

__all__ = ["Amplified", "amplification"]


def amplification(output: float | None, inputs: Iterable[float | None]) -> float | None:
    """Return error out over error in.

    Parameters
    ----------
    output : float, optional
        Relative Euclidean distance of the output, the largest of several.
    inputs : iterable of float, optional
        Of the inputs; ``None`` where one was not compared.

    Returns
    -------
    float or None
        ``None`` where a number is missing or not finite, or no input has an error that could grow.

    Examples
    --------
    >>> amplification(0.5, [0.001, None, 0.01])
    50.0
    """
    known = [value for value in inputs if value is not None]
    if output is None or not known or not all(map(isfinite, known)):
        return None
    largest = max(known)
    if largest <= 0:
        return None
    ratio = output / largest
    # What is not finite stays so.
    return ratio if isfinite(ratio) else None


# -- How much each operator of a run makes an error grow -------------------------------------------------------------


# By slot, the largest relative distance of a tensor, ``None`` without one; not of those that were not compared.
_Slots = dict[int, float | None]
_NONE: _Slots = {}


class Amplified:
    """Amplifications of one group's operators.

    Parameters
    ----------
    group : Group
        Who feeds whom.

    Attributes
    ----------
    is_compared : bool
        Whether anything of the group was.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._inputs: dict[Run, _Slots] = {}
        self._outputs: dict[Run, _Slots] = {}
        self._found: dict[Run, float | None] = {}
        self.is_compared = False

    def add(self, key: TensorKey, run: Run, record: Record) -> None:
        """Take what was measured of a tensor of the group, and who is its operator; all before anything is asked."""
        self.is_compared = True
        # Of two operators of one name the first stands for it.
        if self._group.namesakes and key.op in self._group.namesakes:
            return
        errors = self._outputs if key.io == "output" else self._inputs
        error = _error(record)
        slots = errors.get(run)
        if slots is None:
            errors[run] = {key.slot: error}
            return
        # A tensor may have several records.
        known = slots.get(key.slot)
        slots[key.slot] = error if known is None else known if error is None else max(known, error)

    def of(self, run: Run) -> float | None:
        """How much an operator makes an error grow; ``None`` where nobody can tell."""
        if run not in self._found:
            self._found[run] = self._grown(run)
        return self._found[run]

    def _grown(self, run: Run) -> float | None:
        output = self._largest_output(run)
        if output is None:
            return None
        # By input: the operator's own, where it was compared, else that of the output that feeds it.
        own = self._inputs.get(run, _NONE)
        known = list(own.values())
        for slot, producer, its_output in self._group.inputs(run) or ():
            if slot not in own:
                known.append(self._outputs.get(producer, _NONE).get(its_output))
        return amplification(output, known)

    def _largest_output(self, run: Run) -> float | None:
        slots = self._outputs.get(run, _NONE)
        op = self._group.op_of(run) if len(slots) > 1 else None
        if op is None:
            return next(iter(slots.values()), None)
        # In the dump's order, on which the largest depends where one is no number.
        order = dict.fromkeys(ref.key.slot for ref in self._group.tensors[op] if ref.key.io == "output")
        found = [error for slot in order if (error := slots.get(slot)) is not None]
        return max(found, default=None)


def _error(record: Record) -> float | None:
    measured = None if record.comparison is None else record.comparison.measurements.get("relative_euclidean_distance")
    return float(measured.value) if measured is not None and isinstance(measured.value, (int, float)) else None
