"""The steps of a run, to align them with another's: tensors that hold one value are one step, a sum is known as one."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.suggest.fingerprint import Fingerprint, Sample
from pytest_msdump.capabilities.suggest.structure import (
    AlignedStep,
    align_steps,
    fused_steps,
    names_agreement,
    shapes_agree,
)
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.matching.kinds import FINISHED_BY, kind_of, kind_of_name
from pytest_msdump.core.model.tensor import TensorRef

Array = npt.NDArray[Any]

# What these give out was there before, or is no step of the network.
_PASSING, _ADD, _SUM = "passing", "add", "sum"
_UNSPECIFIC = frozenset({"", _PASSING, "attention", "moving"})
# A sum is looked for among so many steps of its size before it; one of its terms is among the last few.
_REACH, _NEAR = 24, 6
# How far a recorded sum is from the sum of its recorded parts, by what was computed in.
_ROUNDING = {"float64": 1e-9, "float32": 1e-5}
_COARSE_ROUNDING = 5e-3


class Look(NamedTuple):
    """What a tensor that was read looks like: its logical shape, its fingerprint, a few elements."""

    shape: tuple[int, ...]
    print: Fingerprint
    sample: Sample


def steps_of(refs: Mapping[int, TensorRef], looks: Mapping[int, Look]) -> list[AlignedStep]:
    """Return the steps of these outputs, in execution order, each with tensors by their numbers."""
    steps: list[AlignedStep] = []
    for members in _same_values(refs, looks):
        keys = [refs[number].key for number in members]
        kinds = [(kind_of(key.op.op_type, key.op.label), key.slot) for key in keys]
        specific = frozenset((kind, slot) for kind, slot in kinds if kind not in ("", _PASSING))
        steps.append(
            AlignedStep(
                members,
                specific or frozenset(one for one in kinds if one[0]),
                tuple(refs[number].key.op.label for number in members),
                tuple(dict.fromkeys(looks[number].shape for number in members)),
            )
        )
    return _with_sums(steps, refs, looks)


def _same_values(refs: Mapping[int, TensorRef], looks: Mapping[int, Look]) -> list[tuple[int, ...]]:
    """Return the numbers of tensors that hold the same values in C order, in order of the first of each."""
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number in refs:
        found = looks[number].print
        # Masks and constants are the same by chance.
        key = (found.size, found.values.tobytes()) if found.is_distinctive else (number,)
        alike[key].append(number)
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for numbers in alike.values():
        for number in numbers:
            groups[number if len(numbers) == 1 else _digest(refs[number])].append(number)
    return sorted(tuple(sorted(group)) for group in groups.values())


def _digest(ref: TensorRef) -> bytes:
    digest = hashlib.blake2b()
    with closing(open_logical(ref)) as view:
        digest.update(view.dtype.encode())
        for block in view.blocks(1 << 17):
            digest.update(np.ascontiguousarray(block).tobytes())
    return digest.digest()


def _with_sums(
    steps: Sequence[AlignedStep], refs: Mapping[int, TensorRef], looks: Mapping[int, Look]
) -> list[AlignedStep]:
    """Mark what is the sum of two steps before it, which the type of a residual block does not say, and biases."""
    found: list[AlignedStep] = []
    before: defaultdict[int, list[Array]] = defaultdict(list)
    for step in steps:
        number = step.members[0]
        sample = looks[number].sample
        if sample.unit is not None:
            terms = before[looks[number].print.size]
            may_be_sum = step.is_of(_ADD) or all(kind in _UNSPECIFIC for kind, _ in step.kinds)
            coarse = _ROUNDING.get(refs[number].spec.dtype or "float32", _COARSE_ROUNDING)
            if may_be_sum and _is_sum(sample.values, terms[::-1][:_REACH], coarse):
                step = replace(step, kinds=frozenset({(_ADD, 0), (_SUM, 0)}))
            terms.append(sample.values)
        if step.is_of(_ADD) and not step.is_of(_SUM) and found and _is_bias(found[-1], step):
            step = replace(step, kinds=frozenset({("bias", 0)}))
        found.append(step)
    return found


def _is_sum(whole: Array, terms: Sequence[Array], rounding: float) -> bool:
    """Whether it is one of the last few of these terms plus another one."""
    # The norm of values above 1e154 is infinite: next to it nothing is small, and so nothing is called a sum.
    with np.errstate(over="ignore", invalid="ignore"):
        most = float(np.linalg.norm(whole)) * rounding
        # Next to nothing added to something is no sum.
        terms = [term for term in terms if float(np.linalg.norm(term)) > 100 * most]
        return any(
            float(np.linalg.norm(whole - last - other)) <= most
            for place, last in enumerate(terms[:_NEAR])
            for other in terms[place + 1 :]
        )


def _is_bias(before: AlignedStep, step: AlignedStep) -> bool:
    """Whether an addition is called after the layer whose product it follows: a bias."""
    if not any(before.is_of(kind) for kind in FINISHED_BY):
        return False
    folder = step.names[0].rpartition("/")[0]
    is_beside = bool(folder) and any(name.rpartition("/")[0] == folder for name in before.names)
    return is_beside or kind_of_name(step.names[0]) in FINISHED_BY


_Pair = tuple[AlignedStep, AlignedStep]


def pairs_by_structure(
    left: Sequence[AlignedStep],
    right: Sequence[AlignedStep],
    paired: Sequence[tuple[int, int]],
    prefers: Callable[[AlignedStep, AlignedStep], bool],
) -> Iterator[_Pair]:
    """Yield steps that belong together by kind, shape and order, and no other way."""
    ours, theirs = fused_steps(left, right)
    known = _known(ours, theirs, paired)
    found = align_steps(ours, theirs, paired=known)
    if found.possible:
        preferred = [(one, other) for one, other in found.possible if prefers(ours[one], theirs[other])]
        if preferred:
            found = align_steps(ours, theirs, paired=known, preferred=preferred)
    pairs = dict(found.certain)
    pairs |= _leavers(ours, theirs, known | pairs, found.possible)
    for one, other in sorted(pairs.items()):
        yield from _inner(ours[one], theirs[other])


def _inner(one: AlignedStep, other: AlignedStep) -> Iterator[_Pair]:
    if one.inner is not None and other.inner is not None:
        yield from _inner(one.inner, other.inner)
    yield one, other


def _known(
    left: Sequence[AlignedStep], right: Sequence[AlignedStep], paired: Sequence[tuple[int, int]]
) -> dict[int, int]:
    place_of = [
        {member: place for place, step in enumerate(steps) for member in step.members} for steps in (left, right)
    ]
    known: dict[int, int] = {}
    for one, other in paired:
        if one in place_of[0] and other in place_of[1]:
            ours, theirs = place_of[0][one], place_of[1][other]
            if ours not in known and theirs not in known.values():
                known[ours] = theirs
    return known


def _leavers(
    left: Sequence[AlignedStep],
    right: Sequence[AlignedStep],
    pairs: Mapping[int, int],
    possible: Sequence[tuple[int, int]],
) -> dict[int, int]:
    """Return the partners of modules whose types say nothing: what leaves them, just before the next step that pairs.

    One step of the right between two pairs is meant by the last step of the left between them, but for a residual sum
    that is no module on the right.
    """
    found: dict[int, int] = {}
    open_left, open_right = {one for one, _ in possible}, {other for _, other in possible}
    places = sorted((theirs, ours) for ours, theirs in pairs.items())
    for (before, before_left), (after, after_left) in pairwise(places):
        if after != before + 2 or after_left <= before_left + 1 or before + 1 in open_right:
            continue
        module = right[before + 1]
        if any(kind not in _UNSPECIFIC for kind, _ in module.kinds):
            continue
        last = after_left - 1
        if left[last].is_of(_SUM) and last - 1 > before_left:
            last -= 1
        if last not in open_left and shapes_agree(left[last].shapes, module.shapes):
            found[last] = before + 1
    return found


# Of longer runs, the first tensors are enough for a suggestion.
_MOST_REPORTED = 500


def entry_by_structure(left: Sequence[TensorRef], right: Sequence[TensorRef]) -> tuple[TensorRef, TensorRef] | None:
    """Return the pair that kinds, order and names speak for most; no tensor is read."""
    ours, theirs = fused_steps(_unread_steps(left[:_MOST_REPORTED]), _unread_steps(right[:_MOST_REPORTED]))
    pairs = align_steps(ours, theirs, paired={}).certain
    if not pairs:
        return None
    one, other = max(pairs, key=lambda pair: names_agreement(ours[pair[0]], theirs[pair[1]]))
    return left[ours[one].members[-1]], right[theirs[other].members[-1]]


def _unread_steps(refs: Sequence[TensorRef]) -> list[AlignedStep]:
    steps = []
    for number, ref in enumerate(refs):
        name, shape = ref.key.op.label, ref.spec.shape
        kind = kind_of(ref.key.op.op_type, name)
        if ref.key.io == "output" and kind not in _UNSPECIFIC:
            steps.append(
                AlignedStep((number,), frozenset({(kind, ref.key.slot)}), (name,), () if shape is None else (shape,))
            )
    return steps
