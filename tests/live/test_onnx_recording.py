"""What a recording of an ONNX model holds, beside what ONNX Runtime itself gives back. Needs onnx and onnxruntime."""

import numpy as np
import pytest
from live.reading_back import NARROW, check_read_back, of_type
from live.recordings import manifest_of

from pytest_msdump import open_dump
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.record import Perturbation, Recorder

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, types = onnx.helper, onnx.TensorProto
ml_dtypes = pytest.importorskip("ml_dtypes")

pytestmark = pytest.mark.live

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)


def make(nodes, outputs, *, weights=(), inputs=(("x", types.FLOAT, [3, 4]),)):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*wanted) for wanted in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def net():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="fc/MatMul"),
        helper.make_node("Relu", ["product"], ["hidden"]),
        helper.make_node("Split", ["hidden"], ["left", "right"], name="split", axis=1, num_outputs=2),
        helper.make_node("Add", ["left", "right"], ["both"], name="hidden"),
        helper.make_node("Mul", ["both", "right"], ["y"]),
    ]
    return make(nodes, ["y"], weights=[("w", W)])


def plain(model, feeds):
    """What ONNX Runtime gives without a recording, every node computed as the model says."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def recorded(directory, model, feeds=None, **options):
    with Recorder(directory).onnx(model, directory=directory / "dump", **options) as recording:
        given = recording.run(None, {"x": X} if feeds is None else feeds)
    return open_dump(directory / "dump"), given


def test_every_output_of_every_node_is_recorded_in_order(tmp_path, net):
    dump, _ = recorded(tmp_path, net)
    hidden = np.maximum(X @ W, 0)
    left, right = hidden[:, :1], hidden[:, 1:]
    expected = {
        "fc/MatMul:output:0": X @ W,
        "hidden_:output:0": hidden,
        "split:output:0": left,
        "split:output:1": right,
        "hidden:output:0": left + right,
        "y:output:0": (left + right) * right,
    }
    assert list(dump) == list(expected)
    for address, array in expected.items():
        np.testing.assert_array_equal(dump.read(address), array)


def test_recording_changes_neither_the_outputs_nor_the_file(tmp_path, net):
    path = tmp_path / "net.onnx"
    onnx.save(net, path)
    before = path.read_bytes()
    _, (given,) = recorded(tmp_path, path)
    (expected,) = plain(net, {"x": X})
    assert given.tobytes() == expected.tobytes()
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dump", "net.onnx"]


def test_a_model_in_memory_stays_as_it_is(tmp_path, net):
    before = net.SerializeToString()
    recorded(tmp_path, net)
    assert net.SerializeToString() == before
    recorded(tmp_path / "bytes", before)


def test_weights_beside_the_model_are_found(tmp_path, net, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(net, folder / "net.onnx", save_as_external_data=True, size_threshold=0, location="weights.bin")
    monkeypatch.chdir(tmp_path)
    dump, _ = recorded(tmp_path, "model/net.onnx", parameters=True)
    np.testing.assert_array_equal(dump.read("fc/MatMul"), X @ W)
    np.testing.assert_array_equal(dump.read("w"), W)
    assert dump["w"].key.op.op_type == "Parameter"


def test_inputs_are_those_that_the_run_brings(tmp_path, net):
    dump, _ = recorded(tmp_path, net, inputs=True, nodes="fc/*")
    assert list(dump) == ["fc/MatMul:input:0", "fc/MatMul:output:0"]
    np.testing.assert_array_equal(dump.read("fc/MatMul:input:0"), X)
    dump, _ = recorded(tmp_path / "last", net, inputs=True, nodes="y")
    assert list(dump) == ["y:input:0", "y:input:1", "y:output:0"]


def test_names_and_types_choose(tmp_path, net):
    assert list(recorded(tmp_path / "a", net, types=["Add", "Mul"])[0]) == ["hidden:output:0", "y:output:0"]
    assert list(recorded(tmp_path / "b", net, exclude=["hidden_", "split", "fc*"])[0]) == [
        "hidden:output:0",
        "y:output:0",
    ]
    with pytest.raises(UnknownNameError, match="no operator is called 'fc2'"):
        recorded(tmp_path / "c", net, nodes="fc2")
    assert not (tmp_path / "c/dump").exists()


def test_runs_are_iterations(tmp_path, net):
    with Recorder(tmp_path).onnx(net, directory=tmp_path / "dump", iterations=True) as recording:
        for scale in (1, 2):
            recording.run(["y"], {"x": X * np.float32(scale)})
    dump = open_dump(tmp_path / "dump")
    assert [ref.key.op.at.iteration for ref in dump.refs] == [0] * 6 + [1] * 6
    np.testing.assert_array_equal(np.load(next((tmp_path / "dump/1").glob("fc_MatMul.0.*"))), X * 2 @ W)


def test_a_second_run_needs_iterations_and_none_is_an_error(tmp_path, net):
    recorder = Recorder(tmp_path)
    with recorder.onnx(net) as recording:
        with pytest.raises(Exception, match="x"):
            recording.run(None, {})
        recording.run(None, {"x": X})
        with pytest.raises(ConfigError, match="iterations=True"):
            recording.run(None, {"x": X})
    with pytest.raises(ConfigError, match="inside of its with block"):
        recording.run(None, {"x": X})
    with pytest.raises(ConfigError, match=r"nothing was recorded; call \.run"), recorder.onnx(net) as recording:
        pass
    assert not manifest_of(recording)["complete"]


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"],
)
def test_every_type_of_numpy_comes_back_bit_for_bit(tmp_path, dtype):
    bits = np.random.default_rng(3).integers(0, 256, 64 * np.dtype(dtype).itemsize, np.uint8)
    array = (bits % 2).astype(bool) if dtype == "bool" else bits.view(dtype)
    model = make(
        [helper.make_node("Identity", ["x"], ["y"])],
        ["y"],
        inputs=[("x", helper.np_dtype_to_tensor_dtype(array.dtype), [None])],
    )
    dump, (given,) = recorded(tmp_path, model, {"x": array})
    assert dump.read("y").dtype == dtype
    assert dump.read("y").tobytes() == given.tobytes() == array.tobytes()


def packed(array):
    """Bytes of a type's elements as a model file has them: several in one byte, the first in its lowest bits."""
    codes = array.view(f"u{array.dtype.itemsize}")
    if array.dtype.name not in NARROW:
        return codes.tobytes()
    bits = int(array.size).bit_length() - 1
    fields = codes.reshape(-1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(fields, axis=1).astype(np.uint8).tobytes()


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (types.BFLOAT16, "bfloat16"),
        (types.FLOAT8E4M3FN, "float8_e4m3fn"),
        (types.FLOAT8E4M3FNUZ, "float8_e4m3fnuz"),
        (types.FLOAT8E5M2, "float8_e5m2"),
        (types.FLOAT8E5M2FNUZ, "float8_e5m2fnuz"),
        (types.FLOAT8E8M0, "float8_e8m0fnu"),
        (types.FLOAT4E2M1, "float4_e2m1fn"),
        (types.INT4, "int4"),
        (types.UINT4, "uint4"),
        (types.INT2, "int2"),
        (types.UINT2, "uint2"),
    ],
)
def test_every_type_that_numpy_lacks_comes_back_bit_for_bit(tmp_path, number, name):
    array = of_type(name)
    constant = onnx.TensorProto(data_type=number, dims=array.shape, raw_data=packed(array))
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["y"], value=constant)],
        "graph",
        [],
        [helper.make_tensor_value_info("y", number, array.shape)],
    )
    # The oldest rules that have all of these types.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    recorded(tmp_path, model, {})
    check_read_back(tmp_path / "dump", "y", array)


