"""The index of a dump, by names only, and what the run wrote about itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.kernel_lists import names_operator
from pytest_msdump.core.model.tensor import OpKey

if TYPE_CHECKING:
    from pytest_msdump.core.model.graph import Operator, OperatorGraph
    from pytest_msdump.core.model.tensor import Coordinates, Statistic, TensorRef, TensorSource


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
    `outputs` are those of the model itself, in its order.
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


@dataclass(frozen=True, slots=True)
class RunFacts:
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
