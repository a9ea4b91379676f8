"""Element-wise tolerances by data type, as `torch.testing.assert_close` chooses them when the caller names none.

Two elements agree when |l − r| <= atol + rtol·|r|. Types that are not in the table (integers, bool) must be equal.

References
----------
PyTorch documentation, `torch.testing.assert_close`, table of default tolerances; unchanged from release 1.10 to 2.13.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TOLERANCES", "Tolerance"]


class Tolerance(NamedTuple):
    """Relative part, a share of |right|, and absolute part, in units of the data."""

    rtol: float
    atol: float


TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
}