@pytest.mark.parametrize(
    ("number", "name"), [(types.BFLOAT16, "bfloat16"), (types.FLOAT8E4M3FN, "float8_e4m3fn"), (types.INT4, "int4")]
)
def test_what_is_computed_in_types_that_numpy_lacks_is_what_onnx_runtime_goes_on_with(tmp_path, number, name):
    values = np.array([0, 1, -2.5, 3.14159, 448], np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["coarse"], to=number, saturate=1 if "float8" in name else None),
        helper.make_node("Cast", ["coarse"], ["y"], to=types.FLOAT),
    ]
    dump, (given,) = recorded(tmp_path, make(nodes, ["y"], inputs=[("x", types.FLOAT, [5])]), {"x": values})
    assert dump["coarse"].spec.dtype == name
    np.testing.assert_array_equal(dump.read("coarse"), given)


def test_bfloat16_is_fed_as_libraries_have_it(tmp_path):
    model = make([helper.make_node("Identity", ["x"], ["y"])], ["y"], inputs=[("x", types.BFLOAT16, [3])])
    values = np.array([1, -2.5, 3.14159], ml_dtypes.bfloat16)
    dump, _ = recorded(tmp_path, model, {"x": values})
    np.testing.assert_array_equal(dump.read("y"), values.astype(np.float32))


def test_text_sequences_and_outputs_that_are_left_out_are_passed_over(tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["text"], to=types.STRING),
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("LayerNormalization", ["x", "k"], ["norm", "", "inverse"], name="norm"),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    model = make(nodes, ["y"], weights=[("k", np.ones(4, np.float32))])
    dump, _ = recorded(tmp_path, model)
    assert list(dump) == ["norm:output:0", "norm:output:2", "y:output:0"]


