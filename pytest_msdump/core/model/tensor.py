"""A tensor's identity, what it claims to be, where it is, and its values (`TensorView`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pytest_msdump.core.facts.metrics import DIGITS
from pytest_msdump.core.text import Message, say

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pytest_msdump.capabilities.overflow.chunks import OverflowEntry
    from pytest_msdump.core.text import Message


class SourceFrame(NamedTuple):
    """One place in a program, from a graph file: a path as written there, a line counted from 1, and its code.

    `last_line` is where a statement or a definition of several lines ends; ``None`` when it has one line, or is
    unknown.
    """

    file: str
    line: int
    text: str = ""
    last_line: int | None = None

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}"


class SourceStack(NamedTuple):
    """The calls that led to an operator, outermost first; `is_forward`: of the one that a gradient belongs to."""

    frames: tuple[SourceFrame, ...] = ()
    is_forward: bool = False


# The reader of tensors of which only statistics were saved.
UNSEEN = "statistics"

# Of another kind are paths on object storage.
_LOCAL = type(Path())

COORDINATES = ("rank", "net", "graph", "iteration", "occurrence")
_SHOWN_AS = {"rank": "rank", "net": "", "graph": "graph", "iteration": "iter", "occurrence": "occ"}


def mangle(name: str) -> str:
    r"""Write an operator's name as dump files do: each of ``.``, ``/``, ``\`` and space becomes one ``_``."""
    # A tenth of the time of a regular expression; a dump has very many names.
    return name.replace("/", "_").replace(".", "_").replace(" ", "_").replace("\\", "_")


class Coordinates(NamedTuple):
    """Where in a run a tensor was dumped. ``None`` = this dump does not have that coordinate, so it matches any value.

    `occurrence` counts repeats of one tensor inside an iteration (loops), from 0, by output time.
    """

    rank: int | None = None
    net: str | None = None
    graph: int | None = None
    iteration: int | None = None
    occurrence: int | None = None

    @property
    def part(self) -> Coordinates:
        """The part of the run: rank, net, graph and iteration, without the occurrence."""
        return Coordinates(self.rank, self.net, self.graph, self.iteration)

    def shown(self, names: Iterable[str] = COORDINATES) -> str:
        """Return those of `names` that this dump has, e.g. ``"rank1-Net-graph0-iter2-occ1"``."""
        found = ((_SHOWN_AS[name], getattr(self, name)) for name in names)
        return "-".join([f"{prefix}{value}" for prefix, value in found if value is not None])


# A name alone matches anywhere. Keys are tuples: they are looked up some twenty times for each tensor.
_ANYWHERE = Coordinates()


class OpKey(NamedTuple):
    """Identity of an operator in one dump.

    `name` is as the file has it, that is mangled for MindSpore and Ascend, free for `op.index.timestamp` files;
    `true_name` as the framework writes it, where a file of the dump has it. `at` says which run of the operator it is.
    `op_type` is e.g. ``"BiasAdd"``, ``"Parameter"``; unknown in reference folders.
    """

    name: str
    at: Coordinates = _ANYWHERE
    op_type: str | None = None
    true_name: str | None = None

    @property
    def label(self) -> str:
        """The true name, or the mangled one when the true one is unknown."""
        return self.true_name or self.name


