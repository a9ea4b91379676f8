"""The JSON of a compiled model becomes operators, or one line that says where it is wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.rulemade import attribute, model, op, output, text, was

from pytest_msdump.capabilities.graphs import ge_model
from pytest_msdump.capabilities.graphs.ge_model import parse_model, read_model
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph, OriginOutput

GOLDEN = Path(__file__).parents[1] / "data" / "fusion"


def only(*ops: dict[str, Any]) -> Operator:
    (operator,) = model(*ops).operators
    return operator


def refusal(data: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_model(data, source="fusion.json")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_fused_operator_of_a_real_file_is_read_whole() -> None:
    graph = read_model(GOLDEN / "a_fusion_nchw" / "fusion.json")
    assert (len(graph.operators), graph.source, graph.notes) == (15, "fusion.json", ())
    assert graph.operators[3] == Operator(
        name="conv1conv1/bnconv1/relu",
        op_type="Conv2D",
        id=3,
        inputs=(Edge("trans_TransData_0", 0), Edge("conv1/weights", 0)),
        originals=("conv1", "conv1/bn", "conv1/relu"),
        outputs=(OriginOutput("conv1/relu", 0, "NCHW", (2, 19, 5, 7), "DT_FLOAT16"),),
    )
    assert graph.names[:3] == ("input_1", "conv1/weights", "trans_TransData_0")


def test_the_groups_and_flags_of_real_files_are_read() -> None:
    graph = read_model(GOLDEN / "i_l1_and_multi" / "fusion.json")
    assert [operator.l1_group for operator in graph.operators] == ["", "7", "7", "7", "7", "", "", ""]
    assert [operator.is_multiop for operator in graph.operators] == [False] * 5 + [True, True, False]


@pytest.mark.parametrize("value", [{}, {"list": {}}, {"list": {"val_type": "VT_LIST_STRING"}}, {"list": {"s": [""]}}])
def test_an_empty_list_of_originals_is_an_operator_that_the_compiler_inserted(value: dict[str, Any]) -> None:
    operator = only(op("trans", outputs=(output(),), attr=[{"key": "_datadump_original_op_names", "value": value}]))
    assert (operator.originals, operator.outputs[0].name) == ((), "")


def test_of_two_operators_with_one_name_the_first_counts_and_a_note_says_so() -> None:
    graph = model(op("x", "First"), op("y"), op("x", "Second"))
    assert [operator.op_type for operator in graph.operators] == ["First", "Add"]
    assert graph.notes == ("fusion.json: x occurs more than once; the first counts",)


def test_64_bit_numbers_may_be_in_quotes_as_protobuf_writes_them() -> None:
    out = {
        "attr": [
            attribute("origin_shape", list={"i": ["2", 3, "-1"]}),
            attribute("_datadump_origin_output_index", i="7"),
        ]
    }
    operator = only(op("x", outputs=(out,), id="12"))
    assert (operator.id, operator.outputs[0].shape, operator.outputs[0].index) == (12, (2, 3, -1), 7)


def test_fields_that_may_be_left_out() -> None:
    assert only({"name": "x", "type": "T"}) == Operator("x", "T", originals=("x",))


def test_loops_are_told_and_what_only_follows_them_is_not() -> None:
    graph = model(
        op("start"),
        op("merge", inputs=("start:0", "next:0")),
        op("body", inputs=("merge:0",)),
        op("next", inputs=("body:0", "elsewhere:0")),
        op("after", inputs=("body:0",)),
        op("itself", inputs=("itself:0",)),
    )
    assert graph.notes == ("fusion.json: merge, body, next and 1 more feed one another in a circle",)
    assert len(graph.operators) == 6


def test_a_chain_of_any_length_is_no_circle() -> None:
    ops = [op(f"n{k}", inputs=(f"n{k - 1}:0",)) for k in range(1, 5000)]
    assert model(op("n0"), *ops).notes == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "fusion.json: not JSON, line 1 column 1: Expecting value"),
        ('{"graph": [}', "fusion.json: not JSON, line 1 column 12: Expecting value"),
        (b"\xff\xfe", "fusion.json: not JSON, byte 0 is not UTF-8 text"),
        ("[" * 200000, "fusion.json: not a model's JSON, it is nested too deeply"),
        ("9" * 5000, "fusion.json: not a model's JSON, it holds a number of 5000 digits"),
        *(
            (
                '{"graph": [' + " " * gap + "9" * 4001 + "]}",
                "fusion.json: not a model's JSON, it holds a number of 4001 digits",
            )
            for gap in (0, 1000, 1990, 3000)
        ),
        ("[]", "fusion.json: the top level is a list, and must be an object"),
        ("1.5", "fusion.json: the top level is a fraction, and must be an object"),
        ("{}", "fusion.json: 'graph' is missing"),
        ('{"graph": {}}', "fusion.json: 'graph' is an object, and must be a list"),
        ('{"graph": [null]}', "fusion.json: graph[0]: it is null, and must be an object"),
        ('{"graph": [{}]}', "fusion.json: graph[0]: 'op' is missing"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(data: str | bytes, says: str) -> None:
    assert refusal(data) == says


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "T"}, "'name' is missing"),
        ({"name": "x"}, "'type' is missing"),
        ({"name": "", "type": "T"}, "'name' is empty"),
        ({"name": 3, "type": "T"}, "'name' is a number, and must be a text"),
        ({"name": "x", "type": None}, "'type' is null, and must be a text"),
        ("x", "it is a text, and must be an object"),
        (op("x", id="seven"), "'id' is \"seven\", and must be a whole number of 64 bits"),
        (op("x", id=True), "'id' is true, and must be a whole number of 64 bits"),
        (op("x", id=2**63), "'id' is 9223372036854775808, and must be a whole number of 64 bits"),
        ({**op("x"), "input": "a:0"}, "'input' is a text, and must be a list"),
        ({**op("x"), "input": [3]}, "input[0]: it is a number, and must be a text"),
        (op("x", inputs=("a:0", "abc")), "input[1]: \"abc\" is not 'PRODUCER:INDEX'"),
        (op("x", inputs=("a:-2",)), "input[0]: \"a:-2\" is not 'PRODUCER:INDEX'"),
        (op("x", inputs=(":0",)), "input[0]: \":0\" is not 'PRODUCER:INDEX'"),
        ({**op("x"), "attr": {}}, "'attr' is an object, and must be a list"),
        ({**op("x"), "attr": [1]}, "attr[0]: it is a number, and must be an object"),
        (
            op("x", attr=[{"key": "_datadump_is_multiop", "value": True}]),
            "attr[0] (_datadump_is_multiop): 'value' is true or false, and must be an object",
        ),
        (op("x", attr=[attribute("_datadump_is_multiop", b=1)]), "_datadump_is_multiop: 'b' is a number, and must be"),
        (op("x", originals=(3,)), "_datadump_original_op_names: 's[0]' is a number, and must be a text"),  # type: ignore[arg-type]
        ({**op("x"), "output_desc": [[]]}, "output_desc[0]: it is a list, and must be an object"),
        (op("x", outputs=(output("a", -1),)), "output_desc[0]: _datadump_origin_output_index is -1, and cannot be"),
        (op("x", outputs=(output(shape=("a",)),)), 'output_desc[0]: origin_shape is "a", and must be a whole number'),  # type: ignore[arg-type]
        (op("x", outputs=({"dtype": 1},)), "output_desc[0]: 'dtype' is a number, and must be a text"),
    ],
)
def test_a_faulty_operator_is_refused_with_its_place(entry: Any, says: str) -> None:
    told = refusal(json.dumps({"graph": [{"op": []}, {"op": [was("fine"), entry]}]}))
    assert told.startswith("fusion.json: graph[1].op[1]")
    assert says in told


@pytest.mark.parametrize("name", ["model.om", "MODEL.OM", "a b.om"])
def test_an_offline_model_is_answered_with_the_command_that_writes_its_json(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(ConfigError) as caught:
        read_model(path)
    command = str(caught.value).partition("write the JSON with: ")[2]
    assert shlex.split(command) == ["atc", "--mode=1", f"--om={path}", f"--json={path.with_suffix('.json')}"]


def test_an_offline_model_is_known_by_its_bytes_too(tmp_path: Path) -> None:
    path = tmp_path / "fusion.json"
    path.write_bytes(b"IMOD\0\0\1\0")
    with pytest.raises(ConfigError, match="a compiled model, not its JSON; write the JSON with: atc --mode=1"):
        read_model(path)


def test_a_file_beyond_all_measure_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(ge_model.MAX_BYTES + 1)
    with pytest.raises(ConfigError, match=r"big\.json: cannot be read: it is larger than 512 MiB"):
        read_model(path)
    fits = tmp_path / "fits.json"
    fits.write_text(text(was("x")))
    monkeypatch.setattr(ge_model, "MAX_BYTES", fits.stat().st_size)
    assert read_model(fits).names == ("x",)


def test_a_file_that_is_not_there_or_a_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: there is no such file; give the JSON of a compiled model"):
        read_model(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read: it is a directory"):
        read_model(tmp_path)


# Texts that are nearly a model: keys that matter, values of every kind.
OF_MODELS = ["graph", "op", "name", "type", "id", "input", "attr", "output_desc"]
KEYS = st.sampled_from([*OF_MODELS, "key", "value", "list", "s", "i"])
LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "a:0", "b:-1", "dtype"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


def outcome(data: str | bytes) -> str:
    try:
        return "f: read" if isinstance(parse_model(data, source="f"), OperatorGraph) else "not a graph"
    except ConfigError as error:
        return str(error)


def told(read: Callable[[], OperatorGraph]) -> object:
    try:
        return read()
    except ConfigError as error:
        return str(error)


def both_ways(data: str) -> tuple[object, object]:
    """What is read operator by operator, and of the whole."""
    whole = told(lambda: parse_model(data, source="f"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ge_model, "_LARGE", -1)
        return told(lambda: parse_model(data, source="f")), whole


GRAPHS = st.lists(VALUES | st.just({"op": [was("y"), was("x", inputs=("y:0",))]}), max_size=2)
MEMBERS = st.tuples(st.sampled_from(["graph", "name", "op"]), VALUES | GRAPHS)


@settings(deadline=None, max_examples=300)
@given(st.lists(MEMBERS, max_size=3), st.sampled_from([None, 1]), st.none() | st.integers(0, 300), st.text(max_size=2))
def test_a_large_model_is_read_operator_by_operator_as_the_whole_is(members, indent, position, junk) -> None:
    # Names may be there twice, which no dictionary has.
    written = ", ".join(f"{json.dumps(name)} : {json.dumps(value, indent=indent)}" for name, value in members)
    data = f" {{ {written} }}\n"
    if position is not None:
        data = data[:position] + junk + data[position + 1 :]
    ours, whole = both_ways(data)
    assert ours == whole


@pytest.mark.parametrize(
    "data",
    [
        '{"graph": [{"op": []}], "graph": []}',
        '{"graph": [{"op": [], "op": [{"name": "x", "type": "T"}]}]}',
        '{"graph": [{"op": [{"name": "x", "type": "T"}], "op": [{"name": "y", "type": "T"}]}]}',
        '{"name": "a", "graph": [{"op": [{"name": "x", "type": "T"}]}], "name": "b"}',
        '{"graph": [{"op": [{"name": "x", "type": "T"}],}]}',
        '{"graph": [{"op": [{"name": "x", "type": "T"}]}]} ]',
        '{"graph": [{"op": [{"name": "x"}]}]} ]',
        '{"graph": [{"op": [{"name": "x"}]},{"op": [tru]}]}',
        '{"graph": [{"op": [{"name": "x", "type": "T"} {"name": "y", "type": "T"}]}]}',
        '{"graph": [{"op": [,{"name": "x", "type": "T"}]}]}',
        '{"graph": [], 1: 2}',
        '{"graph": [{"op": [{"name": "x", "type": "T", "id": 1, "n": ' + "7" * 4001 + "}]}]}",
        '\ufeff{"graph": []}',
        "\t\r\n{}",
        '{"graph": []',
    ],
)
def test_what_is_no_plain_model_is_judged_as_a_whole(data: str) -> None:
    ours, whole = both_ways(data)
    assert ours == whole


def test_the_objects_of_a_large_file_are_not_held_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the whole was made")

    monkeypatch.setattr(ge_model, "document", forbidden)
    monkeypatch.setattr(ge_model, "_LARGE", 10)
    assert model(op("x"), op("y")).names == ("x", "y")


@settings(deadline=None, max_examples=150)
@given(VALUES)
def test_any_json_is_a_graph_or_one_line(value: Any) -> None:
    for data in (value, {"graph": [{"op": [value]}]}, {"graph": [{"op": [{"name": "x", "type": "T", "attr": value}]}]}):
        assert outcome(json.dumps(data)).startswith("f: ")


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 400), st.binary(max_size=3))
def test_a_damaged_file_is_a_graph_or_one_line(position: int, junk: bytes) -> None:
    data = text(was("x", inputs=("y:0",)), was("y")).encode()
    assert outcome(data[:position]).startswith("f: ")
    assert outcome(data[:position] + junk + data[position + 1 :]).startswith("f: ")
