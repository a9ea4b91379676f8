"""Numbers, texts and indexes as results.json holds them: strict JSON in ASCII, in the form of the encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from math import isfinite

from pytest_msdump.model.comparison import Scalar
from pytest_msdump.reporting.values import encode

__all__ = ["PRINTED_AS_JSON", "are_finite", "dumps", "index_json", "number_json", "text_json"]

# Strict JSON in ASCII, so that any byte a file name can hold survives. Nothing in a report holds itself: looking for
# that takes a third of the time.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode

# The types of numbers that print as JSON has them, if they are finite.
PRINTED_AS_JSON = frozenset({float, int})


def number_json(value: Scalar | tuple[float, ...] | None) -> str:
    """Return a number as a report holds it: what `dumps` makes of `values.encode`."""
    # Nearly all are finite floats and plain integers, which are written as they print.
    if type(value) is float and isfinite(value):
        return repr(value)
    if type(value) is int:
        return repr(value)
    return f"[{', '.join(map(number_json, value))}]" if isinstance(value, tuple) else dumps(encode(value))


def are_finite(texts: Iterable[str]) -> bool:
    """Whether floats and integers that were printed are finite."""
    # The letter is in nan and inf, and in nothing else that they print.
    return "n" not in "".join(texts)


def text_json(text: str | None) -> str:
    """Return a text, or nothing, as `dumps` writes it."""
    return "null" if text is None else encode_basestring_ascii(text)


def index_json(index: Iterable[int] | None) -> str:
    """Return an index or a shape, or nothing, as `dumps` writes it."""
    return "null" if index is None else repr(list(index))
