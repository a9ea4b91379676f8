"""``msdump match --suggest``: entries that pair what belongs together, and nothing else."""

from __future__ import annotations

import ast
import json
import random
import shutil
import string

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump import assert_dumps_close
from pytest_msdump.cli import main
from pytest_msdump.core.model.tensor import mangle
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import read_toml


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def suggested(tmp_path, capsys):
    def run(left, right, *more):
        code = main(["match", str(left), str(right), *more, "--pair-by", "name", "--suggest"])
        file = tmp_path / "map.toml"
        file.write_text(capsys.readouterr().out, "utf-8")
        entries = read_toml(file).get("msdump", {}).get("map", [])
        return code, {entry["right"]: entry["left"] for entry in entries}, file

    return run


def truth(lenet, name_of=None):
    """The left names of the right ones: modules, or operators where their names are others."""
    entries = json.loads((lenet / "mapping.json").read_text("utf-8"))["entries"]
    if name_of is None:
        # Operators inside of a module may be numbered anew, and are others in a port that is mended.
        return {entry["reference"]: entry["target_op"].split("/")[1].partition("-")[0] for entry in entries}
    return {f"{entry['reference']}:output:0": f"{name_of(entry['target_op'])}:output:0" for entry in entries}


def renamed(lenet, run, seed):
    """A copy of the run whose operators have random names."""
    draw = random.Random(seed)
    shutil.copytree(lenet / "target", run)
    order = run / "rank_0" / "execution_order" / "ms_execution_order_graph_0.csv"
    head, *names = order.read_text("utf-8").split()
    new = {name: "".join(draw.choices(string.ascii_lowercase, k=8)) for name in names}
    order.write_text("\n".join([head, *new.values()]) + "\n", "utf-8")
    for file in run.rglob("*.npy"):
        for name, other in new.items():
            if f".{mangle(name)}." in file.name:
                file.rename(file.with_name(file.name.replace(f".{mangle(name)}.", f".{other}.")))
                break
    return new


def test_lenet_without_any_mapping_gets_all_ten_pairs(lenet, suggested):
    code, entries, file = suggested(lenet / "target", lenet / "reference")
    assert code == 0
    assert entries == truth(lenet)
    assert len(entries) == 10
    assert "# the same step of both runs, same shape; values differ by 1.7e-07 of their norm" in file.read_text()


@pytest.mark.parametrize("seed", range(5))
def test_with_random_names_all_pairs_are_found(lenet, tmp_path, suggested, seed):
    new = renamed(lenet, tmp_path / "run", seed)
    _, entries, _ = suggested(tmp_path / "run", lenet / "reference")
    expected = truth(lenet, lambda name: new[name])
    assert entries == expected


def test_without_names_and_order_values_and_shapes_find_all_pairs(lenet, tmp_path, suggested):
    new = renamed(lenet, tmp_path / "run", 7)
    (tmp_path / "ref").mkdir()
    for number, file in enumerate(sorted((lenet / "reference").iterdir(), key=lambda file: file.name.split(".")[2])):
        shutil.copy(file, tmp_path / "ref" / f"{file.name.split('.')[0]}.0.{1_700_000_000_000_000 - number}.npy")
    _, entries, _ = suggested(tmp_path / "run", "ref")
    assert entries == truth(lenet, lambda name: new[name])


def test_a_channels_last_reference_is_found_with_its_axes(tmp_path, suggested):
    values = np.random.default_rng(0).standard_normal((4, 2, 3, 5, 6)).astype("f4")
    write_reference(tmp_path / "run", {f"op{number}": one for number, one in enumerate(values)})
    drifted = values * (1 + 1e-4 * np.random.default_rng(1).standard_normal(values.shape).astype("f4"))
    order = [2, 0, 3, 1]
    write_reference(tmp_path / "ref", {f"layer_{n}": drifted[n].transpose(0, 2, 3, 1) for n in order})
    _, entries, file = suggested("run", "ref")
    assert entries == {f"layer_{n}:output:0": f"op{n}:output:0" for n in range(4)}
    assert file.read_text("utf-8").count("transpose = [0, 3, 1, 2]") == 4
    assert main(["compare", "run", "ref", "--config", str(file)]) == 0


