"""The index of a dump, by names only, and what the run wrote about itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.kernel_lists import names_operator
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    SourceStack,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    mangle,
)

if TYPE_CHECKING:
    from pytest_msdump.core.model.tensor import Coordinates, Statistic, TensorRef, TensorSource

# A compiled model: its operators in order, its edges, and each tensor's origin in the original model.

__all__ = [
    "ArgumentDifference",
    "Edge",
    "KernelArguments",
    "Operator",
    "OperatorGraph",
    "OriginOutput",
    "SourceStack",
    "differences",
    "file_spelling",
    "joined_spelling",
]

_RUN = re.compile(r"[./\\ :]{2,}")


@lru_cache(maxsize=2**16)
def file_spelling(name: str) -> str:
    r"""Write a name of a model as dump files have it: ``.``, ``/``, ``\``, space and ``:`` become ``_`` each.

    >>> file_spelling("onnx::Conv_12/out")
    'onnx__Conv_12_out'
    """
    return mangle(name).replace(":", "_")


def joined_spelling(name: str) -> str | None:
    """Write a name with one ``_`` for a run of such characters, as some writers do; ``None`` where there is no run.

    >>> joined_spelling("onnx::Conv_12"), joined_spelling("conv__12")
    ('onnx_Conv_12', None)
    """
    # Hardly any name has a run, and two underscores are found much faster.
    if "__" not in file_spelling(name) or not _RUN.search(name):
        return None
    return file_spelling(_RUN.sub("_", name))


class Edge(NamedTuple):
    """The source of an input: output `slot` of the operator `producer`, or a weight or network input of that name.

    `occurrence` says which call of the producer it was; ``None`` for the one in the same pass of a loop, or its only
    one. An edge without a name stands for something that was not recorded: what is behind it is not known.
    """

    producer: str
    slot: int
    is_parameter: bool = False
    occurrence: int | None = None


@dataclass(frozen=True, slots=True)
class OriginOutput:
    """What an output was in the original model: which output of which operator; no name where it has no counterpart.

    A negative size in `shape` is unknown. `dtype` is that of the compiled model's output, as its JSON spells it:
    ``"DT_FLOAT16"``.
    """

    name: str = ""
    index: int = 0
    memory_format: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a compiled model, or one call of a recorded one.

    `name` is its true name, without the numbers of slices (``_lxslice3``), `id` its number in the model. `inputs` are
    by slot, ``None`` where nothing is connected, or a constant; control edges are left out, since they carry no data.
    In a recorded graph more may follow: further operators that one of the inputs came from, and operators inside of
    this one that made its outputs. `originals` are operators of the original model that are in this one, none where the
    compiler inserted it; with `is_multiop` it is one of several that share several of them. `l1_group` and `l2_group`
    are ids of its fusion groups.

    `host_inputs` and `host_outputs` are by slot what the tensors are in the network (a negative size is unknown;
    ``None`` for what is no tensor and no number), `device_inputs` and `device_outputs` what they are on the device,
    with their `memory_format`. All are empty where the graph's file lacks them. `stacks` are the calls that made it;
    several when it stands for several operators of the program. `attributes` are as the graph's file writes them
    (`dumps.graphs.ir` reads them): two forms of one graph are equal, whichever has more of them.

    `occurrence` is which call it is, of an operator that a recorded graph has several times; `scope` the path of
    modules that it belongs to, joined by dots, where its name does not say it; `inside` the recorded module whose call
    contains this one. With `returns_inner` every tensor that it gave back is one that a call inside of it gave back.
    """

    name: str
    op_type: str
    id: int = 0
    inputs: tuple[Edge | None, ...] = ()
    originals: tuple[str, ...] = ()
    outputs: tuple[OriginOutput, ...] = ()
    is_multiop: bool = False
    l1_group: str = ""
    l2_group: str = ""
    host_inputs: tuple[TensorSpec | None, ...] = ()
    host_outputs: tuple[TensorSpec | None, ...] = ()
    device_inputs: tuple[TensorSpec | None, ...] = ()
    device_outputs: tuple[TensorSpec | None, ...] = ()
    stacks: tuple[SourceStack, ...] = ()
    attributes: str = field(default="", compare=False)
    occurrence: int = 0
    scope: str = ""
    inside: str = ""
    returns_inner: bool = False


