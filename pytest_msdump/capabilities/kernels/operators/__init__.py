"""What operators compute: one module for each kind of them, and all of them by type."""

from __future__ import annotations

from pytest_msdump.capabilities.kernels.operators import arranging, elementwise, linear, normalising, optimizers
from pytest_msdump.capabilities.kernels.operators.definition import Definition
from pytest_msdump.core.registry import entries


def definitions() -> dict[str, Definition]:
    """Return what operators compute, by type; other packages add to it, and replace."""
    found: dict[str, Definition] = {}
    for module in (elementwise, arranging, linear, normalising, optimizers):
        found |= module.DEFINITIONS
    return found | entries("operators")
