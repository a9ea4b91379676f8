"""Partners that names foretell: how the numbers of one side's names follow from the other's, learned from known pairs.

Where ``s1.b1.bn`` is ``block1-0.f.1`` and ``s2.b3.bn`` is ``block2-2.f.1``, ``s4.b2.bn`` is ``block4-1.f.1``: behind a
mistake too, where no values agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from pytest_msdump.core.model.tensor import TensorRef

_NUMBER = re.compile(r"[0-9]+")
# Further numbers of a name are no counters of blocks, and more than these make too many choices.
_MOST_NUMBERS = 6

_Words = tuple[object, ...]
_Numbers = tuple[int, ...]
# Numbers of a left and of a right name.
_Example = tuple[_Numbers, _Numbers]
# Of each number of a right name what it may be: a constant, or a number of the left name, by place, and what is added.
_Rule = Sequence[Sequence[tuple[int | None, int]]]


def foretold(
    pairs: Iterable[tuple[int, int]], left: Sequence[TensorRef], right: Sequence[TensorRef]
) -> Iterator[tuple[int, int]]:
    """Yield pairs, by number, that follow from known ones; each family of names has to meet a whole one."""
    names = [[_name(ref) for ref in refs] for refs in (left, right)]
    families = [_families(side) for side in names]
    known: defaultdict[tuple[_Words, _Words], list[_Example]] = defaultdict(list)
    met: defaultdict[tuple[_Words, _Numbers], set[tuple[_Words, _Numbers]]] = defaultdict(set)
    for one, other in pairs:
        ours, theirs = names[0][one], names[1][other]
        met[ours].add(theirs)
        if len(ours[1]) <= _MOST_NUMBERS:
            known[ours[0], theirs[0]].append((ours[1], theirs[1]))
    for (ours_words, theirs_words), examples in known.items():
        lefts, rights = families[0][ours_words], families[1][theirs_words]
        # What a rule for more names does not hold for, none for fewer of them does: they hide the block too many.
        open_names = {numbers for numbers in lefts if (ours_words, numbers) not in met}
        for fixed, some in _by_fixed(examples):
            rule = _rule(some, [at for at in range(len(some[0][0])) if at not in fixed])
            if rule is None:
                continue
            members = [numbers for numbers in lefts if all(numbers[at] == some[0][0][at] for at in fixed)]
            made = dict(_whole(rule, members, rights))
            if all((theirs_words, theirs) in met.get((ours_words, ours), ((theirs_words, theirs),))
                   for ours, theirs in made.items()):  # fmt: skip
                yield from ((lefts[ours], rights[theirs]) for ours, theirs in made.items() if ours in open_names)
                open_names -= {*members} - made.keys()
            else:
                open_names -= {*members}


def _by_fixed(examples: Sequence[_Example]) -> Iterator[tuple[tuple[int, ...], list[_Example]]]:
    """Yield for any places of left numbers the examples that have the same ones there."""
    places = range(len(examples[0][0]))
    for fixed in chain.from_iterable(combinations(places, count) for count in places):
        groups: defaultdict[_Numbers, list[_Example]] = defaultdict(list)
        for example in examples:
            groups[tuple(example[0][at] for at in fixed)].append(example)
        yield from ((fixed, group) for group in groups.values())


def _whole(rule: _Rule, members: Iterable[_Numbers], rights: Iterable[_Numbers]) -> Iterator[_Example]:
    """Yield what a rule makes of the left numbers, for those stages that have as many blocks on both sides.

    Where one side has a block more, those behind it have other numbers than the rule says.
    """
    # The last number that varies counts blocks, and those before it stages.
    last = max((at for options in rule for at, _ in options if at is not None), default=None)
    stage = [all(at != last for at, _ in options) for options in rule]

    def stage_of(numbers: _Numbers) -> _Numbers:
        return tuple(number for number, is_stage in zip(numbers, stage, strict=True) if is_stage)

    constants = [(at, options[0][1]) for at, options in enumerate(rule) if options[0][0] is None]
    made: defaultdict[_Numbers, list[_Example]] = defaultdict(list)
    for ours in members:
        theirs = _apply(rule, ours)
        if theirs is None:
            return
        made[stage_of(theirs)].append((ours, theirs))
    wanted: defaultdict[_Numbers, set[_Numbers]] = defaultdict(set)
    for theirs in rights:
        if all(theirs[at] == value for at, value in constants):
            wanted[stage_of(theirs)].add(theirs)
    if made.keys() == wanted.keys():
        for name, pairs in made.items():
            if {theirs for _, theirs in pairs} == wanted[name] and len(pairs) == len(wanted[name]):
                yield from pairs


def _name(ref: TensorRef) -> tuple[_Words, _Numbers]:
    key = ref.key
    numbers = [int(number) for number in _NUMBER.findall(key.op.label)]
    return (key.io, key.slot, *_NUMBER.split(key.op.label)), (*numbers, key.op.at.occurrence or 0)


def _families(names: Sequence[tuple[_Words, _Numbers]]) -> Mapping[_Words, dict[_Numbers, int]]:
    found: defaultdict[_Words, dict[_Numbers, int]] = defaultdict(dict)
    for number, (words, numbers) in enumerate(names):
        found[words][numbers] = number
    return found


def _rule(examples: Sequence[_Example], free: Sequence[int]) -> _Rule | None:
    """Return how right numbers follow from those left ones that are `free`, each of which has to vary."""
    if any(len({ours[at] for ours, _ in examples}) < 2 for at in free):
        return None
    rule: list[list[tuple[int | None, int]]] = []
    for place in range(len(examples[0][1])):
        values = {theirs[place] for _, theirs in examples}
        added = {at: {theirs[place] - ours[at] for ours, theirs in examples} for at in free}
        options: list[tuple[int | None, int]] = [(at, min(some)) for at, some in added.items() if len(some) == 1]
        if len(values) == 1:
            options = [(None, min(values))]
        if not options:
            return None
        rule.append(options)
    return rule


def _apply(rule: _Rule, numbers: _Numbers) -> _Numbers | None:
    """Return what a rule makes of a left name's numbers; nothing where its choices differ."""
    made = [{added if at is None else numbers[at] + added for at, added in options} for options in rule]
    return tuple(next(iter(some)) for some in made) if all(len(some) == 1 for some in made) else None
