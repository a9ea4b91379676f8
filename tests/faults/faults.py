"""Faults that the gate must find: each is put alone into a copy of the lenet dumps.

``python tests/faults/faults.py`` prints every fault with the exit code, the tensor named first and why; it exits with
1 when a fault went unnoticed, or when another tensor was blamed. `test_faults.py` runs the same table.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from trials import LENET, Array, Change, Trial, by_command

Injection = Callable[[Trial], None]

CONV1 = "Default/conv1-Conv2d/BiasAdd-op0:output:0"
RELU1 = "Default/relu1-ReLU/ReLU-op0:output:0"
POOL1 = "Default/pool1-MaxPool2d/MaxPool-op0:output:0"
CONV2 = "Default/conv2-Conv2d/BiasAdd-op0:output:0"
RELU2 = "Default/relu2-ReLU/ReLU-op0:output:0"
POOL2 = "Default/pool2-MaxPool2d/MaxPool-op0:output:0"
FLATTEN = "Default/flatten-Flatten/Flatten-op0:output:0"
FC1 = "Default/fc1-Dense/BiasAdd-op0:output:0"
RELU3 = "Default/relu3-ReLU/ReLU-op0:output:0"
FC2 = "Default/fc2-Dense/BiasAdd-op0:output:0"
WEIGHT = "fc1_weight:output:0"
INTEGER = "Default/fc1-Dense/BiasAdd-op0:input:2"
BOOL = "Default/fc1-Dense/MatMul-op0:input:2"
CONV1_INPUT = "Default/conv1-Conv2d/Conv2D-op0:input:0"


class Fault(NamedTuple):
    """A fault, the tensor that must be named first, how the sides are paired, and what the suite says beside that."""

    what: str
    inject: Injection
    named: str
    by: str = "map"
    settings: Mapping[str, Any] = {}
    says: str = ""


def values(address: str, change: Change, side: str = "left") -> Injection:
    """Put other values into one tensor."""
    return lambda trial: trial.change(address, change, side)


def both(address: str, right_address: str, left: Change, right: Change) -> Injection:
    """Put values into both sides of a pair."""

    def inject(trial: Trial) -> None:
        trial.change(address, left)
        trial.change(right_address, right, "right")

    return inject


def content(address: str, change: Callable[[bytes], bytes], side: str = "left") -> Injection:
    """Put other bytes into one tensor's file."""

    def inject(trial: Trial) -> None:
        file = trial.file(address, side)
        file.write_bytes(change(file.read_bytes()))

    return inject


def renamed(address: str, old: str, new: str) -> Injection:
    """Give one tensor's file another name."""

    def inject(trial: Trial) -> None:
        file = trial.file(address)
        assert old in file.name
        file.rename(file.with_name(file.name.replace(old, new)))

    return inject


def removed(address: str, side: str = "left") -> Injection:
    """Take a tensor's file away."""
    return lambda trial: trial.file(address, side).unlink()


def put(value: float, where: int | Callable[[Array], Any] = 0) -> Change:
    """Return a change of one element: the given one in C order, or where a function of the array says."""

    def change(array: Array) -> Array:
        array = array.copy()
        array.flat[where if isinstance(where, int) else int(where(array))] = value
        return array

    return change


def flipped(bit: int, where: Callable[[Array], Any]) -> Change:
    """Return a change of one bit of the element that `where` finds."""

    def change(array: Array) -> Array:
        bits = array.view(np.uint32).copy()
        bits.flat[int(where(array))] ^= np.uint32(1 << bit)
        return bits.view(array.dtype)

    return change


def largest(array: Array) -> Any:
    return np.abs(array).argmax()


def typical(array: Array) -> Any:
    return np.argsort(np.abs(array), axis=None)[array.size * 3 // 4]


def one_channel_zero(array: Array) -> Array:
    array = array.copy()
    array[:, 3] = 0
    return array


def as_bfloat16(array: Array) -> Array:
    return (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def one_in_four_million(trial: Trial) -> None:
    large = np.random.default_rng(7).standard_normal((1, 4, 1024, 1024), dtype=np.float32)
    wrong = large.copy()
    wrong[0, 2, 777, 333] += 0.5
    np.save(trial.file(POOL1), wrong)
    np.save(trial.file("pool1", "right"), large)


def contents_swapped(trial: Trial) -> None:
    one, other = trial.file(CONV1), trial.file(RELU1)
    saved = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(saved)


def run_again_wrongly(trial: Trial) -> None:
    folder = trial.left / "rank_0/Lenet/0/0"
    for file in sorted(folder.glob("*.npy")):
        _, _, _, _, timestamp, *_ = file.name.split(".")
        again = file.with_name(file.name.replace(timestamp, str(int(timestamp) + 60_000_000)))
        shutil.copy(file, again)
        if "relu2-ReLU_ReLU-op0" in file.name and ".output." in file.name:
            np.save(again, np.load(again) * 2)


def iteration_missing(trial: Trial) -> None:
    shutil.copytree(trial.right / "rank_0/Lenet/0/0", trial.right / "rank_0/Lenet/0/1")


def another_runs_files(trial: Trial) -> None:
    shutil.rmtree(trial.left)
    shutil.copytree(LENET / "target_bad", trial.left)


def half_precision_saturated(trial: Trial) -> None:
    near_maximum = np.full(8, 65472, np.float16)
    saturated = near_maximum.copy()
    saturated[5] = 65504
    for side, array in (("left", saturated), ("right", near_maximum)):
        file = trial.file(FC2, side)
        np.save(file.with_name(file.name.replace("Float32", "Float16")), array)
        file.unlink()


def activation_forgotten(trial: Trial) -> None:
    shutil.copy(trial.file(FC1), trial.file(RELU3))


def link_to_itself(trial: Trial) -> None:
    file = trial.file(POOL2)
    file.unlink()
    file.symlink_to(file.name)


LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a214614ab2935c943f9e0ff69d22e" * 2 + b"\nsize 9\n"
)
TINY, BITWISE, STRICT = 1e-40, {"profile": "bitwise"}, {"profile": "strict"}

FAULTS = (
    Fault("sign bit of one element", values(CONV1, flipped(31, largest)), CONV1),
    Fault("exponent bit of one element", values(RELU2, flipped(30, typical)), RELU2),
    Fault("high mantissa bit of one element", values(FC2, flipped(22, largest)), FC2),
    Fault("lowest mantissa bit of one element", values(WEIGHT, flipped(0, largest)), WEIGHT, "names", BITWISE),
    Fault("minus zero", values(BOOL.replace("2", "0", 0), put(True)), "", "names"),
)
