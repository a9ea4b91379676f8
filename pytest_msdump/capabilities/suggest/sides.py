"""The tensors of one side as suggestions see them: what they look like, what names say, and which are one quantity."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.structure.words import Named, read_names, words_in_names
from pytest_msdump.capabilities.suggest.fingerprint import Fingerprint, Sample, fingerprint, sample
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.user_code import Watch
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.operators import PASSING_TYPES
from pytest_msdump.core.matching.kinds import is_weight, kind_of
from pytest_msdump.core.matching.leaving import modules_of
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Pairing, TensorRef, Unmatched, mangle

# What layers compute, where that is something of their own; a sum or a product may be the last step of any of them. A
# convolution of one element is a linear layer, and takes in a normalisation behind it.
_LAYERS = {
    "convolution": "weighted", "transposed convolution": "weighted", "linear": "weighted", "batch norm": "norm",
    "layer norm": "norm", "group norm": "norm", "pooling": "pooling", "activation": "activation",
    "softmax": "activation", "embedding": "embedding", "recurrent": "recurrent", "loss": "loss",
    "resizing": "resizing",
}  # fmt: skip
# A convolution takes in a normalisation behind it.
_FOLDED = {"weighted", "norm"}
_NUMBERED = re.compile(r"[._/-][0-9]+$")
_END = re.compile(r"[^./]*[A-Za-z][^./]*")
# Of so few names any word may be in most.
_FEWEST_NAMES = 12
_STATISTICS = ("maximum", "minimum", "mean", "l2_norm")


class Look(NamedTuple):
    """What a tensor looks like: facts that do not depend on where its values stand, and a few of these."""

    print: Fingerprint
    sample: Sample


@dataclass(frozen=True)
class Unread:
    """A tensor whose values cannot be looked at."""

    side: str
    address: str
    reason: str


_Name = tuple[str, int]
# Tensors of one side that hold the same values.
Quantity = tuple[int, ...]
# What partners have in common: direction and number of elements.
Sort = tuple[str, int]


class SuggestedSide:
    """The tensors of a side, each name and occurrence once; those `alone` have no partner and can be looked at."""

    def __init__(self, name: str, dump: Dump, pairing: Pairing, named: set[tuple[str, str]], watch: Watch) -> None:
        unmatched = pairing.unmatched_left if name == "left" else pairing.unmatched_right
        self._modules = modules_of(name, dump)
        self._numbers: dict[_Name, int] = {}
        self.refs: list[TensorRef] = []
        self.looks: dict[int, Look] = {}
        self.name = name
        self.unread: dict[int, Unread] = {}
        for ref in _in_order_of_calls(dump.refs):
            if self._numbers.setdefault(_name_of(ref), len(self.refs)) == len(self.refs):
                self.refs.append(ref)
        has_partner = {self.number(getattr(pair, name)) for pair in pairing.pairs}
        wanted = {self.number(one.ref) for one in unmatched
                  if _name_of(one.ref) in self._numbers and named.isdisjoint(_map_names(one))}  # fmt: skip
        wanted -= has_partner
        for number in watch(sorted(wanted | has_partner), "tensors read") if wanted else ():
            self._read(number, is_wanted=number in wanted)
        self.alone = frozenset(wanted & self.looks.keys())

    def _read(self, number: int, *, is_wanted: bool) -> None:
        ref = self.refs[number]
        try:
            reason = _unreadable(ref)
            if not reason:
                with closing(open_logical(ref)) as view:
                    self.looks[number] = Look(fingerprint(view), sample(view))
                return
        except MsdumpError as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot be read ({error.strerror or error})"
        if is_wanted:
            self.unread[number] = Unread(self.name, ref.key.address, reason)

    def number(self, ref: TensorRef) -> int:
        """Return the number of a tensor of the dump."""
        return self._numbers[_name_of(ref)]

    @cached_property
    def quantities(self) -> Sequence[Quantity]:
        """The tensors that were read, together those of one direction that hold the same values in C order."""
        alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, look in sorted(self.looks.items()):
            # Masks and constants are the same by chance.
            what = look.print.values.tobytes() if look.print.is_distinctive else number
            alike[self.refs[number].key.io, look.print.size, what].append(number)
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for numbers in alike.values():
            for number in numbers:
                groups[number if len(numbers) == 1 else _digest(self.refs[number])].append(number)
        return sorted(tuple(group) for group in groups.values())

    @cached_property
    def distinctive(self) -> Mapping[Sort, list[Quantity]]:
        """The quantities that no others have the values of by chance, by what a partner must have in common."""
        found: defaultdict[Sort, list[Quantity]] = defaultdict(list)
        for group in self.quantities:
            if self.looks[group[0]].print.is_distinctive:
                found[self.sort_of(group[0])].append(group)
        return found

    def by_sort(self, numbers: Iterable[int]) -> Mapping[Sort, list[int]]:
        """Return these tensors by what a partner must have in common."""
        found: defaultdict[Sort, list[int]] = defaultdict(list)
        for number in numbers:
            found[self.sort_of(number)].append(number)
        return found

    @cached_property
    def words(self) -> Sequence[frozenset[str]]:
        """What the name of each tensor says, but for its numbers."""
        return _telling(words_in_names([ref.key.op.label for ref in self.refs]))

    @cached_property
    def tokens(self) -> Sequence[frozenset[object]]:
        """The same with numbers, and what is said twice as often as it is said."""
        found = read_names([ref.key.op.label for ref in self.refs]).names or [Named(())] * len(self.refs)
        return [frozenset((word, one.words[:at].count(word)) for at, word in enumerate(one.words)) for one in found]

    @cached_property
    def ends(self) -> Sequence[frozenset[str]]:
        """The same of the last part of each name that has a word."""
        return _telling(words_in_names(["".join(_END.findall(ref.key.op.label)[-1:]) for ref in self.refs]))

    @cached_property
    def parents(self) -> Sequence[str]:
        """The name of each tensor without its last part."""
        return [ref.key.op.label.replace("/", ".").rpartition(".")[0] for ref in self.refs]

    @cached_property
    def owners(self) -> Sequence[str]:
        """The module of which each tensor is a weight, or has a name that begins so; empty where none is known."""
        paths = {path for known in self._modules.paths_of.values() for path in known}
        return [parent if parent in paths else "" for parent in self.parents]

    @cached_property
    def members(self) -> Mapping[str, Mapping[tuple[object, ...], int]]:
        """What belongs to a module, by last word, or by slot what leaves it; nothing that has several calls."""
        found: defaultdict[str, defaultdict[tuple[object, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, (ref, owner) in enumerate(zip(self.refs, self.owners, strict=True)):
            if owner and self.is_weight(number):
                found[owner][ref.key.op.label[len(owner) + 1 :],].append(number)
            for path in self._modules.paths_of.get(ref.key, ()):
                found[path][ref.key.io, ref.key.slot].append(number)
        return {owner: {what: own[0] for what, own in members.items() if len(own) == 1}
                for owner, members in found.items()}  # fmt: skip

    def is_weight(self, number: int) -> bool:
        """Whether a tensor is a weight."""
        return is_weight(self.refs[number].key.op)

    @cached_property
    def rows(self) -> Mapping[tuple[object, ...], list[tuple[int, npt.NDArray[np.float64]]]]:
        """The statistics of tensors that were not saved, by what a partner has in common: shape, type, end of name."""
        found: defaultdict[tuple[object, ...], list[tuple[int, npt.NDArray[np.float64]]]] = defaultdict(list)
        for number, ref in enumerate(self.refs):
            values = [ref.statistics.values.get(name) for name in _STATISTICS] if ref.statistics else []
            if ref.is_unseen and values and all(isinstance(value, (int, float)) for value in values):
                op, end = ref.key.op, re.split(r"[./]", ref.key.op.label)[-1]
                row = np.array(values, dtype=np.float64)
                found[ref.key.io, ref.key.slot, ref.spec.shape, op.op_type, end].append((number, row))
        return found

    def layer(self, number: int) -> str:
        """Return what kind of layer gave out a tensor, as far as its type or its name says so."""
        op = self.refs[number].key.op
        # What is numbered inside of `maxpool_conv` is neither.
        name = "" if _NUMBERED.search(op.label) else op.label
        return _LAYERS.get(kind_of(op.op_type, name), "")

    def computes(self, number: int) -> bool:
        """Whether a tensor is what an operator makes, and no weight, nor its input in another shape."""
        key = self.refs[number].key
        return key.io == "output" and key.op.op_type not in PASSING_TYPES and not self.is_weight(number)

    def is_end(self, number: int, last: int) -> bool:
        """Whether nothing comes of a tensor: a weight, and what runs behind the last one that has a partner."""
        return self.is_weight(number) or (self.refs[number].place is not None and number > last)

    def sort_of(self, number: int) -> Sort:
        """Return what a partner must have in common with a tensor."""
        return self.refs[number].key.io, self.looks[number].print.size


def _telling(names: Sequence[frozenset[str]]) -> Sequence[frozenset[str]]:
    """Return what tells names apart: no word that more than half of them have."""
    times = Counter(chain.from_iterable(names))
    usual = {word for word, count in times.items() if 2 * count > len(names) > _FEWEST_NAMES}
    return [words - usual for words in names]


def may_be_one_layer(one: str, other: str) -> bool:
    """Whether two kinds of layer, empty if unknown, are one, or one of them is folded into the other."""
    kinds = {one, other} - {""}
    return len(kinds) < 2 or kinds == _FOLDED


def _in_order_of_calls(refs: Sequence[TensorRef]) -> Sequence[TensorRef]:
    """Return a dump's tensors with each call of an operator at its own place; a dump has all of them at the first."""
    if not any(ref.key.op.at.occurrence for ref in refs):
        return refs
    return sorted(refs, key=lambda ref: (ref.place is None, ref.key.op.at.iteration or 0, ref.source.timestamp or 0))


def _name_of(ref: TensorRef) -> _Name:
    return ref.key.typed_address, ref.key.op.at.occurrence or 0


def _map_names(one: Unmatched) -> Iterator[tuple[str, str]]:
    """Yield what a map entry may call this tensor."""
    key = one.ref.key
    for name in (key.op.label, f"{key.op.op_type}.{key.op.label}"):
        yield one.side, mangle(name)
        yield one.side, mangle(f"{name}:{key.io}:{key.slot}")


def _unreadable(ref: TensorRef) -> str:
    """Return why a tensor is not read; empty where it may be."""
    try:
        ref.key.address.encode()
    except UnicodeEncodeError:
        return "its name is not text, so a suite file cannot hold it"
    return "only its statistics were saved" if ref.is_unseen else ""


def _digest(ref: TensorRef) -> bytes:
    digest = hashlib.blake2b()
    with closing(open_logical(ref)) as view:
        digest.update(view.dtype.encode())
        for block in view.blocks(1 << 17):
            digest.update(block.tobytes())
    return digest.digest()
