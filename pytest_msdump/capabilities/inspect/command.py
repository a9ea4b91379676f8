"""``msdump inspect``: what is in a dump or a file, what a line of the program made, what looks wrong by itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.ascend.header import StoredTensor
from pytest_msdump.capabilities.convert.one_file import save_text
from pytest_msdump.capabilities.graphs.operators import PlacedOperator, kernel_args_of, operators_of_line
from pytest_msdump.capabilities.graphs.source_lines import frames_of, user_frames
from pytest_msdump.capabilities.inspect import command_text as inspect_text
from pytest_msdump.capabilities.inspect.checks import Checked, check_dump, parse_settings
from pytest_msdump.capabilities.inspect.command_text import check_lines, verify_lines
from pytest_msdump.capabilities.inspect.file import FileHeader, InspectedFile, InspectedTensor, inspect_file, tensors_of
from pytest_msdump.capabilities.inspect.survey import Survey, Verified, survey, verify
from pytest_msdump.cli.output import add_quiet, argument_groups, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.opening import as_path, index, listed
from pytest_msdump.core.dumps.array_files import names_arrays
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import printed_json, terminal_lines
from pytest_msdump.core.model.dump import Dump, Edge, KernelArguments, Operator
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, SourceFrame, TensorRef, TensorSpec
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import ALLOW_INCOMPLETE, argparse_kwargs
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


DESCRIPTION = (
    "Without options: what is in a dump (operators, coordinates, sizes, what is odd) or in a file (kind, header, type, "
    "shapes, statistics, a histogram, the operator and the line that made it). Exit code 0; 1 when something cannot be "
    "read, a check hits, or tensors and their statistics differ; 4 for a usage error."
)
EXAMPLES = ("msdump inspect run", "msdump inspect a.npy", "msdump inspect run --check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to look at, and what to print of it."""
    inputs, modes, output = argument_groups(parser, ("inputs", "what to do", "output")).values()
    inputs.add_argument("target", metavar="PATH", help="a dump, or one file of it")
    what = modes.add_mutually_exclusive_group()
    what.add_argument(
        "--line",
        metavar="FILE:LINE",
        help="operators made by a line of the program, given as FILE:LINE or as a piece of code",
    )
    what.add_argument(
        "--check", action="store_true", help="check the dump by itself: NaN, zeros, weights that do not change"
    )
    what.add_argument("--verify", action="store_true", help="compare tensors with the statistics that their run saved")
    what.add_argument(
        "--save-txt",
        metavar="OUT",
        help="write the tensors of the file as text, one value a line: to OUT if it ends in .txt, else to OUT/NAME.txt",
    )
    modes.add_argument(
        "--check-set",
        action="append",
        default=[],
        metavar="CHECK.PARAMETER=NUMBER",
        help="with --check: a threshold, e.g. weight_not_changed.rtol=1e-4, or CHECK=on|off; repeatable",
    )
    inputs.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph outside of the dump; repeatable"
    )
    inputs.add_argument(
        "--root", metavar="DIR", help="the dump that the file belongs to, if the file's own folder is not enough"
    )
    inputs.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    modes.add_argument("--txt-header", action="store_true", help="with --save-txt: shape and dtype in a line with #")
    output.add_argument(
        "--bins", type=int, default=10, metavar="N", help="bars of a file's histogram, 1 to 100 (default: 10)"
    )
    output.add_argument("--all", action="store_true", dest="everything", help="list everything, however long")
    output.add_argument("--json", action="store_true", help="print JSON, with NaN and infinities as strings")
    add_quiet(output, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Look and print; return the exit code."""
    target = listed(as_path(parsed.target))
    if not 1 <= parsed.bins <= 100:
        raise ConfigError(f"--bins {parsed.bins}: give a number from 1 to 100")
    if parsed.check_set and not parsed.check:
        raise ConfigError("--check-set sets thresholds of --check; give that, too")
    if parsed.root and not target.is_file():
        raise ConfigError("--root says which dump a file is in; with a dump, give only that")
    if parsed.txt_header and parsed.save_txt is None:
        raise ConfigError("--txt-header is about --save-txt OUT; give that, too")
    if parsed.line:
        return _line(target, parsed)
    if parsed.save_txt:
        return _save(target, parsed)
    if target.is_file() and not (parsed.check or parsed.verify or names_arrays(target)):
        return _file(target, parsed)
    return _whole(target, parsed)


def _indexed(target: Path, parsed: argparse.Namespace, progress: Progress | None = None) -> Dump:
    graphs = [Path(name) for name in parsed.graph]
    with (progress or Progress("msdump inspect", quiet=parsed.quiet)).step("indexing"):
        return index(target, graph_files=graphs, allow_incomplete=bool(parsed.msdump_allow_incomplete))


def _whole(target: Path, parsed: argparse.Namespace) -> int:
    progress = Progress("msdump inspect", quiet=parsed.quiet)
    dump = _indexed(target, parsed, progress)
    if parsed.check:
        checked = check_dump(dump, parse_settings(parsed.check_set), watch=progress)
        _print(parsed, check_entry, check_lines, checked)
        return int(not checked.is_clean)
    if parsed.verify:
        verified = verify(dump, watch=progress)
        _print(parsed, verify_entry, verify_lines, verified)
        return int(not verified.is_clean)
    found = survey(dump, watch=progress)
    _print(parsed, survey_entry, inspect_text.survey_lines, found)
    return int(bool(found.unreadable) or not found.dump.refs)


def _file(target: Path, parsed: argparse.Namespace) -> int:
    root = Path(parsed.root) if parsed.root else None
    with Progress("msdump inspect", quiet=parsed.quiet).step("reading"):
        found = inspect_file(target, bins=parsed.bins, graph_files=[Path(name) for name in parsed.graph], root=root)
    _print(parsed, file_entry, inspect_text.file_lines, found)
    return int(not found.is_readable)


def _line(target: Path, parsed: argparse.Namespace) -> int:
    dump = _indexed(target if target.is_dir() else target.parent, parsed)
    found = operators_of_line(dump, parsed.line)
    _print(parsed, line_entry, inspect_text.line_lines, dump, parsed.line, found)
    return 0


def _save(target: Path, parsed: argparse.Namespace) -> int:
    if not target.is_file():
        raise ConfigError(f"--save-txt: {target} is not a file; give one tensor file")
    print_lines(
        map(str, save_text(target, tensors_of(target)[1], Path(parsed.save_txt), with_header=parsed.txt_header))
    )
    return 0


def _print(
    parsed: argparse.Namespace,
    entry: Callable[..., dict[str, Any]],
    lines: Callable[..., Iterable[str]],
    *found: object,
) -> None:
    """Print what was found as JSON or as text, whichever was asked for; only that one is made."""
    if parsed.json:
        print(printed_json(entry(*found)))
        return
    width = terminal_width(100, least=60)
    for line in lines(*found, width=width, everything=parsed.everything, say=phrases(parsed)):
        print(terminal_lines(line))
