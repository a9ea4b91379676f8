"""The results of the checks of one dump, and of its statistics, as text for the command and for a failing test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_msdump.escape import terminal_text
from pytest_msdump.facts.checks import CHECKS
from pytest_msdump.inspect.checks import Checked
from pytest_msdump.inspect.hits import Hit
from pytest_msdump.inspect.verify import Verified
from pytest_msdump.model.describe import counted, frame_lines, listed, where_text, wrapped
from pytest_msdump.model.statistics import StatisticDifference
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorRef

_MOST_SHOWN = 20
_MOST_REPEATS = 4


def check_lines(checked: Checked, *, width: int = 100, everything: bool = False) -> Iterator[str]:
    """Yield what was checked, the hits of each operator in execution order, and what could not be checked."""
    dump = checked.dump
    yield f"msdump inspect --check: {dump.root} (reader {dump.reader})"
    operators = {name: place for place, name in enumerate(dict.fromkeys(_name(ref.key.op) for ref in dump.refs), 1)}
    compared = f"; {counted(checked.steps, 'weight')} held against an iteration before" if checked.steps else ""
    yield from wrapped(
        f"{counted(checked.tensors, 'tensor')} of {counted(len(operators), 'operator')} looked at, "
        f"{counted(checked.weights, 'weight')} among them{compared}",
        width,
        indent=2,
    )
    for note in (*dump.notes, *checked.notes):
        yield from wrapped(note, width, indent=2)
    yield f"  {summary_line(checked)}"
    groups: dict[OpKey, list[Hit]] = {}
    for hit in checked.hits:
        op, at = hit.ref.key.op, hit.ref.key.op.at
        # An operator that iterations, or loops in them, run again is shown once.
        groups.setdefault(replace(op, at=Coordinates(at.rank, at.net, at.graph)), []).append(hit)
    shown = [
        _operator(op, hits, f"op {operators[_name(op)]} of {len(operators)}", width) for op, hits in groups.items()
    ]
    yield from _first(shown, "operator", everything=everything)
    for path, sentence in checked.reports:
        yield ""
        yield f"REPORTED  {terminal_text(str(path))}"
        yield from wrapped(sentence, width, indent=10)
    for ref, problem in checked.unreadable:
        yield ""
        yield f"UNREADABLE  {terminal_text(ref.key.address)}"
        yield from wrapped(problem, width, indent=12)


def _first(blocks: Sequence[Iterator[str]], what: str, *, everything: bool) -> Iterator[str]:
    """Yield the lines of the first blocks, each below an empty line, and how many more there are."""
    for lines in blocks if everything else blocks[:_MOST_SHOWN]:
        yield ""
        yield from lines
    if len(blocks) > _MOST_SHOWN and not everything:
        yield ""
        yield f"and {counted(len(blocks) - _MOST_SHOWN, f'more {what}')}; --all lists them all"


def summary_line(checked: Checked) -> str:
    """Return how often each check hit."""
    counts = Counter(hit.check for hit in checked.hits)
    if not checked.tensors and not checked.unreadable:
        return "there is no tensor in this dump, so nothing was checked"
    if not counts:
        return "no check hit" + (", but not every tensor could be read" if checked.unreadable else "")
    by_check = ", ".join(f"{check} {counts[check]}" for check in CHECKS if counts[check])
    return f"{counted(len(checked.hits), 'hit')}: {by_check}"


def _name(op: OpKey) -> tuple[str, str | None]:
    return (op.label, op.op_type)


def _operator(op: OpKey, hits: Sequence[Hit], place: str, width: int) -> Iterator[str]:
    yield f"HIT  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    yield f"     {place}" + (f"; {where}" if where else "")
    line = hits[0].ref.line
    if line is not None:
        yield from frame_lines(line, width, indent=5)
    repeats: dict[tuple[str, int, str, str | None], list[Hit]] = {}
    for hit in hits:
        repeats.setdefault((hit.ref.key.io, hit.ref.key.slot, hit.check, hit.parameter), []).append(hit)
    for (io, slot, check, _), same in repeats.items():
        yield f"     {io}:{slot}  {check}: {CHECKS[check].says}"
        yield from wrapped(f"{same[0].sentence}{_repeated(same)}", width, indent=15)
    for file in dict.fromkeys(same[0].ref.source.path for same in repeats.values()):
        yield f"     {terminal_text(str(file))}"


def _repeated(same: Sequence[Hit]) -> str:
    """Say when the first of several equal hits was, and when the others."""
    ats = [hit.ref.key.op.at for hit in same]
    times = [where_text(Coordinates(iteration=at.iteration, occurrence=at.occurrence)) for at in ats]
    if not times[0]:
        return ""
    again = f", again in {listed(times[1:], _MOST_REPEATS)}" if len(times) > 1 else ""
    return f"; in {times[0]}{again}"


def verify_lines(found: Verified, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield how many tensors were compared with saved statistics, and each difference."""
    dump = found.dump
    yield f"msdump inspect --verify: {dump.root} (reader {dump.reader})"
    yield f"  {len(found.refs)} of {counted(len(dump.refs), 'tensor')} held against statistics of the run"
    for note in dump.notes:
        yield from wrapped(note, width, indent=2)
    by_tensor: dict[TensorRef, list[StatisticDifference]] = {}
    for difference in found.differences:
        by_tensor.setdefault(difference.ref, []).append(difference)
    if not found.refs:
        yield "  no tensor of this dump has a row in a table of statistics, so nothing was verified"
    elif not by_tensor:
        yield "  all of them agree"
    else:
        yield f"  {counted(len(by_tensor), 'tensor')} differ" + ("s" if len(by_tensor) == 1 else "")
    shown = [_differing_tensor(ref, differences, width) for ref, differences in by_tensor.items()]
    yield from _first(shown, "tensor", everything=everything)


def _differing_tensor(ref: TensorRef, differences: Sequence[StatisticDifference], width: int) -> Iterator[str]:
    yield f"DIFFERS  {terminal_text(ref.key.address)}"
    where = where_text(ref.key.op.at)
    if where:
        yield f"         {where}"
    for difference in differences:
        if difference.problem:
            yield from wrapped(difference.problem, width, indent=9)
        else:
            values = (difference.saved, difference.computed)
            saved, computed = ("nothing" if value is None else value for value in values)
            text = f"{difference.what.replace('_', ' ')}: {saved} in the table, {computed} in the tensor"
            yield from wrapped(text, width, indent=9)
    yield f"         {terminal_text(str(ref.source.path))}"
    table = ref.statistics.source if ref.statistics else None
    if table is not None:
        yield f"         {terminal_text(str(table.path))}" + (f", line {table.part}" if table.part else "")
