"""How the axes of one tensor lie in its stored axes: a row of `facts.memory_formats` with numbers put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import FORMAT_ALIASES, MEMORY_FORMATS, MemoryFormat
from pytest_msdump.core.model.tensor import ForwardingView, TensorView

Shape = tuple[int, ...]
_Index: TypeAlias = "tuple[slice | EllipsisType, ...]"

_BATCH = "..."


class Part(NamedTuple):
    """One stored axis: a logical axis, or its part in blocks of length `block`."""

    axis: int
    kind: str
    size: int
    block: int = 1


class Move(NamedTuple):
    """A box of the stored axes, in logical order, and the box of the logical axes that it fills: one copy."""

    stored: _Index
    logical: _Index


@dataclass(frozen=True)
class Placement:
    """The stored axes of a tensor, outermost first, and its logical shape. Many tensors share one."""

    shape: Shape
    parts: tuple[Part, ...]

    @cached_property
    def order(self) -> Shape:
        """The logical axes as they are numbered."""
        return tuple(range(len(self.shape)))

    @cached_property
    def sizes(self) -> Shape:
        """Lengths of the stored axes."""
        return tuple(part.size for part in self.parts)

    @cached_property
    def stored_elements(self) -> int:
        """Number of stored elements, padding included."""
        return prod(self.sizes)

    @cached_property
    def whole(self) -> tuple[Shape, tuple[Move, ...]]:
        """The stored axes in logical order, and the copies that make the whole logical tensor of them."""
        axes = tuple(number for axis in self.order for number in self.parts_of(axis))
        return axes, tuple(self.moves(self.order, [(0, length) for length in self.shape]))

    @cached_property
    def _parts_of(self) -> tuple[Shape, ...]:
        numbers = range(len(self.parts))
        places = [[number for number in numbers if self.parts[number].axis == axis] for axis in self.order]
        for mine in places:
            mine.sort(key=lambda number: self.parts[number].kind == "inner")
        return tuple(map(tuple, places))

    def parts_of(self, axis: int) -> Shape:
        """Return the numbers of the parts of a logical axis, the place in a block behind the block's number."""
        return self._parts_of[axis]

    def moves(self, order: Shape, ranges: Sequence[tuple[int, int]]) -> Iterator[Move]:
        """Yield the copies that fill a box of the logical axes; `ranges` count from the first block that was read."""
        runs = [self._runs(axis, *ends) for axis, ends in zip(order, ranges, strict=True)]
        for chosen in product(*runs):
            stored = (piece for run in chosen for piece in run[0])
            # The dots: an array even where there are no axes.
            yield Move((*stored, ...), (*(run[1] for run in chosen), ...))

    def _runs(self, axis: int, low: int, high: int) -> list[tuple[tuple[slice, ...], slice]]:
        """Divide a range of an axis into whole blocks, and what is left before and behind them."""
        parts = [self.parts[number] for number in self.parts_of(axis)]
        if len(parts) < 2:
            return [(tuple(slice(low, high) for _ in parts), slice(0, high - low))]
        block = parts[-1].size
        found: list[tuple[tuple[slice, ...], slice]] = []
        start = low
        while start < high:
            number, place = divmod(start, block)
            blocks = 1 if place else max(1, (high - start) // block)
            stop = min(high, (number + blocks) * block)
            inner = slice(place, place + stop - start) if blocks == 1 else slice(0, block)
            found.append(((slice(number, number + blocks), inner), slice(start - low, stop - low)))
            start = stop
        return found


# By upper-case spelling without underscores.
_NAMES = {**{name.replace("_", ""): name for name in MEMORY_FORMATS}, **FORMAT_ALIASES}


@lru_cache(maxsize=256)
def format_name(name: str | None) -> str | None:
    """Return the name that `facts.memory_formats` uses, in any case and spelling; ``None`` for an unknown one."""
    return _NAMES.get((name or "").strip().upper().replace("_", ""))


def place(memory_format: str, stored: Shape, logical: Shape, letters: str) -> Placement:
    """Find each logical axis in the stored ones; `stored` and `logical` are the shapes with and without padding."""
    row = MEMORY_FORMATS[memory_format]
    named = _named(row, logical, letters)
    if named is None:
        raise _refused(memory_format, stored, logical, f"axes {letters or len(logical)} are not {row.axes}")
    shape, names = named
    tokens = _tokens(row, len(logical))
    if len(tokens) != len(stored):
        raise _refused(memory_format, stored, logical, f"{len(tokens)} stored axes are expected")
    sizes = dict(zip(names, shape, strict=True))
    parts: list[Part] = []
    blocks = _block_lengths(row, tokens, stored)
    for entry, length in zip(tokens, stored, strict=True):
        pieces = [_part(token, names, sizes, blocks) for token in entry]
        expected = prod(piece.size for piece in pieces)
        if expected != length:
            what = " ".join(entry)
            raise _refused(memory_format, stored, logical, f"{what} would be {expected} and is {length}")
        parts += pieces
    _check_blocks(memory_format, logical, shape, parts)
    return Placement(shape, tuple(parts))


def stored_shape(
    memory_format: str, logical: Shape, letters: str, blocks: Mapping[str, int]
) -> tuple[Shape, Placement]:
    """Return the shape that a tensor is stored in, and its placement; `blocks` replaces default lengths by letter."""
    row = MEMORY_FORMATS[memory_format]
    named = _named(row, logical, letters)
    if named is None:
        raise TensorShapeError(f"{memory_format} cannot hold {logical} with axes {letters or len(logical)}")
    shape, names = named
    sizes = dict(zip(names, shape, strict=True))
    lengths = {**row.default_blocks, **blocks, **row.blocks}
    entries = [[_part(token, names, sizes, lengths) for token in entry] for entry in _tokens(row, len(logical))]
    parts = tuple(part for pieces in entries for part in pieces)
    _check_blocks(memory_format, logical, shape, parts)
    return tuple(prod(part.size for part in pieces) for pieces in entries), Placement(shape, parts)


def _named(row: MemoryFormat, logical: Shape, letters: str) -> tuple[Shape, tuple[str, ...]] | None:
    """Give every logical axis its letter, leading axes without one a number; ``None`` where the letters do not fit."""
    if row.axes in ("", "IJ"):
        last = len(row.axes)
        # A row alone is a matrix of one row.
        shape = (1,) * max(0, last - len(logical)) + logical
        return shape, (*map(str, range(len(shape) - last)), *row.axes)
    if row.axes == "NCS":
        if sorted(letters) != sorted("NCHW") or len(logical) != 4:
            return None
        at = {letter: logical[place] for place, letter in enumerate(letters)}
        order = [letter for letter in letters if letter not in "HW"]
        spatial = letters.index("H")
        if letters[spatial : spatial + 2] != "HW":
            return None
        names = [*letters[:spatial], "S", *letters[spatial + 2 :]]
        sizes = {**{letter: at[letter] for letter in order}, "S": at["H"] * at["W"]}
        return tuple(sizes[name] for name in names), tuple(names)
    if sorted(letters) != sorted(row.axes) or len(letters) != len(logical):
        return None
    return logical, tuple(letters)


def _tokens(row: MemoryFormat, rank: int) -> list[list[str]]:
    """Split each stored axis into its pieces; leading axes are named by numbers."""
    entries: list[list[str]] = []
    for entry in row.stored:
        if entry == _BATCH:
            entries += [[str(number)] for number in range(max(0, rank - len(row.axes)))]
        else:
            entries.append(entry.split())
    return entries


def _block_lengths(row: MemoryFormat, tokens: Sequence[Sequence[str]], stored: Shape) -> Mapping[str, int]:
    """Read block lengths from stored axes that are the place in a block and nothing else (``C0``)."""
    found = {
        entry[0][0]: length
        for entry, length in zip(tokens, stored, strict=True)
        if len(entry) == 1 and len(entry[0]) == 2 and entry[0][1] == "0" and entry[0][0].isalpha()
    }
    return {**found, **row.blocks}


def _part(token: str, names: Sequence[str], sizes: Mapping[str, int], blocks: Mapping[str, int]) -> Part:
    letter, kind = (token, "") if token.isdigit() or len(token) == 1 else (token[0], token[1])
    axis = list(names).index(letter)
    if not kind:
        return Part(axis, "whole", sizes[letter])
    block = max(1, blocks[letter])
    if kind == "0":
        return Part(axis, "inner", block, block)
    return Part(axis, "outer", -(-sizes[letter] // block), block)


def _check_blocks(memory_format: str, logical: Shape, shape: Shape, parts: Sequence[Part]) -> None:
    """Refuse an axis that has more elements than its only block."""
    outer = {part.axis for part in parts if part.kind == "outer"}
    for part in parts:
        if part.kind == "inner" and part.axis not in outer and shape[part.axis] > part.size:
            raise TensorShapeError(
                f"{memory_format} cannot hold a tensor of shape {logical}: an axis of {shape[part.axis]} does not fit "
                f"into its one block of {part.size}"
            )


def _refused(memory_format: str, stored: Shape, logical: Shape, why: str) -> TensorShapeError:
    return TensorShapeError(
        f"{memory_format} of stored shape {stored} cannot hold a tensor of shape {logical}: {why}; "
        "the dump's header or the rule file names another tensor"
    )


class HeldView(ForwardingView):
    """An array in memory as a `TensorView`; `origin` is the view that its values came from."""

    def __init__(self, values: npt.NDArray[Any], origin: TensorView) -> None:
        super().__init__(origin, tuple(values.shape))
        self._values = np.ascontiguousarray(values)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order."""
        return self._values.reshape(-1)[start:stop]

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its axes in another order."""
        return HeldView(self._values.reshape(self.shape).transpose(axes), self._view)


def held(view: TensorView) -> HeldView:
    """Read a whole tensor."""
    return HeldView(view.read(0, view.size).reshape(view.shape).copy(), view)
