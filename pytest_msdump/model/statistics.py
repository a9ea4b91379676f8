"""What a run saved of a tensor in its place: numbers about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pytest_msdump.facts.statistics import DIGITS
from pytest_msdump.model.tensor import TensorRef

__all__ = ["Statistic", "StatisticRow", "StatisticTables", "is_printed_as"]

Statistic: TypeAlias = float | int | str | None


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """One tensor's row of a table.

    Parameters
    ----------
    ref : TensorRef
        Which tensor it is about, with coordinates and what the row claims of it. `source` is the table, and
        `source.part` the 1-based line in it: there is nothing to open.
    values : mapping of str to number, str or None
        By ids of `facts.statistics.STATISTICS`, those that the table has a column for. ``None`` where the writer had
        nothing to compute with. Integers are exact.
    digits : int
        Significant digits that the writer printed numbers with.
    data_bytes : int, optional
        Size of the tensor in the type it was computed in.
    """

    ref: TensorRef
    values: Mapping[str, Statistic] = field(default_factory=dict)
    digits: int = DIGITS
    data_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StatisticTables:
    """All rows of a dump in the order of `model.ordering.in_order`, those of older runs, and sentences."""

    rows: tuple[StatisticRow, ...] = ()
    older: tuple[StatisticRow, ...] = ()
    notes: tuple[str, ...] = ()


def is_printed_as(printed: Statistic, exact: Statistic, *, digits: int = DIGITS) -> bool:
    """Tell whether a number, rounded to so many significant digits, is the one that a table has.

    Parameters
    ----------
    printed : number, str or None
        As `StatisticRow.values` has it.
    exact : number, str or None
        What the tensor really has.
    digits : int
        `StatisticRow.digits`.

    Returns
    -------
    bool
        NaN equals NaN, and ``None`` only ``None``. A number midway between two printed ones is either.

    Examples
    --------
    >>> is_printed_as(1.99999, 1.9999873), is_printed_as(1.99999, 1.9999973), is_printed_as(1e+06, 1000004)
    (True, False, True)
    """
    if isinstance(printed, str) or isinstance(exact, str) or printed is None or exact is None:
        return printed == exact
    if not (math.isfinite(printed) and math.isfinite(exact)):
        return printed == exact or (math.isnan(printed) and math.isnan(exact))
    if printed == exact:
        return True
    largest = max(abs(printed), abs(exact))
    # Half a unit in the last place, and what float64 itself takes away.
    unit = 10.0 ** (math.floor(math.log10(largest)) - digits + 1)
    return abs(printed - exact) <= 0.5 * unit * (1 + 1e-9) + 4 * math.ulp(float(largest))
