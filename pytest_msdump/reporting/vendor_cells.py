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
    "number_text",
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

# How values of a type are printed. To format an integer as a float would round it beyond 2^53.
_FORMS = {float: "%.6f", int: "%s.000000", bool: "%s.000000", list: _DEVIATIONS, tuple: _DEVIATIONS}

# The vendor's number counts where there is one.
_NUMBERS = ("metrics", "vendor")

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
    cells = _printed(record, names, as_csv=False).splitlines()
    custom = record.get("custom")
    if not custom:
        return cells
    return [str(custom[name]["value"]) if name in custom else cell for name, cell in zip(names, cells, strict=True)]


def number_text(record: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the same as CSV has it, where no algorithm is a user's own.

    Parameters
    ----------
    record, names
        As for `number_cells`.

    Examples
    --------
    >>> record = {"metrics": {"kl_divergence": 0.5, "standard_deviation": [1, 2, 3, 4]}, "vendor": {}}
    >>> number_text(record, ("kl_divergence", "standard_deviation", "cosine_similarity"))
    '0.500000,"(1.000;2.000),(3.000;4.000)",NaN'
    """
    return _printed(record, names, as_csv=True)


def _printed(record: Mapping[str, Any], names: Sequence[str], *, as_csv: bool) -> str:
    """All numbers in one go, which is far faster: one a line, or as CSV."""
    known = {**record["metrics"], **record["vendor"]}
    values: list[Any] = [known.get(name) for name in names]
    form, deviations, others = _form(as_csv, tuple(map(type, values)))
    for place in others:
        values[place] = _no_number(values[place])
    for place in deviations:
        values[place : place + 1] = [
            _deviation(one) if type(one) is str or -_LEAST < one < _LEAST else one for one in values[place]
        ]
    return form % tuple(values)


@lru_cache(maxsize=256)
def _form(as_csv: bool, types: tuple[type, ...]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """How values of these types are printed; which of them are deviations, the last first; and which are no numbers."""
    places = range(len(types))
    forms = [_FORMS.get(one, "%s") for one in types]
    if as_csv:
        forms = [f'"{form}"' if "," in form else form for form in forms]
    return (
        ("," if as_csv else "\n").join(forms),
        tuple(place for place in reversed(places) if types[place] in (list, tuple)),
        tuple(place for place in places if types[place] not in _FORMS),
    )


def _no_number(value: Any) -> str:
    """What is undefined or not finite."""
    return UNDEFINED if value is None else str(NONFINITE[value])


def _deviation(value: str | float) -> float:
    """What is no number but a name of one, or below a thousandth, which the vendor prints as nought without a sign."""
    return NONFINITE[value] if isinstance(value, str) else 0.0


def shape_cell(shape: Sequence[int] | None) -> str:
    """Return a shape as the vendor writes it.

    Examples
    --------
    >>> shape_cell([2, 19, 5, 7]), shape_cell(None)
    ('[2,19,5,7]', 'NaN')
    """
    return UNDEFINED if shape is None else str([*shape]).replace(" ", "")


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
