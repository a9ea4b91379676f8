"""The numbers of a pair as they stand in its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, compress
from typing import Any, NamedTuple

from pytest_msdump.model.comparison import Comparison, Nonfinite
from pytest_msdump.reporting.values import dumps, filled, text_json

__all__ = ["SECTIONS", "UNMEASURED", "ComparisonText", "comparison_text"]

# The keys of all sections but the first.
SECTIONS = (("metrics",), ("undefined", "not_applicable"), ("where", "vendor"), ("nonfinite",), ("worst",))

_FIRST_KEYS = ("equal", "finite", "differing", "right_zero_mismatch", "rtol", "atol", "absolute_error_sum")
_WORST = '{"index": %s, "left": %s, "right": %s, "ratio": %s}'

# What is alike in the pairs of a network is written once.
_ALIKE = 1024

_NOTHING = type(None)
# JSON in ASCII has none.
_BETWEEN_SECTIONS = "\n"


class ComparisonText(NamedTuple):
    """The keys of a record that say what was measured, in sections.

    Parameters
    ----------
    keys : tuple of str
        Those of the first section; the others have `SECTIONS`.
    sections : tuple of str
        The text.
    """

    keys: tuple[str, ...]
    sections: tuple[str, ...]


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
)


def comparison_text(comparison: Comparison) -> ComparisonText:
    """Return the keys of a record that say what was measured."""
    kind, values, places = _seen(comparison)
    numbers = (*compress(values, kind.is_number),)
    total = () if comparison.total_elements is None else (comparison.total_elements,)
    near_zero = (comparison.near_zero,) if comparison.near_zero else ()
    text = filled(
        kind.form,
        (
            comparison.elements,
            *total,
            *near_zero,
            comparison.equal,
            comparison.finite,
            comparison.differing,
            comparison.right_zero_mismatch,
            comparison.rtol,
            comparison.atol,
            comparison.absolute_error_sum,
            *numbers,
            *compress(places, kind.is_placed),
            *comparison.vendor.values(),
            *chain.from_iterable(comparison.worst),
        ),
    )
    head, metrics_text, where, found = text.split(_BETWEEN_SECTIONS)
    sections = head, metrics_text, kind.undefined, where, _nonfinite(comparison.nonfinite), found
    return ComparisonText(kind.keys, sections)


def _seen(comparison: Comparison) -> tuple[_Kind, tuple[Any, ...], tuple[Any, ...]]:
    """Return the kind of a comparison, its measurements' values, and their places."""
    names = tuple(comparison.measurements)
    columns = zip(*comparison.measurements.values(), strict=True) if names else ((),) * 5
    _, values, reasons, applies, places = columns
    types = tuple(map(type, values)), tuple(map(type, places))
    more = (
        *(("total_elements",) if comparison.total_elements is not None else ()),
        *(("near_zero",) if comparison.near_zero else ()),
        *(("sampled",) if comparison.sampled else ()),
    )
    kind = _kind(names, reasons, applies, *types, tuple(comparison.vendor), len(comparison.worst), more)
    return kind, values, places


class _Kind(NamedTuple):
    """What all pairs share of which the same metrics have a number.

    Parameters
    ----------
    keys : tuple of str
        Those of the first section.
    form : str
        Its other sections with a ``%s`` for each number and place.
    undefined : str
        The section of the metrics that have no number.
    is_number, is_placed : tuple of bool
        Which measurements have a number, and which a place.
    """

    keys: tuple[str, ...]
    form: str
    undefined: str
    is_number: tuple[bool, ...]
    is_placed: tuple[bool, ...]


@lru_cache(maxsize=_ALIKE)
def _kind(
    names: tuple[str, ...],
    reasons: tuple[str | None, ...],
    applies: tuple[bool, ...],
    types: tuple[type, ...],
    places: tuple[type, ...],
    vendor: tuple[str, ...],
    worst: int,
    more: tuple[str, ...],
) -> _Kind:
    """Return what is known of a pair's numbers without their values."""
    is_number = tuple(one is not _NOTHING for one in types)
    is_placed = tuple(one is not _NOTHING for one in places)
    rows = list(zip(names, reasons, applies, is_number, strict=True))
    undefined = [(name, reason) for name, reason, does, has in rows if does and not (reason is None and has)]
    left_out = [(name, why) for name, why, does, _ in rows if not does]
    keys = ("elements", *more, *_FIRST_KEYS)
    sections = (
        _members(keys).replace('"sampled": %s', '"sampled": true'),
        f'"metrics": {{{_members(compress(names, is_number))}}}',
        f'"where": {{{_members(compress(names, is_placed))}}}, "vendor": {{{_members(vendor)}}}',
        f'"worst": [{", ".join([_WORST] * worst)}]',
    )
    return _Kind(
        keys=keys,
        form=_BETWEEN_SECTIONS.join(sections),
        undefined=f'"undefined": {{{_reasons(undefined)}}}, "not_applicable": {{{_reasons(left_out)}}}',
        is_number=is_number,
        is_placed=is_placed,
    )


def _members(names: Iterable[str]) -> str:
    """Members of an object, with a ``%s`` for each value."""
    return ", ".join([f'"{name}": %s' for name in names])


def _reasons(found: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join([f'"{name}": {text_json(reason)}' for name, reason in found])


@lru_cache(maxsize=_ALIKE)
def _nonfinite(counts: Nonfinite) -> str:
    """How many elements are NaN or Inf, and where the first ones are."""
    return f'"nonfinite": {dumps(counts._asdict())}'
