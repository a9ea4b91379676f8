"""Modules as addresses: the tensors that leave the module of a path, by slot; stage ``modules`` knows them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.naming import shown_names
from pytest_msdump.core.matching.selection import Address, parse_address
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.spellings import FiledName, KnownNames, spellings
from pytest_msdump.core.model.tensor import Pair, TensorKey, TensorRef
from pytest_msdump.core.text import Message, say


class Leaving(NamedTuple):
    """The tensors that leave one call of a module, by slot of the module, as positions in `Side.refs`."""

    tensors: Mapping[int, int]
    shape: tuple[int, ...] | None = None


class NamedModule(NamedTuple):
    """A module that an address means at one place of a run: what leaves each call of it, or why that is not known."""

    first: int
    calls: list[Leaving] | Message


class Modules:
    """The modules of one side by their paths; none, where no capability knows them."""

    def __init__(self, side: str, dump: Dump) -> None:
        self._name, self._dump = side, dump

    def named(self, _address: Address) -> Iterator[NamedModule]:
        """Yield the module of an address at each place that has it; of ``PATH@1`` the second call."""
        yield from ()

    def paths(self) -> Iterator[str]:
        """Yield the paths of all modules: with dots, and as names of operators begin."""
        yield from ()

    @property
    def paths_of(self) -> Mapping[TensorKey, Sequence[str]]:
        """Of each tensor the paths of the modules that it leaves, as far as that is certain."""
        return {}

    @property
    def is_trace(self) -> bool:
        """Whether the names of operators say what each does, and a number: ``add_2``."""
        return False

    def in_entry(self, _ref: TensorRef, _partner: TensorRef) -> str | None:
        """Return the module that a map entry names to pair a left tensor with a right one; ``None`` where none does."""
        return None

    def path_around(self, _ref: TensorRef) -> tuple[str, ...]:
        """Return the path of the innermost module around a tensor, or of the recorded module that it leaves."""
        return ()

    def is_inside(self, _ref: TensorRef) -> bool:
        """Whether a tensor stays inside of a module of which it is known what leaves it."""
        return False

    def addresses(self, address: Address) -> Iterator[str]:
        """Yield the tensors that leave the module of an address, or one slot of it; ConfigError where it is unknown."""
        for module in self.named(address):
            if isinstance(module.calls, Message):
                raise ConfigError(say(module.calls))
            for leaving in module.calls:
                for slot, ref in leaving.tensors.items():
                    if address.port in (None, ("output", slot)):
                        yield self._dump.refs[ref].key.address


def modules_of(side: str, dump: Dump) -> Modules:
    """Return the modules of the side of this name."""
    found: Modules = next(iter(ports.bound("modules")), Modules)(side, dump)
    return found


class Names:
    """What names and globs mean among the operators and modules of some dumps: left and right, or one alone."""

    def __init__(self, *dumps: Dump, pairs: Sequence[Pair] = ()) -> None:
        self._dumps, self._pairs = dumps, pairs
        self._known = KnownNames(lambda: (ref.key for dump in dumps for ref in (*dump.refs, *dump.older)))
        self._modules = [modules_of(side, dump) for side, dump in zip(("left", "right"), dumps, strict=False)]

    def readings(self, typed: str) -> Iterator[frozenset[str]]:
        """Yield what a name may mean, the best reading first: itself, as files have it, and what leaves a module."""
        yield frozenset((typed,))
        yield frozenset((self._known.settle(typed),))
        yield frozenset((self._own_name(typed),))
        yield frozenset(name for one in self._modules for name in one.addresses(parse_address(typed)))

    def _own_name(self, typed: str) -> str:
        """Return the name of the operator that is shown as it was typed; else what was typed."""
        return next((name for name, shown in self.shown.items() if shown == typed), typed)

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """By its own name, under which each operator of the left is shown, where that is another one."""
        return shown_names(self._dumps[0], self._pairs, self._modules[0])

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
        if typed.endswith(")") and not self._known.has(settled):
            yield glob.escape(self._own_name(typed))
        if self._modules and not self._known.has(settled):
            for one in self._modules:
                # A name may hold brackets; it means itself.
                yield from (glob.escape(name) for name in one.addresses(parse_address(typed)))
