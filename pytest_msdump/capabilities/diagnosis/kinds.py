"""Kinds of drift, one row each. The numbers of a finding stand in its evidence.

If two kinds describe one drift, the more specific one wins: a sign flip is a scale by -1, a shift is a permutation.
"""

from __future__ import annotations

from typing import NamedTuple

# From the weaker to the stronger. Only `high` claims to be right, of all elements that were compared.
CONFIDENCES = ("medium", "high")


class DiagnosisFact(NamedTuple):
    """One row; `within` are the more general kinds that it wins over. What reports call it is text, ``looks_…``."""

    sentence: str
    within: frozenset[str] = frozenset()


_MOVED = frozenset({"permuted", "unrelated"})

DIAGNOSES: dict[str, DiagnosisFact] = {
    "nonfinite": DiagnosisFact("NaN or Inf on one side where the other has a number"),
    "constant": DiagnosisFact(
        "the left is one value everywhere, and the right is not: it was never written, or filled",
        frozenset({"scaled", "offset", "clipped", "flushed_to_zero", "rounded", "unrelated", "padding", "one_slice"}),
    ),
    "sign_flipped": DiagnosisFact("the left is the right with the other sign", frozenset({"scaled"})),
    "scaled": DiagnosisFact("the left is the right times one factor"),
    "offset": DiagnosisFact("the left is the right plus one constant"),
    "rounded": DiagnosisFact(
        "the right, rounded to a coarser grid of numbers, is the left", frozenset({"clipped", "flushed_to_zero"})
    ),
    "clipped": DiagnosisFact("the left stops at a value that the right goes beyond, and equals it inside"),
    "flushed_to_zero": DiagnosisFact("small values of the right are 0 in the left"),
    "one_slice": DiagnosisFact("one channel, row or batch entry differs and the rest agrees"),
    "padding": DiagnosisFact(
        "the left holds padding where the right has values, or was read as if its padding were values",
        frozenset({"shifted_by_one", "one_slice", "permuted", "unrelated"}),
    ),
    "shifted_by_one": DiagnosisFact("each element of the left is its neighbour in the right", _MOVED),
    "transposed": DiagnosisFact("the left is the right with its axes in another order", _MOVED),
    "memory_format": DiagnosisFact("the left is the right, still in a device's memory format", _MOVED),
    "permuted": DiagnosisFact("the left has the values of the right at other places", frozenset({"unrelated"})),
    "other_default": DiagnosisFact(
        "PyTorch and MindSpore do not share a default, and the difference is what that makes",
        frozenset({"scaled", "clipped", "unrelated"}),
    ),
    "unrelated": DiagnosisFact("the two have nothing in common: probably a wrong pair"),
}

_PAGE = "docs/reference/what_differs_by_default.md"

# The code of a sentence → what a type or name of the operator has to match, in any case, and where its row stands.
DEFAULTS: dict[str, tuple[str, str]] = {
    "default_slope": ("leaky_?relu", f"{_PAGE}#activations"),
    "default_gelu": ("gelu", f"{_PAGE}#activations"),
    "default_softmax": ("soft_?(max|min)", f"{_PAGE}#activations"),
    "default_epsilon": ("layer_?norm", f"{_PAGE}#normalisation"),
    "default_momentum": ("(moving|running)_(mean|var)", f"{_PAGE}#normalisation"),
}
