"""Dumps of killed runs and of careless copies: each bad file is told by its tensor, and the rest is compared."""

import os
import shutil
from pathlib import Path

import pytest
from semantics.gate import ask

DATA = Path(__file__).parents[1] / "data"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 140\n"


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def cut_header(path):
    path.write_bytes(path.read_bytes()[:40])


def emptied(path):
    path.write_bytes(b"")


def pointer(path):
    path.write_bytes(POINTER)


def grown(path):
    path.write_bytes(path.read_bytes() + b"\0")


def copied(source, target):
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


def damaged(tree, pattern, how):
    (path,) = tree.rglob(pattern)
    how(path)
    return path


def test_a_training_dump_with_four_bad_files_is_told_file_by_file(tmp_path):
    left = copied(DATA / "lenet" / "target", tmp_path / "left")
    outputs = sorted(path for path in left.rglob("*.output.0.*.npy") if not path.name.startswith("Parameter"))
    by_address = {}
    for path, how in zip(outputs[::2], (cut, emptied, pointer, Path.unlink), strict=False):
        how(path)
        by_address[path.name.split(".")[1]] = how
    answer = ask(left, DATA / "lenet" / "target", "--io", "all")
    assert answer.code == 1
    counts = answer.results["counts"]
    assert (counts["error"], counts["unmatched_right"]) == (3, 1)
    assert counts["pass"] == 49
    sentences = {
        record["left"]["name"]: record["findings"][0]["sentence"]
        for record in answer.results["tensors"]
        if record["verdict"] == "error"
    }
    wanted = {
        cut: "the run was probably killed while writing: dump it again",
        emptied: "is empty (0 bytes); the run was probably killed while writing: dump it again",
        pointer: "is a Git LFS pointer, not the tensor itself; run `git lfs pull`",
    }
    for name, how in by_address.items():
        if how in wanted:
            assert wanted[how] in sentences[name]
        else:
            assert name not in sentences
    assert "cut off after" in "".join(sentences.values())
    (gone,) = answer.results["unmatched"]
    assert gone["reason"]


# A tree of each layout, an output in it, what happens to its file, and what is said of it.
DAMAGE = [
    ("g1", "iteration_1/*BiasAdd-op2_output_0_*.bin", cut, "cut off after 23 of 24 bytes; the run was probably killed"),
    ("g1", "iteration_1/*BiasAdd-op2_output_0_*.bin", emptied, "is empty (0 bytes); the run was probably killed"),
    ("g1", "iteration_1/*BiasAdd-op2_output_0_*.bin", pointer, "is a Git LFS pointer, not the tensor itself"),
    ("g1", "iteration_1/*BiasAdd-op2_output_0_*.bin", grown, "1 bytes too many"),
    ("g1b", "*BiasAdd-op2_output_0.npy", cut, "cut off after 23 of 24 bytes"),
    ("g6_npy", "1/*BiasAdd-op2*.output.0.*.npy", pointer, "is a Git LFS pointer, not the tensor itself"),
    ("g7b_npy", "0/*BiasAdd-op2*.output.0.*.npy", emptied, "is empty (0 bytes)"),
    ("converted_shape", "0/1/*BiasAdd-op2*.output.0.*.npy", grown, "1 bytes too many"),
]


@pytest.mark.parametrize(
    ("tree", "pattern", "how", "sentence"), DAMAGE, ids=[f"{tree}-{how.__name__}" for tree, _, how, _ in DAMAGE]
)
def test_a_bad_file_of_any_layout_is_its_tensors_error_alone(tmp_path, tree, pattern, how, sentence):
    left = copied(DATA / "generations" / tree, tmp_path / "left")
    path = next(path for path in sorted(left.rglob("*")) if path.is_file() and path.match(pattern))
    how(path)
    answer = ask(left, DATA / "generations" / tree, "--io", "all")
    assert answer.code == 1
    (bad,) = (record for record in answer.results["tensors"] if record["verdict"] != "pass")
    assert bad["verdict"] == "error"
    assert Path(bad["left"]["file"]).name == path.name
    assert sentence in bad["findings"][0]["sentence"]
    assert len(answer.results["tensors"]) in (3, 6)


def test_a_header_that_is_cut_is_told_as_such(tmp_path):
    left = copied(DATA / "generations" / "g4", tmp_path / "left")
    damaged(left, "1/BiasAdd*output*", cut_header)
    answer = ask(left, DATA / "generations" / "g4")
    assert answer.code == 1
    assert "inside its header" in answer.text


def test_files_that_are_readable_only_are_read_and_stay_so(tmp_path):
    left = copied(DATA / "generations" / "g1", tmp_path / "left")
    modes = {}
    for path in sorted(left.rglob("*"), reverse=True):
        path.chmod(0o500 if path.is_dir() else 0o400)
        modes[path] = path.stat().st_mode
    assert ask(left, DATA / "generations" / "g4", "--io", "all").code == 0
    assert {path: path.stat().st_mode for path in modes} == modes
    for path in modes:
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_its_tensors_error(tmp_path):
    left = copied(DATA / "generations" / "g1", tmp_path / "left")
    damaged(left, "iteration_1/*BiasAdd-op2_output_0_*", lambda path: path.chmod(0))
    answer = ask(left, DATA / "generations" / "g1")
    assert answer.code == 1
    assert "make it readable (MindSpore writes its files for their owner only)" in answer.text
