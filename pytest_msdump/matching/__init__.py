"""Pairing the tensors of two dumps by names and coordinates: which belong together, and why the rest does not."""

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
