"""Dumps, their files, and the operators of a line of the program, as ``msdump inspect`` prints them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from pytest_msdump.comparison.graph_operators import PlacedOperator, kernel_args_of
from pytest_msdump.dumps.ascend_header import StoredTensor
from pytest_msdump.dumps.graphs.source_lines import frames_of, user_frames
from pytest_msdump.dumps.opdebug import OverflowFile
from pytest_msdump.escape import terminal_text
from pytest_msdump.inspect.file import InspectedFile, InspectedTensor
from pytest_msdump.inspect.measure import Histogram
from pytest_msdump.inspect.survey import Survey, SurveyedOperator
from pytest_msdump.model.describe import bytes_text, counted, frame_lines, shape_text, spec_text, where_text, wrapped
from pytest_msdump.model.dump import EVERY_ITERATION, Dump
from pytest_msdump.model.graph import Edge, KernelArguments, Operator, OperatorGraph
from pytest_msdump.model.numbers import index_text, number
from pytest_msdump.model.statistics import Statistic, StatisticTables
from pytest_msdump.model.tensor import TensorSpec

_MOST_OPERATORS = 40
_MOST_UNREADABLE = 10
_MOST_FILES = 12
_LABEL = 14
_LONGEST_NAME = 24
# How attributes name the operands that are written down in the graph.
_OPERANDS = tuple(f"operand {slot}" for slot in range(64))
_MOST_ROWS = 40
_SHORTEST_BAR, _LONGEST_BAR = 10, 60
_STATISTICS = (("range", "minimum", "maximum"), ("mean", "mean"), ("L2 norm", "l2_norm"))
_COUNTS = (
    ("zero", "zero_count"),
    ("below 0", "negative_count"),
    ("above 0", "positive_count"),
    ("NaN", "nan_count"),
    ("-Inf", "negative_inf_count"),
    ("+Inf", "positive_inf_count"),
)


def survey_lines(found: Survey, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield all lines about a dump: totals, what is odd, and its operators in order of execution."""
    dump = found.dump
    yield f"msdump inspect: {dump.root} (reader {dump.reader})"
    yield (
        f"  {counted(len(dump.refs), 'tensor')} of {counted(len(found.operators), 'operator')}; "
        f"{bytes_text(found.size)} in {counted(found.files, 'file')}"
    )
    for title, text in _facts(found):
        head, *rest = wrapped(text, width, indent=2 + _LABEL)
        yield f"  {title:<{_LABEL}}{head.strip()}"
        yield from rest
    if found.odd or found.unreadable:
        yield ""
        yield "what is odd"
        for sentence in found.odd:
            head, *rest = wrapped(sentence, width, indent=4)
            yield f"  - {head.strip()}"
            yield from rest
        unreadable = found.unreadable if everything else found.unreadable[:_MOST_UNREADABLE]
        for ref, problem in unreadable:
            yield f"  - {terminal_text(ref.key.address)} cannot be read"
            yield from wrapped(problem, width, indent=4)
        if len(unreadable) < len(found.unreadable):
            yield f"  - and {len(found.unreadable) - len(unreadable)} more that cannot be read; --all lists them all"
    if found.operators:
        yield ""
        shown = found.operators if everything else found.operators[:_MOST_OPERATORS]
        yield from _table(shown, width)
        if len(shown) < len(found.operators):
            yield f"and {counted(len(found.operators) - len(shown), 'more operator')}; --all lists them all"


