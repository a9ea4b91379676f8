"""Logs of PyTorch's `DebugMode`: operations in their order, with hashes of what they took and gave.

References: PyTorch 2.14, ``torch/utils/_debug_mode``: `DebugMode.save_logs` and `log_tensor_hashes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan, prod
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.msprobe.reader import innermost
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    SourceFrame,
    Statistic,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    mangle,
)
from pytest_msdump.core.text import Message, say

_EXPLAIN = "see msdump config explain {file}"
_FOLDER = "give the folder of the dump, {folder}"
_OF_MINDSPORE = "a dump configuration of MindSpore"
_MSPROBE = "part of a dump of msprobe"

# Keys that a kind has, what it is, and what to do with it; the first row that fits counts.
_BY_KEYS = (
    *(
        ((f"{name}_dump_settings",), "a dump configuration of MindSpore", _EXPLAIN)
        for name in ("common", "e2e", "async")
    ),
    (("dump",), "a dump configuration of CANN (acl.json)", _EXPLAIN),
    (("task", "dump_path"), "a configuration of msprobe", "give the folder that its dump_path names"),
    (("schema_version", "counts", "tensors"), "the result of a comparison", "judge it again: msdump check {file}"),
    (("schema_version", "renamed"), "what msdump rename did", "take it back: msdump rename --undo {file}"),
    (("schema_version", "tensors"), "the manifest of a recording", _FOLDER),
    (("schema", "metric_version", "m"), "a limits file", "use it: msdump compare LEFT RIGHT --limits {file}"),
    (("graph",), "a compiled model, or rules of AMCT", "msdump compare takes it: --fusion or --quant-fusion {file}"),
    (("parallel_layout_item",), "a parallel strategy of MindSpore", "name it in a suite file, under [msdump.sharding]"),
    (("server_list",), "a rank table of HCCL", "no comparison needs it: give the dump"),
    (("device_target", "ms_version"), "what a run of MindSpore says of itself", _FOLDER),
    (("AI Core",), "overflows that a device reported", "see msdump overflow {folder}"),
    (("weight_map",), "an index of safetensors files", "give one of these files"),
)
# By name alone: their keys are those of the network.
_NAMED = {"stack.json": (_MSPROBE, _FOLDER), "construct.json": (_MSPROBE, _FOLDER)}
_ARGUMENTS = re.compile(r"[^.]+\..+\.json", re.DOTALL)
_MOST_SHOWN = 8


def described(path: Path, values: Mapping[str, Any]) -> str:
    """Say what a JSON object that is no dump is, and what to do with it, as the end of a sentence about the file."""
    keys = values.keys()
    found = _NAMED.get(path.name) or next((row[1:] for row in _BY_KEYS if keys >= set(row[0])), None)
    if found is not None:
        what, advice = found
        return f"is {what}; {advice.format(file=shell_word(str(path)), folder=shell_word(str(path.parent)))}"
    if _ARGUMENTS.fullmatch(path.name) and not any(isinstance(value, dict) for value in values.values()):
        shown = listed([f"{name} = {value}" for name, value in values.items()], _MOST_SHOWN)
        return f"has arguments of an operator: {shown}; msdump inspect shows them with a tensor of it"
    return "is JSON of no kind that is known here; give a dump, or a log that DebugMode.save_logs of PyTorch 2.14 wrote"


_SUFFIX, _FORMAT, _VERSION = ".json", "torch.utils._debug_mode.DebugMode.logs", 1
_RANK_FILE = re.compile(r"rank_?(\d{1,9})\.json", re.ASCII)
_MAX_BYTES = 2**28
_LONGEST_NAME = 2**12
_DEEPEST = 64
_MOST_AXES = 64
_MODULE = "nn.Mod"
# Which field names an entry, by its type. Entries of further types have no hashes.
_NAMES = {"op": "op_name", "triton_kernel": "kernel_name", "annotate": "tag"}
_OTHERS = frozenset({"annotate", "redistribute", "output_placement"})
# ``t: f32[2, 4]``; ``dt`` is a DTensor, ``ft`` has no values, and ``$7`` is a number that tensors may be given.
_TENSOR = re.compile(
    r"(?<!\w)(?:t|dt|ft)(?:\$\d+)?: (?P<dtype>\w+)\[(?P<shape>(?:\d{1,18}(?:, \d{1,18})*)?)\]", re.ASCII
)
_DTENSOR = re.compile(r"(?<!\w)dt(?:\$\d+)?: ", re.ASCII)
_DTYPE = re.compile(r"(?P<kind>[a-z]+)(?P<bits>\d+)(?P<more>\w*)", re.ASCII)
_KINDS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "c": "complex"}
_BOOL = "b8"
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in [^\n]*(?:\n {4}(?P<text>[^\n]*))?')
# Collectives that only begin: `wait_tensor` gives what they bring.
_BEGUN = re.compile(r"_?c10d\w*\.(?!wait_tensor|_wrap_tensor)")


class _DispatchedCall(NamedTuple):
    """A call of the log: its place there, the operation, the modules that it is in, and which call of them it is."""

    place: int
    kind: str
    scope: str
    number: int
    entry: Mapping[str, Any]


class DebugModeReader(Reader):
    """What `DebugMode.save_logs` wrote within `log_tensor_hashes`: no tensor, but its L1 norm, an XOR, or both."""

    name = "debug-mode"
    looks_for = "a .json file of PyTorch's DebugMode.save_logs, or rank_0.json, rank_1.json, …"

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is a JSON file, or has one for each rank."""
        if root.is_file():
            return root.suffix.lower() == _SUFFIX
        return root.is_dir() and any(map(_RANK_FILE.fullmatch, next(walk(root)).files))

    def index(self, root: Path) -> Dump:
        """List what has a hash, in the order of the log. UnknownDumpFormatError where a file is no such log."""
        builder = DumpBuilder(root, self.name)
        if root.is_file():
            self._add(builder, root, None)
        else:
            for folder in walk(root):
                ranks = {} if folder.parts else _ranks_in(folder)
                for name, rank in ranks.items():
                    self._add(builder, root / name, rank)
                builder.leave_out(folder, [name for name in folder.files if name not in ranks])
        if not builder.refs:
            builder.note(say(Message("note_no_hashes")))
        return builder.build(Reruns(tuple(builder.refs)), order=lambda refs, _: in_order(refs))

    def open(self, ref: TensorRef) -> TensorView:
        """Open nothing: no tensor was saved."""
        raise TensorFileError(f"{ref.source.path}: has hashes of {ref.key.address}, and not the tensor")

    def _add(self, builder: DumpBuilder, path: Path, rank: int | None) -> None:
        entries, source = _entries(path), TensorSource.of(path)
        lines: dict[str, SourceFrame | None] = {}
        calls, wrong = _calls_of(entries)
        early = 0
        for call in calls:
            name = f"{call.scope}/{call.kind}" if call.scope else call.kind
            at = Coordinates(rank, iteration=0, occurrence=call.number)
            op = OpKey(mangle(name), at, call.kind, name)
            stack = call.entry.get("fwd_stack_trace") or call.entry.get("stack_trace")
            if isinstance(stack, str) and stack not in lines:
                lines[stack] = innermost(list(_FRAME.finditer(stack))[::-1])
            for io, tensors in _hashed(call.entry):
                if io == "output" and _BEGUN.match(call.kind):
                    early += 1
                    continue
                wrong += tensors is None
                for slot, (spec, values) in enumerate(tensors or ()):
                    builder.refs.append(
                        TensorRef(
                            TensorKey(op, io, slot),
                            spec,
                            source,
                            UNSEEN,
                            place=call.place,
                            line=lines[stack] if isinstance(stack, str) else None,
                            statistics=Statistics(values, digits=None, spec=spec, source=source),
                        )
                    )
        if wrong:
            builder.note(say(Message("note_calls_unread", {"file": path.name, "n": wrong})))
        if early:
            builder.note(say(Message("note_early_hashes", {"file": path.name, "n": early})))


