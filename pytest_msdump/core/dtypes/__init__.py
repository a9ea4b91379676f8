"""Names of data types, and which of two is the coarser. Needs no numpy."""

from __future__ import annotations

from functools import lru_cache, reduce

from pytest_msdump.core.errors import UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import ALIASES, DTYPES

__all__ = ["canonical", "coarser", "rounding_unit"]

_KINDS = {"opaque": 0, "bool": 1, "integer": 2, "float": 3, "complex": 3}


@lru_cache(maxsize=256)
def canonical(name: str) -> str | None:
    """Return the name that `facts.dtypes` uses for a data type in any spelling and case; ``None`` for unknown ones."""
    lowered = name.strip().lower()
    known = ALIASES.get(lowered, lowered)
    return known if known in DTYPES else None


@lru_cache(maxsize=256)
def coarser(left: str, right: str) -> str:
    """Return the canonical name of the coarser of two data types, by which a pair is judged; of the left one on ties.

    Floats go from float64 (finest) over float32, float16 and bfloat16 to those of 8 bits; a complex type counts as its
    component. A float or complex type is coarser than any integer, a wider integer than a narrower one, any integer
    than bool, and anything than a type without numbers. Raises `UnknownNameError` for an unknown type.
    """
    first, second = _known(left), _known(right)
    return second if _rank(second) > _rank(first) else first


def rounding_unit(*dtypes: str) -> float:
    """Return how large one rounding to the coarsest of these types is, relative to the value.

    It is 0 of types that are exact or unknown. A complex type counts as its component. Floats whose bits become fewer
    with size have one bit behind the first.

    >>> rounding_unit("float32", "float64") == 2.0**-24, rounding_unit("int8")
    (True, 0.0)
    """
    if None in map(canonical, dtypes):
        return 0.0
    dtype = reduce(coarser, dtypes)
    fact = DTYPES[DTYPES[dtype].component or dtype]
    return 0.0 if fact.kind != "float" else 2.0 ** -(1 + (fact.mantissa or 1))


def _known(name: str) -> str:
    found = canonical(name)
    if found is None:
        raise UnknownNameError(f"unknown data type '{name}'; {nearest(name, [*DTYPES, *ALIASES])}")
    return found


def _rank(name: str) -> tuple[int, int]:
    fact = DTYPES[name]
    return _KINDS[fact.kind], fact.bits if fact.coarseness is None else fact.coarseness
