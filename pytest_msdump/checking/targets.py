"""What a tensor is to the checks: a weight, a gradient, an activation, or just a tensor; told by its names alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_msdump.facts.checks import ACTIVATIONS, GRADIENT_SCOPES, OPTIMIZER_STATES, OPTIMIZERS, WEIGHT_ENDINGS
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import OpKey, TensorKey

__all__ = ["is_training", "is_weight", "targets_of"]

_WEIGHT = re.compile(rf"(?:.*[._])?(?:{'|'.join(WEIGHT_ENDINGS)})", re.DOTALL)
_STATE = re.compile(rf"(?:{'|'.join(OPTIMIZER_STATES)})[._].*", re.DOTALL)
_GRADIENT = re.compile(rf"(?:{'|'.join(GRADIENT_SCOPES)})[/_].*", re.DOTALL)


def is_weight(op: OpKey) -> bool:
    """Tell a weight from a network's inputs and an optimizer's states, which are Parameters as well."""
    name = op.label.lower()
    return op.op_type == PARAMETER and bool(_WEIGHT.fullmatch(name)) and not _STATE.fullmatch(name)


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
        ("gradient", key.io == "output" and _is_gradient(op.label)),
        ("activation", key.io == "output" and (op.op_type or "").lower() in ACTIVATIONS),
    )
    return (*(name for name, applies in kinds if applies), "tensor")


def is_training(operators: Iterable[tuple[str, str | None]]) -> bool:
    """Tell by names and types of a run's operators whether weights are expected to change in it."""
    return any(_is_gradient(name) or (kind or "").lower().startswith(OPTIMIZERS) for name, kind in operators)


def _is_gradient(name: str) -> bool:
    return _GRADIENT.fullmatch(name.lower()) is not None
