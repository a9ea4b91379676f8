"""Gradients that are zero in exact arithmetic, such as a bias' before BatchNorm: what is left of them is rounding.

The gradient of a bias is the sum of the gradient of its module's output over all positions. Where these terms cancel,
the sum is as large as their rounding errors, and no two runs agree about it. Both are measured: whether the terms
cancel, and whether both sides' sums are within what rounding leaves of them. See ``docs/howto/choose_limits.md``.
Where hooks of one's own saved no terms on the right, MindSpore's graph names those of the left, and the gradient of the
weight beside the bias bounds how large the right's may be.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import reduce
from math import inf, isfinite, prod, sqrt
from typing import NamedTuple

import numpy as np

from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.core.matching.kinds import weight_name
from pytest_msdump.core.model.comparison import Limits
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Coordinates, Pairing, TensorRef, TensorView
from pytest_msdump.core.text import Message

_BLOCK_ELEMENTS = 1 << 18
# How wrong means are, in units of epsilon. Measured: 0.6 in PyTorch 2, 5.7 in MindSpore 2.10, which adds up one by one.
_OF_MEANS = 16
# Of however many terms: gradients that do not cancel are a tenth of the norm and more.
_MOST_OF_MEANS = 2.0**-9
# A bias has no more elements; memory stays bounded.
_MOST_CHANNELS = 1 << 20
# As recorders name the gradient of a bias, what PyTorch's optimizers add up of it from step to step, and the gradient
# of a module's output. What is added up stays below the floor only if every gradient so far was rounding.
_BIAS_GRADIENT = re.compile(r"(.+)[./](?:bias|beta)/(?:grad|momentum_buffer|exp_avg)")
_OUTPUT_GRADIENT = "/grad_output"
_BIAS_GRADIENT_TYPE = "BiasAddGrad"

# Module and coordinates → the gradients of its output, one for each call.
_Terms = Mapping[tuple[str, Coordinates], tuple[TensorRef, ...]]


def with_terms(pairing: Pairing, dumps: Mapping[str, Dump]) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
    """Give each pair of gradients of a bias the tensors that these are sums of, where the right side has them."""
    ours, theirs = _terms_of(dumps["left"]), _terms_of(dumps["right"])
    by_graph = _terms_by_graph(dumps["left"], pairing)
    if not theirs and not by_graph:
        return pairing, {}
    pairs = tuple(
        replace(pair, terms=(_of_bias(pair.left, ours), summed))
        if (summed := _of_bias(pair.right, theirs))
        else replace(pair, terms=by_graph.get(number, pair.terms))
        for number, pair in enumerate(pairing.pairs)
    )
    return replace(pairing, pairs=pairs), {}


def _terms_by_graph(left: Dump, pairing: Pairing) -> Mapping[int, tuple[tuple[TensorRef, ...], tuple[TensorRef, ...]]]:
    """Return by pair what a compiled graph adds up to the gradient of a bias, and the right's gradient of its weight.

    Only where both were dumped, and the gradient of the weight is compared as well.
    """
    feeds = {
        op.name: (op.inputs[0].producer, op.inputs[0].slot)
        for graph in left.compiled_graphs
        for op in graph.operators
        if op.op_type == _BIAS_GRADIENT_TYPE and op.inputs and op.inputs[0] is not None
    }
    if not feeds:
        return {}
    sources = set(feeds.values())
    made = {
        (ref.key.op.label, ref.key.slot, ref.key.op.at): replace(ref, place=None)
        for ref in left.refs
        if ref.key.io == "output" and (ref.key.op.label, ref.key.slot) in sources and not ref.is_unseen
    }
    named = [weight_name(pair.right.key.op.label) for pair in pairing.pairs]
    gradients = {
        (name.weight, pair.right.key.op.at): replace(pair.right, place=None)
        for name, pair in zip(named, pairing.pairs, strict=True)
        if name is not None and name.state == "gradient" and name.weight.endswith("weight")
    }
    found = {}
    for number, (name, pair) in enumerate(zip(named, pairing.pairs, strict=True)):
        if name is not None and name.state == "gradient" and name.weight.endswith("bias"):
            summed = made.get((*feeds.get(pair.left.key.op.label, ("", 0)), pair.left.key.op.at))
            beside = gradients.get((f"{name.weight.removesuffix('bias')}weight", pair.right.key.op.at))
            if summed is not None and beside is not None:
                found[number] = ((summed,), (beside,))
    return found


def _terms_of(dump: Dump) -> _Terms:
    found: defaultdict[tuple[str, Coordinates], list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        op, is_known = ref.key.op, not ref.is_unseen or ref.sketch is not None
        if op.label.endswith(_OUTPUT_GRADIENT) and (ref.key.io, ref.key.slot) == ("output", 0) and is_known:
            # A record does not depend on the place among other operators.
            found[op.label.removesuffix(_OUTPUT_GRADIENT), op.at.part].append(replace(ref, place=None))
    return {module: tuple(refs) for module, refs in found.items()}


def _of_bias(ref: TensorRef, terms: _Terms) -> tuple[TensorRef, ...]:
    named = _BIAS_GRADIENT.fullmatch(ref.key.op.label)
    return () if named is None else terms.get((named[1], ref.key.op.at.part), ())


def rounding_alone(opened: OpenedPair, limits: Limits, _again: object) -> Message | None:
    """Return the remark that a pair of gradients is zero in exact arithmetic; ``None`` where that is not shown."""
    pair, aligned, size = opened.pair, opened.aligned, opened.aligned.right.size
    if not pair.terms[1] or not 0 < size <= _MOST_CHANNELS:
        return None
    sums = [
        (_sketched_terms if any(ref.sketch for ref in refs) else _sum_terms)(refs, size)
        for refs in pair.terms
        if refs and weight_name(refs[0].key.op.label) is None
    ]
    if weight_name(pair.terms[1][0].key.op.label) is not None:
        with closing(open_logical(pair.terms[1][0])) as view:
            sums.append(sums[0]._replace(norm=_norm(view), rest=0.0))
    dtype = reduce(coarser, (one.dtype for one in sums), limits.judged_as)
    if dtype not in EPSILON:
        return None
    floor = min(one.norm * _rounding(dtype, one.size / size) for one in sums)
    left, right = _norm(aligned.left), _norm(aligned.right)
    # NaN is below nothing, and below an infinite floor is everything.
    if not all(isfinite(one.norm) and one.rest <= floor for one in sums) or not (left <= floor and right <= floor):
        return None
    terms = max(one.size for one in sums)
    return Message(
        "zero_in_exact_arithmetic", {"left": left, "right": right, "floor": floor, "dtype": dtype, "terms": terms}
    )


def _rounding(dtype: str, count: float) -> float:
    """Return what rounding leaves of the sum of `count` terms that cancel, in units of their norm."""
    # Each term is rounded by itself, which adds up as random numbers do: once epsilon. A normalisation subtracts means
    # from its gradients, and an error of a mean is in every term: that grows with the root of `count`, in float32 where
    # the terms are coarser.
    return EPSILON[dtype] + min(_OF_MEANS * sqrt(count) * min(EPSILON[dtype], EPSILON["float32"]), _MOST_OF_MEANS)


class _Sum(NamedTuple):
    """The terms of one side's gradient: their norm, their number, their type, and the norm of their sums."""

    norm: float
    size: int
    dtype: str
    rest: float


