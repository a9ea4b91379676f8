"""Numbers as results.json holds them: NaN and Inf are strings, exact integers stay, complex ones are [re, im]."""

from __future__ import annotations

import json
import math
from math import isfinite
from numbers import Integral
from typing import Any

from pytest_msdump.model.comparison import Scalar

__all__ = [
    "NONFINITE",
    "decode",
    "dumps",
    "encode",
]

NONFINITE: dict[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

# Strict JSON in ASCII, so that any byte of a file name survives. Looking for circles takes a third of the time.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode


def encode(value: Scalar | Integral | tuple[float, ...] | None) -> Any:
    """Return `value` as strict JSON can hold it.

    Examples
    --------
    >>> encode(float("-inf")), encode(2**60 + 1), encode(complex(0.5, float("nan")))
    ('-Infinity', 1152921504606846977, [0.5, 'NaN'])
    """
    if type(value) is float and isfinite(value):
        return value
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, complex):
        return [encode(value.real), encode(value.imag)]
    if isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode(value: Any) -> Scalar:
    """Return the number that `encode` wrote; a list is a complex number.

    Raises
    ------
    ValueError
        It is no number, and none of the three strings.
    """
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) and value in NONFINITE:
        return NONFINITE[value]
    if isinstance(value, (list, tuple)) and len(value) == 2:
        real, imaginary = (decode(part) for part in value)
        if not isinstance(real, complex) and not isinstance(imaginary, complex):
            return complex(real, imaginary)
    raise ValueError(f"expected a number, found {value!r:.60}")
