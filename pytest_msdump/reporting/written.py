"""A record as the text of results.json that it is. Few of a run's records are looked at more deeply than that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from math import isfinite
from typing import Any

from pytest_msdump.reporting.values import dumps, text_json

__all__ = [
    "Layout",
    "WrittenRecord",
    "layout_of",
    "line_of",
    "parsed_together",
    "with_more",
]

# So many records are parsed together: more take no less time, and are held at a time.
_TOGETHER = 64


class Layout:
    """Which keys each section of a record's text has, in their order.

    Parameters
    ----------
    sections : tuple of tuple of str
        No key is there twice.

    Attributes
    ----------
    places : dict of str to int
        The section of each key.
    """

    __slots__ = ("places", "sections")

    def __init__(self, sections: tuple[tuple[str, ...], ...]) -> None:
        self.sections = sections
        self.places = {key: number for number, keys in enumerate(sections) for key in keys}

    def __reduce__(self) -> tuple[Any, ...]:
        return layout_of, (self.sections,)


# Of a run's records nearly all have the same keys.
@lru_cache(maxsize=1024)
def layout_of(sections: tuple[tuple[str, ...], ...]) -> Layout:
    """Return the layout with these sections: one for all records that have it."""
    return Layout(sections)


class WrittenRecord(Mapping[str, Any]):
    """One entry of `tensors`: its text, and what is known without parsing it. The rest is parsed when asked for.

    Parameters
    ----------
    layout : Layout
        Which keys stand where.
    sections : sequence of str
        The record as results.json has it, but for the braces: strict JSON, ASCII, one line. Sections that are the same
        in many records may be the same object.
    told : mapping of str to JSON value
        What is known.

    Notes
    -----
    A record of a few thousand characters takes a tenth of the memory that its dictionaries take. So what was parsed is
    not kept: whoever walks over all records parses of each what is looked at, and holds one at a time.
    """

    __slots__ = ("_layout", "_sections", "_told")

    def __init__(self, layout: Layout, sections: Sequence[str], told: Mapping[str, Any]) -> None:
        self._layout = layout
        self._sections = sections
        self._told = told

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenRecord, (self._layout, self._sections, self._told)

    @property
    def line(self) -> str:
        """The record as results.json has it."""
        return f"{{{', '.join(self._sections)}}}"

    def __getitem__(self, key: str) -> Any:
        told = self._told
        if key in told:
            return told[key]
        return _parsed(self._sections[self._layout.places[key]])[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`: most that are asked for in this way are not there."""
        return self[key] if key in self._layout.places else default

    def __contains__(self, key: object) -> bool:
        return key in self._layout.places

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.places)

    def __len__(self) -> int:
        return len(self._layout.places)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.line})"

    def sections_of(self, keys: tuple[str, ...]) -> list[str]:
        """Return the text that has these keys, but for what is known without parsing it."""
        return [self._sections[number] for number in _places(self._layout, tuple(self._told), keys)]

    def opened(self, parsed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what is known of the record, and what was parsed of it."""
        found = dict(self._told)
        for values in parsed:
            found.update(values)
        return found

    def with_more(self, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the record with further keys after its own; one that it has stays where it was."""
        if not self._layout.places.keys().isdisjoint(more):
            return {**self, **more}
        layout = _longer(self._layout, tuple(more))
        return WrittenRecord(layout, (*self._sections, _members(more)), {**self._told, **more})


@lru_cache(maxsize=1024)
def _longer(layout: Layout, keys: tuple[str, ...]) -> Layout:
    """Return a layout with one more section."""
    return layout_of((*layout.sections, keys))


def _members(more: Mapping[str, Any]) -> str:
    """Return the text of a section."""
    return ", ".join([_member(key, value) for key, value in more.items()])


def _member(key: str, value: Any) -> str:
    # What nearly every record of a network gets is one number, which is written as it prints.
    text = repr(value) if type(value) is float and isfinite(value) else dumps(value)
    return f"{text_json(key)}: {text}"


# As many as one record has, and what is alike in the next ones.
@lru_cache(maxsize=32)
def _parsed(section: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(f"{{{section}}}")
    return found


@lru_cache(maxsize=1024)
def _places(layout: Layout, told: tuple[str, ...], keys: tuple[str, ...]) -> tuple[int, ...]:
    """Return which sections are to be parsed for these keys, each once, in ascending order."""
    wanted = {layout.places[key] for key in keys if key in layout.places and key not in told}
    return tuple(sorted(wanted))


def parsed_together(records: Iterable[Mapping[str, Any]], keys: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield of each record what it has of these keys, and perhaps of others.

    Notes
    -----
    To parse the text of many records at once takes half the time, and what is alike in them is parsed once.
    """
    waiting = iter(records)
    while some := list(islice(waiting, _TOGETHER)):
        written = [_text_of(record) for record in some]
        sections = [() if text is None else text.sections_of(keys) for text in written]
        texts = list(dict.fromkeys(chain.from_iterable(sections)))
        parsed = dict(zip(texts, json.loads(f"[{{{'}, {'.join(texts)}}}]"), strict=True)) if texts else {}
        for record, text, own in zip(some, written, sections, strict=True):
            yield record if text is None else text.opened([parsed[one] for one in own])


def with_more(record: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with further keys."""
    if not more:
        return record
    text = _text_of(record)
    return {**record, **more} if text is None else text.with_more(more)


def line_of(record: Mapping[str, Any]) -> str:
    """Return a record as results.json has it."""
    text = _text_of(record)
    if text is not None:
        return text.line
    return dumps(record if type(record) is dict else dict(record))


def _text_of(record: Mapping[str, Any]) -> WrittenRecord | None:
    """The record, if it is text. To ask `isinstance`, which abstract classes answer in their own way, takes longer."""
    return record if type(record) is WrittenRecord else None