def _facts(found: Survey) -> Iterator[tuple[str, str]]:
    for name, values in found.coordinates.items():
        yield name, _values_text(values)
    labels = ((title, value) for title, value in found.dump.labels if title not in found.coordinates)
    yield from ((title, value) for title, value in labels if value.strip())
    for one in found.dump.run.configurations if found.dump.run else ():
        io = {"all": "inputs and outputs", "input": "inputs", "output": "outputs"}.get(one.io, one.io)
        times = "every iteration" if one.iterations == EVERY_ITERATION else f"iterations {one.iterations}"
        kernels = one.kernels_text or ("the operators that the script names" if one.by_script else "every operator")
        yield "asked for", f"{io} of {kernels}, {times} ({one.source})"
    for title, counts in (("types", found.dtypes), ("memory formats", found.memory_formats)):
        if counts:
            yield title[:_LABEL].removeprefix("memory "), ", ".join(f"{name} {count}" for name, count in counts.items())
    for at, graph in found.dump.graphs:
        where = where_text(at)
        final = "" if graph.is_final else "; not the one that ran"
        count = counted(len(graph.operators), "operator")
        yield "graph file", f"{graph.source}{f' of {where}' if where else ''}: {count}{final}"


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


def _table(operators: Sequence[SurveyedOperator], width: int) -> Iterator[str]:
    """One line an operator where that fits, else its name above its facts."""
    rows = [
        (
            str(number),
            str(row.inputs),
            str(row.outputs),
            str(row.tensors),
            bytes_text(row.size),
            terminal_text(row.op_type or "-"),
            f"{row.dtype} {shape_text(row.shape)}" if row.dtype else "varies, or cannot be read",
        )
        for number, row in enumerate(operators, 1)
    ]
    titles = ("op", "in", "out", "tensors", "size", "type", "first output")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    names = [terminal_text(row.label) for row in operators]
    facts = [_row(cells, widths) for cells in rows]
    if max(len(line) for line in facts) + 2 + max(map(len, names)) <= width:
        yield f"{_row(titles, widths)}  operator"
        yield from (f"{line}  {name}" for line, name in zip(facts, names, strict=True))
        return
    yield f"{_row(titles, widths).rstrip()}; operator below"
    for line, name in zip(facts, names, strict=True):
        yield line.rstrip()
        yield f"{' ' * (widths[0] + 2)}{name}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, words to the left."""
    numbers = [cell.rjust(width) for cell, width in zip(cells[:5], widths, strict=False)]
    words = [cell.ljust(width) for cell, width in zip(cells[5:], widths[5:], strict=True)]
    return "  ".join((*numbers, *words))


def line_lines(
    dump: Dump, where: str, found: Sequence[PlacedOperator], *, width: int, everything: bool = False
) -> Iterator[str]:
    """Yield all lines about what a line of the program made."""
    yield f"msdump inspect: {dump.root} (reader {dump.reader})"
    yield f"  {terminal_text(where)} made {counted(len(found), 'operator')}"
    for note in dump.notes:
        yield from wrapped(note, width, indent=2)
    for placed in found:
        yield ""
        yield f"{terminal_text(placed.operator.name)}  ({placed.operator.op_type})"
        yield from operator_lines(placed, width=width)
        # Each iteration has its own file; the first is enough for the operator.
        arguments = kernel_args_of(dump, placed.refs[0]) if placed.refs else None
        yield from arguments_lines(arguments, width=width)
        yield from _files(dump, placed, None if everything else _MOST_FILES)


def operator_lines(placed: PlacedOperator, *, width: int) -> Iterator[str]:
    """Yield where an operator is, the lines that made it, its inputs with producers, its outputs with consumers."""
    operator = placed.operator
    where = where_text(placed.at)
    graph = placed.graph.source + (f" ({where})" if where else "")
    yield f"  op {placed.place + 1} of {len(placed.graph.operators)} in {graph}"
    for frame in user_frames(operator):
        yield from frame_lines(frame, width, indent=2)
    constants = {slot: value for slot, name in enumerate(_OPERANDS) if (value := placed.attributes.get(name))}
    attributes = {name: value for name, value in placed.attributes.items() if name not in _OPERANDS}
    if attributes:
        yield "  attributes"
        yield from _values_lines(attributes, width)
    for slot in range(max(len(operator.inputs), len(operator.host_inputs), len(operator.device_inputs))):
        yield from _slot(operator, "input", slot, width)
        edge = operator.inputs[slot] if slot < len(operator.inputs) else None
        yield f"      from {_producer(edge, constants.get(slot))}"
    slots = {*range(len(operator.host_outputs)), *range(len(operator.device_outputs)), *placed.takers}
    for slot in sorted(slots):
        yield from _slot(operator, "output", slot, width)
        takers = placed.takers.get(slot, ())
        for name, taken in takers:
            yield f"      to   {terminal_text(name)} input {taken}"
        if not takers:
            yield "      to   no operator in this graph"


