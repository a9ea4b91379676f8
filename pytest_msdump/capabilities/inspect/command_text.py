"""Dumps, their files, and the operators of a line of the program, as ``msdump inspect`` prints them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_msdump.capabilities.graphs.operators import PlacedOperator, kernel_args_of
from pytest_msdump.capabilities.graphs.source_lines import frames_of, user_frames
from pytest_msdump.capabilities.inspect.check_facts import CHECKS
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.describe import (
    bytes_text,
    frame_lines,
    index_text,
    number,
    shape_text,
    spec_text,
    where_text,
    wrapped,
)
from pytest_msdump.core.model.dump import EVERY_ITERATION, Dump, Edge, KernelArguments, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Statistic, TensorRef, TensorSpec
from pytest_msdump.core.report.tables import columns, titled
from pytest_msdump.core.text import ENGLISH, Phrases, message_of_note

if TYPE_CHECKING:
    from pytest_msdump.capabilities.ascend.header import StoredTensor
    from pytest_msdump.capabilities.inspect.checks import Checked, Hit
    from pytest_msdump.capabilities.inspect.file import InspectedFile, InspectedTensor
    from pytest_msdump.capabilities.inspect.survey import Survey, SurveyedOperator, Verified
    from pytest_msdump.capabilities.overflow.contents import Histogram
    from pytest_msdump.capabilities.overflow.opdebug import OverflowFile
    from pytest_msdump.capabilities.statistics.reader import StatisticTables
    from pytest_msdump.core.model.comparison import StatisticDifference

_MOST_OPERATORS = 40
_MOST_UNREADABLE = 10
_MOST_FILES = 12
_LABEL = 14
_SLOT = 12
_LONGEST_NAME = 24
# How attributes name the operands that are written down in the graph.
_OPERANDS = tuple(f"operand {slot}" for slot in range(64))
_MOST_ROWS = 40
_SHORTEST_BAR, _LONGEST_BAR = 10, 60
# Codes of sentences → the statistics in them.
_STATISTICS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("range_is", {"low": "minimum", "high": "maximum"}),
    ("mean_is", {"value": "mean"}),
    ("norm_is", {"value": "l2_norm"}),
)
_COUNTS = (("count_zero", "zero_count"), ("count_negative", "negative_count"), ("count_positive", "positive_count"))
_KINDS = (("NaN", "nan_count"), ("-Inf", "negative_inf_count"), ("+Inf", "positive_inf_count"))


def survey_lines(found: Survey, *, width: int, say: Phrases, everything: bool = False) -> Iterator[str]:
    """Yield all lines about a dump: totals, what is odd, and its operators in order of execution."""
    dump = found.dump
    yield say("about_dump", command="msdump inspect", directory=str(dump.root), reader=dump.reader)
    about = {"operators": len(found.operators), "files": found.files, "size": bytes_text(found.size)}
    yield f"  {say('holds_in_files', tensors=len(dump.refs), **about)}"
    for title, text in _facts(found, say):
        head, *rest = wrapped(text, width, indent=2 + _LABEL)
        yield titled(f"  {title}", head.strip(), 2 + _LABEL)
        yield from rest
    if found.odd or found.unreadable:
        yield ""
        yield say("odd_title")
        for message in found.odd:
            head, *rest = wrapped(say.of(message), width, indent=4)
            yield f"  - {head.strip()}"
            yield from rest
        unreadable = found.unreadable if everything else found.unreadable[:_MOST_UNREADABLE]
        for ref, problem in unreadable:
            yield f"  - {say('odd_unreadable', name=terminal_text(ref.key.address))}"
            yield from wrapped(problem, width, indent=4)
        if len(unreadable) < len(found.unreadable):
            yield f"  - {say('more_unreadable', n=len(found.unreadable) - len(unreadable))}"
    if found.operators:
        yield ""
        shown = found.operators if everything else found.operators[:_MOST_OPERATORS]
        yield from _table(shown, width, say)
        yield from _more(len(found.operators), len(shown), say)


def _facts(found: Survey, say: Phrases) -> Iterator[tuple[str, str]]:
    for name, values in found.coordinates.items():
        yield name, _values_text(values)
    labels = ((title, value) for title, value in found.dump.labels if title not in found.coordinates)
    yield from ((title, value) for title, value in labels if value.strip())
    for one in found.dump.run.configurations if found.dump.run else ():
        io = say(f"io_{one.io}") if say.knows(f"io_{one.io}") else one.io
        is_every = one.iterations == EVERY_ITERATION
        times = say("every_iteration") if is_every else say("iterations_are", iterations=one.iterations)
        kernels = one.kernels_text or say("script_operators" if one.by_script else "every_operator")
        yield say("asked_for"), say("asked_for_is", io=io, kernels=kernels, times=times, source=one.source)
    for title, counts in (("types", found.dtypes), ("formats", found.memory_formats)):
        if counts:
            yield say(title), ", ".join(f"{name} {count}" for name, count in counts.items())
    for at, graph in found.dump.graphs:
        where = where_text(at)
        about = {
            "where": say("of_where", where=where) if where else "",
            "final": "" if graph.is_final else say("not_final"),
        }
        yield say("graph_file"), say("graph_file_is", source=graph.source, n=len(graph.operators), **about)


def _values_text(values: Sequence[int | str]) -> str:
    """Write numbers with runs drawn together: ``0-9, 20``."""
    runs: list[list[int | str]] = []
    for value in values:
        last = runs[-1][-1] if runs else None
        if isinstance(value, int) and isinstance(last, int) and value == last + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return terminal_text(", ".join(texts))


def _table(operators: Sequence[SurveyedOperator], width: int, say: Phrases) -> Iterator[str]:
    """One line an operator where that fits, else its name above its facts."""
    rows = [
        (
            str(number),
            str(row.inputs),
            str(row.outputs),
            str(row.tensors),
            bytes_text(row.size),
            terminal_text(row.op_type or "-"),
            f"{row.dtype} {shape_text(row.shape)}" if row.dtype else say("varies"),
        )
        for number, row in enumerate(operators, 1)
    ]
    titles = [say(code) for code in ("op", "column_in", "column_out", "tensors")]
    titles += [say(f"column_{name}") for name in ("size", "type", "first")]
    widths = [max(map(columns, column)) for column in zip(titles, *rows, strict=True)]
    names = [terminal_text(row.label) for row in operators]
    facts = [_row(cells, widths) for cells in rows]
    if max(len(line) for line in facts) + 2 + max(map(len, names)) <= width:
        yield f"{_row(titles, widths)}  {say('column_operator')}"
        yield from (f"{line}  {name}" for line, name in zip(facts, names, strict=True))
        return
    yield say.joined((_row(titles, widths).rstrip(), say("operator_below")), "between_clauses")
    for line, name in zip(facts, names, strict=True):
        yield line.rstrip()
        yield f"{' ' * (widths[0] + 2)}{name}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, words to the left."""
    numbers = [" " * (width - columns(cell)) + cell for cell, width in zip(cells[:5], widths, strict=False)]
    words = [cell + " " * (width - columns(cell)) for cell, width in zip(cells[5:], widths[5:], strict=True)]
    return "  ".join((*numbers, *words))


