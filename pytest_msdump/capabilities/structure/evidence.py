"""What speaks for a left and a right layer being one: words, kinds, numbers of elements, and what each does to it.

The weight of two layers is the odds that they are one, against both having no partner. What contradicts makes it 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.structure.words import KINDS, Words, kind_of_words, may_be_one_kind

# Logarithms of odds. What is known of neither side counts 0.
_ALONE = -1.5
_NO_WORD = -1.0
_WORDS = 4.0
_KIND = 1.5
_SIZE, _MOST_SIZE = 0.8, 2.0
# The only one of a number of elements, on both sides.
_ONLY = 2.5
_CHANGES, _CHANGES_NOT = 1.0, -3.0
_RARER = -2.0
_NUMBER, _OTHER_NUMBER = 1.0, -4.0
# Two sides are one chain when more than this share of the longer one lies in order on the other as well.
_CHAIN, _CHAIN_WEIGHT = 0.7, 2.0
# A word around several layers that the other side does not have says little.
_FOREIGN = 0.25
# What every word weighs, however many layers have it.
_COMMON = 0.1
# Words that say how a layer does what it does.
_MODIFIERS = frozenset({"max", "avg"})
# Parts that run in the order of their tokens, not of their numbers.
UNORDERED = "expert"

Weights = np.ndarray[Any, np.dtype[np.float64]]
Stems = Collection[tuple[str, ...]]


@dataclass(slots=True)
class Layer:
    """A layer of one side: its words, which tensor it gives out by slot, and when it ran, if that is known."""

    words: Words
    role: str
    tensors: Mapping[int, int]
    sizes: Mapping[int, int | None]
    order: float
    parts: tuple[str, ...] = ()
    step: int = 0

    @property
    def size(self) -> int | None:
        """The number of elements of the first output."""
        return self.sizes.get(0)

    @property
    def stem(self) -> tuple[str, ...]:
        """The words without numbers."""
        return tuple(word for word in self.words if isinstance(word, str))


class Look(NamedTuple):
    """What tells a layer from others of its side; layers that look alike weigh alike."""

    words: tuple[str, ...]
    size: int | None
    kind: str
    is_expert: bool
    has_changed: bool | None = None
    times: int = 0
    number: int = 0
    numbers: tuple[int, ...] = ()
    last: Hashable = None
    is_closed: bool = False


def looks_of(
    layers: Sequence[Layer],
    lists: Container[Words],
    closed: Container[int],
) -> list[Look]:
    """Return how each layer looks among these, in the order in which they ran.

    `lists` are modules around numbered ones, `closed` has the numbers of modules of which nothing inside was paired.
    """
    listed = [len(one.words) > 1 and isinstance(one.words[-1], int) and one.words[:-1] in lists for one in layers]
    # A number in a list says nothing of what a layer does, nor does the name of the list.
    words = [tuple(word for word in one.words if not (is_listed and word in KINDS))
             for one, is_listed in zip(layers, listed, strict=True)]  # fmt: skip
    stems = [tuple(word for word in own if isinstance(word, str)) for own in words]
    times = Counter(stems)
    siblings: defaultdict[Words, set[Any]] = defaultdict(set)
    for own, is_listed in zip(words, listed, strict=True):
        if not is_listed and own and isinstance(own[-1], int):
            siblings[pattern_of(own[:-1])].add(own[-1])
    found: list[Look] = []
    for place, (one, own, stem, is_listed) in enumerate(zip(layers, words, stems, listed, strict=True)):
        has_changed = one.size != found[-1].size if found else None
        beside = sorted(siblings[pattern_of(own[:-1])]) if not is_listed and own and isinstance(own[-1], int) else []
        number = beside.index(own[-1]) if beside else 0
        # One of several, not a call of the one that is for all.
        is_expert = any(word == UNORDERED and isinstance(number, int) for word, number in pairwise(own))
        beside = [each - beside[0] for each in beside]
        found.append(Look(stem, one.size, kind_of_words(own), is_expert, has_changed, 0 if is_listed else times[stem],
                          number, tuple(beside), last_of(one), place in closed))  # fmt: skip
    return found


def weights_between(ours: Sequence[Look], theirs: Sequence[Look]) -> tuple[list[Look], list[Look], Weights]:
    """Return the different looks of both sides, and the weight of each left beside each right one."""
    rows, columns = list(dict.fromkeys(ours)), list(dict.fromkeys(theirs))
    rarity = rarity_of({one.words for one in rows}, {one.words for one in columns})
    once = [Counter(one.size for one in side) for side in (ours, theirs)]
    sizes = once[0] + once[1]
    whole = len(ours) + len(theirs)
    base = _ALONE + _chain(ours, theirs)
    found = np.zeros((len(rows), len(columns)))
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
    for row, one in enumerate(rows):
        for column, other in enumerate(columns):
            if may_be_one(one, other):
                if (words := (one.words, other.words)) not in alike:
                    alike[words] = likeness_of(*words, rarity)
                likeness = alike[words]
                known = base + (_WORDS * likeness if likeness else _NO_WORD) + _compared(one, other)
                if one.size is not None and other.size is not None:
                    known += min(_MOST_SIZE, _SIZE * math.log(whole / sizes[one.size]))
                    known += _ONLY if once[0][one.size] == once[1][one.size] == 1 else 0.0
                found[row, column] = math.exp(known)
    return rows, columns, found


def pattern_of(words: Words) -> Words:
    """Return words with a sign for each number."""
    return tuple("#" if isinstance(word, int) else word for word in words)


def last_of(one: Layer) -> Hashable:
    """Return the last word of a layer's name; a number is as good as any other."""
    last = one.words[-1:]
    return "#" if last and isinstance(last[0], int) else last