def _ranks_in(folder: Folder) -> Mapping[str, int]:
    """Return the files of ranks; UnknownDumpFormatError where two are of one rank."""
    ranks = {name: int(found[1]) for name in folder.files if (found := _RANK_FILE.fullmatch(name))}
    for name, rank in ranks.items():
        if other := next((one for one, number in ranks.items() if number == rank and one != name), None):
            raise UnknownDumpFormatError(f"{name} and {other} are both of rank {rank}; move one of them away")
    return ranks


def _entries(path: Path) -> Sequence[Any]:
    text, wrong = read_text(path, _MAX_BYTES)
    values, wrong = ({}, wrong) if wrong else parse_object(text)
    if not wrong and values.get("format") != _FORMAT:
        raise UnknownDumpFormatError(f"{path}: {described(path, values)}")
    if not wrong and (values.get("version") != _VERSION or not isinstance(values.get("logs"), list)):
        wrong = f"is a log of DebugMode of another version than {_VERSION}"
    if wrong:
        raise UnknownDumpFormatError(f"{path}: {wrong}; give a dump, or a log that was saved by PyTorch 2.14")
    entries: list[Any] = values["logs"]
    return entries


def _calls_of(entries: Sequence[Any]) -> tuple[list[_DispatchedCall], int]:
    """Return the calls that may have hashes, and how many entries cannot be read."""
    calls: list[_DispatchedCall] = []
    wrong = 0
    scopes: list[tuple[int, str]] = []
    numbers: Counter[tuple[str, str]] = Counter()
    for place, entry in enumerate(entries):
        known = entry if isinstance(entry, dict) else {}
        type_, depth = known.get("type"), known.get("call_depth")
        kind = known.get(_NAMES.get(str(type_), "type"))
        if type(depth) is not int or not isinstance(kind, str) or not kind.isprintable() or len(kind) > _LONGEST_NAME:
            wrong += 1
        elif type_ == "annotate" and str(known.get("header")).startswith(_MODULE):
            scopes = [*(one for one in scopes if one[0] < depth), (depth, kind)]
        elif type_ in ("op", "triton_kernel"):
            # Functions of torch, and operations on DTensors, are one level less deep than others in the same module.
            is_outer = type_ == "op" and ("::" not in kind or _DTENSOR.search(_arguments(known)))
            scopes = [one for one in scopes if one[0] < depth + bool(is_outer)]
            kind, scope = kind.replace("::", "."), scopes[-1][1] if scopes else ""
            calls.append(_DispatchedCall(place, kind, scope, numbers[scope, kind], known))
            numbers[scope, kind] += 1
        elif type_ not in _OTHERS:
            wrong += 1
    return calls, wrong