def test_values_whose_squares_overflow_get_their_pairs(tmp_path, suggested):
    values = np.random.default_rng(0).standard_normal((3, 4, 16)) * 1e300
    write_reference(tmp_path / "run", {f"op{number}": one for number, one in enumerate(values)})
    write_reference(tmp_path / "ref", {f"layer_{number}": one for number, one in enumerate(values)})
    _, entries, _ = suggested("run", "ref")
    assert entries == {f"layer_{n}:output:0": f"op{n}:output:0" for n in range(3)}


@pytest.mark.parametrize("seed", range(3))
def test_tensors_that_are_not_there_get_no_partner(tmp_path, suggested, seed):
    draw = np.random.default_rng(seed)
    values = {number: draw.standard_normal((4, 16)) for number in range(24)}
    names = draw.permutation(24)
    write_reference(tmp_path / "run", {"a": values[0]} | {f"a{n}": values[n] for n in range(0, 24, 2)})
    write_reference(tmp_path / "ref", {f"b{names[n]}": values[n] * (1 + 1e-4 * draw.random((4, 16))) for n in values})
    _, entries, file = suggested("run", "ref")
    # Two left tensors hold the values of the first: either shows them.
    assert entries.pop(f"b{names[0]}:output:0") in ("a:output:0", "a0:output:0")
    assert entries == {f"b{names[n]}:output:0": f"a{n}:output:0" for n in range(2, 24, 2)}
    assert "# no suggestion for these right tensors:" in file.read_text("utf-8")


def test_a_neighbour_in_a_residual_stream_is_not_taken_for_the_tensor_that_was_not_dumped(tmp_path, suggested):
    draw = np.random.default_rng(0)
    stream = np.cumsum([draw.standard_normal(200) * (1 if not n else 0.005) for n in range(20)], axis=0)
    write_reference(tmp_path / "run", {f"a{n}": stream[n] for n in range(0, 20, 2)})
    write_reference(tmp_path / "ref", {f"b{n}": stream[n] for n in range(1, 20, 2)})
    code, entries, _ = suggested("run", "ref")
    assert (code, entries) == (1, {})


@pytest.mark.parametrize(("dtype", "drift"), [("f8", 3e-4), ("f4", 3e-4), ("f2", 3e-3)])
def test_drift_that_a_data_type_explains_is_recognised(tmp_path, suggested, dtype, drift):
    draw = np.random.default_rng(0)
    values = draw.standard_normal((12, 300))
    noisy = values + drift * draw.standard_normal(values.shape)
    write_reference(tmp_path / "run", {f"a{n}": one.astype(dtype) for n, one in enumerate(noisy)})
    write_reference(tmp_path / "ref", {f"b{n}": values[n] for n in draw.permutation(12)})
    assert suggested("run", "ref")[1] == {f"b{n}:output:0": f"a{n}:output:0" for n in range(12)}


def test_what_drifted_far_is_not_even_a_candidate(tmp_path, suggested):
    values = np.random.default_rng(0).standard_normal((2, 300))
    write_reference(tmp_path / "run", {"a": values[0]})
    write_reference(tmp_path / "ref", {"b": values[0] + 0.05 * values[1]})
    code, entries, file = suggested("run", "ref")
    assert (code, entries) == (1, {})
    assert "# no suggestion for these right tensors:\n#   b:output:0" in file.read_text("utf-8")


def test_what_is_paired_or_mapped_already_is_left_alone(tmp_path, suggested):
    draw = np.random.default_rng(0)
    values = {name: draw.standard_normal(50) for name in ("same", "one", "two")}
    write_reference(tmp_path / "run", values)
    write_reference(tmp_path / "ref", {"same": values["same"], "uno": values["one"], "dos": values["two"]})
    entry = '[[msdump.map]]\nleft = "one"\nright = "gone"\n'
    (tmp_path / "msdump.toml").write_text(f"[msdump]\n{entry}", "utf-8")
    _, entries, _ = suggested("run", "ref", "--config", "msdump.toml")
    assert entries == {"gone": "one", "dos:output:0": "two:output:0"}


