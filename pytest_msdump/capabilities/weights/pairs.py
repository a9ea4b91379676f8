"""Pairs the weights of two sides by name, and brings both to the same axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.structure.scopes import spelling_of
from pytest_msdump.capabilities.weights.sources import KINDS, LayoutRule, Weight, Weights, rule_for, same_kind
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.matching.maps import is_template, renaming_of_template
from pytest_msdump.core.matching.selection import MapEntry
from pytest_msdump.core.suite.keys import FileName, MapObject, read_map

_SHOWN = 8


class WeightPair(NamedTuple):
    """A weight of the left side, its partner, and the rules to neutral axes (``None``: it has them)."""

    name: str
    left: Weight
    right_name: str
    right: Weight
    left_rule: LayoutRule | None
    right_rule: LayoutRule | None

    def right_as_left(self, right: npt.NDArray[np.generic] | None = None) -> npt.NDArray[np.generic]:
        """Return the right side's values, or other ones in their axes, in the axes of the left side."""
        values = self.right.values if right is None else right
        values = self.right_rule.neutral(values) if self.right_rule else values
        return self.left_rule.own(values, self.left.values.shape) if self.left_rule else values


def pairs(
    left: Weights,
    right: Weights,
    *,
    entries: Sequence[MapEntry] = (),
    types: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
) -> list[WeightPair]:
    """Pair all weights of two sides."""
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    renamed = _renamed(left, right, entries)
    known = {alias: name for name, held in right.items() for alias in (_dotted(held.own), *held.also, name) if alias}
    partners: dict[str, str] = {}
    for name, held in left.items():
        found = (known.get(renamed(alias, held.own)) for alias in (name, *held.also))
        wanted = list(dict.fromkeys(other for other in found if other))
        _refuse_untied(name, held, {alias: right[alias] for alias in wanted})
        if wanted:
            partners[name] = wanted[0]
            # The others hold the same numbers.
            known = {alias: name for alias, name in known.items() if name not in wanted[1:]}
    partners |= _by_spelling(left, partners, known, renamed)
    _refuse_lonely(left, right, partners, known, renamed, ignored)
    types = _checked_types(types or {}, left)
    return [_pair(name, left[name], other, right[other], types) for name, other in partners.items()]


_Renamed = Callable[[str, str], str]


def _by_spelling(
    left: Weights, partners: Mapping[str, str], known: Mapping[str, str], renamed: _Renamed
) -> dict[str, str]:
    """Pair the names without a partner that differ in spelling alone, unless a side has two of one spelling."""
    wanted = {name: _spelled(renamed(name, held.own)) for name, held in left.items()}
    called: dict[tuple[str, ...], set[str]] = {}
    for alias, name in known.items():
        called.setdefault(_spelled(alias), set()).add(name)
    counts = Counter(wanted.values())
    alone = [name for name in left if name not in partners and counts[wanted[name]] == 1]
    return {name: min(others) for name in alone if len(others := called.get(wanted[name], ())) == 1}


def _spelled(name: str) -> tuple[str, ...]:
    return spelling_of(tuple(name.split(".")))


def map_entries(names: MapObject) -> Sequence[MapEntry]:
    """Read a map object; ConfigError, or UnknownNameError, for one that cannot be meant."""
    if isinstance(names, Mapping):
        # An empty name is the model itself.
        entries: Sequence[MapEntry] = [MapEntry(one, other, label="map") for one, other in names.items()]
    else:
        entries = read_map(names, FileName("map", "map", "msdump"), Path.cwd())
    for entry in entries:
        if entry.joined is not None:
            raise ConfigError(f"{entry.label}: weights are carried over one by one; name one on each side")
        if entry.rename is None and is_template(entry.left):
            renaming_of_template(entry.left, entry.right, label=entry.label)
    return entries


def _renamed(left: Weights, right: Weights, entries: Sequence[MapEntry]) -> _Renamed:
    """Return a function that makes a name of the right side of a neutral and an own name of the left side."""
    functions = [entry.rename for entry in entries if entry.rename is not None]
    plain = {
        entry.left.replace("/", "."): entry.right.replace("/", ".")
        for entry in entries
        if entry.rename is None and not is_template(entry.left)
    }
    _refuse_unknown(left, [name for name in plain if name], "left")
    _refuse_unknown(right, [name for name in plain.values() if name], "right")
    templates = []
    for entry in entries:
        if entry.rename is None and is_template(entry.left):
            template = renaming_of_template(entry.left.replace("/", "."), entry.right.replace("/", "."), label="map")
            if not any(map(template, _parts(left))):
                raise UnknownNameError(
                    f"the map names '{entry.left}', and no weight or layer of the left side is called so"
                )
            templates.append(template)

    def other_name(name: str) -> str | None:
        if name in plain:
            return plain[name]
        return next((other for template in templates if (other := template(name)) is not None), None)

    def renamed(name: str, own: str) -> str:
        tried = (other_name(name), other_name(_dotted(own)), *(function(name) for function in functions))
        for whole in tried:
            if whole is not None:
                return whole
        layer, _, rest = name.rpartition(".")
        while layer and other_name(layer) is None:
            layer, _, more = layer.rpartition(".")
            rest = f"{more}.{rest}"
        prefix = other_name(layer)
        return f"{prefix}.{rest}" if prefix else rest

    return renamed


