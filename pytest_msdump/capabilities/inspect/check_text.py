"""The results of the checks of one dump, and of its statistics, as text for the command and for a failing test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_msdump.capabilities.inspect.checks import Checked
from pytest_msdump.capabilities.inspect.hits import Hit
from pytest_msdump.capabilities.inspect.verify import Verified
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.facts.checks import CHECKS
from pytest_msdump.core.model.describe import frame_lines, where_text, wrapped
from pytest_msdump.core.model.statistics import StatisticDifference
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorRef
from pytest_msdump.core.text import ENGLISH, Phrases, message_of_note

_MOST_SHOWN = 20
_MOST_REPEATS = 4


def check_lines(
    checked: Checked, *, width: int = 100, everything: bool = False, say: Phrases = ENGLISH
) -> Iterator[str]:
    """Yield what was checked, the hits of each operator in execution order, and what could not be checked."""
    dump = checked.dump
    yield say("about_dump", command="msdump inspect --check", directory=str(dump.root), reader=dump.reader)
    operators = {name: place for place, name in enumerate(dict.fromkeys(_name(ref.key.op) for ref in dump.refs), 1)}
    compared = say("checked_steps", n=checked.steps) if checked.steps else ""
    about = {"operators": len(operators), "weights": checked.weights, "compared": compared}
    yield from wrapped(say("checked", n=checked.tensors, **about), width, indent=2)
    for note in (*map(message_of_note, dump.notes), *checked.notes):
        yield from wrapped(say.of(note), width, indent=2)
    yield f"  {summary_line(checked, say)}"
    groups: dict[OpKey, list[Hit]] = {}
    for hit in checked.hits:
        op, at = hit.ref.key.op, hit.ref.key.op.at
        # An operator that iterations, or loops in them, run again is shown once.
        groups.setdefault(replace(op, at=Coordinates(at.rank, at.net, at.graph)), []).append(hit)
    shown = [
        _operator(op, hits, say("nth_operator", place=operators[_name(op)], operators=len(operators)), width, say)
        for op, hits in groups.items()
    ]
    yield from _first(shown, say, everything=everything)
    for path, message in checked.reports:
        yield ""
        yield f"{say('reported')}  {terminal_text(str(path))}"
        yield from wrapped(say.of(message), width, indent=10)
    for ref, problem in checked.unreadable:
        yield ""
        yield f"{say('unreadable')}  {terminal_text(ref.key.address)}"
        yield from wrapped(problem, width, indent=12)


def _first(blocks: Sequence[Iterator[str]], say: Phrases, *, everything: bool) -> Iterator[str]:
    """Yield the lines of the first blocks, each below an empty line, and how many more there are."""
    for lines in blocks if everything else blocks[:_MOST_SHOWN]:
        yield ""
        yield from lines
    if len(blocks) > _MOST_SHOWN and not everything:
        yield ""
        yield say("more_listed", n=len(blocks) - _MOST_SHOWN)


def summary_line(checked: Checked, say: Phrases = ENGLISH) -> str:
    """Return how often each check hit."""
    counts = Counter(hit.check for hit in checked.hits)
    if not checked.tensors and not checked.unreadable:
        return say("nothing_checked")
    if not counts:
        return say("no_hit_unreadable" if checked.unreadable else "no_hit")
    by_check = ", ".join(f"{check} {counts[check]}" for check in CHECKS if counts[check])
    return say("hits", n=len(checked.hits), by_check=by_check)


def _name(op: OpKey) -> tuple[str, str | None]:
    return (op.label, op.op_type)


def _operator(op: OpKey, hits: Sequence[Hit], place: str, width: int, say: Phrases) -> Iterator[str]:
    yield f"{say('hit')}  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    yield f"     {place}" + (f"; {where}" if where else "")
    line = hits[0].ref.line
    if line is not None:
        yield from frame_lines(line, width, indent=5)
    repeats: dict[tuple[str, int, str, str | None], list[Hit]] = {}
    for hit in hits:
        repeats.setdefault((hit.ref.key.io, hit.ref.key.slot, hit.check, hit.parameter), []).append(hit)
    for (io, slot, check, _), same in repeats.items():
        yield f"     {io}:{slot}  {say('after_label', label=check, text=say(f'check_{check}'))}"
        yield from wrapped(_repeated(same, say), width, indent=15)
    for file in dict.fromkeys(same[0].ref.source.path for same in repeats.values()):
        yield f"     {terminal_text(str(file))}"


def _repeated(same: Sequence[Hit], say: Phrases) -> str:
    """Say what was hit, when the first of several equal hits was, and when the others."""
    ats = [hit.ref.key.op.at for hit in same]
    times = [where_text(Coordinates(iteration=at.iteration, occurrence=at.occurrence)) for at in ats]
    if not times[0]:
        return say.of(same[0].message)
    names = say.named(times[1:], _MOST_REPEATS)
    return say("hit_again" if names else "hit_in", text=same[0].message, first=times[0], names=names)


def verify_lines(found: Verified, *, width: int, everything: bool = False, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield how many tensors were compared with saved statistics, and each difference."""
    dump = found.dump
    yield say("about_dump", command="msdump inspect --verify", directory=str(dump.root), reader=dump.reader)
    yield f"  {say('verified', n=len(found.refs), total=len(dump.refs))}"
    for note in map(message_of_note, dump.notes):
        yield from wrapped(say.of(note), width, indent=2)
    by_tensor: dict[TensorRef, list[StatisticDifference]] = {}
    for difference in found.differences:
        by_tensor.setdefault(difference.ref, []).append(difference)
    if not found.refs:
        yield f"  {say('nothing_verified')}"
    elif not by_tensor:
        yield f"  {say('all_agree')}"
    else:
        yield f"  {say('n_differ', n=len(by_tensor))}"
    shown = [_differing_tensor(ref, differences, width, say) for ref, differences in by_tensor.items()]
    yield from _first(shown, say, everything=everything)


def _differing_tensor(
    ref: TensorRef, differences: Sequence[StatisticDifference], width: int, say: Phrases
) -> Iterator[str]:
    yield f"{say('DIFFERS')}  {terminal_text(ref.key.address)}"
    where = where_text(ref.key.op.at)
    if where:
        yield f"         {where}"
    for difference in differences:
        if difference.problem:
            yield from wrapped(difference.problem, width, indent=9)
        else:
            values = (difference.saved, difference.computed)
            saved, computed = (say("no_number") if value is None else str(value) for value in values)
            text = say("saved_computed", what=difference.what.replace("_", " "), saved=saved, computed=computed)
            yield from wrapped(text, width, indent=9)
    yield f"         {terminal_text(str(ref.source.path))}"
    table = ref.statistics.source if ref.statistics else None
    if table is not None:
        path = terminal_text(str(table.path))
        yield f"         {say('table_line', file=path, line=table.part) if table.part else path}"
