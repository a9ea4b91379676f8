"""Read ``msdump.json`` and the journal of a recording that has not ended.

Neither is trusted more than the dump: bounded, every value checked, and never an error.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.file_names import number
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.forms import (
    Form,
    WrongValueError,
    by_name,
    expected,
    lenient,
    list_of,
    nullable,
    optional,
    or_else,
    table,
    valid_items,
)
from pytest_msdump.core.forms.values import checked, one_of, text, whole
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
    manifest: Manifest = MANIFEST.read(values, "")
    if bad := len(_mapping(values.get("tensors"))) - len(manifest.tensors):
        notes.append(f"{MANIFEST_FILE} has {bad} invalid {'entry' if bad == 1 else 'entries'}, left out")
    if lost := len(_list(values.get("graph"))) - sum(map(len, manifest.graph.values())):
        notes.append(f"{MANIFEST_FILE} has {lost} invalid {'call' if lost == 1 else 'calls'}, left out")
    if manifest.distributed is None and values.get("distributed") is not None:
        notes.append(f"{MANIFEST_FILE} has an invalid rank, left out")
    return manifest, (*manifest.notes, *notes)


def _parse_journal(text: str) -> tuple[dict[str, TensorEntry], int]:
    """Return the entries of a journal, and how many of its lines are none; a process that is killed cuts the last."""
    lines = [parse_object(line)[0] for line in text.splitlines()]
    named = [(line["file"], line) for line in lines if isinstance(line.get("file"), str)]
    read = list(valid_items(ENTRY, named))
    return dict(read), len(lines) - len(read)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) and len(value) <= _MAX_NAMED else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _kept(form: Form) -> Form:
    """Return the form of values by name of which those that are wrong are left out."""
    return Form(
        lambda value, _: dict(valid_items(form, _mapping(value).items())),
        lambda value: {name: form.write(one) for name, one in value.items()},
    )


def _kept_of_list(form: Form, most: int) -> Form:
    return Form(lambda value, _: tuple(one for _, one in valid_items(form, enumerate(_list(value)[:most]))))


_TRUE = checked("true", lambda value: value is True)
_COUNT = whole("a count", most=_MAX_SLOT - 1)
_INTEGER = whole("a whole number", -math.inf, math.inf)
_LABEL = or_else(text(longest=_MAX_LABEL), "")
_NAME = text(longest=_MAX_NAME)
_OTHER_NAME = optional(or_else(_NAME, ""), "")
_DIGESTS = _kept(checked("a digest", lambda value: isinstance(value, str) and len(value) <= _MAX_LABEL))
_AS_IT_IS = optional(Form(lambda value, _: value))


def _entry(
    *, norm: object = None, shape: object = None, statistics: object = None, member: object = None, **found: Any
) -> TensorEntry:
    return TensorEntry(**found, **_sketched(_value(norm), shape, statistics, member))


def _sketched(norm: float | None, shape: object, found: object, member: object) -> dict[str, Any]:
    """Return what an entry says of a tensor of which the file holds a sketch alone; nothing where it says no such."""
    if norm is None and shape is None and found is None and member is None:
        return {}
    damaged = {"norm": math.nan}
    if norm is None or not 0 <= norm < math.inf or not isinstance(shape, list) or not isinstance(found, dict):
        return damaged
    if len(shape) > _MAX_AXES or not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        return damaged
    if member is not None and (not isinstance(member, str) or not 0 < len(member) <= _MAX_NAME):
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


def _written_statistics(statistics: Mapping[str, Statistic]) -> dict[str, Any]:
    # JSON has no NaN and no infinity.
    return {
        name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
        for name, value in statistics.items()
    }


def _read_dtype(value: Any, place: str) -> str:
    name: str = text(longest=_MAX_LABEL).read(value, place)
    return canonical(name) or name


ENTRY = table(
    _entry,
    {
        "op": _NAME,
        "io": optional(one_of(("input", "output")), "output"),
        "slot": optional(_COUNT, 0),
        "dtype": optional(or_else(Form(_read_dtype))),
        "op_type": optional(or_else(text(longest=_MAX_LABEL))),
        "line": optional(or_else(_NAME)),
        "norm": _AS_IT_IS,
        "shape": _AS_IT_IS,
        "statistics": optional(_AS_IT_IS._replace(write=_written_statistics), {}),
        "member": _AS_IT_IS,
        "placement": _OTHER_NAME,
    },
)


def _read_edge(value: Any, place: str) -> Edge:
    """Read ``[producer, slot]`` or ``[producer, slot, occurrence]``; an empty name stands for what is not known."""
    producer, *counts = value if isinstance(value, list) and value else [None]
    if not isinstance(producer, str) or len(producer) > _MAX_NAME or len(counts) not in (1, 2):
        raise expected("a source", value, place)
    slot, *occurrence = list_of(_COUNT).read(counts, place)
    return Edge(producer, slot, occurrence=occurrence[0] if occurrence else None)


def _call(name: str, inputs: tuple[Edge | None, ...], iteration: int = 0, **found: Any) -> tuple[int, Operator]:
    return iteration, Operator(name, found.pop("type", ""), inputs=inputs, **found)


_CALL = table(
    _call,
    {
        "name": _NAME,
        "type": optional(or_else(text(longest=_MAX_LABEL), ""), ""),
        "occurrence": optional(_COUNT, 0),
        "iteration": optional(_COUNT, 0),
        "inside": _OTHER_NAME,
        "scope": _OTHER_NAME,
        "returns_inner": optional(or_else(_TRUE, False), False),
        "attributes": optional(or_else(text(longest=_MAX_NAME), ""), ""),
        "inputs": list_of(nullable(Form(_read_edge)), most=_MAX_INPUTS),
    },
)


def _read_graph(value: object, _: str) -> dict[int, list[Operator]]:
    """Return the calls of each iteration; the first of two with one name counts."""
    calls: dict[tuple[int, str, int], Operator] = {}
    for _number, (iteration, call) in valid_items(_CALL, enumerate(_list(value)[:_MAX_NAMED])):
        calls.setdefault((iteration, call.name, call.occurrence), call)
    graph: defaultdict[int, list[Operator]] = defaultdict(list)
    for (iteration, *_name), call in calls.items():
        graph[iteration].append(call)
    return dict(graph)


def _written_graph(graph: Mapping[int, Sequence[Operator]]) -> list[dict[str, Any]]:
    """Write the calls of all iterations; an edge says which call it means where there were several."""
    entries = []
    for iteration, calls in graph.items():
        times = Counter(call.name for call in calls)
        for call in calls:
            inputs = [
                edge and (edge.producer, edge.slot, *([edge.occurrence or 0] if times[edge.producer] > 1 else []))
                for edge in call.inputs
            ]
            known = {"type": call.op_type, "occurrence": call.occurrence, "iteration": iteration, "inside": call.inside}
            known |= {"scope": call.scope, "returns_inner": call.returns_inner, "attributes": call.attributes}
            entries.append({"name": call.name, **{key: one for key, one in known.items() if one}, "inputs": inputs})
    return entries


def _distributed(
    rank: int, world_size: int | None = None, groups: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> DistributedRank:
    size = _MAX_SLOT if world_size is None else world_size
    are_groups = all(rank in ranks and len({*ranks}) == len(ranks) and max(ranks) < size for ranks in groups.values())
    are_named = all(0 < len(axis) <= _MAX_LABEL for axis in groups)
    if rank >= size or len(groups) > _MAX_AXES or not (are_groups and are_named):
        raise WrongValueError("is no rank of its groups")
    return DistributedRank(rank, world_size, dict(groups))


_GROUPS = by_name(list_of(_COUNT))
_DISTRIBUTED = table(
    _distributed,
    {
        "rank": _COUNT,
        "world_size": optional(nullable(_COUNT)),
        "groups": optional(Form(lambda value, place: _GROUPS.read(_mapping(value), place))),
    },
)
_PERTURBATION = table(
    dict,
    {
        "u": checked("a share", lambda value: isinstance(value, float) and 0 < value < 1),
        "what": text(longest=_MAX_LABEL),
        "seed": _INTEGER,
    },
)
_OUTPUT = table(
    lambda name="", op="", slot=0: ModelOutput(name, op, slot),
    {"name": or_else(_NAME, ""), "op": or_else(_NAME, ""), "slot": or_else(_COUNT, 0)},
)
_KEYS: Mapping[str, Form] = {
    "schema_version": Form(lambda _value, _place: SCHEMA_VERSION),
    **dict.fromkeys(("framework", "version", "device", "dtype_policy"), _LABEL),
    "seeds": _kept(_INTEGER),
    **dict.fromkeys(("inputs", "weights", "settings"), _DIGESTS),
    "command": Form(lambda value, _: tuple(map(str, _list(value)[:_MAX_ARGUMENTS]))),
    "time": _LABEL,
    # Manifests of the first releases have no such key.
    "complete": or_else(_TRUE, False),
    "key": _LABEL,
    "notes": _kept_of_list(_NAME, _MAX_NOTES),
    "distributed": optional(or_else(Form(_DISTRIBUTED.read, asdict))),
    "perturbation": optional(or_else(Form(_PERTURBATION.read))),
    "tensors": _kept(ENTRY),
    "graph": Form(_read_graph, _written_graph),
    "outputs": optional(
        Form(
            # Of those that cannot be meant, the position stays.
            or_else(list_of(or_else(_OUTPUT, ModelOutput("", "")), most=_MAX_NAMED), ()).read,
            lambda outputs: [one._asdict() for one in outputs],
        ),
        (),
    ),
}
MANIFEST = table(Manifest, {key: lenient(form) for key, form in _KEYS.items()})


def graphs_of(manifest: Manifest) -> tuple[tuple[Coordinates, OperatorGraph], ...]:
    """Return the graph of each iteration; the only one stands for every iteration."""
    graphs = {
        iteration: OperatorGraph(tuple(calls), MANIFEST_FILE, is_recorded=True)
        for iteration, calls in manifest.graph.items()
    }
    has_several = len(graphs) > 1
    return tuple((Coordinates(iteration=at if has_several else None), graph) for at, graph in graphs.items())


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
