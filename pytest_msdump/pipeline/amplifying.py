"""How much each operator of a run makes an error grow: one pass over the records, then one over who feeds whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.localising.amplification import amplification
from pytest_msdump.model.tensor import OpKey, TensorKey
from pytest_msdump.pipeline.edges import Group, Run
from pytest_msdump.reporting.values import decode

__all__ = ["Amplified"]

_ERROR = "relative_euclidean_distance"


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
        self._errors: dict[Run, _Errors] = {}
        self._found: dict[Run, float | None] = {}
        self.is_compared = False

    def add(self, key: TensorKey, run: Run, record: Mapping[str, Any]) -> None:
        """Take what was measured of a tensor of the group, and who is its operator; all before anything is asked."""
        self.is_compared = True
        op = key.op
        errors = self._errors.get(run)
        if errors is None:
            errors = self._errors[run] = _Errors(self._group.op_of(run))
        # Of two operators of one name the first stands for it.
        if errors.op is op or errors.op == op:
            errors.add(key, _error(record["metrics"]))

    def of(self, run: Run) -> float | None:
        """How much an operator makes an error grow; ``None`` where nobody can tell."""
        if run not in self._found:
            self._found[run] = self._grown(run)
        return self._found[run]

    def _grown(self, run: Run) -> float | None:
        errors = self._errors.get(run)
        outputs = [] if errors is None else [error for error in self._outputs(errors) if error is not None]
        if errors is None or not outputs:
            return None
        # By input: the operator's own, where it was compared, else that of the output that feeds it.
        known = list(errors.inputs.values())
        for entry in self._group.inputs(run) or ():
            above = self._errors.get(entry.producer)
            if above is not None and entry.slot not in errors.inputs:
                known.append(above.outputs.get(entry.output))
        return amplification(max(outputs), known)

    def _outputs(self, errors: _Errors) -> list[float | None]:
        """In the dump's order, on which the largest depends where one is no number."""
        if len(errors.outputs) < 2 or errors.op is None:
            return list(errors.outputs.values())
        slots = dict.fromkeys(ref.key.slot for ref in self._group.tensors[errors.op] if ref.key.io == "output")
        return [errors.outputs.get(slot) for slot in slots]


class _Errors:
    """The largest relative distance of an operator's tensors by slot, ``None`` without one; not of uncompared ones."""

    __slots__ = ("inputs", "op", "outputs")

    def __init__(self, op: OpKey | None) -> None:
        self.op = op
        self.inputs: dict[int, float | None] = {}
        self.outputs: dict[int, float | None] = {}

    def add(self, key: TensorKey, error: float | None) -> None:
        """Take the error of one record of a tensor, which may have several."""
        errors = self.outputs if key.io == "output" else self.inputs
        known = errors.get(key.slot)
        errors[key.slot] = error if known is None else known if error is None else max(known, error)


def _error(metrics: Mapping[str, Any]) -> float | None:
    if _ERROR not in metrics:
        return None
    value = decode(metrics[_ERROR])
    return float(value) if isinstance(value, (int, float)) else None