def line_lines(
    dump: Dump, where: str, found: Sequence[PlacedOperator], *, width: int, say: Phrases, everything: bool = False
) -> Iterator[str]:
    """Yield all lines about what a line of the program made."""
    yield say("about_dump", command="msdump inspect", directory=str(dump.root), reader=dump.reader)
    yield f"  {say('line_made', line=terminal_text(where), n=len(found))}"
    for note in dump.notes:
        yield from wrapped(say.of(message_of_note(note)), width, indent=2)
    for placed in found:
        yield ""
        yield f"{terminal_text(placed.operator.name)}  ({placed.operator.op_type})"
        yield from operator_lines(placed, width=width, say=say)
        # Each iteration has its own file; the first is enough for the operator.
        arguments = kernel_args_of(dump, placed.refs[0]) if placed.refs else None
        yield from arguments_lines(arguments, width=width, say=say)
        yield from _files(dump, placed, None if everything else _MOST_FILES, say)


def operator_lines(placed: PlacedOperator, *, width: int, say: Phrases) -> Iterator[str]:
    """Yield where an operator is, the lines that made it, its inputs with producers, its outputs with consumers."""
    operator = placed.operator
    where = where_text(placed.at)
    graph = placed.graph.source + (f" ({where})" if where else "")
    about = {"place": placed.place + 1, "operators": len(placed.graph.operators)}
    yield f"  {say('place_in_graph', graph=graph, **about)}"
    for frame in user_frames(operator):
        yield from frame_lines(frame, width, indent=2)
    constants = {slot: value for slot, name in enumerate(_OPERANDS) if (value := placed.attributes.get(name))}
    attributes = {name: value for name, value in placed.attributes.items() if name not in _OPERANDS}
    if attributes:
        yield f"  {say('attributes')}"
        yield from _values_lines(attributes, width)
    for slot in range(max(len(operator.inputs), len(operator.host_inputs), len(operator.device_inputs))):
        yield from _slot(operator, "input", slot, width, say)
        edge = operator.inputs[slot] if slot < len(operator.inputs) else None
        yield f"      {say('slot_from', name=_producer(edge, constants.get(slot), say))}"
    slots = {*range(len(operator.host_outputs)), *range(len(operator.device_outputs)), *placed.takers}
    for slot in sorted(slots):
        yield from _slot(operator, "output", slot, width, say)
        takers = placed.takers.get(slot, ())
        for name, taken in takers:
            yield f"      {say('slot_to', name=terminal_text(name), slot=taken)}"
        if not takers:
            yield f"      {say('slot_to_none')}"


