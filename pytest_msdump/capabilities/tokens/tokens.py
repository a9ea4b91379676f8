"""Sequences that runs have in common: found by the ids of their tokens, whatever their padding, order and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.shards.model import CommonTokens, ShardedTensor, TokenIds, TokenRuns, tokens_of
from pytest_msdump.capabilities.shards.sharding import joined
from pytest_msdump.capabilities.shards.views import TokenView, begins_with_tokens
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.matching.leaving import Names
from pytest_msdump.core.matching.selection import PairFilter, Selection
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.tensor import Coordinates, TensorKey, TensorRef, TensorView
from pytest_msdump.core.suite import Suite
from pytest_msdump.core.text import Message, say

_PARAMETER = "Parameter"
_TOKENS = "[msdump.shards] tokens"
# Ids are read whole.
_MOST_TOKENS = 2**24

_Array = npt.NDArray[Any]


class _Sequence(NamedTuple):
    """Ids of one sequence without its padding, and where each is among those of all steps."""

    ids: _Array
    places: _Array


class _Batch(NamedTuple):
    """The sequences of one iteration: the coordinate of each step, the shape of its ids, and all steps joined."""

    steps: tuple[int | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    sequences: list[_Sequence]


def with_tokens(dumps: Mapping[str, Dump], suite: Suite) -> Mapping[str, Dump]:
    """Return the dumps of all sides with the tokens to compare: those of the same sequences, without padding."""
    tokens = None if suite.sharding is None else suite.sharding.tokens
    return dumps if tokens is None else with_common_tokens(dumps, tokens)


def with_common_tokens(dumps: Mapping[str, Dump], tokens: TokenIds) -> Mapping[str, Dump]:
    """Return dumps with the tokens to compare; ConfigError where the sides have other tokens."""
    batches = {side: _batches(dump, side, tokens) for side, dump in dumps.items()}
    runs: dict[str, dict[int | None, TokenRuns]] = {side: {} for side in dumps}
    notes: defaultdict[str, list[str]] = defaultdict(list)
    for at, ours in batches["left"].items():
        places = {}
        for side, batch in batches.items():
            if batch.keys() != batches["left"].keys():
                raise ConfigError(f"{_TOKENS}: the sides have ids of different iterations; narrow both to the same")
            places[side] = _places(
                ours.sequences, batch[at].sequences, side=side, at=at, may_end=tokens.steps is not None
            )
        common = np.all([found >= 0 for found in places.values()], axis=0)
        for side, found in places.items():
            shapes, count = batches[side][at].shapes, sum(one.ids.size for one in batches[side][at].sequences)
            n = int(common.sum())
            runs[side][at] = TokenRuns(shapes, tuple(_runs(found[common], shapes)), n / count if count else 1.0)
            if n < count:
                notes[side].append(say(Message("tokens_in_common", {"n": n, "tokens": count})))
    return {
        side: replace(_with_runs(dump, tokens, batches[side], runs[side]), notes=(*dump.notes, *notes[side]))
        for side, dump in dumps.items()
    }


def open_tokens(ref: TensorRef) -> TensorView:
    """Open a tensor of which some tokens are compared; one that does not begin with tokens is opened as it is."""
    part = tokens_of(ref)
    if part.steps:
        return _open_steps(part.steps, part.runs)
    view = open_view(replace(ref, parts={name: other for name, other in ref.parts.items() if name != "tokens"}))
    return TokenView([view], part.runs) if begins_with_tokens([view], part.runs) else view


def _open_steps(steps: Sequence[TensorRef], runs: TokenRuns) -> TokenView:
    """Open the tensors of several steps as one; TensorShapeError where these have not the tokens of their steps."""
    with ExitStack() as stack:
        for step in steps:
            if step.is_unseen or step.sample is not None:
                raise TensorShapeError(Message("shards_not_saved", {"file": step.source.name}))
        views = [stack.enter_context(closing(open_logical(step))) for step in steps]
        if not begins_with_tokens(views, runs):
            shapes = views[0].shape, runs.shapes[0]
            raise TensorShapeError(Message("steps_without_tokens", {"shape": shapes[0], "ids": shapes[1]}))
        whole = TokenView(views, runs)
        stack.pop_all()
    return whole


def _with_runs(
    dump: Dump, tokens: TokenIds, batches: Mapping[int | None, _Batch], runs: Mapping[int | None, TokenRuns]
) -> Dump:
    """Return a dump with the tokens of each tensor, of which the steps are joined."""
    names = Names(dump)
    takes = PairFilter(Selection(tokens.match, io="all"), names).takes_ref
    others: list[TensorRef] = []
    groups: defaultdict[TensorKey, dict[int | None, TensorRef]] = defaultdict(dict)
    for ref in dump.refs:
        at, step = _split(ref.key.op.at, tokens)
        if ref.key.op.op_type == _PARAMETER or at not in runs or not takes(ref):
            others.append(ref)
        elif tokens.steps is None:
            others.append(replace(ref, parts={**ref.parts, "tokens": CommonTokens(runs[at])}))
        else:
            op = ref.key.op
            key = ref.key._replace(op=op._replace(at=op.at._replace(**{tokens.steps: None})))
            groups[key][step] = ref
    for key, steps in groups.items():
        at, _ = _split(key.op.at, tokens)
        whole, wanted = joined(key, list(steps.values())), batches[at].steps
        if steps.keys() == {*wanted}:
            others.append(replace(whole, parts={"tokens": CommonTokens(runs[at], tuple(steps[one] for one in wanted))}))
        else:
            lacking = Message("steps_lacking", {"n": len(steps.keys() & {*wanted}), "steps": len(wanted)})
            others.append(replace(whole, parts={"shards": ShardedTensor(problem=lacking)}))
    return replace(dump, refs=in_order(others) if groups else tuple(others))


def _split(at: Coordinates, tokens: TokenIds) -> tuple[int | None, int | None]:
    """Return of which iteration's ids a tensor is, and of which step of these."""
    if tokens.steps is None:
        return at.iteration, None
    return (None if tokens.steps == "iteration" else at.iteration), getattr(at, tokens.steps)


