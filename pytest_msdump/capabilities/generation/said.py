"""What two decoders say token by token: kept in the report, noted where it fails, and drawn on the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf, isfinite, prod
from typing import Any

import numpy as np

from pytest_msdump.capabilities.generation.logits import (
    MEAN,
    OfTokens,
    TokenDistances,
    reference_tokens,
    token_distances,
)
from pytest_msdump.capabilities.generation.part import NAME, token_at
from pytest_msdump.capabilities.generation.ties import MOST_RMS_ERRORS, is_near_tie
from pytest_msdump.capabilities.tokens.where import lengths_in
from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.comparison import Finding
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import COORDINATES, Pair
from pytest_msdump.core.ports import Planned
from pytest_msdump.core.report.base import Curve, Section
from pytest_msdump.core.text import Message, encode, in_clauses, number
from pytest_msdump.core.text.message import NONFINITE

_LARGEST = "max_softmax_kl"
# So many places a chart has, so many rows a table, and so many tensors the page.
_MOST_PLACES, _MOST_ROWS, _MOST_TENSORS = 256, 64, 24
_MOST_NAMED = 8
# Of so many values distances are measured once more for the page.
_MOST_VALUES = 2**26
# What a row holds: the token's number, three ids, and five numbers.
_IDS = ("left", "right", "tokens")
_NUMBERS = ("kl", "left_log", "right_log", "margin", "error")
_WHOLE, _COLUMNS = 1 + len(_IDS), 1 + len(_IDS) + len(_NUMBERS)
_DIGITS = 4


@dataclass(frozen=True)
class Said:
    """How far two tables of logits are apart, token by token.

    `shape` is that of the tokens; where sequences are joined, `lengths` are theirs. `kl` is the largest one of each
    `step` tokens in nats, `limit` that of the largest.
    `rows` are tokens: number, left's, right's and the reference's own id, KL, log-probabilities of the latter, margin
    and error, as `TokenDistances` has them. `wrong` is the number of the first wrong token: its KL is beyond the limit,
    or another id is the largest by more than a near tie.
    """

    name: str
    shape: Sequence[int]
    kl: Sequence[Any]
    step: int
    rows: Sequence[Sequence[Any]]
    wrong: int | None = None
    limit: float | None = None
    lengths: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Refuse what another program may have written; TypeError."""
        shape, kl, rows = (
            one if isinstance(one, (list, tuple)) else (None,) for one in (self.shape, self.kl, self.rows)
        )
        columns = [
            one if isinstance(one, (list, tuple)) and len(one) == _COLUMNS else (None,) * _COLUMNS for one in rows
        ]
        whole = [self.step, *shape, *(one for row in columns for one in row[:_WHOLE])]
        whole += [] if self.wrong is None else [self.wrong]
        numbers = [*kl, *(one for row in columns for one in row[_WHOLE:])]
        numbers += [] if self.limit is None else [self.limit]
        are_whole = all(isinstance(one, int) and one >= 0 for one in whole) and self.step > 0
        if not are_whole or not isinstance(self.name, str) or any(_double(one) is None for one in numbers):
            raise TypeError("what is said token by token has other kinds of values")

    def place(self, token: int) -> Message:
        """Return sequence and token of a number."""
        inside = bool(self.shape) and token < prod(self.shape)
        place = tuple(map(int, np.unravel_index(token, self.shape))) if inside else (token,)
        return token_at(place, lengths=self.lengths)


