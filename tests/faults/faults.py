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

if __name__ == "__main__":
    # Run by hand, Python looks for modules beside this file; the tests' own place is one folder up.
    sys.path[0] = str(Path(__file__).parents[1])

from faults.edits import as_bfloat16, as_float16, at, flipped, header_says, largest, one_channel_zero, put, typical
from faults.trials import LENET, Change, Trial, by_command

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
INT = "Default/fc1-Dense/BiasAdd-op0:input:2"
BOOL = "Default/fc1-Dense/MatMul-op0:input:2"
CONV1_INPUT = "Default/conv1-Conv2d/Conv2D-op0:input:0"


class Fault(NamedTuple):
    """A fault and what must come of it.

    `named` is the tensor that fails first, `too` those that rightly fail with it; `by` is how the sides are paired,
    `settings` what the suite says beside that, `says` a word of what is printed.
    """

    what: str
    inject: Injection
    named: str
    by: str = "map"
    settings: Mapping[str, Any] = {}
    says: str = ""
    too: frozenset[str] = frozenset()


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


def float64_of_other_values(trial: Trial) -> None:
    trial.change(POOL2, lambda array: array.astype(np.float64) * 1.1)
    renamed(POOL2, "Float32", "Float64")(trial)


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


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a2146" * 8 + b"\nsize 9728\n"
BITWISE, STRICT, TORCH = {"profile": "bitwise"}, {"profile": "strict"}, {"profile": "torch"}
FORBID, ALL = {"nan": "forbid"}, {"min_coverage": 1.0}
NAN, INF = float("nan"), float("inf")