def _refuse_unknown(side: Weights, written: Iterable[str], title: str) -> None:
    known = _parts(side)
    for name in written:
        if name not in known:
            raise UnknownNameError(f"the map names '{name}', which the {title} side lacks; {nearest(name, known)}")


def _parts(side: Weights) -> set[str]:
    """Return the names of weights and of layers, as the side writes them and as neutral ones."""
    names = (name for neutral, held in side.items() for name in (neutral, _dotted(held.own), *held.also))
    return {part for name in names for part in _above(name)}


def _dotted(own: str) -> str:
    return own.partition(":")[0].replace("/", ".")


def _above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _refuse_untied(name: str, held: Weight, partners: Weights) -> None:
    """Refuse one tensor of the left side whose partners on the right side are several with different numbers."""
    (first, *rest) = partners.items() if partners else [("", held)]
    for other, weight in rest:
        if not np.array_equal(first[1].values, weight.values):
            raise ConfigError(
                f"{' and '.join((name, *held.also))} are one tensor on the left side, and its partners {first[0]} and "
                f"{other} hold different numbers"
            )


def _refuse_lonely(
    left: Weights,
    right: Weights,
    partners: Mapping[str, str],
    known: Mapping[str, str],
    renamed: _Renamed,
    ignored: Sequence[str],
) -> None:
    taken = set(partners.values())
    free = [name for name in right if name not in taken and name in known.values()]
    alone = [name for name in left if name not in partners]
    lines = [
        f"left {_called(name, left[name])}: right has no '{wanted}'; {nearest(wanted, free or right)}"
        for name in alone
        if not _matches(name, left[name], ignored) and (wanted := renamed(name, left[name].own))
    ]
    lines += [
        f"right {_called(name, right[name])}: left has nothing for it; {nearest(name, alone or left)}"
        for name in free
        if not _matches(name, right[name], ignored)
    ]
    if lines:
        more = f"\n  … and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise ConfigError(
            f"{len(lines)} weights have no partner; name it with map={{left: right}}, or leave it with ignore=\n  "
            + "\n  ".join(lines[:_SHOWN])
            + more
        )
    if not partners:
        raise ConfigError("there is nothing to pair: a side has no weights (a Keras model has them once it is called)")


def _matches(name: str, held: Weight, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(each, glob) for each in (name, held.own) for glob in globs)


def _called(name: str, held: Weight) -> str:
    return name if held.own in ("", name) else f"{name} ({held.own})"


def _checked_types(types: Mapping[str, str], left: Weights) -> dict[str, str]:
    layers = {name.rpartition(".")[0] for name in left}
    dotted = {layer.replace("/", "."): kind for layer, kind in types.items()}
    for layer, kind in dotted.items():
        if layer not in layers:
            raise UnknownNameError(f"types names '{layer}', no layer of the left side; {nearest(layer, layers)}")
        if kind not in KINDS:
            raise UnknownNameError(f"types: '{kind}' of {layer} is unknown; {nearest(kind, KINDS)}")
    return dotted


def _pair(name: str, left: Weight, right_name: str, right: Weight, types: Mapping[str, str]) -> WeightPair:
    layer, _, role = name.rpartition(".")
    said = types.get(layer, "")
    left, right = (replace(held, layer=said) if said and not same_kind(held.layer) else held for held in (left, right))
    kinds = sorted({kind for held in (left, right) if (kind := same_kind(held.layer))})
    title = f"{_called(name, left)} ↔ {_called(right_name, right)}"
    if len(kinds) > 1:
        raise ConfigError(f"{title}: the layers are {left.layer} and {right.layer}; map each to its own kind of layer")
    # One framework has one order of axes, whatever the layer is.
    is_one_order = left.framework == right.framework and not kinds
    rules = [[None] if is_one_order else _rules(held, role, kinds) for held in (left, right)]
    ways = [
        WeightPair(name, left, right_name, right, ours, theirs)
        for ours, theirs in product(*rules)
        if _shape(left, ours) == _shape(right, theirs)
    ]
    if len(ways) == 1:
        return ways[0]
    shapes = f"{left.values.shape} and {right.values.shape}"
    if ways:
        raise ConfigError(
            f"{title}: the axes of {shapes} can be taken in {len(ways)} ways; say what layer it is with "
            f"types={{'{layer}': 'Dense'}} (known: {', '.join(KINDS)})"
        )
    tail = "" if kinds else f"; no type is known of the layer: types={{'{layer}': …}} names one of {', '.join(KINDS)}"
    raise ConfigError(f"{title}: the shapes {shapes} cannot be brought together{tail}")


def _rules(held: Weight, role: str, kinds: Sequence[str]) -> list[LayoutRule | None]:
    """Return the rules that may hold for a weight: one where its layer's type is known."""
    if same_kind(held.layer):
        return [rule_for(held.framework, held.layer, role, held.values.shape)]
    if held.layer == "" and kinds:
        return [rule_for(held.framework, kinds[0], role, held.values.shape)]
    # A class that is not known may have any axes, also when the partner's is known.
    found = {rule_for(held.framework, kind, role, held.values.shape) for kind in kinds or KINDS}
    return [None, *(rule for rule in found - {None} if rule is not None and rule.fits(held.values.shape))]


def _shape(held: Weight, rule: LayoutRule | None) -> tuple[int, ...] | None:
    if rule is None:
        return held.values.shape
    return rule.neutral_shape(held.values.shape) if rule.fits(held.values.shape) else None
