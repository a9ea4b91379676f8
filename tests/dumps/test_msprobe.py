"""Trees of msprobe: real ones of PyTorch and MindSpore, compared with what hooks of our own saw, and damaged ones."""

import functools
import json
import operator
import shutil
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from dumps.reading import elements

from pytest_msdump.capabilities.msprobe.reader import parse_call
from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.model.tensor import TensorSpec
from pytest_msdump.core.report.json_report import read_json

DATA = Path(__file__).parent.parent / "data" / "msprobe"
VALUES = np.load(DATA / "values.npz")
PROGRAM = (DATA / "make.py").read_text().splitlines()


def refs_of(root, address):
    return [ref for ref in index(root).refs if ref.key.address == address]


def one(root, address, occurrence=0, rank=None, iteration=0):
    wanted = (occurrence, rank, iteration)
    places = {(at.occurrence, at.rank, at.iteration): ref for ref in refs_of(root, address) for at in [ref.key.op.at]}
    return places[wanted]


def line_of(text):
    return next(number for number, line in enumerate(PROGRAM, 1) if text in line)


@pytest.fixture
def tree(tmp_path):
    return shutil.copytree(DATA / "tensor_L0", tmp_path / "tree")


# -- What msprobe saved ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_modules_gave_what_hooks_of_our_own_saw(rank):
    names = {"fc": 1, "act": 1, "head.0": 2}
    for name, calls in names.items():
        for call in range(calls):
            found = elements(one(DATA / "tensor_L0", f"{name}:output:0", call, rank))
            np.testing.assert_array_equal(found, VALUES[f"tensor_L0/step0/rank{rank}/{name}/{call}"])


def test_operators_are_in_the_order_of_their_calls_with_lines_of_the_program():
    refs = [ref for ref in index(DATA / "tensor_L0").refs if ref.key.op.at.rank == 0 and ref.key.io == "output"]
    calls = [(ref.key.op.label, ref.key.op.op_type, ref.line and ref.line.line) for ref in refs if ref.line]
    first, middle, last = (line_of(text) for text in ("self.act(self.fc(x))", "hidden = self.head", "return self.head"))
    assert calls == [
        ("fc", "Linear", first), ("act", "Tanh", first), ("head.0", "Linear", middle), ("head.0", "Linear", last),
    ]  # fmt: skip
    assert {ref.line.file for ref in refs if ref.line} == {"net.py"}
    placed = [ref.place for ref in refs if ref.place is not None]
    assert placed == sorted(placed)
    assert {ref.key.op.op_type for ref in refs if ref.place is None} == {"Parameter"}


def test_arrays_of_mindspore_are_those_that_numpy_reads():
    root = DATA / "mindspore_mix"
    data = root / "step0/proc1/dump_tensor_data"
    for address, file in {
        "fc:output:0": "Cell.fc.Dense.forward.0.output.0.npy",
        "fc.weight:output:0": "Cell.fc.Dense.forward.0.parameters.weight.npy",
        "fc/grad_output:output:0": "Cell.fc.Dense.backward.0.input.0.npy",
        "fc.bias/grad:output:0": "Cell.fc.Dense.parameters_grad.0.bias.npy",
        "Primitive.matmul.MatMul:input:1": "Primitive.matmul.MatMul.0.forward.input.1.npy",
    }.items():
        np.testing.assert_array_equal(elements(one(root, address)), np.load(data / file))
    assert one(root, "Primitive.matmul.MatMul:output:0").key.op.op_type == "MatMul"