def arguments_lines(arguments: KernelArguments | None, *, width: int, say: Phrases) -> Iterator[str]:
    """Yield what a kernel was initialised with."""
    if arguments is None:
        return
    if arguments.note:
        text = say("after_label", label=say("kernel_arguments_title"), text=f"{arguments.source} {arguments.note}")
        yield from wrapped(text, width, indent=2)
        return
    yield f"  {say('kernel_arguments_title')} ({terminal_text(arguments.source)})"
    yield from _values_lines(arguments.values, width)


def _values_lines(values: Mapping[str, str], width: int) -> Iterator[str]:
    longest = min(_LONGEST_NAME, max(map(len, values), default=0))
    for name, value in values.items():
        head, *rest = wrapped(f"{name:<{longest}}  {value}", width, indent=6)
        # Wrapping draws spaces together no more than it breaks words.
        yield head
        yield from (f"{' ' * (longest + 2)}{line}" for line in rest)


def _slot(operator: Operator, io: str, slot: int, width: int, say: Phrases) -> Iterator[str]:
    host = _at_slot(getattr(operator, f"host_{io}s"), slot)
    device = _at_slot(getattr(operator, f"device_{io}s"), slot)
    sides = [say(f"on_{name}", spec=spec_text(spec)) for name, spec in (("host", host), ("device", device)) if spec]
    if host and device and (host.dtype, host.shape) == (device.dtype, device.shape):
        sides = [say("on_host_and_device", spec=spec_text(device))]
    head = f"  {say(io)} {slot}"
    line = titled(head, "; ".join(sides) or say("no_tensor"), _SLOT)
    if columns(line) <= width or len(sides) < 2:
        yield line
        return
    yield titled(head, sides[0], _SLOT)
    yield titled("", sides[1], _SLOT)


def _at_slot(specs: Sequence[TensorSpec | None], slot: int) -> TensorSpec | None:
    return specs[slot] if slot < len(specs) else None


def _producer(edge: Edge | None, constant: str | None, say: Phrases) -> str:
    if edge is None:
        return say("from_constant", text=terminal_text(constant)) if constant else say("from_nothing")
    name = terminal_text(edge.producer)
    return say("from_parameter" if edge.is_parameter else "from_output", name=name, slot=edge.slot)


