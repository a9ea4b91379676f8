"""What the compiled kernel is told to measure by. Needs no numpy."""

from __future__ import annotations

import math
from typing import TypeAlias

from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["KINDS", "MOST_AXES", "Terms", "terms_of"]

# As `Kind` in sweep.c counts them. Integers come last.
KINDS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")

# Of an index that the kernel tells.
MOST_AXES = 64

# Kinds of both sides, rtol, atol, the left type's largest number, how many worst elements, and whether bits count.
Terms: TypeAlias = tuple[int, int, float, float, float, int, bool]

# Beyond these a tolerance would need what the kernel leaves to numpy: subnormal and infinite ratios.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-100, 1e100


def terms_of(left: str, right: str, kinds: tuple[int, int], tolerance: tuple[float, float], worst: int) -> Terms | None:
    """Return what the kernel is told to measure by; ``None`` where it cannot.

    Parameters
    ----------
    left, right : str
        Logical types of both sides, names of `facts.dtypes`.
    kinds : tuple of int
        What their elements are read as, numbers of `KINDS`.
    tolerance : tuple of float
        Relative and absolute.
    worst : int
        How many of the worst elements are wanted.
    """
    compare_bits = left == right
    if not all(not bound or _LEAST_TOLERANCE <= bound <= _MOST_TOLERANCE for bound in tolerance):
        return None
    if compare_bits and kinds[0] != kinds[1]:
        return None
    maximum = DTYPES[left].maximum
    return (*kinds, *tolerance, math.inf if maximum is None else maximum, worst, compare_bits)
