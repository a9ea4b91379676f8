"""How much an operator makes an error grow: its output's relative distance over the largest of its inputs'."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

__all__ = ["amplification"]


def amplification(output: float | None, inputs: Iterable[float | None]) -> float | None:
    """Return error out over error in.

    Parameters
    ----------
    output : float, optional
        Relative Euclidean distance of the output, the largest of several.
    inputs : iterable of float, optional
        Of the inputs; ``None`` where one was not compared.

    Returns
    -------
    float or None
        ``None`` where a number is missing or not finite, or no input has an error that could grow.

    Examples
    --------
    >>> amplification(0.5, [0.001, None, 0.01])
    50.0
    """
    known = [value for value in inputs if value is not None]
    if output is None or not known or not all(map(isfinite, known)):
        return None
    largest = max(known)
    if largest <= 0:
        return None
    ratio = output / largest
    # What is not finite stays so.
    return ratio if isfinite(ratio) else None
