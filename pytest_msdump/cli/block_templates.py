"""Entries of equal blocks as one: ``blocks.{i}.ff`` in place of ``blocks.0.ff``, ``blocks.1.ff`` and so on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pytest_msdump.core.matching.addresses import parse_address
from pytest_msdump.core.matching.maps import is_template

# No call of a module, as in relu@1.
_NUMBER = re.compile(r"(?<![0-9@])[0-9]+")
_IN_BLOCK = re.compile(r"\{i\}.*[./]", re.DOTALL)


class NewEntry(NamedTuple):
    """An entry of a suite and what speaks for it; a template stands for `blocks`, of which `apart` is the most."""

    apart: float
    why: str
    keys: dict[str, Any]
    blocks: int = 1


def in_templates(entries: Sequence[NewEntry], count: Callable[[str, str], int]) -> list[NewEntry]:
    """Return the entries with a template for those that differ in one number alone, the same on both sides.

    `count` returns how many names of a side a template matches: it stands for all of them, or is not made.
    """
    blocks: defaultdict[str, dict[str, int]] = defaultdict(dict)
    templates: dict[str, dict[str, Any]] = {}
    for place, entry in enumerate(entries):
        for number, template in _templates(entry.keys):
            templates[repr(template)] = template
            blocks[repr(template)].setdefault(number, place)
    left = dict(enumerate(entries))
    for name, of_block in sorted(blocks.items(), key=lambda item: -len(item[1])):
        template, places = templates[name], sorted(of_block.values())
        if len(places) < 2 or any(left.get(place) is not entries[place] for place in places):
            continue
        if all(count(side, template[side]) == len(places) for side in ("left", "right")):
            furthest = max((left.pop(place) for place in places), key=lambda entry: entry.apart)
            left[places[0]] = furthest._replace(keys=template, blocks=len(places))
    return [left[place] for place in sorted(left)]


def _templates(keys: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each number that both names have, with the entry that has ``{i}`` in its place."""
    names = [keys["left"], keys["right"]]
    if any(map(is_template, names)):
        return
    ours, theirs = (list(_NUMBER.finditer(parse_address(name).op)) for name in names)
    for one in ours:
        for other in (other for other in theirs if other[0] == one[0]):
            made = [name[: at.start()] + "{i}" + name[at.end() :] for name, at in zip(names, (one, other), strict=True)]
            # conv1 and conv2 are no blocks.
            if any(map(_IN_BLOCK.search, made)):
                yield one[0], keys | dict(zip(("left", "right"), made, strict=True))
