"""The numbers of a pair as they stand in its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.model.comparison import Comparison, Nonfinite, WorstElement
from pytest_msdump.reporting.values import (
    PRINTED_AS_JSON,
    are_finite,
    dumps,
    encode,
    index_json,
    number_json,
    text_json,
)

__all__ = ["SECTIONS", "UNMEASURED", "ComparisonText", "comparison_text"]

# The keys of all sections but the first.
SECTIONS = (("metrics",), ("undefined", "not_applicable"), ("where", "vendor"), ("nonfinite",), ("worst",))

# What is alike in the pairs of a network is written once.
_ALIKE = 1024

_Number = float | int | tuple[float, ...] | None
_NOTHING = type(None)


class ComparisonText(NamedTuple):
    """The keys of a record that say what was measured, in sections.

    Parameters
    ----------
    keys : tuple of str
        Those of the first section; the others have `SECTIONS`.
    sections : tuple of str
        The text.
    metrics : mapping of str to JSON value
        The numbers that the section `metrics` is the text of.
    """

    keys: tuple[str, ...]
    sections: tuple[str, ...]
    metrics: Mapping[str, Any]


# Every key is there, empty, when nothing was measured.
UNMEASURED = ComparisonText(
    ("elements", "equal"),
    (
        '"elements": null, "equal": null',
        '"metrics": {}',
        '"undefined": {}, "not_applicable": {}',
        '"where": {}, "vendor": {}',
        '"nonfinite": {}',
        '"worst": []',
    ),
    {},
)


def comparison_text(comparison: Comparison) -> ComparisonText:
    """Return the keys of a record that say what was measured."""
    names = tuple(comparison.measurements)
    columns = zip(*comparison.measurements.values(), strict=True) if names else ((),) * 5
    _, values, reasons, applies, places = columns
    kind = _kind(names, reasons, applies, tuple(map(type, values)))
    numbers = list(compress(values, kind.is_number))
    texts, encoded = list(map(repr, numbers)), numbers
    if not (kind.is_plain and are_finite(texts)):
        texts, encoded = list(map(number_json, numbers)), list(map(encode, numbers))
    for place, column in kind.several:
        encoded.insert(place, encode(values[column]))
        texts.insert(place, number_json(values[column]))
    where = ", ".join([f'"{name}": {index_json(at)}' for name, at in zip(names, places, strict=True) if at is not None])
    vendor = ", ".join([f'"{name}": {number_json(value)}' for name, value in comparison.vendor.items()])
    total = "" if comparison.total_elements is None else f'"total_elements": {comparison.total_elements}, '
    sampled = '"sampled": true, ' if comparison.sampled else ""
    head = (
        f'"elements": {comparison.elements}, {total}{sampled}"equal": {"true" if comparison.equal else "false"}, '
        f'"finite": {comparison.finite}, "differing": {comparison.differing}, '
        f'"right_zero_mismatch": {comparison.right_zero_mismatch}, "rtol": {number_json(comparison.rtol)}, '
        f'"atol": {number_json(comparison.atol)}, "absolute_error_sum": {number_json(comparison.absolute_error_sum)}'
    )
    sections = (
        head,
        kind.metrics % tuple(texts),
        kind.undefined,
        f'"where": {{{where}}}, "vendor": {{{vendor}}}',
        _nonfinite(comparison.nonfinite),
        f'"worst": [{", ".join([_worst(element) for element in comparison.worst])}]',
    )
    return ComparisonText(_keys(bool(total), bool(sampled)), sections, dict(zip(kind.names, encoded, strict=True)))


@lru_cache(maxsize=4)
def _keys(has_total: bool, is_sampled: bool) -> tuple[str, ...]:
    """The keys of the first section."""
    more = (*(("total_elements",) if has_total else ()), *(("sampled",) if is_sampled else ()))
    rest = ("equal", "finite", "differing", "right_zero_mismatch", "rtol", "atol", "absolute_error_sum")
    return ("elements", *more, *rest)


class _Kind(NamedTuple):
    """What all pairs share of which the same metrics have a number.

    Parameters
    ----------
    is_number : tuple of bool
        Which measurements have one, and no more than one.
    is_plain : bool
        Whether these print as JSON has them, if they are finite.
    several : tuple of (int, int)
        Of measurements with several: the place among `names`, and among all.
    names : tuple of str
        The metrics with numbers.
    metrics : str
        Their section, with a ``%s`` for each.
    undefined : str
        The section of those that have none.
    """

    is_number: tuple[bool, ...]
    is_plain: bool
    several: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    metrics: str
    undefined: str


@lru_cache(maxsize=_ALIKE)
def _kind(
    names: tuple[str, ...], reasons: tuple[str | None, ...], applies: tuple[bool, ...], types: tuple[type, ...]
) -> _Kind:
    """Return what is known of a pair's measurements without their values and places."""
    numbered = [column for column, one in enumerate(types) if one is not _NOTHING]
    rows = list(zip(names, reasons, applies, types, strict=True))
    undefined = [
        (name, reason) for name, reason, does, one in rows if does and not (reason is None and one is not _NOTHING)
    ]
    left_out = [(name, why) for name, why, does, _ in rows if not does]
    template = ", ".join([f'"{names[column]}": %s' for column in numbered])
    is_number = tuple(one is not _NOTHING and one is not tuple for one in types)
    return _Kind(
        is_number=is_number,
        is_plain=PRINTED_AS_JSON.issuperset(compress(types, is_number)),
        several=tuple((place, column) for place, column in enumerate(numbered) if types[column] is tuple),
        names=tuple(names[column] for column in numbered),
        metrics=f'"metrics": {{{template}}}',
        undefined=f'"undefined": {{{_reasons(undefined)}}}, "not_applicable": {{{_reasons(left_out)}}}',
    )


def _reasons(found: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join([f'"{name}": {text_json(reason)}' for name, reason in found])


@lru_cache(maxsize=_ALIKE)
def _nonfinite(counts: Nonfinite) -> str:
    """How many elements are NaN or Inf, and where the first ones are."""
    return f'"nonfinite": {dumps(counts._asdict())}'


def _worst(element: WorstElement) -> str:
    """One of the worst elements."""
    index, left, right, ratio = element
    return (
        f'{{"index": {index_json(index)}, "left": {number_json(left)}, '
        f'"right": {number_json(right)}, "ratio": {number_json(ratio)}}}'
    )
