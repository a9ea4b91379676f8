"""The entries of a suggested suite: those of equal blocks as one, ``blocks.{i}.ff``, each with what speaks for it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from pytest_msdump.capabilities.suggest.fingerprint import fit_text
from pytest_msdump.capabilities.suggest.partners import Fit, Suggested, Suggestion
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.matching.leaving import modules_of
from pytest_msdump.core.matching.maps import is_template, renaming_of_template
from pytest_msdump.core.matching.selection import MapEntry, parse_address
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.report.coverage import map_entry_lines
from pytest_msdump.core.report.tables import filled
from pytest_msdump.core.text import Phrases

_COMMENT = 118


EntryLines: TypeAlias = Callable[[dict[str, Any]], list[str]]


_ENTRY_KEYS = ("reshape", "transpose", "crop", "rank", "net", "graph", "iteration", "occurrence")


class SuggestedEntries:
    """The entries of a suggested suite: those that the suite has (`known`), and those that are new (`clear`)."""

    def __init__(self, planned: Plan, found: Suggested, say: Phrases) -> None:
        self._found, self._say = found, say
        self._names = [_Names(refs) for refs in (found.left, found.right)]
        types: defaultdict[str, set[str | None]] = defaultdict(set)
        for ref in (*planned.left.refs, *planned.right.refs):
            types[ref.key.op.label].add(ref.key.op.op_type)
        self._shared = frozenset(name for name, kinds in types.items() if len(kinds - {None}) > 1)
        self._modules = modules_of("left", planned.left)
        labels = [{ref.key.op.label for ref in dump.refs} for dump in (planned.left, planned.right)]
        self._known = {"left": labels[0].union(self._modules.paths()), "right": labels[1]}
        self._every_call = self._pairs_every_call([one for one in found.suggestions if one.is_clear])
        # Parts of one tensor are one entry.
        entries = (one for one in planned.suite.entries if one.joined is None or one.joined.number == 0)
        self.known = [_known_entry(entry) for entry in entries if entry.rename is None]
        self._said: set[tuple[Any, Any]] = set()
        self.new: list[NewEntry] = []
        for one in found.suggestions:
            entry = self._entry(one.fits[0]) if one.is_clear else None
            if entry is not None and (key := (entry["left"], entry["right"])) not in self._said:
                self._said.add(key)
                apart = found.partner(one, one.fits[0], "left").apart or 0.0
                self.new.append(NewEntry(apart, self._why(one, one.fits[0]), entry))
        self.clear = [one.keys for one in self.new]

    def count(self, side: str, template: str) -> int:
        """Return how many operators and modules of a side a template names."""
        op = parse_address(template).op
        rename = renaming_of_template(op, op, label="")
        return sum(rename(name) is not None for name in self._known[side])

    def lines(self, entry_lines: EntryLines) -> Iterator[str]:
        """Yield the new entries of a suite file, each with what speaks for it, and what has none as comments."""
        found = self._found
        for _, why, keys, blocks in self.new:
            why = self._say("stands_for", entries=blocks, text=why) if blocks > 1 else why
            yield from ("", f"# {why}", *entry_lines(keys))
        for one in found.suggestions:
            if not one.is_clear:
                yield from self._ambiguous(one)
        suggested = {one.right for one in found.suggestions}
        yield from _listed(
            self._say("suggested_none"),
            (found.right[number].key.address for number in found.alone if number not in suggested | found.copies),
        )
        yield from _listed(
            self._say("suggested_copies"),
            (found.right[number].key.address for number in sorted(found.copies)),
        )
        unread = (f"{self._say(one.side)}: {one.address}: {one.reason}" for one in found.unread)
        yield from _listed(self._say("suggested_unread"), unread)

    def _ambiguous(self, one: Suggestion) -> Iterator[str]:
        found = self._found
        name = terminal_text(found.right[one.right].key.address)
        yield ""
        if one.how == "against":
            yield from (f"# {line}" for line in filled(self._say("ambiguous_against", name=name), _COMMENT))
        else:
            code = "ambiguous_one" if len(one.fits) == 1 else "ambiguous_among"
            yield f"# {self._say(code, name=name, n=len(one.fits))}"
        for fit in one.fits:
            yield f"# {self._why(one, fit)}"
            yield from (f"# {line}" for line in map_entry_lines(self._entry(fit)))

    def _why(self, one: Suggestion, fit: Fit) -> str:
        partner = self._found.partner(one, fit, "left")
        return fit_text(partner.apart or 0.0, partner.shape, partner.by, self._say)

    def _entry(self, fit: Fit) -> dict[str, Any]:
        transform = fit.how.transform
        refs = (self._found.left[fit.left], self._found.right[fit.right])
        of_every_call = tuple(ref.key.typed_address for ref in refs) in self._every_call
        entry: dict[str, Any] = {
            side: names.address(ref, self._shared, of_every_call=of_every_call)
            for side, names, ref in zip(("left", "right"), self._names, refs, strict=True)
        }
        if (module := self._modules.in_entry(*refs)) is not None:
            entry = {"left": module, "right": entry["right"].removesuffix(":output:0")}
        if transform.transpose is not None:
            entry["transpose"] = list(transform.transpose)
        if transform.reshape:
            entry["reshape"] = True
        return entry

    def _pairs_every_call(self, suggestions: Sequence[Suggestion]) -> set[tuple[str, ...]]:
        """Return the names of which each call has its partner in the same call of the other one."""
        calls: defaultdict[tuple[str, ...], set[tuple[int, int]]] = defaultdict(set)
        for one in suggestions:
            refs = (self._found.left[one.fits[0].left], self._found.right[one.right])
            occurrences = (refs[0].key.op.at.occurrence or 0, refs[1].key.op.at.occurrence or 0)
            calls[tuple(ref.key.typed_address for ref in refs)].add(occurrences)
        return {
            names
            for names, found in calls.items()
            if all(left == right for left, right in found)
            and all(side.calls[name] == len(found) for side, name in zip(self._names, names, strict=True))
        }


class _Names:
    """How often each tensor of a side was recorded."""

    def __init__(self, refs: Iterable[TensorRef]) -> None:
        self.calls = Counter(ref.key.typed_address for ref in refs)

    def address(self, ref: TensorRef, shared: frozenset[str], *, of_every_call: bool) -> str:
        """Return what an entry calls a tensor: with its type where a name is shared, and its call where it has many."""
        key = ref.key
        name = f"{key.op.op_type}.{key.op.label}" if key.op.label in shared else key.op.label
        if self.calls[key.typed_address] > 1 and not of_every_call:
            name += f"@{key.op.at.occurrence or 0}"
        return f"{name}:{key.io}:{key.slot}"


def _known_entry(entry: MapEntry) -> dict[str, Any]:
    said = {name: value for name in _ENTRY_KEYS if (value := getattr(entry, name)) not in (None, False)}
    named: dict[str, Any] = {"left": entry.left, "right": entry.right}
    if entry.joined is not None:
        named["right" if entry.joined.whole == "left" else "left"] = list(entry.joined.names)
        said["join"] = entry.joined.axis
    return {**named, **said}


def _listed(title: str, names: Iterable[str]) -> Iterator[str]:
    lines = [f"#   {terminal_text(name)}" for name in names]
    if lines:
        yield from ("", f"# {title}:", *lines)


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
    """Return the entries with a template for those that differ in one number alone, the same on both sides."""
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
