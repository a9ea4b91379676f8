"""Calls of layers: the tensors in what they take and give back, the line that makes them, and which call fed which."""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from pytest_msdump.core.model.dump import Edge, Operator

_OURS = f"{Path(__file__).parents[2]}{os.sep}"
# Deeper than any model nests its outputs; a value that holds itself ends here.
_DEEPEST = 32


def calling_line(*frameworks: str) -> str | None:
    """Return ``path:line`` of the innermost caller that is neither this package nor below a framework's folder."""
    skipped = _folders(*(getattr(sys.modules.get(name), "__file__", None) for name in frameworks))
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(skipped):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@lru_cache
def _folders(*files: str | None) -> tuple[str, ...]:
    # Names in angle brackets are of code that has no file.
    return (_OURS, "<", *(f"{Path(file).parent}{os.sep}" for file in files if file))


def bound_arguments(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments by the names that `function` has for them; by position where they do not fit it."""
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}


def leaves(value: Any, is_tensor: Callable[[Any], bool]) -> list[Any]:
    """Return the tensors in nested tuples, lists, mappings and dataclasses, in their order; others are skipped."""
    return [leaf for _, leaf in named_leaves("", value, is_tensor)]


def named_leaves(
    name: str, value: Any, is_tensor: Callable[[Any], bool], depth: int = _DEEPEST
) -> Iterator[tuple[str, Any]]:
    """Yield each tensor with its path, e.g. ``("x.1.mask", tensor)``."""
    if is_tensor(value):
        yield name, value
    elif depth:
        for key, part in _parts(value):
            yield from named_leaves(f"{name}.{key}" if name else str(key), part, is_tensor, depth - 1)


def with_leaves(
    name: str, value: Any, is_tensor: Callable[[Any], bool], change: Callable[[str, Any], Any], depth: int = _DEEPEST
) -> Any:
    """Return a value with what `change` makes of each tensor and its path, as `named_leaves` has them, in its place."""
    if is_tensor(value):
        return change(name, value)
    parts = dict(_parts(value)) if depth else {}
    made = {
        key: with_leaves(f"{name}.{key}" if name else str(key), part, is_tensor, change, depth - 1)
        for key, part in parts.items()
    }
    changed = {key: part for key, part in made.items() if part is not parts[key]}
    if not changed:
        return value
    if isinstance(value, tuple) and not isinstance(value, Mapping):
        return value._make(made.values()) if hasattr(value, "_make") else type(value)(made.values())
    whole: Any = copy(value)
    for key, part in changed.items():
        if isinstance(value, (Mapping, list)):
            whole[key] = part
        else:
            object.__setattr__(whole, key, part)
    return whole


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the named parts of a container; nothing of other values."""
    # Before dataclasses: outputs of transformers are both, and as mappings leave out what they do not have.
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or range(len(value))
        yield from zip(names, value, strict=True)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name, None)) for field in fields(value))


# What is behind such an edge is not known.
UNKNOWN = Edge("", 0)


class EndedCall(NamedTuple):
    """A call that has begun: when, the recorded module around it, and the sources of each tensor that it was given."""

    began: int
    inside: str
    given: Sequence[tuple[Edge, ...]]


class _Seen(NamedTuple):
    """A tensor that a call was given or gave back, and since when."""

    tensor: weakref.ref[Any]
    edges: tuple[Edge, ...]
    since: int


def ended(
    call: EndedCall, name: str, op_type: str, own: Sequence[Edge], sources: Iterable[Edge], *, returns_inner: bool
) -> Operator:
    """Return a call that has ended as the graph has it; `sources` are those of what it gives back as `own`."""
    first = [(*edges, None)[0] for edges in call.given]
    rest = (edge for edges in call.given for edge in edges[1:])
    further = dict.fromkeys(edge for edge in (*rest, *sources) if edge not in first and edge not in own)
    occurrence = own[0].occurrence or 0
    return Operator(
        name,
        op_type,
        inputs=(*first, *further),
        occurrence=occurrence,
        inside=call.inside,
        returns_inner=returns_inner,
    )


class IdentityGraph:
    """Knows tensors again that calls have given back; `add` gets each call of the graph when it ends."""

    def __init__(self, add: Callable[[Operator], None]) -> None:
        self._add = add
        self._seen: dict[int, _Seen] = {}
        self._times: Counter[str] = Counter()
        self._now = 0

    def begin(self) -> None:
        """Begin an iteration."""
        self._seen.clear()
        self._times.clear()

    def called(self, given: Sequence[Any], inside: str) -> EndedCall:
        """Note that a layer is called with these tensors."""
        if not self._times:
            for tensor in given:
                self._see(tensor, ())
        self._now += 1
        return EndedCall(self._now, inside, [self._edges_of(tensor) for tensor in given])

    def came_back(self, call: EndedCall, name: str, op_type: str, tensors: Sequence[Any]) -> None:
        """Add a call to the graph. A tensor that a call inside of this one gave back stays that one's."""
        if not tensors:
            return
        occurrence = self._times[name]
        self._times[name] += 1
        own = [Edge(name, slot, occurrence=occurrence) for slot in range(len(tensors))]
        sources: dict[Edge, None] = {}
        returns_inner = True
        for tensor, edge in zip(tensors, own, strict=True):
            known = self._seen.get(id(tensor))
            if known is not None and known.tensor() is tensor and known.since >= call.began:
                sources |= dict.fromkeys(known.edges)
            else:
                returns_inner = False
                self._see(tensor, (edge,))
        self._add(ended(call, name, op_type, own, sources, returns_inner=returns_inner))

    def _see(self, tensor: Any, edges: tuple[Edge, ...]) -> None:
        self._seen[id(tensor)] = _Seen(weakref.ref(tensor), edges, self._now)

    def _edges_of(self, tensor: Any) -> tuple[Edge, ...]:
        known = self._seen.get(id(tensor))
        return known.edges if known is not None and known.tensor() is tensor else (UNKNOWN,)
