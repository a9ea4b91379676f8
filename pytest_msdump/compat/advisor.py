"""What the numbers of a whole network hint at, in three lines: ``advisor_summary.txt``.

References
----------
Ascend "Accuracy Comparison Tool", expert advice on network comparison results: fp16 overflow first, then inputs that
differ, then how far the network agrees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

__all__ = ["Advice", "advice"]

_LEAST_COSINE = 0.99
_FAILING = ("fail", "undefined", "error")
_COMPARED = ("pass", "warn", *_FAILING)
_NONE = "NA"
_NOTHING = "nothing was compared, so nothing can be said of it"


class Advice(NamedTuple):
    """`kind` of trouble, `operator` its group in the table (``"NA"`` without one), and what to do."""

    kind: str
    operator: str
    text: str

    @property
    def lines(self) -> str:
        """The file's text."""
        return f"Detection Type: {self.kind}\nOperator Index: {self.operator}\nExpert Advice: {self.text}\n"

    @property
    def is_fine(self) -> bool:
        """Whether something was compared and nothing is wrong with it."""
        return self.operator == _NONE and self.text != _NOTHING


def advice(titles: Sequence[str], rows: Sequence[Sequence[str]], *, inputs: Set[str] = frozenset()) -> Advice:
    """Look through a table for where to begin.

    Parameters
    ----------
    titles, rows : sequence
        From `reporting.vendor_table.vendor_table`, with the columns OverFlow and Verdict. A table of the vendor has no
        verdicts, and one that was written without ``-overflow_detection`` no overflows: then the cosine decides.
    inputs : set of str
        Operators that hold inputs of the network, besides those of type Data.

    Notes
    -----
    A row is bad when its verdict fails, whatever its cosine is: a scalar, a NaN or two shapes that do not fit have no
    cosine that would tell.
    """
    table = [dict(zip(titles, row, strict=True)) for row in rows]
    overflown = next((row for row in table if row.get("OverFlow") == "YES"), None)
    if overflown is not None:
        return Advice(
            "FP16 Overflow",
            overflown["Index"],
            "a float16 tensor of this operator reaches the end of its range; run it in float32, or scale its inputs",
        )
    fed = (row for row in table if row["OpType"] == "Data" or inputs & {*row.get("NPUDump", "").split(",")})
    data = next((row for row in fed if _is_bad(row)), None)
    if data is not None:
        return Advice(
            "Input Inconsistent",
            data["Index"],
            "the two runs were fed differing data; feed both the same, preprocessed alike, and dump again",
        )
    return _global(table)


def _global(table: Sequence[Mapping[str, str]]) -> Advice:
    """How far the network agrees."""
    kind = "Global Consistency"
    compared = [row for row in table if _is_compared(row)]
    if not compared:
        return Advice(kind, _NONE, _NOTHING)
    bad = [row for row in compared if _is_bad(row)]
    if not bad:
        text = "every compared tensor is within its limits; if results still differ, look at what is done with outputs"
        return Advice(kind, _NONE, text)
    index = bad[0]["Index"]
    if compared[-1] is bad[-1]:
        text = "the difference that begins here reaches the end of the network; look into this operator first"
    else:
        text = "the difference that begins here is gone at the end of the network; it matters only if results differ"
    return Advice(kind, index, text)


def _is_compared(row: Mapping[str, str]) -> bool:
    return row["Verdict"] in _COMPARED if "Verdict" in row else _cosine(row) is not None


def _is_bad(row: Mapping[str, str]) -> bool:
    if row.get("Verdict") in _FAILING:
        return True
    cosine = _cosine(row)
    return cosine is not None and cosine < _LEAST_COSINE


def _cosine(row: Mapping[str, str]) -> float | None:
    """The cosine of a row; the vendor's NaN is no number, and also its way to say that nothing was compared."""
    try:
        cosine = float(row.get("CosineSimilarity", "nan"))
    except ValueError:
        return None
    return None if math.isnan(cosine) else cosine