def _batches(dump: Dump, side: str, tokens: TokenIds) -> Mapping[int | None, _Batch]:
    """Return the sequences of each iteration."""
    found: dict[str, dict[tuple[int | None, int | None], _Array]] = {}
    names = Names(dump)
    for name in filter(None, (tokens.ids, tokens.mask)):
        takes = PairFilter(Selection((name,), io="all"), names).takes_ref
        for ref in filter(takes, dump.refs):
            place = _split(ref.key.op.at, tokens)
            if place in found.setdefault(name, {}):
                raise ConfigError(
                    f"{_TOKENS}: {name!r} names several tensors on the {side} side; write e.g. NAME:input:0"
                )
            found[name][place] = _read_ids(ref)
        if name not in found:
            raise ConfigError(f"{_TOKENS}: {name!r} names no tensor on the {side} side")
    steps: defaultdict[int | None, dict[int | None, list[_Sequence]]] = defaultdict(dict)
    shapes: defaultdict[int | None, list[tuple[int, ...]]] = defaultdict(list)
    for (at, step), ids in sorted(found[tokens.ids].items(), key=lambda one: [number or 0 for number in one[0]]):
        mask = None
        if tokens.mask is not None:
            mask = found[tokens.mask].get((at, step))
            if mask is not None and tokens.steps is not None:
                # A step's mask is also about the tokens before it.
                mask = mask[..., mask.shape[-1] - ids.shape[-1] :]
            if mask is None or mask.shape != ids.shape:
                raise ConfigError(f"{_TOKENS}: {tokens.mask!r} has another shape than the ids on the {side} side")
        if shapes[at] and shapes[at][0][:-1] != ids.shape[:-1]:
            raise ConfigError(f"{_TOKENS}: ids of steps have other numbers of sequences on the {side} side")
        before = sum(prod(shape) for shape in shapes[at])
        steps[at][step] = list(_sequences(ids, mask, tokens.pad, before))
        shapes[at].append(ids.shape)
    return {at: _Batch(tuple(of), tuple(shapes[at]), _through(list(of.values()))) for at, of in steps.items()}


