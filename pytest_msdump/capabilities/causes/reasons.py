"""Why an operator has its role, and what speaks for a pair, as sentences of either language."""

from __future__ import annotations

from math import inf
from typing import Any

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.describe import number
from pytest_msdump.core.model.record import ErrorGrowth, Record, RoleReason, Suspect
from pytest_msdump.core.text import ENGLISH, Phrases

_MOST_NAMED = 4
_DIGITS = 3
# Reasons that stand alone; others say what else may be behind it.
_OF_CAUSES = ("first", "passing", "grew", "jump")


def reason_of(record: Record, say: Phrases) -> str:
    """Return why a failing record has its role; a record of another version may only have the English sentence."""
    why = record.role_why
    if why is None or not say.knows(f"why_{why.why}") or (say == ENGLISH and record.role_reason):
        return terminal_text(record.role_reason)
    return terminal_text(reason_text(why, say))


def reason_text(why: RoleReason, say: Phrases = ENGLISH) -> str:
    """Return a reason as a sentence.

    >>> reason_text(RoleReason("unseen", (Suspect("conv3", "not dumped"),)))
    'not all of its inputs were compared: conv3 (not dumped)'
    >>> reason_text(RoleReason("grew", growth=ErrorGrowth(0.25, 10.5, 1, 42.0, "bn2")))
    'an input of it, or an operator before it, fails, too; its error grew × 42, from 0.25 to 10.5 of its limit'
    """
    suspects = say.named((_suspect_text(one, say) for one in why.suspects), _MOST_NAMED)
    grown = _numbers(why.growth, say)
    text = say(f"why_{why.why}", suspects=suspects, **grown)
    parts = [text]
    if why.why in _OF_CAUSES and why.growth is not None:
        if why.growth.start > 0:
            parts.append(say("grown", **grown))
        elif why.why != "passing":
            parts.append(say("grown_from_equal", **grown))
    parts += [say("left_out", names=say.named(why.left_out, _MOST_NAMED))] if why.left_out else []
    if why.why not in _OF_CAUSES:
        return say.joined(parts, "between_clauses")
    parts += [say("or_before", suspects=suspects)] if suspects else []
    parts += [say("given_unseen", names=say.named(why.given, _MOST_NAMED))] if why.given else []
    parts += [say("given_before", names=say.named(why.before, _MOST_NAMED))] if why.before else []
    return say.joined(parts, "between_clauses")


def _numbers(growth: ErrorGrowth | None, say: Phrases) -> dict[str, Any]:
    if growth is None:
        return {"start": "?", "end": "?", "step": "?", "at": "?", "n": 0}
    shown = {name: number(getattr(growth, name), _DIGITS) for name in ("start", "end")}
    return {**shown, "step": step_text(growth.step, say), "at": growth.at, "n": growth.operators}


def step_text(factor: float, say: Phrases = ENGLISH) -> str:
    """Return by how much an error grew, with three digits.

    >>> step_text(28.3018), step_text(290237.0), step_text(float("inf"))
    ('× 28.3', '× 290000', 'from 0')
    """
    if factor == inf:
        return say("step_from_equal")
    short = float(f"{factor:.{_DIGITS}g}")
    return say("step_times", factor=number(int(short) if 100 <= short < 1e6 else factor, _DIGITS))


def _suspect_text(suspect: Suspect, say: Phrases) -> str:
    operator, state, before = suspect
    code = f"state_{state.replace(' ', '_')}"
    name = operator
    if before is not None:
        name = say("operators_before" if before else "operations_before", n=before, operator=operator)
    return say("in_brackets", text=name, aside=say(code) if say.knows(code) else state)