def _files(dump: Dump, placed: PlacedOperator, most: int | None, say: Phrases) -> Iterator[str]:
    files = list(dict.fromkeys(path for ref in placed.refs for path in (ref.source.pieces or (ref.source.path,))))
    if not files:
        yield f"  {say('not_dumped')}"
    for path in files[:most]:
        yield f"  {terminal_text(os.path.relpath(path, dump.root))}"
    yield from _more(len(files), most, say, indent=2)


def file_lines(found: InspectedFile, *, width: int, say: Phrases, everything: bool = False) -> Iterator[str]:
    """Yield all lines about a file."""
    yield f"msdump inspect: {terminal_text(str(found.path))}"
    yield from wrapped(f"{bytes_text(found.size)}; {_kind(found, say)}", width, indent=2)
    most = None if everything else _MOST_ROWS
    if found.graph is not None:
        yield from _graph(found.graph, width, most, say)
    elif found.table is not None:
        yield from _statistics_table(found.table, width, most, say)
    elif found.overflow is not None:
        yield from _overflow(found.overflow, width, say)
    else:
        yield from _file_tensors(found, width, say)


def _kind(found: InspectedFile, say: Phrases) -> str:
    for code, what in (("is_graph", found.graph), ("is_statistics", found.table), ("is_overflow", found.overflow)):
        if what is not None:
            return say(code)
    readers = ", ".join(dict.fromkeys(tensor.ref.reader for tensor in found.tensors))
    kind = f"{found.header.kind}; " if found.header else ""
    return say("is_tensors", kind=kind, n=len(found.tensors), reader=readers)


def _graph(graph: OperatorGraph, width: int, most: int | None, say: Phrases) -> Iterator[str]:
    code = "graph_final" if graph.is_final else "graph_earlier"
    yield f"  {say(code, n=len(graph.operators), k=len(graph.parameters))}"
    for note in graph.notes:
        yield from wrapped(say.of(message_of_note(note)), width, indent=2)
    for place, operator in list(enumerate(graph.operators, 1))[:most]:
        yield f"  {place:>4}  {terminal_text(operator.name)}  ({operator.op_type})"
    yield from _more(len(graph.operators), most, say, indent=2)


def _statistics_table(table: StatisticTables, width: int, most: int | None, say: Phrases) -> Iterator[str]:
    yield f"  {say('n_rows', n=len(table.rows))}"
    for note in table.notes:
        yield from wrapped(say.of(message_of_note(note)), width, indent=2)
    for row in table.rows[:most]:
        yield f"  {terminal_text(row.key.address)}  {spec_text(row.spec)}"
        values = row.statistics.values if row.statistics else {}
        text = ", ".join(f"{name} {_value(value)}" for name, value in values.items())
        yield from wrapped(text, width, indent=4)
    yield from _more(len(table.rows), most, say, indent=2)


def _more(count: int, most: int | None, say: Phrases, *, indent: int = 0) -> Iterator[str]:
    if most is not None and count > most:
        yield " " * indent + say("more_listed", n=count - most)


def _overflow(file: OverflowFile, width: int, say: Phrases) -> Iterator[str]:
    if file.problem:
        text = say("after_label", label=say("cannot_be_read"), text=file.problem)
        yield from wrapped(text, width, indent=2)
    for entry in file.entries:
        about = {"task": entry.task_id, "stream": entry.stream_id, "words": entry.words}
        yield from wrapped(say("overflow_unit", unit=entry.unit, **about), width, indent=2)
    if not file.entries and not file.problem:
        yield f"  {say('no_unit')}"