def test_names_cannot_break_out_of_their_line(tmp_path, suggested):
    draw = np.random.default_rng(0)
    odd = 'a"]\n[msdump]\nleft = "x\x7f'
    write_reference(tmp_path / "run", {odd: draw.standard_normal(50), "zero\n[x]": np.zeros(3)})
    write_reference(tmp_path / "ref", {"b": np.load(next((tmp_path / "run").glob("a*"))), "none\n[y]": np.ones(3)})
    _, entries, _ = suggested("run", "ref")
    assert entries == {"b:output:0": f"{odd}:output:0"}


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path, suggested):
    write_reference(tmp_path / "run", {"a": np.arange(30.0), "b": np.arange(9.0)})
    write_reference(tmp_path / "ref", {"x": np.arange(30.0), "y": np.arange(9.0)})
    next((tmp_path / "ref").glob("y*")).write_bytes(b"nothing")
    code, entries, file = suggested("run", "ref")
    assert (code, entries) == (0, {"x:output:0": "a:output:0"})
    assert "# not looked at:\n#   right: y:output:0: " in file.read_text("utf-8")
    assert "1 entry, 0 ambiguous (commented out), 1 right tensor without a suggestion" in file.read_text("utf-8")


def test_nothing_found_is_1_and_json_is_refused(tmp_path, suggested, capsys):
    write_reference(tmp_path / "run", {"a": np.arange(30.0)})
    write_reference(tmp_path / "ref", {"x": np.arange(30.0) ** 2})
    assert suggested("run", "ref")[:2] == (1, {})
    assert main(["match", "run", "ref", "--suggest", "--json"]) == 4
    assert "leave --json out" in capsys.readouterr().err


