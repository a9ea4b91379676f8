"""Steps of a training that hooks wrote into one flat folder: every name is there once for each step, pass after pass.

Files alone cannot tell them from runs of a program into one folder, one after the other. The other side can: where it
has as many iterations, the passes are these; else the rule of re-runs holds, and both readings are said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from pytest_msdump.core.model.dump import Dump, placed_by_time
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.text import Message, message_of_note, say

_FLAT = "npy-folder"


def iterations_of(dump: Dump) -> tuple[int, ...]:
    """Return the iterations of a dump, in order."""
    return tuple(sorted({at for ref in dump.refs if (at := ref.key.op.at.iteration) is not None}))


def with_steps(dump: Dump, other: Dump) -> Dump:
    """Return a flat folder that holds every name equally often with its passes as the iterations of the other side."""
    files = sorted((*dump.refs, *dump.older), key=lambda ref: (ref.source.timestamp or 0, ref.source.name))
    passes = _passes(dump, files)
    if passes < 2:
        return dump
    iterations = iterations_of(other)
    said = {"names": len(files) // passes, "times": passes, "iterations": len(iterations)}
    if len(iterations) != passes or any(ref.key.op.at.occurrence for ref in other.refs):
        return replace(dump, notes=(*dump.notes, say(Message("flat_steps_left_alone", {**said, "last": passes - 1}))))
    size = len(files) // passes
    refs = [_at(ref, iterations[number // size]) for number, ref in enumerate(files)]
    note = say(Message("flat_steps", {**said, "numbers": iterations}))
    notes = (note, *(one for one in dump.notes if not message_of_note(one).code.startswith("note_rerun")))
    return replace(dump, refs=placed_by_time(refs), older=(), notes=notes)


def _passes(dump: Dump, files: Collection[TensorRef]) -> int:
    """Return how many whole passes over all names a flat folder without a record of its run holds; 0 where it is none.

    A name of which each pass has several files is one that the model calls several times.
    """
    is_flat = dump.reader == _FLAT and dump.manifest is None and {ref.source.folder for ref in files} == {dump.root}
    if not is_flat or any(ref.source.timestamp is None for ref in files):
        return 0
    names = [(ref.key.op.name, ref.key.slot) for ref in files]
    times = set(Counter(names).values())
    if len(times) != 1:
        return 0
    size = len(set(names))
    pieces = [set(names[start : start + size]) for start in range(0, len(names), size)]
    return len(pieces) if all(piece == pieces[0] for piece in pieces) else 0


def _at(ref: TensorRef, iteration: int) -> TensorRef:
    at = replace(ref.key.op.at, iteration=iteration, occurrence=0)
    return replace(ref, key=replace(ref.key, op=replace(ref.key.op, at=at)))