def test_statistics_are_those_of_the_tensors_that_hooks_saw():
    root = DATA / "statistics_mix"
    for iteration in (0, 1):
        for name, call in (("fc", 0), ("act", 0), ("head.0", 0), ("head.0", 1)):
            ref = one(root, f"{name}:output:0", call, iteration=iteration)
            seen = VALUES[f"statistics_mix/step{iteration}/rank0/{name}/{call}"]
            values = ref.statistics.values
            assert ref.is_unseen
            assert (ref.spec.dtype, ref.spec.shape, values["count"]) == ("float32", seen.shape, seen.size)
            assert (values["maximum"], values["minimum"]) == (seen.max(), seen.min())
            np.testing.assert_allclose(values["mean"], seen.mean(dtype="f8"), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(values["l2_norm"], np.linalg.norm(seen.astype("f8")), rtol=1e-6)
            assert values["crc32"] == f"{zlib.crc32(seen.tobytes()):08x}"
    with pytest.raises(TensorFileError, match="task = tensor"):
        elements(one(root, "fc:output:0"))


def test_an_xor_is_that_of_the_tensors_that_hooks_saw_and_of_other_tensors(tmp_path):
    root, checked = DATA / "xor_L0", 0
    for name, call in (("fc", 0), ("act", 0), ("head.0", 0), ("head.0", 1)):
        seen = VALUES[f"xor_L0/step0/rank0/{name}/{call}"]
        values = one(root, f"{name}:output:0", call).statistics.values
        words = [int.from_bytes(seen.tobytes()[at : at + 8], "little") for at in range(0, seen.nbytes, 8)]
        assert values == {"count": seen.size, "xor64": f"{functools.reduce(operator.xor, words):016x}"}
        np.save(tmp_path / f"{name}.{call}.npy", seen)
        checked += 1
        # In blocks that end within a word.
        with closing(open_npy(tmp_path / f"{name}.{call}.npy", TensorSpec())) as view:
            assert statistics_of(view, digests=["xor64"], block_elements=3)["xor64"] == values["xor64"]
    assert checked == 4


def test_variables_of_the_level_debug_are_operators_of_their_names():
    root = DATA / "debug"
    saved, exponential = (one(root, f"result:output:{slot}") for slot in (0, 1))
    np.testing.assert_array_equal(elements(saved), VALUES["debug/step0/rank0/result/0"])
    np.testing.assert_allclose(elements(exponential), np.exp(elements(saved)), rtol=1e-6)
    dump = index(DATA / "debug_statistics")
    assert [(ref.key.address, ref.is_unseen, ref.place) for ref in dump.refs] == [
        ("result:output:0", True, 0), ("result:output:1", True, 0),
    ]  # fmt: skip
    assert dump.refs[0].statistics.values["maximum"] == VALUES["debug_statistics/step0/rank0/result/0"].max()
    assert dict(dump.labels)["level"] == "debug"


# -- Gates -----------------------------------------------------------------------------------------------------------


def changed(path, by):
    """Add to the values of a file of torch.save, where they lie."""
    content = path.read_bytes()
    (ref,) = index(path).refs
    values = elements(ref)
    at = content.index(values.tobytes())
    path.write_bytes(content[:at] + (values + np.float32(by)).tobytes() + content[at + values.nbytes :])


def ran(capsys, *words):
    code = main([str(word) for word in words])
    return code, capsys.readouterr().out


def test_two_runs_that_are_equal_pass_and_a_mistake_is_found_with_its_line(tree, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = ran(capsys, "compare", tree, DATA / "tensor_L0", "--io", "all")
    assert (code, "50 tensors: 50 pass" in text) == (0, True)
    changed(tree / "step0/rank1/dump_tensor_data/Module.act.Tanh.forward.0.output.0.pt", 0.25)
    code, text = ran(capsys, "compare", tree, DATA / "tensor_L0", "--io", "all")
    assert code == 1
    assert "1 cause: act" in text
    assert f"made by net.py:{line_of('self.act(self.fc(x))')}" in text


@pytest.mark.parametrize("words", [["--io", "all"], []])
def test_a_module_that_passes_a_mistake_on_is_not_accused_beside_it(words, capsys, tmp_path, monkeypatch):
    """The second call of an API; the first calls of those that follow in the program come earlier."""
    monkeypatch.chdir(tmp_path)
    code, text = ran(capsys, "compare", DATA / "gelu_wrong", DATA / "gelu", "--profile", "torch", *words)
    lines = [line.strip() for line in text.splitlines()]
    assert code == 1
    assert f"made by net.py:{line_of('functional.gelu(wide')}" in text
    assert [line for line in lines if line.startswith("cause,")] == [
        "cause, bounded: all of its inputs that were compared pass"
    ]
    assert "cause Functional.gelu (op 12 of 24); 1 inherited: 1" in lines


@pytest.mark.parametrize(
    "outer",
    ["Module.m.M.forward.0", "Torch.f.0.forward", "Torch.f.9.forward", "", "x", None, 3, [], {}, "M" * 5000],
)
def test_a_construct_that_is_damaged_says_nothing(tmp_path, outer):
    """What ended before contains nothing, and so there is no circle."""
    names = ["Module.m.M.forward.0", "Torch.f.0.forward", "Torch.g.0.forward"]
    root = written(tmp_path, {name: {"output": [LEAF]} for name in names})
    values = {names[1]: outer, names[0]: names[1], "Torch.a.0.forward": "Torch.a.0.forward", "": None}
    (root / "step0/rank0/construct.json").write_text(json.dumps(values))
    dump = index(root)
    assert len(dump.refs) == 3
    assert {op.label: outer.label for op, outer in dump.around.items()} == {"m": "Torch.f"}


def test_a_collective_that_another_rank_gave_an_error_is_not_the_cause(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def leaf(norm):
        return LEAF | {"Norm": norm}

    def written_ranks(name, other, reduced):
        for rank, given in enumerate((1.0, other)):
            data = {
                "Functional.f.0.forward": {"input_args": [leaf(1.0)], "output": [leaf(given)]},
                "Distributed.all_reduce.0.forward": {"input_args": [leaf(given)], "output": [leaf(reduced)]},
            }
            written(tmp_path / name / str(rank), data)
            (tmp_path / name / str(rank) / "step0/rank0").rename(tmp_path / name / f"rank{rank}")
        return tmp_path / name

    right = written_ranks("right", 1.0, 2.0)
    _, text = ran(capsys, "compare", written_ranks("given", 1.5, 2.5), right, "--io", "all")
    assert [line.split("(")[0].strip() for line in text.splitlines() if " cause " in line and "role" not in line] == [
        "cause Functional.f"
    ]
    # Where it was given the same on every rank, it is.
    _, text = ran(capsys, "compare", written_ranks("own", 1.0, 2.5), right, "--io", "all")
    assert "cause Distributed.all_reduce" in text


def test_gradients_of_weights_that_8_3_lists_with_the_forward_pass_come_last(tmp_path):
    names = ["a.A.forward.0", "a.A.parameters_grad", "b.B.forward.0", "b.B.parameters_grad.0", "b.B.backward.0"]
    data = {
        f"Module.{name}": {"weight": [LEAF]}
        if "grad" in name
        else {"output": [LEAF]}
        if "forward" in name
        else {"input": [LEAF]}
        for name in names
    }
    labels = [ref.key.op.label for ref in index(written(tmp_path, data)).refs]
    assert labels == ["a", "b", "b.weight/grad", "b/grad_output", "a.weight/grad"]


def test_statistics_of_one_run_compare_with_those_of_another(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(DATA / "statistics_mix", tmp_path / "other")
    # A CRC-32 can be equal by chance.
    code, text = ran(capsys, "compare", other, DATA / "statistics_mix", "--profile", "bitwise")
    assert (code, "crc32 is equal, which proves nothing" in " ".join(text.split())) == (1, True)
    assert ran(capsys, "compare", other, DATA / "statistics_mix")[0] == 0
    path = other / "step1/proc1/dump.json"
    values = json.loads(path.read_text())
    leaf = values["data"]["Module.act.Tanh.forward.0"]["output"][0]
    leaf["md5"] = "00000000"
    path.write_text(json.dumps(values))
    code, text = ran(capsys, "compare", other, DATA / "statistics_mix", "--profile", "bitwise")
    assert (code, ": 1 fail, " in text, "pass" in text.split("tensors: ")[1]) == (1, True, False)
    assert ran(capsys, "compare", other, DATA / "statistics_mix")[0] == 0
    leaf["Norm"] *= 1.5
    path.write_text(json.dumps(values))
    assert ran(capsys, "compare", other, DATA / "statistics_mix")[0] == 1


def summary(array, digest=True):
    """What msprobe says of a tensor with `summary_mode: xor` beside statistics; equal words have an XOR of 0."""
    wide = array.astype("f8")
    numbers = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.sqrt(np.sum(wide * wide))}
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape)}
    leaf |= {name: float(value) for name, value in numbers.items()}
    word = functools.reduce(operator.xor, np.frombuffer(array.tobytes(), "<u8").tolist())
    return leaf | ({"md5": f"0x{word:016x}"} if digest else {})


ONES, RAMP = np.ones((8, 32), "f4"), np.linspace(-1, 1, 256, dtype="f4").reshape(8, 32)


@pytest.mark.parametrize("profile", ["default", "strict", "torch", "ascend", "bitwise"])
@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        (7 * ONES, ONES, "fail"),
        (0 * ONES, ONES, "fail"),
        (np.full((8, 32), np.nan, "f4"), ONES, "fail"),
        (ONES, np.full((8, 32), np.inf, "f4"), "fail"),
        (ONES, -ONES, "fail"),
        (RAMP[::-1], RAMP, "pass"),
    ],
)
def test_an_equal_xor_overrules_no_statistic(left, right, outcome, profile, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sides = [{"Functional.f.0.forward": {"output": [summary(side)]}} for side in (left, right)]
    digests = [side["Functional.f.0.forward"]["output"][0]["md5"] for side in sides]
    assert digests[0] == digests[1]
    for name, data in zip(("left", "right"), sides, strict=True):
        written(tmp_path / name, data)
    code, _ = ran(capsys, "compare", "left", "right", "--profile", profile)
    (record,) = read_json(Path("msdump-report/results.json"))["tensors"]
    # Equal statistics of another order are no proof of equal bits.
    expected = "undefined" if outcome == "pass" and profile == "bitwise" else outcome
    assert (code, record["verdict"]) == (int(expected != "pass"), expected)
    assert record["statistics"]["equal_bits"] is None


def test_without_any_statistic_of_values_nothing_was_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3]}
    leaf |= dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    written(tmp_path / "t", {"Torch.a.0.forward": {"output": [leaf]}})
    code, text = ran(capsys, "compare", "t", "t")
    assert (code, "sides differ" in text, "give one" in text) == (1, False, False)
    assert "no finite statistic of their values in common: the left has count; the right has count" in " ".join(
        text.split()
    )


