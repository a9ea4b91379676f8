"""Folders of files of several tensors, as hooks and checkpoints leave them; numbers in names that are an order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_dump
from pytest_msdump.core.dumps.base import index_dump

TORCH = Path(__file__).parents[1] / "data" / "torch"
ONES, TWOS = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)


def addresses(folder: Path) -> list[str]:
    return [ref.key.address for ref in index_dump(folder).refs]


def safetensors(path: Path, **arrays: np.ndarray) -> None:
    """A file as the format's page describes it."""
    entries, data = {}, b""
    for name, array in arrays.items():
        entries[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.astype("<f4").tobytes()
    head = json.dumps(entries).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def test_a_file_of_one_tensor_is_the_operator_of_its_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.layers.0.mlp.npz", ONES)
    np.savez(tmp_path / "lm_head.npz", output=TWOS)
    shutil.copy(TORCH / "one.pth", tmp_path / "model.norm.pth")
    assert addresses(tmp_path) == ["lm_head:output:0", "model.layers.0.mlp:output:0", "model.norm:output:0"]
    np.testing.assert_array_equal(open_dump(tmp_path).read("lm_head"), TWOS)


@pytest.mark.parametrize(
    "files",
    [
        {"model-00001-of-00002": {"a": ONES}, "model-00002-of-00002": {"b": TWOS, "c": ONES}},
        {"model": {"a": ONES, "b": TWOS, "c": ONES}},
        {"weights_of_today": {"a": ONES, "b": TWOS, "c": ONES}},
    ],
)
def test_the_files_of_a_checkpoint_name_their_tensors_themselves(tmp_path: Path, files: dict) -> None:
    for name, arrays in files.items():
        safetensors(tmp_path / f"{name}.safetensors", **arrays)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    dump = index_dump(tmp_path)
    shown = [ref.key.op.name for ref in dump.refs]
    expected = ["a", "b", "c"] if len(files["model" if "model" in files else next(iter(files))]) > 1 else None
    assert shown == (expected or ["b", "c", "model-00001-of-00002"])
    assert [path.name for path in dump.unexplained] == ["model.safetensors.index.json"]


def test_two_folders_are_gated_by_their_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, last in (("left", TWOS), ("right", ONES)):
        (tmp_path / side).mkdir()
        np.savez(tmp_path / side / "layers.0.npz", ONES)
        np.savez(tmp_path / side / "layers.1.npz", last)
    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right"), f"--report-dir={tmp_path}/report"]) == 1
    assert "2 tensors: 1 pass, 1 fail, 100 % of the reference compared" in capsys.readouterr().out


def test_numbers_of_order_pair_what_ran_again_by_occurrence(tmp_path: Path) -> None:
    """One tensor more on one side shifts nothing: names and occurrences pair, and the number says when."""
    for side, names in (("left", ["x", "fc", "act", "out", "act"]), ("right", ["fc", "act", "out", "act"])):
        (tmp_path / side).mkdir()
        for number, name in enumerate(names):
            np.save(tmp_path / side / f"{name}_float32_{number}.npy", ONES)
    refs = index_dump(tmp_path / "left").refs
    assert [(ref.key.op.name, ref.key.op.at.occurrence) for ref in sorted(refs, key=lambda ref: ref.source.name)] == [
        ("act", 0),
        ("act", 1),
        ("fc", 0),
        ("out", 0),
        ("x", 0),
    ]
    assert [ref.place for ref in refs] == sorted(ref.place for ref in refs if ref.place is not None)
    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right"), f"--report-dir={tmp_path}/report"]) == 0


def test_a_number_that_two_files_have_is_no_order(tmp_path: Path) -> None:
    for name in ("1_conv.npy", "1_act.npy", "2_fc.npy"):
        np.save(tmp_path / name, ONES)
    assert addresses(tmp_path) == ["1_act:output:0", "1_conv:output:0", "2_fc:output:0"]


@pytest.mark.parametrize("save", [np.save, np.savez], ids=["npy", "npz"])
@pytest.mark.parametrize(
    ("folders", "places"),
    [
        (["0", "1"], [(0, None, ""), (1, None, "")]),
        (["step_3", "step_12"], [(3, None, ""), (12, None, "")]),
        (["iter1", "Iter2"], [(1, None, ""), (2, None, "")]),
        (["rank_0/step_1", "rank_1/step_1"], [(1, 0, ""), (1, 1, "")]),
        (["step_1/rank_0", "step_1/rank_1"], [(1, 0, ""), (1, 1, "")]),
        (["step_0/1", "step_0/2"], [(0, None, "1/"), (0, None, "2/")]),
        ([".", "test_data_set_1"], [(0, None, ""), (1, None, "")]),
        ([".", "0"], [(0, None, ""), (0, None, "0/")]),
        (["layer_0", "layer_1"], [(0, None, "layer_0/"), (0, None, "layer_1/")]),
        (["layers/0", "layers/1"], [(0, None, "layers/0/"), (0, None, "layers/1/")]),
        (["1", "01"], [(0, None, "01/"), (0, None, "1/")]),
        (["step_0", "iter_1"], [(0, None, "iter_1/"), (0, None, "step_0/")]),
        (["step_0", "head"], [(0, None, "head/"), (0, None, "step_0/")]),
    ],
)
def test_folders_that_one_word_counts_are_iterations_or_ranks_and_others_scopes(
    save, folders, places, tmp_path
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        save(tmp_path / folder / "stages.0.0", ONES) if save is np.savez else save(
            tmp_path / folder / "stages.0.0.npy", ONES
        )
        save(tmp_path / folder / "head", TWOS)
    shown = {
        (ref.key.op.at.iteration, ref.key.op.at.rank, ref.key.op.name.removesuffix("head"))
        for ref in index_dump(tmp_path).refs
        if ref.key.op.name.endswith("head")
    }
    assert shown == set(places)
    assert len(index_dump(tmp_path).refs) == 4


def test_no_tensor_is_left_out_for_the_format_of_another(tmp_path: Path) -> None:
    """Arrays beside archives, beside names that end in numbers, and beside names with a time."""
    np.save(tmp_path / "head.npy", ONES)
    np.savez(tmp_path / "attn.npz", q=ONES, k=TWOS)
    np.save(tmp_path / "stages.0.0.npy", ONES)
    assert set(addresses(tmp_path)) == {"k:output:0", "q:output:0", "head:output:0", "stages.0.0:output:0"}
    (tmp_path / "attn.npz").unlink()
    assert set(addresses(tmp_path)) == {"head:output:0", "stages.0.0:output:0"}
    np.save(tmp_path / "fc.0.1700000000000000.npy", ONES)
    assert set(addresses(tmp_path)) == {"fc:output:0", "head:output:0", "stages.0.0:output:0"}


def test_two_files_of_one_name_are_two_operators(tmp_path: Path) -> None:
    np.save(tmp_path / "fc.npy", ONES)
    np.savez(tmp_path / "fc.npz", ONES)
    for part in ("unet", "vae"):
        (tmp_path / part).mkdir()
        safetensors(tmp_path / part / "model.safetensors", a=ONES, b=TWOS)
    names = {"fc.npy", "fc.npz", "unet/a", "unet/b", "vae/a", "vae/b"}
    assert {ref.key.op.name for ref in index_dump(tmp_path).refs} == names
