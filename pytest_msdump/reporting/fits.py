"""How well two tensors fit that were not paired, in a few words."""

from __future__ import annotations

from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["fit_text"]


def fit_text(apart: float, shape: str, by: str = "", say: Phrases = ENGLISH) -> str:
    """Return what speaks for two tensors.

    Parameters
    ----------
    apart : float
        How far their values are apart, over the norm of the right.
    shape : str
        ``"same"``, ``"transposed"`` or ``"reshaped"``.
    by : str
        Where something else decided: ``"names alone"``, ``"names"`` or ``"order"``.
    say : Phrases
        The language.

    Examples
    --------
    >>> fit_text(2.1e-8, "transposed"), fit_text(0, "same", "order")[:30]
    ('values agree to 2e-08, axes of the right in another order', 'values are equal, same shape; ')
    """
    shape = say(f"shape_{shape}")
    if by == "names alone":
        return say("fits_by_name", shape=shape, apart=f"{apart:.2g}")
    text = say("fits_equal", shape=shape) if apart == 0 else say("fits", shape=shape, apart=f"{apart:.0e}")
    return say.joined([text, say(f"decided_{by}")], "between_clauses") if by in ("names", "order") else text