# -- Killed runs, two runs in one folder, hostile content ------------------------------------------------------------


def test_a_killed_run_without_json_is_read_by_its_names(tree):
    whole = {ref.key: elements(ref) for ref in index(tree).refs}
    for path in tree.rglob("*.json"):
        path.unlink()
    dump = index(tree)
    assert {ref.key for ref in dump.refs} == whole.keys()
    for ref in dump.refs:
        np.testing.assert_array_equal(elements(ref), whole[ref.key])
    assert {ref.place for ref in dump.refs} == {None}
    assert dump.notes[0].startswith(
        "50 files of calls that are in no dump.json, e.g. step0/rank0/dump_tensor_data/Module."
    )


def test_files_behind_a_json_that_was_written_early_are_not_lost(tree):
    path = tree / "step0/rank0/dump.json"
    values = json.loads(path.read_text())
    del values["data"]["Module.fc.Linear.forward.0"]
    path.write_text(json.dumps(values))
    dump = index(tree)
    assert len(dump.refs) == 50
    assert one(tree, "fc:output:0", 0, 0).place is None
    assert dump.notes[0].startswith("4 files of calls")


def test_two_runs_into_one_folder_are_refused_with_what_to_do(tmp_path):
    tree = shutil.copytree(DATA / "mindspore_mix", tmp_path / "tree")
    shutil.copytree(tree / "step0/proc1", tree / "step0/proc2")
    with pytest.raises(UnknownDumpFormatError, match="step0/proc1 and step0/proc2 are of one step"):
        index(tree)
    assert len(index(tree / "step0/proc2").refs) == len(index(DATA / "mindspore_mix").refs)


