"""Who belongs to whom, how each pair was made, and why the rest stays alone. Names and coordinates only, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.matching.addresses import Address, MapEntry, parse_address
    from pytest_msdump.matching.advice import Advice, rules_for
    from pytest_msdump.matching.coordinates import Align, parse_align
    from pytest_msdump.matching.pairer import pair_dumps
    from pytest_msdump.matching.rules import FusionRules
    from pytest_msdump.matching.selection import Selection

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

# Whoever wants one of them need not load the others.
_HOMES = {
    "Address": "pytest_msdump.matching.addresses",
    "Advice": "pytest_msdump.matching.advice",
    "Align": "pytest_msdump.matching.coordinates",
    "FusionRules": "pytest_msdump.matching.rules",
    "MapEntry": "pytest_msdump.matching.addresses",
    "Selection": "pytest_msdump.matching.selection",
    "pair_dumps": "pytest_msdump.matching.pairer",
    "parse_address": "pytest_msdump.matching.addresses",
    "parse_align": "pytest_msdump.matching.coordinates",
    "rules_for": "pytest_msdump.matching.advice",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
