"""Whether a region is as small as what was compared allows, by the graph that PyTorch's autograd has of the run.

The tensors of a recording are found in that graph by their values. From the first wrong tensor the way goes up, and
stops at what the region begins after. A right tensor that it meets, made before the wrong line had ended, is an inner
border: the region could begin there.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

# A node of autograd, and which of its outputs.
Edge = tuple[Any, int]


@dataclass
class Made:
    """What a run made: edges and times by the values of tensors, and of what modules were given and gave."""

    by_values: dict[bytes, list[tuple[Edge, int]]] = field(default_factory=lambda: defaultdict(list))
    given: dict[str, list[tuple[Edge, int]]] = field(default_factory=lambda: defaultdict(list))
    gave: dict[str, list[tuple[Edge, int]]] = field(default_factory=lambda: defaultdict(list))


class Watched(TorchFunctionMode):
    """Notes each tensor that a function of PyTorch returns."""

    def __init__(self, made: Made, clock: Iterator[int]) -> None:
        super().__init__()
        self._made, self._clock = made, clock

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        returned = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            for one in tensors_in(returned):
                if (edge := edge_of(one)) is not None:
                    self._made.by_values[digest(one.detach().numpy())].append((edge, next(self._clock)))
        return returned


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of what a module gives or is given."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (found for one in value.values() for found in tensors_in(one))
    elif isinstance(value, (tuple, list)):
        yield from (found for one in value for found in tensors_in(one))


def edge_of(tensor: torch.Tensor) -> Edge | None:
    """Return where a tensor comes from, if that is known."""
    return None if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


def digest(values: np.ndarray[Any, Any]) -> bytes:
    """Return what the values are known by, in whatever shape."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()


class Borders:
    """Looks for right tensors inside of the regions of one comparison; `end` is when the wrong line had ended."""

    def __init__(self, records: Collection[Any], left: Path, right: Path, made: tuple[Made, Made], end: int) -> None:
        self._folders, self._made, self._end = (left, right), made, end
        self._passing, self._failing = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
        for one in records:
            name, io, _ = one["left"]["address"].rsplit(":", 2)
            kept = {"pass": self._passing, "warn": {}}.get(one["verdict"], self._failing)
            kept.setdefault(name if io == "output" else f"{name}:input", []).append(one)

    def inside(self, cause: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return right tensors in a cause's region: all, and those that every way to the first wrong one leads through.

        Every way in both runs: where a residual is left out, the reference shows where it was.
        """
        label = cause["left"]["address"].rsplit(":", 2)[0]
        region = (cause.get("role_why") or {}).get("region") or {
            "module": label,
            "after": [],
            "end": label,
            "io": "output",
        }
        begins = [one.partition(":input:")[0] + ":input" * (":input:" in one) for one in region["after"]]
        # What a module was given, where that was recorded, is a border that goes without saying.
        begins += [f"{region['module']}:input", f"{label}:input"]
        ways = [self._way(side, begins, region["end"], region["io"]) for side in (0, 1)]
        first, stops = ways[0]
        is_first_seen = (cause.get("role_why") or {}).get("certainty") == "first_seen"
        # Without a graph a region begins at a time.
        ended = [time for name in begins for _, time in self._made[0].gave[name] if is_first_seen]
        since = max(ended, default=-1)
        within = set(_up_to(first - stops, stops)) - stops
        inside = f"{region['module']}." if region["module"] else ""
        found, sure = [], []
        for name in self._passing.keys() - self._failing.keys() - {*begins, region["end"]}:
            if name.endswith(":input") or not name.replace("/", ".").startswith(inside):
                continue
            if {edge for edge, time in self._places(0, name) if edge in within and since < time < self._end} - first:
                found.append(name)
                sure += [name] if all(self._leads_all(side, name, *way) for side, way in enumerate(ways)) else []
        return sorted(found), sorted(sure)

    def _places(self, side: int, name: str, *, wrong: bool = False) -> Iterator[tuple[Edge, int]]:
        for one in (self._failing if wrong else self._passing)[name]:
            file = self._folders[side] / one["right" if side else "left"]["file"]
            yield from self._made[side].by_values[digest(np.load(file))]

    def _way(self, side: int, begins: Collection[str], end: str, io: str) -> tuple[set[Edge], set[Edge]]:
        """Return the first wrong tensor, and where the way up from it stops."""
        made = self._made[side]
        stops = {edge for name in begins for edge, _ in (*self._places(side, name), *made.gave[name])}
        ends = (made.given if io == "input" else made.gave)[end]
        ends = [one for one in ends if side or one[1] >= self._end] or list(self._places(side, end, wrong=True))
        start = min((time for _, time in ends), default=0)
        return {edge for edge, time in ends if time == start}, stops

    def _leads_all(self, side: int, name: str, first: set[Edge], stops: set[Edge]) -> bool:
        """Whether nothing that leads to a tensor leads to the first wrong one otherwise."""
        at = {edge for edge, _ in self._places(side, name)} - first
        return not (set(_up_to(at, stops)) - at) & (set(_up_to(first - at, stops | at)) - at)


def _up_to(first: Iterable[Edge], ends: Collection[Edge]) -> Iterator[Edge]:
    """Yield what leads to some edges, and among that no more than the ends of its ways up."""
    waiting, seen = list(first), set(first)
    while waiting:
        edge = waiting.pop()
        yield edge
        for above in edge[0].next_functions if edge not in ends else ():
            if above[0] is not None and above not in seen:
                seen.add(above)
                waiting.append(above)
