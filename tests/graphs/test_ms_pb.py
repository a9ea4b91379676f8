"""A graph in Protobuf says what its IR says, but for what it does not have."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from dumps import dumpmade
from graphs.samples import IDS, IRS, ROOT, read
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.graphs.ms_pb import parse_pb
from pytest_msdump.capabilities.graphs.source_lines import frames_of, user_frames
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Edge, OperatorGraph
from pytest_msdump.core.model.tensor import TensorSpec

ODD = ROOT / "odd" / "ms_output_trace_code_graph_0.pb"
# Weights that a graph of control flow lists with a number, and with their names in Protobuf.
NUMBERED = ROOT / "while" / "ms_output_trace_code_graph_2.ir"


def read_pb(ir: Path) -> OperatorGraph:
    path = ir.with_suffix(".pb")
    return parse_pb(path.read_bytes(), source=ir.name)


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return dumpmade.number(number, content % 2**64)
    return dumpmade.chunk(number, content)


def model(*of_graph: bytes) -> bytes:
    return field(1, 1) + field(4, b"".join(of_graph))


def node(name: str, op_type: str, *inputs: str, made: bytes = b"", lines: str = "") -> bytes:
    fields = [field(1, field(1, of.encode()) + field(2, 0)) for of in inputs]
    fields += [field(2, name.encode()), field(3, op_type.encode())]
    fields += [field(6, made)] if made else []
    fields += [field(8, f"Default/{op_type}-op{name}".encode())]
    return field(1, b"".join((*fields, field(9, lines.encode()))))


def tensor(dtype: int, *shape: int) -> bytes:
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, 14) + field(2, field(1, dtype) + field(2, sizes))


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_operators_edges_and_types_are_those_of_the_ir(path: Path) -> None:
    graph, ir = read_pb(path), read(path)
    if path != NUMBERED:
        assert graph.parameters == ir.parameters
    assert graph.names == ir.names
    for operator, same in zip(graph.operators, ir.operators, strict=True):
        assert (operator.op_type, operator.inputs) == (same.op_type, same.inputs)
        assert operator.device_inputs == operator.device_outputs == ()


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_types_are_those_of_the_ir_where_they_are_told(path: Path) -> None:
    """Not told: tensors that stand in the file, and shapes of members of a tuple."""
    for operator, same in zip(read_pb(path).operators, read(path).operators, strict=True):
        for told, known in ((operator.host_inputs, same.host_inputs), (operator.host_outputs, same.host_outputs)):
            assert len(told) == len(known)
            for spec, other in zip(told, known, strict=True):
                if spec is not None and other is not None:
                    assert spec == (other if spec.shape is not None else replace(other, shape=None))


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_source_lines_are_those_of_the_ir(path: Path) -> None:
    """Of a function with several statements it tells the definition and the last one only."""
    for operator, same in zip(read_pb(path).operators, read(path).operators, strict=True):
        assert [stack.is_forward for stack in operator.stacks] == [stack.is_forward for stack in same.stacks]
        assert user_frames(operator) == user_frames(same)
        places = [frame.place for frame in frames_of(same)]
        told = [places.index(frame.place) for frame in frames_of(operator)]
        assert all(first <= second for first, second in pairwise(told))
        assert told[:1] == [0] * bool(places)


def test_data_is_followed_through_states_and_choices() -> None:
    graph = parse_pb(
        model(
            node("1", "Load", "w", "cst1", made=tensor(11, 4)),
            node("2", "Split", "1", "cst2", made=field(1, 31)),
            node("3", "TupleGetItem", "2", "cst2", made=tensor(11, 2)),
            node("4", "UpdateState", "u", "3", made=field(1, 43)),
            node("5", "Depend", "3", "4", made=tensor(11, 2)),
            node("6", "Add", "5", "cst3", "4", "nothing"),
            field(3, field(1, b"w") + field(2, tensor(11, 4))),
            field(3, field(1, b"u") + field(2, field(1, 43))),
            field(5, field(1, b"cst1") + field(2, b"")),
            field(5, field(1, b"cst2") + field(2, field(1, 5) + field(3, 1))),
            field(5, field(1, b"cst3") + field(2, field(1, 31) + 2 * field(18, field(1, 5)))),
        ),
        source="g.pb",
    )
    split, add = graph.operators
    assert graph.parameters == ("w", "u")
    assert split.inputs == (Edge("w", 0, is_parameter=True), None)
    assert split.host_inputs == (TensorSpec(dtype="float32", shape=(4,)), TensorSpec(dtype="int64", shape=()))
    assert add.inputs == (Edge(split.name, 1), None, None)
    assert add.host_inputs == (
        TensorSpec(dtype="float32", shape=(2,)),
        TensorSpec(dtype="int64", shape=(2,)),
        None,
    )


def test_control_edges_carry_no_data() -> None:
    control = field(1, field(1, b"1") + field(2, 1))
    after = field(1, control + field(2, b"2") + field(3, b"Print"))
    graph = parse_pb(model(node("1", "Neg", "x"), after), source="g.pb")
    assert graph.operators[1].inputs == ()


@pytest.mark.parametrize("data", [b"", b"hello", field(1, 1), field(4, 7), b"\x00" * 64, model(b"\xff")])
def test_what_is_no_graph_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^g.pb: not a graph"):
        parse_pb(data, source="g.pb")


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    data = ODD.read_bytes()
    assert parse_pb(data, source="g.pb").operators
    for end in range(0, len(data) - 1, 11):
        with pytest.raises(ConfigError, match=r"^g.pb: not a graph"):
            parse_pb(data[:end], source="g.pb")


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_damaged_bytes_are_refused_or_read_never_more(data: st.DataObject) -> None:
    stored = bytearray(ODD.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at : at + 1] = data.draw(st.binary(max_size=3))
    try:
        graph = parse_pb(bytes(stored), source="g.pb")
    except ConfigError:
        return
    assert graph.source == "g.pb"
