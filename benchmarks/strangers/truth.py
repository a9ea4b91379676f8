"""What is true of a pair of folders: which file is which, from the tables of the ports and the run of the models."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .port import Port, expanded
from .tensors import Recording, Tensor

__all__ = [
    "Meaning",
    "Truth",
    "distance",
    "is_plain",
    "meaning_of",
    "read_truth",
    "truth_of",
    "unmeant",
    "wrong_by_value",
]

# Relative Euclidean distance that rounding of float32 explains through a whole network.
_SAME = 1e-4
# A tensor with fewer different values may agree with another by chance.
_FEWEST_VALUES = 8
# By kind: how many names stand behind the module's path.
_NAMES_BEHIND_MODULE = {"": 0, "gradient": 1, "parameter": 1, "state": 2}


@dataclass
class Truth:
    """The truth about one pair of folders. A key is a file below the folder, or ``FILE::NAME`` in an archive.

    Parameters
    ----------
    model, left, mistake, left_style, right_style : str
        What it was made of; the mistake is ``"good"`` where there is none.
    pairs : list of [left key, right key]
        Tensors that are one quantity, all combinations: where a container returns what its last layer returned, either
        may be met.
    also : list of [left key, right key]
        Right as well, but never missed: by the mistake two quantities became one tensor.
    namesakes : list of [left key, right key]
        Modules of one path in both models that hold different quantities: names say that they are a pair, so it is
        neither right nor wrong.
    parts : list of [left keys, right keys]
        Joined projections: one side has one key, the other several, whose tensors stand side by side in it along the
        last axis, in this order.
    alone_left, alone_right : list of str
        Tensors without a partner.
    unjudged_left, unjudged_right : list of str
        Tensors of which the models say nothing: never counted.
    """

    model: str
    left: str
    mistake: str
    left_style: str
    right_style: str
    pairs: list[list[str]] = field(default_factory=list)
    also: list[list[str]] = field(default_factory=list)
    namesakes: list[list[str]] = field(default_factory=list)
    parts: list[list[list[str]]] = field(default_factory=list)
    alone_left: list[str] = field(default_factory=list)
    alone_right: list[str] = field(default_factory=list)
    unjudged_left: list[str] = field(default_factory=list)
    unjudged_right: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_truth(path: Path) -> Truth:
    """Read what `Truth.write` wrote."""
    return Truth(**json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Meaning:
    """What the labels of both sides mean.

    Parameters
    ----------
    left, right : mapping of str to set of str
        Quantities by label, of a port without a mistake and of the reference.
    parts : list of (left quantities, right quantities)
        Joined projections.
    unjudged : set of str
        Labels of the left that nothing is known of.
    """

    left: Mapping[str, frozenset[str]]
    right: Mapping[str, frozenset[str]]
    parts: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = ()
    unjudged: frozenset[str] = frozenset()


def meaning_of(port: Port, left: Recording, right: Recording) -> Meaning:
    """Return what a port's tensors mean, by its table and by which of its tensors are one.

    Raises
    ------
    ValueError
        The table names what the reference does not have.
    """
    rights: dict[str, frozenset[str]] = {}
    for group in right.groups():
        rights.update((tensor.label, frozenset({group[0].label})) for tensor in group)
    groups = [[tensor.label for tensor in group] for group in left.groups()]
    labels = [label for group in groups for label in group]
    said: defaultdict[str, set[str]] = defaultdict(set)
    for template, other in port.same.items():
        hits = list(expanded_labels(template, other, labels))
        if not hits:
            raise ValueError(f"{port.name}: {template} is not recorded")
        for label, right_label in hits:
            if ".-1" in right_label:
                continue
            if right_label not in rights:
                raise ValueError(f"{port.name}: {label} should be {right_label}, which is not recorded")
            said[label] |= rights[right_label]
    lefts: dict[str, frozenset[str]] = {}
    for group in groups:
        means = frozenset().union(*(said[label] for label in group))
        lefts.update((label, means or frozenset({f"left {group[0]}"})) for label in group)
    parts = []
    for ours, theirs in port.parts:
        for label, _ in expanded(ours[0], theirs[0], labels):
            one = [dict(expanded(ours[0], template, [label]))[label] for template in (*ours, *theirs)]
            parts.append((tuple(one[: len(ours)]), tuple(one[len(ours) :])))
    return Meaning(lefts, rights, parts)


def expanded_labels(template: str, other: str, labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the labels that fit a template, in every step of a training and of every kind, and what each should be.

    Gradients, weights and states of the optimizer are those of the module before their last names.

    >>> list(expanded_labels("out", "fc", ["out#0", "gradient out.bias#1"]))
    [('out#0', 'fc#0'), ('gradient out.bias#1', 'gradient fc.bias#1')]
    """
    for label in labels:
        name, sign, step = label.partition("#")
        kind, space, path = name.rpartition(" ")
        words = path.split(".")
        module = ".".join(words[: len(words) - _NAMES_BEHIND_MODULE[kind]])
        for _, right in expanded(template, other, [module]):
            yield label, f"{kind}{space}{right}{path.removeprefix(module)}{sign}{step}"


