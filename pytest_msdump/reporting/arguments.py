"""What a failing tensor's operator was initialised with, in few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.arguments import KernelArguments
from pytest_msdump.model.record import Record
from pytest_msdump.reporting.tables import labelled
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["argument_lines"]

_MOST_LISTED = 12


def argument_lines(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the arguments that differ between the sides, then those of the kernels.

    Parameters
    ----------
    record : Record
        Without `kernel_args` and `differing_arguments` there is nothing to print.
    width : int
        Columns to fill.
    say : Phrases
        The language.
    """
    lines: list[str] = []
    differing = record.differing_arguments
    for one in differing[:_MOST_LISTED]:
        both = say("both_sides", left=_value(one.left, say), right=_value(one.right, say))
        text = say("after_label", label=f"{one.kind} {one.name}", text=both)
        lines += labelled(say("differs"), terminal_text(text), width=width)
    if len(differing) > _MOST_LISTED:
        lines += labelled("", say("more_differ", n=len(differing) - _MOST_LISTED), width=width)
    for text in _saved(record.kernel_args, say):
        lines += labelled(say("arguments"), terminal_text(text), width=width)
    return lines


def _saved(sides: Mapping[str, KernelArguments], say: Phrases) -> Iterator[str]:
    """The arguments of the kernels: of both sides at once where they are the same."""
    texts = {side: _listed(one, say) for side, one in sides.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        yield say("in_brackets", text=next(iter(texts.values())), aside=say("on_both_sides"))
        return
    yield from (say("after_label", label=say(side), text=text) for side, text in texts.items())


def _listed(one: KernelArguments, say: Phrases) -> str:
    if one.note:
        return f"{one.source} {one.note}"
    return say.named((f"{name} {value}" for name, value in one.values.items()), _MOST_LISTED) or say("none")


def _value(value: str | None, say: Phrases) -> str:
    return say("has_none") if value is None else value
