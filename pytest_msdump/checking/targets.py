"""What a tensor is to the checks: a weight, a gradient, an activation, or just a tensor; told by its names alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_msdump.facts.checks import (
    ACTIVATIONS,
    AUXILIARY_OUTPUTS,
    GRADIENT_SCOPES,
    OPTIMIZER_STATES,
    OPTIMIZERS,
    SHIFT_ENDINGS,
    WEIGHT_ENDINGS,
)
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import OpKey, TensorKey

__all__ = ["is_auxiliary", "is_gradient", "is_optimizer", "is_shift", "is_training", "is_weight", "targets_of"]

_WEIGHT = re.compile(rf"(?:.*[._])?(?:{'|'.join(WEIGHT_ENDINGS)})", re.DOTALL)
_SHIFT = re.compile(rf"(?:.*[._])?(?:{'|'.join(SHIFT_ENDINGS)})", re.DOTALL)
_STATE = re.compile(rf"(?:{'|'.join(OPTIMIZER_STATES)})[._].*", re.DOTALL)
_GRADIENT = re.compile(rf"(?:{'|'.join(GRADIENT_SCOPES)})[/_].*", re.DOTALL)


def is_weight(op: OpKey) -> bool:
    """Tell a weight from a network's inputs and an optimizer's states, which are Parameters as well."""
    name = op.label.lower()
    return op.op_type == PARAMETER and bool(_WEIGHT.fullmatch(name)) and not _STATE.fullmatch(name)


def is_shift(op: OpKey) -> bool:
    """Tell weights that are added from those that are multiplied."""
    return is_weight(op) and _SHIFT.fullmatch(op.label.lower()) is not None


def is_auxiliary(key: TensorKey) -> bool:
    """Tell an output that an operator keeps for its own gradient, and may leave at 0."""
    first = AUXILIARY_OUTPUTS.get((key.op.op_type or "").lower())
    return first is not None and key.io == "output" and key.slot >= first


def targets_of(key: TensorKey) -> tuple[str, ...]:
    """List what checks a tensor is a target of, the most specific first; the last is always ``"tensor"``.

    Examples
    --------
    >>> targets_of(TensorKey(OpKey("fc1_bias", op_type="Parameter"), "output", 0))
    ('weight', 'tensor')
    """
    op = key.op
    kinds = (
        ("weight", is_weight(op)),
        ("gradient", key.io == "output" and is_gradient(op.label)),
        ("activation", key.io == "output" and (op.op_type or "").lower() in ACTIVATIONS),
    )
    return (*(name for name, applies in kinds if applies), "tensor")


def is_training(operators: Iterable[tuple[str, str | None]]) -> bool:
    """Tell by names and types of a run's operators whether weights are expected to change in it."""
    return any(is_gradient(name) or is_optimizer(kind) for name, kind in operators)


def is_optimizer(op_type: str | None) -> bool:
    """Tell by its type whether an operator changes weights."""
    return (op_type or "").lower().startswith(OPTIMIZERS)


def is_gradient(name: str) -> bool:
    """Tell by its name whether an operator computes gradients."""
    return _GRADIENT.fullmatch(name.lower()) is not None
