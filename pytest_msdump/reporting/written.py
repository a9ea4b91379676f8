"""A record as the line of results.json that it is. Few of a run's records are looked at more deeply than that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any

from pytest_msdump.model.comparison import Scalar
from pytest_msdump.reporting.values import encode

__all__ = ["MEASURED_KEYS", "WrittenRecord", "dumps", "index_json", "line_of", "number_json", "text_json", "with_more"]

# Strict JSON in ASCII, so that any byte a file name can hold survives. Nothing in a report holds itself: looking for
# that takes a third of the time.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode

# What the record of a pair that was measured holds, when there is nothing out of the ordinary about it.
MEASURED_KEYS = (
    "order",
    "left",
    "right",
    "rank",
    "net",
    "graph",
    "iteration",
    "occurrence",
    "how",
    "by",
    "transform",
    "verdict",
    "elements",
    "equal",
    "finite",
    "differing",
    "right_zero_mismatch",
    "rtol",
    "atol",
    "absolute_error_sum",
    "metrics",
    "undefined",
    "not_applicable",
    "where",
    "vendor",
    "nonfinite",
    "worst",
    "would_pass",
    "findings",
    "checks",
    "judged_as",
    "nan",
    "known_drift",
    "notes",
)
_MEASURED = frozenset(MEASURED_KEYS)


class WrittenRecord(Mapping[str, Any]):
    """One entry of `tensors`: its text, and what everybody asks of every record. The rest is parsed when asked for.

    Parameters
    ----------
    line : str
        The record as results.json has it: strict JSON, ASCII, one line.
    told : mapping of str to JSON value
        What is known without parsing it.
    is_ordinary : bool
        Whether its keys are `MEASURED_KEYS` and those of `told`.

    Notes
    -----
    A record of a few thousand characters takes a fifth of the memory that its dictionaries take, and writing it from
    them takes longer than all else that is done to a small pair after it was measured.
    """

    __slots__ = ("_is_ordinary", "_told", "line")

    def __init__(self, line: str, told: Mapping[str, Any], *, is_ordinary: bool) -> None:
        self.line = line
        self._told = told
        self._is_ordinary = is_ordinary

    def __getitem__(self, key: str) -> Any:
        told = self._told
        if key in told:
            return told[key]
        if self._is_ordinary and key not in _MEASURED:
            raise KeyError(key)
        return self._whole()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._told or key in (_MEASURED if self._is_ordinary else self._whole())

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __repr__(self) -> str:
        return f"WrittenRecord({self.line})"

    def with_more(self, more: Mapping[str, Any]) -> WrittenRecord:
        """Return the record with further keys, none of which it has, after its own."""
        line = f"{self.line[:-1]}, {dumps(more)[1:]}"
        return WrittenRecord(line, {**self._told, **more}, is_ordinary=self._is_ordinary)

    def _whole(self) -> Mapping[str, Any]:
        """All of it, kept from now on: who looks deeper once does so again."""
        if self._is_ordinary:
            self._told, self._is_ordinary = json.loads(self.line), False
        return self._told


def with_more(record: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with further keys."""
    if not more:
        return record
    if isinstance(record, WrittenRecord) and not any(key in record for key in more):
        return record.with_more(more)
    return {**record, **more}


def line_of(record: Mapping[str, Any]) -> str:
    """Return a record as results.json has it."""
    if isinstance(record, WrittenRecord):
        return record.line
    return dumps(record if type(record) is dict else dict(record))


def number_json(value: Scalar | tuple[float, ...] | None) -> str:
    """Return a number as a report holds it: what `dumps` makes of `values.encode`."""
    # Nearly all are finite floats and plain integers, which are written as they print.
    if type(value) is float and isfinite(value):
        return repr(value)
    if type(value) is int:
        return repr(value)
    return f"[{', '.join(map(number_json, value))}]" if isinstance(value, tuple) else dumps(encode(value))


def text_json(text: str | None) -> str:
    """Return a text, or nothing, as `dumps` writes it."""
    return "null" if text is None else encode_basestring_ascii(text)


def index_json(index: tuple[int, ...] | None) -> str:
    """Return an index or a shape, or nothing, as `dumps` writes it."""
    return "null" if index is None else repr(list(index))
