"""What the reader of reference folders makes of a manifest, however damaged."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record.manifest import write_manifest
from pytest_msdump.capabilities.record.writer import sketch_dump
from pytest_msdump.core.dumps.manifest import parse_manifest
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.record import DumpWriter, RawArray


def write(folder, **options):
    with DumpWriter(folder, framework="torch", version="2.13.0", device="cpu", **options) as writer:
        writer.write("net/conv.1", np.ones((2, 2), "float32"), io="input", op_type="Conv2d")
        writer.write("net/conv.1", np.full((2, 2), 2.0, "float32"), op_type="Conv2d", line="net.py:12")
        writer.write("net/conv.1", np.full((2, 2), 3.0, "float32"), op_type="Conv2d")
        writer.write("net/conv.1/grad_output", RawArray(bytes([0x80, 0x3F, 0x00, 0xC0]), (2,), "bfloat16"))
        writer.write("net.conv.1.weight", np.zeros(3), op_type="Parameter")
    return folder


def change(folder, **values):
    path = folder / "msdump.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_true_names_inputs_types_lines_and_places_come_from_the_manifest(tmp_path):
    dump = open_dump(write(tmp_path / "d"))
    seen = [(r.key.address, r.key.op.name, r.key.op.op_type, r.place, r.key.op.at.occurrence) for r in dump.refs]
    assert seen == [
        ("net/conv.1:input:0", "net_conv_1", "Conv2d", 0, 0),
        ("net/conv.1:output:0", "net_conv_1", "Conv2d", 0, 0),
        ("net/conv.1:output:0", "net_conv_1", "Conv2d", 0, 1),
        ("net/conv.1/grad_output:output:0", "net_conv_1_grad_output", None, 1, 0),
        ("net.conv.1.weight:output:0", "net_conv_1_weight", "Parameter", None, 0),
    ]
    assert dump.refs[1].line.place == "net.py:12"
    assert dump.open("net/conv.1/grad_output").dtype == "bfloat16"
    assert dump.read("net/conv.1/grad_output").tolist() == [1.0, -2.0]
    assert dump.dump.labels == (("device_target", "cpu"), ("framework", "torch 2.13.0"))
    assert (dump.dump.unexplained, dump.dump.older, dump.dump.notes) == ((), (), ())


def test_names_too_long_for_a_file_are_read_through_the_mapping(tmp_path):
    name = "scope/" * 60
    with DumpWriter(tmp_path / "d") as writer:
        writer.write(f"{name}a", np.zeros(1))
        writer.write(f"{name}b", np.ones(1), io="input", slot=2)
    dump = open_dump(tmp_path / "d")
    assert list(dump) == [f"{name}a:output:0", f"{name}b:input:2"]
    assert dump.read(f"{name}b:input:2").tolist() == [1.0]
    assert dump.dump.unexplained == ()
    (tmp_path / "d/msdump.json").unlink()
    assert [ref.key.op.name for ref in open_dump(tmp_path / "d").refs] == [
        f"{name}a".replace("/", "_"),
        f"{name}b_input".replace("/", "_"),
    ]


@pytest.mark.parametrize("iterations", [False, True])
def test_one_file_of_a_dump_is_told_by_its_manifest(tmp_path, monkeypatch, iterations):
    folder = write(tmp_path / "d", iterations=iterations)
    file = next(folder.rglob("net_conv_1_grad_output*"))
    monkeypatch.chdir(file.parent)
    for path in (file, file.name):
        (ref,) = open_dump(path).refs
        assert (ref.key.address, ref.spec.dtype) == ("net/conv.1/grad_output:output:0", "bfloat16")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("[" * 100_000, "is not JSON"),
        ('{"schema_version": 9}', "schema_version 9, known is 1"),
        (
            '{"schema_version": 1, "tensors": {"a": 1, "b": {"op": ""}, "c": {"op": "c", "slot": true}}}',
            "3 invalid entries",
        ),
        ('{"schema_version": 1, "tensors": {"a": {"op": "a", "io": "both"}}}', "1 invalid entry, left out"),
        ('{"schema_version": 1, "tensors": {"a": {"op": "a", "slot": -1}}}', "1 invalid entry, left out"),
    ],
)
def test_a_damaged_manifest_is_a_note(tmp_path, text, note):
    folder = write(tmp_path / "d")
    (folder / "msdump.json").write_text(text)
    dump = open_dump(folder, allow_incomplete=True)
    assert any(note in one for one in dump.dump.notes)
    assert dump.refs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["schema_version", "tensors", "op", "io", "slot", "dtype", "line", "inputs", "command", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
@settings(deadline=None, max_examples=150)
def test_no_json_is_an_error(value):
    manifest, notes = parse_manifest(json.dumps(value))
    assert isinstance(value, dict) or not manifest.complete
    assert all(isinstance(note, str) for note in notes)
    assert all(type(entry.slot) is int and entry.op for entry in manifest.tensors.values())


# -- The graph -------------------------------------------------------------------------------------------------------

CALLS = [
    {"name": "pool", "type": "MaxPool2d", "inputs": [None], "inside": "Net"},
    {"name": "relu", "type": "ReLU", "inputs": [["pool", 0]], "inside": "block", "returns_inner": True},
    {"name": "relu", "type": "ReLU", "occurrence": 1, "inputs": [["relu", 0, 0], ["", 0]], "inside": "block"},
    {"name": "block", "scope": "layers.0", "inputs": [["pool", 0], ["relu", 0, 1]]},
]


def graphs(folder, calls):
    write(folder)
    change(folder, graph=calls)
    return open_dump(folder).dump


def test_the_graph_of_a_recording_has_its_calls_in_their_order(tmp_path):
    [(at, graph)] = graphs(tmp_path / "d", CALLS).graphs
    assert (at, graph.is_recorded, graph.source) == (Coordinates(), True, "msdump.json")
    assert graph.operators == (
        Operator("pool", "MaxPool2d", inputs=(None,), inside="Net"),
        Operator("relu", "ReLU", inputs=(Edge("pool", 0),), inside="block", returns_inner=True),
        Operator("relu", "ReLU", inputs=(Edge("relu", 0, occurrence=0), Edge("", 0)), inside="block", occurrence=1),
        Operator("block", "", inputs=(Edge("pool", 0), Edge("relu", 0, occurrence=1)), scope="layers.0"),
    )


def test_calls_that_a_writer_adds_are_in_the_manifest_and_come_back(tmp_path):
    relu = Operator("relu", "ReLU", inputs=(Edge("pool", 0),), inside="block")
    added = [
        Operator("pool", "MaxPool2d", inputs=(None,)),
        relu,
        replace(relu, occurrence=1, inputs=(Edge("relu", 0, occurrence=0), Edge("pool", 1, occurrence=0))),
    ]
    with DumpWriter(tmp_path / "d", iterations=True) as writer:
        for iteration in (0, 1):
            writer.write("pool", np.ones(1), iteration=iteration)
            for call in added:
                writer.add_call(call, iteration=iteration)
    written = json.loads((tmp_path / "d" / "msdump.json").read_text())["graph"]
    assert written[1] == {"name": "relu", "type": "ReLU", "inside": "block", "inputs": [["pool", 0]]}
    # Only of an operator that was called several times it matters which call it was.
    assert written[2]["inputs"] == [["relu", 0, 0], ["pool", 1]]
    assert [call.get("iteration") for call in written] == [None] * 3 + [1] * 3
    found = open_dump(tmp_path / "d").dump.graphs
    assert [at for at, _ in found] == [Coordinates(iteration=0), Coordinates(iteration=1)]
    added[2] = replace(added[2], inputs=(Edge("relu", 0, occurrence=0), Edge("pool", 1)))
    assert [graph.operators for _, graph in found] == [tuple(added)] * 2


@pytest.mark.parametrize(
    "call",
    [
        {"inputs": []},
        {"name": "", "inputs": []},
        {"name": 3, "inputs": []},
        {"name": "a" * 5000, "inputs": []},
        {"name": "a"},
        {"name": "a", "inputs": {}},
        {"name": "a", "inputs": [3]},
        {"name": "a", "inputs": [["b"]]},
        {"name": "a", "inputs": [["b", -1]]},
        {"name": "a", "inputs": [["b", True]]},
        {"name": "a", "inputs": [["b", 0, 10**30]]},
        {"name": "a", "inputs": [["b", 0, 0, 0]]},
        {"name": "a", "inputs": [["b" * 5000, 0]]},
        {"name": "a", "inputs": [None] * 70_000},
        {"name": "a", "inputs": [], "occurrence": -1},
        {"name": "a", "inputs": [], "iteration": "1"},
        {"name": "pool", "inputs": []},
        [],
        None,
    ],
)
def test_a_call_that_cannot_be_meant_is_left_out_with_a_note(tmp_path, call):
    dump = graphs(tmp_path / "d", [*CALLS, call])
    assert [operator.name for operator in dump.graphs[0][1].operators] == ["pool", "relu", "relu", "block"]
    assert [note for note in dump.notes if "1 invalid call, left out" in note]


def test_a_recorded_graph_leaves_true_names_the_better_evidence(tmp_path):
    # Files are called a_b and a_b_2, in the order in which the names came.
    for side, names in (("left", ["a.b", "a_b"]), ("right", ["a_b", "a.b"])):
        with DumpWriter(tmp_path / side) as writer:
            for name in names:
                writer.write(name, np.ones(2, "float32"))
                if side == "left":
                    writer.add_call(Operator(name, "Conv2d"))
    left, right = (open_dump(tmp_path / side).dump for side in ("left", "right"))
    assert (len(left.graphs), len(right.graphs)) == (1, 0)
    pairs = pair_dumps(left, right).pairs
    assert [(pair.left.key.op.label, pair.right.key.op.label) for pair in pairs] == [("a.b", "a.b"), ("a_b", "a_b")]


def test_notes_of_a_recording_are_notes_of_the_dump_and_kept_by_a_sketch(tmp_path):
    with DumpWriter(tmp_path / "d") as writer:
        writer.write("a", np.zeros(1))
        writer.describe(notes=("a hook changed a", "b"))
    assert open_dump(tmp_path / "d").dump.notes == ("a hook changed a", "b")
    sketch_dump(open_dump(tmp_path / "d").dump, tmp_path / "sketch")
    assert open_dump(tmp_path / "sketch").dump.notes == ("a hook changed a", "b")


def test_notes_are_bounded(tmp_path):
    change(write(tmp_path / "d"), notes=["again"] * 10**4)
    assert 0 < len(open_dump(tmp_path / "d").dump.notes) < 100


PERTURBED = {"u": 2.0**-24, "what": "input+weights", "seed": 1}


def test_a_perturbation_is_read_and_written(tmp_path):
    folder = write(tmp_path / "d")
    assert "perturbation" not in json.loads((folder / "msdump.json").read_text())
    change(folder, perturbation=PERTURBED)
    manifest = open_dump(folder).dump.manifest
    assert manifest.perturbation == PERTURBED
    write_manifest(folder, manifest)
    assert open_dump(folder).dump.manifest.perturbation == PERTURBED


@pytest.mark.parametrize(
    "damage", [{"u": "2**-24"}, {"u": 0.0}, {"u": 1.5}, {"what": 3}, {"seed": 1.5}, {"what": "x" * 10**4}]
)
def test_a_perturbation_that_cannot_be_meant_is_none(tmp_path, damage):
    folder = write(tmp_path / "d")
    change(folder, perturbation={**PERTURBED, **damage})
    assert open_dump(folder).dump.manifest.perturbation is None
