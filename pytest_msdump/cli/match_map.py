"""What ``msdump match --suggest`` prints: entries of ``[[msdump.map]]``, with what speaks for each as a comment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_msdump.escape import terminal_text
from pytest_msdump.localising.suggest import Fit, Suggestion
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.suggesting import Suggested
from pytest_msdump.pipeline.suggestion_entries import what_speaks_for
from pytest_msdump.reporting.map_entry import map_entry_lines

__all__ = ["map_lines", "summary"]


def summary(found: Suggested) -> str:
    """Return one sentence: how many entries there are."""
    entries = sum(one.is_clear for one in found.suggestions)
    ambiguous = len(found.suggestions) - entries
    rest = len(found.right) + sum(one.side == "right" for one in found.unread) - len(found.suggestions)
    return (
        f"{entries} {'entry' if entries == 1 else 'entries'}, {ambiguous} ambiguous (commented out), {rest} right "
        f"{'tensor' if rest == 1 else 'tensors'} without a suggestion"
    )


def map_lines(found: Suggested, types: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a fragment of a suite file.

    Parameters
    ----------
    found : Suggested
        What was found.
    types : frozenset of str
        Names that operators of several types have; these are written ``TYPE.OP``.
    """
    yield f"# suggested by msdump match: {summary(found)}"
    spoken_for = set()
    for one in found.suggestions:
        spoken_for.add(one.right)
        if one.is_clear:
            yield ""
            yield from _entry(found, one, one.fits[0], types)
    for one in found.suggestions:
        if not one.is_clear:
            yield from _ambiguous(found, one, types)
    alone = [found.right[number] for number in range(len(found.right)) if number not in spoken_for]
    if alone:
        yield ""
        yield "# no suggestion for these right tensors:"
        yield from (f"#   {terminal_text(ref.key.address)}" for ref in alone)
    if found.unread:
        yield ""
        yield "# not looked at:"
        yield from (f"#   {terminal_text(f'{one.side}: {one.address}: {one.reason}')}" for one in found.unread)


def _entry(found: Suggested, one: Suggestion, fit: Fit, types: frozenset[str]) -> Iterator[str]:
    meeting = found.meetings[fit.left, fit.right]
    yield f"# {what_speaks_for(one, fit, meeting)}"
    entry: dict[str, Any] = {
        "left": _address(found.left[fit.left], types),
        "right": _address(found.right[fit.right], types),
    }
    if meeting.transform.transpose is not None:
        entry["transpose"] = list(meeting.transform.transpose)
    if meeting.transform.reshape:
        entry["reshape"] = True
    yield from map_entry_lines(entry)


def _ambiguous(found: Suggested, one: Suggestion, types: frozenset[str]) -> Iterator[str]:
    name = terminal_text(found.right[one.right].key.address)
    yield ""
    yield f"# ambiguous: {name} may be {'this one' if len(one.fits) == 1 else f'any of these {len(one.fits)}'}"
    for fit in one.fits:
        yield from (line if line.startswith("#") else f"# {line}" for line in _entry(found, one, fit, types))


def _address(ref: TensorRef, types: frozenset[str]) -> str:
    return ref.key.typed_address if ref.key.op.label in types else ref.key.address
