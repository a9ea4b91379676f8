"""How tensors are cut over the ranks of a run: the mesh of ranks, the dims language, and who holds which part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from pytest_msdump.core.errors import ConfigError, TensorShapeError, UnknownNameError, nearest
from pytest_msdump.core.text import Message

if TYPE_CHECKING:
    from pytest_msdump.core.model.tensor import TensorRef

# Megatron-LM's default: tensor parallel ranks are neighbours (`megatron.core.parallel_state`, `order`).
DEFAULT_ORDER = "tp-cp-ep-dp-pp"
# Each stage of a pipeline has tensors of its own, so this axis neither cuts nor copies any.
STAGES = "pp"
_MOST_RANKS = 2**16


@dataclass(frozen=True, slots=True)
class Mesh:
    """The ranks of a run as a grid: name and size of each axis, the one that changes fastest with the rank first."""

    axes: tuple[tuple[str, int], ...]
    source: str = "order"
    renumber: tuple[Renumbering, ...] = ()
    strategy: Strategy | None = None

    @classmethod
    def of(cls, sizes: Mapping[str, int], order: str | None, *, source: str = "order", where: str) -> Mesh:
        """Make a mesh; ConfigError, which begins with `where`, if `order` does not name each axis once."""
        by_folder = source == "dir"
        names = [] if by_folder and order is None else (order or DEFAULT_ORDER).split("-")
        if len(set(names)) < len(names) or not all(names):
            raise ConfigError(f"{where}.order: {order!r} must name each axis once, e.g. {DEFAULT_ORDER!r}")
        names += [name for name in sizes if by_folder and name not in names]
        for name in sizes:
            if name not in names:
                raise UnknownNameError(f"{where}: axis {name!r} is not in order {'-'.join(names)!r}; add it there")
        if 0 in sizes.values() or prod(sizes.values()) > _MOST_RANKS:
            raise ConfigError(f"{where}.axes: sizes must be 1 or more, and make at most {_MOST_RANKS} ranks")
        return cls(tuple((name, sizes[name]) for name in names if name in sizes), source)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return prod(size for _, size in self.axes)

    @property
    def text(self) -> str:
        """E.g. ``tp=2, cp=4``."""
        return ", ".join(f"{name}={size}" for name, size in self.axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return the number of a rank along each axis."""
        found = {}
        for name, size in self.axes:
            rank, found[name] = divmod(rank, size)
        return found


class Placement(NamedTuple):
    """How a parameter is cut, in the dims language, and over which axes: the fastest first, the stages last."""

    dims: str
    axes: tuple[tuple[str, int], ...]


class Strategy(NamedTuple):
    """A strategy file: its name, and the placement of each parameter for each stage of the pipeline that has it."""

    name: str
    parameters: Mapping[str, Mapping[int, Placement]]

    def at(self, name: str, rank: int) -> Placement | None:
        """Return how a parameter is cut at a rank; ``None`` where the file says nothing of it."""
        for stage, placement in self.parameters.get(name, {}).items():
            if rank // prod(size for _, size in placement.axes[:-1]) == stage:
                return placement
        return None


class Cut(NamedTuple):
    """That an axis of the mesh cuts a dimension into `parts`, consecutive ones unless they are `zigzag`."""

    axis: str
    zigzag: bool = False
    packed: bool = False
    parts: int = 1


class Block(NamedTuple):
    """One of several blocks side by side in a dimension: its share of each part, as a whole number."""

    share: int = 1
    copies: int = 1


class Dim(NamedTuple):
    """One dimension and what cuts it, outermost first; its `blocks` lie side by side, and each is cut alike."""

    name: str
    cuts: tuple[Cut, ...] = ()
    blocks: tuple[Block, ...] = (Block(),)

    @property
    def parts(self) -> int:
        """Into how many parts it is cut in all."""
        return prod(cut.parts for cut in self.cuts)