def truth_of(truth: Truth, meaning: Meaning, left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Truth:
    """Fill in the truth about two folders, whose tensors are given by key."""
    by_label = ({tensor.label: key for key, tensor in side.items() if tensor.label} for side in (left, right))
    left_keys, right_keys = by_label
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for key, tensor in right.items():
        for quantity in meaning.right.get(tensor.label, ()):
            holders[quantity].append(key)
    known_left: set[str] = set()
    known_right: set[str] = set()
    for key, tensor in left.items():
        for quantity in sorted(meaning.left.get(tensor.label, ())):
            truth.pairs += [[key, other] for other in holders[quantity]]
    for ours, theirs in meaning.parts:
        if all(one in left_keys for one in ours) and all(one in right_keys for one in theirs):
            truth.parts.append([[left_keys[one] for one in ours], [right_keys[one] for one in theirs]])
    for ours, theirs in [*truth.parts, *([[one], [other]] for one, other in truth.pairs)]:
        known_left.update(ours)
        known_right.update(theirs)
    truth.unjudged_left = sorted(key for key, tensor in left.items() if tensor.label in meaning.unjudged)
    truth.alone_left = sorted(left.keys() - known_left - {*truth.unjudged_left})
    truth.alone_right = sorted(right.keys() - known_right)
    required = {tuple(pair) for pair in truth.pairs}
    truth.also = [[*pair] for pair in sorted(_became_one(left, meaning, holders) - required)]
    same = {(key, right_keys[label]) for label, key in left_keys.items() if label in right_keys}
    truth.namesakes = [[*pair] for pair in sorted(same - required)]
    return truth


def _became_one(
    left: Mapping[str, Tensor], meaning: Meaning, holders: Mapping[str, Sequence[str]]
) -> set[tuple[str, str]]:
    """Return the pairs that are right since a left tensor is the same as another left tensor, by a mistake."""
    groups: defaultdict[Any, list[str]] = defaultdict(list)
    for key, tensor in left.items():
        if tensor.identity is not None:
            groups[tensor.identity].append(key)
    found: set[tuple[str, str]] = set()
    for keys in groups.values():
        quantities = {one for key in keys for one in meaning.left.get(left[key].label, ())}
        found |= {pair for one in quantities for pair in product(keys, holders.get(one, ()))}
    return found


def distance(values: Any, reference: Any) -> float | None:
    """Return the relative distance of two arrays in C order; ``None`` where their sizes differ."""
    if values.size != reference.size:
        return None
    one, other = values.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    return float(np.linalg.norm(one - other) / max(np.linalg.norm(other), 1e-30))


def is_plain(values: Any) -> bool:
    """Whether a tensor may agree with another by chance: integers, masks, constants."""
    return values.dtype.kind != "f" or np.unique(values).size < _FEWEST_VALUES or not np.isfinite(values).all()


def _in_order(port: Port, values: Any) -> Any:
    return values.transpose(0, 3, 1, 2) if port.left_is_nhwc and values.ndim == 4 else values


def wrong_by_value(port: Port, meaning: Meaning, left: Recording, right: Recording) -> list[str]:
    """Return what a table says that the values of a port without a mistake contradict."""
    by_quantity: defaultdict[str, list[Tensor]] = defaultdict(list)
    for tensor in right.tensors:
        for quantity in meaning.right[tensor.label]:
            by_quantity[quantity].append(tensor)
    problems = []
    for tensor in left.tensors:
        for quantity in meaning.left[tensor.label]:
            for other in by_quantity[quantity]:
                apart = distance(_in_order(port, tensor.values), other.values)
                if apart is None or apart > _SAME:
                    problems.append(f"{port.name}: {tensor.label} should be {other.label}, and is {apart} from it")
    lefts, rights = ({one.label: one.values for one in side.tensors} for side in (left, right))
    for ours, theirs in meaning.parts:
        sides = [np.concatenate([side[one].reshape(-1, side[one].shape[-1]) for one in names], -1)
                 for side, names in ((lefts, ours), (rights, theirs))]  # fmt: skip
        apart = distance(*sides)
        if apart is None or apart > _SAME:
            problems.append(f"{port.name}: {ours} should be {theirs}, and is {apart} from it")
    return problems


def unmeant(port: Port, meaning: Meaning, left: Recording, right: Recording) -> list[str]:
    """Return pairs whose values agree though no table says so: rows that may be missing."""
    found = []
    for tensor in left.tensors:
        for other in right.tensors:
            if meaning.left[tensor.label] & meaning.right[other.label]:
                continue
            apart = distance(_in_order(port, tensor.values), other.values)
            if apart is not None and apart < _SAME and np.unique(other.values).size > 12:
                found.append(f"{port.name}: {tensor.label} agrees with {other.label} ({apart:.1e})")
    return found
