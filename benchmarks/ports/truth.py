"""What must pair in a port: tensors that hold one value in a correct port, found without the project's own matcher.

Values say which tensors are the same (weights and inputs are random, so nothing agrees by chance), the models say
whether they are meant to be: the exporter's metadata, or a table of names written by hand.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump import open_dump
from pytest_msdump.core.compare.opening import open_view

__all__ = ["Cause", "Tensor", "Truth", "UnclearError", "make_truth", "operator_of", "read_truth", "tensors_of"]

# Relative Euclidean distance that rounding of float32 explains through a whole network, and the least that is a
# difference for sure. In between nothing can be said.
SAME = 3e-5
DIFFERENT = 3e-4
# A tensor with fewer different values than this may agree with another by chance: masks, positions, constants.
FEWEST_VALUES = 12
# Below this all is rounding: gradients that are zero in exact arithmetic.
NOISE = 1e-6

Meant = Callable[[str, str], bool]


class UnclearError(Exception):
    """A truth that cannot be told: the data must be made otherwise."""


class Tensor(NamedTuple):
    """An output: its address in the truth's spelling, its operator's name, its values, its place in the dump."""

    address: str
    operator: str
    values: Any
    place: int


@dataclass
class Cause:
    """Where one mistake was put in.

    Parameters
    ----------
    mistake : str
        Its name.
    left, right : list of str
        Operators of the port, and of the reference, that the mistake is in. Empty where that side has none.
    seen_at : list of [left address, right address]
        Where it shows first: pairs of the mistaken operator, else the nearest behind it.
    apart : float, optional
        The largest relative Euclidean distance of the pairs of the mistaken operator; of all of `seen_at` where it has
        none; ``None`` where their sizes differ.
    """

    mistake: str
    left: list[str]
    right: list[str]
    seen_at: list[list[str]] = field(default_factory=list)
    apart: float | None = None


@dataclass
class Truth:
    """The truth about one port.

    Parameters
    ----------
    case, port, title : str
        Names, and what is wrong with the port in a sentence.
    pairs : list of [left address, right address]
        One for each right tensor whose value exists on the left.
    values : list of {"left": addresses, "right": addresses}
        Tensors that are one value. Any left with any right of one entry is a true pair.
    absent : list of str
        Right tensors whose value does not exist on the left: pairing one is wrong.
    unjudged_left, unjudged_right : list of str
        Tensors too plain to be told by value, or whose meaning the models do not confirm: never counted.
    causes : list of Cause
        One for each mistake; empty in a correct port.
    """

    case: str
    port: str
    title: str
    pairs: list[list[str]]
    values: list[dict[str, list[str]]]
    absent: list[str]
    unjudged_left: list[str]
    unjudged_right: list[str]
    causes: list[Cause] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        entry = {**vars(self), "causes": [vars(cause) for cause in self.causes]}
        path.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")

    def renamed(self, names: Mapping[str, str]) -> Truth:
        """Return the same truth where operators of the left have other names."""
        if not names:
            return self

        def new(address: str) -> str:
            operator = operator_of(address)
            return names.get(operator, operator) + address.removeprefix(operator)

        values = [{"left": [new(one) for one in entry["left"]], "right": entry["right"]} for entry in self.values]
        pairs = [[new(left), right] for left, right in self.pairs]
        return replace(self, pairs=pairs, values=values, unjudged_left=[new(one) for one in self.unjudged_left])

    def of_port(
        self, port: str, title: str, left: Sequence[Tensor], right: Sequence[Tensor], causes: list[Cause]
    ) -> Truth:
        """Return the truth of a wrong port that has the operators of this one, some of them perhaps removed."""
        exist, rights = ({tensor.address: tensor.values for tensor in side} for side in (left, right))
        values = [
            {"left": [one for one in entry["left"] if one in exist], "right": entry["right"]} for entry in self.values
        ]
        lost = [right for entry in values if not entry["left"] for right in entry["right"]]
        values = [entry for entry in values if entry["left"]]
        holder = {right: entry for entry in values for right in entry["right"]}
        pairs = [
            [left_one if left_one in exist else holder[right]["left"][-1], right]
            for left_one, right in self.pairs
            if right in holder
        ]
        for cause in causes:
            cause.seen_at = [pair for pair in cause.seen_at if pair[0] in exist]
            own = [pair for pair in cause.seen_at if pair[1].rsplit(":", 2)[0] in cause.right]
            cause.apart = _furthest([(exist[one], rights[other]) for one, other in own or cause.seen_at])
        unjudged = [one for one in self.unjudged_left if one in exist]
        # What a removed operator gave out may well be compared with what the port now has in its place.
        unjudged_right = [*self.unjudged_right, *lost]
        return Truth(self.case, port, title, pairs, values, self.absent, unjudged, unjudged_right, causes)


def read_truth(path: Path) -> Truth:
    """Read what `Truth.write` wrote."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    return Truth(**{**entry, "causes": [Cause(**cause) for cause in entry["causes"]]})


def operator_of(address: str) -> str:
    """Return the operator of an address in the truth's spelling, without its occurrence."""
    return address.rsplit(":", 2)[0].rsplit("@", 1)[0]


