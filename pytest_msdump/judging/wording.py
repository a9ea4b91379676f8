"""Numbers and places as the sentences of a verdict print them."""

from __future__ import annotations

import math

from pytest_msdump.model.verdict import FileRemark

__all__ = ["FILE_REMARKS", "apart", "bound_text", "number", "position", "remark_text"]

# What files hold beside the values that were compared, by code.
FILE_REMARKS = {
    "trailing_bytes": "the {side} file holds {bytes} bytes behind all that its header explains; they were not compared",
    "coarser_values": "the {side} file is {dtype} and all its values are {values}",
    "shape_from_graph": "the {side} file says shape {stored} and the graph of its run {used}, in which it was compared",
}


def remark_text(remark: FileRemark) -> str:
    """Write what is to be said of a file."""
    shown = {name: tuple(value) if isinstance(value, list) else value for name, value in remark.parameters.items()}
    return FILE_REMARKS[remark.code].format_map(shown)


def number(value: float | int) -> str:
    """Write a measured value: six significant digits, very small and very large ones with three and an exponent.

    Parameters
    ----------
    value : float or int
        Integers are written whole.

    Examples
    --------
    >>> number(0.98761234), number(0.00023), number(37), number(float("nan"))
    ('0.987612', '2.3e-04', '37', 'NaN')
    """
    if isinstance(value, int):
        return str(int(value))
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"


def bound_text(bound: float | int) -> str:
    """Write a limit so that typing it back gives the same limit.

    Examples
    --------
    >>> bound_text(0.999), bound_text(1.0), bound_text(1e-7)
    ('0.999', '1', '1e-07')
    """
    # float() first: the repr of NumPy's float64, which is a float too, holds its name.
    return repr(float(bound) if isinstance(bound, float) else bound).removesuffix(".0")


def apart(value: float | int, bound: float | int) -> tuple[str, str]:
    """Write a value and its limit so that the two texts compare as the two numbers do.

    Examples
    --------
    >>> apart(0.98761234, 0.999)
    ('0.987612', '0.999')
    >>> apart(0.99899999999, 0.999)
    ('0.99899999999', '0.999')
    """
    told = bound_text(bound)
    if isinstance(value, int):
        return number(value), told
    for text in (number(value), *(f"{value:.{digits}g}" for digits in range(7, 17))):
        if _order(float(text), bound) == _order(value, bound):
            return text, told
    return bound_text(value), told


def position(index: tuple[int, ...] | None) -> str:
    """Write an index as Python does a list; a 0-d tensor has one element and no index.

    Examples
    --------
    >>> position((0, 48, 3, 7)), position(()), position(None)
    ('[0, 48, 3, 7]', 'its only element', 'an unknown place')
    """
    if index is None:
        return "an unknown place"
    return str(list(index)) if index else "its only element"


def _order(value: float | int, bound: float | int) -> int:
    """-1, 0 or 1 as the value lies below, on or above; NaN counts as on."""
    return int(value > bound) - int(value < bound)