def _file_tensors(found: InspectedFile, width: int, say: Phrases) -> Iterator[str]:
    if found.header is not None and found.header.fields:
        text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.header.fields)
        yield from wrapped(say("header_is", text=text), width, indent=2)
    op = found.tensors[0].ref.key.op
    yield f"  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    if where:
        yield f"  {where}"
    if found.is_older:
        yield f"  {say('of_earlier_run')}"
    if op.true_name and op.true_name != op.name:
        yield f"  {say('in_file_names', name=terminal_text(op.name))}"
    for entry in found.tensors[0].ref.overflows:
        yield from wrapped(say.of(entry.message), width, indent=2)
    for tensor in found.tensors:
        yield ""
        key = tensor.ref.key
        yield from _tensor(tensor, found.header.of(key.io, key.slot) if found.header else None, width, say)
    if found.arguments is not None:
        yield ""
        yield from arguments_lines(found.arguments, width=width, say=say)
    if found.operator is None:
        return
    yield ""
    yield say("column_operator")
    yield from operator_lines(found.operator, width=width, say=say)
    frames = frames_of(found.operator.operator)
    if frames:
        yield ""
        yield say("calls_title")
        for frame in frames:
            yield from frame_lines(frame, width, indent=2)


def _tensor(tensor: InspectedTensor, header: StoredTensor | None, width: int, say: Phrases) -> Iterator[str]:
    key = tensor.ref.key
    if tensor.problem:
        yield f"{key.io}:{key.slot}  {say('cannot_be_read')}"
        yield from wrapped(tensor.problem, width, indent=2)
        yield from _header(header, width, say)
        return
    spec = tensor.spec
    memory_format = (spec.memory_format if spec else None) or tensor.ref.spec.memory_format
    text = f"{tensor.dtype} {shape_text(tensor.shape)}" + (f", {memory_format}" if memory_format else "")
    yield f"{key.io}:{key.slot}  {text}"
    if spec is not None and (spec.shape, spec.dtype) != (tensor.shape, tensor.dtype):
        yield f"  {say('stored_as', spec=spec_text(spec))}"
    yield from _header(header, width, say)
    # Inputs of threads are in the first thread's file, whole.
    if len(tensor.ref.source.pieces) > 1 and header is not None and header.shape != tensor.shape:
        yield f"  {say('joined_from', n=len(tensor.ref.source.pieces))}"
    yield from wrapped(_elements(tensor, say), width, indent=2)
    yield from wrapped(_numbers(tensor, say), width, indent=2)
    side = tensor.side
    if side is not None and side.first is not None:
        yield f"  {say('first_odd_element', place=index_text(side.first))}"
    if tensor.histogram is not None:
        yield from _bars(tensor.histogram, width, say)


def _header(header: StoredTensor | None, width: int, say: Phrases) -> Iterator[str]:
    """What the file itself says, in its own words."""
    if header is None:
        return
    parts = [f"{header.data_type.label} {shape_text(header.shape)} {header.memory_format}"]
    if header.original_shape is not None:
        parts.append(say("header_original", shape=shape_text(header.original_shape)))
    if header.groups > 1:
        parts.append(say("header_groups", n=header.groups))
    parts.append(say("header_bytes", n=header.size, start=header.start))
    if header.address:
        parts.append(say("header_address", address=f"{header.address:#x}"))
    yield from wrapped(say("header_is", text=say.joined(parts, "between_names")), width, indent=2)


def _elements(tensor: InspectedTensor, say: Phrases) -> str:
    side, values = tensor.side, tensor.statistics
    count = say("elements", n=side.elements if side else 0)
    parts = [say("of_kind", n=values[name], kind=kind) for kind, name in _KINDS if values.get(name)]
    parts = [*(say(code, n=values[name]) for code, name in _COUNTS if values.get(name)), *parts]
    if side is not None and side.saturated:
        parts.append(say("saturated", n=side.saturated))
    if side is not None and "nan_count" not in values:
        # Of complex numbers nothing is saved but their count.
        parts += [say("of_kind", n=n, kind=kind) for kind, n in (("NaN", side.nan), ("Inf", side.inf)) if n]
    return say("after_label", label=count, text=say.joined(parts, "between_names")) if parts else count