@pytest.mark.parametrize("kind", ["text", "sequence", "optional"])
def test_what_is_fed_without_being_a_tensor_of_numbers_runs_and_is_noted(tmp_path, kind):
    tensor = helper.make_tensor_value_info
    numbers = helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
    inputs = {
        "text": [tensor("s", onnx.TensorProto.STRING, [2])],
        "sequence": [numbers],
        "optional": [helper.make_value_info("s", helper.make_optional_type_proto(numbers.type))],
    }[kind]
    fed = {"text": np.array(["x", "y"]), "sequence": [np.ones(2, "f4")], "optional": None}[kind]
    node = {
        "text": helper.make_node("StringConcat", ["s", "s"], ["t"], name="left_out"),
        "sequence": helper.make_node("Identity", ["s"], ["t"], name="left_out"),
        "optional": helper.make_node("OptionalHasElement", ["s"], ["t"], name="is_there"),
    }[kind]
    nodes = [node, helper.make_node("Relu", ["x"], ["y"], name="relu")]
    given = [*inputs, tensor("x", onnx.TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with Recorder(tmp_path).onnx(proto, directory=tmp_path / "r", inputs=True) as recording:
        (found,) = recording.run(["y"], {"s": fed, "x": np.array([-1, 2], "f4")})
    np.testing.assert_array_equal(found, [0, 2])
    dump = open_dump(tmp_path / "r")
    assert "relu:output:0" in {ref.key.address for ref in dump.refs}
    (note,) = manifest_of(tmp_path / "r")["notes"]
    assert note.startswith("left out, since they are no tensors of numbers: s")


def test_a_sequence_that_a_model_gives_out_is_a_list(tmp_path):
    model = make([helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)], ["parts"])
    (expected,) = plain(model, {"x": X})
    with Recorder(tmp_path).onnx(model, directory=tmp_path / "r", inputs=True) as recording:
        (found,) = recording.run(None, {"x": X})
    np.testing.assert_array_equal(found, expected)
    assert isinstance(found, list)


def test_the_manifest_tells_who_ran_what(tmp_path, net):
    recorded(tmp_path, net)
    with Recorder(tmp_path).writer(directory=tmp_path / "other") as other:
        other.describe(inputs={"x": X}, weights={"w": W.T})
    manifest, theirs = (read_manifest(tmp_path / name)[0] for name in ("dump", "other"))
    assert (manifest.framework, manifest.version) == ("onnxruntime", onnxruntime.__version__)
    assert manifest.inputs == theirs.inputs
    assert manifest.weights["w"] != theirs.weights["w"]
    assert manifest.weights["w"].split("/")[1] == theirs.weights["w"].split("/")[1]
    assert manifest.tensors[next(name for name in manifest.tensors if name.startswith("hidden"))].op_type == "Relu"


def test_what_is_no_model_is_told(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"not a model")
    recorder = Recorder(tmp_path)
    with pytest.raises(ConfigError, match=r"net\.onnx: no ONNX model"):
        recorder.onnx(tmp_path / "net.onnx")
    with pytest.raises(FileNotFoundError, match=r"absent\.onnx: there is no such file; give an ONNX model"):
        recorder.onnx(tmp_path / "absent.onnx")
    with pytest.raises(ConfigError, match="a dict is not an ONNX model"):
        recorder.onnx({})


# -- The graph -------------------------------------------------------------------------------------------------------


def edges_of(directory):
    """By operator: type, scope and sources of the calls in the manifest."""
    calls = manifest_of(directory)["graph"]
    return {call["name"]: (call["type"], call.get("scope", ""), call["inputs"]) for call in calls}


def test_the_graph_is_that_of_the_model(net, tmp_path):
    with Recorder(tmp_path).onnx(net, directory=tmp_path / "d", nodes="split", iterations=True) as recording:
        recording.run(None, {"x": X})
        recording.run(None, {"x": X})
    # Nodes that are not recorded are part of the graph; the model's weight and its input have no source.
    assert edges_of(tmp_path / "d") == {
        "fc/MatMul": ("MatMul", "", [None, None]),
        "hidden_": ("Relu", "", [["fc/MatMul", 0]]),
        "split": ("Split", "", [["hidden_", 0]]),
        "hidden": ("Add", "", [["split", 0], ["split", 1]]),
        "y": ("Mul", "", [["hidden", 0], ["split", 1]]),
    }
    assert [graph.is_recorded for _, graph in open_dump(tmp_path / "d").dump.graphs] == [True]


def test_what_graphs_inside_of_a_node_read_feeds_the_node(tmp_path):
    inner = [
        helper.make_graph(
            [helper.make_node("Add", ["hidden", "w"], [f"sum_{kind}"])],
            kind,
            [],
            [helper.make_tensor_value_info(f"sum_{kind}", types.FLOAT, [3, 4])],
        )
        for kind in ("then", "else")
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["hidden"], name="relu"),
        helper.make_node("If", ["is_wanted"], ["y"], name="if", then_branch=inner[0], else_branch=inner[1]),
    ]
    weights = [("w", np.ones((3, 4), np.float32))]
    inputs = (("x", types.FLOAT, [3, 4]), ("is_wanted", types.BOOL, []))
    model = make(nodes, ["y"], weights=weights, inputs=inputs)
    with Recorder(tmp_path).onnx(model, directory=tmp_path / "d") as recording:
        recording.run(None, {"x": X, "is_wanted": np.array(True)})
    assert edges_of(tmp_path / "d")["if"] == ("If", "", [None, ["relu", 0]])


