"""Read ``msdump.json`` and the journal of a recording that has not ended.

Neither is trusted more than the dump: bounded, every value checked, and never an error.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.file_names import number
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.model.dump import (
    JOURNAL_FILE,
    MANIFEST_FILE,
    PARAMETER,
    SCHEMA_VERSION,
    DistributedRank,
    Edge,
    Manifest,
    ModelOutput,
    Operator,
    OperatorGraph,
    TensorEntry,
)
from pytest_msdump.core.model.tensor import Coordinates, OpKey, SourceFrame, Statistic, TensorKey, TensorRef
from pytest_msdump.core.storage.files import is_there

MAX_BYTES = 2**28
_MAX_LABEL = 200
_MAX_NAME = 2**12
_MAX_NAMED = 2**20
_MAX_ARGUMENTS = 2**10
_MAX_SLOT = 10**9
_MAX_INPUTS = 2**16
_MAX_AXES = 64
_MAX_NOTES = 16
_NOT_FINITE = ("nan", "inf", "-inf")
_LABELS = ("framework", "version", "device", "dtype_policy", "time", "key")
_IO = ("input", "output")
# The types of mixed precision.
_COMPUTE_DTYPES = ("float16", "bfloat16")
# The name of a weight after the step of an optimizer.
_UPDATED = "/updated"
# What a recorder adds to the name of an input's file.
_INPUT = "_input"


def read_manifest(root: Path) -> tuple[Manifest | None, tuple[str, ...]]:
    """Read the manifest of the dump in a folder, and sentences about what could not be read."""
    path, journal = root / MANIFEST_FILE, root / JOURNAL_FILE
    manifest, notes = _unread()
    if is_there(path):
        text, note = read_text(path, MAX_BYTES)
        manifest, notes = _unread(f"{MANIFEST_FILE} {note}") if note else parse_manifest(text)
    elif not is_there(journal):
        return None, ()
    if manifest.complete or not is_there(journal):
        return manifest, notes
    text, note = read_text(journal, MAX_BYTES)
    tensors, wrong = _parse_journal(text)
    if wrong and not note:
        note = f"has {wrong} {'line' if wrong == 1 else 'lines'} that cannot be read: left out"
    manifest = replace(manifest, tensors={**tensors, **manifest.tensors})
    return manifest, (*notes, f"{JOURNAL_FILE} {note}") if note else notes


def _unread(*notes: str) -> tuple[Manifest, tuple[str, ...]]:
    """Return the manifest of a dump whose own cannot be read: nothing says that the dump is whole."""
    return Manifest(complete=False), notes


def parse_manifest(text: str) -> tuple[Manifest, tuple[str, ...]]:
    """Read the text of a manifest; see `read_manifest`."""
    values, wrong = parse_object(text)
    if wrong:
        return _unread(f"{MANIFEST_FILE} {wrong}, so names and types come from file names alone")
    notes: list[str] = []
    version = values.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = version if isinstance(version, int) and 0 <= version < 10**6 else "unknown"
        notes.append(
            f"{MANIFEST_FILE} has schema_version {shown}, known is {SCHEMA_VERSION}: read as far as understood"
        )
    named = _mapping(values.get("tensors"))
    tensors = {name: entry for name, value in named.items() if (entry := _entry(value)) is not None}
    if bad := len(named) - len(tensors):
        notes.append(f"{MANIFEST_FILE} has {bad} invalid {'entry' if bad == 1 else 'entries'}, left out")
    graph, lost = _graph(values.get("graph"))
    if lost:
        notes.append(f"{MANIFEST_FILE} has {lost} invalid {'call' if lost == 1 else 'calls'}, left out")
    distributed = _distributed(values.get("distributed"))
    if distributed is None and values.get("distributed") is not None:
        notes.append(f"{MANIFEST_FILE} has an invalid rank, left out")
    command, said = values.get("command"), values.get("notes")
    labels: dict[str, Any] = {name: _text(values.get(name), _MAX_LABEL) or "" for name in _LABELS}
    manifest = Manifest(
        **labels,
        seeds={name: seed for name, seed in _mapping(values.get("seeds")).items() if type(seed) is int},
        inputs=_texts(values.get("inputs")),
        weights=_texts(values.get("weights")),
        command=tuple(map(str, command[:_MAX_ARGUMENTS])) if isinstance(command, list) else (),
        notes=tuple(filter(None, (_text(one, _MAX_NAME) for one in said[:_MAX_NOTES])))
        if isinstance(said, list)
        else (),
        # Manifests of the first releases have no such key.
        complete=values.get("complete", True) is True,
        distributed=distributed,
        perturbation=_perturbation(values.get("perturbation")),
        tensors=tensors,
        graph=graph,
        outputs=tuple(_outputs(values.get("outputs"))),
    )
    return manifest, (*manifest.notes, *notes)


def _distributed(value: object) -> DistributedRank | None:
    """Read which process of several it was; ``None`` for what cannot be meant."""
    if not isinstance(value, dict):
        return None
    rank, size, groups = _count(value.get("rank")), value.get("world_size"), _mapping(value.get("groups"))
    if rank is None or (size is not None and (_count(size) is None or not rank < size)) or len(groups) > _MAX_AXES:
        return None
    if not all(_text(axis, _MAX_LABEL) and _is_group(ranks, rank, size) for axis, ranks in groups.items()):
        return None
    return DistributedRank(rank, size, {axis: tuple(ranks) for axis, ranks in groups.items()})


def _is_group(ranks: object, rank: int, world_size: int | None) -> bool:
    numbers = ranks if isinstance(ranks, list) and None not in map(_count, ranks) else []
    return rank in numbers and len({*numbers}) == len(numbers) and max(numbers) < (world_size or _MAX_SLOT)


def _perturbation(value: object) -> Mapping[str, Any] | None:
    """Read what was perturbed, by how much and with which seed; ``None`` for what cannot be meant."""
    found = _mapping(value)
    u, what, seed = found.get("u"), _text(found.get("what"), _MAX_LABEL), found.get("seed")
    if not isinstance(u, float) or not 0 < u < 1 or what is None or type(seed) is not int:
        return None
    return {"u": u, "what": what, "seed": seed}


def _parse_journal(text: str) -> tuple[dict[str, TensorEntry], int]:
    """Return the entries of a journal, and how many of its lines are none; a process that is killed cuts the last."""
    entries: dict[str, TensorEntry] = {}
    wrong = 0
    for line in text.splitlines():
        value, _ = parse_object(line)
        entry, file = _entry(value), value.get("file")
        if entry is None or not isinstance(file, str):
            wrong += 1
        else:
            entries[file] = entry
    return entries, wrong


def _entry(value: object) -> TensorEntry | None:
    if not isinstance(value, dict):
        return None
    op, slot, io = _text(value.get("op"), _MAX_NAME), value.get("slot", 0), value.get("io", "output")
    if not op or io not in _IO or type(slot) is not int or not 0 <= slot < _MAX_SLOT:
        return None
    dtype = _text(value.get("dtype"), _MAX_LABEL)
    return TensorEntry(
        op=op,
        io=io,
        slot=slot,
        dtype=(canonical(dtype) or dtype) if dtype else None,
        op_type=_text(value.get("op_type"), _MAX_LABEL),
        line=_text(value.get("line"), _MAX_NAME),
        placement=_text(value.get("placement"), _MAX_NAME) or "",
        **_sketched(value),
    )


def _sketched(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says of a tensor of which the file holds a sketch alone; nothing where it says no such."""
    norm, shape, found = _value(value.get("norm")), value.get("shape"), value.get("statistics")
    member = value.get("member")
    if norm is None and shape is None and found is None and member is None:
        return {}
    damaged = {"norm": math.nan}
    if norm is None or not 0 <= norm < math.inf or not isinstance(shape, list) or not isinstance(found, dict):
        return damaged
    if len(shape) > _MAX_AXES or not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        return damaged
    if member is not None and _text(member, _MAX_NAME) is None:
        return damaged
    statistics = {name: _statistic(name, found[name]) for name in STATISTICS if name in found}
    is_cut = any(fact.kind == "digest" and name in found and not statistics[name] for name, fact in STATISTICS.items())
    if is_cut or statistics.get("count") != math.prod(shape):
        return damaged
    whole = statistics.get("l2_norm")
    if isinstance(whole, int | float) and math.isfinite(whole) and not math.isclose(whole, norm, rel_tol=1e-6):
        return damaged
    return {"norm": float(norm), "shape": tuple(shape), "statistics": statistics, "member": member}


