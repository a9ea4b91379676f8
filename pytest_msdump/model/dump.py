"""A dump as its index: what is there, by name only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_msdump.model.graph import OperatorGraph
    from pytest_msdump.model.manifest import Manifest
    from pytest_msdump.model.run import RunFacts
    from pytest_msdump.model.tensor import Coordinates, TensorRef, TensorSource

__all__ = ["Dump", "PartialRun"]


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
    """All that one directory (or file) holds, indexed without opening a tensor file.

    Parameters
    ----------
    root : Path
        What the user pointed at.
    reader : str
        The reader that knew it, e.g. ``"mindspore"``; ``"empty"`` for a folder without files.
    refs : tuple of TensorRef
        Every tensor to compare, in execution order: (iteration, rank, net, graph, place, occurrence), then Parameters
        and operators without a place, by time, then name.
    older : tuple of TensorRef
        Tensors of earlier runs into the same directory, each replaced by a newer file of the same tensor.
    unexplained : tuple of Path
        Files that no reader knows, relative to `root`. Nothing is dropped in silence.
    labels : tuple of (str, str)
        What is known of the run, e.g. ``("ms_version", "2.10.0")`` or a coordinate that has one value.
    notes : tuple of str
        Sentences for the header, e.g. that a re-run was found.
    graphs : tuple of (Coordinates, OperatorGraph)
        Graphs of the run, and whose they are; a coordinate that is not set stands for every value.
    run : RunFacts, optional
        What the run says of itself; ``None`` where nothing does.
    manifest : Manifest, optional
        Of a dump that this package recorded; without its list of tensors, which `refs` are made of.
    incomplete : str
        Why a recording is not a whole one, in a clause; empty otherwise.
    partial : PartialRun, optional
        Set where a later run into the same directory wrote some of the tensors only.
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
    incomplete: str = ""
    partial: PartialRun | None = None

    @property
    def operators(self) -> int:
        """Number of operators that have a tensor to compare, each run of one counted by itself."""
        refs = self.refs
        # Keys are hashed in Python, and mostly no name is there twice.
        is_alone = len({ref.key.op.name for ref in refs}) == len(refs)
        return len(refs) if is_alone else len({ref.key.op for ref in refs})