def test_an_existing_file_is_not_replaced(lenet, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text("mine", encoding="utf-8")
    sides = [str(lenet / "target"), str(lenet / "reference")]
    assert main(["match", *sides, "--suggest", "-o", "mine.toml"]) == 4
    assert "mine.toml is there already" in capsys.readouterr().err
    assert (tmp_path / "mine.toml").read_text("utf-8") == "mine"


@pytest.mark.parametrize("option", [["-o", "x.toml"], ["--as", "python"]])
def test_where_and_how_to_write_need_suggest(lenet, option):
    assert main(["match", str(lenet / "target"), str(lenet / "reference"), *option]) == 4


def test_python_gets_the_map_of_assert_dumps_close(lenet, capsys):
    sides = [str(lenet / "target"), str(lenet / "reference")]
    assert main(["match", *sides, "--suggest", "--as", "python"]) == 0
    source = capsys.readouterr().out.partition("pairs = ")[2]
    report = assert_dumps_close(*sides, map=ast.literal_eval(source), min_coverage=1.0)
    assert len(report.records) == 10


def test_what_the_suite_already_says_is_in_the_new_one(lenet, tmp_path):
    left, right = lenet / "target", lenet / "reference"
    (tmp_path / "msdump.toml").write_text(
        f'[msdump]\nleft = "{left.as_posix()}"\nright = "{right.as_posix()}"\nright_format = "NCHW"\n'
        '[[msdump.map]]\nleft = "Default/fc1-Dense/BiasAdd-op0"\nright = "fc1"\n',
        encoding="utf-8",
    )
    assert main(["match", "--config", "msdump.toml", "--suggest", "--io", "all", "-o", "whole.toml"]) == 0
    table = read_toml(tmp_path / "whole.toml")["msdump"]
    assert (table["right_format"], table["io"], len(table["map"])) == ("NCHW", "all", 10)
    assert table["map"][0] == {"left": "Default/fc1-Dense/BiasAdd-op0", "right": "fc1"}


def write_port(folder, operators):
    """Write a recording: names, types and values in order; a name that comes again is another call."""
    folder.mkdir()
    tensors = {}
    for place, (name, op_type, values) in enumerate(operators):
        file = f"{mangle(name)}.0.{1_700_000_000_000_000 + place}.npy"
        np.save(folder / file, values)
        tensors[file] = {"op": name, "op_type": op_type}
    manifest = {"schema_version": 1, "framework": "torch", "complete": True, "tensors": tensors}
    (folder / "msdump.json").write_text(json.dumps(manifest), "utf-8")


def residual_ports(tmp_path, draw):
    """A reference of two residual blocks, and its export with folded norms, other names and values that are all off."""

    def new():
        return draw.standard_normal((1, 4, 5, 5)).astype("f4")

    reference, port, truth, stream = [], [], {}, new()
    for block in range(2):
        first, second = new(), new()
        ours, theirs = first + np.float32(0.05) * new(), second + np.float32(0.05) * new()
        total = stream + second
        name = f"block.{block}"
        reference += [
            (f"{name}.conv1", "Conv2d", new()),
            (f"{name}.bn1", "BatchNorm2d", first),
            (f"{name}.relu", "ReLU", np.maximum(first, 0)),
            (f"{name}.drop", "Dropout", np.maximum(first, 0)),
            (f"{name}.conv2", "Conv2d", new()),
            (f"{name}.bn2", "BatchNorm2d", second),
            (f"{name}.relu", "ReLU", np.maximum(total, 0)),
            (name, "Block", np.maximum(total, 0)),
        ]
        port += [
            (f"n{5 * block}", "Conv", ours),
            (f"n{5 * block + 1}", "Relu", np.maximum(ours, 0)),
            (f"n{5 * block + 2}", "Conv", theirs),
            (f"n{5 * block + 3}", "Add", stream + theirs),
            (f"n{5 * block + 4}", "Relu", np.maximum(stream + theirs, 0)),
        ]
        truth |= {
            f"{name}.bn1:output:0": f"n{5 * block}:output:0",
            f"{name}.relu@0:output:0": f"n{5 * block + 1}:output:0",
            f"{name}.bn2:output:0": f"n{5 * block + 2}:output:0",
            f"{name}.relu@1:output:0": f"n{5 * block + 4}:output:0",
        }
        stream = np.maximum(total, 0)
    write_port(tmp_path / "run", port)
    write_port(tmp_path / "ref", reference)
    return truth


def test_a_port_that_is_wrong_in_its_first_layer_gets_all_its_entries(tmp_path, suggested):
    expected = residual_ports(tmp_path, np.random.default_rng(0))
    code, entries, file = suggested("run", "ref")
    assert (code, entries) == (0, expected)
    text = file.read_text("utf-8")
    assert "# these right tensors hold the values of another one that has a partner:" in text
    assert "#   block.0.drop:output:0" in text
    assert "#   block.0:output:0" in text


def test_what_was_asked_of_the_sides_is_in_the_suite(tmp_path, capsys):
    residual_ports(tmp_path, np.random.default_rng(0))
    manifest = tmp_path / "run" / "msdump.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"complete": true', '"complete": false'), "utf-8")
    asked = ["--allow-incomplete", "--select", "*", "--iteration", "0", "--align", "rank=0->0"]
    assert main(["match", "run", "ref", *asked, "--suggest", "-o", "whole.toml"]) == 0
    table = read_toml(tmp_path / "whole.toml")["msdump"]
    assert table["allow_incomplete"] is True
    assert table["select"] == ["*"]
    assert (table["iteration"], table["align"]) == ("0", {"rank": "0->0"})
    main(["compare", "--config", "whole.toml"])
    assert "8 tensors: " in capsys.readouterr().out


# Names of two siblings on the right and on the left, beside one tensor that is right.
SIBLINGS = {
    "heads": (("qa.start_logits", "qa.end_logits"), ("head_start_logits", "head_end_logits")),
    "query and key": (("attn.query", "attn.key"), ("blk.wq", "blk.wk")),
    "key and value": (("attn.k_proj", "attn.v_proj"), ("blk.key", "blk.value")),
    "gate and up": (("mlp.gate_proj", "mlp.up_proj"), ("ffn.w1", "ffn.w3")),
    "real and imaginary": (("spec.real", "spec.imag"), ("out_re", "out_im")),
    "mean and variance": (("bn.running_mean", "bn.running_var"), ("norm.moving_mean", "norm.moving_variance")),
    "gamma and beta": (("ln.gamma", "ln.beta"), ("ln1_scale", "ln1_shift")),
    "hidden and cell state": (("rnn.hidden", "rnn.cell"), ("lstm_h", "lstm_c")),
    "experts": (("moe.experts.0", "moe.experts.1"), ("expert_0", "expert_1")),
    "numbers of an exporter": (("qa.first", "qa.second"), ("node_linear_1", "node_linear_2")),
}


def siblings(tmp_path, what, left_values, *, order=(0, 1)):
    """Write a reference of a trunk, two siblings and a tail, and a run; return what names pair."""
    rights, lefts = SIBLINGS[what]
    values = np.random.default_rng(0).standard_normal((4, 6, 8)).astype("f4")
    write_reference(
        tmp_path / "ref", {"net.trunk": values[0], **dict(zip(rights, values[1:3], strict=True)), "tail": values[3]}
    )
    named = dict(zip(lefts, left_values(values), strict=True))
    write_reference(
        tmp_path / "run", {"trunk_out": values[0], **{lefts[n]: named[lefts[n]] for n in order}, "behind": values[3]}
    )
    return {f"{right}:output:0": f"{left}:output:0" for right, left in zip(rights, lefts, strict=True)}


OTHERS = {"net.trunk:output:0": "trunk_out:output:0", "tail:output:0": "behind:output:0"}


@pytest.mark.parametrize("what", SIBLINGS)
def test_siblings_that_a_port_has_swapped_are_no_entries_and_the_suite_fails(tmp_path, what, capsys):
    named = siblings(tmp_path, what, lambda values: values[[2, 1]])
    assert main(["init", "run", "ref", "-o", "first.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    table = read_toml(tmp_path / "first.toml")["msdump"]
    text = (tmp_path / "first.toml").read_text("utf-8")
    assert main(["compare", "--config", "first.toml"]) == 1
    records = read_json(tmp_path / "msdump-report/results.json")["tensors"]
    # What names say is paired without an entry, and fails; where they say nothing, the entry is a comment.
    paired = {one["right"]["address"]: one["left"]["address"] for one in records}
    assert paired.items() <= {**OTHERS, **named}.items()
    assert {one["right"]["address"] for one in records if one["verdict"] == "fail"} == paired.keys() - OTHERS.keys()
    if paired == OTHERS:
        assert {one["right"]: one["left"] for one in table["map"]}.items() <= OTHERS.items()
        for right, left in named.items():
            assert f"# ambiguous: {right}: values are those of another tensor than names or order say" in text
            assert f'# left = "{left}"\n# right = "{right}"' in text
        assert "50 % of the right tensors have a partner, and less than 100 % will fail" in said
        assert f"it fails until an entry names the partner of (min_coverage): {', '.join(named)}" in said


HEADS = {
    # What the left gives as start and end, of the right's start (0) and end (1), None where it lacks one.
    "one has the other's values, which is not there": ((None, 0), 1),
    "both have one's values": ((0, 0), 1),
    "both have the other's values": ((1, 1), 1),
    "one is wrong, and the other has its values": ((2, 0), 1),
    "one is not there": ((None, 1), 0),
    "both are wrong": ((2, 3), 1),
}


@pytest.mark.parametrize("what", HEADS)
def test_heads_that_a_port_mixes_up_are_not_green(tmp_path, what):
    values = np.random.default_rng(0).standard_normal((5, 6, 8)).astype("f4")
    given, code = HEADS[what]
    write_reference(
        tmp_path / "ref", {"bert.encoder": values[4], "qa.start_logits": values[0], "qa.end_logits": values[1]}
    )
    heads = {
        name: values[number]
        for name, number in zip(("head_start", "head_end"), given, strict=True)
        if number is not None
    }
    write_reference(tmp_path / "run", {"encoder_out": values[4], **heads})
    main(["init", "run", "ref", "-o", "first.toml", "--quiet"])
    assert main(["compare", "--config", "first.toml"]) == code


def test_names_choose_between_siblings_that_drift_makes_alike(tmp_path, suggested):
    one, noise = np.random.default_rng(0).standard_normal((2, 6, 8)).astype("f4")
    other = one + np.float32(2e-4) * noise
    write_reference(tmp_path / "ref", {"a.trunk": noise, "qa.start": one, "qa.end": other})
    write_reference(tmp_path / "run", {"trunk": noise, "h_start": other, "h_end": one})
    _, entries, _ = suggested("run", "ref")
    assert entries["qa.start:output:0"] == "h_start:output:0"
    assert entries["qa.end:output:0"] == "h_end:output:0"


def test_a_wrong_sibling_gives_way_to_the_one_that_has_the_values(tmp_path, suggested):
    """The kind speaks for the first of two operators, which has its axes in another order."""
    draw = np.random.default_rng(0)
    before, given, after = draw.standard_normal((3, 5, 2, 2, 4)).astype("f4")
    reference = [("emb", "Embedding", before), ("gru", "GRU", given), ("fc", "Linear", after)]
    port = [
        ("node_embedding", "Gather", before),
        ("node_gru__1", "GRU", given.transpose(0, 2, 1, 3) + np.float32(0.1)),
        ("node_gru__0", "Transpose", given * np.float32(1 + 1e-6)),
        ("node_linear", "Gemm", after),
    ]
    write_port(tmp_path / "run", port)
    write_port(tmp_path / "ref", reference)
    _, entries, file = suggested("run", "ref")
    assert entries["gru:output:0"] == "node_gru__0:output:0"
    assert main(["compare", "--config", str(file)]) == 0


def test_halves_put_together_here_are_a_sum_there(tmp_path, suggested):
    """Rotary positions: the kind of the sum speaks for a half that has the size of another one."""
    draw = np.random.default_rng(0)
    hidden, query, key, scores = (
        draw.standard_normal(shape).astype("f4") for shape in ((2, 6, 8), (2, 4, 6, 8), (2, 2, 6, 8), (2, 4, 6, 6))
    )
    reference = [
        ("model.attn.q_proj/linear", "linear", hidden),
        ("model.attn/add", "add", query),
        ("model.attn/add", "add", key),
        ("model.attn/matmul", "matmul", scores),
    ]
    half = (0, 2, 1, 3)
    port = [
        ("attention.wq/linear", "linear", hidden),
        ("attention/add", "add", query[..., 4:].transpose(half)),
        ("attention/cat", "cat", query.transpose(half)),
        ("attention/add", "add", key[..., 4:].transpose(half)),
        ("attention/cat", "cat", key.transpose(half)),
        ("attention/matmul", "matmul", scores),
    ]
    write_port(tmp_path / "run", port)
    write_port(tmp_path / "ref", reference)
    _, entries, file = suggested("run", "ref")
    assert entries["model.attn/add:output:0"] == "attention/cat:output:0"
    assert main(["compare", "--config", str(file)]) == 0


def test_of_what_only_statistics_were_saved_all_of_them_have_to_agree(tmp_path, suggested):
    def tree(folder, first, calls):
        folder.mkdir()
        rows = ("Max", "Min", "Mean", "Norm")
        data = {
            f"{first}.language_model.{name}.Linear.forward.0": {
                "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 8]}
                               | dict(zip(rows, values, strict=True))],
                "input_kwargs": {},
                "output": [],
            }
            for name, values in calls.items()
        }  # fmt: skip
        head = {"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps(head | {"data": data}), "utf-8")
        (folder / "stack.json").write_text("{}", "utf-8")

    same, other = (2.0, -1.0, 0.25, 3.0), (1.0, -1.0, 0.125, 2.5)
    tree(tmp_path / "run", "Module.net_with_loss", {"q": same, "k": other, "v": other})
    tree(tmp_path / "ref", "Module.module.module", {"q": same, "k": (*other[:3], 2.6), "out": other})
    _, entries, file = suggested("run", "ref", "--io", "all")
    assert {right.split(":")[0].split(".")[-1] for right in entries} == {"q"}
    assert "# type, shape, end of the name and all statistics agree" in file.read_text("utf-8")


@pytest.mark.parametrize("elements", [24, 30])
def test_the_next_entry_names_only_what_can_pair(tmp_path, capsys, elements):
    sizes = {"q": 24, "k": 6, "v": 8, "o": 12}
    ours = {f"layers.0.attention.w{name}": np.arange(float(size)) for name, size in sizes.items()}
    theirs = {
        f"model.layers.0.self_attn.{name}_proj": values for name, values in zip(sizes, ours.values(), strict=True)
    }
    theirs["model.layers.0.self_attn.q_proj"] = np.arange(float(elements))
    write_reference(tmp_path / "run", ours)
    write_reference(tmp_path / "ref", theirs)
    main(["compare", "run", "ref", "--pair-by", "name"])
    told = capsys.readouterr().out
    assert ('right = "model.layers.0.self_attn.q_proj' in told) == (elements == 24)
    assert 'right = "model.layers.0.self_attn.' in told
