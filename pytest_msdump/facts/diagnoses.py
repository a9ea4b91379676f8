"""Kinds of drift, one row each. The numbers of a finding stand in its evidence.

If two kinds describe one drift, the more specific one wins: a sign flip is a scale by -1, a shift is a permutation.
"""

from __future__ import annotations

from typing import NamedTuple

# From the weaker to the stronger. Only `high` claims to be right, of all elements that were compared.
CONFIDENCES = ("medium", "high")


class DiagnosisFact(NamedTuple):
    """One row: `title` is what a report calls it, `within` the more general kinds that it wins over."""

    title: str
    sentence: str
    within: frozenset[str] = frozenset()


_MOVED = frozenset({"permuted", "unrelated"})

DIAGNOSES: dict[str, DiagnosisFact] = {
    "nonfinite": DiagnosisFact("NaN or Inf", "NaN or Inf on one side where the other has a number"),
    "constant": DiagnosisFact(
        "constant",
        "the left is one value everywhere, and the right is not: it was never written, or filled",
        frozenset({"scaled", "offset", "clipped", "flushed_to_zero", "rounded", "unrelated", "padding", "one_slice"}),
    ),
    "sign_flipped": DiagnosisFact("sign-flipped", "the left is the right with the other sign", frozenset({"scaled"})),
    "scaled": DiagnosisFact("scaled", "the left is the right times one factor"),
    "offset": DiagnosisFact("shifted by a constant", "the left is the right plus one constant"),
    "rounded": DiagnosisFact(
        "rounded to a lower precision",
        "the right, rounded to a coarser grid of numbers, is the left",
        frozenset({"clipped", "flushed_to_zero"}),
    ),
    "clipped": DiagnosisFact("clipped", "the left stops at a value that the right goes beyond, and equals it inside"),
    "flushed_to_zero": DiagnosisFact("flushed to zero", "small values of the right are 0 in the left"),
    "one_slice": DiagnosisFact("one slice wrong", "one channel, row or batch entry differs and the rest agrees"),
    "padding": DiagnosisFact(
        "padding included",
        "the left holds padding where the right has values, or was read as if its padding were values",
        frozenset({"shifted_by_one", "one_slice", "permuted", "unrelated"}),
    ),
    "shifted_by_one": DiagnosisFact("shifted by one", "each element of the left is its neighbour in the right", _MOVED),
    "transposed": DiagnosisFact("transposed", "the left is the right with its axes in another order", _MOVED),
    "memory_format": DiagnosisFact(
        "other memory format", "the left is the right, still in a device's memory format", _MOVED
    ),
    "permuted": DiagnosisFact(
        "permuted", "the left has the values of the right at other places", frozenset({"unrelated"})
    ),
    "unrelated": DiagnosisFact("unrelated", "the two have nothing in common: probably a wrong pair"),
}
