"""What the name of a module says, in words that do not depend on how it is spelled.

People write one path in many ways: with dots, underscores, dashes or capitals, with a counter in front, in singular and
plural, and with other words for the same thing. Here a name becomes a sequence of plain words and numbers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pytest_msdump.core.facts.operators import WEIGHT_STATES

# Words and numbers of a path; numbers are those that count blocks, layers and calls.
Words = tuple[str | int, ...]

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# `Conv2d` and `max_pool2d`: no number of a layer.
_DIMENSIONS = re.compile(r"(?<=[A-Za-z])_?[1-3][dD](?![a-z])")
_COUNTER_BEFORE = re.compile(r"([0-9]{2,9})_+(?=.)")
_COUNTER_BEHIND = re.compile(r"_(?:b?float|u?int|bool|complex)[0-9]*_([0-9]{1,9})$")
_STEP = re.compile(r"([0-9]{1,9})\.(.+)")
_OUTPUT = re.compile(r"_output$")
# Longer numbers are dates and identifiers.
_LONGEST_NUMBER = 6
_LEAST_COUNTED = 2
_MOST_WORDS = 48
# ``bottleneck_bottleneckconv``: so long a word may be written into the next.
_LEAST_REPEATED = 4

# What frameworks and people put around a model; nothing of it tells modules apart.
_AROUND = frozenset({"default", "network", "net", "model", "module", "backbone", "transformer"})
# Around a model as well, but only where every name has it.
_LONGEST_ALIAS = 4

# A word → what people write for it. Parts of a name are separate; the longest one that fits counts.
_ALIASES = {
    "attention": "attn, self attn, self attention, selfattn, multi head attention, mha",
    "mlp": "ffn, feed forward, feedforward, ff, mlp block",
    "q": "query, queries, wq, w q, q proj, q lin, to q, query proj",
    "k": "key, keys, wk, w k, k proj, k lin, to k, key proj",
    "v": "value, values, wv, w v, v proj, v lin, to v, value proj",
    "qkv": "wqkv, w qkv, qkv proj, c attn, query key value, in proj, to qkv, w pack, qkv lin, linear qkv",
    "kv": "wkv, w kv, kv proj, to kv, kv lin",
    "o": "wo, w o, o proj, out proj, out lin, to out, o lin",
    "attention o": "attention output dense",
    "gate": "gate proj, w 1",
    "up": "up proj, w 3, c fc, dense h to 4 h, intermediate dense",
    "down": "down proj, w 2, dense 4 h to h, output dense",
    "gate up": "gate up proj, w 13",
    "act": "activation, act fn, relu, gelu, silu, swish, tanh, sigmoid, elu, mish, hardswish, hardsigmoid, leakyrelu, "
    "leaky relu, lrelu, prelu, selu, celu, relu 6, hswish, hsigmoid, quickgelu, softplus, "
    "nonlinearity, intermediate act fn, intermediate act",
    "norm": "ln, bn, gn, layernorm, layer norm, batchnorm, batch norm, rmsnorm, rms norm, groupnorm, group norm, "
    "normalization, instancenorm",
    "norm 1": "input layernorm, input layer norm, layernorm before, attention output norm, "
    "attention output layernorm, attention output layer norm",
    "norm 2": "post attention layernorm, post attention layer norm, layernorm after, "
    "output norm, output layernorm, output layer norm",
    "conv": "convolution",
    "linear": "fc, dense, lin, fully connected",
    "embed": "emb, embedding, embeddings, wte, tok embeddings, tok embedding, tok emb, tok embed, embed tokens, "
    "embed token, token embedding, token embeddings, token embed, token emb, word embeddings, word embedding, "
    "embedding word, embeddings word embeddings",
    "position": "wpe, pos embed, pos emb, pos embedding, position embeddings, position embedding, embedding position, "
    "embed positions, positional embedding, embeddings position embeddings, pos",
    "head": "lm head, classifier, score",
    "drop": "dropout",
    "pool": "pooling, pooler",
    "max pool": "maxpool",
    "avg pool": "avgpool, average pool, adaptive avg pool, global pool, global avg pool",
    "shortcut": "downsample, down sample, skip",
    "layer": "layers, block, blocks, h, stage, stages",
    "weight": "gamma, kernel",
    "bias": "beta",
    "encoder": "enc",
    "decoder": "dec",
    "expert": "experts",
    "hidden": "hidden state, hn",
    "cell": "cell state, cn",
    "real": "re",
    "imag": "im, imaginary",
    "start": "begin",
    "end": "stop",
    "box": "bbox, boxes, bboxes",
    "class": "cls, classes",
    "mean": "mu",
    "var": "variance, sigma2",
    "logit": "logits",
}
# The states of a recurrent layer, where a name ends with them.
_STATES_OF_CELLS = {"h": "hidden", "c": "cell"}
_TABLE = {
    tuple(alias.split()): tuple(word.split())
    for word, aliases in _ALIASES.items()
    for alias in (*aliases.split(", "), word)
}
_KNOWN = {alias[0] for alias in _TABLE} - _AROUND
# What two words mean beside each other that neither means alone.
_BESIDE = {
    ("attention", "proj"): "o", ("attention", "c proj"): "o", ("attention", "out"): "o", ("attention", "linear"): "o",
    ("attention", "output"): "o", ("mlp", "proj"): "down", ("mlp", "c proj"): "down", ("mlp", "linear in"): "up",
    ("mlp", "linear out"): "down",
}  # fmt: skip
# The same of layers that are counted from 1; counted from 0 their numbers mean others.
_COUNTED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("mlp", "linear", "1"): ("mlp", "up"),
    ("mlp", "linear", "2"): ("mlp", "down"),
}
# Norms that are named after what they stand before, where none is named by a number.
_NORMS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("attention", "norm"): ("norm", "1"),
    ("mlp", "norm"): ("norm", "2"),
}
_COUNTED_FROM_0 = ("mlp", "linear", "0")
_BESIDE_WORDS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (first, *second.split()): (first, word) for (first, second), word in _BESIDE.items()
}

# What a layer does, as far as a word of its name says so.
_LINEAR = frozenset({"linear", "q", "k", "v", "qkv", "o", "gate", "up", "down", "head"})
# Single operators of a graph: parts of a layer, which its name may hold, too.
_OPERATORS = frozenset(
    {"matmul", "gemm", "add", "sub", "mul", "div", "pow", "sqrt", "erf", "cast", "gather", "slice", "concat", "cat"}
    | {"unsqueeze", "softmax", "where", "shape", "constant", "split"}
)
# Several outputs of one layer, of which none is another.
_OUTPUTS = frozenset({"hidden", "cell", "real", "imag", "start", "end", "box", "class"})
KINDS = _OUTPUTS | (
    (_LINEAR - {"head"}) | _OPERATORS | {"act", "norm", "conv", "embed", "position", "drop", "pool", "weight", "bias"}
)
# What gives out what it is given, perhaps in another shape.
PASSING = frozenset({"flatten", "reshape", "view", "identity", "drop", "squeeze", "permute", "transpose"})
# In which order such layers usually run, where their times are not known.
_USUALLY = "embed position norm q k v qkv conv linear gate up act down o pool drop"
KIND_ORDER = {word: place for place, word in enumerate(_USUALLY.split())}
# What an optimizer keeps beside each weight.
_STATES = {name.replace("_", " "): state for name, state in WEIGHT_STATES.items() if state != "gradient"}
_ROLES = {"grad": "gradient", "gradient": "gradient", "gradients": "gradient", "grads": "gradient", "d": "gradient"}


class Named(NamedTuple):
    """What a name says: its words, ``"gradient"`` for the gradient of what they name, and its parts as written."""

    words: Words
    role: str = ""
    parts: tuple[str, ...] = ()


class Naming(NamedTuple):
    """How one side names its files.

    The words of each name, the order that counters give, if there is one, and of which step of a run each name is: 0
    where names have none before them.
    """

    names: Sequence[Named]
    order: Sequence[int] | None
    steps: Sequence[int]


def read_names(names: Sequence[str]) -> Naming:
    """Read the names of one side together, since a counter or a prefix is one only where all names have it.

    >>> names, order, _ = read_names(["000_stem_conv", "001_stem_ln1"])
    >>> [name.words for name in names], order
    ([('conv',), ('norm', 1)], [0, 1])
    """
    steps, names = _steps_of(names)
    order = None
    for pattern in (_COUNTER_BEFORE, _COUNTER_BEHIND):
        hits = [pattern.match(name) if pattern is _COUNTER_BEFORE else pattern.search(name) for name in names]
        numbers = [int(one[1]) for one in hits if one is not None]
        if len(numbers) == len(names) == len({*zip(steps, numbers, strict=False)}) and numbers:
            order = numbers
            names = [name[: one.start()] + name[one.end() :] for name, one in zip(names, hits, strict=True) if one]
            break
    if names and all(_OUTPUT.search(name) for name in names):
        names = [_OUTPUT.sub("", name) for name in names]
    parts = _told_apart([_parts(name) for name in names])
    spellings: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for part, name in zip(parts, names, strict=True):
        spellings[tuple(part)].add(name)
    # ``cell1`` beside ``cell.1`` is another module.
    several = [len(spellings[tuple(part)]) > 1 for part in parts]
    counters = [part[0] for part in parts if len(part) > 1 and part[0].isdecimal()] if order is None else []
    if len(parts) == len(counters) == len({*zip(steps, counters, strict=False)}) > _LEAST_COUNTED:
        order, parts = [int(counter) for counter in counters], [part[1:] for part in parts]
    meant = [_meant([*part]) for part in parts]
    is_from_0 = any(_has(words, _COUNTED_FROM_0) for words, _ in meant)
    table = {} if is_from_0 else dict(_COUNTED)
    if not any(_has(words, ("norm", number)) for words, _ in meant for number in ("0", "1")):
        table.update(_NORMS)
    found = [(_translated(words, table), role) for words, role in meant]
    named = [
        Named(_numbered(words), role, (*part, name) if is_one_of_several else tuple(part))
        for (words, role), part, name, is_one_of_several in zip(found, parts, names, several, strict=True)
    ]
    return Naming(named, order, steps)


def _steps_of(names: Sequence[str]) -> tuple[Sequence[int], Sequence[str]]:
    """Return the number of a folder before each name, and the names without it, where folders hold the same names."""
    found = [_STEP.match(name) for name in names]
    inside: defaultdict[int, set[str]] = defaultdict(set)
    for one in found:
        if one is not None:
            inside[int(one[1])].add(_COUNTER_BEFORE.sub("", one[2]))
    if None in found or len(inside) < 2 or len(set.intersection(*inside.values())) * 2 < max(map(len, inside.values())):
        return [0] * len(names), names
    return [int(one[1]) for one in found if one], [one[2] for one in found if one]


def words_in_names(names: Sequence[str]) -> Sequence[frozenset[str]]:
    """Return what each of one side's names says of its module, without numbers and in no order."""
    found = read_names(names).names or [Named(())] * len(names)
    no_words = _OPERATORS | {""}
    return [frozenset(word for word in (*one.words, one.role) if isinstance(word, str)) - no_words for one in found]