def test_other_files_are_unexplained_and_errors_of_msprobe_are_a_note(tree):
    (tree / "step0/rank0/dump_tensor_data/mine.pt").write_bytes(b"")
    (tree / "step0/rank0/notes.txt").write_text("")
    (tree / "top.txt").write_text("")
    (tree / "step0/rank0/dump_error_info.log").write_text("no")
    dump = index(tree)
    assert [path.as_posix() for path in dump.unexplained] == [
        "step0/rank0/dump_tensor_data/mine.pt", "step0/rank0/notes.txt", "top.txt",
    ]  # fmt: skip
    assert dump.notes == ("step0/rank0/dump_error_info.log: msprobe could not save everything, and says there what",)


def test_a_run_of_the_structure_alone_says_so(tree):
    for folder in (tree / "step0").iterdir():
        shutil.rmtree(folder / "dump_tensor_data")
        (folder / "dump.json").write_text(
            '{"task": "structure", "level": "mix", "data": {"Module.a.B.forward.0": null}}'
        )
    dump = index(tree)
    assert dump.refs == ()
    assert "task structure" in dump.notes[0]


LEAF = {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [2],
    "Max": 1.0,
    "Min": 0.0,
    "Mean": 0.5,
    "Norm": 1.0,
}


def written(root, data, stack=None):
    folder = root / "step0" / "rank0"
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(data if isinstance(data, str) else json.dumps({"task": "tensor", "data": data}))
    (folder / "stack.json").write_text(json.dumps({} if stack is None else stack))
    return root


