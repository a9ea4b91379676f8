"""Modules as addresses: the tensors that leave the module of a path, by slot (`matching.scopes`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.matching.addresses import Address
from pytest_msdump.matching.scopes import Leaving, Path, Run, dotted, runs_of
from pytest_msdump.matching.sides import Side, index_side
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.text import Message


class NamedModule(NamedTuple):
    """A module that an address means at one place of a run: what leaves each call of it, or why that is not known.

    `first` is an operator of that run, as a number in `Side.ops`.
    """

    path: Path
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
    def _runs(self) -> tuple[Run, ...]:
        return tuple(runs_of(self._side, self._dump).values())

    def named(self, address: Address) -> Iterator[NamedModule]:
        """Yield the module of an address at each place that has it; of ``PATH@1`` the second call."""
        for run in self._runs:
            for reading in (address, address.numbered):
                path = None if reading is None else run.find(reading.op)
                if reading is not None and path is not None:
                    yield NamedModule(path, run.numbers[0], run.leaving(path, reading.occurrence))
                    break

    def address_of(self, ref: TensorRef, *, depth: int) -> str | None:
        """Return the module that a tensor is all of what leaves, e.g. ``layer0.act`` or ``act@1``; else ``None``.

        Of modules inside each other it is the one of that many names, else the innermost.
        """
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

    def is_inside(self, ref: TensorRef) -> bool:
        """Whether a tensor stays inside of a module of which it is known what leaves it."""
        return any(
            not isinstance(calls := run.leaving(own), Message)
            and not any(number in one.tensors.values() for one in calls)
            for run, own, number in self._around(ref)
            if own
        )

    def _around(self, ref: TensorRef) -> Iterator[tuple[Run, Path, int]]:
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
