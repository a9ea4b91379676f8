"""Says which sequences, tokens and steps differ, where a diagnosis says which places of the first axis do."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.shards.model import CommonTokens, tokens_of
from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.model.record import Diagnosis, Record
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.text import Message, Parameter

_Range = tuple[int, int]


class _Token(NamedTuple):
    """Its sequence, its number in that, and the step that it was made in."""

    sequence: int
    number: int
    step: int


def with_sequences(opened: OpenedPair, record: Record) -> Record:
    """Return the record whose diagnoses name sequences and tokens, and the steps of the side that has several."""
    tokens, side = tokens_in(opened.pair) if record.diagnosis else ([], "")
    if not tokens or opened.seen[0].shape[:1] != (len(tokens),):
        return record
    return replace(record, diagnosis=tuple(_named(one, tokens, side) for one in record.diagnosis))


def tokens_in(pair: Pair) -> tuple[list[_Token], str]:
    """Return the tokens that are compared, in their order, and the side that has several steps."""
    sides = {"left": tokens_of(pair.left), "right": tokens_of(pair.right)}
    side = next((name for name, part in sides.items() if len(part.steps) > 1), "left")
    return _tokens(sides["left"], sides[side]), side if sides[side].steps else ""


def lengths_in(pair: Pair) -> tuple[int, ...]:
    """Return how many tokens of each sequence are compared, where one sequence follows the other; else nothing."""
    tokens, _ = tokens_in(pair)
    lengths = Counter(token.sequence for token in tokens)
    places = [(sequence, number) for sequence, length in lengths.items() for number in range(length)]
    in_order = [*lengths] == [*range(len(lengths))] and places == [token[:2] for token in tokens]
    return tuple(lengths.values()) if in_order else ()


def _tokens(left: CommonTokens, stepped: CommonTokens) -> list[_Token]:
    """Return the tokens that are compared: by the rows of the left's ids, and the steps of the other's."""
    rows = [row for _, row in _places(left)]
    steps = [step for step, _ in _places(stepped)]
    counts: defaultdict[int, int] = defaultdict(int)
    found = []
    for row, step in zip(rows, steps, strict=True):
        found.append(_Token(row, counts[row], step))
        counts[row] += 1
    return found


def _places(part: CommonTokens) -> list[_Range]:
    """Return step and row of each token."""
    shapes, found = part.runs.shapes, []
    ends = np.cumsum([prod(shape) for shape in shapes])
    for first, count in part.runs.runs:
        step = int(np.searchsorted(ends, first, side="right"))
        start = int(ends[step]) - prod(shapes[step])
        found += [(step, (place - start) // shapes[step][-1]) for place in range(first, first + count)]
    return found


def _named(diagnosis: Diagnosis, tokens: list[_Token], side: str) -> Diagnosis:
    """Return a diagnosis that says sequences and tokens instead of places of axis 0."""
    parts = diagnosis.evidence.parameters.get("parts")
    index = diagnosis.details.get("index", {}).get("0")
    ranges = diagnosis.details.get("ranges", {}).get("0", [] if index is None else [(index, index)])
    if not ranges or not isinstance(parts, tuple):
        return diagnosis
    lengths = dict(_Token(one.sequence, one.number + 1, 0)[:2] for one in tokens)
    of_sequence: defaultdict[int, list[_Token]] = defaultdict(list)
    for first, last in ranges:
        for token in tokens[first : last + 1]:
            of_sequence[token.sequence].append(token)
    alike: defaultdict[tuple[int, int, bool, int], list[int]] = defaultdict(list)
    for sequence, own in of_sequence.items():
        first, last = own[0].number, own[-1].number
        if len(own) != last - first + 1:
            return diagnosis
        alike[first, last, last == lengths[sequence] - 1 and first < last, own[0].step].append(sequence)
    said = []
    for (first, last, is_to_end, step), sequences in alike.items():
        numbers: dict[str, Parameter] = {"n": len(sequences), "sequences": tuple(map(str, sequences)), "first": first}
        when = Message("at_step", {"step": step, "side": side}) if side else None
        code = "sequences_from" if is_to_end else "sequences_between" if first < last else "sequences_at"
        said.append(Message(code, {**numbers, "last": last, "when": when}))
    others = tuple(one for one in parts if not (isinstance(one, Message) and one.parameters.get("axis") == 0))
    parameters = {**diagnosis.evidence.parameters, "parts": (*said, *others)}
    if "hint" in parameters:
        # It speaks of an axis.
        parameters["hint"] = None
    message = replace(diagnosis.evidence, parameters=parameters)
    places = [{"sequence": one[0].sequence, "tokens": [one[0].number, one[-1].number]} for one in of_sequence.values()]
    return replace(diagnosis, evidence=message, details={**diagnosis.details, "sequences": places})
