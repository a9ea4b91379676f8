"""Single cells of the vendor's result tables, as msaccucmp 26.2.0 prints them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.model.record import Record
from pytest_msdump.text import say

__all__ = [
    "ALGORITHMS",
    "NOBODY",
    "UNDEFINED",
    "algorithm_title",
    "number_cells",
    "overflow_cell",
    "reason_cell",
    "shape_cell",
]

UNDEFINED = "NaN"
NOBODY = "*"

# The vendor's ten algorithms in the vendor's order, which is that of `facts.metrics`.
ALGORITHMS = tuple(name for name, fact in METRICS.items() if fact.vendor_title)

# Means and standard deviations are printed as nought below it.
_LEAST = 0.001

# Mean and standard deviation of the left side, and of the right.
_DEVIATIONS = "(%.3f;%.3f),(%.3f;%.3f)"

# The tool looks for overflow in this data type alone.
_OVERFLOW_DTYPE = "float16"


def algorithm_title(name: str) -> str:
    """Return the title of an algorithm's column: the vendor's, or the name that a user gave to one of their own.

    Examples
    --------
    >>> algorithm_title("kl_divergence"), algorithm_title("MyAlg")
    ('KullbackLeiblerDivergence', 'MyAlg')
    """
    fact = METRICS.get(name)
    return fact.vendor_title if fact and fact.vendor_title else name


def number_cells(record: Record, names: Sequence[str]) -> list[str]:
    """Return the algorithms' numbers; where the vendor's definition differs from ours, the vendor's number."""
    known = {} if record.comparison is None else {**record.comparison.values, **record.comparison.vendor}
    return [record.custom[name].value if name in record.custom else _cell(known.get(name)) for name in names]


def _cell(value: float | int | tuple[float, ...] | None) -> str:
    """A number as the vendor prints it."""
    if type(value) is float and isfinite(value):
        return f"{value:.6f}"
    if value is None:
        return UNDEFINED
    if isinstance(value, tuple):
        return _DEVIATIONS % tuple([0.0 if -_LEAST < one < _LEAST else one for one in value])
    # To format an integer as a float would round it beyond 2^53.
    return f"{value}.000000" if isinstance(value, int) else str(value)


def shape_cell(shape: Sequence[int] | None) -> str:
    """Return a shape as the vendor writes it.

    Examples
    --------
    >>> shape_cell([2, 19, 5, 7]), shape_cell(None)
    ('[2,19,5,7]', 'NaN')
    """
    return UNDEFINED if shape is None else str([*shape]).replace(" ", "")


def overflow_cell(dtype: str | None, has_overflow: bool | None) -> str:
    """Return the cell of the column OverFlow; the vendor leaves other data types than float16 alone."""
    if dtype != _OVERFLOW_DTYPE or has_overflow is None:
        return UNDEFINED
    return "YES" if has_overflow else "NO"


def reason_cell(record: Record, names: Sequence[str]) -> str:
    """Say why cells of a row are empty."""
    if not record.was_run:
        return "not run"
    if record.comparison is None:
        return ", ".join(finding.sentence for finding in record.verdict.findings)
    custom, undefined, left_out = record.custom, record.comparison.undefined, record.comparison.not_applicable
    reasons: dict[str, list[str]] = {}
    for name in names:
        why = undefined.get(name) or left_out.get(name)
        reason = custom[name].message if name in custom else "" if why is None else say(why)
        if reason:
            reasons.setdefault(reason, []).append(algorithm_title(name))
    return ", ".join(f"{' and '.join(titles)}: {reason}" for reason, titles in reasons.items())
