"""Modules as addresses, as the scopes of operators have them (`scopes`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from pytest_msdump.capabilities.structure.scopes import Path, ScopeRun, dotted, typed_path
from pytest_msdump.capabilities.structure.traced import are_operators
from pytest_msdump.capabilities.structure.words import read_names
from pytest_msdump.core.matching.coordinates import Place, without_occurrence
from pytest_msdump.core.matching.leaving import Modules, NamedModule
from pytest_msdump.core.matching.selection import Address
from pytest_msdump.core.matching.sides import Side, index_side
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorKey, TensorRef
from pytest_msdump.core.text import Message


def runs_of(side: Side, dump: Dump) -> Mapping[Place, ScopeRun]:
    """Return the runs of a side, by place."""
    places: defaultdict[Place, list[int]] = defaultdict(list)
    for number, op in enumerate(side.ops):
        if op.kept:
            places[without_occurrence(op.common)].append(number)
    return {at: ScopeRun(side, dump, numbers) for at, numbers in places.items()}


class ModulesByScope(Modules):
    """The modules of a dump; read when a name that was typed is no operator's."""

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

    @cached_property
    def is_trace(self) -> bool:
        """Whether the names of operators say what each does, and a number: ``add_2``."""
        labels = dict.fromkeys(ref.key.op.label for ref in self._dump.refs)
        return are_operators([one.words for one in read_names([*labels]).names])

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