def _numbers(tensor: InspectedTensor, say: Phrases) -> str:
    side, values = tensor.side, tensor.statistics
    if "maximum" not in values and side is not None and side.minimum is not None and side.maximum is not None:
        about = {"low": number(side.minimum), "high": number(side.maximum)}
        return say("modulus_is", mean=number(side.mean or 0.0), **about)
    parts = []
    for code, fields in _STATISTICS:
        if all(values.get(name) is not None for name in fields.values()):
            parts.append(say(code, **{field: _value(values[name]) for field, name in fields.items()}))
    return say.joined(parts, "between_names")


def _value(value: Statistic) -> str:
    return str(value) if value is None or isinstance(value, str) else number(value)


def _bars(found: Histogram, width: int, say: Phrases) -> Iterator[str]:
    """One line a bin: its range, a bar, its count. A bin that is not empty shows at least a dot."""
    largest = max(found.counts)
    if len(found.counts) < 2 or not largest:
        return
    ranges = _ranges(found, say)
    taken = max(map(columns, ranges)) + len(str(largest)) + len("  " + " |" + "| ")
    most = max(_SHORTEST_BAR, min(_LONGEST_BAR, width - taken))
    for edges, count in zip(ranges, found.counts, strict=True):
        length = round(most * count / largest)
        bar = "#" * length if length else "." * bool(count)
        yield f"  {edges} |{bar:<{most}}| {count}"


def _ranges(found: Histogram, say: Phrases) -> list[str]:
    """The range of each bin, all of one width."""
    edges = [number(edge, 4) for edge in found.edges]
    if found.is_each:
        # The last edge is that of no value.
        width = max(map(len, edges[:-1]))
        return [f"{edge:>{width}}" for edge in edges[:-1]]
    width = max(map(len, edges))
    return [say("bin_to", low=low.rjust(width), high=high.rjust(width)) for low, high in pairwise(edges)]


# The results of the checks of one dump, and of its statistics, as text for the command and for a failing test.

_MOST_SHOWN = 20
_MOST_REPEATS = 4


def check_lines(
    checked: Checked, *, width: int = 100, everything: bool = False, say: Phrases = ENGLISH
) -> Iterator[str]:
    """Yield what was checked, the hits of each operator in execution order, and what could not be checked."""
    dump = checked.dump
    yield say("about_dump", command="msdump inspect --check", directory=str(dump.root), reader=dump.reader)
    operators = {name: place for place, name in enumerate(dict.fromkeys(_name(ref.key.op) for ref in dump.refs), 1)}
    compared = say("checked_steps", n=checked.steps) if checked.steps else ""
    about = {"operators": len(operators), "weights": checked.weights, "compared": compared}
    yield from wrapped(say("checked", n=checked.tensors, **about), width, indent=2)
    for note in (*map(message_of_note, dump.notes), *checked.notes):
        yield from wrapped(say.of(note), width, indent=2)
    yield f"  {summary_line(checked, say)}"
    groups: dict[OpKey, list[Hit]] = {}
    for hit in checked.hits:
        op, at = hit.ref.key.op, hit.ref.key.op.at
        # An operator that iterations, or loops in them, run again is shown once.
        groups.setdefault(op._replace(at=Coordinates(at.rank, at.net, at.graph)), []).append(hit)
    shown = [
        _operator(op, hits, say("nth_operator", place=operators[_name(op)], operators=len(operators)), width, say)
        for op, hits in groups.items()
    ]
    yield from _first(shown, say, everything=everything)
    for path, message in checked.reports:
        yield ""
        yield f"{say('reported')}  {terminal_text(str(path))}"
        yield from wrapped(say.of(message), width, indent=10)
    for ref, problem in checked.unreadable:
        yield ""
        yield f"{say('unreadable')}  {terminal_text(ref.key.address)}"
        yield from wrapped(problem, width, indent=12)


def _first(blocks: Sequence[Iterator[str]], say: Phrases, *, everything: bool) -> Iterator[str]:
    """Yield the lines of the first blocks, each below an empty line, and how many more there are."""
    for lines in blocks if everything else blocks[:_MOST_SHOWN]:
        yield ""
        yield from lines
    if len(blocks) > _MOST_SHOWN and not everything:
        yield ""
        yield say("more_listed", n=len(blocks) - _MOST_SHOWN)