class TensorKey(NamedTuple):
    """Identity of one tensor, ``OP:io:slot``, in one dump. `io` is ``"input"`` or ``"output"``."""

    op: OpKey
    io: str
    slot: int

    @property
    def address(self) -> str:
        """``OP:io:slot`` with the operator's true name, or its mangled one."""
        return f"{self.op.label}:{self.io}:{self.slot}"

    @property
    def typed_address(self) -> str:
        """``TYPE.OP:io:slot``, for operators that share a name; the address where no type is known."""
        return f"{self.op.op_type}.{self.address}" if self.op.op_type else self.address


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a tensor is, or claims to be; ``None`` where unknown.

    `dtype` is a name from `facts.dtypes`: the logical type, however the bytes are stored. `shape` is the stored shape,
    `memory_format` as the dump spells it, e.g. ``"DefaultFormat"``, ``"NC1HWC0"``; `logical_shape` is the shape after
    undoing the memory format and cropping the padding. `groups` are those of a convolution, which the memory formats of
    its weights (FRACTAL_Z) depend on. `trailing_bytes` stand behind all that the file's header explains; they are never
    read. `dtype_from` and `shape_from` name the graph file that dtype and logical shape are from, if they are from one:
    what the tensor's own file says wins over it.
    """

    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    memory_format: str | None = None
    logical_shape: tuple[int, ...] | None = None
    groups: int = 1
    trailing_bytes: int = 0
    dtype_from: str = ""
    shape_from: str = ""


def location_of(folder: Path, name: str) -> Path | str:
    """Return what opens a file: its path as text where that is enough, which is made ten times faster than a path."""
    start = str(folder)
    if type(folder) is not _LOCAL or start == "." or start[-1] == os.sep:
        return folder / name
    return f"{start}{os.sep}{name}"


@dataclass(frozen=True, slots=True)
class TensorSource:
    """Where a tensor's bytes are: a file, and a part of it when one file holds several tensors.

    A dump has very many files, so that paths are made of `folder` and `name` when they are needed. `timestamp` is when
    the file was written, `part` which tensor of the file it is. `pieces` are the files of a tensor that was dumped in
    slices or shards, in their order; the first is `path`. `device_address` is where the tensor was on the device.
    """

    folder: Path
    name: str
    timestamp: int | None = None
    part: int | None = None
    pieces: tuple[Path, ...] = ()
    device_address: int | None = None

    @classmethod
    def of(
        cls,
        path: Path,
        timestamp: int | None = None,
        part: int | None = None,
        pieces: tuple[Path, ...] = (),
        device_address: int | None = None,
    ) -> TensorSource:
        """Return the source that is the file `path`, or a part of it."""
        return cls(path.parent, path.name, timestamp, part, pieces, device_address)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.name

    @property
    def location(self) -> Path | str:
        """What opens the file; see `location_of`."""
        return location_of(self.folder, self.name)

    @property
    def text(self) -> str:
        """The path as text."""
        return str(self.location)


Statistic: TypeAlias = float | int | str | None


class Sketch(NamedTuple):
    """A count sketch of a tensor, see `metrics.count_sketch`: its buckets, and the norm of its finite elements.

    `slices` are the norms of neighbouring slices together, see `metrics.slices.sketched_grid`, where all is finite.
    """

    buckets: npt.NDArray[np.float64]
    norm: float
    slices: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers about one tensor: a row of a table, or what was computed from the tensor itself.

    `values` are by ids of `facts.metrics.STATISTICS`, those that the table has a column for; ``None`` where the writer
    had nothing to compute with. Integers are exact. `digits` is how many significant ones the writer printed,
    `data_bytes` the size of the tensor in the type it was computed in. `spec` is what the row claims of the tensor, and
    `source` the table, with the 1-based line in `part`; computed numbers have neither. `sketch` is of the elements in
    C order.
    """

    # Tensors are put into sets, and never differ in their statistics alone.
    values: Mapping[str, Statistic] = field(default_factory=dict, hash=False)
    digits: int | None = DIGITS
    data_bytes: int | None = None
    spec: TensorSpec | None = None
    source: TensorSource | None = None
    sketch: Sketch | None = None


class TensorPart(Protocol):
    """What a capability says of a tensor: frozen, and it can be pickled."""

    @property
    def problem(self) -> Message | None:
        """Why the tensor cannot be compared at all."""

    @property
    def share(self) -> float:
        """Which share of it is compared, 0 to 1, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Where a tensor is and what it claims to be. Holds no data; making one opens no file.

    `place` is the operator's 0-based place in the execution order of its graph, ``None`` when no order is known.
    `reader` names the reader that can open it. `line` is the line of the user's program that made the operator, where a
    graph of the run has it. `overflows` are from the device's own check of the operator. `statistics` are from a table
    of the run; where only these were saved, `reader` is ``"statistics"``, which opens nothing. `sample` is the number
    of entries along the first axis where the run saved no more. `sketch` is where its sketch is, if it has one.
    `computed` is the type that a run with mixed precision computed it in, whatever its file has. `placement`
    is how the tensor is cut of which this is a part, as the manifest says it. `parts` are what capabilities say of it,
    by name; one that is a row of ``OPENERS`` has a tensor opened in another way than its reader does.
    """

    key: TensorKey
    spec: TensorSpec
    source: TensorSource
    reader: str
    place: int | None = None
    line: SourceFrame | None = None
    overflows: tuple[OverflowEntry, ...] = field(default=(), hash=False)
    statistics: Statistics | None = None
    sample: int | None = None
    computed: str | None = None
    sketch: SavedSketch | None = field(default=None, hash=False)
    placement: str = field(default="", hash=False)
    parts: Mapping[str, TensorPart] = field(default_factory=dict, hash=False)

    @property
    def is_unseen(self) -> bool:
        """Whether only statistics of it were saved."""
        return self.reader == UNSEEN