@dataclass(frozen=True, slots=True)
class Dims:
    """The dimensions of a tensor, as the dims language describes them."""

    text: str
    dims: tuple[Dim, ...]
    sums: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    lengths: tuple[int, ...] = ()

    @property
    def axes(self) -> frozenset[str]:
        """The axes that are mentioned, by their names in the mesh."""
        names = dict(self.aliases)
        used = (*(cut.axis for dim in self.dims for cut in dim.cuts), *self.sums, *self.copies)
        return frozenset(names.get(axis, axis) for axis in used)

    def layout(self, mesh: Mesh, own: Iterable[str] = ()) -> ShardLayout | Message:
        """Return how these dimensions lie on a mesh; a message where an axis of the mesh is left open."""
        names, sizes = dict(self.aliases), dict(mesh.axes)

        def known(axes: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for axis in axes if sizes.get(name := names.get(axis, axis), 1) > 1)

        dims = tuple(
            dim._replace(
                cuts=tuple(
                    cut._replace(axis=name, parts=sizes[name]) for cut in dim.cuts for name in known((cut.axis,))
                )
            )
            for dim in self.dims
        )
        own = tuple(sorted({STAGES, *own} & sizes.keys() - self.axes))
        layout = ShardLayout(self.text, dims, known(self.sums), known(self.copies), mesh, self.lengths, own)
        used = [*(cut.axis for dim in dims for cut in dim.cuts), *layout.sums, *layout.copies]
        if twice := next((name for place, name in enumerate(used) if name in used[:place]), None):
            return Message("shards_axis_twice", {"axis": twice, "dims": self.text})
        if left_open := [name for name, size in mesh.axes if size > 1 and name not in (*used, *own)]:
            why = Message("ambiguous_axis", {"axis": left_open[0], "n": sizes[left_open[0]], "dims": self.text})
            return Message("ambiguous", {"why": why})
        return layout


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How one tensor lies on a mesh: `dims` as in `Dims`, with the sizes and names of the mesh."""

    text: str
    dims: tuple[Dim, ...]
    sums: tuple[str, ...]
    copies: tuple[str, ...]
    mesh: Mesh
    lengths: tuple[int, ...] = ()
    own: tuple[str, ...] = ()
    pick: int | None = None

    @property
    def picks(self) -> int:
        """In how many ways blocks of which several parts hold copies can be put together; 1 once `pick` is chosen."""
        if self.pick is not None:
            return 1
        return max((block.copies for dim in self.dims for block in dim.blocks), default=1)

    @property
    def grid(self) -> tuple[int, ...]:
        """Parts of each dimension, then how many shards are added."""
        return (*(dim.parts for dim in self.dims), self._count(self.sums))

    @property
    def copy_count(self) -> int:
        """How many copies of each shard there are."""
        return self._count(self.copies)

    def place(self, coordinates: Mapping[str, int]) -> tuple[int, int]:
        """Return which copy the rank at `coordinates` holds, and of which shard, numbered in the order of `grid`."""
        sizes = dict(self.mesh.axes)
        cuts = [cut.axis for dim in self.dims for cut in dim.cuts]
        numbers = []
        for axes in (self.copies, (*cuts, *self.sums)):
            number = 0
            for axis in axes:
                number = number * sizes[axis] + coordinates[axis]
            numbers.append(number)
        return numbers[0], numbers[1]

    def stage(self, coordinates: Mapping[str, int]) -> tuple[int, ...]:
        """Return where a rank is along the axes whose ranks have tensors of their own, such as a pipeline's stages."""
        return tuple(coordinates[axis] for axis in self.own)

    def _count(self, axes: Iterable[str]) -> int:
        sizes = dict(self.mesh.axes)
        return prod(sizes[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class ShardedTensor:
    """The shards of one tensor: for each copy those of `ShardLayout.grid` in C order."""

    layout: ShardLayout | None = None
    copies: tuple[tuple[TensorRef, ...], ...] = ()
    problem: Message | None = None

    @property
    def share(self) -> float:
        """All of it is compared."""
        return 1.0

    @property
    def copy_count(self) -> int:
        """In how many ways the tensor can be put together."""
        return len(self.copies) * (1 if self.layout is None else self.layout.picks)

    def copy(self, number: int) -> ShardedTensor:
        """Return one copy alone."""
        if self.layout is None:
            return self
        copy, pick = divmod(number, self.layout.picks)
        return replace(self, copies=(self.copies[copy],), layout=replace(self.layout, pick=pick))


class DimsEntry(NamedTuple):
    """One ``[[msdump.dims]]``: the tensors that it is about, on one `side` if it says so, and their dimensions."""

    match: str
    dims: Dims
    side: str | None = None


class TokenIds(NamedTuple):
    """Which tensor has the ids of the tokens, and what is padding: ids `pad` at the ends of a sequence, or by `mask`.

    Tensors that `match` and begin with the dimensions of the ids are compared token by token. `steps` is the coordinate
    that counts the steps in which a side computes its sequences, ``"iteration"`` or ``"occurrence"``.
    """

    ids: str
    pad: int | None = None
    mask: str | None = None
    match: tuple[str, ...] = ("*",)
    steps: str | None = None


class TokenRuns(NamedTuple):
    """The tokens of a tensor to compare, in order: first one and number of each run."""

    shapes: tuple[tuple[int, ...], ...]
    runs: tuple[tuple[int, int], ...]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class CommonTokens:
    """The tokens of a tensor to compare, where others are padding."""

    runs: TokenRuns
    steps: tuple[TensorRef, ...] = ()

    @property
    def problem(self) -> Message | None:
        """There is none: it shows when the tensors are opened."""
        return None

    @property
    def share(self) -> float:
        """Which share of the tokens without padding is compared."""
        return self.runs.share if self.steps else 1.0


def shards_of(ref: TensorRef) -> ShardedTensor | None:
    """Return what a tensor is to be put together from."""
    part = ref.parts.get("shards")
    return part if isinstance(part, ShardedTensor) else None


def tokens_of(ref: TensorRef) -> CommonTokens:
    """Return the tokens of a tensor to compare; of one that has no such part none, as a whole."""
    part = ref.parts.get("tokens")
    return part if isinstance(part, CommonTokens) else CommonTokens(TokenRuns((), ()))


@dataclass(frozen=True, slots=True)
class Sharding:
    """``[msdump.shards]`` and ``[[msdump.dims]]``: the mesh of each side that is cut, and the dimensions of tensors."""

    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    dims: tuple[DimsEntry, ...] = ()
    tokens: TokenIds | None = None


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Numbers in names that count from 0 on each rank along an axis: layers of a stage, experts of a rank."""

    axis: str
    names: str
    each: tuple[int, ...]
    where: str = ""

    def __post_init__(self) -> None:
        local, _, whole = (part.strip() for part in self.names.partition("->"))
        if local.count("{n}") != 1 or local.count("{chunk}") > 1 or (whole or "{n}").count("{n}") != 1:
            raise ConfigError(f"{self.where}: names must have one {{n}}, e.g. 'chunks.{{chunk}}.{{n}} -> layers.{{n}}'")
        if (not whole and "{chunk}" in local) or "{chunk}" in whole:
            raise ConfigError(f"{self.where}: names with {{chunk}} need '-> NAMES' without it, e.g. '-> layers.{{n}}'")
        if not self.each or min(self.each) < 1:
            raise ConfigError(f"{self.where}: each must be 1 or more")

    def renamed(self, name: str, at: int, size: int) -> str | None:
        """Return a name of rank `at` of `size` along the axis with its number in the whole; ``None`` for any other."""
        local, _, whole = (part.strip() for part in self.names.partition("->"))
        text = re.escape(local).replace(r"\{n\}", r"(?P<n>\d{1,9})").replace(r"\{chunk\}", r"(?P<chunk>\d{1,9})")
        match = re.search(rf"(?<![^./]){text}(?![^./])", name, re.ASCII)
        if match is None:
            return None
        number, turn = int(match["n"]), int(match.groupdict().get("chunk", 0)) * size + at
        each = self.each * (turn + 1) if len(self.each) == 1 else self.each
        if turn >= len(each) or number >= each[turn]:
            raise ConfigError(
                f"{self.where}: {name!r} is number {number} of rank {at} along {self.axis}, but each says "
                f"{each[turn] if turn < len(each) else 'nothing of it'}; correct each"
            )
        made = (whole or local).replace("{n}", str(sum(each[:turn]) + number))
        return f"{name[: match.start()]}{made}{name[match.end() :]}"


# -- the dims language --

_DIM = re.compile(r"(1|[A-Za-z_]\w*|\([^()\[\]\s]+\))(?:\[([^\[\]]*)\])?(?:\s+|$)", re.ASCII)
_AXIS = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BLOCK = r"\w+(?::([1-9]\d{0,5}))?(?:/([1-9]\d{0,3}))?"
_FUSED = re.compile(rf"\(\w+(?:\*\w+)+\)|\({_BLOCK}(?:\+{_BLOCK})+\)", re.ASCII)
_QUALIFIERS = ("natural", "packed", "partial", "sharded", "zigzag")
_EXAMPLE = "b s[cp:zigzag] h[tp] # dp:replicated"


def parse_dims(text: str, *, where: str, lengths: Sequence[int] = ()) -> Dims:
    """Read the dimensions of a tensor, e.g. ``b s[cp:zigzag,sp] 1 (nh*hd)[tp:partial] # dp:=moe_dp ep:replicated``.

    A name for each dimension; behind it in brackets the axes that cut it, the outermost first, each with qualifiers
    that ``+`` joins. ``(gate+up)`` are blocks side by side, ``(q:4+k+v)`` such of which one is four times as large, and
    of ``(q+k/2)`` two ranks each hold the same k. Behind ``#``: axes along which all ranks hold the same, or terms of a
    sum, and names of axes. `lengths` are those of the sequences of a packed dimension. ConfigError begins with `where`.

    >>> parse_dims("s[cp:zigzag] h[tp:partial] # dp:replicated", where="here").sums
    ('tp',)
    """
    body, _, notes = text.partition("#")
    copies, sums, aliases = _parse_notes(notes, where)
    dims: list[Dim] = []
    rest = body.strip()
    while rest:
        match = _DIM.match(rest)
        if match is None:
            raise ConfigError(f"{where}: {rest.split()[0]!r} is no dimension; write e.g. {_EXAMPLE!r}")
        dim, added = _parse_dim(match[1], match[2], where)
        dims.append(dim)
        sums += added
        rest = rest[match.end() :]
    used = [*(cut.axis for dim in dims for cut in dim.cuts), *sums, *copies]
    if twice := next((axis for place, axis in enumerate(used) if axis in used[:place]), None):
        raise ConfigError(f"{where}: axis {twice!r} stands twice; a tensor is cut once along each axis")
    packed = any(cut.packed for dim in dims for cut in dim.cuts)
    if packed != bool(lengths):
        lacking = "needs lengths = [...], those of the sequences" if packed else "lengths needs an axis with :packed"
        raise ConfigError(f"{where}: {lacking}")
    return Dims(text, tuple(dims), tuple(sums), copies, aliases, tuple(lengths))


def _parse_dim(name: str, modifiers: str | None, where: str) -> tuple[Dim, list[str]]:
    """Return one dimension, and the axes along which shards are added."""
    if name[0] == "(" and not _FUSED.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no fused dimension; write e.g. (nh*hd), or (q:4+k/2) for blocks")
    cuts: list[Cut] = []
    sums: list[str] = []
    for modifier in [] if modifiers is None else modifiers.split(","):
        axis, colon, qualifiers = modifier.strip().partition(":")
        said = qualifiers.split("+") if colon else []
        if not _AXIS.fullmatch(axis):
            raise ConfigError(f"{where}: {f'{name}[{modifiers}]'!r} must name axes such as tp; write e.g. {_EXAMPLE!r}")
        for one in said:
            if one not in _QUALIFIERS:
                raise UnknownNameError(f"{where}: unknown qualifier {one!r}; {nearest(one, _QUALIFIERS)}")
        if "partial" in said and len(said) > 1:
            raise ConfigError(f"{where}: {modifier.strip()!r}: partial stands alone")
        if "partial" in said:
            sums.append(axis)
        else:
            cuts.append(Cut(axis, "zigzag" in said, "packed" in said))
    if name == "1" and cuts:
        raise ConfigError(f"{where}: a dimension of length 1 cannot be cut")
    parts = [re.fullmatch(_BLOCK, part, re.ASCII) for part in name[1:-1].split("+")] if "+" in name else []
    blocks = tuple(Block(int(part[1] or 1), int(part[2] or 1)) for part in parts if part is not None)
    return Dim(name, tuple(cuts), blocks or (Block(),)), sums


def _parse_notes(text: str, where: str) -> tuple[tuple[str, ...], list[str], tuple[tuple[str, str], ...]]:
    copies: list[str] = []
    sums: list[str] = []
    aliases: dict[str, str] = {}
    for word in text.split():
        axis, _, said = word.partition(":")
        if _AXIS.fullmatch(axis) and said == "replicated":
            copies.append(axis)
        elif _AXIS.fullmatch(axis) and said == "partial":
            sums.append(axis)
        elif _AXIS.fullmatch(axis) and said[:1] == "=" and _AXIS.fullmatch(said[1:]):
            aliases[axis] = said[1:]
        else:
            raise ConfigError(f"{where}: {word!r} must be AXIS:replicated, AXIS:partial or AXIS:=NAME")
    return tuple(copies), sums, tuple(aliases.items())


# -- which part of a dimension is where --


class Segment(NamedTuple):
    """Indexes of a dimension that lie side by side in one part: from `start`, `length` many, there from `local` on."""

    start: int
    length: int
    part: int
    local: int


class _Piece(NamedTuple):
    part: int
    local: int
    length: int


def segments_of(
    dim: Dim, lengths: Sequence[int], sequences: Sequence[int] = (), *, pick: int = 0
) -> tuple[Segment, ...]:
    """Return what a dimension is made of, in order; `lengths` are those of its parts, `sequences` if it is packed."""
    shares = sum(block.share for block in dim.blocks)
    for part, length in enumerate(lengths):
        if length % shares:
            raise _uneven(dim, length, shares, part)
    found: list[Segment] = []
    start = before = 0
    for share, copies in dim.blocks:
        if len(lengths) % copies:
            raise _uneven(dim, len(lengths), copies)
        units = [n // shares for n in lengths]
        pieces = [
            _Piece(part, before * unit, share * unit if part % copies == pick % copies else 0)
            for part, unit in enumerate(units)
        ]
        for piece in _joined(dim, pieces, sequences):
            if piece.length:
                found.append(Segment(start, piece.length, piece.part, piece.local))
                start += piece.length
        before += share
    return tuple(found)


def _joined(dim: Dim, pieces: Sequence[_Piece], sequences: Sequence[int]) -> list[_Piece]:
    """Put the parts of one block together, the innermost axis first."""
    groups = [[piece] for piece in pieces]
    for cut in reversed(dim.cuts):
        groups = [
            list(_join(dim, groups[first : first + cut.parts], cut, sequences))
            for first in range(0, len(groups), cut.parts)
        ]
    return groups[0]


def _join(dim: Dim, members: Sequence[list[_Piece]], cut: Cut, sequences: Sequence[int]) -> Iterator[_Piece]:
    """Put what the ranks along one axis hold into the order of the whole."""
    place = 0
    for sequence in sequences if cut.packed else ():
        if sequence % cut.parts:
            raise _uneven(dim, sequence, cut.parts)
        end = place + sequence // cut.parts
        yield from _in_turn(dim, [_slice(member, place, end) for member in members], cut)
        place = end
    if cut.packed and place > min(_length(member) for member in members):
        raise _uneven(dim, _length(members[0]), place)
    yield from _in_turn(dim, [_slice(member, place, _length(member)) for member in members], cut)


def _in_turn(dim: Dim, members: Sequence[list[_Piece]], cut: Cut) -> Iterator[_Piece]:
    if not cut.zigzag:
        yield from chain.from_iterable(members)
        return
    for member in members:
        if _length(member) % 2:
            raise _uneven(dim, _length(member), 2, member[0].part)
    for member in members:
        yield from _slice(member, 0, _length(member) // 2)
    for member in reversed(members):
        yield from _slice(member, _length(member) // 2, _length(member))


def _slice(pieces: Iterable[_Piece], start: int, stop: int) -> list[_Piece]:
    """Return elements `start` to `stop` of what some pieces make together."""
    found, place = [], 0
    for part, local, length in pieces:
        low, high = max(start - place, 0), min(stop - place, length)
        if low < high:
            found.append(_Piece(part, local + low, high - low))
        place += length
    return found


def _length(pieces: Iterable[_Piece]) -> int:
    return sum(piece.length for piece in pieces)


def _uneven(dim: Dim, length: int, by: int, part: int = 0) -> TensorShapeError:
    return TensorShapeError(Message("shards_uneven", {"dim": dim.name, "n": length, "by": by, "part": part}))
