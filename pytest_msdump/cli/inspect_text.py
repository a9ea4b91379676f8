"""What ``msdump inspect`` says of a dump, and of the operators that a line of the program made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.comparison.arguments import kernel_args_of
from pytest_msdump.comparison.graph_operators import PlacedOperator
from pytest_msdump.dumps.graphs.source_lines import user_frames
from pytest_msdump.escape import terminal_text
from pytest_msdump.inspect.survey import Survey, SurveyedOperator
from pytest_msdump.inspect.verify import verifiable, verify
from pytest_msdump.model.describe import bytes_text, counted, frame_lines, shape_text, spec_text, where_text, wrapped
from pytest_msdump.model.dump import EVERY_ITERATION, Dump, DumpConfiguration
from pytest_msdump.model.graph import Edge, KernelArguments, Operator
from pytest_msdump.model.statistics import Statistic, StatisticDifference
from pytest_msdump.model.tensor import COORDINATES, TensorRef, TensorSpec
from pytest_msdump.report.json_forms import encode

__all__ = [
    "arguments_lines",
    "line_lines",
    "operator_lines",
    "survey_lines",
    "verified",
    "verify_entry",
    "verify_lines",
]

_MOST_OPERATORS = 40
_MOST_UNREADABLE = 10
_MOST_FILES = 12
_LABEL = 14
_LONGEST_NAME = 24
# How attributes name the operands that are written down in the graph.
_OPERANDS = tuple(f"operand {slot}" for slot in range(64))


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
        yield from _unreadable(found, width, everything)
    if found.operators:
        yield ""
        shown = found.operators if everything else found.operators[:_MOST_OPERATORS]
        yield from _table(shown, width)
        if len(shown) < len(found.operators):
            yield f"and {counted(len(found.operators) - len(shown), 'more operator')}; --all lists them all"


def _facts(found: Survey) -> Iterator[tuple[str, str]]:
    for name, values in found.coordinates.items():
        yield name, _values_text(values)
    yield from ((title, value) for title, value in found.dump.labels if title not in found.coordinates)
    for one in found.dump.run.configurations if found.dump.run else ():
        yield "asked for", _asked_text(one)
    for title, counts in (("types", found.dtypes), ("memory formats", found.memory_formats)):
        if counts:
            yield title[:_LABEL].removeprefix("memory "), ", ".join(f"{name} {count}" for name, count in counts.items())
    for at, graph in found.dump.graphs:
        where = where_text(at)
        final = "" if graph.is_final else "; not the one that ran"
        count = counted(len(graph.operators), "operator")
        yield "graph file", f"{graph.source}{f' of {where}' if where else ''}: {count}{final}"


def _asked_text(one: DumpConfiguration) -> str:
    """Write what a run was told to dump."""
    io = {"all": "inputs and outputs", "input": "inputs", "output": "outputs"}.get(one.io, one.io)
    times = "every iteration" if one.iterations == EVERY_ITERATION else f"iterations {one.iterations}"
    kernels = one.kernels_text or ("the operators that the script names" if one.by_script else "every operator")
    return f"{io} of {kernels}, {times} ({one.source})"


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


def _unreadable(found: Survey, width: int, everything: bool) -> Iterator[str]:
    shown = found.unreadable if everything else found.unreadable[:_MOST_UNREADABLE]
    for ref, problem in shown:
        yield f"  - {terminal_text(ref.key.address)} cannot be read"
        yield from wrapped(problem, width, indent=4)
    if len(shown) < len(found.unreadable):
        yield f"  - and {len(found.unreadable) - len(shown)} more that cannot be read; --all tells them all"


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
        # Each iteration has its own file; the first tells of the operator.
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
            yield "      to   nobody in this graph"


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
    line = f"{head:<11} {'; '.join(sides) or 'no tensor, or its shape is not told'}"
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
    if most is not None and len(files) > most:
        yield f"  and {counted(len(files) - most, 'more file')}; --all lists them all"


# -- What ``msdump inspect --verify`` says ---------------------------------------------------------------------------


_MOST_TENSORS = 20


@dataclass(frozen=True)
class Verified:
    """How many tensors could be held against statistics, and every difference."""

    dump: Dump
    tensors: int
    differences: tuple[StatisticDifference, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there was something to hold against something, and all of it agreed."""
        return bool(self.tensors) and not self.differences


def verified(dump: Dump) -> Verified:
    """Hold every tensor of a dump against its row."""
    return Verified(dump, len(verifiable(dump)), verify(dump))


def verify_lines(found: Verified, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield what was held against what, and each difference."""
    dump = found.dump
    yield f"msdump inspect --verify: {dump.root} (reader {dump.reader})"
    yield f"  {found.tensors} of {counted(len(dump.refs), 'tensor')} held against statistics of the run"
    for note in dump.notes:
        yield from wrapped(note, width, indent=2)
    by_tensor: dict[TensorRef, list[StatisticDifference]] = {}
    for difference in found.differences:
        by_tensor.setdefault(difference.ref, []).append(difference)
    if not found.tensors:
        yield "  no tensor of this dump has a row in a table of statistics, so nothing was verified"
    elif not by_tensor:
        yield "  all of them agree"
    else:
        yield f"  {counted(len(by_tensor), 'tensor')} differ" + ("s" if len(by_tensor) == 1 else "")
    shown = list(by_tensor.items())
    for ref, differences in shown if everything else shown[:_MOST_TENSORS]:
        yield ""
        yield from _tensor(ref, differences, width)
    if len(shown) > _MOST_TENSORS and not everything:
        yield ""
        yield f"and {counted(len(shown) - _MOST_TENSORS, 'more tensor')}; --all tells them all"


def _tensor(ref: TensorRef, differences: Sequence[StatisticDifference], width: int) -> Iterator[str]:
    yield f"DIFFERS  {terminal_text(ref.key.address)}"
    where = where_text(ref.key.op.at)
    if where:
        yield f"         {where}"
    for difference in differences:
        if difference.problem:
            yield from wrapped(difference.problem, width, indent=9)
        else:
            what = difference.what.replace("_", " ")
            text = f"{what}: {_text(difference.saved)} in the table, {_text(difference.computed)} in the tensor"
            yield from wrapped(text, width, indent=9)
    yield f"         {terminal_text(str(ref.source.path))}"
    table = ref.statistics.source if ref.statistics else None
    if table is not None:
        yield f"         {terminal_text(str(table.path))}" + (f", line {table.part}" if table.part else "")


def _text(value: Statistic) -> str:
    return "nothing" if value is None else str(value)


def verify_entry(found: Verified) -> dict[str, Any]:
    """Return the same for ``--json``."""
    return {
        "directory": str(found.dump.root),
        "reader": found.dump.reader,
        "notes": list(found.dump.notes),
        "clean": found.is_clean,
        "tensors": found.tensors,
        "differences": [
            {
                "address": one.ref.key.address,
                **{name: getattr(one.ref.key.op.at, name) for name in COORDINATES},
                "file": str(one.ref.source.path),
                "what": one.what,
                "saved": _plain(one.saved),
                "computed": _plain(one.computed),
                "problem": one.problem or None,
            }
            for one in found.differences
        ],
    }


def _plain(value: Statistic) -> Any:
    return value if isinstance(value, str) else encode(value)
