"""Which names an operator has, and which of them a name or glob means that a person typed: one answer for all places.

A name that is some operator's as it was typed means that one. Any other is compared as dump files write names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import cached_property, lru_cache

from pytest_msdump.core.model.tensor import OpKey, TensorKey, mangle

_WILDCARDS = frozenset("*?[")
# MindSpore 1.3 writes a slash of a name so.
SCOPE = "--"


def as_filed(typed: str) -> str:
    """Write a typed name or glob as dump files write the names of operators.

    >>> as_filed("Default/fc*/BiasAdd-op0"), as_filed("Default--fc--Add-op1")
    ('Default_fc*_BiasAdd-op0', 'Default_fc_Add-op1')
    """
    return mangle(typed.replace(SCOPE, "/"))


def spellings(op: OpKey) -> Sequence[str]:
    """Return the true name, the file's and the true one as files write it, each once."""
    label = op.label
    return tuple(dict.fromkeys((label, op.name, mangle(label))))


def addresses(key: TensorKey) -> Sequence[str]:
    """Return every way to write a tensor, with and without its slot."""
    names = spellings(key.op)
    return (*names, *(f"{name}:{key.io}:{key.slot}" for name in names))


def typed_addresses(key: TensorKey) -> Sequence[str]:
    """Return them, and with the type of the operator before each."""
    names = addresses(key)
    return (*names, *(f"{key.op.op_type}.{name}" for name in names)) if key.op.op_type else names


def glob_matches(glob: str, names: Iterable[str]) -> bool:
    """Whether one of the names is what the glob says."""
    if glob == "*":
        return True
    if _WILDCARDS.isdisjoint(glob):
        return glob in names
    return any(map(_pattern(glob).match, names))


# `fnmatch` itself keeps 256 patterns on some Pythons, and a suite may have more.
@lru_cache(maxsize=2**16)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


class FiledName(str):
    """A name as a file writes it, of which a part is found however it is typed; pytest asks its lower case for that."""

    def lower(self) -> FiledName:
        """Return it in lower case."""
        return FiledName(super().lower())

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and super().__contains__(as_filed(part))


class KnownNames:
    """The names of tensors that something typed may mean."""

    def __init__(self, keys: Callable[[], Iterable[TensorKey]]) -> None:
        self._keys = keys

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for key in self._keys() for name in addresses(key))

    @cached_property
    def _filed(self) -> frozenset[str]:
        """Names of operators of which only the file's is known."""
        keys = (key for key in self._keys() if key.op.true_name is None and key.op.op_type)
        return frozenset(name for key in keys for name in addresses(key))

    @cached_property
    def _types(self) -> frozenset[str | None]:
        return frozenset(key.op.op_type for key in self._keys())

    def has(self, glob: str) -> bool:
        """Whether a glob means any of them as it is, or behind ``TYPE.``."""
        op_type, dot, rest = glob.partition(".")
        # A name may itself hold brackets.
        return (
            glob in self._names
            or glob_matches(glob, self._names)
            or (bool(dot) and op_type in self._types and glob_matches(rest, self._names))
        )

    def settle(self, typed: str) -> str:
        """Return a name or glob as it is to be compared with `addresses`.

        What means nothing as it was typed is written as files write names. A glob then has to mean an operator of which
        only the file's name is known: ``layer.*`` is not ``layer_norm``. Two hyphens are nothing but a slash.
        """
        if SCOPE in typed and not self.has(typed):
            typed = typed.replace(SCOPE, "/")
        if as_filed(typed) == typed or self.has(typed):
            return typed
        op_type, dot, rest = typed.partition(".")
        head = f"{op_type}." if dot and op_type in self._types else ""
        filed = as_filed(rest if head else typed)
        return head + filed if _WILDCARDS.isdisjoint(typed) or glob_matches(filed, self._filed) else typed
