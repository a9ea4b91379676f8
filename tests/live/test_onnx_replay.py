"""A reference of ONNX replayed node by node with the tensors of ports."""

import re
import warnings
from functools import cache

import numpy as np
import pytest
from live import sixteen_bits

from pytest_msdump.capabilities.frameworks.onnx import load_model
from pytest_msdump.capabilities.replay.forcing import Forcing
from pytest_msdump.capabilities.replay.onnx_forcing import force_nodes
from pytest_msdump.capabilities.replay.reference_model import load_reference, replay_plan
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter, Recorder

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper = onnx.helper

pytestmark = pytest.mark.live
X = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype("f4")


def model(epsilon=1e-5, approximate="none", scale=1.0, random=False):
    generator = np.random.default_rng(2)

    def weight(name, *shape):
        values = generator.standard_normal(shape).astype("f4") / np.float32(3)
        return onnx.numpy_helper.from_array(values * np.float32(scale if name == "w2" else 1), name)

    half = onnx.numpy_helper.from_array(np.array(0.5, "f4"))
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("LayerNormalization", ["c1", "g"], ["n1"], "norm", epsilon=epsilon),
        helper.make_node("Gelu", ["n1"], ["a1"], "act", approximate=approximate),
        helper.make_node("Constant", [], ["half"], "half", value=half),
        helper.make_node("Cast", ["a1"], ["k1"], "cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["k1", "half"], ["m1"], "mul"),
        helper.make_node("RandomUniformLike", ["m1"], ["r1"], "random")
        if random
        else helper.make_node("Identity", ["m1"], ["r1"], "same"),
        helper.make_node("Add", ["r1", "c1"], ["s1"], "add"),
        helper.make_node("MatMul", ["s1", "w2"], ["y"], "last"),
        helper.make_node("ArgMax", ["y"], ["top"], "top", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_tensor_value_info("top", 7, None)],
        [weight("w1", 4, 3, 3, 3), weight("b1", 4), weight("g", 8), weight("w2", 8, 5)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def record(folder, proto, x=X, **options):
    with Recorder(folder.parent).onnx(proto, directory=folder, **options) as recording:
        recording.run(None, {"x": x})


def replayed(folder, reference, port):
    record(folder / "right", reference, inputs=True)
    record(folder / "left", port)
    return judged(folder, reference)


def judged(folder, reference):
    """What a replay of the reference says of the left, by the name of the node."""
    onnx.save(reference, folder / "model.onnx")
    table = {"left": str(folder / "left"), "right": str(folder / "right")}
    planned = plan(load_suite(file=None, table=table, options={}, directory=folder))
    found = replay_plan(planned, load_reference(str(folder / "model.onnx")))
    assert sorted(found) == list(range(len(planned.pairing.pairs)))
    return {planned.pairing.pairs[number].right.key.op.label: one for number, one in found.items()}


@pytest.mark.parametrize(
    ("port", "at"),
    [
        (lambda: model(), set()),
        (lambda: model(epsilon=1e-3), {"norm"}),
        (lambda: model(approximate="tanh"), {"act"}),
        (lambda: model(scale=1.001), {"last"}),
    ],
)
def test_exactly_the_wrong_nodes_are_accused(tmp_path, port, at):
    found = replayed(tmp_path, model(), port())
    assert {name for name, one in found.items() if one.outcome == "fail"} == at
    assert {one.why for one in found.values()} == {None}
    assert found["top"].measure == "differing"


def test_a_score_is_the_error_over_that_of_the_node_in_float32(tmp_path):
    found = replayed(tmp_path, model(), model(scale=1.001))
    # The port's product is 1.001 times that of its own inputs: 1e-3 of it, over what float32 leaves of a short sum.
    assert 1e-3 / 2e-7 < found["last"].score < 1e-3 / 2**-26


def test_random_numbers_are_a_reason_and_what_follows_is_judged(tmp_path):
    found = replayed(tmp_path, model(random=True), model(random=True))
    assert {name: one.why.code for name, one in found.items() if one.why} == {"random": "local_random"}
    assert {one.outcome for name, one in found.items() if name != "random"} == {"pass"}


@pytest.mark.parametrize(("slope", "at"), [(0.0, set()), (0.02, {"relu"})])
def test_of_a_run_in_16_bits_weights_and_inputs_are_rounded_first(tmp_path, slope, at):
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
            helper.make_node("Relu", ["h"], ["r"], "relu"),
            helper.make_node("MatMul", ["r", "w2"], ["y"], "second"),
        ],
        "net",
        [helper.make_tensor_value_info("x", 1, sixteen_bits.X.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(sixteen_bits.W1, "w1"), onnx.numpy_helper.from_array(sixteen_bits.W2, "w2")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    record(tmp_path / "right", proto, sixteen_bits.X, inputs=True)
    sixteen_bits.write_run(tmp_path / "left", slope)
    found = judged(tmp_path, proto)
    assert {one.measure for one in found.values() if one.outcome == "pass"} == {"flips"}
    assert {name for name, one in found.items() if one.outcome == "fail"} == at


@cache
def cases_of_onnx_itself():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def of_onnx_itself(pattern):
    """The cases of one node of ONNX's own tests with this in their names, outputs as it expects them."""
    found = (one for one in cases_of_onnx_itself() if re.search(pattern, one.name))
    return [one for one in found if len(one.model.graph.node) == 1]


def expected_and_replayed(folder, case, change=lambda values: values):
    proto, (given, made) = case.model, case.data_sets[0]
    proto.graph.node[0].name = "node"
    for side, changed in (("left", change), ("right", lambda values: values)):
        with DumpWriter(folder / side, framework="onnx") as writer:
            for slot, values in enumerate(made):
                if isinstance(values, np.ndarray):
                    writer.write("node", changed(values), slot=slot)
    planned = plan(
        load_suite(file=None, table={one: str(folder / one) for one in ("left", "right")}, options={}, directory=folder)
    )
    feeds = {one.name: values for one, values in zip(proto.graph.input, given, strict=True)}
    return force_nodes(load_model(proto), feeds, Forcing(planned.pairing.pairs, folder))


def test_what_onnx_expects_of_attention_and_quantisation_is_accused_nowhere(tmp_path):
    cases = of_onnx_itself("attention.*fp16|attention_4d_causal|^test_(dynamic)?quantizelinear|^test_arg(max|min)_def")
    judged = 0
    for number, case in enumerate(cases):
        found = expected_and_replayed(tmp_path / str(number), case)
        assert {one.outcome for one in found.values()} <= {"pass", "not_replayable"}, case.name
        judged += sum(one.outcome == "pass" for one in found.values())
    assert judged >= 20


@pytest.mark.parametrize("name", ["test_attention_4d_fp16", "test_quantizelinear", "test_argmax_default_axis_example"])
def test_what_is_off_from_what_onnx_expects_is_accused(tmp_path, name):
    (case,) = of_onnx_itself(f"^{name}$")

    def off(values):
        step = np.arange(values.size).reshape(values.shape) == 1
        return (values + step * (1 if values.dtype.kind in "ui" else 0.01)).astype(values.dtype)

    found = expected_and_replayed(tmp_path, case, off)
    assert found[0].outcome == "fail"


def test_the_command_takes_a_model_file(tmp_path, msdump):
    onnx.save(model(), tmp_path / "model.onnx")
    record(tmp_path / "left", model(approximate="tanh"), inputs=True)
    ran = msdump("replay", "left", "--model", "model.onnx")
    assert ran.returncode == 1, ran.stderr
    assert "wrong by themselves: act" in ran.stdout
    results = read_json(tmp_path / "msdump-report" / "results.json")
    assert sum(one["local"]["outcome"] == "pass" for one in results["tensors"]) == 9


def test_without_inputs_it_is_one_line_and_exit_code_4(tmp_path, msdump):
    onnx.save(model(), tmp_path / "model.onnx")
    record(tmp_path / "left", model())
    ran = msdump("replay", "left", "--model", "model.onnx")
    assert ran.returncode == 4
    assert "neither dump has the input x of the model" in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_a_gate_replays_the_file_beside_the_comparison(tmp_path, msdump):
    onnx.save(model(), tmp_path / "model.onnx")
    record(tmp_path / "right", model(), inputs=True)
    record(tmp_path / "left", model(epsilon=1e-3))
    ran = msdump("compare", "left", "right", "--replay", "model.onnx", "--suggest")
    assert ran.returncode == 1, ran.stderr
    assert "wrong by themselves: norm" in ran.stdout
    assert "ran user code" not in ran.stdout


def test_a_model_with_other_weights_than_the_recorded_one_is_refused(tmp_path, msdump):
    onnx.save(model(), tmp_path / "model.onnx")
    record(tmp_path / "left", model(), inputs=True)
    record(tmp_path / "right", model(scale=1.001), inputs=True)
    ran = msdump("compare", "left", "right", "--replay", "model.onnx")
    assert ran.returncode == 4
    assert "model.onnx has other weights than the model that the right side was recorded of: w2;" in ran.stderr
