"""What ``msdump replay`` says of operators that got their own inputs again: as text, and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pytest_msdump.capabilities.kernels.again import Refused, Replay, Replayed, Score
from pytest_msdump.core.model.describe import distinct_texts, frame_lines, index_text, where_text, wrapped
from pytest_msdump.core.model.tensor import COORDINATES, OpKey
from pytest_msdump.core.report.tables import titled
from pytest_msdump.core.text import Phrases, encode, say

_MOST_SHOWN = 20


_MARGIN = 9


def replay_lines(replay: Replay, *, unfolded: bool, width: int, say: Phrases) -> Iterator[str]:
    """Yield the operators that are wrong by themselves, the damaged ones, and why others were not replayed."""
    dump, accused = replay.dump, replay.accused
    most = len(accused) if unfolded else _MOST_SHOWN
    yield say("about_dump", command="msdump replay", directory=str(dump.root), reader=dump.reader)
    for one in accused[:most]:
        yield ""
        yield from _accused(one, width, say)
    if len(accused) > most:
        yield ""
        yield say("more_accused", n=len(accused) - most)
    for damaged in replay.damaged:
        yield ""
        yield titled(say("DAMAGED"), _named(damaged.op), _MARGIN)
        yield from wrapped(say.of(damaged.why), width, indent=_MARGIN)
    yield ""
    yield from _refused(replay, width, say, most=len(replay.refused) if unfolded else _MOST_SHOWN)
    yield from wrapped(_summary(replay, say), width, indent=0)


def _named(op: OpKey) -> str:
    return op.label + (f"  ({op.op_type})" if op.op_type else "")


def _accused(one: Replayed, width: int, say: Phrases) -> Iterator[str]:
    op, score, margin = one.op, one.score, " " * _MARGIN
    yield titled(say("ACCUSED"), _named(op), _MARGIN)
    order = "" if one.ref.place is None else say("op_at", n=one.ref.place + 1)
    place = say.joined(filter(None, (order, where_text(op.at), say("output_slot", n=one.slot))), "between_names")
    yield f"{margin}{place}"
    yield f"{margin}{_score_text(score, one.elements, say)}"
    stored, expected = distinct_texts(score.stored, score.expected)
    yield margin + say("replay_worst", place=index_text(score.index), stored=stored, expected=expected)
    if one.ref.line is not None:
        yield from frame_lines(one.ref.line, width, indent=_MARGIN)
    yield f"{margin}{one.ref.source.text}"


def _score_text(score: Score, elements: int, say: Phrases) -> str:
    if score.rule == "exact":
        return say("score_exact", n=int(score.value), elements=elements)
    if score.rule == "flips":
        return say("score_flips", share=f"{100 * score.value:.3g}", n=elements)
    return say(f"score_{score.rule}", value=score.value, limit=score.limit)


def _refused(replay: Replay, width: int, say: Phrases, *, most: int) -> Iterator[str]:
    """Yield why calls were not replayed, the most frequent reason first, with one example each and further names."""
    by_reason: defaultdict[tuple[str, str], list[Refused]] = defaultdict(list)
    for one in replay.refused:
        by_reason[one.op.op_type or "", one.why.code].append(one)
    if by_reason:
        yield say("calls_not_replayed", n=len(replay.refused))
    for (op_type, _), (first, *others) in sorted(by_reason.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"  {1 + len(others)} {op_type}".rstrip()
        yield from wrapped(say("not_replayable", name=first.op.label, why=first.why), width, indent=4)
        if others:
            names = say.named((one.op.label for one in others), most)
            yield from wrapped(say("likewise", names=names), width, indent=4)
    if by_reason:
        yield ""


def _summary(replay: Replay, say: Phrases) -> str:
    undumped = say("replay_undumped", n=replay.undumped) if replay.undumped else ""
    about = {"total": replay.calls + len(replay.refused), "outputs": len(replay.replayed), "undumped": undumped}
    text = say("replayed_calls", n=replay.calls, **about)
    if not replay.replayed:
        return say("replay_nothing", text=text, why="" if replay.dump.graphs else say("replay_without_graph"))
    operators = len({one.op for one in replay.accused})
    damaged = say("and_damaged", n=len(replay.damaged)) if replay.damaged else ""
    return say("replay_accused" if operators else "replay_none_accused", text=text, n=operators, damaged=damaged)


def replay_entry(replay: Replay) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "directory": str(replay.dump.root),
        "reader": replay.dump.reader,
        "replayed": replay.calls,
        "outputs": len(replay.replayed),
        "undumped": replay.undumped,
        "damaged": [one.op.label for one in replay.damaged],
        "accused": [
            {
                "name": one.op.label,
                "op_type": one.op.op_type,
                **{name: getattr(one.op.at, name) for name in COORDINATES},
                "output": one.slot,
                "file": one.ref.source.text,
                "rule": one.score.rule,
                "score": encode(one.score.value),
                "limit": one.score.limit,
                "index": list(one.score.index),
                "stored": encode(one.score.stored),
                "expected": encode(one.score.expected),
            }
            for one in replay.accused
        ],
        "refused": [
            {"name": one.op.label, "op_type": one.op.op_type, **one.why.entry, "sentence": say(one.why)}
            for one in replay.refused
        ],
    }