def summary_line(checked: Checked, say: Phrases = ENGLISH) -> str:
    """Return how often each check hit."""
    counts = Counter(hit.check for hit in checked.hits)
    if not checked.tensors and not checked.unreadable:
        return say("nothing_checked")
    if not counts:
        return say("no_hit_unreadable" if checked.unreadable else "no_hit")
    by_check = ", ".join(f"{check} {counts[check]}" for check in CHECKS if counts[check])
    return say("hits", n=len(checked.hits), by_check=by_check)


def _name(op: OpKey) -> tuple[str, str | None]:
    return (op.label, op.op_type)


def _operator(op: OpKey, hits: Sequence[Hit], place: str, width: int, say: Phrases) -> Iterator[str]:
    yield f"{say('hit')}  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    yield f"     {place}" + (f"; {where}" if where else "")
    line = hits[0].ref.line
    if line is not None:
        yield from frame_lines(line, width, indent=5)
    repeats: dict[tuple[str, int, str, str | None], list[Hit]] = {}
    for hit in hits:
        repeats.setdefault((hit.ref.key.io, hit.ref.key.slot, hit.check, hit.parameter), []).append(hit)
    for (io, slot, check, _), same in repeats.items():
        yield f"     {io}:{slot}  {say('after_label', label=check, text=say(f'check_{check}'))}"
        yield from wrapped(_repeated(same, say), width, indent=15)
    for file in dict.fromkeys(same[0].ref.source.path for same in repeats.values()):
        yield f"     {terminal_text(str(file))}"


def _repeated(same: Sequence[Hit], say: Phrases) -> str:
    """Say what was hit, when the first of several equal hits was, and when the others."""
    ats = [hit.ref.key.op.at for hit in same]
    times = [where_text(Coordinates(iteration=at.iteration, occurrence=at.occurrence)) for at in ats]
    if not times[0]:
        return say.of(same[0].message)
    names = say.named(times[1:], _MOST_REPEATS)
    return say("hit_again" if names else "hit_in", text=same[0].message, first=times[0], names=names)


def verify_lines(found: Verified, *, width: int, everything: bool = False, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield how many tensors were compared with saved statistics, and each difference."""
    dump = found.dump
    yield say("about_dump", command="msdump inspect --verify", directory=str(dump.root), reader=dump.reader)
    yield f"  {say('verified', n=len(found.refs), total=len(dump.refs))}"
    for note in map(message_of_note, dump.notes):
        yield from wrapped(say.of(note), width, indent=2)
    by_tensor: dict[TensorRef, list[StatisticDifference]] = {}
    for difference in found.differences:
        by_tensor.setdefault(difference.ref, []).append(difference)
    if not found.refs:
        yield f"  {say('nothing_verified')}"
    elif not by_tensor:
        yield f"  {say('all_agree')}"
    else:
        yield f"  {say('n_differ', n=len(by_tensor))}"
    shown = [_differing_tensor(ref, differences, width, say) for ref, differences in by_tensor.items()]
    yield from _first(shown, say, everything=everything)


def _differing_tensor(
    ref: TensorRef, differences: Sequence[StatisticDifference], width: int, say: Phrases
) -> Iterator[str]:
    yield f"{say('DIFFERS')}  {terminal_text(ref.key.address)}"
    where = where_text(ref.key.op.at)
    if where:
        yield f"         {where}"
    for difference in differences:
        if difference.problem:
            yield from wrapped(difference.problem, width, indent=9)
        else:
            values = (difference.saved, difference.computed)
            saved, computed = (say("no_number") if value is None else str(value) for value in values)
            text = say("saved_computed", what=difference.what.replace("_", " "), saved=saved, computed=computed)
            yield from wrapped(text, width, indent=9)
    yield f"         {terminal_text(str(ref.source.path))}"
    table = ref.statistics.source if ref.statistics else None
    if table is not None:
        path = terminal_text(str(table.path))
        yield f"         {say('table_line', file=path, line=table.part) if table.part else path}"