def _has(words: Sequence[str], part: tuple[str, ...]) -> bool:
    return any(tuple(words[start : start + len(part)]) == part for start in range(len(words)))


def _parts(name: str) -> list[str]:
    """Split a name into words and numbers; a word that begins with the one before says the rest alone."""
    found = [part.lower() for part in _PARTS.findall(_DIMENSIONS.sub("", name))][:_MOST_WORDS]
    return [
        word.removeprefix(before) if len(before) >= _LEAST_REPEATED and word != before else word
        for before, word in pairwise(["", *found])
    ]


def _told_apart(names: Sequence[list[str]]) -> Sequence[list[str]]:
    """Leave out what all names begin and end with, which tells none from another."""
    shortest = min(map(len, names), default=0)
    start = next((place for place in range(shortest) if len({name[place] for name in names}) > 1), 0)
    start = next((place for place in range(start) if names[0][place] in _KNOWN), start)
    end = next((place for place in range(shortest - start) if len({name[-1 - place] for name in names}) > 1), 0)
    return [name[start : len(name) - end] for name in names]


def _numbered(words: Sequence[str]) -> Words:
    return tuple(int(word) if word.isdecimal() and len(word) <= _LONGEST_NUMBER else word for word in words)


def _meant(parts: list[str]) -> tuple[list[str], str]:
    role = ""
    is_parameter = bool(parts) and parts[-1] in ("weight", "bias", "gamma", "beta", "kernel")
    for length in (3, 2, 1):
        if len(parts) > length and (state := _STATES.get(" ".join(parts[-length:]))) is not None:
            role = state
            del parts[-length:]
    for place in (0, -1):
        if len(parts) > 1 and (word := parts[place]) in _ROLES and (word != "d" or (place == 0 and is_parameter)):
            role = _ROLES[word]
            del parts[place]
    if len(parts) > 1:
        parts[-1] = _STATES_OF_CELLS.get(parts[-1], parts[-1])
    start = 0
    while start < len(parts) and parts[start] in _AROUND:
        start += 1
    words = _translated(_translated(parts[start:], _TABLE), _BESIDE_WORDS)
    if words[-2:-1] in (["running"], ["moving"]):
        # A norm keeps them beside its weights.
        words[-2:] = [f"running {words[-1]}"]
        role = role or "weight"
    if not role and words[-1:] in (["weight"], ["bias"]):
        role = "weight"
    if words == ["output"]:
        words = ["head"]
    return words, role


