"""Single cells of the vendor's result tables, as msaccucmp 26.2.0 prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.reporting.values import NONFINITE

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


def number_cells(record: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the algorithms' numbers; where the vendor's definition differs from ours, the vendor's number.

    Parameters
    ----------
    record : mapping
        An entry of `tensors` in results.json.
    names : iterable of str
        Of `ALGORITHMS`, or names of a user's own algorithms, which returned the text to print.
    """
    custom, vendor, metrics = record.get("custom") or {}, record["vendor"], record["metrics"]
    return [
        str(custom[name]["value"]) if name in custom else _number(name, vendor.get(name, metrics.get(name)))
        for name in names
    ]


def _number(name: str, value: Any) -> str:
    if value is None:
        return UNDEFINED
    if name == "standard_deviation":
        left_mean, left_deviation, right_mean, right_deviation = map(_three_decimals, value)
        return f"({left_mean};{left_deviation}),({right_mean};{right_deviation})"
    if isinstance(value, int):
        # Formatting as a float would round integers beyond 2^53.
        return f"{value}.000000"
    return str(NONFINITE[value]) if isinstance(value, str) else f"{value:.6f}"


def _three_decimals(value: Any) -> str:
    """A mean or deviation; the vendor prints what is below a thousandth as nought, without a sign."""
    number = NONFINITE[value] if isinstance(value, str) else value
    return "0.000" if abs(number) < 0.001 else f"{number:.3f}"


def shape_cell(shape: Sequence[int] | None) -> str:
    """Return a shape as the vendor writes it.

    Examples
    --------
    >>> shape_cell([2, 19, 5, 7]), shape_cell(None)
    ('[2,19,5,7]', 'NaN')
    """
    return UNDEFINED if shape is None else f"[{','.join(map(str, shape))}]"


def overflow_cell(dtype: str | None, has_overflow: bool | None) -> str:
    """Return the cell of the column OverFlow; the vendor leaves other data types than float16 alone.

    Parameters
    ----------
    dtype : str, optional
        The left side's.
    has_overflow : bool, optional
        Whether a NaN, an Inf or the data type's largest number is in it; ``None`` when nobody looked.
    """
    if dtype != _OVERFLOW_DTYPE or has_overflow is None:
        return UNDEFINED
    return "YES" if has_overflow else "NO"


def reason_cell(record: Mapping[str, Any], names: Iterable[str]) -> str:
    """Say why cells of a row are empty.

    Parameters
    ----------
    record : mapping
        An entry of `tensors` in results.json.
    names : iterable of str
        The algorithms that have a column.
    """
    if record["verdict"] == "not_run":
        return "not run"
    if record["elements"] is None:
        return ", ".join(finding["sentence"] for finding in record["findings"])
    reasons: dict[str, list[str]] = {}
    custom, undefined, left_out = record.get("custom") or {}, record["undefined"], record["not_applicable"]
    for name in names:
        reason = custom[name]["message"] if name in custom else undefined.get(name) or left_out.get(name)
        if reason:
            reasons.setdefault(reason, []).append(algorithm_title(name))
    return ", ".join(f"{' and '.join(titles)}: {reason}" for reason, titles in reasons.items())