def _read_ids(ref: TensorRef) -> _Array:
    with closing(open_logical(ref)) as view:
        if view.size > _MOST_TOKENS or len(view.shape) not in (1, 2):
            raise ConfigError(f"{ref.source.path}: has shape {view.shape}; ids have one or two dimensions")
        return view.read(0, view.size).reshape(view.shape).astype(np.int64)


def _sequences(ids: _Array, mask: _Array | None, pad: int | None, before: int) -> Iterator[_Sequence]:
    """Yield the rows of a batch; ids without one are a single row: packed sequences."""
    rows = ids if ids.ndim == 2 else ids[None]
    kept = np.ones(rows.shape, bool) if mask is None else mask.reshape(rows.shape) != 0
    for number, (row, keep) in enumerate(zip(rows, kept, strict=True)):
        places = np.flatnonzero(keep)
        if mask is None and pad is not None:
            # Only at the ends: inside of a sequence it may be a token like any other.
            own = np.flatnonzero(row != pad)
            places = np.arange(own[0], own[-1] + 1) if own.size else own
        yield _Sequence(row[places], before + number * len(row) + places)


def _through(steps: Sequence[Sequence[_Sequence]]) -> list[_Sequence]:
    """Join the steps of each sequence."""
    return [_Sequence(*(np.concatenate(parts) for parts in zip(*row, strict=True))) for row in zip(*steps, strict=True)]


def _places(
    ours: Sequence[_Sequence], theirs: Sequence[_Sequence], *, side: str, at: int | None, may_end: bool
) -> _Array:
    """Return where the other side has each of our tokens; -1 beyond the end of a sequence there, which `may_end`."""
    left, right = (_all(one.ids for one in batch) for batch in (ours, theirs))
    if np.array_equal(left, right):
        return _all(one.places for one in theirs)
    where = "" if at is None else f" of iteration {at}"
    by_ids: defaultdict[bytes, list[int]] = defaultdict(list)
    for number, one in enumerate(theirs):
        by_ids[one.ids.tobytes()].append(number)
    partners: list[int] = []
    places: list[_Array] = []
    for one in ours if len(ours) == len(theirs) else ():
        fitting = by_ids[one.ids.tobytes()]
        if not fitting and may_end:
            common = [_common(one.ids, other.ids) for other in theirs]
            fitting = [number for number, length in enumerate(common) if length == max(common) > 0]
        if len(fitting) > 1:
            raise ConfigError(f"{_TOKENS}: two sequences{where} have the same ids, so their order is ambiguous")
        for number in fitting:
            found = theirs[number].places[: one.ids.size]
            partners.append(number)
            places.append(np.pad(found, (0, one.ids.size - found.size), constant_values=-1))
    if len({*partners}) == len(ours) > 0:
        return _all(places)
    length = min(left.size, right.size)
    first = next(iter(np.flatnonzero(left[:length] != right[:length])), length)
    raise ConfigError(
        f"{_TOKENS}: the sides{where} have other tokens ({left.size} left, {right.size} {side}); they "
        f"differ from token {first} on; give both the same, or correct pad or mask"
    )


def _all(arrays: Iterable[_Array]) -> _Array:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _common(one: _Array, other: _Array) -> int:
    """Return the length of the shorter sequence if the other one begins with it; else 0."""
    length = min(one.size, other.size)
    return length if np.array_equal(one[:length], other[:length]) else 0


def _runs(places: _Array, shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Yield first place and number of those that lie side by side in one step."""
    if places.size:
        steps = np.searchsorted(np.cumsum([prod(shape) for shape in shapes]), places, side="right")
        ends = (np.diff(places) != 1) | (np.diff(steps) != 0)
        for run in np.split(places, np.flatnonzero(ends) + 1):
            yield int(run[0]), len(run)
