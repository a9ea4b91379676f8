"""Why an operator has its role, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["listed", "reason"]

_MOST_NAMED = 4

_UNKNOWN: Mapping[str, str] = {
    "unseen": "what feeds it was not all compared: {suspects}",
    "shared": "others that fail are fed by the same, which was not compared: {suspects}",
    "circle": "operators feed one another and all fail: {suspects}",
    "order": "no graph tells who feeds whom; it follows a failure, and may be of its own",
    "feeds": "no graph tells what feeds it",
    "earlier": "what it was given may come from an earlier part of the run, which fails, too",
    "ranks": "it takes values from other ranks, and some of those fail",
    "input": "its input fails, and what feeds it has no verdict of its own: {suspects}",
    "written": "operators of this step write to it: {suspects}",
}


def reason(
    role: str, why: str, *, suspects: Sequence[str] = (), given: Sequence[str] = (), by_order: bool = False
) -> str:
    """Say why.

    Parameters
    ----------
    role, why : str
        As `localising.frontier.Role` has them.
    suspects, given : sequence of str
        Operators with what is known of each, as ``"conv3 (not dumped)"``.
    by_order : bool
        Whether no graph told who feeds whom.

    Examples
    --------
    >>> reason("unknown", "unseen", suspects=["conv3 (not dumped)"])
    'what feeds it was not all compared: conv3 (not dumped)'
    """
    if role == "unknown":
        return _UNKNOWN[why].format(suspects=listed(suspects))
    if role == "inherited":
        return f"its input fails; before that: {listed(suspects)}" if suspects else ""
    parts = ["the first to fail in execution order" if by_order else "all that feeds it and was compared passes"]
    if suspects:
        parts.append(f"it, or one before it that was not compared: {listed(suspects)}")
    if given:
        parts.append(f"not compared: {listed(given)}")
    return "; ".join(parts)


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """Name a few of many.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