def _hashed(entry: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[TensorSpec, dict[str, Statistic]]] | None]]:
    """Yield what a call has hashes of, inputs and outputs, each with its tensors; ``None`` for what cannot be read."""
    log, arguments, results = entry.get("log"), _arguments(entry), str(entry.get("output_str"))
    fields = (("input", entry.get("pre_hashes"), arguments), ("output", entry.get("post_hashes"), arguments))
    if entry.get("type") == "op":
        found = dict(filter(_is_item, _items(log)))
        fields = (("input", found.get("input_hash"), arguments), ("output", found.get("hash"), results))
    for io, value, text in fields:
        if value is not None:
            try:
                hashes = list(_hashes(value))
            except ValueError:
                yield io, None
                continue
            specs = [_spec(found) for found in _TENSOR.finditer(text)]
            if len(specs) != len(hashes):
                specs = [TensorSpec()] * len(hashes)
            counts = [{} if spec.shape is None else {"count": prod(spec.shape)} for spec in specs]
            yield io, [(spec, count | one) for spec, count, one in zip(specs, counts, hashes, strict=True)]


def _arguments(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('args_str', '')}{entry.get('kwargs_str', '')}"


def _items(value: Any) -> list[Any]:
    """Return what a dict, list or tuple holds, a dict pairs; nothing for anything else."""
    items = value.get("items") if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _is_item(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)


def _hashes(value: Any, depth: int = 0) -> Iterator[dict[str, Statistic]]:
    """Yield the hashes of tensors in the order of the tensors. ValueError for anything else than DebugMode writes."""
    kind = value.get("type") if isinstance(value, dict) else None
    items = _items(value)
    if kind in ("scalar", "nonfinite_float"):
        if value.get("value") is not None:
            yield _hash(value)
        return
    if kind not in ("tuple", "list", "dict") or depth > _DEEPEST or (kind == "dict" and not all(map(_is_item, items))):
        raise ValueError(kind)
    parts = [pair[1] for pair in items] if kind == "dict" else items
    try:
        both = [_hash(part) for part in parts] if kind == "tuple" and len(parts) == 2 else []
    except ValueError:
        both = []
    if both and both[0].keys() != both[1].keys():
        # Two hashes of one tensor.
        yield both[0] | both[1]
        return
    for part in parts:
        yield from _hashes(part, depth + 1)


def _hash(value: Any) -> dict[str, Statistic]:
    """Read a hash: an L1 norm is a float, an XOR an integer."""
    kind, number = (value.get("type"), value.get("value")) if isinstance(value, dict) else (None, None)
    if kind == "nonfinite_float" and number in ("nan", "inf"):
        number = float(number)
    elif kind != "scalar":
        raise ValueError(kind)
    if isinstance(number, float) and (0 <= number <= inf or isnan(number)):
        return {"l1_norm": number}
    if type(number) is int and 0 <= number < 2**64:
        return {"xor64_wide": f"{number:016x}"}
    raise ValueError(kind)


def _spec(found: re.Match[str]) -> TensorSpec:
    shape = tuple(map(int, found["shape"].split(", "))) if found["shape"] else ()
    if len(shape) > _MOST_AXES:
        return TensorSpec()
    name = _DTYPE.fullmatch(found["dtype"])
    if found["dtype"] == _BOOL or name is None or name["kind"] not in _KINDS:
        dtype = "bool" if found["dtype"] == _BOOL else None
    else:
        dtype = canonical(f"{_KINDS[name['kind']]}{name['bits']}{'_' * bool(name['more'])}{name['more']}")
    return TensorSpec(dtype, shape, None, shape)