def arguments_lines(arguments: KernelArguments | None, *, width: int) -> Iterator[str]:
    """Yield what a kernel was initialised with."""
    if arguments is None:
        return
    if arguments.note:
        yield from wrapped(f"kernel arguments: {arguments.source} {arguments.note}", width, indent=2)
        return
    yield f"  kernel arguments ({terminal_text(arguments.source)})"
    yield from _values_lines(arguments.values, width)


def _values_lines(values: Mapping[str, str], width: int) -> Iterator[str]:
    longest = min(_LONGEST_NAME, max(map(len, values), default=0))
    for name, value in values.items():
        head, *rest = wrapped(f"{name:<{longest}}  {value}", width, indent=6)
        # Wrapping draws spaces together no more than it breaks words.
        yield head
        yield from (f"{' ' * (longest + 2)}{line}" for line in rest)


def _slot(operator: Operator, io: str, slot: int, width: int) -> Iterator[str]:
    host = _at_slot(getattr(operator, f"host_{io}s"), slot)
    device = _at_slot(getattr(operator, f"device_{io}s"), slot)
    sides = [f"{title} {spec_text(spec)}" for title, spec in (("host", host), ("device", device)) if spec]
    if host and device and (host.dtype, host.shape) == (device.dtype, device.shape):
        sides = [f"host and device {spec_text(device)}"]
    head = f"  {io} {slot}"
    line = f"{head:<11} {'; '.join(sides) or 'no tensor, or its shape is unknown'}"
    if len(line) <= width or len(sides) < 2:
        yield line
        return
    yield f"{head:<11} {sides[0]}"
    yield f"{'':<11} {sides[1]}"


def _at_slot(specs: Sequence[TensorSpec | None], slot: int) -> TensorSpec | None:
    return specs[slot] if slot < len(specs) else None


def _producer(edge: Edge | None, constant: str | None) -> str:
    if edge is None:
        return f"the constant {terminal_text(constant)}" if constant else "a constant, or nothing"
    name = terminal_text(edge.producer)
    return f"{name} (a weight or an input of the network)" if edge.is_parameter else f"{name} output {edge.slot}"


def _files(dump: Dump, placed: PlacedOperator, most: int | None) -> Iterator[str]:
    files = list(dict.fromkeys(path for ref in placed.refs for path in (ref.source.pieces or (ref.source.path,))))
    if not files:
        yield "  not dumped"
    for path in files[:most]:
        yield f"  {terminal_text(os.path.relpath(path, dump.root))}"
    yield from _more(len(files), most, "file")


