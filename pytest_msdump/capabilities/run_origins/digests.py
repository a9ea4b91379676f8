"""Whether two runs had the same inputs and weights, by the digests in their manifests; no tensor is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from pytest_msdump.capabilities.run_origins.reference import ReferenceFacts
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.operators import COUNTERS, NEUTRAL_WEIGHT_NAMES
from pytest_msdump.core.model.dump import PARAMETER, Dump, Manifest
from pytest_msdump.core.model.tensor import Pair, Pairing, Unmatched
from pytest_msdump.core.text import Message, say

_SHOWN = 3
_LOOKED_AT = 8
_SHOWN_DIGITS = 8
# The weight that a BatchNorm has and nothing else.
_VARIANCE = "running_var"


class _OriginWeight(NamedTuple):
    name: str
    digest: str


# Layer → its weights by neutral name, in the order of the manifest.
_Layers = Mapping[str, Mapping[str, _OriginWeight]]


def different_origins(
    left: Dump, right: Dump, pairs: Iterable[Pair] = (), *, by_tokens: bool = False
) -> tuple[str, ...]:
    """Return what there is to say of inputs and weights, if the two runs had different ones."""
    inputs: list[str] = []
    different: list[str] = []
    folded: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    for rank, ours, theirs, members in _by_rank(left, right, pairs):
        weights, norms = _different_weights(ours.weights, theirs.weights, members)
        inputs += [] if by_tokens else [rank + text for text in _different_inputs(ours.inputs, theirs.inputs)]
        different += [rank + text for text in weights]
        for side, names in norms.items():
            folded[side] |= {rank + name: rank + norm for name, norm in names.items()}
    told = {"given_different_inputs": inputs, "given_different_weights": different}
    types = [sorted(_float_types(dump)) for dump in (left, right)] if inputs or different else [[], []]
    if types[0] and types[1] and types[0] != types[1]:
        # What is rounded has another digest than before.
        told = {"given_other_types": [*inputs, *different]}
    notes = [
        Message(code, {"names": _some(names), "left": tuple(types[0]), "right": tuple(types[1])})
        for code, names in told.items()
        if names
    ]
    notes += [
        Message(
            "batch_norm_folded", {"side": side, "norms": _some(dict.fromkeys(norms.values())), "names": _some(norms)}
        )
        for side, norms in folded.items()
        if norms
    ]
    return tuple(map(say, notes))


def refuse_other_origins(golden: Dump, right: Dump, *, name: str) -> None:
    """Raise ConfigError where a run in whose favour pairs may pass had other inputs or weights than the right side."""
    dtypes: list[set[str]] = []
    ranks: list[int | None] = [*right.ranks]
    for rank in ranks or [None]:
        ours, theirs = golden.manifest_of(rank), right.manifest_of(rank)
        if ours is None or theirs is None:
            continue
        for kind in ("weights", "inputs"):
            one, other = getattr(ours, kind), getattr(theirs, kind)
            differing = [key for key in one if key in other and not _agree(one[key], other[key])]
            if differing and not any("+" in digest for digest in (one[differing[0]], other[differing[0]])):
                dtypes = dtypes or [_float_types(dump) for dump in (golden, right)]
                differing = differing if dtypes[0] == dtypes[1] else []
            if differing:
                raise ConfigError(
                    f"{name} {golden.root}: had other {kind} than {right.root}, also after rounding to the coarser "
                    f"type: {', '.join(differing[:_SHOWN])}; record it with those of the right side, "
                    "or leave it out"
                )


def has_other_graph(golden: Dump, right: Dump) -> bool:
    """Return whether manifests say that the two runs had different graphs."""
    return "graph" in ReferenceFacts.of(golden).differing(ReferenceFacts.of(right))


def _float_types(dump: Dump) -> set[str]:
    found: set[str | None] = set()
    for ref in dump.refs[:_LOOKED_AT]:
        with suppress(MsdumpError, OSError), ExitStack() as stack:
            found.add(ref.spec.dtype if ref.is_unseen else stack.enter_context(closing(open_view(ref))).dtype)
    return {name for name in found if name in DTYPES and DTYPES[name].kind == "float"}


def without_folded(pairing: Pairing, left: Dump, right: Dump) -> Pairing:
    """Take apart weights with a BatchNorm folded in on one side, if its output is compared and no map pairs them."""
    apart: dict[Pair, Message] = {}
    for _, ours, theirs, pairs in _by_rank(left, right, pairing.pairs):
        _, folded = _different_weights(ours.weights, theirs.weights, pairs)
        ops = {side: {_dotted(getattr(pair, side).key.op.label) for pair in pairs} for side in ("left", "right")}
        whys = {
            name: Message("weight_folded", {"side": side})
            for side, other in (("left", "right"), ("right", "left"))
            for name, norm in folded[side].items()
            if norm in ops[other]
        }
        apart |= {
            pair: whys[op.label]
            for pair in pairs
            if (op := pair.left.key.op).op_type == PARAMETER and op.label in whys and pair.how != "mapped"
        }
    if not apart:
        return pairing
    kept = tuple(pair for pair in pairing.pairs if pair not in apart)
    lost = {pair.right.key for pair in apart} - {pair.right.key for pair in kept}
    return replace(
        pairing,
        pairs=kept,
        unmatched_left=(*pairing.unmatched_left, *(Unmatched("left", pair.left, why) for pair, why in apart.items())),
        unmatched_right=(
            *pairing.unmatched_right,
            *(Unmatched("right", pair.right, why) for pair, why in apart.items()),
        ),
        right_paired=pairing.right_paired - len(lost),
    )


def _by_rank(
    left: Dump, right: Dump, pairs: Iterable[Pair]
) -> Iterator[tuple[str, Manifest, Manifest, Sequence[Pair]]]:
    """Yield the two manifests that belong together and their pairs; of recordings of ranks, for each two that meet."""
    meetings: defaultdict[tuple[int | None, int | None], list[Pair]] = defaultdict(list)
    for pair in pairs:
        ours, theirs = pair.left.key.op.at.rank, pair.right.key.op.at.rank
        meetings[ours if ours in left.ranks else None, theirs if theirs in right.ranks else None].append(pair)
    for (ours, theirs), members in (meetings or {(None, None): []}).items():
        one, other = left.manifest_of(ours), right.manifest_of(theirs)
        rank = theirs if ours is None else ours
        if one is not None and other is not None:
            yield "" if rank is None else f"rank {rank} ", one, other, members


def _different_weights(
    left: Mapping[str, str], right: Mapping[str, str], pairs: Iterable[Pair]
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return what there is to say of weights that differ, and by side and left name the norms folded into weights."""
    ours, theirs = _layers(left), _layers(right)
    whole = [(pair.left.key.op.label, pair.right.key.op.label) for pair in pairs if pair.transform.piece is None]
    known = {_dotted(one): _dotted(other) for one, other in whole}
    partners = {layer: known[layer] if known.get(layer) in theirs else layer for layer in ours}
    unfolded = _before_lonely_norms(ours, {one for one, other in partners.items() if other in theirs})
    unfolded_right = _before_lonely_norms(theirs, set(partners.values()))
    different: list[str] = []
    folded: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    for layer, held in ours.items():
        other = partners[layer]
        for kind, weight in held.items():
            partner = theirs.get(other, {}).get(kind)
            if partner is None or _agree(weight.digest, partner.digest):
                continue
            if other in unfolded_right:
                folded["left"][weight.name] = unfolded_right[other]
            elif layer in unfolded:
                folded["right"][weight.name] = unfolded[layer]
            else:
                different.append(_both(weight.name, weight.digest, partner.digest))
    return different, folded