def test_names_that_lead_elsewhere_are_no_files(tmp_path):
    (tmp_path / "secret.pt").write_bytes(b"x")
    names = ["../secret.pt", "/etc/passwd", "..", "a/b.pt", "a\0b.pt", "\ud800.pt", "absent.pt"]
    data = {f"Torch.f{place}.0.forward": {"output": [LEAF | {"data_name": name}]} for place, name in enumerate(names)}
    *others, ref = index(written(tmp_path / "tree", data)).refs
    assert [other.is_unseen for other in others] == [True] * (len(names) - 1)
    assert ref.source.path == tmp_path / "tree/step0/rank0/dump_tensor_data/absent.pt"
    with pytest.raises(TensorFileError, match="cannot be opened"):
        elements(ref)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "no json", '{"data": 3}', '{"data": {"a": 1}}', "[" * 100_000, '{"data": {"Module..forward.0": {}}}',
        '{"task": 3, "framework": [], "data": {"Torch.f.0.forward": {"output": [{"dtype": "x", "shape": [-1]}]}}}',
        '{"data": {"Torch.f.0.forward": {"output": {"dtype": "float32", "shape": [1e400, "x"]}}}}',
        json.dumps({"data": {"Torch.f.0.forward": {"output": [LEAF | {"Max": "x", "md5": 4, "Norm": None}]}}}),
        '{"data": {"Torch.f.0.forward": {"output": ' + "[" * 500 + "]" * 500 + "}}}",
    ],
)  # fmt: skip
def test_a_json_that_is_damaged_is_no_crash(tmp_path, text):
    dump = index(written(tmp_path, text, {"0": 3, "1": [["a"], 4], "2": [[5], ["File a.py, line 99999999999, in f"]]}))
    assert len(dump.refs) <= 1


def test_lines_of_older_and_odd_stacks(tmp_path):
    frames = [
        "File /x/msprobe/core/dump/a.py, line 9, in f, \n a",
        "File /x/site-packages/torch/a.py, line 1, in f, \n a",
        "File my net.py, line 12, in g, \n  y = f(x)",
    ]
    names = ["Torch.f.0.forward", "Torch.g.0.forward"]
    stack = {"0": [[names[0], 3], frames], names[1]: [frames[-1]], "x": [[names[0]], [7, "no frame"]]}
    refs = index(written(tmp_path, {name: {"output": [LEAF]} for name in names}, stack)).refs
    assert [(ref.line.place, ref.line.text) for ref in refs] == [("my net.py:12", "y = f(x)")] * 2


def test_bfloat16_of_mindspore_lies_in_float32_and_is_judged_as_bfloat16(tmp_path):
    name = "Cell.a.Dense.forward.0.output.0.npy"
    leaf = LEAF | {"type": "mindspore.Tensor", "dtype": "BFloat16", "data_name": name, "md5": "01234567"}
    root = written(tmp_path, {"Cell.a.Dense.forward.0": {"output": [leaf, leaf | {"data_name": None}]}})
    (root / "step0/rank0/dump_tensor_data").mkdir()
    np.save(root / "step0/rank0/dump_tensor_data" / name, np.ones(2, np.float32))
    saved, alone = index(root).refs
    assert (saved.computed, elements(saved).dtype) == ("bfloat16", np.float32)
    # The digest is that of float32.
    assert "crc32" not in alone.statistics.values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Module.fc2.Linear.forward.1", ("fc2", "Linear", 1, "forward")),
        ("Module.0.layers.3.mlp.Linear.backward.0", ("0.layers.3.mlp", "Linear", 0, "backward")),
        ("Module.Net.forward.0", ("Net", "Net", 0, "forward")),
        ("Cell.fc.Dense.parameters_grad.0", ("fc", "Dense", 0, "parameters_grad")),
        ("Module.fc.Linear.parameters_grad", ("fc", "Linear", 0, "parameters_grad")),
        ("Functional.conv2d.3.forward", ("Functional.conv2d", "conv2d", 3, "forward")),
        ("Primitive.matmul.MatMul.0.backward", ("Primitive.matmul.MatMul", "MatMul", 0, "backward")),
        ("NPU.npu_fusion_attention.12.forward", ("NPU.npu_fusion_attention", "npu_fusion_attention", 12, "forward")),
        ("my.loss.2.debug", ("my.loss", None, 2, "debug")),
        ("Module.fc2.Linear.forward", None),
        ("Functional.relu.x.forward", None),
        ("conv1", None),
        ("Module.fc\n2.Linear.forward.1", None),
        ("M" * 5000, None),
    ],
)
def test_names_of_calls(text, expected):
    assert parse_call(text) == expected
