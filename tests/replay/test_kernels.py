"""What `msdump replay` says of real dumps and made ones: inputs are found, and what cannot be judged says why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference
from operator_networks import Network, Step, cut_mantissa, full, network, single

from pytest_msdump import cli
from pytest_msdump.capabilities.kernels.again import judge, replay
from pytest_msdump.capabilities.kernels.operators.definition import Call, Result, exact, literal, rounded
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.errors import NotReplayableError
from pytest_msdump.core.text import say

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = Path(__file__).parents[2] / "example_suites" / "08_one_dump" / "run"


@pytest.mark.parametrize("tree", ["target", "target_bad", "target_bad2"])
def test_kernels_of_a_port_are_innocent_of_its_mistakes(tree: str, lenet: Path) -> None:
    graphs = {"target_bad": "localising/target_bad", "target_bad2": "localising/target_bad2", "target": "inspect"}
    files = sorted((DATA / graphs[tree]).glob("*.ir"))
    found = replay(index(lenet / tree, graph_files=files))
    assert found.accused == ()
    assert (found.calls, len(found.refused)) == (14, 0)


@pytest.mark.parametrize(("root", "replayed", "refused"), [(EXAMPLE, 57, 3), (DATA / "training", 65, 11)])
def test_a_training_step_is_replayed_but_for_what_was_not_dumped(root: Path, replayed: int, refused: int) -> None:
    found = replay(index(root))
    assert found.accused == ()
    assert (found.calls, len(found.refused)) == (replayed, refused)
    assert {one.why.code for one in found.refused} <= {"replay_before", "replay_no_input"}


def test_an_accused_operator_is_shown_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    network(1).dump(Path("run"), {"dense_product": lambda i, _: cut_mantissa(i[0], 10) @ cut_mantissa(i[1], 10)})
    assert cli.main(["replay", "run", "-q"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "ACCUSED  Default/dense_product-op0  (MatMul)"
    assert lines[3] == "         op 9, rank 0, net Net, graph 0, iteration 0, output 0"
    assert lines[4].startswith("         off by ")
    assert lines[4].endswith(" rounding units of its terms; limit 4")
    assert lines[5].startswith("         worst at [")
    assert lines[6] == "         net.py:18  x = self.dense_product(x)"
    assert lines[-1] == "replayed 37 of 37 operator calls, 37 outputs; 1 operator accused"
    assert max(map(len, lines[:7])) <= 80


def test_json_has_what_the_terminal_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network(1).dump(tmp_path, {"dense_product": lambda _, y: y * np.nan})
    assert cli.main(["replay", str(tmp_path), "-q", "--json"]) == 1
    entry = json.loads(capsys.readouterr().out)
    assert (entry["replayed"], entry["refused"], len(entry["accused"])) == (37, [], 1)
    accused = entry["accused"][0]
    assert (accused["name"], accused["op_type"], accused["score"], accused["stored"]) == (
        full("dense_product"),
        "MatMul",
        "Infinity",
        "NaN",
    )


def test_nothing_replayed_is_a_failure_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mindspore(tmp_path, [("ReLU", "Default/ReLU-op0", "output", 0, single([1]))])
    assert cli.main(["replay", str(tmp_path), "-q"]) == 1
    said = capsys.readouterr().out
    assert "not replayable: no graph of the run has it" in said
    assert "NOTHING WAS JUDGED; the dump has no graph of its run: name a saved .ir with --graph FILE" in " ".join(
        said.split()
    )


def test_a_reference_without_graphs_is_a_failure(tmp_path: Path) -> None:
    write_reference(tmp_path, {"conv": [1.0]})
    assert cli.main(["replay", str(tmp_path), "-q"]) == 1


def reasons(net: Network, root: Path, *, inputs: bool = True) -> dict[str, str]:
    net.dump(root, inputs=inputs)
    return {one.op.label: say(one.why) for one in replay(index(root)).refused}


X = {"x": single([[1, 2], [3, 4]])}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step("Unheard", "a", ["x"], abs), "no definition of Unheard"),
        (Step("StandardNormal", "a", ["x"], abs), "it draws random numbers"),
        (Step("Dropout", "a", ["x"], abs, attributes="keep_prob: F32(0.5)"), "it draws random numbers"),
        (Step("Transpose", "a", ["x"], np.transpose), "its attribute perm is not known"),
        (Step("ReduceSum", "a", ["x"], lambda x: x.sum(1), "Tensor(of words)"), "what its input 1 was is not known"),
        (Step("Conv2D", "a", ["x", "x"], lambda x, _: x), "the definition does not cover not 4-D"),
        (Step("Slice", "a", ["x"], abs), "its attribute begin is not known"),
        (Step("Mul", "a", ["x"], abs, "F32(0.353553)"), "its constant 0.353553 has no more digits in the graph"),
        (Step("Tile", "a", ["x"], abs, "(I64(99999999), I64(9999))"), "output does not have the shape"),
        (Step("OneHot", "a", ["x"], abs, "I64(999999999999)"), "output does not have the shape"),
        (Step("Softmax", "a", ["x"], abs, "(" * 900 + ")" * 900), ""),
        (Step("Concat", "a", ["x"], abs, '"no axis"'), "its attributes do not fit its inputs"),
        (Step("ReduceSum", "a", ["x"], lambda x: x.sum(0), "(I64(0), I64(0)"), ""),
    ],
)
def test_what_is_not_replayed_says_why(step: Step, why: str, tmp_path: Path) -> None:
    said = reasons(Network([step], X), tmp_path)
    assert why in said.get(full("a"), "")
    assert bool(said) == bool(why) or not why


def test_huge_results_of_small_inputs_are_never_made(tmp_path: Path) -> None:
    weights = {"row": single(np.ones((1, 30000))), "column": single(np.ones((300000, 1)))}
    steps = [
        Step(kind, kind, ["column", "row"], lambda c, _: c, "Bool(0), Bool(0)")
        for kind in ("Mul", "MatMul", "SoftmaxGrad", "RmsNorm", "ApplyGradientDescent", "SmoothL1Loss", "LayerNorm")
    ]
    said = reasons(Network(steps, weights), tmp_path)
    assert set(said) == {full(step.name) for step in steps}


def test_a_pool_of_absurd_size_is_refused(tmp_path: Path) -> None:
    x = {"x": single(np.ones((1, 1, 2, 2)))}
    huge = 'kernel_size: (1, 1, 99999999, 99999999), strides: (1, 1, 1, 1), pad_mode: "SAME"'
    assert reasons(Network([Step("MaxPool", "a", ["x"], abs, attributes=huge)], x), tmp_path)


# -- where inputs come from --------------------------------------------------------------------------------------------


def test_a_weight_is_taken_as_it_was_before_the_step_that_writes_it(tmp_path: Path) -> None:
    """MindSpore writes weights at the end of a step; what ran before took the older values."""
    before, gradient = single([1, 2]), single([0.5, 0.25])
    average = single([0, 0])
    steps = [
        Step("Mul", "use", ["w", "g"], lambda w, g: w * g),
        Step("ApplyMomentum", "step", ["w", "a", "rate", "g", "m"], lambda *_: single([0, 0])),
        Step("Mul", "after", ["w", "g"], lambda w, g: w * g),
    ]
    rate, momentum = single(0.5), single(0.5)
    for iteration in range(3):
        after_average = average * momentum + gradient
        after = before - rate * after_average
        net = Network(steps, {"w": after, "a": after_average, "rate": rate, "m": momentum, "g": gradient})
        tensors = [
            ("Mul", full("use"), "output", 0, before * gradient),
            # The kernel does not fill its output.
            ("ApplyMomentum", full("step"), "output", 0, single([99, 99])),
            ("Mul", full("after"), "output", 0, after * gradient),
            *(("Parameter", name, "output", 0, value) for name, value in net.weights.items()),
        ]
        write_mindspore(tmp_path, tensors, iteration=iteration)
        before, average = after, after_average
    graphs = tmp_path / "rank_0" / "graphs"
    graphs.mkdir()
    values = net.weights | {step.name: single([0, 0]) for step in steps}
    (graphs / "ms_output_trace_code_graph_0.ir").write_text(net.graph(values))
    found = replay(index(tmp_path))
    assert found.accused == ()
    assert {(one.op.label, one.op.at.iteration) for one in found.refused} == {(full("use"), 0), (full("step"), 0)}
    assert {one.why.code for one in found.refused} == {"replay_before"}
    # Weight and buffer of two steps, and what came before and after them.
    assert len(found.replayed) == 2 * 2 + 2 + 3


@pytest.mark.parametrize("turns", [1, 3])
def test_what_another_graph_writes_in_a_step_is_not_known_before_it(turns: int, tmp_path: Path) -> None:
    """Loops have graphs of their own, run many times; weights are written to files once, at the end."""
    use = Network([Step("Mul", "use", ["w", "g"], lambda w, g: w * g)], {"w": single([1, 2]), "g": single([0.5, 4])})
    loop = Network(
        [
            Step("Mul", "read", ["w", "g"], lambda w, g: w * g),
            Step("AssignAdd", "add", ["w", "g"], lambda w, g: w + g),
            Step("Mul", "behind", ["w", "g"], lambda w, g: w * g),
        ],
        dict(use.weights),
    )
    first, w, g = use.run({})["use"], use.weights["w"], use.weights["g"]
    graphs = tmp_path / "rank_0" / "graphs"
    for turn in range(turns):
        after = w + g
        values = [("Mul", "read", w * g), ("AssignAdd", "add", after), ("Mul", "behind", after * g)]
        tensors = [(kind, full(name), "output", 0, value) for kind, name, value in values]
        w, weights = after, [("Parameter", "w", "output", 0, after), ("Parameter", "g", "output", 0, g)]
        is_last = turn == turns - 1
        write_mindspore(tmp_path, tensors + weights * is_last, graph=1, start=1700000000000000 + turn * 10000)
    write_mindspore(tmp_path, [("Mul", full("use"), "output", 0, first), *weights])
    graphs.mkdir()
    for number, net in enumerate((use, loop)):
        text = net.graph(net.weights | {step.name: single([0, 0]) for step in net.steps})
        (graphs / f"ms_output_trace_code_graph_{number}.ir").write_text(text)
    found = replay(index(tmp_path))
    assert found.accused == ()
    assert (found.calls, len(found.refused)) == (1, 3 * turns)
    assert {(one.op.label, one.op.at.occurrence) for one in found.replayed} == {(full("behind"), turns - 1)}
    assert {one.why.code for one in found.refused} == {"replay_before"}


def test_views_have_the_shape_of_the_graph_not_of_their_file(tmp_path: Path) -> None:
    net = Network(
        [
            Step("Reshape", "view", ["x"], lambda x: x.reshape(4), "(I64(4))"),
            Step("ReduceSum", "sum", ["view"], lambda x: x.sum(0), "(I64(0))"),
        ],
        X,
    )
    net.dump(tmp_path, inputs=False)
    file = next(tmp_path.rglob("Reshape.*.npy"))
    np.save(file, np.load(file).reshape(2, 2))
    found = replay(index(tmp_path))
    assert (found.calls, found.accused, found.refused) == (2, (), ())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    net = Network([Step("ReLU", "a", ["x"], lambda x: np.maximum(x, 0))], X)
    net.dump(tmp_path)
    file = next(tmp_path.rglob("ReLU.*.output.*.npy"))
    file.write_bytes(file.read_bytes()[:-4])
    (one,) = replay(index(tmp_path)).refused
    assert f"{full('a')}:output:0 cannot be read: " in say(one.why)


# -- judging -----------------------------------------------------------------------------------------------------------


DAMAGES = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-3]),
    "shape": lambda file: np.save(file, np.load(file)[:-1]),
    "empty": lambda file: np.save(file, np.load(file)[:0]),
    "float16": lambda file: np.save(file, np.load(file).astype("f2")),
    "float64": lambda file: np.save(file, np.load(file).astype("f8")),
    "integers": lambda file: np.save(file, np.load(file).astype("i4")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_output_that_its_operator_cannot_have_made_fails(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network(1).dump(tmp_path)
    (file,) = tmp_path.rglob("*dense_product-op0*.output.0.*.npy")
    DAMAGES[damage](file)
    assert cli.main(["replay", str(tmp_path), "-q"]) == 1
    said = capsys.readouterr().out
    assert f"DAMAGED  {full('dense_product')}  (MatMul)" in said
    assert " ".join(said.split()).endswith("no operator accused, 1 tensor damaged")
    assert cli.main(["replay", str(tmp_path), "-q", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["damaged"] == [full("dense_product")]


def test_less_than_half_of_what_can_be_replayed_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [Step("ReLU", "a", ["x"], lambda x: np.maximum(x, 0))]
    # Without its number the attribute of these is not known.
    steps += [Step("Transpose", name, ["x"], np.transpose) for name in "bc"]
    Network(steps, X).dump(tmp_path)
    assert cli.main(["replay", str(tmp_path), "-q"]) == 1
    said = capsys.readouterr().out
    assert "judged 1 of 3 operators that it can, below the 50 % that min_replayed demands" in " ".join(said.split())
    assert f"likewise {full('c')}" in said
    assert cli.main(["replay", str(tmp_path), "-q", "--min-replayed", "30"]) == 0


def summed(x: np.ndarray) -> Result:
    partial = np.cumsum(x, -1)
    size = np.sqrt(np.square(x).sum(-1))
    return rounded(x.sum(-1), x.shape[-1], size, lambda: np.abs(partial).max(-1))


@pytest.mark.parametrize("order", [-1, 1], ids=["as drawn", "sorted"])
def test_sums_are_sound_in_any_order(order: int) -> None:
    x = single(np.random.default_rng(0).normal(size=(50, 4096)))
    x = np.sort(x, -1) if order > 0 else x
    for stored in (np.cumsum(x, -1, dtype=np.float32)[:, -1], x.sum(-1), x.reshape(50, 64, 64).sum(-1).sum(-1)):
        assert judge(summed(x.astype(float)), stored.astype(float), "float32").is_sound


def test_long_sums_of_cut_numbers_are_not() -> None:
    random = np.random.default_rng(0)
    x, y = single(random.normal(size=(8, 16384))), single(random.normal(size=(8, 16384)))
    product = x.astype(float) * y
    stored = (cut_mantissa(x, 10).astype(float) * cut_mantissa(y, 10)).sum(-1).astype(np.float32)
    assert not judge(summed(product), stored.astype(float), "float32").is_sound


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_the_rounding_of_what_was_summed_in_float32(dtype: str) -> None:
    torch_like = np.float16 if dtype == "float16" else None
    x = np.random.default_rng(0).normal(size=(4000, 64))
    sums = np.cumsum(single(x), -1, dtype=np.float32)[:, -1]

    def stored(values: np.ndarray) -> np.ndarray:
        if torch_like:
            return values.astype(torch_like).astype(float)
        bits = single(values).view(np.uint32)
        half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32).astype(float)

    result = summed(single(x).astype(float))
    assert judge(result, stored(sums), dtype).is_sound
    off = judge(result, stored(sums * single(1.001)), dtype)
    assert (off.rule, off.is_sound) == ("flips", False)
    once = stored(sums)
    once[7] *= 1.5
    assert not judge(result, once, dtype).is_sound


def test_exact_results_are_equal_or_not() -> None:
    value = np.array([1.0, np.nan, np.inf, -0.0])
    assert judge(exact(value), value.copy(), "float32").is_sound
    score = judge(exact(value), np.array([1.0, 2.0, np.inf, 1e-30]), "float32")
    assert (score.rule, score.value, score.index) == ("exact", 2, (1,))


def test_a_result_of_another_shape_was_not_understood() -> None:
    with pytest.raises(NotReplayableError):
        judge(exact(np.ones((2, 3))), np.ones((3, 2)), "float32")


@pytest.mark.parametrize(
    ("expected", "stored", "sound"), [(7e4, np.inf, True), (65504, np.inf, True), (6e4, np.inf, False)]
)
def test_overflow_of_a_type_is_no_fault_of_its_kernel(expected: float, stored: float, sound: bool) -> None:
    result = rounded(np.array([expected]), 2)
    assert judge(result, np.array([stored]), "float16").is_sound is sound


def test_both_spellings_of_attributes_are_read() -> None:
    old = Call("Conv2D", attributes={"stride": "(1, 1, 2, 2)", "pad_mode": '"same"'})
    new = Call("Conv2D", attributes={"operand 1": "(I64(1), I64(1), I64(2), I64(2))", "operand 2": "I64(1)"})
    assert old.attribute("stride", 1) == new.attribute("stride", 1) == (1, 1, 2, 2)
    assert (old.attribute("pad_mode", 2), new.attribute("pad_mode", 2)) == ("same", 1)
    assert literal("Tensor(shape=[], dtype=Float32, value=0.9)") == float(np.float32(0.9))
