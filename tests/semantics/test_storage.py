"""What other tools get wrong of files and shapes, through the whole gate; one law each."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask, ask_arrays

from pytest_msdump import compare

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0123abcd" * 8 + b"\nsize 12345\n"


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


class MakesAFile:
    """Unpickled, it makes a file: proof that somebody unpickled it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("side", ["left", "right"])
def test_objects_are_refused_and_never_unpickled(tmp_path: Path, side: str) -> None:
    made = tmp_path / "made by unpickling"
    arrays = {"left": np.ones(1), "right": np.ones(1)}
    arrays[side] = np.array([MakesAFile(made)], dtype=object)
    np.save(tmp_path / "proof.npy", arrays[side])
    answer = ask_arrays(tmp_path, arrays["left"], arrays["right"])
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert not made.exists()
    np.load(tmp_path / "proof.npy", allow_pickle=True)
    assert made.exists()


def test_nhwc_against_nchw_is_an_error_that_names_the_permutation(tmp_path: Path) -> None:
    nchw = values(2, 3, 4, 5)
    nhwc = nchw.transpose(0, 2, 3, 1)
    answer = ask_arrays(tmp_path, nchw, nhwc)
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    # numpy.transpose(right, [0, 3, 1, 2]) is the left.
    assert "[0, 3, 1, 2]" in answer.text
    assert compare(nchw, nhwc, transpose=(0, 3, 1, 2)).verdict.outcome == "pass"
    assert compare(nchw, nhwc * 2, transpose=(0, 3, 1, 2)).verdict.outcome == "fail"


DAMAGED = {
    "pointer of Git LFS": (lambda _: LFS_POINTER, "Git LFS"),
    "cut in the magic": (lambda data: data[:5], "cut off"),
    "cut in the header": (lambda data: data[:40], "cut off"),
    "cut behind the header": (lambda data: data[:128], "cut off"),
    "cut in the body": (lambda data: data[:-1], "cut off"),
    "zero bytes": (lambda _: b"", "empty"),
    "bytes too many": (lambda data: data + b"x", "too many"),
    "an HTML page": (lambda _: b"<!DOCTYPE html><html></html>", "not an npy file"),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_an_error_that_says_how(tmp_path: Path, damage: str, side: str) -> None:
    change, word = DAMAGED[damage]
    for name in ("left", "right"):
        np.save(tmp_path / f"{name}.npy", values(7, 3))
    file = tmp_path / f"{side}.npy"
    file.write_bytes(change(file.read_bytes()))
    answer = ask(tmp_path / "left.npy", tmp_path / "right.npy")
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert word in answer.sentences
    assert file.name in answer.sentences
    assert "Traceback" not in answer.text