def _statistic(name: str, value: object) -> Statistic:
    if STATISTICS[name].kind == "digest":
        return value if isinstance(value, str) and STATISTICS[name].is_digest(value) else None
    number = _value(value)
    return number if STATISTICS[name].kind == "value" or isinstance(number, int) else None


def _value(value: object) -> float | int | None:
    """Read a number; those that JSON has not are written as text."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _graph(value: object) -> tuple[dict[int, list[Operator]], int]:
    """Return the calls of each iteration, and how many cannot be meant; the first of two with one name counts."""
    graph: defaultdict[int, list[Operator]] = defaultdict(list)
    known: set[tuple[int, str, int]] = set()
    entries = value if isinstance(value, list) else []
    for entry in entries[:_MAX_NAMED]:
        call = _call(entry)
        iteration = _count(entry.get("iteration", 0)) if call is not None else None
        if call is not None and iteration is not None and (iteration, call.name, call.occurrence) not in known:
            known.add((iteration, call.name, call.occurrence))
            graph[iteration].append(call)
    return dict(graph), len(entries) - len(known)


def _call(value: object) -> Operator | None:
    if not isinstance(value, dict):
        return None
    name, occurrence, inputs = _text(value.get("name"), _MAX_NAME), value.get("occurrence", 0), value.get("inputs")
    if not name or _count(occurrence) is None or not isinstance(inputs, list) or len(inputs) > _MAX_INPUTS:
        return None
    edges = [None if source is None else _edge(source) for source in inputs]
    if any(edge is None and source is not None for edge, source in zip(edges, inputs, strict=True)):
        return None
    return Operator(
        name,
        _text(value.get("type"), _MAX_LABEL) or "",
        inputs=tuple(edges),
        occurrence=occurrence,
        scope=_text(value.get("scope"), _MAX_NAME) or "",
        inside=_text(value.get("inside"), _MAX_NAME) or "",
        returns_inner=value.get("returns_inner") is True,
    )


def _edge(value: object) -> Edge | None:
    """Read ``[producer, slot]`` or ``[producer, slot, occurrence]``; an empty name stands for what is not known."""
    if not isinstance(value, list) or len(value) not in (2, 3):
        return None
    producer, *counts = value
    if not isinstance(producer, str) or len(producer) > _MAX_NAME or None in map(_count, counts):
        return None
    return Edge(producer, counts[0], occurrence=counts[1] if len(counts) > 1 else None)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MAX_SLOT else None


def graphs_of(manifest: Manifest) -> tuple[tuple[Coordinates, OperatorGraph], ...]:
    """Return the graph of each iteration; the only one stands for every iteration."""
    graphs = {
        iteration: OperatorGraph(tuple(calls), MANIFEST_FILE, is_recorded=True)
        for iteration, calls in manifest.graph.items()
    }
    has_several = len(graphs) > 1
    return tuple((Coordinates(iteration=at if has_several else None), graph) for at, graph in graphs.items())


def _outputs(value: object) -> Iterator[ModelOutput]:
    """Yield the outputs of the model; of those that cannot be meant, the position stays."""
    for one in value[:_MAX_NAMED] if isinstance(value, list) else []:
        said = one if isinstance(one, dict) else {}
        name, op = (_text(said.get(key), _MAX_NAME) or "" for key in ("name", "op"))
        yield ModelOutput(name, op, _count(said.get("slot", 0)) or 0)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) and len(value) <= _MAX_NAMED else {}


def _texts(value: object) -> Mapping[str, str]:
    return {name: text for name, text in _mapping(value).items() if isinstance(text, str) and len(text) <= _MAX_LABEL}


def _text(value: object, longest: int) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


def apply_entry(ref: TensorRef, entry: TensorEntry | None, dtype_policy: str = "") -> TensorRef:
    """Return a tensor, named by its file, with what the manifest says of the file, if anything."""
    if entry is None:
        return ref
    name = ref.key.op.name.removesuffix(_INPUT) if entry.io == "input" else ref.key.op.name
    op = OpKey(name or ref.key.op.name, ref.key.op.at, op_type=entry.op_type, true_name=entry.op)
    key = TensorKey(op, entry.io, entry.slot)
    file, _, digits = (entry.line or "").rpartition(":")
    line = number(digits)
    frame = SourceFrame(file, line) if file and line and line < 2**31 else None
    # Weights keep their own type, and so does what an optimizer makes of them.
    is_weight = entry.op_type == PARAMETER or entry.op.endswith(_UPDATED)
    # ``autocast bfloat16``, ``mixed_float16`` or ``amp O2 float16``
    last = canonical(re.split("[ _]", dtype_policy)[-1])
    computed = None if is_weight or last not in _COMPUTE_DTYPES else last
    spec = replace(ref.spec, dtype=entry.dtype)
    return replace(ref, key=key, spec=spec, line=frame, computed=computed, placement=entry.placement)


def labels_of(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Return what headers show of the run."""
    framework = f"{manifest.framework} {manifest.version}".strip()
    known = (("framework", framework), ("device_target", manifest.device), ("dtype_policy", manifest.dtype_policy))
    return tuple(sorted((name, value) for name, value in known if value))


def why_incomplete(manifest: Manifest, files: Iterable[str] | None = None) -> str:
    """Return what is missing of a whole recording, empty when it is whole; `files` that are there are optional."""
    if not manifest.complete:
        return f"the recording has not ended, or was broken off ({MANIFEST_FILE} does not say that it is complete)"
    absent = sorted(manifest.tensors.keys() - set(files), key=PurePosixPath) if files is not None else []
    if absent:
        count = "1 file that is" if len(absent) == 1 else f"{len(absent)} files that are"
        return f"{MANIFEST_FILE} names {count} not there, e.g. {absent[0]}"
    return ""
