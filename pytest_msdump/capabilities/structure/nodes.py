"""Outputs of an exported graph's nodes: which of them leaves a module.

PyTorch's older exporter calls a node's output ``/layers.0/attn/MatMul_1_output_0``: the path of the module that ran it,
its type, and a number where the module ran several. What leaves a module is the last of its nodes, if nothing of the
modules inside of it ran later.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

# Paths of files have `_` in place of slashes.
_NODE = re.compile(
    r"(?P<counter>[0-9]{2,9}_+)?[/_]?(?P<path>.*?)[/_]?"
    r"(?P<type>[A-Z][A-Za-z]*)(?:_[0-9]{1,4})?_output_[0-9]{1,4}(?:_output)?(?:_(?:float|u?int)[0-9]+_(?P<place>[0-9]{1,9}))?$",
    re.DOTALL,
)
_REPEATED = re.compile(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9]*(?:[._][0-9]{1,4})*)[/_](?=\1[._])")
_SEPARATORS = re.compile(r"[/._]")
_CONVOLUTION = re.compile(r"conv(?P<number>[0-9]{0,4})$")
_IN_LIST = re.compile(r"(?<=[._])[0-9]{1,4}$")
# A linear layer is both; by names alone nothing else tells which is the last.
_WITH_BIAS = {"MatMul", "Add"}
# Types of nodes that no module ends with.
# The exporter folds the norm behind a convolution into it, so that the convolution's output is the norm's.
_FOLDED, _FOLDED_INTO = "BatchNormalization", frozenset({"Conv", "ConvTranspose"})
# What ONNX Runtime's quantiser puts behind the name of a tensor, and counters around names.
_ROUNDED = re.compile(
    r"(?P<counter>[0-9]{2,9}_+)?(?P<tensor>.+)_(?P<way>Q|Deq)uantizeLinear(?:_Output)?(?:_output)?"
    r"(?P<behind>_(?:float|u?int)[0-9]+_[0-9]{1,9})?"
)
_COUNTER = re.compile(r"^[0-9]{2,9}_+(?=.)|_(?:float|u?int)[0-9]+_[0-9]{1,9}$")
_NO_MODULE = frozenset({"Constant", "ConstantOfShape", "Shape", "Identity"})

Name = TypeVar("Name")


def is_of_nodes(names: Sequence[str]) -> bool:
    """Whether most of one side's names are those of nodes."""
    return sum(_NODE.match(name) is not None for name in names) * 2 > len(names)


def without_rounding(names: Mapping[Name, str]) -> dict[Name, str]:
    """Return the names of tensors, those of dequantised ones as the tensors are called that these stand for.

    Whole numbers, what goes into them, and weights in 8 bits are left out.

    >>> names = ("a_output_0", "a_output_0_QuantizeLinear_Output", "a_output_0_DequantizeLinear_Output", "b")
    >>> without_rounding(dict(enumerate(names)))
    {2: 'a_output_0', 3: 'b'}
    """
    marks = {one: match for one, name in names.items() if (match := _ROUNDED.fullmatch(name)) is not None}
    if not marks:
        return {**names}
    rounded = {match["tensor"] for match in marks.values() if match["way"] == "Q"}
    found: dict[Name, str] = {}
    for one, name in names.items():
        match = marks.get(one)
        if match is not None and match["way"] == "Deq" and match["tensor"] in rounded:
            found[one] = f"{match['counter'] or ''}{match['tensor']}{match['behind'] or ''}"
        elif match is None and _COUNTER.sub("", name) not in rounded:
            found[one] = name
    return found


def modules_of_nodes(times: Mapping[str, int | None], *, has_norms: bool = True) -> dict[str, str]:
    """Return the path of the module that each node leaves which leaves one.

    Parameters
    ----------
    times : mapping of str to int
        When each node ran, by name; ``None`` where that is not known. Then counters in front of the names say it, or a
        module is left by the addition of a bias, or by its only node.
    has_norms : bool
        Whether the other side has norms, which may be folded into a convolution here that is called as one.

    Examples
    --------
    >>> modules_of_nodes({"/fc/MatMul_output_0": 1, "/fc/Add_output_0": 2, "/Relu_output_0": 3})
    {'/fc/Add_output_0': 'fc'}
    """
    matches = {name: match for name in times if (match := _NODE.match(name)) is not None and match["path"]}
    known = {name: time for name in matches if (time := times[name]) is not None}
    if len(known) < len(matches):
        known = {name: int(match["counter"].rstrip("_")) for name, match in matches.items() if match["counter"]}
    is_ordered = len(known) == len(matches) == len(set(known.values()))
    is_folded = not any(match["type"] == _FOLDED for match in matches.values())
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    inside: dict[str, int] = {}
    for name, match in matches.items():
        path, time = match["path"], known.get(name, 0)
        nodes[path].append(name)
        for separator in _SEPARATORS.finditer(path):
            outer = path[: separator.start()]
            inside[outer] = max(inside.get(outer, time), time)
    found = {}
    for path, own in nodes.items():
        types = {matches[name]["type"] for name in own}
        if is_ordered:
            last = max(own, key=known.__getitem__)
            is_last = inside.get(path, -1) < known[last]
        else:
            last = next((name for name in own if types == _WITH_BIAS and matches[name]["type"] == "Add"), own[0])
            is_last = path not in inside and (len(own) == 1 or types == _WITH_BIAS)
        kind = matches[last]["type"]
        if is_last and kind not in _NO_MODULE:
            found[last] = (
                _norm_of(path, nodes, has_norms=has_norms) if is_folded and kind in _FOLDED_INTO else _once(path)
            )
    return {name: (matches[name]["counter"] or "") + path for name, path in found.items() if path}


def _norm_of(path: str, paths: Collection[str], *, has_norms: bool = True) -> str:
    """Return the path of the norm that a convolution has folded into it; empty where only the other side can tell.

    >>> _norm_of("layer1/layer1.0/conv1", ()), _norm_of("block/block.0", ()), _norm_of("conv1", {"bn1"})
    ('layer1.0/bn1', '', 'conv1')

    One with an activation as a part gives out something else.

    >>> _norm_of("conv1", {"conv1", "bn1/act"})
    ''
    """
    match = _CONVOLUTION.search(path)
    if match is not None:
        norm = f"{path[: match.start()]}bn{match['number']}"
        if any(one.startswith(f"{norm}/") for one in paths):
            return ""
        return _once(path if norm in paths or not has_norms else norm)
    # In a list it is the number that is missing between the convolution and the layer behind.
    match = _IN_LIST.search(own := _once(path))
    if match is None:
        return ""
    norm, behind = (f"{own[: match.start()]}{int(match[0]) + by}" for by in (1, 2))
    known = {*map(_once, paths)}
    return norm if norm not in known and behind in known else ""


def _once(path: str) -> str:
    """Leave out what a list repeats of itself: ``blocks/blocks.0/blocks.0.1`` is ``blocks.0.1``."""
    return _REPEATED.sub("", path)