class SavedSketch(NamedTuple):
    """Where the buckets of a tensor's sketch are, and the norm of the tensor's finite elements."""

    buckets: TensorRef
    norm: float


class TensorView(Protocol):
    """A tensor that is read piece by piece. Opened lazily; never held whole.

    Two views of one logical shape align by element number, whatever their stored types and axes. A class that inherits
    from this one has `dtype`, `size` and `blocks`.
    """

    @property
    def spec(self) -> TensorSpec:
        """What the file really holds: every field but `memory_format` is set."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape; ``()`` for a 0-d tensor."""

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self.spec.dtype or ""

    @property
    def size(self) -> int:
        """Number of elements: the product of `shape`, 1 for a 0-d tensor."""
        return prod(self.shape)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` of the logical shape in C order: 1-D, native byte order, native dtype.

        The array belongs to the caller until the next `read` of this view.
        """

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time; each block is the caller's until the next."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its logical axes in another order, as `numpy.transpose` takes them; reads no data."""

    def close(self) -> None:
        """Give back the file."""


class ForwardingView(TensorView):
    """A `TensorView` that wraps and closes another; subclasses override what differs, `shape` is another one."""

    def __init__(self, view: TensorView, shape: tuple[int, ...] | None = None) -> None:
        self._view = view
        self._shape = shape

    @property
    def spec(self) -> TensorSpec:
        """What the file holds."""
        return self._view.spec if self._shape is None else replace(self._view.spec, logical_shape=self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self._view.shape if self._shape is None else self._shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._view.dtype

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order."""
        return self._view.read(start, stop)

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return the wrapped view with its axes in another order; reads no data."""
        return self._view.permuted(axes)

    def close(self) -> None:
        """Close the file."""
        self._view.close()


# Pairs of tensors, and tensors without a partner.


class AxisRange(NamedTuple):
    """Indexes `start` to `stop` along an axis."""

    axis: int
    start: int
    stop: int


class TensorPiece(NamedTuple):
    """A part of the tensor of `side`: `ranges` of axes, one after the other, of its elements in this `shape`."""

    side: str
    shape: tuple[int, ...]
    ranges: tuple[AxisRange, ...] = ()

    @property
    def share(self) -> float:
        """Which share of the tensor it is."""
        return prod((stop - start) / max(self.shape[axis], 1) for axis, start, stop in self.ranges)


def refines(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether each axis of the coarser shape is a product of neighbouring axes of the finer one."""
    ours, theirs = ({1, *accumulate(shape, mul)} for shape in (one, other))
    return max(ours) == max(theirs) and 0 not in ours | theirs and (ours <= theirs or theirs <= ours)


# Names of axes that no description of a dump needs to state.
_USUAL_AXES = {"batch": 0, "vocab": -1, "hidden": -1}


@dataclass(frozen=True, slots=True)
class Transform:
    """How the right side is brought to the left's shape. Applied in this order: formats, `transpose`, `reshape`.

    Before that, only a `piece` of one side is meant, and only what both sides have of the axis `crop`.
    A format is the side's axis order for 4-D tensors (``"NHWC"``); brought to NCHW order when the other side's differs.
    `transpose` are axes of the right side, as `numpy.transpose` takes them. With `reshape` only the element counts must
    agree: same values in C order. The left's logical shape, and the order of its axes, is what a rule file says of the
    original model; for undoing its memory format.
    """

    left_format: str | None = None
    right_format: str | None = None
    transpose: tuple[int, ...] | None = None
    reshape: bool = False
    left_logical_shape: tuple[int, ...] | None = None
    left_logical_format: str | None = None
    piece: TensorPiece | None = None
    crop: int | str | None = None

    @property
    def crop_axis(self) -> int | None:
        """The number of the axis to crop; ``None`` where its name does not say which one it is."""
        return _USUAL_AXES.get(self.crop) if isinstance(self.crop, str) else self.crop


# The way of pairing by structure, with what older results and suites call it.
STRUCTURE = "structure"
BY_STRUCTURE = frozenset({STRUCTURE, "scope", "graph"})
# The sentence `same_scope`.
_MODULE = "same module "


def module_of(how: str, by: str) -> str:
    """Return the path of the module that both sides of a pair are; empty where that is not what paired them.

    >>> module_of("structure", "same module layer0.act"), module_of("scope", "layer0.act"), module_of("fused", "x")
    ('layer0.act', 'layer0.act', '')
    """
    if how == STRUCTURE:
        return by[len(_MODULE) :] if by.startswith(_MODULE) else ""
    return by if how == "scope" else ""


@dataclass(frozen=True, slots=True)
class Pair:
    """One tensor of the run under test and its reference.

    `how` is ``"mapped"``, ``"fused"``, ``"name"``, ``"mangled"``, ``"structure"`` or ``"file"``; `by` says which rule,
    e.g. ``"msdump.toml [[msdump.map]] #3"``, or what spoke for it, e.g. ``"same module act"``. `order` is the 0-based
    place of the left operator among all left operators. `note` is shown with the verdict, e.g. that a side has this
    tensor several times.
    `uncompared` counts the further occurrences of this tensor that met no partner, left and right, though they are
    selected. `terms` are the left and the right tensors that a gradient is the sum of, see `comparison.noise_floor`.
    `golden` and `third` are the right tensor in these dumps, see `comparison.three_way`. `parts` is what a capability
    needs to know of it, by the capability's name.
    """

    left: TensorRef
    right: TensorRef
    how: str
    by: str = ""
    transform: Transform = Transform()
    order: int = 0
    note: Message | None = None
    uncompared: tuple[int, int] = (0, 0)
    terms: tuple[tuple[TensorRef, ...], tuple[TensorRef, ...]] = ((), ())
    golden: TensorRef | None = None
    third: TensorRef | None = None
    parts: Mapping[str, Any] = field(default_factory=dict, hash=False)


# Reasons of right tensors that coverage does not count: the output is another's, or a weight.
UNCOUNTED = frozenset({"passed_on", "returns_inner", "dequantised_weight"})


class Unmatched(NamedTuple):
    """A tensor without a partner: on which `side` ("left" or "right"), why, and names that are like its own."""

    side: str
    ref: TensorRef
    why: Message
    candidates: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in English."""
        return say(self.why)


class Missing(NamedTuple):
    """A requested pair of which at least one side was not dumped. Fails the item `coverage`."""

    left: str
    right: str
    why: Message
    candidates: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in English."""
        return say(self.why)


@dataclass(frozen=True, slots=True)
class Pairing:
    """All pairs in execution order of the left side, both lists of unmatched tensors, and what is missing.

    `right_total` and `right_paired` count right tensors within the selection, each once. `notes` are sentences for the
    header on how the two sides meet. `lost_outputs` are the outputs of the right's model that are not compared,
    though those of the left are known: the name of each, empty where it has none, and its tensor.
    """

    pairs: tuple[Pair, ...] = ()
    unmatched_left: tuple[Unmatched, ...] = ()
    unmatched_right: tuple[Unmatched, ...] = ()
    missing: tuple[Missing, ...] = ()
    right_total: int = 0
    right_paired: int = 0
    notes: tuple[str, ...] = ()
    lost_outputs: tuple[tuple[str, TensorRef], ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the right tensors that have a partner, 0 to 1; 0 when there are none."""
        return self.right_paired / self.right_total if self.right_total else 0.0
