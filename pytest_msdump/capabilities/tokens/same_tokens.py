"""Finds the entry that compares token by token what two runs padded, or cut into steps, in other ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import product

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.shards.model import TokenIds, tokens_of
from pytest_msdump.capabilities.tokens.tokens import with_common_tokens
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.tensor import TensorRef

# Tensors that are opened, in the order of the run, and elements that are read of each.
_MOST_OPENED, _MOST_IDS = 64, 2**20
_MOST_PADS = 6


_Rows = npt.NDArray[np.int64]


def entry_of(dumps: Mapping[str, Dump]) -> TokenIds | None:
    """Return an entry by which both sides have the same tokens, if there is one and none is used yet."""
    is_asked = any(tokens_of(ref).runs.shapes for dump in dumps.values() for ref in dump.refs)
    return None if is_asked else next(_entries(dumps), None)


def _entries(dumps: Mapping[str, Dump]) -> Iterator[TokenIds]:
    """Yield the entries by which both sides have the same tokens."""
    left, right = (_ids_of(dump) for dump in dumps.values())
    for address in left.keys() & right.keys():
        rows = [*left[address], *right[address]]
        ends = [int(one) for row in rows for one in (row[0, 0], row[0, -1], row[-1, 0], row[-1, -1])]
        pads = [None, *dict.fromkeys(ends)][:_MOST_PADS]
        steps = [None, "iteration", "occurrence"] if len(left[address]) != len(right[address]) else [None]
        if len({one for row in rows for one in np.unique(row).tolist()}) < 3:
            continue
        for pad, step in product(pads, steps):
            tokens = TokenIds(address, pad, steps=step)
            try:
                made = with_common_tokens(dumps, tokens)
            except MsdumpError:
                continue
            if all(any(tokens_of(ref).runs.runs for ref in dump.refs) for dump in made.values()):
                yield tokens


def _ids_of(dump: Dump) -> dict[str, list[_Rows]]:
    """Return the first tensors of whole numbers in one or two dimensions, by address."""
    found: dict[str, list[_Rows]] = {}
    for ref in _likely(dump)[:_MOST_OPENED]:
        if (rows := _rows(ref)) is not None:
            found.setdefault(ref.key.address, []).append(rows)
    return found


def _rows(ref: TensorRef) -> _Rows | None:
    try:
        with closing(open_logical(ref)) as view:
            is_whole = view.spec.dtype in DTYPES and DTYPES[view.spec.dtype].kind == "integer"
            if not is_whole or len(view.shape) not in (1, 2) or not 0 < view.size <= _MOST_IDS:
                return None
            return view.read(0, view.size).astype(np.int64).reshape(-1, view.shape[-1])
    except MsdumpError:
        return None


def _likely(dump: Dump) -> list[TensorRef]:
    """Return what may hold ids: what calls were given first, and what is called so."""
    refs = [ref for ref in dump.refs if ref.key.op.op_type != PARAMETER and not ref.is_unseen]
    named = [ref for ref in refs if any(word in ref.key.op.label.lower() for word in ("ids", "token"))]
    return [*named, *(ref for ref in refs if ref.key.io == "input" and ref not in named)]
