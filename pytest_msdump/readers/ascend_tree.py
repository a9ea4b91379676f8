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

from pytest_msdump.model.tensor import Coordinates
from pytest_msdump.storage.remote import spelled_out

__all__ = ["Place", "place_of"]

_PATTERNS = {
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
}
_LEVELS = {name: re.compile(pattern, re.DOTALL) for name, pattern in _PATTERNS.items()}

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
# What is left of one when a directory within it was copied out, by how many levels are left.
_CUT = (
    (),
    ("iteration",),
    ("model_id", "iteration"),
    ("model", "model_id", "iteration"),
    ("device", "model", "model_id", "iteration"),
)
_SINGLE_OPERATOR = ("device", "operator")


class Place(NamedTuple):
    """Coordinates of a directory's files, and what else the path tells of the run."""

    at: Coordinates
    labels: tuple[tuple[str, str], ...] = ()


def place_of(root: Path, parts: tuple[str, ...]) -> Place | None:
    """Read coordinates from a path.

    Parameters
    ----------
    root : Path
        What the user pointed at. Directories above it count only when they make a whole tree with those below.
    parts : tuple of str
        Directories from `root` down to the files.

    Returns
    -------
    Place or None
        ``None`` when no dump has files at such a place. A directory of files alone is iteration 0.
    """
    above = spelled_out(root).parts[1:]
    whole = (*above, *parts)
    for levels in _TREES:
        # A number above the time is the step of a dump only where it is part of it: runs are numbered by people, too.
        above_root = len(levels) > len(parts) and levels[0] != "step"
        if (above_root or len(levels) == len(parts)) and (found := _read(levels, whole[-len(levels) :])):
            return found
    if len(parts) < len(_CUT) and (found := _read(_CUT[len(parts)], parts)):
        return found
    return _read(_SINGLE_OPERATOR, parts) if len(parts) == len(_SINGLE_OPERATOR) else None


def _read(levels: tuple[str, ...], names: tuple[str, ...]) -> Place | None:
    values: dict[str, str] = {}
    if len(levels) != len(names):
        return None
    for level, name in zip(levels, names, strict=True):
        match = _LEVELS[level].fullmatch(name)
        if match is None:
            return None
        values[level] = name
        values.update(match.groupdict())
    return _place(values)


def _place(values: dict[str, str]) -> Place:
    rank = values.get("rank", values.get("device"))
    graph = values.get("graph", values.get("model_id"))
    # The step is the user's; the number inside of it is the device's own count.
    iteration = values.get("step", values.get("iteration", "0"))
    at = Coordinates(
        rank=None if rank is None else int(rank),
        net=values.get("net", values.get("model")),
        graph=None if graph is None else int(graph),
        iteration=int(iteration),
        occurrence=0,
    )
    labels = (("time", "time"), ("device", "device"), ("model", "model"), ("model_id", "model id"))
    return Place(at, tuple((title, values[level]) for level, title in labels if level in values))
