"""Why an operator has its role, as a sentence of either language."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Record, RoleReason, Suspect
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["reason_of", "reason_text"]

_MOST_NAMED = 4


def reason_of(record: Record, say: Phrases) -> str:
    """Return why a failing record has its role; records of an older version have the English sentence alone."""
    why = record.role_why
    if say == ENGLISH or why is None or not say.knows(f"why_{why.why}"):
        return terminal_text(record.role_reason)
    return terminal_text(reason_text(why, say))


def reason_text(why: RoleReason, say: Phrases = ENGLISH) -> str:
    """Say why.

    Parameters
    ----------
    why : RoleReason
        Of a record.
    say : Phrases
        The language.

    Examples
    --------
    >>> reason_text(RoleReason("unseen", (Suspect("conv3", "not dumped"),)))
    'what feeds it was not all compared: conv3 (not dumped)'
    """
    suspects = say.named((_described(one, say) for one in why.suspects), _MOST_NAMED)
    text = say(f"why_{why.why}", suspects=suspects)
    if why.why not in ("first", "passing"):
        return text
    parts = [text]
    parts += [say("or_before", suspects=suspects)] if suspects else []
    parts += [say("given_unseen", names=_names(why.given, say))] if why.given else []
    parts += [say("given_before", names=_names(why.before, say))] if why.before else []
    return say.joined(parts, "between_clauses")


def _names(names: Iterable[str], say: Phrases) -> str:
    return say.named(names, _MOST_NAMED)


def _described(suspect: Suspect, say: Phrases) -> str:
    """An operator, or how many there are before one, and why there is no verdict."""
    operator, state, before = suspect
    message = f"state_{state.replace(' ', '_')}"
    name = operator if before is None else say("operators_before", n=before, operator=operator)
    return say("in_brackets", text=name, aside=say(message) if say.knows(message) else state)
