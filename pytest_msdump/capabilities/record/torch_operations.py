"""Functions and operations of PyTorch as they run, and which recorded calls their tensors came from.

A function is what a program calls (``functional.relu``, ``Tensor.add``). It runs operations (``aten.relu``), which
differ between devices and versions. Functions are recorded; operations show which of them compute, and what feeds what.

Tensors that share their memory share what they came from, so that views and in-place operations need no care. Memory is
known by its storage, which is kept weakly: its address is not used again as long as something refers to it.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from pytest_msdump.capabilities.record.calls import UNKNOWN, EndedCall, ended
from pytest_msdump.capabilities.record.torch_tensors import is_tensor
from pytest_msdump.core.model.dump import Edge, Operator

# Memory that nothing has been written to yet: its bits differ from run to run.
_UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
# Attributes, what starts a backward pass, and what writes a tensor as text.
_NO_FUNCTIONS = frozenset({"__get__", "__set__", "__delete__", "backward", "grad", "__repr__", "__format__"})
_UNKNOWN = (UNKNOWN,)
# Where more were joined, the rest is not known either.
_MOST_EDGES = 512
# How much is followed before what was freed is let go, and how much more before the next time. What is only kept weakly
# still holds small blocks of the allocator, between which large freed ones cannot be used again.
_FIRST_CLEANUP, _CLEANUP_GROWTH = 64, 1.25


def around_operations(run: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a context manager under which every operation goes through `run`: itself, its arguments, its keywords."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Let functions inside of the model be compiled as they are without a recording."""
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            return run(func, args, kwargs or {})

    return Operations()


