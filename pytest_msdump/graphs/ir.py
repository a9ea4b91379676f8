"""MindSpore's IR, the text form of its graphs, of releases 1.2 to 2.10.

``ms_output_trace_code_graph_<N>.ir`` beside a dump is one, and so are the many that ``save_graphs`` writes.

References
----------
MindSpore tutorials "IR file analysis" (1.5 to 2.10) and "Dump" (1.3 to master), whose samples show the older forms;
files written by MindSpore 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO, TextIOWrapper

from pytest_msdump.errors import ConfigError
from pytest_msdump.graphs.flow import Node, operator_graph
from pytest_msdump.graphs.ir_attributes import attributes_text
from pytest_msdump.graphs.ir_operands import Names, operands, split_call
from pytest_msdump.graphs.ir_types import TypeReader, is_device
from pytest_msdump.graphs.source_lines import FrameReader
from pytest_msdump.model.graph import OperatorGraph

__all__ = ["parse_ir"]

_HEAD = re.compile(r"%(?P<id>[0-9]{1,9})\((?P<alias>.*?)\) = ")
_LAST = re.compile(r"[Rr]eturn\(")
_SUBGRAPH = re.compile(r"subgraph @(?P<name>[^\s(]+).*\{")
_ENTRY = re.compile(r"# ?IR entry\s*:")
_PARAMETER = re.compile(r"%para(?P<number>[0-9]{1,9})_(?P<name>.*?) ?: ?<")
_FULL_NAME = re.compile(r"[#:]\s*full_?\s?name[_ ]with[_ ]scope:\s*\((?P<name>.*)\)", re.IGNORECASE)
# Releases 1.x write the name like a line of types.
_BARE_NAME = re.compile(r":\s*\((?P<name>[^<>]+)\)")
_ARROW = " -> "
_TYPE = re.compile(r"[\w.:/-]+")
# What is called is a graph, or the result of another node.
_CALLS = ("call ", "%", "$", "@", "para")
_NOT_KNOWN = "0"
_COMMENTS = ("# In", "# Corresponding", "# inlined")


class _Record:
    """The lines of one node."""

    def __init__(self, local: int, alias: str, head: str) -> None:
        self.local = local
        self.alias = alias
        self.head = [head]
        self.types: list[str] = []
        self.name = ""
        self.comments: list[str] = []

    def add(self, text: str) -> None:
        """Take in a line that follows the first, without the space around it."""
        if text.startswith(_COMMENTS):
            self.comments.append(text)
        elif text.startswith(("#", ":")):
            self._tell(text)
        elif not self.types and not self.comments:
            # A value may go on for several lines.
            self.head.append(text)

    def _tell(self, text: str) -> None:
        full = _FULL_NAME.fullmatch(text)
        bare = _BARE_NAME.fullmatch(text) if _ARROW not in text else None
        name = full or bare
        if name:
            self.name = self.name or name["name"].strip()
        elif text.startswith(":"):
            self.types.append(text)


class _Reader:
    """One file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes: list[Node] = []
        self.is_ir = self.is_open = False
        self.graph = ""
        self.parameters: dict[int, str] = {}
        self.names = Names(self.parameters)
        self._types = TypeReader()
        self._frames = FrameReader()

    def records(self, lines: Iterable[str]) -> Iterator[_Record]:
        """Yield the nodes' lines; what lies between them is taken in on the way."""
        record: _Record | None = None
        for line in lines:
            text = line.strip()
            head = _HEAD.match(text) if text.startswith("%") else None
            if record is not None and head is None and not (line.startswith("}") or _LAST.match(text)):
                record.add(text)
                continue
            if record is not None:
                yield record
            record = _Record(int(head["id"]), head["alias"], text[head.end() :]) if head else None
            if head is None:
                self._between(text)
        if record is not None and not (self.is_open and not record.name):
            yield record

    def _between(self, text: str) -> None:
        subgraph = _SUBGRAPH.fullmatch(text)
        parameter = None if self.is_open else _PARAMETER.match(text)
        if subgraph:
            self.is_open = self.is_ir = True
            self.graph = subgraph["name"]
            self.names.enter(self.graph)
        elif text.startswith("}"):
            self.is_open = False
        elif parameter:
            self.parameters[int(parameter["number"])] = parameter["name"]
        self.is_ir = self.is_ir or _ENTRY.match(text) is not None

    def take(self, record: _Record) -> None:
        """Turn lines into a node."""
        self.is_ir = True
        head = "\n".join(record.head)
        called, start = split_call(head)
        host = next((line for line in record.types if not is_device(line)), "")
        device = next((line for line in record.types if is_device(line)), "")
        given, made = self._types.host(host) if host else ((), ())
        device_given, device_made = self._types.device(device) if device else ((), ())
        plain = _TYPE.match(called)
        self.nodes.append(
            Node(
                op_type=plain[0] if plain else called,
                name="" if record.name == _NOT_KNOWN else record.name,
                label=f"@{self.graph}:%{record.local}" if self.graph else f"%{record.local}",
                operands=operands(head, start, self.names),
                host_inputs=given,
                host_outputs=made,
                device_inputs=device_given,
                device_outputs=device_made,
                stacks=self._frames.stacks(record.comments),
                is_call=called.startswith(_CALLS),
                attributes=attributes_text(head[start:]),
            )
        )
        self.names.add(record.local, record.alias, len(self.nodes) - 1)


def parse_ir(data: str | bytes, *, source: str) -> OperatorGraph:
    """Read the text of an IR file.

    Parameters
    ----------
    data : str or bytes
        The whole text, or a part of it that begins with a node; bytes are UTF-8.
    source : str
        What messages call it, e.g. ``"ms_output_trace_code_graph_0.ir"``.

    Returns
    -------
    OperatorGraph
        The operators in the file's order, subgraphs one after the other. Where the text ends too early, what is there
        is told, and a note says so.

    Raises
    ------
    ConfigError
        No line of it is a node of an IR, or its tuples are nested beyond measure.

    Notes
    -----
    Names and texts stand in an IR without any quoting. A name that holds brackets is understood when it is that of a
    parameter which the file lists.
    """
    stored = data if isinstance(data, bytes) else data.encode("utf-8", errors="replace")
    reader = _Reader(source)
    # Line by line: a graph of 100,000 operators has some hundred megabytes of source lines.
    for record in reader.records(TextIOWrapper(BytesIO(stored), encoding="utf-8-sig", errors="replace", newline="\n")):
        reader.take(record)
    if not reader.is_ir:
        raise ConfigError(f"{source}: not an IR of MindSpore, no line of it is an operator")
    notes = [f"{source} ends too early: of its operators {len(reader.nodes)} lines are read"] if reader.is_open else []
    return operator_graph(reader.nodes, source=source, parameters=tuple(reader.parameters.values()), notes=notes)
