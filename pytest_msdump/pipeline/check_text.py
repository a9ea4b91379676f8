"""What checks of one dump found, as text: for the command, and for a test that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_msdump.checking.hits import Hit
from pytest_msdump.checking.wording import counted, frame_lines, where_text, wrapped
from pytest_msdump.facts.checks import CHECKS
from pytest_msdump.model.tensor import OpKey
from pytest_msdump.pipeline.checking import Checked
from pytest_msdump.reporting.numbers import one_line_text

__all__ = ["check_lines"]

_MOST_OPERATORS = 20


def check_lines(checked: Checked, *, width: int = 100, everything: bool = False) -> Iterator[str]:
    """Yield what was looked at, the hits of each operator in order of execution, and what could not be checked.

    Parameters
    ----------
    checked : Checked
        Of one dump.
    width : int
        Columns for sentences; names and paths are never cut.
    everything : bool
        Whether to tell the hits of all operators, not of the first 20.
    """
    dump = checked.dump
    yield f"msdump inspect --check: {dump.root} (reader {dump.reader})"
    operators = list(dict.fromkeys(ref.key.op for ref in dump.refs))
    compared = f"; {counted(checked.steps, 'weight')} held against an iteration before" if checked.steps else ""
    yield from wrapped(
        f"{counted(checked.tensors, 'tensor')} of {counted(len(operators), 'operator')} looked at, "
        f"{counted(checked.weights, 'weight')} among them{compared}",
        width,
        indent=2,
    )
    for note in (*dump.notes, *checked.notes):
        yield from wrapped(note, width, indent=2)
    yield from _summary(checked)
    groups: dict[OpKey, list[Hit]] = {}
    for hit in checked.hits:
        groups.setdefault(hit.ref.key.op, []).append(hit)
    places = {op: place for place, op in enumerate(operators, 1)}
    shown = list(groups.items())
    for op, hits in shown if everything else shown[:_MOST_OPERATORS]:
        yield ""
        yield from _operator(op, hits, f"op {places[op]} of {len(operators)}", width)
    if len(shown) > _MOST_OPERATORS and not everything:
        yield ""
        yield f"and {counted(len(shown) - _MOST_OPERATORS, 'more operator')}; --all tells them all"
    for path, sentence in checked.reports:
        yield ""
        yield f"REPORTED  {one_line_text(str(path))}"
        yield from wrapped(sentence, width, indent=10)
    for ref, problem in checked.unreadable:
        yield ""
        yield f"UNREADABLE  {one_line_text(ref.key.address)}"
        yield from wrapped(problem, width, indent=12)


def _summary(checked: Checked) -> Iterator[str]:
    counts = Counter(hit.check for hit in checked.hits)
    if not checked.tensors and not checked.unreadable:
        yield "  there is no tensor in this dump, so nothing was checked"
    elif not counts:
        yield "  no check hit" + (", but not every tensor could be read" if checked.unreadable else "")
    else:
        told = ", ".join(f"{check} {counts[check]}" for check in CHECKS if counts[check])
        yield f"  {counted(len(checked.hits), 'hit')}: {told}"


def _operator(op: OpKey, hits: Sequence[Hit], place: str, width: int) -> Iterator[str]:
    yield f"HIT  {one_line_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    yield f"     {place}" + (f"; {where}" if where else "")
    line = hits[0].ref.line
    if line is not None:
        yield from frame_lines(line, width, indent=5)
    for hit in hits:
        key = hit.ref.key
        yield f"     {key.io}:{key.slot}  {hit.check}: {CHECKS[hit.check].says}"
        yield from wrapped(hit.sentence, width, indent=15)
    for file in dict.fromkeys(hit.ref.source.path for hit in hits):
        yield f"     {one_line_text(str(file))}"
