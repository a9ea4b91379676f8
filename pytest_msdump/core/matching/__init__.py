"""Pairing the tensors of two dumps by names and coordinates: which belong together, and why the rest does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.core.matching.coordinates import Align, parse_align
    from pytest_msdump.core.matching.pairer import pair_dumps
    from pytest_msdump.core.matching.rules import Advice, FusionRules, rules_for
    from pytest_msdump.core.matching.selection import Address, MapEntry, Selection, parse_address

__all__ = [
    "Address",
    "Advice",
    "Align",
    "FusionRules",
    "MapEntry",
    "Selection",
    "pair_dumps",
    "parse_address",
    "parse_align",
    "rules_for",
]

_HOMES = {
    "addresses": ("Address", "MapEntry", "parse_address"),
    "advice": ("Advice", "rules_for"),
    "coordinates": ("Align", "parse_align"),
    "pairer": ("pair_dumps",),
    "rules": ("FusionRules",),
    "selection": ("Selection",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
