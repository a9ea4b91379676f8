"""Which name of a rule file each operator of a dump has, although the dump's writer replaced characters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pytest_msdump.core.matching.explain import listed
from pytest_msdump.core.matching.sides import SideOperator
from pytest_msdump.core.model.dump import file_spelling, joined_spelling
from pytest_msdump.core.model.tensor import OpKey
from pytest_msdump.core.text import Message


class NameBook:
    """The true names that a rule file uses, by each spelling that a file's name may have."""

    def __init__(self, names: Iterable[str]) -> None:
        self._true = set(names)

    @cached_property
    def _spelled(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._true):
            found[file_spelling(name)].append(name)
        return found

    @cached_property
    def _joined(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._true):
            if joined := joined_spelling(name):
                found[joined].append(name)
        return found

    def candidates(self, key: OpKey) -> Sequence[str]:
        """Return the names that an operator of a dump may have: by its true name, else by its file's."""
        if key.true_name in self._true:
            return [key.true_name or ""]
        spelled = file_spelling(key.name)
        # A file's name that holds a character which writers replace was not replaced.
        if key.name in self._true and spelled != key.name:
            return [key.name]
        if key.true_name is not None and (by_label := self._spelled.get(file_spelling(key.label))):
            return by_label
        return self._spelled.get(spelled) or self._joined.get(spelled, [])


class Identified:
    """Operators of one side under the names of a rule file: `name_of` those with one, `doubtful` those with several."""

    def __init__(self, name_of: Mapping[int, str], doubtful: Mapping[int, Sequence[str]]) -> None:
        self.name_of = name_of
        self.doubtful = doubtful
        self._ops_of: defaultdict[str, list[int]] = defaultdict(list)
        self._doubts_of: defaultdict[str, list[int]] = defaultdict(list)
        for number, name in name_of.items():
            self._ops_of[name].append(number)
        for number, names in doubtful.items():
            for name in names:
                self._doubts_of[name].append(number)

    def ops_of(self, name: str) -> Sequence[int]:
        """Return the operators that have this name, at all places."""
        return self._ops_of.get(name, ())

    def doubts_of(self, name: str) -> Sequence[int]:
        """Return the operators that may have this name or another."""
        return self._doubts_of.get(name, ())


def identify(ops: Sequence[SideOperator], book: NameBook, types: Mapping[str, str]) -> Identified:
    """Find the name of each operator in a rule file, if any; `types` decide between names that are spelled alike."""
    name_of: dict[int, str] = {}
    several: dict[int, Sequence[str]] = {}
    for number, op in enumerate(ops):
        names = book.candidates(op.key)
        typed = [name for name in names if op.key.op_type and types.get(name) == op.key.op_type]
        names = typed if len(typed) == 1 else names
        if len(names) == 1:
            name_of[number] = names[0]
        elif names:
            several[number] = names
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for number, name in name_of.items():
        taken[name].add(ops[number].key.name)
    doubtful: dict[int, Sequence[str]] = {}
    for number, names in several.items():
        # The same file's name at another place is the same doubt, decided there by luck.
        rest = [name for name in names if not taken[name] - {ops[number].key.name}]
        if len(rest) == 1:
            name_of[number] = rest[0]
        else:
            doubtful[number] = rest or names
    return Identified(name_of, doubtful)


def name_doubt(op: SideOperator, names: Sequence[str], label: str) -> Message:
    """Say that several names of a rule file fit one operator of a dump."""
    return Message("names_written_alike", {"names": listed(names), "rule": label, "name": op.key.name})
