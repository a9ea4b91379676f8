"""Where in a run the files of a directory were dumped, by the names of the directories above them.

References
----------
CANN, "Dump Data" (acl.json): ``{time}/{device}/{model}/{model id}/{data index}/``; files of single operators lie in
``{time}/{device}/`` or below it in a directory of their own. MindSpore "Dump" documentation, asynchronous dump: release
1.3 ``{device}/{net}_graph_{id}/{id}/{iteration}/``, since 1.5 ``rank_{id}/{net}/{id}/{iteration}/``, and for graphs
compiled with O2 ``{step}/`` above the tree of CANN.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.file_names import AscendName
from pytest_msdump.core.dumps.listing import Folder
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.storage.locations import absolute_path

# Sentences of `DumpBuilder.note_file` on files of a device.
MADE_OF_DUMPS = "note_made_of_dumps"
OVERFLOW_FILES = "note_overflow_files"
# Directories in a rank's, beside the nets, that hold no tensors.
RANK_FOLDERS = frozenset({".dump_metadata", "graphs", "execution_order"})
# Up to 1.3, such directories were a net's or a device's.
FIRST_FOLDERS = re.compile(r"(?:(?:.+/)?(?:device_)?[0-9]{1,9}/)?(?:graphs|execution_order)|\.metadata", re.DOTALL)


class TreePlace(NamedTuple):
    """Coordinates of a directory's files, and what else the path says of the run."""

    at: Coordinates
    labels: tuple[tuple[str, str], ...] = ()


# -- Trees of devices ------------------------------------------------------------------------------------------------

_PLAIN = "0|[1-9][0-9]{0,254}"
_LEVEL_NAMES = {
    "time": r"[0-9]{14}",
    "step": r"[0-9]{1,9}",
    "device": r"[0-9]{1,9}",
    "rank": r"rank_(?P<rank>[0-9]{1,9})",
    "model": r".+",
    "net": r".+",
    "net_graph": r"(?P<net>.+)_graph_[0-9]{1,9}",
    "model_id": r"[0-9]{1,18}",
    "graph": r"[0-9]{1,18}",
    "iteration": r"[0-9]{1,18}",
    "operator": r".+",
    # As MindSpore writes them: without zeros in front.
    "own_rank": r"rank_(?P<rank>0|[1-9][0-9]{0,8})",
    "own_graph": rf"(?P<graph>{_PLAIN})",
    # Constants of a graph are dumped once, beside its iterations.
    "own_iteration": rf"(?P<iteration>{_PLAIN})|constants",
}
_DEVICE_LEVELS = {name: re.compile(pattern, re.DOTALL) for name, pattern in _LEVEL_NAMES.items()}

# Whole trees, known by a level that nothing else looks like.
_TREES = (
    ("step", "time", "device", "model", "model_id", "iteration"),
    ("time", "device", "model", "model_id", "iteration"),
    ("rank", "net", "graph", "iteration"),
    ("device", "net_graph", "graph", "iteration"),
    ("time", "device"),
    ("time", "device", "operator"),
    ("time",),
)
# What is left of one when a directory within it was copied out.
_CUT_TREES = (
    (),
    ("iteration",),
    ("model_id", "iteration"),
    ("model", "model_id", "iteration"),
    ("device", "model", "model_id", "iteration"),
    ("device", "operator"),
)
_LABELS = (("time", "time"), ("device", "device"), ("model", "model"), ("model_id", "model id"))


def place_of(root: Path, parts: tuple[str, ...]) -> TreePlace | None:
    """Read coordinates in a device's tree from a path; ``None`` when no dump has files at such a place."""
    whole = (*_parts_above(root), *parts)
    for levels in _TREES:
        # A number above the time is the step of a dump only below the root: people number their runs, too.
        above_root = len(levels) > len(parts) and levels[0] != "step"
        if (above_root or len(levels) == len(parts)) and (found := _read_levels(levels, whole[-len(levels) :])):
            return found
    return next(filter(None, (_read_levels(levels, parts) for levels in _CUT_TREES)), None)