FAULTS = (
    # Bits
    Fault("sign bit of one element", values(CONV1, flipped(31, largest)), CONV1),
    Fault("exponent bit of one element", values(RELU2, flipped(30, typical)), RELU2),
    Fault("high mantissa bit of one element", values(FC2, flipped(22, largest)), FC2),
    Fault("lowest mantissa bit of one element", values(WEIGHT, flipped(0, largest)), WEIGHT, "names", BITWISE),
    Fault("minus zero for zero", values(CONV1_INPUT, lambda a: a * 0 - 0.0), CONV1_INPUT, "names", BITWISE),
    Fault("denormal flushed", both(FC1, FC1, put(0.0), put(1e-40)), FC1, "names", BITWISE),
    # Values
    Fault("scaled by 1.01", values(CONV1, lambda a: a * np.float32(1.01)), CONV1),
    Fault("shifted by 0.01", values(FC2, lambda a: a + np.float32(0.01)), FC2),
    Fault("sign of all elements", values(FC1, np.negative), FC1),
    Fault("one channel zeroed", values(CONV2, one_channel_zero), CONV2),
    Fault("all zeros", values(RELU3, np.zeros_like), RELU3),
    Fault("one element of four million", one_in_four_million, POOL1),
    Fault("one element, by little", values(CONV1, put(1e-3, typical)), CONV1, "map", TORCH),
    Fault("rounded to float16", values(CONV1, as_float16), CONV1, "names", STRICT),
    Fault("rounded to bfloat16", values(CONV1, as_bfloat16), CONV1),
    Fault("float64 of other values", float64_of_other_values, POOL2),
    Fault("float64 under a name that says Float32", values(POOL2, np.float64), POOL2, says="its name says float32"),
    Fault("integer off by one beyond 2^53", both(INT, INT, at(2**53 + 1), at(2**53)), INT, "names"),
    Fault("bool flipped", values(BOOL, np.logical_not), BOOL, "names"),
    Fault("saturated at 65504", half_precision_saturated, FC2, "names", says="saturated"),
    Fault("activation forgotten", activation_forgotten, RELU3),
    # NaN and Inf
    Fault("NaN at one place", values(RELU1, put(NAN, 4321)), RELU1, says="NaN"),
    Fault("NaN in another place", both(FC1, "fc1", put(NAN, 3), put(NAN, 4)), FC1, says="NaN"),
    Fault("NaN in the same place, forbidden", both(FC1, "fc1", put(NAN), put(NAN)), FC1, "map", FORBID),
    Fault("Inf at one place", values(POOL1, put(INF, 99)), POOL1, says="Inf"),
    Fault("-Inf for Inf", both(POOL2, "pool2", put(-INF, 9), put(INF, 9)), POOL2, says="Inf"),
    Fault("NaN on the reference's side", values("relu2", put(NAN, 7), "right"), RELU2, says="NaN"),
    # Order of elements
    Fault("two axes of one length swapped", values(CONV1, lambda a: a.swapaxes(2, 3)), CONV1),
    Fault("NHWC written as NCHW", values(CONV2, lambda a: a.transpose(0, 2, 3, 1).reshape(a.shape)), CONV2),
    Fault("transposed", values(FC1, np.transpose), FC1, says="same dimensions in another order"),
    Fault("transposed, equal number of elements", values(CONV1, lambda a: a.transpose(1, 0, 2, 3)), CONV1),
    Fault("shape with a 1 more", values(FC2, lambda a: a[None]), FC2, says="shape"),
    Fault("one row more", values(FC2, lambda a: np.vstack([a, a[:1]])), FC2, says="30 elements"),
    Fault("no elements", values(RELU3, lambda a: a[:0]), RELU3),
    Fault("batch in another order", values(RELU1, lambda a: a[::-1]), RELU1),
    Fault("elements off by one", values(POOL2, lambda a: np.roll(a, 1)), POOL2),
    Fault("elements off by one where a reshape is granted", values(FLATTEN, lambda a: np.roll(a, 1)), FLATTEN),
    Fault("header says Fortran order", content(FC1, header_says(b"False, ", b"True,  ")), FC1),
    Fault("bytes of big-endian values", content(CONV2, lambda b: b[:128] + b[:127:-1]), CONV2),
    # Files
    Fault("file missing", removed(POOL2), POOL2),
    Fault("reference's file missing", removed("pool2", "right"), POOL2),
    Fault("file cut in its header", content(RELU2, lambda b: b[:60]), RELU2, says="cut off"),
    Fault("file cut by one byte", content(RELU2, lambda b: b[:-1]), RELU2, says="cut off"),
    Fault("file of zero bytes", content(RELU2, lambda _: b""), RELU2, says="empty"),
    Fault("reference cut", content("fc2", lambda b: b[:-40], "right"), FC2, says="cut off"),
    Fault("bytes behind the values", content(RELU3, lambda b: b + b"\0"), RELU3),
    Fault("pointer of Git LFS", content(POOL1, lambda _: LFS_POINTER), POOL1, says="LFS"),
    Fault("garbage", content(POOL1, lambda b: bytes(255 - x for x in b)), POOL1),
    Fault("pickle", content(FC2, lambda _: pickle.dumps([1.0])), FC2),
    Fault("objects", values(FC2, lambda a: a.astype(object)), FC2),
    Fault("link to itself", link_to_itself, POOL2),
    Fault("wrong type in the header", content(FC1, header_says(b"<f4", b"<i4")), FC1),
    Fault("wrong type in the name", renamed(FC1, "Float32", "Int32"), FC1),
    Fault("other type in the name", renamed(WEIGHT, "Float32", "BFloat16"), WEIGHT, "names", BITWISE),
    Fault("other slot in the name", renamed(FC1, "output.0", "output.1"), FC1),
    Fault("operator renamed", renamed(RELU1, "relu1-", "relu7-"), RELU1),
    Fault("contents of two files swapped", contents_swapped, CONV1, too=frozenset({RELU1})),
    # Runs
    Fault("a wrong run into the same directory", run_again_wrongly, RELU2, says="re-run"),
    Fault("an iteration missing", iteration_missing, CONV1_INPUT, "names", ALL, says="iteration"),
    Fault("another run's files", another_runs_files, CONV2, too=frozenset({RELU2, POOL2, FLATTEN, FC1, RELU3, FC2})),
)


def main() -> int:
    """Print the table; return 1 when a fault went unnoticed or was laid to another tensor."""
    wrong = 0
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(Path(folder), fault.by, fault.settings)
            fault.inject(trial)
            outcome = by_command(trial)
        good = outcome.code == 1 and outcome.named == fault.named and outcome.failing <= {fault.named} | fault.too
        wrong += not good
        print(f"{'  ' if good else '!!'} {fault.what:46} {outcome.code}  {outcome.named:48} {outcome.sentence[:150]}")
    print(f"{len(FAULTS)} faults, {wrong} of them not answered with exit code 1 and the right tensor")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