def _different_inputs(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    common = [name for name in ours if name in theirs]
    for name in common:
        if not _agree(ours[name], theirs[name]):
            yield _both(name, ours[name], theirs[name])
    if common or not ours or not theirs:
        return
    # Frameworks call one thing by different names: then the numbers are compared without them.
    left_only = sorted(set(map(_values, ours.values())) - set(map(_values, theirs.values())))
    if left_only:
        name = next(name for name, digest in ours.items() if _values(digest) == left_only[0])
        yield f"none of the right side's is the left's {name} ({left_only[0][:_SHOWN_DIGITS]})"


def _layers(weights: Mapping[str, str]) -> _Layers:
    found: defaultdict[str, dict[str, _OriginWeight]] = defaultdict(dict)
    for name, digest in weights.items():
        layer, _, own = _dotted(name).rpartition(".")
        if own not in COUNTERS:
            found[layer][NEUTRAL_WEIGHT_NAMES.get(own, own)] = _OriginWeight(name, digest)
    return found


def _before_lonely_norms(layers: _Layers, paired: Container[str]) -> Mapping[str, str]:
    """Return layers with the BatchNorm declared right behind them that the other side does not have."""
    return {layer: norm for layer, norm in pairwise(layers) if _VARIANCE in layers[norm] and norm not in paired}


def _dotted(name: str) -> str:
    return re.sub(r"[/\\]", ".", name)


def _some(names: Iterable[str]) -> Message | tuple[str, ...]:
    every = tuple(names)
    if len(every) <= _SHOWN:
        return every
    return Message("names_and_more", {"names": every[:_SHOWN], "n": len(every) - _SHOWN})


def _both(name: str, left: str, right: str) -> str:
    return f"{name} (left {_values(left)[:_SHOWN_DIGITS]}, right {_values(right)[:_SHOWN_DIGITS]})"


def _agree(one: str, other: str) -> bool:
    """Whether two digests are of the same values, or one of what the other has when it is rounded."""
    ours, theirs = _values(one), _values(other)
    return ours == theirs or ours in _rounded(other) or theirs in _rounded(one)


def _rounded(digest: str) -> list[str]:
    """Return the digests of the values rounded to coarser types, if it has them."""
    return [part.partition(":")[2] for part in digest.partition("/")[0].split("+")[1:]]


def _values(digest: str) -> str:
    """Return the part of a digest that is independent of the order of elements: frameworks arrange axes differently."""
    return digest.rpartition("/")[2]
