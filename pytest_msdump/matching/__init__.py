"""Who belongs to whom, how each pair was made, and why the rest stays alone. Names and coordinates only, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.matching.addresses import Address, parse_address
    from pytest_msdump.matching.advice import Advice, rules_for
    from pytest_msdump.matching.align import Align, parse_align
    from pytest_msdump.matching.entries import MapEntry
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
    "Address": "addresses",
    "Advice": "advice",
    "Align": "align",
    "FusionRules": "rules",
    "MapEntry": "entries",
    "Selection": "selection",
    "pair_dumps": "pairer",
    "parse_address": "addresses",
    "parse_align": "align",
    "rules_for": "advice",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
