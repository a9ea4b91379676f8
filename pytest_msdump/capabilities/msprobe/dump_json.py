"""What msprobe writes about a run: names of its files, ``dump.json`` and ``stack.json``. Pure parsing, nothing trusted.

References
----------
mindstudio-probe 26.2.0, "PyTorch/MindSpore data dump" documentation, and ``core/dump/data_dump``: an API is
``TYPE.NAME.CALL.forward``, a module ``Module.PATH.CLASS.forward.CALL``, of MindSpore ``Cell`` in place of ``Module``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.tensor import SourceFrame, Statistic, TensorSpec

_MODULE = re.compile(
    r"(?:Module|Cell)\.(?:(?P<path>.+)\.)?(?P<type>[^.]+)\.(?P<pass>forward|backward|parameters_grad)(?:\.(?P<call>\d{1,9}))?"
)
_API = re.compile(r"(?P<path>[A-Za-z]\w*\..*?(?P<type>[^.]+))\.(?P<call>\d{1,9})\.(?P<pass>forward|backward)")
# What the program saved by a name of its own.
_VARIABLE = re.compile(r"(?P<path>.+)\.(?P<call>\d{1,9})\.(?P<pass>debug)")
_FILE = re.compile(
    r"(?P<call>.+?\.(?:forward|backward)(?:\.\d{1,9})?)\.(?P<part>input|output|parameters)(?:\.(?P<index>.+))?"
    r"|(?P<variable>.+?\.\d{1,9}\.debug)(?:\.(?P<key>.+))?"
    r"|(?P<grad>.+?\.parameters_grad(?:\.\d{1,9})?)\.(?P<weight>.+)"
)
_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d{1,9}), in [^\n]*(?:\n(?P<text>.*))?", re.DOTALL)
# msprobe from its sources lies in no such folder.
_FRAMEWORK = re.compile(r"(?:^|[/\\])(?:(?:site|dist)-packages|msprobe[/\\](?:core|pytorch|mindspore))[/\\]|^<")
# Keys of an entry of dump.json that hold tensors, and which part of the call they are.
_PARTS = {
    "input_args": "input",
    "input_kwargs": "input",
    "input": "input",
    "output": "output",
    "parameters": "parameters",
}
_STATISTICS = {"Max": "maximum", "Min": "minimum", "Mean": "mean", "Norm": "l2_norm"}
_DIGESTS = (("crc32", re.compile(r"([0-9a-f]{8})")), ("xor64", re.compile(r"0x([0-9a-f]{16})")))
# MindSpore's have no array of numpy: they are saved, and the digest is made, as float32.
_WIDENED = ("mindspore.Tensor", "bfloat16")
_SUFFIXES = (".pt", ".npy")
_DEEPEST = 16
_LONGEST_NAME = 2**12
_MOST_AXES = 64


class MsprobeCall(NamedTuple):
    """One call of an API or a module: its operator's name, its type, which call it is, and in which pass."""

    name: str
    op_type: str | None
    number: int
    way: str


class SavedTensor(NamedTuple):
    """A tensor of a call: `part` is input, output, parameters or weight; `keys` where in it."""

    call: MsprobeCall
    part: str
    keys: tuple[str, ...]
    file: str = ""
    spec: TensorSpec = TensorSpec()
    statistics: Mapping[str, Statistic] = {}
    is_listed: bool = True

    def named(self, place: int) -> tuple[str, str | None, str, int]:
        """Return name, type, input or output, and slot, as our recordings have them; `place` is where in its part."""
        weight = ".".join((self.call.name, *self.keys)) if self.call.name else ".".join(self.keys)
        if self.part == "parameters":
            return weight, PARAMETER, "output", 0
        if self.part == "weight":
            return f"{weight}/grad", None, "output", 0
        if self.call.way in ("forward", "debug"):
            return self.call.name, self.call.op_type, self.part, place
        # The input of a backward pass is the gradient of what the forward pass gave. What has no gradient has a place.
        gradient = "grad_output" if self.part == "input" else "grad_input"
        slot = int(self.keys[0]) if len(self.keys) == 1 and self.keys[0].isdecimal() else place
        return f"{self.call.name}/{gradient}", None, "output", slot


def parse_call(text: str) -> MsprobeCall | None:
    """Read ``Module.fc2.Linear.forward.1``, ``Functional.relu.0.backward``; a whole model has the name of its class.

    >>> parse_call("Module.layers.0.fc.Linear.forward.1")
    MsprobeCall(name='layers.0.fc', op_type='Linear', number=1, way='forward')
    >>> parse_call("Functional.relu.3.backward").name
    'Functional.relu'
    """
    if len(text) > _LONGEST_NAME:
        return None
    module = _MODULE.fullmatch(text)
    found = module or _API.fullmatch(text) or _VARIABLE.fullmatch(text)
    if found is None or not text.isprintable():
        return None
    way = found["pass"]
    if way == "debug":
        return MsprobeCall(found["path"], None, int(found["call"]), way)
    if module is not None and way != "parameters_grad":
        name = found["path"] or found["type"]
        return MsprobeCall(name, found["type"], int(found["call"]), way) if found["call"] else None
    return MsprobeCall(found["path"] or "", found["type"], int(found["call"] or 0), way)


