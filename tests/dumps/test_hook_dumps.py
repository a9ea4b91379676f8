"""Dumps that hooks of SGLang and Transformers made, compared with what hooks of our own saw, and damaged ones."""

import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from dumps.reading import elements

from pytest_msdump.capabilities.hook_dumps.reader import (
    SglangDumperReader,
)
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

DATA = Path(__file__).parent.parent / "data" / "hooks"
VALUES = np.load(DATA / "values.npz")
DUMPER, PASSES, TREE, TEXTS = (DATA / name for name in ("sglang_dumper", "sglang_passes", "debug_tree", "debug_texts"))
SHARDS = DATA / "sglang_shards"


def found(root):
    """Tensors by rank, iteration, address and occurrence."""
    places = [(ref.key.op.at, ref) for ref in index(root).refs]
    return {(at.rank, at.iteration, ref.key.address, at.occurrence): ref for at, ref in places}


# -- What hooks of our own saw ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "start", "ranks", "steps"),
    [(DUMPER, "sglang_dumper/rank{}/", (0, 1), 1), (PASSES, "sglang_passes/rank{}/", (0, 1), 2)],
)
def test_modules_gave_what_hooks_of_our_own_saw(root, start, ranks, steps):
    tensors, checked = found(root), 0
    seen = dict(VALUES)
    if root == PASSES:
        # The hooks keep the output of the last call.
        seen = {f"{key.rpartition('/')[0]}/0": values for key, values in seen.items()}
    for key, values in seen.items():
        for rank in ranks:
            if key.startswith(start.format(rank)) and not key.endswith("/grad"):
                step, name, call = key.removeprefix(start.format(rank)).split("/")
                ref = tensors.get((rank, int(step[4:]), f"{name}:output:0", int(call)))
                if ref is not None:
                    np.testing.assert_array_equal(elements(ref), values)
                    checked += 1
    # The first pass of the forward hooks is written before all of its modules are done, and they write leaves alone.
    assert checked == (2 * 7 * steps if root == DUMPER else 2 * (5 + 3))


def test_arrays_beside_a_tree_are_those_of_the_last_call():
    tensors, start = found(TREE), "debug_tree/step0/"
    last = {key.rpartition("/")[0]: values for key, values in VALUES.items() if key.startswith(start)}
    checked = 0
    for key, values in last.items():
        ref = tensors.get((None, 0, f"{key.removeprefix(start)}:output:0", 0))
        if ref is not None:
            np.testing.assert_array_equal(elements(ref), values)
            checked += 1
    # Of a module with children the inputs alone are written.
    assert checked == 2 * 3 + 2
    mask = elements(tensors[None, 0, "model.layers.1:input:1", 0])
    np.testing.assert_array_equal(mask, np.full((2, 4), 0.5, np.float32))


def test_modules_that_a_tree_leaves_out_have_arrays_and_no_place():
    refs = index(TREE).refs
    without = {ref.key.op.label for ref in refs if ref.place is None}
    assert {"model.layers.1", "model.layers.1.fc", "model.layers.1.act"} <= without
    order = [ref.key.op.label for ref in refs if ref.place is not None]
    assert list(dict.fromkeys(order)) == [
        "Net", "model", "model.layers.0", "model.layers.0.fc", "model.layers.0.act", "model.layers.2",
        "model.layers.2.fc", "model.layers.2.act", "model.norm", "lm_head",
    ]  # fmt: skip


def test_texts_of_a_tree_are_statistics_of_few_digits():
    for (_, _, address, occurrence), ref in found(TEXTS).items():
        key = f"debug_texts/step0/{address.removesuffix(':output:0')}/{occurrence}"
        assert ref.is_unseen
        assert ref.statistics.digits == 5
        if key in VALUES:
            values, seen = ref.statistics.values, VALUES[key]
            assert (ref.spec.dtype, ref.spec.shape, values["count"]) == ("float32", seen.shape, seen.size)
            for name, exact in (("maximum", seen.max()), ("minimum", seen.min()), ("mean", seen.mean())):
                assert values[name] == pytest.approx(exact, rel=1e-4, abs=1e-7)
    assert "use_repr=False" in index(TEXTS).notes[0]


