"""Behind a near tie everything of that token differs for a good reason: its rows are set aside, the rest is judged."""

from __future__ import annotations

from pytest_msdump.capabilities.generation.logits import with_softmax
from pytest_msdump.capabilities.generation.ties import MOST, MOST_SHARE, Part, SetAside, part_of, runs_without
from pytest_msdump.capabilities.shards.model import TokenRuns
from pytest_msdump.capabilities.shards.views import TokenView
from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import FAILING, Limits
from pytest_msdump.core.text import Message, Parameter


def aside_message(opened: OpenedPair, limits: Limits, _again: object) -> Message | None:
    """Return that a failing pair is within its limits but for tokens that are set aside; ``None`` where it is not."""
    part: Part = part_of(opened.pair)
    if part.aside is None or part.values is not None:
        return None
    left, right = opened.seen
    aside: SetAside = part.aside
    shape = _tokens_of(left.shape, aside)
    if shape is None:
        return None
    said: dict[str, Parameter] = {"n": len(aside.rows), "elements": aside.count, "values": aside.values}
    if len(aside.rows) > MOST and len(aside.rows) > MOST_SHARE * aside.count:
        return Message("behind_too_many_ties", said)
    runs = TokenRuns((shape,), runs_without(aside.rows, aside.count))
    if not runs.runs:
        return None
    rest = tuple(TokenView([view], runs) for view in (left, right))
    measured = measure(*rest, rtol=limits.rtol, atol=limits.atol, without=dict(limits.without))
    aligned = opened.aligned._replace(left=rest[0], right=rest[1])
    measured = with_softmax(opened._replace(aligned=aligned), measured, limits, lambda *_: None)
    verdict, _ = judge(measured, limits, left_dtype=left.dtype, right_dtype=right.dtype)
    return None if verdict.outcome in FAILING else Message("behind_ties", said)


def _tokens_of(shape: tuple[int, ...], aside: SetAside) -> tuple[int, ...] | None:
    """Return the leading dimensions of a tensor that count tokens: as they are, or merged; ``None`` without these."""
    return next((tokens for tokens in (aside.shape, (aside.count,)) if shape[: len(tokens)] == tokens), None)