def _read_levels(levels: tuple[str, ...], names: tuple[str, ...]) -> TreePlace | None:
    if len(levels) != len(names):
        return None
    values: dict[str, str | None] = {}
    for level, name in zip(levels, names, strict=True):
        match = _DEVICE_LEVELS[level].fullmatch(name)
        if match is None:
            return None
        values[level] = name
        values.update(match.groupdict())
    rank = values.get("rank", values.get("device"))
    graph = values.get("graph", values.get("model_id"))
    # The step is the user's; the number inside of it is the device's own count.
    iteration = values.get("step", values.get("iteration", "0"))
    at = Coordinates(
        rank=None if rank is None else int(rank),
        net=values.get("net", values.get("model")),
        graph=None if graph is None else int(graph),
        iteration=None if iteration is None else int(iteration),
        occurrence=0,
    )
    return TreePlace(at, tuple((title, value) for level, title in _LABELS if (value := values.get(level)) is not None))


# -- Trees of MindSpore ----------------------------------------------------------------------------------------------

RANK_FOLDER = re.compile(r"rank_(0|[1-9][0-9]{0,8})")
_DEVICE = re.compile(r"(?:device_)?(0|[1-9][0-9]{0,8})")
_ITERATION = re.compile(r"iteration_(0|[1-9][0-9]{0,17})")
_DATED = re.compile(r"[0-9]{14}")
_NET_GRAPH = re.compile(r".+_graph_[0-9]{1,9}", re.DOTALL)
_OWN_LEVELS = ("own_rank", "net", "own_graph", "own_iteration")
_LEVELS = len(_OWN_LEVELS)
# net, device, iteration.
_FIRST_LEVELS = 3
# Labels that only trees of devices have: a path with numbers that MindSpore does not write is none of them.
_DEVICE_LABELS = frozenset({"time", "device"})


def mindspore_place(root: Path, parts: tuple[str, ...]) -> TreePlace | None:
    """Read coordinates in any tree that MindSpore writes; parameters and result as of `place_of`."""
    whole = (*_parts_above(root), *parts)
    own = _read_levels(_OWN_LEVELS, whole[-_LEVELS:]) if len(parts) <= _LEVELS else None
    if own is not None:
        return own
    first = _in_first_layout(whole, len(parts))
    if first is not None:
        return TreePlace(first)
    device = place_of(root, parts)
    if device is not None and _is_device_tree(whole, len(parts)):
        return device
    cut = _read_levels(_OWN_LEVELS[_LEVELS - len(parts) :], parts) if len(parts) <= _LEVELS else None
    if cut is not None:
        return cut
    return device if device and _DEVICE_LABELS & {title for title, _ in device.labels} else None


def is_first_layout(root: Path, parts: tuple[str, ...]) -> bool:
    """Whether a directory is an ``iteration_N`` of the releases 1.2 and 1.3."""
    return _in_first_layout((*_parts_above(root), *parts), len(parts)) is not None


def below_rank(root: Path, folder: Folder) -> tuple[str, ...] | None:
    """Return the directory's parts below its ``rank_R``; ``None`` when it is in none."""
    parts = folder.parts
    if parts and RANK_FOLDER.fullmatch(parts[0]):
        return parts[1:]
    above = _parts_above(root)
    return parts if above and RANK_FOLDER.fullmatch(above[-1]) else None


def _parts_above(root: Path) -> tuple[str, ...]:
    return absolute_path(root).parts[1:]


def _in_first_layout(whole: tuple[str, ...], depth: int) -> Coordinates | None:
    """Read ``net/device/iteration``, of which the last `depth` levels are below the root."""
    iteration = _ITERATION.fullmatch(whole[-1]) if whole else None
    if iteration is None or depth > _FIRST_LEVELS:
        return None
    name = whole[-2] if len(whole) > 1 else ""
    device = _DEVICE.fullmatch(name)
    if device is None and depth > 1:
        return None
    is_sure = device is not None and (depth > 1 or name != device[1])
    return Coordinates(
        rank=int(device[1]) if device and is_sure else None,
        net=whole[-3] if depth == _FIRST_LEVELS else None,
        iteration=int(iteration[1]),
        occurrence=0,
    )


def _is_device_tree(whole: tuple[str, ...], depth: int) -> bool:
    """Whether a level that only trees of devices have is among those of the directory, or a few above the root."""
    near = whole[-max(depth, _LEVELS + 1) :]
    return any(map(_DATED.fullmatch, near)) or _NET_GRAPH.fullmatch("".join(whole[-3:-2])) is not None


class FoundDump(NamedTuple):
    """A dump file, what its name says, and where in the run it was dumped."""

    folder: Path
    file: str
    name: AscendName
    at: Coordinates

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.file
