"""Names of a rule file and names of files: who is meant when a dump's writer replaced characters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pytest_msdump.matching.sides import Operator
from pytest_msdump.model.graph import file_spelling, file_spellings, joined_spelling
from pytest_msdump.model.tensor import OpKey
from pytest_msdump.text import Message

__all__ = ["Identified", "NameBook", "identify", "name_doubt"]


class NameBook:
    """The names that a rule file uses, by each spelling that a file's name may have.

    Parameters
    ----------
    names : iterable of str
        True names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._true: set[str] = set(names)

    @cached_property
    def _written(self) -> Sequence[tuple[str, str]]:
        """What files write, and the name; nobody asks for it where a dump has true names."""
        names = list(self._true)
        return list(zip(file_spellings(names), names, strict=True))

    @cached_property
    def _spelled(self) -> Mapping[str, list[str]]:
        alone = {spelled: [name] for spelled, name in self._written}
        if len(alone) == len(self._written):
            return alone
        found: defaultdict[str, list[str]] = defaultdict(list)
        for spelled, name in self._written:
            found[spelled].append(name)
        return _sorted(found)

    @cached_property
    def _joined(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for spelled, name in self._written:
            # A run leaves two such characters.
            if "__" in spelled and (joined := joined_spelling(name)):
                found[joined].append(name)
        return _sorted(found)

    def __contains__(self, name: str) -> bool:
        return name in self._true

    def meant(self, key: OpKey, spelled: str) -> Sequence[str]:
        """Return the names that an operator of a dump may have: by its true name, else by its file's, `spelled` so."""
        if key.true_name in self._true:
            return [key.true_name or ""]
        # A file's name that holds such a character was not replaced.
        if key.name in self._true and spelled != key.name:
            return [key.name]
        if key.true_name is not None and (by_label := self._spelled.get(file_spelling(key.label))):
            return by_label
        return self._spelled.get(spelled) or self._joined.get(spelled, [])


def _sorted(names_of: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    for names in names_of.values():
        if len(names) > 1:
            names.sort()
    return names_of


class Identified:
    """Operators of one side under the names of a rule file.

    Parameters
    ----------
    name_of : mapping of int to str
        Operator of the side to its one name.
    doubtful : mapping of int to sequence of str
        Operators that several names fit.
    """

    def __init__(self, name_of: Mapping[int, str], doubtful: Mapping[int, Sequence[str]]) -> None:
        self.name_of = name_of
        self.doubtful = doubtful
        self._doubts_of: defaultdict[str, list[int]] = defaultdict(list)
        for number, names in doubtful.items():
            for name in names:
                self._doubts_of[name].append(number)

    @cached_property
    def _ops_of(self) -> Mapping[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, name in self.name_of.items():
            found[name].append(number)
        return found

    def ops_of(self, name: str) -> Sequence[int]:
        """Return the operators that have this name, at all places."""
        return self._ops_of.get(name, ())

    def doubts_of(self, name: str) -> Sequence[int]:
        """Return the operators that may have this name or another."""
        return self._doubts_of.get(name, ())


def identify(ops: Sequence[Operator], book: NameBook, types: Mapping[str, str]) -> Identified:
    """Find out which name of a rule file each operator of a side has.

    Parameters
    ----------
    ops : sequence of Operator
        One side's.
    book : NameBook
        The rule file's names.
    types : mapping of str to str
        Name to operator type, which decides between names that are spelled alike.

    Returns
    -------
    Identified
        Without the operators that no name fits.
    """
    name_of: dict[int, str] = {}
    open_: dict[int, Sequence[str]] = {}
    spellings = file_spellings([op.key.name for op in ops])
    for number, (op, spelled) in enumerate(zip(ops, spellings, strict=True)):
        true_name = op.key.true_name
        if true_name is not None and true_name in book:
            name_of[number] = true_name
            continue
        names = book.meant(op.key, spelled)
        if len(names) > 1:
            typed = [name for name in names if types.get(name) == op.key.op_type] if op.key.op_type else []
            names = typed if len(typed) == 1 else names
        if len(names) == 1:
            name_of[number] = names[0]
        elif names:
            open_[number] = names
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for number, name in name_of.items() if open_ else ():
        taken[name].add(ops[number].key.name)
    doubtful: dict[int, Sequence[str]] = {}
    for number, names in open_.items():
        # The same file's name at another place is the same doubt, decided there by luck.
        rest = [name for name in names if not taken.get(name, set()) - {ops[number].key.name}]
        if len(rest) == 1:
            name_of[number] = rest[0]
        else:
            doubtful[number] = rest or names
    return Identified(name_of, doubtful)


def name_doubt(op: Operator, names: Sequence[str], label: str) -> Message:
    """Say that several names of a rule file fit one operator of a dump."""
    from pytest_msdump.matching.explain import listed

    return Message("names_written_alike", {"names": listed(names), "rule": label, "name": op.key.name})
