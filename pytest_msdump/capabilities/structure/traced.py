"""Operators of an exported graph without modules, in the order in which they ran: ``linear_3``, ``layer_norm_1``.

Such names say what an operator does and nothing of where it is. So it meets the layer that does the same, has as many
elements, and is at the same place among all that do: where this is the only way to have most of them paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pytest_msdump.capabilities.structure.chain import sure_pairs
from pytest_msdump.capabilities.structure.evidence import Layer
from pytest_msdump.capabilities.structure.words import PASSING, Words, kind_of_words

# The kind of the layer that an operator is.
_LAYERS = {
    **dict.fromkeys(("linear", "addmm", "mm"), "linear"),
    **dict.fromkeys(("conv", "conv transpose", "convolution"), "conv"),
    **dict.fromkeys(("pool", "max pool", "avg pool", "mean"), "pool"),
    **{kind: kind for kind in ("norm", "act", "embed")},
}
# Others, which are no layer.
_OTHERS = frozenset({
    "view", "unsafe_view", "reshape", "permute", "transpose", "slice", "slice_scatter", "select", "unsqueeze",
    "squeeze", "expand", "cat", "pad", "roll", "matmul", "bmm", "baddbmm", "mul", "add", "sub", "div", "pow",
    "rsqrt", "sqrt", "neg", "sin", "cos", "softmax", "where", "masked_fill", "getitem", "split", "chunk",
    "scaled_dot_product_attention", "as_strided", "copy", "clone", "index", "arange", "full", "to", "val", "ne",
    "eq", "lt", "gt", "le", "ge", "cumsum", "t", "exp", "log", "log_softmax", "split_split", "chunk_chunk",
    "argmax", "any", "all", "scalar_tensor", "clamp", "abs", "sum", "flatten", "unbind",
})  # fmt: skip
# So many names of a side are those of operators, and so many are of some that no layer is called after.
_MOST, _FEW = 0.9, 0.2
# What speaks for an operator and a layer of its kind and number of elements.
_SAME = 150.0
# The same of a layer whose name does not say what it does; such a pair is not made, but tells where others are.
_UNKNOWN = 2.0
_SURE = 0.95
_LINEAR = frozenset({"linear", "q", "k", "v", "qkv", "o", "gate", "up", "down"})


def is_trace(layers: Sequence[Layer]) -> bool:
    """Whether the names of a side are those of operators."""
    return are_operators([one.words for one in layers])


def are_operators(words: Sequence[Words]) -> bool:
    """Whether names of which these are the words are those of operators."""
    names = [_operator(one) for one in words]
    others = sum(name.replace(" ", "_") in _OTHERS for name in names)
    known = others + sum(name in _LAYERS for name in names)
    return known >= _MOST * len(names) and others >= _FEW * len(names)


def _operator(words: Words) -> str:
    numbers = [place for place, word in enumerate(words) if isinstance(word, int)]
    end = numbers[0] if numbers else len(words)
    return " ".join(map(str, words[:end])) if len(words) - end <= 1 else ""


def traced_pairs(trace: Sequence[Layer], layers: Sequence[Layer], holds: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield operators with the layers that they are, by number.

    Parameters
    ----------
    trace : sequence of Layer
        Operators, in the order in which they ran.
    layers : sequence of Layer
        Those of the other side in order, a module behind what it holds.
    holds : sequence of bool
        Which of these hold others.
    """
    kinds = [(number, kind) for number, kind in enumerate(_operator_kinds(trace)) if kind]
    known = [
        (number, _layer_kind(one))
        for number, one in enumerate(layers)
        if not holds[number] and _layer_kind(one) != "drop"
    ]
    looks = [[(kind, of[number].size) for number, kind in own] for own, of in ((kinds, trace), (known, layers))]
    rows, columns = ([*dict.fromkeys(own)] for own in looks)
    weights = np.array([[_weight(one, other) for other in columns] for one in rows])
    places = [[own.index(look) for look in of_side] for own, of_side in zip((rows, columns), looks, strict=True)]
    sure = sure_pairs(places[0], places[1], weights.reshape(len(rows), len(columns)), _SURE)
    found = [(kinds[one][0], known[other][0]) for one, other in sure if known[other][1]]
    yield from found
    yield from _sums(trace, layers, holds, found)


def _weight(one: tuple[str, int | None], other: tuple[str, int | None]) -> float:
    if one[1] is None or one[1] != other[1]:
        return 0.0
    if not other[0]:
        return _UNKNOWN
    return _SAME * (one[0] == other[0] or {one[0], other[0]} <= {"conv", "linear", "embed"})


def _operator_kinds(trace: Sequence[Layer]) -> list[str]:
    """Return the kind of the layer that each operator is; empty for one that is no layer, or a part of one."""
    names = [_operator(one.words) for one in trace]
    kinds = [_LAYERS.get(name, "") for name in names]
    # A batch norm has three outputs, of which nothing but the first is used.
    lasts = [one.words[-1] for one, name in zip(trace, names, strict=True) if name == "getitem"]
    if all(last == "getitem" or (isinstance(last, int) and last % 3 == 0) for last in lasts):
        kinds = ["norm" if name == "getitem" else kind for name, kind in zip(names, kinds, strict=True)]
    # A norm by the root of the mean square ends with the product with its weight.
    is_norm, products = False, list[int]()
    for place, name in enumerate(names):
        if name == "rsqrt":
            is_norm, products = True, []
        elif is_norm and name == "mul":
            products += [place] if not products or trace[place].size == trace[products[0]].size else []
        elif is_norm and kinds[place]:
            if products:
                kinds[products[-1]] = "norm"
            is_norm = False
    return kinds


def _layer_kind(one: Layer) -> str:
    """Return what a layer does; ``"drop"`` where it passes on what it is given, empty where its name does not say."""
    kind = kind_of_words(one.words)
    if kind in _LINEAR or one.words[-1:] == ("head",):
        return "linear"
    if kind == "position":
        return "embed"
    if not kind and one.words[-1:] and one.words[-1] in PASSING:
        return "drop"
    return kind if kind in ("conv", "norm", "act", "embed", "pool", "drop") else ""


def _sums(
    trace: Sequence[Layer], layers: Sequence[Layer], holds: Sequence[bool], found: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield sums with the blocks that end with them: the only one, and the only block, behind a layer that met."""
    kinds = _operator_kinds(trace)
    ends = [*found[1:], (len(trace), len(layers))]
    for (one, other), (until, end) in zip(found, ends, strict=True):
        blocks = [
            number
            for number in range(other + 1, end)
            if holds[number] and kind_of_words(layers[number].words) == "layer"
        ]
        sizes = {layers[number].size for number in blocks}
        sums = [
            place
            for place in range(one + 1, until)
            if _operator(trace[place].words) == "add" and trace[place].size in sizes
        ]
        if len(sums) == len(blocks) == 1:
            between = [_layer_kind(layers[number]) for number in range(other + 1, blocks[0]) if not holds[number]]
            if not any(kinds[one + 1 : sums[0]]) and {*between} <= {"", "drop"}:
                yield sums[0], blocks[0]