def _sum_terms(refs: Iterable[TensorRef], size: int) -> _Sum:
    """Add up terms in float64 for each of `size` channels, along any axis that may be theirs; the least sum counts."""
    squares, count, dtype = 0.0, 0, "float64"
    sums: defaultdict[int, np.ndarray] = defaultdict(lambda: np.zeros(size))
    for ref in refs:
        with closing(open_logical(ref)) as view:
            count, dtype = count + view.size, coarser(dtype, view.dtype)
            is_real = DTYPES[view.dtype].kind == "float"
            axes = [axis for axis, length in enumerate(view.shape) if length == size and is_real]
            start = 0
            for block in map(to_double, view.blocks(_BLOCK_ELEMENTS)):
                squares += _squares(block)
                for axis in axes:
                    channel = np.arange(start, start + block.size) // prod(view.shape[axis + 1 :]) % size
                    sums[axis] += np.bincount(channel, weights=block, minlength=size)
                start += block.size
    rest = min((sqrt(_squares(total)) for total in sums.values()), default=inf)
    return _Sum(sqrt(squares), count, dtype, rest)


def _sketched_terms(refs: Iterable[TensorRef], size: int) -> _Sum:
    """Return the same of terms that were not saved: the least sums of channels that have the sum of all terms."""
    squares, count, dtype, total = 0.0, 0, "float64", 0.0
    for ref in refs:
        values = ref.statistics.values if ref.statistics is not None else {}
        number, mean = values.get("count"), values.get("mean")
        if ref.sketch is None or ref.spec.dtype is None or not isinstance(number, int) or not isinstance(mean, float):
            return _Sum(inf, 1, "float64", inf)
        squares, count, total = squares + ref.sketch.norm**2, count + number, total + number * mean
        dtype = coarser(dtype, ref.spec.dtype)
    return _Sum(sqrt(squares), count, dtype, abs(total) / sqrt(size))


def _norm(view: TensorView) -> float:
    return sqrt(sum(_squares(to_double(block)) for block in view.blocks(_BLOCK_ELEMENTS)))


def _squares(block: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vdot(block, block).real)