def _translated(parts: Sequence[str], table: Mapping[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    """Replace from the left what the table knows, the longest first."""
    found: list[str] = []
    start = 0
    while start < len(parts):
        for end in range(min(start + _LONGEST_ALIAS, len(parts)), start, -1):
            if (known := table.get(tuple(parts[start:end]))) is not None:
                found += known
                start = end
                break
        else:
            found.append(parts[start])
            start += 1
    return found


def kind_of_words(words: Words) -> str:
    """Return the last word that says what a layer does, or ``"layer"`` for a whole block; empty where none does."""
    if "layer" in words and all(word == "layer" or isinstance(word, int) for word in words):
        return "layer"
    return next((word for word in reversed(words) if isinstance(word, str) and word in KINDS), "")


def may_be_one_kind(one: str, other: str) -> bool:
    """Whether two kinds do not contradict each other; a query is a linear layer as well, and a gate may be a sigmoid.

    >>> may_be_one_kind("q", "linear"), may_be_one_kind("q", "k"), may_be_one_kind("", "norm")
    (True, False, True)
    """
    both = {one, other}
    return one == other or "" in both or ("linear" in both and both <= _LINEAR) or both == {"gate", "act"}


def shown(words: Words) -> str:
    """Return words as messages show them; a block itself has none left."""
    return ".".join(map(str, words)) or "block"
