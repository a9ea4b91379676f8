"""How details are written: whose titles, and how numbers and coordinates look."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NEWER", "OLDER", "OWN", "Style"]


@dataclass(frozen=True, slots=True)
class Style:
    """One way to write.

    Parameters
    ----------
    operators : tuple of str
        Titles of the left and the right operator in the summary.
    values : tuple of str
        Titles of both values in tables.
    smallest : float
        Below this a number has six decimals and an exponent, so that it does not look like 0.
    integer_tail : str
        What follows an integer.
    tail : str
        What follows a number in a table.
    pads_axes : bool
        Whether coordinates have four places at least, as if every tensor were N C H W.
    with_array : bool
        Whether the left side's values are left behind as ``.npy``.

    References
    ----------
    Ascend "Accuracy Comparison Tool", single-operator comparison, the first releases and 26.2.0.
    """

    operators: tuple[str, str]
    values: tuple[str, str]
    smallest: float
    integer_tail: str
    tail: str
    pads_axes: bool
    with_array: bool


# 5e-7 itself is what '%.6f' prints as 0.000000.
_JUST_VISIBLE = 5.0000001e-7

# Releases up to 26.2.0, the first releases, and the same titles with six significant digits at least.
NEWER = Style(("NPUDump", "GroundTruth"), ("NPUDump", "GroundTruth"), _JUST_VISIBLE, ".000000", "\t", True, True)
OLDER = Style(("LeftOp", "RightOp"), ("Left", "Right"), _JUST_VISIBLE, ".000000", "\t", True, True)
OWN = Style(("LeftOp", "RightOp"), ("Left", "Right"), 0.1, "", "", False, False)
