"""What ``msdump inspect --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_msdump.capabilities.ascend.header import StoredTensor
from pytest_msdump.capabilities.graphs.operators import PlacedOperator, kernel_args_of
from pytest_msdump.capabilities.graphs.source_lines import frames_of, user_frames
from pytest_msdump.capabilities.inspect.checks import Checked
from pytest_msdump.capabilities.inspect.file import (
    FileHeader,
    InspectedFile,
    InspectedTensor,
)
from pytest_msdump.capabilities.inspect.survey import Survey, Verified
from pytest_msdump.core.model.dump import Dump, Edge, KernelArguments, Operator
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, SourceFrame, TensorRef, TensorSpec
from pytest_msdump.core.text import encode, say


def survey_entry(found: Survey) -> dict[str, Any]:
    """Return what there is in a dump, as ``--json`` prints it."""
    return {
        **_dump(found.dump),
        "asked_for": [
            asdict(one) | {"scene": one.scene or None}
            for one in (found.dump.run.configurations if found.dump.run else ())
        ],
        "coordinates": {name: list(values) for name, values in found.coordinates.items()},
        "tensors": len(found.dump.refs),
        "files": found.files,
        "bytes": found.size,
        "dtypes": dict(found.dtypes),
        "memory_formats": dict(found.memory_formats),
        "graphs": [
            {**_at(at), "file": graph.source, "operators": len(graph.operators), "is_final": graph.is_final}
            for at, graph in found.dump.graphs
        ],
        "operators": [
            {
                "name": row.label,
                **{key: getattr(row, key) for key in ("op_type", "inputs", "outputs", "tensors")},
                "bytes": row.size,
                "dtype": row.dtype,
                "shape": row.shape,
                "source": _frame(row.line),
            }
            for row in found.operators
        ],
        "unreadable": _unreadable(found.unreadable),
        "odd": list(map(say, found.odd)),
        "unexplained": [path.as_posix() for path in found.dump.unexplained],
    }


def file_entry(found: InspectedFile) -> dict[str, Any]:
    """Return what is in a file, as ``--json`` prints it."""
    entry: dict[str, Any] = {"file": str(found.path), "bytes": found.size}
    if found.graph is not None:
        graph = found.graph
        return {
            **entry,
            "kind": "graph",
            "is_final": graph.is_final,
            "parameters": list(graph.parameters),
            "operators": [_operator(operator) for operator in graph.operators],
            "notes": list(graph.notes),
        }
    if found.table is not None:
        rows = [{**_tensor_ref(row), "statistics": _saved(row)} for row in found.table.rows]
        return {**entry, "kind": "statistics", "rows": rows, "notes": list(found.table.notes)}
    if found.overflow is not None:
        units = [
            {
                "unit": one.unit,
                "task": one.task_id,
                "stream": one.stream_id,
                "status": one.status,
                "says": say(one.words),
            }
            for one in found.overflow.entries
        ]
        return {**entry, "kind": "overflow", "entries": units, "problem": found.overflow.problem or None}
    return {
        **entry,
        "kind": "tensors",
        "is_older": found.is_older,
        "header": {"is": found.header.kind, **dict(found.header.fields)} if found.header else None,
        "tensors": [_tensor(tensor, found.header) for tensor in found.tensors],
        "operator": _placed(found.operator) if found.operator else None,
        "kernel_args": _arguments(found.arguments),
    }


def line_entry(dump: Dump, where: str, found: Sequence[PlacedOperator]) -> dict[str, Any]:
    """Return the operators that a line of the program made, as ``--json`` prints it."""
    return {
        **_dump(dump),
        "line": where,
        "operators": [
            {**_placed(one), "kernel_args": _arguments(kernel_args_of(dump, one.refs[0]) if one.refs else None)}
            for one in found
        ],
    }


def check_entry(checked: Checked) -> dict[str, Any]:
    """Return what the checks of a dump hit, as ``--json`` prints it."""
    return {
        **_dump(checked.dump),
        "clean": checked.is_clean,
        "tensors": checked.tensors,
        "weights": checked.weights,
        "steps": checked.steps,
        "hits": [
            {
                "check": hit.check,
                **_tensor_ref(hit.ref),
                "parameter": hit.parameter,
                **_plain({"value": hit.value, "threshold": hit.threshold}),
                "where": hit.where,
                "previous": str(hit.previous.source.path) if hit.previous else None,
                "sentence": say(hit.message),
                "source": _frame(hit.ref.line),
            }
            for hit in checked.hits
        ],
        "unreadable": _unreadable(checked.unreadable),
        "reports": [{"file": str(path), "sentence": say(message)} for path, message in checked.reports],
        "not_checked": list(map(say, checked.notes)),
    }


def verify_entry(found: Verified) -> dict[str, Any]:
    """Return where tensors and their saved statistics differ, as ``--json`` prints it."""
    return {
        "directory": str(found.dump.root),
        "reader": found.dump.reader,
        "notes": list(found.dump.notes),
        "clean": found.is_clean,
        "tensors": len(found.refs),
        "differences": [
            {
                "address": one.ref.key.address,
                **_at(one.ref.key.op.at),
                "file": str(one.ref.source.path),
                "what": one.what,
                **_plain({"saved": one.saved, "computed": one.computed}),
                "problem": one.problem or None,
            }
            for one in found.differences
        ],
    }


def _dump(dump: Dump) -> dict[str, Any]:
    return {"directory": str(dump.root), "reader": dump.reader, "labels": dict(dump.labels), "notes": list(dump.notes)}


def _at(at: Coordinates) -> dict[str, Any]:
    return {name: getattr(at, name) for name in COORDINATES}


def _tensor_ref(ref: TensorRef) -> dict[str, Any]:
    return {
        "address": ref.key.address,
        "op_type": ref.key.op.op_type,
        **_at(ref.key.op.at),
        "file": str(ref.source.path),
    }


def _unreadable(found: Sequence[tuple[TensorRef, str]]) -> list[dict[str, Any]]:
    return [{**_tensor_ref(ref), "problem": problem} for ref, problem in found]


def _stored(tensor: StoredTensor) -> dict[str, Any]:
    fields = {**tensor._asdict(), "data_type": tensor.data_type.label}
    renamed = {"start": "first_byte", "size": "bytes"}
    return {renamed.get(name, name): value for name, value in fields.items()}


def _tensor(tensor: InspectedTensor, header: FileHeader | None) -> dict[str, Any]:
    side, bars = tensor.side, tensor.histogram
    said = header.of(tensor.ref.key.io, tensor.ref.key.slot) if header else None
    return {
        **_tensor_ref(tensor.ref),
        "problem": tensor.problem or None,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "stored": _spec(tensor.spec),
        "header": _stored(said) if said else None,
        "statistics": _plain(tensor.statistics),
        "saved_statistics": _saved(tensor.ref),
        "saturated": side.saturated if side else None,
        "first_nonfinite": side.first if side else None,
        "histogram": {"edges": list(bars.edges), "counts": list(bars.counts)} if bars else None,
    }


def _placed(placed: PlacedOperator) -> dict[str, Any]:
    takers = {
        str(slot): [{"operator": name, "input": taken} for name, taken in inputs]
        for slot, inputs in placed.takers.items()
    }
    return {
        **_operator(placed.operator),
        "graph_file": placed.graph.source,
        "rank": placed.at.rank,
        "graph": placed.at.graph,
        "place": placed.place,
        "attributes": dict(placed.attributes),
        "consumers": takers,
        "tensors": [_tensor_ref(ref) for ref in placed.refs],
    }


def _arguments(one: KernelArguments | None) -> dict[str, Any] | None:
    return None if one is None else {"file": one.source, "values": dict(one.values), "problem": one.note or None}


def _operator(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "op_type": operator.op_type,
        "producers": [_edge(edge) for edge in operator.inputs],
        **{
            f"{side}_{io}": [_spec(spec) for spec in getattr(operator, f"{side}_{io}")]
            for side in ("host", "device")
            for io in ("inputs", "outputs")
        },
        "lines": [_frame(frame) for frame in user_frames(operator)],
        "calls": [_frame(frame) for frame in frames_of(operator)],
    }


def _edge(edge: Edge | None) -> dict[str, Any] | None:
    return None if edge is None else {"operator": edge.producer, "output": edge.slot, "is_parameter": edge.is_parameter}


def _spec(spec: TensorSpec | None) -> dict[str, Any] | None:
    return None if spec is None else {"dtype": spec.dtype, "shape": spec.shape, "memory_format": spec.memory_format}


def _frame(frame: SourceFrame | None) -> dict[str, Any] | None:
    return None if frame is None else {"file": frame.file, "line": frame.line, "text": frame.text}


def _saved(ref: TensorRef) -> dict[str, Any] | None:
    """What the run saved of a tensor."""
    return None if ref.statistics is None else _plain(ref.statistics.values)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else encode(value) for name, value in values.items()}
