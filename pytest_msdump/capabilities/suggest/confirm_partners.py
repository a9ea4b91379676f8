"""Whether names and order of execution agree with partners that values found: values confirm, and overrule neither."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from pytest_msdump.capabilities.structure.scopes import Path, typed_path
from pytest_msdump.capabilities.suggest.choose_partners import Fit, Suggestion, Unpaired
from pytest_msdump.core.matching.kinds import NAME_WORDS, kind_of, spelling_of_name
from pytest_msdump.core.matching.leaving import Modules
from pytest_msdump.core.model.tensor import TensorRef

# Siblings that a port may have swapped are near each other.
_NEAR = 24
# Both sides ran in one order if so many of the partners follow each other.
_MOSTLY = 2 / 3
_FEWEST = 3
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TOKENS = re.compile(r"[a-z]+[0-9]*")
_NUMBERS = re.compile(r"[0-9]+")


@lru_cache(maxsize=2**16)
def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, each as all frameworks write it; a number behind one is no part of it.

    >>> sorted(words_of("blk.wq")), sorted(words_of("headStart_logits1"))
    (['blk', 'q'], ['head', 'logit', 'start'])
    """
    found = _TOKENS.findall(_HUMPS.sub("_", name).lower())
    words = (token if token in NAME_WORDS else token.rstrip("0123456789") for token in found)
    return frozenset(NAME_WORDS.get(word, word) for word in words)


def shared_words(one: Unpaired, other: Unpaired) -> int:
    """Return how many words two names have in common."""
    return len(words_of(one.own_name) & words_of(other.own_name))


def contradicted(
    fits: Sequence[Fit],
    left: Sequence[Unpaired],
    right: Sequence[Unpaired],
    *,
    free: tuple[Collection[int], Collection[int]],
    sure: Collection[int],
    sort_of: Callable[[str, int], Hashable],
) -> dict[int, set[int]]:
    """Return by right tensor the left ones that names or order speak for, where values have found another one."""
    against: defaultdict[int, set[int]] = defaultdict(set)
    groups: defaultdict[Hashable, list[Fit]] = defaultdict(list)
    for fit in fits:
        groups[sort_of("right", fit.right)].append(fit)
    places = sorted((left[fit.left].place, right[fit.right].place) for fit in fits)
    is_one_order = len(places) >= _FEWEST and _longest_rise([place for _, place in places]) >= _MOSTLY * len(places)
    for group in groups.values():
        in_place = sorted(group, key=lambda fit: right[fit.right].place)
        near = ((one, other) for start, one in enumerate(in_place) for other in in_place[start + 1 : start + _NEAR])
        for one, other in near:
            if _should_swap(one, other, left, right, is_one_order=is_one_order):
                against[one.right].add(other.left)
                against[other.right].add(one.left)
    known = {fit.right: fit.left for fit in fits}
    unsure = {fit.left for fit in fits if fit.right not in sure}
    lefts, rights = [*known.values(), *free[0]], [*known, *free[1]]
    # Only such as a name alone would pair: each is the other one's best, and no other tensor is as good.
    possible: defaultdict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, numbers in enumerate((lefts, rights)):
        for number in numbers:
            possible[sort_of(("left", "right")[side], number)][side].append(number)
    for ours, theirs in possible.values():
        for ours_named, named in named_alone(left, right, [(a, b) for a in ours for b in theirs]):
            of_free_left = named in known and named not in sure and ours_named in free[0]
            if of_free_left or (named in free[1] and ours_named in unsure):
                against[named].add(ours_named)
    return dict(against)


def _should_swap(
    one: Fit, other: Fit, left: Sequence[Unpaired], right: Sequence[Unpaired], *, is_one_order: bool
) -> bool:
    """Whether names say that each of two left tensors is the other one's partner, or one name and order do."""
    own = [shared_words(left[fit.left], right[fit.right]) for fit in (one, other)]
    swapped = [shared_words(left[a.left], right[b.right]) for a, b in ((other, one), (one, other))]
    if all(new > old for old, new in zip(own, swapped, strict=True)):
        return True
    if sum(swapped) < sum(own):
        return False
    sides = ((left[one.left], left[other.left]), (right[one.right], right[other.right]))
    # Of one name is one place.
    if not (is_one_order and all(a.is_ordered and b.is_ordered and a.name != b.name for a, b in sides)):
        return False
    steps = [a.place < b.place for a, b in sides]
    numbered = [_is_counted_up(a.name, b.name) for a, b in sides]
    # A number that an exporter gave out is of the program's order, which the runtime need not follow.
    counted = [place if number is None else number for place, number in zip(steps, numbered, strict=True)]
    return steps[0] != steps[1] and counted[0] != counted[1]


