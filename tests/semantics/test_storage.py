"""What other tools get wrong of files and shapes, through the whole gate; one law each."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask, ask_arrays

from pytest_msdump import compare, open_dump

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0123abcd" * 8 + b"\nsize 12345\n"


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


class MakesAFile:
    """Unpickled, it makes a file: proof that somebody unpickled it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


def test_big_endian_files_are_read_by_value(tmp_path: Path) -> None:
    right = values(4, 5)
    same = ask_arrays(tmp_path, right.astype(">f4"), right)
    assert (same.code, same.record["equal"]) == (0, True)
    assert ask_arrays(tmp_path, right.astype(">f4") * 2, right).code == 1


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


def bfloat16_file(folder: Path, descr: str, data: bytes) -> Path:
    """A MindSpore dump of one BFloat16 tensor of three elements, its header written by hand."""
    place = folder / "rank_0" / "Net" / "0" / "0"
    place.mkdir(parents=True)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,), }}".encode().ljust(117) + b"\n"
    file = place / "Cast.Default_Cast-op0.0.0.1700000000000000.output.0.DefaultFormat.BFloat16.npy"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    return folder


# 1, 3.140625 and -2: the upper halves of their float32 bits.
BITS = bytes.fromhex("803f 4940 00c0")


@pytest.mark.parametrize("descr", ["|V2", "<V2", "<u2", "<E2"])
def test_bfloat16_is_read_however_it_is_stored(tmp_path: Path, descr: str) -> None:
    stored = bfloat16_file(tmp_path / descr.strip("|<"), descr, BITS)
    dump = open_dump(stored)
    assert dump.read("Default_Cast-op0").tolist() == [1.0, 3.140625, -2.0]
    with closing(dump.open("Default_Cast-op0")) as view:
        assert view.dtype == "bfloat16"
    widened = np.array([1, 3.140625, -2], "<f4").tobytes()
    wide = bfloat16_file(tmp_path / "wide", "<f4", widened)
    assert ask(stored, wide, "--profile", "bitwise").code == 0
    other = bfloat16_file(tmp_path / "other", descr, BITS[:-1] + b"\x40")
    answer = ask(other, wide)
    assert (answer.code, answer.record["judged_as"]) == (1, "bfloat16")


def test_nothing_is_broadcast(tmp_path: Path) -> None:
    for left, right in (((), (3,)), ((1,), (3,)), ((3, 1), (3, 3)), ((), (1,))):
        assert ask_arrays(tmp_path, np.ones(left), np.ones(right)).code == 1


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


def test_a_header_that_claims_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    for name in ("left", "right"):
        np.save(tmp_path / f"{name}.npy", values(7, 3))
        file = tmp_path / f"{name}.npy"
        data = file.read_bytes()
        claim = data[:128].replace(b"(7, 3), }" + b" " * 12, b"(7, 3000000000000), }")
        assert len(claim) == 128
        assert claim != data[:128]
        file.write_bytes(claim + data[128:])
    answer = ask(tmp_path / "left.npy", tmp_path / "right.npy")
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert "cut off" in answer.sentences
