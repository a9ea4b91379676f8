"""Modules as addresses: the tensors that leave the module of a path, by slot (`matching.scopes`)."""

from __future__ import annotations

import glob
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.capabilities.structure.scopes import Leaving, Path, ScopeRun, dotted, typed_path
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.coordinates import Place, without_occurrence
from pytest_msdump.core.matching.selection import Address, parse_address
from pytest_msdump.core.matching.sides import Side, index_side
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.spellings import FiledName, KnownNames, spellings
from pytest_msdump.core.model.tensor import Pair, TensorKey, TensorRef
from pytest_msdump.core.text import Message, say


def runs_of(side: Side, dump: Dump) -> Mapping[Place, ScopeRun]:
    """Return the runs of a side, by place."""
    places: defaultdict[Place, list[int]] = defaultdict(list)
    for number, op in enumerate(side.ops):
        if op.kept:
            places[without_occurrence(op.common)].append(number)
    return {at: ScopeRun(side, dump, numbers) for at, numbers in places.items()}


class NamedModule(NamedTuple):
    """A module that an address means at one place of a run: what leaves each call of it, or why that is not known."""

    first: int
    calls: list[Leaving] | Message


class Modules:
    """The modules of a dump by their paths; made when a name that was typed is no operator's."""

    def __init__(self, side: str, dump: Dump) -> None:
        self._name, self._dump = side, dump

    @cached_property
    def _side(self) -> Side:
        # Whatever is selected: numbers of operators and tensors are those of any index of this dump.
        directions = frozenset({"input", "output"})
        return index_side(
            self._name, self._dump.refs, directions=directions, common=lambda at: at, keeps=lambda _: True
        )

    @cached_property
    def _runs(self) -> tuple[ScopeRun, ...]:
        return tuple(runs_of(self._side, self._dump).values())

    def named(self, address: Address) -> Iterator[NamedModule]:
        """Yield the module of an address at each place that has it; of ``PATH@1`` the second call."""
        for run in self._runs:
            for reading in (address, address.numbered):
                path = None if reading is None else typed_path(reading.op)
                if reading is not None and path is not None and (path in run.modules or path in run.members):
                    yield NamedModule(run.numbers[0], run.leaving(path, reading.occurrence))
                    break

    def addresses(self, address: Address) -> Iterator[str]:
        """Yield the tensors that leave the module of an address, or one slot of it; ConfigError where it is unknown."""
        for module in self.named(address):
            if isinstance(module.calls, Message):
                raise ConfigError(say(module.calls))
            for leaving in module.calls:
                for slot, ref in leaving.tensors.items():
                    if address.port in (None, ("output", slot)):
                        yield self._side.refs[ref].key.address

    @cached_property
    def paths_of(self) -> Mapping[TensorKey, Sequence[str]]:
        """Of each tensor the paths of the modules that it leaves, as far as that is certain."""
        found: defaultdict[TensorKey, list[str]] = defaultdict(list)
        for run in self._runs:
            for path in filter(None, (*run.modules, *run.members)):
                calls = run.leaving(path)
                for leaving in () if isinstance(calls, Message) else calls:
                    for ref in leaving.tensors.values():
                        found[self._side.refs[ref].key].append(dotted(path))
        return found

    def address_of(self, ref: TensorRef, *, depth: int) -> str | None:
        """Return the module that a tensor is all of what leaves, e.g. ``layer0.act`` or ``act@1``; else ``None``."""
        found: dict[int, str] = {}
        for run, own, number in self._around(ref):
            for end in range(len(own), 0, -1):
                calls = run.leaving(own[:end])
                several = calls.parameters["n"] if isinstance(calls, Message) and calls.code == "scope_called" else 0
                for call in range(several) if isinstance(several, int) else ():
                    leaving = run.leaving(own[:end], call)
                    if not isinstance(leaving, Message) and [dict(one.tensors) for one in leaving] == [{0: number}]:
                        found[end] = f"{dotted(own[:end])}@{call}"
                if not isinstance(calls, Message) and [dict(one.tensors) for one in calls] == [{0: number}]:
                    found[end] = dotted(own[:end])
        return found.get(depth) or next(iter(found.values()), None)

    def in_entry(self, ref: TensorRef, partner: TensorRef) -> str | None:
        """Return the module that a map entry names to pair a left tensor with `partner`; ``None`` where none does."""
        if not ref.key.io == partner.key.io == "output" or partner.key.slot:
            return None
        return self.address_of(ref, depth=len(re.split("[./]", partner.key.op.label)))

    def path_around(self, ref: TensorRef) -> Path:
        """Return the path of the innermost module around a tensor, or of the recorded module that it leaves."""
        return next((own for _, own, _ in self._around(ref)), None) or typed_path(ref.key.op.label) or ()

    def is_inside(self, ref: TensorRef) -> bool:
        """Whether a tensor stays inside of a module of which it is known what leaves it."""
        return any(
            not isinstance(calls := run.leaving(own), Message)
            and not any(number in one.tensors.values() for one in calls)
            for run, own, number in self._around(ref)
            if own
        )

    def _around(self, ref: TensorRef) -> Iterator[tuple[ScopeRun, Path, int]]:
        """Yield the runs that a tensor is in, with the innermost module around it, and its number."""
        number = self._numbers.get(id(ref))
        for run in self._runs if number is not None else ():
            step = next((one for one in run.steps if number is not None and self._side.op_of[number] in one.ops), None)
            if step is not None and number is not None:
                yield run, step.scope.path or (), number

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {id(ref): number for number, ref in enumerate(self._side.refs)}

    def paths(self) -> Iterator[str]:
        """Yield the paths of all modules: with dots, and as names of operators begin."""
        for run in self._runs:
            yield from (dotted(path) for path in (*run.modules, *run.members) if path)
            for step in run.steps:
                parts = step.name.split("/")
                yield from ("/".join(parts[:end]) for end in range(1, len(parts)))


class Names:
    """What names and globs mean among the operators and modules of some dumps: left and right, or one alone."""

    def __init__(self, *dumps: Dump) -> None:
        self._known = KnownNames(lambda: (ref.key for dump in dumps for ref in (*dump.refs, *dump.older)))
        self._modules = [Modules(side, dump) for side, dump in zip(("left", "right"), dumps, strict=False)]

    def readings(self, typed: str) -> Iterator[frozenset[str]]:
        """Yield what a name may mean, the best reading first: itself, as files have it, and what leaves a module."""
        yield frozenset((typed,))
        yield frozenset((self._known.settle(typed),))
        yield frozenset(name for one in self._modules for name in one.addresses(parse_address(typed)))

    def keywords(self, pair: Pair) -> Iterator[str]:
        """Yield all names of a pair, in which pytest's ``-k`` looks for a part."""
        for ref, modules in zip((pair.left, pair.right), self._modules, strict=True):
            op = ref.key.op
            yield from spellings(op)
            if op.true_name is None and op.op_type:
                # In a set with the name of the item it has to be another one.
                yield FiledName(f"{op.op_type}.{op.name}")
            yield from modules.paths_of.get(ref.key, ())

    def globs(self, typed: str) -> Iterator[str]:
        """Yield the globs that a name or glob stands for: itself as names are spelled, and what leaves a module."""
        settled = self._known.settle(typed)
        yield settled
        if self._modules and not self._known.has(settled):
            for one in self._modules:
                # A name may hold brackets; it means itself.
                yield from (glob.escape(name) for name in one.addresses(parse_address(typed)))