@dataclass(frozen=True)
class AllSaid:
    """What is said token by token of each tensor of logits, those that fail first."""

    tensors: Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Read what results.json has; TypeError where it is no such thing."""
        if not isinstance(self.tensors, (list, tuple)):
            raise TypeError("tensors is no list")
        object.__setattr__(
            self, "tensors", tuple(one if isinstance(one, Said) else Said(**one) for one in self.tensors)
        )


def _double(value: object) -> float | None:
    """Return a number as results.json has it."""
    found = NONFINITE.get(value, value) if isinstance(value, str) else value
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def with_first_wrong(pair: Pair, record: Record, _again: object) -> Record:
    """Return the record of failing logits with a note that names the first wrong token."""
    measured = None if record.comparison is None else record.comparison.measurements.get(MEAN)
    part = _said_by(record, pair, measured.tokens, measured.shape) if isinstance(measured, OfTokens) else None
    if part is None or part.wrong is None:
        return record
    _, left, right, _, kl, *_ = next(row for row in part.rows if row[0] == part.wrong)
    said_first = {"token": part.place(part.wrong), "left": left, "right": right, "kl": _double(kl)}
    note = Finding("note", Message("first_wrong", said_first))
    return replace(record, verdict=replace(record.verdict, findings=(*record.verdict.findings, note)))


def _said_by(record: Record, pair: Pair, found: TokenDistances | None, shape: tuple[int, ...]) -> Said | None:
    if found is None:
        return None
    at, rms = record.left.at, record.metrics.get("root_mean_square_error")
    coordinates = ", ".join(f"{name} {getattr(at, name)}" for name in COORDINATES if getattr(at, name))
    limits = [check.limit for check in record.checks if check.metric == _LARGEST and check.limit is not None]
    name = f"{record.left.address} ({coordinates})" if coordinates else record.left.address
    if record.fails:
        # What it is off by before a mistake is rounding.
        noise = np.concatenate([[found.rms.min()], np.maximum.accumulate(found.rms)[:-1]])
    else:
        noise = np.full(len(found.rms), rms if isinstance(rms, float) else inf)
    found = found._replace(error=np.minimum(found.error, np.maximum(MOST_RMS_ERRORS * noise, found.unit)))
    return said(
        found, name=name, shape=shape, limit=next(iter(limits), None), fails=record.fails, lengths=lengths_in(pair)
    )


def said(
    found: TokenDistances, *, name: str, shape: Sequence[int], limit: float | None, fails: bool, lengths: Sequence[int]
) -> Said:
    """Return what the report keeps of the distances of all tokens."""
    count = len(found.kl)
    shape = shape if prod(shape) == count else (count,)
    differing = np.flatnonzero(found.left != found.right)
    far = [one for one in differing.tolist() if not is_near_tie(float(found.margin[one]), float(found.error[one]))]
    beyond = np.flatnonzero(found.kl > (inf if limit is None else limit)).tolist()
    wrong = min([*far[:1], *beyond[:1]], default=None)
    if wrong is None and fails:
        # Of values that fail none is a tie.
        wrong = next((one for one in differing.tolist() if found.margin[one] > 0), None)
    # The first wrong one and its neighbours, those that differ, those with the largest KL.
    wanted = [] if wrong is None else [wrong, *range(max(0, wrong - 2), min(count, wrong + 3))]
    wanted += [*differing[: _MOST_ROWS // 2].tolist(), *np.argsort(-found.kl, kind="stable").tolist()]
    tokens = sorted(list(dict.fromkeys(wanted))[:_MOST_ROWS])
    step = -(-count // _MOST_PLACES)
    largest = np.maximum.reduceat(found.kl, np.arange(0, count, step)).tolist()
    rows = tuple(_row(found, token) for token in tokens)
    return Said(name, shape, tuple(map(_kept, largest)), step, rows, wrong, limit, lengths)


def _row(found: TokenDistances, token: int) -> tuple[Any, ...]:
    ids = (int(getattr(found, name)[token]) for name in _IDS)
    return (token, *ids, *(_kept(float(getattr(found, name)[token])) for name in _NUMBERS))


def _kept(value: float) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isfinite(value) else encode(value)


def with_all_said(report: Report, plan: Planned) -> Report:
    """Return the report with what is said token by token of each tensor of logits, of those that fail first."""
    have = [one for one in report.records if one.comparison is not None and MEAN in one.comparison.values]
    if not have:
        return report
    pairs = {(pair.left.key, pair.right.key): pair for pair in plan.pairing.pairs}
    kept: list[Said] = []
    for record in sorted(have, key=lambda one: (not one.fails, one.verdict.outcome == "pass"))[:_MOST_TENSORS]:
        measured = record.comparison and record.comparison.measurements[MEAN]
        pair = pairs.get((record.left.key, record.right.key))
        if pair is None:
            continue
        if isinstance(measured, OfTokens):
            part = _said_by(record, pair, measured.tokens, measured.shape)
        else:
            # It was compared by another process, which hands on numbers alone.
            part = _said_again(record, pair)
        if part is not None:
            kept.append(part)
    return replace(report, parts={**report.parts, NAME: AllSaid(tuple(kept))})


def _said_again(record: Record, pair: Pair) -> Said | None:
    with suppress(MsdumpError, OSError), closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
        aligned = align(pair, left, right)
        shape = aligned.left.shape
        if aligned.left.size <= _MOST_VALUES:
            found = token_distances(aligned.left, aligned.right, reference_tokens(pair, shape))
            return _said_by(record, pair, found, shape[:-1])
    return None


def section(report: Report) -> list[Section]:
    """Return a chart and a table of each tensor of logits for the page."""
    part = report.parts.get(NAME)
    return [_section(one) for one in part.tensors] if isinstance(part, AllSaid) else []


def _section(one: Said) -> Section:
    what = Message("kl_by_token") if one.step == 1 else Message("kl_of_each", {"n": one.step})
    limit = None if one.limit is None else Message("dashed_limit", {"limit": one.limit})
    elements = prod(one.shape)
    return Section(
        Message("said_by", {"name": one.name}),
        tuple(tuple(_cells(one, row)) for row in one.rows),
        heads=tuple(Message(f"head_{name}") for name in ("token", "right", "left", "kl", "logs", "margin", "what")),
        curve=Curve(
            tuple(_double(value) or 0.0 for value in one.kl),
            in_clauses(what, limit),
            step=one.step,
            ticks=tuple(_ticks(one)),
            limit=one.limit,
            marked=None if one.wrong is None else one.wrong // one.step,
            label=None if one.wrong is None else Message("wrong_at", {"token": one.place(one.wrong)}),
        ),
        marked=next((place for place, row in enumerate(one.rows) if row[0] == one.wrong), None),
        note=Message("rows_of", {"n": len(one.rows), "elements": elements}) if len(one.rows) < elements else None,
    )


def _ticks(one: Said) -> Iterator[tuple[int, Message]]:
    """Yield where each sequence begins, of a few."""
    lengths = one.lengths or ((one.shape[-1],) * prod(one.shape[:-1]) if len(one.shape) > 1 else ())
    starts = [sum(lengths[:place]) for place in range(len(lengths))] if len(lengths) <= _MOST_NAMED else []
    for sequence, start in enumerate(starts):
        if start % one.step == 0:
            yield start // one.step, Message("of_sequence", {"n": sequence})


def _cells(one: Said, row: Sequence[Any]) -> Iterator[Message | str]:
    token, left, right, chosen, *numbers = row
    kl, left_log, right_log, margin, error = (_double(value) or 0.0 for value in numbers)
    yield one.place(token)
    yield str(right) if chosen == right else f"{right} ({chosen})"
    yield str(left)
    yield number(kl, 3)
    yield f"{number(left_log, 4)} / {number(right_log, 4)}"
    yield f"{number(margin, 3)} / {number(error, 3)}" if left != right else ""
    is_tie = is_near_tie(margin, error) and (one.wrong is None or token < one.wrong)
    code = "same_id" if left == right else "near_tie" if is_tie else "another_id"
    yield Message("first_wrong_id" if left != right else "first_wrong_kl") if token == one.wrong else Message(code)