@contextmanager
def around_functions(run: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    """Have every function that is called outside of any other go through `run`, as `around_operations` does."""
    import torch
    from torch import overrides

    class Functions(overrides.TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            # Code that is being compiled is traced through this line.
            return func(*args, **(kwargs or {})) if torch.compiler.is_compiling() else run(func, args, kwargs or {})

    is_overridden = overrides.has_torch_function

    def is_overridden_by_others(given: Any) -> bool:
        if not torch._C._len_torch_function_stack():
            return bool(is_overridden(given))
        with overrides._pop_mode_temporarily():
            return bool(is_overridden(given))

    # Layers that have a fast path (TransformerEncoderLayer) ask this first: a recording is no reason to leave it.
    overrides.has_torch_function = is_overridden_by_others
    try:
        with Functions():
            yield
    finally:
        overrides.has_torch_function = is_overridden


@cache
def function_name(func: Any) -> str | None:
    """Return the name of a function in a recording: ``relu``, ``add``, ``getitem``; ``None`` for those that are not."""
    name = str(getattr(func, "__name__", None) or func).partition(".")[0]
    if name in _NO_FUNCTIONS:
        return None
    return name[2:-2] if name.startswith("__") and name.endswith("__") else name


@cache
def computes(func: Any) -> bool:
    """Whether an operation makes numbers: views hold those of their tensor, and new memory has none yet."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return False
    aliases = [result.alias_info for result in schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    return not is_view and schema.name.partition("::")[2] not in _UNWRITTEN


@cache
def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    """Return place and name of the arguments that an operation writes to."""
    schema = getattr(func, "_schema", None)
    places = enumerate(() if schema is None else schema.arguments)
    return tuple((place, one.name) for place, one in places if one.alias_info is not None and one.alias_info.is_write)


class _Returned(NamedTuple):
    """A tensor as a call gave it back."""

    tensor: weakref.ref[Any]
    edge: Edge
    since: int


class _Origin:
    """Where the numbers in a storage came from, since it was last written to."""

    __slots__ = ("edges", "returned", "since", "storage")

    def __init__(self, storage: Any, edges: tuple[Edge, ...], since: int) -> None:
        self.storage, self.edges, self.since = storage, edges, since
        # Tensors in this storage that calls gave back, by their id.
        self.returned: dict[int, _Returned] = {}

    def returned_as(self, tensor: Any) -> _Returned | None:
        known = self.returned.get(id(tensor))
        return known if known is not None and known.tensor() is tensor else None

    def edges_of(self, tensor: Any) -> tuple[Edge, ...]:
        known = self.returned_as(tensor) if self.returned else None
        return self.edges if known is None else (known.edge,)


class Provenance:
    """Follows tensors from call to call; `add` gets each call of the graph when it ends."""

    def __init__(self, add: Callable[[Operator], None]) -> None:
        self._add = add
        self._origins: dict[int, _Origin] = {}
        self._parameters: set[int] = set()
        self._times: Counter[str] = Counter()
        self._now = 0
        self._cleanup_at = _FIRST_CLEANUP

    def begin(self, parameters: Sequence[Any], buffers: Sequence[Any]) -> None:
        """Begin an iteration: nothing is behind weights, and nothing will be, whatever an optimizer writes to them."""
        self.forget()
        for tensor in (*parameters, *buffers):
            self._write(tensor, ())
        self._parameters |= {storage._cdata for tensor in parameters if (storage := _storage_of(tensor)) is not None}

    def forget(self) -> None:
        """Follow no tensor any longer."""
        self._origins.clear()
        self._times.clear()
        self._parameters.clear()
        self._cleanup_at = _FIRST_CLEANUP

    def called(self, given: Sequence[Any], inside: str, *, has_inputs: bool) -> EndedCall:
        """Note that something is called with these tensors; with `has_inputs`, nothing is behind unseen ones."""
        for tensor in given if has_inputs else ():
            if self._edges_of(tensor, _UNKNOWN) is _UNKNOWN:
                self._write(tensor, ())
        self._now += 1
        return EndedCall(self._now, inside, [self._edges_of(tensor, _UNKNOWN) for tensor in given])

    def came_back(self, call: EndedCall, name: str, op_type: str, tensors: Sequence[Any]) -> None:
        """Add a call to the graph, and have what it gave back come from it, unless an inner call gave that back."""
        occurrence = self._times[name]
        self._times[name] += 1
        own = [Edge(name, slot, occurrence=occurrence) for slot in range(len(tensors))]
        edges: dict[Edge, None] = {}
        fresh: set[int] = set()
        returns_inner = True
        for tensor, edge in zip(tensors, own, strict=True):
            storage = _storage_of(tensor)
            if storage is None:
                returns_inner = False
                continue
            edges.update(dict.fromkeys(self._edges_of(tensor, ())))
            origin = self._origins.get(storage._cdata)
            known = None if origin is None else origin.returned_as(tensor)
            if known is not None and known.since >= call.began:
                continue
            returns_inner = False
            if origin is not None and storage._cdata in fresh:
                origin.edges += (edge,)
            elif origin is None or origin.since >= call.began:
                fresh.add(storage._cdata)
                origin = self._set(storage, (edge,))
            # Else it is memory from before the call that the call did not write to: only this tensor is its own.
            origin.returned[id(tensor)] = _Returned(weakref.ref(tensor), edge, self._now)
        self._add(ended(call, name, op_type, own, edges, returns_inner=returns_inner))

    def ran(self, func: Any, args: Sequence[Any], kwargs: Any, result: Any, *, is_backward: bool) -> None:
        """Have what an operation gave back, or wrote to, come from all that it was given."""
        found: dict[tuple[Edge, ...], None] = {}
        given: set[int] = set()
        for tensor in _tensors((*args, *kwargs.values()) if kwargs else args):
            storage = _storage_of(tensor)
            if storage is None:
                found[_UNKNOWN] = None
                continue
            given.add(storage._cdata)
            origin = self._origins.get(storage._cdata)
            if origin is not None:
                found[origin.edges_of(tensor)] = None
        # Gradients would come from nearly everything.
        edges = _UNKNOWN if is_backward else _joined(found)
        for place, name in _written_arguments(func):
            written = args[place] if place < len(args) else kwargs.get(name)
            for tensor in _tensors((written,)):
                self._write(tensor, edges)
        for tensor in _tensors((result,)):
            # What shares its memory with what was given is a view of it, or was written to.
            self._write(tensor, edges, without=given)

    def _write(self, tensor: Any, edges: tuple[Edge, ...], without: Iterable[int] = ()) -> None:
        storage = _storage_of(tensor)
        if storage is not None and storage._cdata not in self._parameters and storage._cdata not in without:
            self._set(storage, edges)

    def _edges_of(self, tensor: Any, unseen: tuple[Edge, ...]) -> tuple[Edge, ...]:
        storage = _storage_of(tensor)
        if storage is None:
            return _UNKNOWN
        origin = self._origins.get(storage._cdata)
        return unseen if origin is None else origin.edges_of(tensor)

    def _set(self, storage: Any, edges: tuple[Edge, ...]) -> _Origin:
        from torch.multiprocessing.reductions import StorageWeakRef

        if len(self._origins) >= self._cleanup_at:
            self._origins = {at: one for at, one in list(self._origins.items()) if not one.storage.expired()}
            self._cleanup_at = max(_FIRST_CLEANUP, int(_CLEANUP_GROWTH * len(self._origins)))
        origin = self._origins[storage._cdata] = _Origin(StorageWeakRef(storage), edges, self._now)
        return origin


def _joined(found: Iterable[tuple[Edge, ...]]) -> tuple[Edge, ...]:
    several = [edges for edges in found if edges]
    if len(several) < 2:
        return several[0] if several else ()
    edges = tuple(dict.fromkeys(edge for one in several for edge in one))
    return edges if len(edges) <= _MOST_EDGES else (*edges[:_MOST_EDGES], *_UNKNOWN)


def _storage_of(tensor: Any) -> Any:
    """Return a tensor's memory; ``None`` where it has none of its own, as sparse and nested ones."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, TypeError):
        return None


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors among arguments or results of an operation, which are tensors or lists of them."""
    for value in values:
        if is_tensor(value):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from filter(is_tensor, value)