def parse_file(name: str) -> SavedTensor | None:
    """Read the name of a file of ``dump_tensor_data``; ``None`` where it is none of msprobe's."""
    stem = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), "")
    found = _FILE.fullmatch(stem)
    call = parse_call(found["call"] or found["variable"] or found["grad"]) if found else None
    if found is None or call is None:
        return None
    if found["grad"]:
        return SavedTensor(call, "weight", (found["weight"],), name, is_listed=False)
    part, index = found["part"] or "output", found["index"] or found["key"] or ""
    # A weight may have dots in its name; what is nested in lists has one number for each.
    return SavedTensor(
        call, part, (index,) if part == "parameters" else tuple(filter(None, index.split("."))), name, is_listed=False
    )


def tensors_of(values: Mapping[str, Any]) -> tuple[list[SavedTensor], int]:
    """Return the tensors of a ``dump.json`` in the order of its calls, and how many of its entries are none."""
    data = values.get("data")
    found: list[SavedTensor] = []
    wrong = 0
    for name, entry in _in_order(data) if isinstance(data, dict) else ():
        call = parse_call(name)
        if call is not None and call.way == "debug":
            found += [_saved(call, "output", index, leaf) for index, leaf in _leaves(entry)]
        elif call is None or not isinstance(entry, dict):
            wrong += entry is not None
        elif call.way == "parameters_grad":
            # By weight, each in a list of one.
            found += [_saved(call, "weight", index[:1], leaf) for index, leaf in _leaves(entry)]
        else:
            parts = ((part, _leaves(entry.get(key))) for key, part in _PARTS.items())
            found += [_saved(call, part, index, leaf) for part, leaves in parts for index, leaf in leaves]
    return found, wrong


def _in_order(data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return entries in the order of their calls: 8.3 has gradients of weights with the forward pass."""
    entries = list(data.items())
    first = next((place for place, (name, _) in enumerate(entries) if ".backward" in name), len(entries))
    last = next((place for place in reversed(range(first)) if ".forward" in entries[place][0]), 0)
    order = sorted(range(len(entries)), key=lambda place: place < last and ".parameters_grad" in entries[place][0])
    return [entries[place] for place in order]


def _leaves(value: Any, depth: int = 0) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict) and isinstance(value.get("dtype"), str) and isinstance(value.get("shape"), list):
        yield (), value
        return
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if (text := str(key)).isprintable() and len(text) <= _LONGEST_NAME:
            yield from (((text, *index), leaf) for index, leaf in _leaves(part, depth + 1))


def _saved(call: MsprobeCall, part: str, index: tuple[str, ...], leaf: Mapping[str, Any]) -> SavedTensor:
    dtype = canonical(leaf["dtype"].removeprefix("torch.")) if len(leaf["dtype"]) <= _LONGEST_NAME else None
    shape = tuple(leaf["shape"])
    if len(shape) > _MOST_AXES or not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        return SavedTensor(call, part, index)
    spec = TensorSpec(dtype, shape, None, shape)
    statistics: dict[str, Statistic] = {"count": prod(shape)}
    # msprobe's are of the absolute values of complex numbers.
    if dtype is None or DTYPES[dtype].kind != "complex":
        numbers = {
            ours: leaf[theirs] for theirs, ours in _STATISTICS.items() if isinstance(leaf.get(theirs), int | float)
        }
        statistics |= {name: int(value) if isinstance(value, bool) else value for name, value in numbers.items()}
    digest = leaf.get("md5")
    if isinstance(digest, str) and (leaf.get("type"), dtype) != _WIDENED:
        known = {name: found[1] for name, pattern in _DIGESTS if (found := pattern.fullmatch(digest))}
        # Of a tensor without axes msprobe gives the number itself in place of an XOR.
        statistics |= known if shape or "xor64" not in known else {}
    file = leaf.get("data_name")
    # Others would lead to another folder, or cannot be names.
    is_name = isinstance(file, str) and file.isprintable() and "/" not in file and file not in (".", "..")
    return SavedTensor(call, part, index, str(file) if is_name else "", spec, statistics)


def containers_of(values: Mapping[str, Any]) -> dict[MsprobeCall, MsprobeCall]:
    """Return by call of ``construct.json`` the call of a module that it ran inside of."""
    parsed = ((parse_call(name), parse_call(outer)) for name, outer in values.items() if isinstance(outer, str))
    return {call: outer for call, outer in parsed if call is not None and outer is not None}


def lines_of(values: Mapping[str, Any]) -> dict[MsprobeCall, SourceFrame]:
    """Return by call of ``stack.json`` the innermost line of the program that is in no installed package."""
    lines: dict[MsprobeCall, SourceFrame] = {}
    for name, entry in values.items():
        # Calls with one stack share it; older releases have a list of lines for each call.
        is_shared = isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry)
        names, stack = entry if is_shared else ([name], entry)
        texts = [text for text in stack if isinstance(text, str)] if isinstance(stack, list) else []
        line = innermost(filter(None, (_FRAME.fullmatch(text) for text in texts if len(text) <= 4 * _LONGEST_NAME)))
        calls = [parse_call(one) for one in names if isinstance(one, str)] if line is not None else []
        lines |= {call: line for call in calls if call is not None and line is not None}
    return lines


def innermost(frames: Iterable[re.Match[str]]) -> SourceFrame | None:
    """Return the first line of a program that is in no installed package; a frame has `file`, `line` and `text`."""
    for found in frames:
        if not _FRAMEWORK.search(found["file"]) and 0 < int(found["line"]) < 2**31:
            return SourceFrame(found["file"], int(found["line"]), (found["text"] or "").strip())
    return None
