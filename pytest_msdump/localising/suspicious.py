"""Whether a pair looks wrong: another tensor of a side fits far better. Pure; reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FAR", "FREE", "TAKEN", "Better", "Rival", "better_fits"]

# What became of a tensor: its pairs are far off, it has none, or a pair of it holds or nobody knows.
FAR, FREE, TAKEN = "far", "free", "taken"

_MOST_LISTED = 3


@dataclass(frozen=True)
class Rival:
    """Another tensor that fits.

    Parameters
    ----------
    number : int
        Which one.
    apart : float
        The relative difference of the values.
    standing : str
        `FAR`, `FREE` or `TAKEN`.
    effort : int
        How much has to be done to bring it to the other shape: 0 for nothing, 1 to transpose, 2 to reshape.
    """

    number: int
    apart: float
    standing: str
    effort: int = 0


@dataclass(frozen=True)
class Better:
    """What fits better than the partner: one, where that is clear, or those of which it may be one.

    `doubt` is why it is not clear: ``"several"`` fit, they hold too few ``"values"`` to tell them by, or the
    ``"names"`` of the pair speak for it. Empty where it is clear.
    """

    rivals: tuple[Rival, ...] = ()
    doubt: str = ""


def better_fits(rivals: Sequence[Rival], *, is_telling: bool, was_asked_for: bool) -> Better:
    """Tell what a tensor of a pair that is far off should have met.

    Parameters
    ----------
    rivals : sequence of Rival
        Every other tensor whose values it has.
    is_telling : bool
        Whether a tensor with such values is hardly another one.
    was_asked_for : bool
        Whether a person named this pair. What names or a rule file pair is more likely right, and the operator passes
        on what it was given.

    Returns
    -------
    Better
        Empty where nothing else has these values, or only tensors whose own pairs hold: then the operator repeats what
        another one put out, which is its fault and not the pair's.

    Examples
    --------
    >>> better_fits([Rival(3, 1e-7, FAR)], is_telling=True, was_asked_for=False)
    Better(rivals=(Rival(number=3, apart=1e-07, standing='far', effort=0),), doubt='')
    """
    least = min((rival.effort for rival in rivals), default=0)
    nearest = [rival for rival in rivals if rival.effort == least]
    loose = sorted((one for one in nearest if one.standing != TAKEN), key=lambda one: (one.apart, one.number))
    if not loose:
        return Better()
    doubts = {
        "several": len(nearest) > 1,
        "values": not is_telling,
        "names": loose[0].standing == FREE and not was_asked_for,
    }
    return Better(tuple(loose[:_MOST_LISTED]), next((doubt for doubt, holds in doubts.items() if holds), ""))
