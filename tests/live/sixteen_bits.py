"""A product, an activation and a product in float16, by numpy alone: what a run in 16 bits dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from dump_builder import write_reference

_DRAWN = np.random.default_rng(4)
X, W1, W2 = (_DRAWN.standard_normal(shape).astype("f4") for shape in ((60, 12), (12, 40), (40, 30)))


def _rounded(values: Any) -> Any:
    return values.astype("f2").astype("f8")


def write_run(folder: Path, slope: float) -> None:
    """Dump ``first``, ``relu`` and ``second`` of a run whose weights and inputs were rounded first.

    Of negative numbers the activation leaves `slope`, which is 0 in the reference.
    """
    first = _rounded(_rounded(X) @ _rounded(W1))
    relu = _rounded(np.where(first > 0, first, slope * first))
    second = _rounded(relu @ _rounded(W2))
    write_reference(folder, {"first": first.astype("f2"), "relu": relu.astype("f2"), "second": second.astype("f2")})