def _is_counted_up(one: str, other: str) -> bool | None:
    """Whether the second of two names that differ in numbers alone has the greater ones; ``None`` for other names."""
    if one == other or _NUMBERS.sub("", one) != _NUMBERS.sub("", other):
        return None
    numbers, others = ([int(text) for text in _NUMBERS.findall(name)] for name in (one, other))
    return numbers < others


def _longest_rise(numbers: Sequence[int]) -> int:
    ends: list[int] = []
    for number in numbers:
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
    return len(ends)


def named_alone(
    left: Sequence[Unpaired], right: Sequence[Unpaired], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return those of possible pairs whose names have most in common on both sides, where nothing else speaks."""
    likeness = {
        (one, other): (
            shared_words(left[one], right[other]),
            _NUMBERS.findall(left[one].name) == _NUMBERS.findall(right[other].name),
        )
        for one, other in pairs
        if words_of(_last_part(left[one].own_name)) & words_of(_last_part(right[other].own_name))
    }
    best: list[dict[int, list[tuple[int, int]]]] = [{}, {}]
    for pair, alike in likeness.items():
        for known, number in zip(best, pair, strict=True):
            held = known.get(number)
            if held is None or alike > likeness[held[0]]:
                known[number] = [pair]
            elif alike == likeness[held[0]]:
                held.append(pair)
    return [pair for pair in likeness if all(known[number] == [pair] for known, number in zip(best, pair, strict=True))]


def _last_part(name: str) -> str:
    """Return the last part of a path that has a word."""
    return next((part for part in reversed(re.split(r"[./]", name)) if words_of(part)), "")


def in_order(
    anchors: Sequence[tuple[int, int]],
    pairs: Sequence[tuple[int, int]],
    sort_of: Callable[[str, int], Hashable],
) -> list[tuple[int, int]]:
    """Return pairs of tensors that stand between the same known ones, where as many of a sort do on both sides."""
    known = sorted(anchors)
    most = accumulate((theirs for _, theirs in known), max)
    least = list(accumulate((theirs for _, theirs in reversed(known)), min))[::-1]
    rising = [anchor for anchor, up, down in zip(known, most, least, strict=True) if up == anchor[1] == down]
    if len(rising) < max(2, _MOSTLY * len(known)):
        return []
    edges = [one for one, _ in rising], [other for _, other in rising]
    found: list[tuple[int, int]] = []
    groups: defaultdict[Hashable, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for one, other in pairs:
        gap = bisect_left(edges[0], one)
        if gap == bisect_left(edges[1], other):
            lefts, rights = groups[gap, sort_of("right", other)]
            lefts.add(one)
            rights.add(other)
    for lefts, rights in groups.values():
        if len(lefts) == len(rights):
            found += zip(sorted(lefts), sorted(rights), strict=True)
    return found


def mixed_up(
    found: Mapping[int, Suggestion],
    agrees: Callable[[Fit], bool],
    refs: tuple[Sequence[TensorRef], Sequence[TensorRef]],
    modules: Modules,
) -> set[int]:
    """Return the right tensors whose clear suggestion is of another module by name, while values differ."""
    left, right = refs
    kinds = _kinds(left, modules), _kinds(right)
    called = {number: _spelled(_path(right[number])) for number in found}
    around = {number: _around(modules.path_around(left[one.fits[0].left])) for number, one in found.items()}
    wrong = {
        number
        for number, one in found.items()
        if one.is_clear
        and not agrees(one.fits[0])
        and called[number] not in around[number]
        and (
            _has(kinds[0], called[number], right[number])
            or _has(kinds[1], next(reversed(around[number]), ""), left[one.fits[0].left])
        )
    }
    waiting = {called[number] for number in wrong}
    return {
        number
        for number, one in found.items()
        if number in wrong or (one.is_clear and called[number] in waiting.intersection(around[number]))
    }


def _has(kinds: Mapping[str, set[str]], name: str, ref: TensorRef) -> bool:
    """Whether a side has a module of that name, and of the kind of a tensor's own, as far as both are known."""
    return bool(kinds.get(name, set()) & {kind_of(ref.key.op.op_type), ""})


def _kinds(refs: Sequence[TensorRef], modules: Modules | None = None) -> Mapping[str, set[str]]:
    """Return the kinds of a side's modules by name, with ``""`` where that is unknown."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for ref in refs:
        found[_spelled(_path(ref))].add(kind_of(ref.key.op.op_type))
    for text in modules.paths() if modules else ():
        found.setdefault(_spelled(typed_path(text) or ()), {""})
    return {name: kinds for name, kinds in found.items() if name}


def _path(ref: TensorRef) -> Path:
    return typed_path(ref.key.op.label) or ()


def _around(path: Path) -> list[str]:
    return [_spelled(path[:depth]) for depth in range(1, len(path) + 1)]


def _spelled(path: Path) -> str:
    """Write a path as names with underscores do, in the spelling that frameworks share."""
    return spelling_of_name("_".join(path))
