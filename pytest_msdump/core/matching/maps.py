"""Names of one side to names of the other: templates, prefixes of layers, functions. For dumps and for weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.leaving import Modules
from pytest_msdump.core.matching.selection import Joined, MapEntry, parse_address
from pytest_msdump.core.matching.sides import Side

# Return the other side's name for one of this side; None where it has none. One that names modules by the type of what
# they are in has a method `among`, which takes the types by path and returns the function.
Renaming = Callable[[str], str | None]

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}|(\*)")
_ENDS_ELEMENT = "./"
# ``experts.w13[3]``: one of several tensors that are stacked in one, by number or as ``{e}`` of the other side's name.
_STACKED = re.compile(r"(.+)\[([0-9]{1,9}|\{[A-Za-z_][A-Za-z0-9_]*\})\]((?::(?:input|output):[0-9]{1,9})?)", re.DOTALL)


def is_template(name: str) -> bool:
    """Whether a name has ``{i}`` or ``*`` in it."""
    return _PLACE.search(name) is not None


def renaming_of_template(left: str, right: str, *, label: str) -> Renaming:
    """Return the function that two templates describe; ConfigError if the right one needs what the left one lacks.

    ``{i}`` stands for a whole element of a path, or for digits beside other characters; ``*`` for all that is left.

    >>> rename = renaming_of_template("layers.{i}.*", "encoder.layer_{i}.*", label="map")
    >>> rename("layers.3.attn.q"), rename("layers.norm")
    ('encoder.layer_3.attn.q', None)
    """
    pattern, position = "", 0
    known: list[str] = []
    for place in _PLACE.finditer(left):
        name = place[1] or "*"
        pattern += re.escape(left[position : place.start()])
        if name in known:
            if name == "*":
                raise ConfigError(f"{label}: '{left}' has more than one '*'; name the others, as {{i}}")
            pattern += f"(?P=g{known.index(name)})"
        else:
            pattern += f"(?P<g{len(known)}>{_piece(left, place)})"
            known.append(name)
        position = place.end()
    pattern += re.escape(left[position:])
    for place in _PLACE.finditer(right):
        name = place[1] or "*"
        if name not in known:
            raise ConfigError(f"{label}: '{right}' has '{place[0]}', which '{left}' lacks")
    matcher = re.compile(pattern, re.DOTALL)

    def rename(name: str) -> str | None:
        found = matcher.fullmatch(name)
        if found is None:
            return None
        return _PLACE.sub(lambda place: found[f"g{known.index(place[1] or '*')}"], right)

    return rename


def _piece(template: str, place: re.Match[str]) -> str:
    if place[2]:
        return ".*"
    before, after = template[: place.start()], template[place.end() :]
    is_whole = (not before or before[-1] in _ENDS_ELEMENT) and (not after or after[0] in _ENDS_ELEMENT)
    return "[^./]+" if is_whole else "[0-9]+"


def below(left: str, right: str, name: str) -> str | None:
    """Return the other side's name of what is below a layer, whose names are `left` and `right`."""
    rest = name[len(left) :]
    return right + rest if name.startswith(left) and rest[:1] in tuple(_ENDS_ELEMENT) else None


def expanded_entries(
    entries: Sequence[MapEntry], left: Side, right: Side, modules: Mapping[str, Modules]
) -> list[MapEntry]:
    """Return the entries with every template, layer and function replaced by an entry for each operator that it names.

    A template that names no operator may name modules. An operator of the left that an entry names as it is, or whose
    partner is not there, gets none. What names nothing stays as it is, and is then a module's path, or missing.
    """
    entries = [one for entry in entries for one in _unstacked(entry, {"left": left, "right": right}, modules)]
    plain = {entry.left for entry in entries}
    is_there = partial(_is_there, right, modules["right"])
    found: list[MapEntry] = []
    for number, entry in enumerate(entries, start=1):
        rename = _renaming(entry, left, right, entry.label or f"map entry {number}")
        operators = dict.fromkeys(op.key.label for op in left.ops)
        made = [] if rename is None else list(_made(entry, rename, operators, plain, is_there))
        if not made and rename is not None and is_template(entry.left) and "*" not in entry.left:
            made = list(_made(entry, rename, dict.fromkeys(modules["left"].paths()), plain, is_there))
        found += made or [entry]
    return found


def renamed_in_vain(
    entries: Sequence[MapEntry], left: Side, right: Side, modules: Modules
) -> Iterator[tuple[MapEntry, str, str]]:
    """Yield the entry and both names of operators whose name by the types of modules the right lacks."""
    for entry in entries:
        if hasattr(entry.rename, "among") and (rename := _renaming(entry, left, right, entry.label)):
            for name in dict.fromkeys(op.key.label for op in left.ops):
                other = rename(name)
                if other is not None and not _is_there(right, modules, other):
                    yield entry, name, other


def _is_there(side: Side, modules: Modules, name: str) -> bool:
    address = parse_address(name)
    return bool(side.resolve(address)) or any(modules.named(address))


def _unstacked(entry: MapEntry, sides: Mapping[str, Side], modules: Mapping[str, Modules]) -> Iterator[MapEntry]:
    """Yield the entry for each index in brackets, which is then no more part of the name."""
    texts = {"left": entry.left, "right": entry.right}
    stacked = {
        name: found
        for name, text in texts.items()
        if (found := _STACKED.fullmatch(text)) and not sides[name].resolve(parse_address(text))
    }
    if not stacked or entry.rename is not None:
        yield entry
        return
    (whole, found), *more = stacked.items()
    if more or (entry.joined is not None and entry.joined.whole != whole):
        raise ConfigError(f"{entry.label}: [{found[2]}] is an index of the one tensor that others are parts of")
    other, index = ("right" if whole == "left" else "left"), found[2]
    numbers = [index]
    if index.startswith("{"):
        number_of = renaming_of_template(parse_address(texts[other]).op, index, label=entry.label)
        names = (*(op.key.label for op in sides[other].ops), *modules[other].paths())
        numbers = sorted({number for name in names if (number := number_of(name)) and number.isdecimal()}, key=int)
    for number in numbers:
        joined = (entry.joined or Joined(whole, (texts[other],)))._replace(place=int(number))
        named = {whole: found[1] + found[3], other: texts[other]}
        left, right = (named[side].replace(index, number) for side in ("left", "right"))
        yield entry._replace(left=left, right=right, joined=joined)
    if not numbers:
        yield entry


def _renaming(entry: MapEntry, left: Side, right: Side, label: str) -> Renaming | None:
    if (among := getattr(entry.rename, "among", None)) is not None:
        by_type: Renaming = among({op.key.label: op.key.op_type for op in left.ops if op.key.op_type})
        return by_type
    if entry.rename is not None:
        return entry.rename
    is_known = [bool(side.resolve(parse_address(name))) for side, name in ((left, entry.left), (right, entry.right))]
    if is_known[0]:
        return None
    if is_template(entry.left):
        return renaming_of_template(parse_address(entry.left).op, parse_address(entry.right).op, label=label)
    return None if is_known[1] else partial(below, entry.left, entry.right)


def _made(
    entry: MapEntry, rename: Renaming, names: Iterable[str], plain: set[str], is_there: Callable[[str], bool]
) -> Iterator[MapEntry]:
    tails = ["", ""]
    if entry.rename is None and is_template(entry.left):
        tails = [text[len(parse_address(text).op) :] for text in (entry.left, entry.right)]
    for name in names:
        other = None if name in plain or name + tails[0] in plain else rename(name)
        if other and is_there(other):
            yield entry._replace(left=name + tails[0], right=other + tails[1], rename=None)