def test_the_scope_is_what_the_exporter_says_of_the_node(net, tmp_path):
    told = {0: "['', 'layer1', 'layer1.0', 'linear']", 1: "['', 'relu']", 2: "['split']", 3: "[]", 4: "?"}
    for number, text in told.items():
        entry = net.graph.node[number].metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", text
    with Recorder(tmp_path).onnx(net, directory=tmp_path / "d") as recording:
        recording.run(None, {"x": X})
    assert [scope for _, scope, _ in edges_of(tmp_path / "d").values()] == ["layer1.0", "", "", "", ""]


# -- perturbed runs ---------------------------------------------------------------------------------------------------


def test_a_perturbed_run_is_that_of_perturbed_initializers_and_feeds(tmp_path, net):
    perturb = Perturbation(6, 2.0**-6)
    before = net.SerializeToString()
    reference, _ = recorded(tmp_path / "a", net)
    noisy, (given,) = recorded(tmp_path / "b", net, perturb=perturb, inputs=True, parameters=True)
    assert net.SerializeToString() == before
    x, w = perturb("0/x", X), perturb("w", W)
    assert noisy.read("fc/MatMul:input:0").tobytes() == x.tobytes()
    assert noisy.read("w").tobytes() == w.tobytes()
    other = make(net.graph.node, ["y"], weights=[("w", w)])
    assert given.tobytes() == plain(other, {"x": x})[0].tobytes()
    ours, theirs = (read_manifest(one.dump.root)[0] for one in (noisy, reference))
    assert ours.inputs == theirs.inputs != {}
    assert ours.weights == theirs.weights != {}
    assert ours.perturbation == {"u": 2.0**-6, "what": "input+weights", "seed": 6}


def test_settings_of_operators_and_types_without_arithmetic_stay(tmp_path):
    bf16 = np.linspace(1, 2, 8, dtype="float32").reshape(4, 2).astype(ml_dtypes.bfloat16)
    exponent, shape = np.float32(2).reshape(()), np.array([2, 3], np.int64)
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["y"], name="pow"),
        helper.make_node("Cast", ["half"], ["z"], name="cast", to=types.FLOAT),
        helper.make_node("ConstantOfShape", ["shape"], ["r"], name="ones"),
    ]
    model = make(nodes, ["y", "z", "r"], weights=[("two", exponent), ("half", bf16), ("shape", shape)])
    dump, _ = recorded(tmp_path, model, perturb=Perturbation(1, 2.0**-4), parameters=True)
    np.testing.assert_allclose(dump.read("pow"), Perturbation(1, 2.0**-4)("0/x", X) ** 2, rtol=1e-6)
    expected = Perturbation(1, 2.0**-4)("half", bf16)
    assert expected.dtype == bf16.dtype
    assert (expected != bf16).any()
    np.testing.assert_array_equal(dump.read("cast"), expected.astype("float32"))
    assert dump.read("two") == 2
    assert dump.read("shape").tolist() == [2, 3]


def test_weights_beside_the_model_and_feeds_of_foreign_types_are_perturbed(tmp_path):
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    wide = np.linspace(1, 2, 4000, dtype="float32")
    inputs = [("x", types.FLOAT, [4000]), ("b", types.BFLOAT16, [8])]
    nodes.append(helper.make_node("Cast", ["b"], ["c"], name="cast", to=types.FLOAT))
    model = make(nodes, ["y", "c"], weights=[("w", wide)], inputs=inputs)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    b = np.linspace(1, 2, 8, dtype="float32").astype(ml_dtypes.bfloat16)
    perturb = Perturbation(2, 2.0**-3)
    dump, _ = recorded(tmp_path, tmp_path / "net.onnx", {"x": wide, "b": b}, perturb=perturb)
    np.testing.assert_array_equal(dump.read("add"), perturb("0/x", wide) + perturb("w", wide))
    np.testing.assert_array_equal(dump.read("cast"), perturb("0/b", b).astype("float32"))