class OperatorGraph(NamedTuple):
    """All operators of a compiled model, in the order of its file, each name once; or the calls of a recorded model.

    The file's order is the order of execution. `source` is its name as messages show it; `notes` are sentences for the
    header, e.g. that a name was there twice; `parameters` are true names of weights and inputs, where the file lists
    them. `is_final` says whether it is the graph that ran: operators of an earlier one may have been renamed, fused or
    removed since. `is_recorded` says whether a recorder wrote it, with the very names of the dump: in the order in
    which calls ended, and a name as often as it was called.
    """

    operators: tuple[Operator, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    is_final: bool = True
    model: str = ""
    is_recorded: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' true names, in execution order."""
        return tuple(operator.name for operator in self.operators)


# Graphs since 2.0 write the type of a number beside it, older ones and arguments of kernels do not.
_TYPED = re.compile(r"(?:U?I(?:nt)?|B?F(?:loat)?)[0-9]{1,3}\(([^()]*)\)")
_BOOL = re.compile(r"Bool\(([01])\)")
_TRUTH = {"0": "False", "1": "True", "false": "False", "true": "True"}


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """A kernel's arguments by name, as the file `source` writes them; `note` says why they cannot be read."""

    source: str
    values: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class ArgumentDifference(NamedTuple):
    """A value that two sides do not share: `kind` is "argument" or "attribute"; ``None`` where a side has none."""

    kind: str
    name: str
    left: str | None
    right: str | None


def differences(kind: str, left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[ArgumentDifference]:
    """Yield what differs, by name; how releases write numbers and texts makes no difference."""
    for name in sorted({*left, *right}):
        one, other = left.get(name), right.get(name)
        if one is None or other is None or _plain(one) != _plain(other):
            yield ArgumentDifference(kind, name, one, other)


def _plain(value: str) -> str:
    text = _TYPED.sub(r"\1", _BOOL.sub(lambda match: _TRUTH[match[1]], value.replace('"', "")))
    return _TRUTH.get(text, text) if text in ("true", "false") else "".join(text.split())


class PartialRun(NamedTuple):
    """A second run into the directory of a first one that wrote only `newer` of the `tensors` that are compared.

    `since` has, for each newer file, the time of the oldest file of the same tensor, which counts for the order: the
    operator keeps its place in the first run.
    """

    newer: int
    tensors: int
    since: Mapping[TensorSource, int]

    @classmethod
    def total(cls, found: Iterable[PartialRun | None]) -> PartialRun | None:
        """Add up those of several iterations; ``None`` where there are none."""
        runs = [one for one in found if one is not None]
        if not runs:
            return None
        since = {source: time for one in runs for source, time in one.since.items()}
        return cls(sum(one.newer for one in runs), sum(one.tensors for one in runs), since)


@dataclass(frozen=True, slots=True)
class Dump:
    """The index of a directory or file, made without opening a tensor file.

    `root` is the directory or file, `reader` its reader, e.g. ``"mindspore"``; ``"empty"`` for a folder without files.
    `refs` are all tensors to compare, in execution order: (iteration, rank, net, graph, place, occurrence), then
    Parameters and operators without a place, by time, then name; `older` those of earlier runs into the same directory,
    each replaced by a newer file of the same tensor. `unexplained` are files that no reader knows, relative to `root`.

    `labels` are facts of the run, e.g. ``("ms_version", "2.10.0")`` or a coordinate that has one value; `notes` are
    sentences for the header. `graphs` are those of the run with their coordinates, of which an unset one stands for
    every value. `run` is what the files beside the tensors say of the run. `manifest` is of a dump that this package
    recorded, without its tensors and its graph; `incomplete` says in a clause why a recording is not a whole one.
    Where each rank has a recording of its own, `ranks` has their manifests, and `manifest` only what is no rank's own.
    `partial` is set where a later run into the same directory wrote some of the tensors only. `around` has by call the
    nearest call of a module around it, where a dump knows that and no more of its graph; it ended later.
    """

    root: Path
    reader: str
    refs: tuple[TensorRef, ...] = ()
    older: tuple[TensorRef, ...] = ()
    unexplained: tuple[Path, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())
    graphs: tuple[tuple[Coordinates, OperatorGraph], ...] = ()
    run: RunFacts | None = None
    manifest: Manifest | None = None
    ranks: Mapping[int, Manifest] = field(default_factory=dict)
    incomplete: str = ""
    partial: PartialRun | None = None
    around: Mapping[OpKey, OpKey] = field(default_factory=dict)

    @property
    def operators(self) -> int:
        """Number of operators that have a tensor to compare; each run of an operator counts."""
        return len({ref.key.op for ref in self.refs})

    def manifest_of(self, rank: int | None) -> Manifest | None:
        """Return the manifest of a rank; that of the dump where ranks have none of their own."""
        return self.manifest if rank is None else self.ranks.get(rank, self.manifest)

    @property
    def compiled_graphs(self) -> tuple[OperatorGraph, ...]:
        """Graphs that a framework wrote. A recorder's has the names of the dump itself, and only what was recorded."""
        return tuple(graph for _, graph in self.graphs if not graph.is_recorded)


MANIFEST_FILE = "msdump.json"
# Beside it while a recording goes on: a line of JSON for each file. Without a complete manifest, the dump is not whole.
JOURNAL_FILE = "msdump.journal"
ARCHIVE_FILE = "tensors.npz"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One file: the true name of its operator, which of its inputs or outputs, and ``path:line`` of what made it.

    `dtype` is the logical type where the file's own header lacks it: bfloat16, the 8-bit floats, complex32. With `norm`
    the file holds a sketch of a tensor that was not saved: `norm` is that of its finite elements, `shape` its shape,
    `statistics` what `facts.metrics.STATISTICS` lists. With `member` it has no file: that of this path has its sketch.
    `placement` is how a tensor is cut over ranks of which this one holds its part, in the dims language; its axes are
    the groups of the manifest.
    """

    op: str
    io: str = "output"
    slot: int = 0
    dtype: str | None = None
    op_type: str | None = None
    line: str | None = None
    norm: float | None = None
    shape: tuple[int, ...] | None = None
    statistics: Mapping[str, Statistic] = field(default_factory=dict, hash=False)
    member: str | None = None
    placement: str = ""


@dataclass(frozen=True, slots=True)
class DistributedRank:
    """One process of a distributed run; `groups` are the ranks of its groups, its own among them, by name of the axis.

    `world_size` is how many processes there were, ``None`` where that is not known. Where the ranks of its groups are
    not, `numbers` has by axis which one of them it is, and of how many.
    """

    rank: int
    world_size: int | None = None
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def coordinates(self) -> Mapping[str, tuple[int, int]]:
        """Its number along each axis, and the size of that axis."""
        known = {axis: (ranks.index(self.rank), len(ranks)) for axis, ranks in self.groups.items()}
        return known | dict(self.numbers)

    @property
    def folder(self) -> str:
        """The name of its folder in the dump of the whole run."""
        return f"rank_{self.rank}"


class ModelOutput(NamedTuple):
    """An output of a recorded model: its name, empty where it has none, and the operator and slot that it is.

    `op` is empty of an output that no operator makes.
    """

    name: str
    op: str
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``msdump.json``.

    `dtype_policy` is e.g. ``"autocast bfloat16"``, empty for the model's own types; `seeds` are by what they seed;
    `inputs` and `weights` are digests by name, see `record.manifest`; `command` is what was started, as its arguments;
    `time` is when the dump was finished: ISO 8601, UTC. `complete` is false from the start of a recording until it ends
    well. `key` is the digest of everything that a kept reference depends on. `notes` are sentences that every
    comparison shows. `distributed` is set for one process of several. `perturbation` is set where inputs and
    weights were perturbed: `what` was, by how much of each value (`u`), and the `seed`. `tensors` are by path of the
    file below the dump's folder, and `graph` has by iteration the calls of operators in the order in which they ended.
    `outputs` are those of the model itself, in its order; `settings` change numbers: precision, threads, layouts.
    """

    schema_version: int = SCHEMA_VERSION
    framework: str = ""
    version: str = ""
    device: str = ""
    dtype_policy: str = ""
    seeds: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    time: str = ""
    complete: bool = True
    key: str = ""
    notes: tuple[str, ...] = ()
    distributed: DistributedRank | None = None
    perturbation: Mapping[str, Any] | None = None
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)
    graph: Mapping[int, Sequence[Operator]] = field(default_factory=dict)
    outputs: tuple[ModelOutput, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


EVERY_ITERATION = "all"


@dataclass(frozen=True, slots=True)
class DumpConfiguration:
    """Which tensors a run was configured to dump; `source` is the file that says so.

    `rank` is whose it is, ``None`` for every rank's. `io` is ``"all"``, ``"input"`` or ``"output"``. `iterations` is
    ``"all"``, or numbers and ranges as MindSpore writes them, ``"0|5-8"``. Without `kernels` every operator is dumped;
    with `by_script` the script itself names what is (`set_dump`). `scene` is empty, ``"overflow"`` (operators that
    overflowed only) or ``"exception"`` (inputs of the operator that raised an exception only). `sample` is how large a
    sample of each tensor was saved at most.
    """

    source: str
    rank: int | None = None
    io: str = "all"
    iterations: str = EVERY_ITERATION
    kernels: tuple[str, ...] = ()
    by_script: bool = False
    scene: str = ""
    sample: int | None = None

    def selects_iteration(self, iteration: int) -> bool:
        """Whether an iteration is dumped. A part that MindSpore does not understand selects nothing, as with it."""
        if self.iterations == EVERY_ITERATION:
            return True
        return any(_is_within(iteration, part) for part in self.iterations.split("|"))

    def selects_io(self, io: str) -> bool:
        """Whether ``"input"`` or ``"output"`` tensors are dumped."""
        return self.io in ("all", io)

    def selects_operator(self, op: OpKey) -> bool | None:
        """Whether the list of operators names this one; ``None`` where its name leaves it open."""
        if not self.kernels:
            return True
        is_true_name = op.true_name is not None or "/" in op.name
        answers = [
            names_operator(entry, name=op.label, op_type=op.op_type, is_true_name=is_true_name)
            for entry in self.kernels
        ]
        if True in answers:
            return True
        return None if None in answers else False

    @property
    def kernels_text(self) -> str:
        """The list of operators for a sentence, at most three of them."""
        return listed(self.kernels, 3)


class RunFacts(NamedTuple):
    """What files beside a dump say of its run, ``None`` where unknown; ranks may have configurations of their own."""

    version: str | None = None
    device: str | None = None
    configurations: tuple[DumpConfiguration, ...] = ()

    def configuration(self, rank: int | None) -> DumpConfiguration | None:
        """Return the configuration of a rank; ``None`` where it is unknown."""
        own = [one for one in self.configurations if one.rank is None or one.rank == rank]
        if not own and rank is None:
            own = list(self.configurations)
        # They agree where only their sources and ranks differ.
        return own[0] if len({replace(one, source="", rank=None) for one in own}) == 1 else None


def _is_within(iteration: int, part: str) -> bool:
    first, dash, last = part.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(first) > 18 or len(last) > 18:
        return False
    return int(first) <= iteration <= int(last or first)


# The order of a dump's tensors.

# The operator type of weights and network inputs. They are written after the step, so they have no place in it.
PARAMETER = "Parameter"

# Place and time of what has neither.
_LISTED = (1, 0)
_NUMBER = re.compile(r"([0-9]+)")


def in_order(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Sort tensors as reports list them: by iteration, rank, net, graph, place, occurrence.

    Within an operator inputs come before outputs, by slot. Tensors without a place follow the others of their
    iteration, by time, then name: weights are written after the step, and the next step starts from them. Where there
    is no time either, numbers in names count as numbers. The same files always give the same order.
    """
    return tuple(sorted(refs, key=_sort_key))


def placed_by_time(refs: Iterable[TensorRef], partial: PartialRun | None = None) -> tuple[TensorRef, ...]:
    """Place every operator by the time of its earliest output (or input) within its graph and iteration, and sort.

    Parameters have no place. `partial` is a second run that wrote only some of the tensors: their operators keep the
    places of the first run.
    """
    since = partial.since if partial else {}
    parameters: list[TensorRef] = []
    runs: dict[tuple[Any, ...], dict[tuple[str, str], list[TensorRef]]] = {}
    for ref in refs:
        op = ref.key.op
        if op.op_type == PARAMETER:
            parameters.append(placed_at(ref, None))
        else:
            operators = runs.setdefault(_run_key(op.at), {})
            operators.setdefault((op.name, op.op_type or ""), []).append(ref)
    placed: list[TensorRef] = []
    for _, operators in sorted(runs.items()):
        times = sorted((_earliest(group, since), operator) for operator, group in operators.items())
        for place, (_, operator) in enumerate(times):
            group = [placed_at(ref, place) for ref in operators[operator]]
            placed += group if len(group) == 1 else in_order(group)
    return in_order((*placed, *parameters)) if parameters else tuple(placed)


def placed_at(ref: TensorRef, place: int | None, *, key: TensorKey | None = None) -> TensorRef:
    """Return the tensor with another place of its operator in the execution order, or another key as well."""
    if ref.place == place and key is None:
        return ref
    # Spelled out: a dump has very many tensors, and `dataclasses.replace` takes three times as long.
    return TensorRef(
        key or ref.key,
        ref.spec,
        ref.source,
        ref.reader,
        place,
        ref.line,
        ref.overflows,
        ref.statistics,
        ref.sample,
        ref.computed,
        ref.sketch,
        ref.placement,
        ref.parts,
    )


def _earliest(group: list[TensorRef], since: Mapping[TensorSource, int]) -> int:
    """Return the earliest time of an operator's outputs, or of its inputs where there are no others."""
    if len(group) == 1 and not since:
        return group[0].source.timestamp or 0
    # False sorts before True: any output wins over every input.
    return min((ref.key.io != "output", since.get(ref.source, ref.source.timestamp or 0)) for ref in group)[1]


def _sort_key(ref: TensorRef) -> tuple[Any, ...]:
    key, at = ref.key, ref.key.op.at
    iteration, *where = _run_key(at)
    time = ref.source.timestamp or 0
    place = (1, time) if ref.place is None else (0, *where, ref.place, _unknown_last(at.occurrence))
    return (
        iteration,
        place,
        _natural(key.op.name) if place == _LISTED else key.op.name,
        key.op.op_type or "",
        key.io,
        key.slot,
        time,
        str(ref.source.folder),
        ref.source.name,
    )


def _natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Return a sort key with which ``conv2`` is before ``conv10``; numbers may be longer than `int` takes."""
    parts: list[str | tuple[int, str]] = [*_NUMBER.split(name)]
    for place in range(1, len(parts), 2):
        digits = str(parts[place])
        parts[place] = (len(digits.lstrip("0")), digits.lstrip("0"))
    return parts, name


def _run_key(at: Coordinates) -> tuple[Any, ...]:
    # As `_unknown_last` has it, without a call for each: a dump has very many tensors.
    return (
        (at.iteration is None, at.iteration or 0),
        (at.rank is None, at.rank or 0),
        (at.net is None, at.net or ""),
        (at.graph is None, at.graph or 0),
    )


def _unknown_last(value: int | str | None) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)