# -- Gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [DUMPER, PASSES, TREE])
def test_a_run_passes_against_itself_and_a_mistake_is_found(root, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = shutil.copytree(root, tmp_path / "left")
    assert main(["compare", str(left), str(root), "--io", "all"]) == 0, capsys.readouterr().out
    ref = next(ref for ref in index(left).refs if ref.key.op.label == "model.layers.0.act" and ref.key.io == "output")
    values, content = elements(ref), ref.source.path.read_bytes()
    at = content.index(values.tobytes())
    ref.source.path.write_bytes(content[:at] + (values + np.float32(1)).tobytes() + content[at + values.nbytes :])
    capsys.readouterr()
    assert main(["compare", str(left), str(root), "--io", "all"]) == 1
    assert "model.layers.0.act" in capsys.readouterr().out


def test_ranks_of_the_dumper_are_shards(tmp_path):
    suite = tmp_path / "msdump.toml"
    suite.write_text(
        f'[msdump]\nleft = "{DUMPER}"\nright = "{DUMPER}"\nselect = ["logits/layer_id=9"]\n'
        "[msdump.shards]\nleft = { axes = {tp = 2} }\nright = { axes = {tp = 2} }\n"
        '[[msdump.dims]]\nmatch = "*"\ndims = "b v[tp]"\n'
    )
    planned = plan(load_suite(file=suite, options={}, directory=tmp_path))
    (record,) = build_report(planned, compare_plan(planned)).records
    assert (record.verdict.outcome, record.left.shape) == ("pass", (2, 10))


# -- What files say of their rank -------------------------------------------------------------------------------------


def plan_by_meta(folder, left, right, more=""):
    suite = folder / "msdump.toml"
    suite.write_text(
        f'[msdump]\nleft = "{left}"\nright = "{right}"\n[msdump.shards]\nleft = {{ from = "meta" }}\n{more}'
    )
    return plan(load_suite(file=suite, options={}, directory=folder))


def records_by_meta(folder, left, right, more=""):
    planned = plan_by_meta(folder, left, right, more)
    records = build_report(planned, compare_plan(planned)).records
    return {record.left.key.op.label: record for record in records}


def shard_file(root, name, rank):
    (found,) = root.glob(f"run/*rank={rank}___*name={name}___*")
    return found


def changed(path, by):
    """Add a number to the first element of the one tensor of a file."""
    values = elements(next(ref for ref in index(path.parent).refs if ref.source.path == path)).ravel()
    content = path.read_bytes()
    at = content.index(values.tobytes())
    path.write_bytes(content[:at] + (values[:1] + np.float32(by)).tobytes() + content[at + 4 :])


CUT = {"megatron_4": {"hidden", "qkv", "out", "router"}, "sglang_2": {"attention", "experts", "logits", "ids"}}
CUT["sglang_dp_4"] = {"attention", "ids"}


@pytest.mark.parametrize("name", CUT)
def test_ranks_are_put_together_as_their_files_say(name, tmp_path):
    whole = SHARDS / f"{name[:-2]}_1"
    records = records_by_meta(tmp_path, SHARDS / name, whole)
    assert records.keys() == CUT[name] | {"loss"}
    assert all(record.equal for record in records.values())
    shapes = {ref.key.op.label: elements(ref).shape for ref in index(whole).refs}
    assert {op: record.left.shape for op, record in records.items()} == shapes


def test_a_tensor_that_is_empty_wherever_it_is_stays(tmp_path):
    left = shutil.copytree(SHARDS / "sglang_dp_4", tmp_path / "left")
    for rank in (0, 1):
        shard_file(left, "attention", rank).unlink()
    assert records_by_meta(tmp_path, left, SHARDS / "sglang_dp_1")["attention"].verdict.outcome == "error"


def test_batches_of_two_data_parallel_groups_are_not_one_tensor(tmp_path):
    left = shutil.copytree(SHARDS / "sglang_dp_4", tmp_path / "left")
    for path in (shard_file(left, "attention", rank) for rank in (2, 3)):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                # 21 elements of the storage, and 7 rows of 3 in place of none.
                many = content.replace(b"cpuq\x06K\x00t", b"cpuq\x06K\x15t").replace(b"QK\x00K\x00K", b"QK\x00K\x07K")
                archive.writestr(name, bytes(84) if name.endswith("data/0") else many)
    record = records_by_meta(tmp_path, left, SHARDS / "sglang_dp_1")["attention"]
    assert (record.verdict.outcome, record.verdict.findings[0].message.code) == ("error", "ambiguous")


@pytest.mark.parametrize("name", ["hidden", "qkv", "out"])
def test_a_mistake_of_one_rank_is_found_in_its_tensor(name, tmp_path):
    left = shutil.copytree(SHARDS / "megatron_4", tmp_path / "left")
    changed(shard_file(left, name, 2), 1)
    records = records_by_meta(tmp_path, left, SHARDS / "megatron_1")
    assert [op for op, record in records.items() if record.verdict.outcome != "pass"] == [name]


def test_a_copy_that_differs_is_found_with_its_rank(tmp_path):
    left = shutil.copytree(SHARDS / "megatron_4", tmp_path / "left")
    changed(shard_file(left, "router", 3), 1)
    finding = records_by_meta(tmp_path, left, SHARDS / "megatron_1")["router"].verdict.findings[0]
    assert (finding.outcome, finding.message.code, finding.message.parameters["rank"]) == ("fail", "replica", "rank 3")


def test_a_file_that_is_missing_is_an_error_of_its_tensor(tmp_path):
    left = shutil.copytree(SHARDS / "megatron_4", tmp_path / "left")
    shard_file(left, "qkv", 1).unlink()
    record = records_by_meta(tmp_path, left, SHARDS / "megatron_1")["qkv"]
    assert (record.verdict.outcome, record.verdict.findings[0].message.code) == ("error", "incomplete")


def test_the_suite_wins_over_what_files_say(tmp_path):
    entry = '[[msdump.dims]]\nmatch = "loss"\ndims = "# tp:partial cp:partial"\n'
    record = records_by_meta(tmp_path, SHARDS / "megatron_4", SHARDS / "megatron_1", entry)["loss"]
    assert record.verdict.outcome != "pass"
    # 0 + 1 + 2 + 3 on the left, 0 on the right.
    assert record.metrics["max_absolute_error"] == 6


def test_files_are_not_read_unless_the_suite_asks(monkeypatch, tmp_path):
    def refuse(path):
        raise AssertionError(path)

    monkeypatch.setattr("pytest_msdump.capabilities.hook_dumps.reader.saved_value", refuse)
    assert not any(ref.placement for ref in index(SHARDS / "megatron_4").refs)
    with pytest.raises(AssertionError):
        plan_by_meta(tmp_path, SHARDS / "megatron_4", SHARDS / "megatron_1")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    left = shutil.copytree(SHARDS / "megatron_4", tmp_path / "left")
    broken = shard_file(left, "router", 1)
    broken.write_bytes(broken.read_bytes()[:400])
    with pytest.raises(UnknownDumpFormatError, match="rank=1___dump_index=4___name=router"):
        plan_by_meta(tmp_path, left, SHARDS / "megatron_1")


def test_a_rank_is_in_one_place(tmp_path):
    left = shutil.copytree(SHARDS / "megatron_4", tmp_path / "left")
    shutil.copyfile(shard_file(left, "out", 0), shard_file(left, "out", 3))
    with pytest.raises(UnknownDumpFormatError, match="rank 3 is elsewhere than other files"):
        plan_by_meta(tmp_path, left, SHARDS / "megatron_1")


@pytest.mark.parametrize(
    ("value", "numbers", "dims"),
    [
        (7, {}, ""), ({"meta": 3}, {}, ""), ({"meta": {"dims": 3}}, {}, ""), ({"meta": {"dims": "h[tp]"}}, {}, "h[tp]"),
        ({"meta": {"dims": "h " * 5000}}, {}, ""), ({"meta": {"sglang_parallel_info": [1]}}, {}, ""),
        ({"meta": {"sglang_parallel_info": {"tp_rank": 1, "tp_size": 2}}}, {"tp": (1, 2)}, ""),
        ({"meta": {"sglang_parallel_info": {"tp_rank": 2, "tp_size": 2, 3: 4, "pp_rank": 0}}}, {}, ""),
        ({"meta": {"megatron_parallel_info": {"tp_rank": True, "tp_size": 2, "cp_rank": 0, "cp_size": 1}}}, {}, ""),
        ({"meta": {"megatron_parallel_info": {"dp_rank": -1, "dp_size": 2, "ep_rank": 0, "ep_size": 10**30}}}, {}, ""),
        ({"meta": {"megatron_parallel_info": {"vpp_rank": 0, "vpp_size": 2, "tcp_rank": 1, "tcp_size": 4}}}, {}, ""),
        ({"meta": {"megatron_parallel_info": {"sp_rank": 0, "sp_size": 2, "error": "x"}}}, {"sp": (0, 2)}, ""),
    ],
)  # fmt: skip
def test_only_what_can_be_meant_is_taken_from_a_file(value, numbers, dims, tmp_path):
    path = tmp_path / "step=0___rank=4___dump_index=1___name=x.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, 2))
    placed = SglangDumperReader().with_placements(index(tmp_path))
    assert placed.refs[0].placement == dims
    assert placed.ranks[4].distributed.coordinates == numbers


# -- Names, two runs, hostile content --------------------------------------------------------------------------------


def saved(root, *names):
    root.mkdir()
    for name in names:
        shutil.copyfile(next(DUMPER.glob("run/*rank=0___dump_index=1___*")), root / name)
    return root


def test_slots_are_places_among_keys_numbers_first(tmp_path):
    keys = ["mask", "10", "2", "a.0"]
    names = [f"step=0___rank=0___dump_index={n}___name=non_intrusive__f.inputs.{key}.pt" for n, key in enumerate(keys)]
    refs = index(saved(tmp_path / "dump", *names)).refs
    slots = {ref.source.name.rpartition(".inputs.")[2]: ref.key.slot for ref in refs}
    assert slots == {"2.pt": 0, "10.pt": 1, "a.0.pt": 2, "mask.pt": 3}


@pytest.mark.parametrize(
    ("root", "name"), [(DUMPER / "run", "run"), (PASSES / "TP0_PP0_Rank0_pid1", "TP0_PP0_Rank0_pid7"), (TREE, "tree")]
)
def test_two_runs_into_one_folder_are_refused_with_what_to_do(tmp_path, root, name):
    shutil.copytree(root, tmp_path / root.name)
    shutil.copytree(root, tmp_path / "other" / name)
    with pytest.raises(UnknownDumpFormatError, match="two runs into one directory"):
        index(tmp_path)
    assert index(tmp_path / "other").refs


def test_other_files_are_unexplained(tmp_path):
    for root in (DUMPER, PASSES, TREE):
        copy = shutil.copytree(root, tmp_path / root.name)
        for folder in (copy, *(one for one in copy.iterdir() if one.is_dir())):
            (folder / "notes.txt").write_text("")
        dump = index(copy)
        assert {path.name for path in dump.unexplained} == {"notes.txt"}
        assert len(dump.refs) == len(index(root).refs)


def test_a_value_that_is_no_tensor_is_an_error_of_its_own(tmp_path):
    name = "step=0___rank=0___dump_index=1___name=a.pt"
    (ref,) = index(saved(tmp_path / "dump", name)).refs
    shutil.copyfile(next(PASSES.rglob("*.pt")), ref.source.path)
    with pytest.raises(TensorFileError, match="has 3 tensors, not the one"):
        elements(ref)
    ref.source.path.write_bytes(b"x")
    with pytest.raises(TensorFileError, match="not a zip archive"):
        elements(ref)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", "{", "[" * 100_000, '{"module_path": 3, "children": {}}', '{"children": [3, null, [{}]]}',
        '{"inputs": [], "outputs": {"shape": 3, "dtype": 4}}', '{"inputs": {"args": ' + "[" * 500 + "]" * 500 + "}}",
        '{"module_path": "N", "outputs": {"shape": "torch.Size([9999999999999999])", "dtype": "", "max": "tensor(a)"}}',
        '{"module_path": "N\\u001b[2J", "outputs": {"shape": "", "dtype": "torch.float32", "max": 4, "mean": null}}',
    ],
)  # fmt: skip
def test_a_tree_that_is_damaged_is_no_crash(tmp_path, text):
    for name in ("N_debug_tree_FULL_TENSORS.json", "N_debug_tree_SUMMARY.json"):
        (tmp_path / name).write_text(text)
    assert len(index(tmp_path).refs) <= 1


def test_a_tree_names_no_file_of_another_folder(tmp_path):
    copy = shutil.copytree(TREE, tmp_path / "tree")
    path = copy / "Net_debug_tree_FULL_TENSORS.json"
    path.write_text(path.read_text().replace("./Net.lm_head_outputs.safetensors", "../secret.safetensors"))
    refs = index(copy).refs
    assert {ref.source.folder for ref in refs} == {copy}
    assert len(refs) == len(index(TREE).refs)
