"""A difference as lines for a terminal, and as Markdown for a merge request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_msdump.capabilities.diff.difference import KINDS, UNCHANGED, Difference
from pytest_msdump.capabilities.diff.saved import Result
from pytest_msdump.core.escape import markdown_code, terminal_text
from pytest_msdump.core.report.coverage import percent
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.text import ENGLISH, Message, Phrases

_MOST_SHOWN = 10


def counted(found: Difference, say: Phrases) -> str:
    """Return how many tensors became what, those that are as before last."""
    return say.joined(say(f"diff_n_{kind}", n=found.counts[kind]) for kind in (*KINDS, UNCHANGED) if found.counts[kind])


def lines(found: Difference, *, width: int, say: Phrases, most: int | None = _MOST_SHOWN) -> Iterator[str]:
    """Yield what became of the tensors, by kind, the worst first; then what became of the whole."""
    for kind, rows in _by_kind(found):
        yield say("diff_title_" + kind)
        for row in rows[:most]:
            yield from hanging(terminal_text(_sentence(row, say, str)), width, indent=2)
        if len(rows) > len(rows[:most]):
            yield f"  {say('diff_more', n=len(rows) - len(rows[:most]))}"
    for reason in found.reasons:
        yield from hanging(terminal_text(say.of(Message.of_entry(reason))), width)


def verdict(found: Difference, say: Phrases) -> str:
    """Return the outcome in a line."""
    return say("diff_outcome_worse" if found.worse else "diff_outcome_same", counts=counted(found, say))


def about(which: str, one: Result, say: Phrases) -> str:
    """Return what a result is, in a line."""
    counts = say.joined(say(f"count_{key}", n=n) for key, n in one.counts.items() if n and "unmatched" not in key)
    told = {"file": one.name, "counts": counts or "–", "share": percent(one.coverage), "profile": one.profile}
    return terminal_text(say(f"diff_{which}", **told))


def markdown(before: Result, after: Result, found: Difference) -> str:
    """Return it for a merge request; names stand in code spans, so that nothing in them is markup."""
    text = [f"## msdump diff: {'WORSE' if found.worse else 'not worse'}", "", f"{counted(found, ENGLISH)}."]
    text += [f"\n**{markdown_code(ENGLISH.of(Message.of_entry(one)))}**" for one in found.reasons]
    for kind, rows in _by_kind(found):
        text += ["", f"### {ENGLISH('diff_title_' + kind)} ({len(rows)})", "", "| tensor | before | after | why |"]
        text.append("|---|---|---|---|")
        for row in rows[:_MOST_SHOWN]:
            why = "" if row["why"] is None else markdown_code(ENGLISH.of(Message.of_entry(row["why"])))
            text.append(f"| {_name(row, markdown_code)} | {row['before'] or '–'} | {row['after'] or '–'} | {why} |")
        if len(rows) > _MOST_SHOWN:
            text += ["", ENGLISH("diff_more", n=len(rows) - _MOST_SHOWN)]
    text += ["", *(f"- {markdown_code(about(*one, ENGLISH))}" for one in (("before", before), ("after", after))), ""]
    return "\n".join(text)


def _by_kind(found: Difference) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for kind in KINDS:
        if rows := [row for row in found.tensors if row["kind"] == kind]:
            yield kind, rows


def _name(row: Mapping[str, Any], quoted: Callable[[str], str]) -> str:
    at, was = (f" {quoted(text)}" if text else "" for text in (row["at"] and f"[{row['at']}]", row["was"]))
    return quoted(row["left"]) + at + (f" (was{was})" if was else "")


def _sentence(row: Mapping[str, Any], say: Phrases, quoted: Callable[[str], str]) -> str:
    turned = say("diff_turned", before=row["before"] or "–", after=row["after"] or "–")
    text = turned if row["why"] is None else say.joined([turned, say.of(Message.of_entry(row["why"]))], "between_parts")
    return say("after_label", label=_name(row, quoted), text=text)