def may_be_one(one: Look, other: Look) -> bool:
    """Whether nothing contradicts that two layers are one."""
    if one.size is not None and other.size is not None and one.size != other.size:
        return False
    if (one.is_closed or other.is_closed) and (one.last != other.last or one.words[-1:] != other.words[-1:]):
        return False
    if one.is_expert != other.is_expert:
        return False
    if "layer" in (one.kind, other.kind):
        return one.kind == other.kind
    return may_be_one_kind(one.kind, other.kind)


def is_told(one: Look, other: Look) -> bool:
    """Whether a kind, or a word other than that of a block, speaks for a pair; of single layers more than the last."""
    both = {*one.words} & {*other.words}
    if one.times == other.times == 1 and len(both) == 1 and {*one.words} - both and {*other.words} - both:
        return False
    return bool(both - {"layer"}) or (one.kind == other.kind != "")


def is_doubtful(one: Look, other: Look, marks: tuple[Container[str], Container[str]]) -> bool:
    """Whether numbers are counted otherwise, or one side has more such layers and a word marks those of the other."""
    are_numbered_alike = one.numbers == other.numbers and one.number == other.number
    if len(one.numbers) == len(other.numbers) and one.words[-1:] == other.words[-1:] and not are_numbered_alike:
        return True
    is_marked = any(word in marks[0] for word in one.words) or any(word in marks[1] for word in other.words)
    return one.times != other.times and 0 not in (one.times, other.times) and is_marked


def marks_of(ours: Stems, theirs: Stems) -> tuple[set[str], set[str]]:
    """Return the words of each side that the other does not have, and that are around no several others."""
    known = [{word for stem in side for word in stem} for side in (ours, theirs)]
    return known[0] - known[1] - _around_several(ours), known[1] - known[0] - _around_several(theirs)


def _around_several(stems: Stems) -> set[str]:
    inside: defaultdict[str, set[str]] = defaultdict(set)
    for stem in stems:
        for word, behind in pairwise(stem):
            inside[word].add(behind)
    return {word for word, behind in inside.items() if len(behind) > 1}


def _compared(one: Look, other: Look) -> float:
    known = _KIND if one.kind and one.kind == other.kind else 0.0
    if None not in (one.has_changed, other.has_changed) and not (one.kind and other.kind):
        known += _CHANGES_NOT if one.has_changed != other.has_changed else _CHANGES * bool(one.has_changed)
    if len(one.numbers) == len(other.numbers) > 1 and one.words[-1:] == other.words[-1:]:
        known += _NUMBER if one.number == other.number else _OTHER_NUMBER
    if {len(one.numbers), len(other.numbers)} == {0, 1}:
        # The number may tell it from one that the other side does not have.
        known += _CHANGES_NOT
    few, many = sorted((one.times, other.times))
    return known + (_RARER if 0 < few * 2 <= many and one.words != other.words else 0.0)


def _chain(ours: Sequence[Look], theirs: Sequence[Look]) -> float:
    """Return what speaks for every pair where nearly all of both sides lies in one order."""
    rows = {one: np.array([may_be_one(one, other) for other in theirs]) for one in dict.fromkeys(ours)}
    longest = np.zeros(len(theirs) + 1, dtype=np.intp)
    for one in ours:
        longest[1:] = np.maximum.accumulate(np.maximum(longest[1:], (longest[:-1] + 1) * rows[one]))
    share = float(longest[-1]) / max(len(ours), len(theirs), 1)
    rest = 1 - share + 1 / (len(ours) + len(theirs))
    return _CHAIN_WEIGHT * math.log(share / rest * (1 - _CHAIN) / _CHAIN) if share > _CHAIN else 0.0


def rarity_of(ours: Stems, theirs: Stems) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return what each word of a side weighs: more, the rarer it is; little around layers of one side only."""
    counts = [Counter(word for stem in side for word in set(stem)) for side in (ours, theirs)]
    whole = len(ours) + len(theirs) + 1
    found: list[dict[str, float]] = []
    for stems, own, others in ((ours, counts[0], counts[1]), (theirs, counts[1], counts[0])):
        little = (_around_several(stems) - others.keys()) | _MODIFIERS
        found.append({
            word: (math.log(whole / (times + others[word])) + _COMMON) * (_FOREIGN if word in little else 1.0)
            for word, times in own.items()
        })  # fmt: skip
    return found[0], found[1]


def likeness_of(
    one: Sequence[str], other: Sequence[str], weights: tuple[Mapping[str, float], Mapping[str, float]]
) -> float:
    """Return the share of words that two stems have in common, weighted."""
    if one == other:
        return 1.0
    ours, theirs = Counter(one), Counter(other)
    if (ours & theirs).keys() <= {"layer", "#"}:
        # Both are in blocks.
        return 0.0
    both = sum(weights[0][word] * times for word, times in (ours & theirs).items())
    apart = sum(weights[0][word] * times for word, times in (ours - theirs).items())
    apart += sum(weights[1][word] * times for word, times in (theirs - ours).items())
    return both / (both + apart) if both else 0.0