def spelled(ref: Any) -> str:
    """Spell the address of a tensor: ``OP:io:slot``, ``OP@1:io:slot`` of a second call, ``#1`` behind an iteration."""
    key = ref.key
    occurrence, iteration = key.op.at.occurrence or 0, key.op.at.iteration or 0
    operator = f"{key.op.label}@{occurrence}" if occurrence else key.op.label
    return f"{operator}:{key.io}:{key.slot}" + (f"#{iteration}" if iteration else "")


def tensors_of(directory: Path, *, to_nchw: bool = False) -> list[Tensor]:
    """Read all outputs of a dump, in execution order."""
    dump = open_dump(directory)
    return [
        Tensor(spelled(ref), ref.key.op.label, _values(ref, to_nchw), place)
        for place, ref in enumerate(dump.refs)
        if ref.key.io == "output"
    ]


def _values(ref: Any, to_nchw: bool) -> Any:
    view = open_view(ref)
    try:
        values = np.array(view.read(0, view.size)).reshape(view.spec.shape)
    finally:
        view.close()
    if to_nchw and values.ndim == 4:
        values = values.transpose(0, 3, 1, 2)
    return values.astype(np.float64).reshape(-1)


def make_truth(case: str, lefts: Sequence[Tensor], rights: Sequence[Tensor], meant: Meant) -> Truth:
    """Make the truth about a correct port.

    Parameters
    ----------
    case : str
        Its name.
    lefts, rights : sequence of Tensor
        The dumps.
    meant : callable
        Whether the models say that a left and a right operator, by name, compute the same. Each value needs one such
        pair; values without are not judged.

    Raises
    ------
    UnclearError
        Two tensors are neither the same nor clearly different, or nothing is confirmed.
    """
    plain_left, plain_right = ({one.address for one in side if _is_plain(one)} for side in (lefts, rights))
    clear_left = [one for one in lefts if one.address not in plain_left]
    clear_right = [one for one in rights if one.address not in plain_right]
    values: list[dict[str, list[str]]] = []
    pairs: list[list[str]] = []
    absent: list[str] = []
    unconfirmed: tuple[list[str], list[str]] = ([], [])
    for ours, theirs in _same_values(clear_left, clear_right):
        left_names, right_names = [one.address for one in ours], [one.address for one in theirs]
        if not ours:
            absent += right_names
        elif not theirs:
            continue
        elif not any(meant(one.operator, other.operator) for one in ours for other in theirs):
            unconfirmed[0].extend(left_names)
            unconfirmed[1].extend(right_names)
        else:
            values.append({"left": left_names, "right": right_names})
            pairs += [[_canonical(ours, other, meant), other.address] for other in theirs]
    if not values:
        raise UnclearError(f"{case}: no value of the reference exists in the port")
    order = {one.address: one.place for one in rights}
    pairs.sort(key=lambda pair: order[pair[1]])
    return Truth(
        case,
        "good",
        "a correct port",
        pairs,
        values,
        absent,
        sorted(plain_left) + unconfirmed[0],
        sorted(plain_right) + unconfirmed[1],
    )


def _canonical(ours: Sequence[Tensor], other: Tensor, meant: Meant) -> str:
    """Return the left tensor that is called most like the right one: the last of those that are meant."""
    fitting = [one for one in ours if meant(one.operator, other.operator)] or list(ours)
    return fitting[-1].address


def _is_plain(tensor: Tensor) -> bool:
    values = tensor.values
    is_finite = bool(np.isfinite(values).all())
    return not is_finite or np.abs(values).max(initial=0) < NOISE or np.unique(values[:4096]).size < FEWEST_VALUES


def _same_values(lefts: Sequence[Tensor], rights: Sequence[Tensor]) -> Iterable[tuple[list[Tensor], list[Tensor]]]:
    """Yield tensors of one value each: those of the left, those of the right."""
    by_size: defaultdict[int, list[tuple[bool, Tensor]]] = defaultdict(list)
    for is_right, side in enumerate((lefts, rights)):
        for tensor in side:
            by_size[tensor.values.size].append((bool(is_right), tensor))
    for members in by_size.values():
        for group in _groups([tensor for _, tensor in members]):
            chosen = [members[number] for number in group]
            yield [one for is_right, one in chosen if not is_right], [one for is_right, one in chosen if is_right]


def _furthest(pairs: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the largest relative distance, rounded; ``None`` where sizes differ."""
    if not pairs or any(one.size != other.size for one, other in pairs):
        return None
    return max(float(f"{_apart(one, other):.3g}") for one, other in pairs)


def _apart(values: Any, reference: Any) -> float:
    return float(np.linalg.norm(values - reference) / max(np.linalg.norm(reference), 1e-30))


def _groups(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the numbers of equal tensors together."""
    groups: list[list[int]] = []
    for number, tensor in enumerate(tensors):
        for group in groups:
            first = tensors[group[0]]
            apart = _apart(first.values, tensor.values)
            if apart <= SAME:
                group.append(number)
                break
            if apart < DIFFERENT:
                raise UnclearError(
                    f"{tensor.address} and {first.address} are {apart:.1e} apart: neither same nor different"
                )
        else:
            groups.append([number])
    return groups