def file_lines(found: InspectedFile, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield all lines about a file."""
    yield f"msdump inspect: {terminal_text(str(found.path))}"
    yield from wrapped(f"{bytes_text(found.size)}; {_kind(found)}", width, indent=2)
    most = None if everything else _MOST_ROWS
    if found.graph is not None:
        yield from _graph(found.graph, width, most)
    elif found.table is not None:
        yield from _statistics_table(found.table, width, most)
    elif found.overflow is not None:
        yield from _overflow(found.overflow, width)
    else:
        yield from _file_tensors(found, width)


def _kind(found: InspectedFile) -> str:
    if found.graph is not None:
        return "a graph"
    if found.table is not None:
        return "a table of statistics"
    if found.overflow is not None:
        return "an overflow file of the device"
    readers = ", ".join(dict.fromkeys(tensor.ref.reader for tensor in found.tensors))
    kind = f"{found.header.kind}; " if found.header else ""
    return f"{kind}{counted(len(found.tensors), 'tensor')} (reader {readers})"


def _graph(graph: OperatorGraph, width: int, most: int | None) -> Iterator[str]:
    final = "the graph that ran" if graph.is_final else "an earlier graph, not the one that ran"
    yield f"  {final}: {counted(len(graph.operators), 'operator')}, {counted(len(graph.parameters), 'parameter')}"
    for note in graph.notes:
        yield from wrapped(note, width, indent=2)
    for place, operator in list(enumerate(graph.operators, 1))[:most]:
        yield f"  {place:>4}  {terminal_text(operator.name)}  ({operator.op_type})"
    yield from _more(len(graph.operators), most, "operator")


def _statistics_table(table: StatisticTables, width: int, most: int | None) -> Iterator[str]:
    yield f"  {counted(len(table.rows), 'row')}"
    for note in table.notes:
        yield from wrapped(note, width, indent=2)
    for row in table.rows[:most]:
        yield f"  {terminal_text(row.key.address)}  {spec_text(row.spec)}"
        values = row.statistics.values if row.statistics else {}
        text = ", ".join(f"{name} {_value(value)}" for name, value in values.items())
        yield from wrapped(text, width, indent=4)
    yield from _more(len(table.rows), most, "row")


def _more(count: int, most: int | None, what: str) -> Iterator[str]:
    if most is not None and count > most:
        yield f"  and {counted(count - most, f'more {what}')}; --all lists them all"


def _overflow(file: OverflowFile, width: int) -> Iterator[str]:
    if file.problem:
        yield from wrapped(f"cannot be read: {file.problem}", width, indent=2)
    for entry in file.entries:
        ids = f"task {entry.task_id}, stream {entry.stream_id}"
        yield from wrapped(f"{entry.unit}: {ids}: {entry.words}", width, indent=2)
    if not file.entries and not file.problem:
        yield "  no unit is in it"


def _file_tensors(found: InspectedFile, width: int) -> Iterator[str]:
    if found.header is not None and found.header.fields:
        text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.header.fields)
        yield from wrapped(f"header: {text}", width, indent=2)
    op = found.tensors[0].ref.key.op
    yield f"  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    if where:
        yield f"  {where}"
    if found.is_older:
        yield "  of an earlier run into the same directory"
    if op.true_name and op.true_name != op.name:
        yield f"  in file names: {terminal_text(op.name)}"
    for entry in found.tensors[0].ref.overflows:
        ids = f"task {entry.task_id}, stream {entry.stream_id}"
        yield from wrapped(f"{entry.unit} reports an overflow of {ids}: {entry.words}", width, indent=2)
    for tensor in found.tensors:
        yield ""
        key = tensor.ref.key
        yield from _tensor(tensor, found.header.of(key.io, key.slot) if found.header else None, width)
    if found.arguments is not None:
        yield ""
        yield from arguments_lines(found.arguments, width=width)
    if found.operator is None:
        return
    yield ""
    yield "operator"
    yield from operator_lines(found.operator, width=width)
    frames = frames_of(found.operator.operator)
    if frames:
        yield ""
        yield "calls, outermost first"
        for frame in frames:
            yield from frame_lines(frame, width, indent=2)


def _tensor(tensor: InspectedTensor, header: StoredTensor | None, width: int) -> Iterator[str]:
    key = tensor.ref.key
    if tensor.problem:
        yield f"{key.io}:{key.slot}  cannot be read"
        yield from wrapped(tensor.problem, width, indent=2)
        yield from _header(header, width)
        return
    spec = tensor.spec
    memory_format = (spec.memory_format if spec else None) or tensor.ref.spec.memory_format
    text = f"{tensor.dtype} {shape_text(tensor.shape)}" + (f", {memory_format}" if memory_format else "")
    yield f"{key.io}:{key.slot}  {text}"
    if spec is not None and (spec.shape, spec.dtype) != (tensor.shape, tensor.dtype):
        yield f"  stored as {spec_text(spec)}"
    yield from _header(header, width)
    # Inputs of threads are in the first thread's file, whole.
    if len(tensor.ref.source.pieces) > 1 and header is not None and header.shape != tensor.shape:
        yield f"  joined from {counted(len(tensor.ref.source.pieces), 'slice')}, each in a file of its own"
    yield from wrapped(_elements(tensor), width, indent=2)
    yield from wrapped(_numbers(tensor), width, indent=2)
    side = tensor.side
    if side is not None and side.first is not None:
        yield f"  first NaN, Inf or saturated element at {index_text(side.first)}"
    if tensor.histogram is not None:
        yield from _bars(tensor.histogram, width)


def _header(header: StoredTensor | None, width: int) -> Iterator[str]:
    """What the file itself says, in its own words."""
    if header is None:
        return
    parts = [f"{header.data_type.label} {shape_text(header.shape)} {header.memory_format}"]
    if header.original_shape is not None:
        parts.append(f"original shape {shape_text(header.original_shape)}")
    if header.groups > 1:
        parts.append(f"{header.groups} groups")
    parts.append(f"{counted(header.size, 'byte')} from byte {header.start}")
    if header.address:
        parts.append(f"address {header.address:#x}")
    yield from wrapped(f"header: {', '.join(parts)}", width, indent=2)


def _elements(tensor: InspectedTensor) -> str:
    side, values = tensor.side, tensor.statistics
    count = counted(side.elements if side else 0, "element")
    parts = [f"{values[name]} {word}" for word, name in _COUNTS if values.get(name)]
    if side is not None and side.saturated:
        parts.append(f"{side.saturated} at the type's maximum")
    if side is not None and "nan_count" not in values:
        # Of complex numbers nothing is saved but their count.
        parts += [f"{count} {word}" for word, count in (("NaN", side.nan), ("Inf", side.inf)) if count]
    return f"{count}: {', '.join(parts)}" if parts else count


def _numbers(tensor: InspectedTensor) -> str:
    side, values = tensor.side, tensor.statistics
    if "maximum" not in values and side is not None and side.minimum is not None and side.maximum is not None:
        return f"modulus {number(side.minimum)} to {number(side.maximum)}, its mean {number(side.mean or 0.0)}"
    parts = []
    for title, *names in _STATISTICS:
        known = [_value(value) for name in names if (value := values.get(name)) is not None]
        if len(known) == len(names):
            parts.append(f"{title} {' to '.join(known)}")
    return ", ".join(parts)


def _value(value: Statistic) -> str:
    return str(value) if value is None or isinstance(value, str) else number(value)


def _bars(found: Histogram, width: int) -> Iterator[str]:
    """One line a bin: its range, a bar, its count. A bin that is not empty shows at least a dot."""
    largest = max(found.counts)
    if len(found.counts) < 2 or not largest:
        return
    ranges = _ranges(found)
    taken = max(map(len, ranges)) + len(str(largest)) + len("  " + " |" + "| ")
    most = max(_SHORTEST_BAR, min(_LONGEST_BAR, width - taken))
    for edges, count in zip(ranges, found.counts, strict=True):
        length = round(most * count / largest)
        bar = "#" * length if length else "." * bool(count)
        yield f"  {edges} |{bar:<{most}}| {count}"


def _ranges(found: Histogram) -> list[str]:
    """The range of each bin, all of one width."""
    edges = [number(edge, 4) for edge in found.edges]
    if found.is_each:
        # The last edge is that of no value.
        width = max(map(len, edges[:-1]))
        return [f"{edge:>{width}}" for edge in edges[:-1]]
    width = max(map(len, edges))
    return [f"{low:>{width}} to {high:>{width}}" for low, high in pairwise(edges)]
