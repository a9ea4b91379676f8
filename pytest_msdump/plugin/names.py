"""Which items a typed name means: ``FILE::X`` with another name of the operator, or with a tensor's address."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import TensorKey, mangle
from pytest_msdump.pipeline.planning import Plan

__all__ = ["item_names"]


def item_names(plan: Plan, typed: str) -> list[str]:
    """Return the names of the items that `typed` means; empty when it is no name of any.

    An item's own name means itself, and its name without the coordinates all of them, as pytest has it.
    """
    groups = plan.groups
    own = [group.name for group in groups if typed in (group.name, group.name.split("[")[0])]
    if own or typed == "coverage":
        return [typed]
    wanted = typed.replace(":_:", "::")
    return [
        group.name for group in groups if any(wanted in _names(plan.pairing.pairs[number]) for number in group.pairs)
    ]


def _names(pair: Pair) -> set[str]:
    """Every way to write a pair: true and mangled name and address of either side."""
    return {*_of_side(pair.left.key), *_of_side(pair.right.key)}


def _of_side(key: TensorKey) -> Iterator[str]:
    for name in (key.op.label, key.op.name, mangle(key.op.label)):
        yield name
        yield f"{name}:{key.io}:{key.slot}"
        if key.op.op_type:
            yield f"{key.op.op_type}.{name}"
