"""Single cells of the vendor's result tables, as msaccucmp 26.2.0 prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
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


def number_cells(record: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the algorithms' numbers; where the vendor's definition differs from ours, the vendor's number.

    Parameters
    ----------
    record : mapping
        An entry of `tensors` in results.json.
    names : sequence of str
        Of `ALGORITHMS`, or names of a user's own algorithms, which returned the text to print.
    """
    metrics = {**record["metrics"], **record["vendor"]}
    values = list(map(metrics.get, names))
    lines, others = _lines(tuple(map(type, values)))
    for place in others:
        values[place] = _no_number(values[place])
    cells = (lines % tuple(values)).splitlines()
    custom = record.get("custom")
    if not custom:
        return cells
    return [str(custom[name]["value"]) if name in custom else cell for name, cell in zip(names, cells, strict=True)]


@lru_cache(maxsize=256)
def _lines(types: tuple[type, ...]) -> tuple[str, tuple[int, ...]]:
    """How numbers of these types are printed, one a line, and which are none. To print all in one go is far faster."""
    # Formatting an integer as a float would round it beyond 2^53.
    forms = {float: "%.6f\n", int: "%s.000000\n", bool: "%s.000000\n"}
    others = tuple(place for place, one in enumerate(types) if one not in forms)
    return "".join([forms.get(one, "%s\n") for one in types]), others


def _no_number(value: Any) -> str:
    """What is undefined or not finite; and both sides' means and deviations."""
    if value is None:
        return UNDEFINED
    if isinstance(value, str):
        return str(NONFINITE[value])
    numbers = [NONFINITE[one] if isinstance(one, str) else one for one in value]
    # The vendor prints what is below a thousandth as nought, without a sign.
    return _DEVIATIONS % tuple([0.0 if abs(one) < 0.001 else one for one in numbers])


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


def reason_cell(record: Mapping[str, Any], names: Sequence[str]) -> str:
    """Say why cells of a row are empty.

    Parameters
    ----------
    record : mapping
        An entry of `tensors` in results.json.
    names : sequence of str
        The algorithms that have a column.
    """
    if record["verdict"] == "not_run":
        return "not run"
    if record["elements"] is None:
        return ", ".join(finding["sentence"] for finding in record["findings"])
    custom, undefined, left_out = record.get("custom") or {}, record["undefined"], record["not_applicable"]
    if not custom and (undefined.keys() | left_out.keys()).isdisjoint(names):
        return ""
    reasons: dict[str, list[str]] = {}
    for name in names:
        reason = custom[name]["message"] if name in custom else undefined.get(name) or left_out.get(name)
        if reason:
            reasons.setdefault(reason, []).append(algorithm_title(name))
    return ", ".join(f"{' and '.join(titles)}: {reason}" for reason, titles in reasons.items())
