"""Every kind of fault ends in exit code 1, with the right tensor named first and no other blamed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from campaign.ascend_faults import ASCEND_FAULTS, CONTROLS, AscendFault
from campaign.ascend_trials import ADDRESSES, AscendTrial
from campaign.faults import BY_NAME, KINDS, Injection
from campaign.harmless import HARMLESS
from campaign.networks import Pair
from campaign.trials import LENET, Side, Trial, by_command, by_helper, by_pytest, lenet, npy

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

BITWISE, STRICT, TORCH = {"profile": "bitwise"}, {"profile": "strict"}, {"profile": "torch"}
ALL = {"min_coverage": 1.0}


class Fault(NamedTuple):
    """A kind of fault put into one tensor, which must be named first.

    `too` are those that rightly fail with it, `says` is a word of what is printed; `inject` is for what is no kind.
    """

    kind: str
    named: str
    by: str = "map"
    settings: Mapping[str, Any] = {}
    says: str = ""
    size: float = 0.0
    side: Side = "left"
    too: frozenset[str] = frozenset()
    inject: Injection | None = None

    @property
    def what(self) -> str:
        return " ".join(filter(None, [self.kind, self.by, self.side, self.named.split("/")[-1]]))


def one_of_four_million(trial: Trial, pair: Pair, *_: object) -> None:
    large = np.random.default_rng(7).standard_normal((1, 4, 1024, 1024), dtype=np.float32)
    wrong = large.copy()
    wrong[0, 2, 777, 333] += 0.5
    trial.write(pair, "left", npy(wrong))
    trial.write(pair, "right", npy(large))


def iteration_never_dumped(trial: Trial, *_: object) -> None:
    shutil.copytree(trial.right / "rank_0/Lenet/0/0", trial.right / "rank_0/Lenet/0/1")


def another_runs_files(trial: Trial, *_: object) -> None:
    shutil.rmtree(trial.left)
    shutil.copytree(LENET / "target_bad", trial.left)


def float64_of_other_values(trial: Trial, pair: Pair, *_: object) -> None:
    trial.write(pair, "left", npy(trial.values(pair, "left").astype(np.float64) * 1.1))
    renamed(trial, pair, "Float64")


def half_precision_saturated(trial: Trial, pair: Pair, *_: object) -> None:
    near_maximum = np.full(8, 65472, np.float16)
    saturated = near_maximum.copy()
    saturated[5] = 65504
    trial.write(pair, "left", npy(saturated))
    trial.write(pair, "right", npy(near_maximum))
    renamed(trial, pair, "Float16", "left")
    renamed(trial, pair, "Float16", "right")


def named_bfloat16(trial: Trial, pair: Pair, *_: object) -> None:
    renamed(trial, pair, "BFloat16")


def renamed(trial: Trial, pair: Pair, dtype: str, side: Side = "left") -> None:
    trial.renamed(pair, side, trial.path(pair, side).name.replace("Float32", dtype))


def activation_forgotten(trial: Trial, pair: Pair, *_: object) -> None:
    trial.write(pair, "left", trial.data(trial.pair_of(FC1), "left"))


def contents_swapped(trial: Trial, pair: Pair, *_: object) -> None:
    other = trial.pair_of(RELU1)
    mine, theirs = trial.data(pair, "left"), trial.data(other, "left")
    trial.write(pair, "left", theirs)
    trial.write(other, "left", mine)


FAULTS = (
    # Bits
    Fault("sign bit of the largest element", CONV1),
    Fault("exponent bit of one element", RELU2),
    Fault("high mantissa bit of the largest element", FC2),
    Fault("lowest mantissa bit of the largest element", WEIGHT, "name", BITWISE),
    Fault("minus zero for zero", RELU1, "name", BITWISE),
    Fault("denormal flushed", FC1, "name", BITWISE),
    # Values
    Fault("scaled", CONV1, size=0.01),
    Fault("shifted", FC2, size=0.05),
    Fault("negated", FC1),
    Fault("one channel zero", CONV2),
    Fault("all zeros", RELU3),
    Fault("one element of four million", POOL1, inject=one_of_four_million),
    Fault("one element shifted", CONV1, settings=TORCH, size=1e-3),
    Fault("rounded to float16", CONV1, "name", STRICT),
    Fault("rounded to bfloat16", CONV1),
    Fault("float64 of other values", POOL2, inject=float64_of_other_values),
    Fault("float64 under the old name", POOL2, says="its name says float32"),
    Fault("integer off by one beyond 2^53", INT, "name"),
    Fault("bool flipped", BOOL, "name"),
    Fault("half precision saturated", FC2, "name", says="saturated", inject=half_precision_saturated),
    Fault("activation forgotten", RELU3, inject=activation_forgotten),
    # NaN and Inf
    Fault("NaN", RELU1, says="NaN"),
    Fault("NaN in another place", FC1, says="NaN"),
    Fault("NaN that is forbidden", FC1, says="NaN"),
    Fault("Inf", POOL1, says="Inf"),
    Fault("-Inf for Inf", POOL2, says="Inf"),
    Fault("NaN", RELU2, side="right", says="NaN"),
    # Order of elements
    Fault("two axes of one length swapped", CONV1),
    Fault("NHWC written as NCHW", CONV2),
    Fault("transposed", FC1, says="same dimensions in another order"),
    Fault("transposed", CONV1),
    Fault("a row more", FC2, says="differ along axis 0 alone"),
    Fault("no elements", RELU3),
    Fault("batch in another order", RELU1),
    Fault("elements off by one", POOL2),
    Fault("elements off by one", FLATTEN),
    Fault("header says Fortran order", FC1),
    Fault("bytes of the other order", CONV2),
    # Files
    Fault("file missing", POOL2),
    Fault("file missing", POOL2, side="right"),
    Fault("file cut in its header", RELU2, says="cut off"),
    Fault("file cut by one byte", RELU2, says="cut off"),
    Fault("file of zero bytes", RELU2, says="empty"),
    Fault("file cut by one byte", FC2, side="right", says="cut off"),
    Fault("bytes behind the values", RELU3),
    Fault("pointer of Git LFS", POOL1, says="LFS"),
    Fault("garbage", POOL1),
    Fault("pickle", FC2),
    Fault("objects", FC2),
    Fault("link to itself", POOL2),
    Fault("pipe in the file's place", POOL2),
    Fault("header says integers", FC1),
    Fault("wrong type in the name", FC1),
    Fault("other type in the name", WEIGHT, "name", BITWISE, inject=named_bfloat16),
    Fault("other slot in the name", FC1),
    Fault("operator renamed", RELU1),
    Fault("contents of two files swapped", CONV1, too=frozenset({RELU1}), inject=contents_swapped),
    # Runs
    Fault("a wrong run into the same directory", RELU2, says="re-run"),
    Fault("an iteration never dumped", CONV1_INPUT, "name", ALL, says="iteration", inject=iteration_never_dumped),
    Fault(
        "another run's files",
        CONV2,
        too=frozenset({RELU2, POOL2, FLATTEN, FC1, RELU3, FC2}),
        inject=another_runs_files,
    ),
)
EVERY = (*FAULTS, *ASCEND_FAULTS)
BY_WHAT = {fault.what: fault for fault in EVERY}

# One of each way to fail: a value, a class, a shape, a file, a missing tensor, the map, names, coverage.
BY_PYTEST = (
    "scaled map left BiasAdd-op0:output:0",
    "NaN map left ReLU-op0:output:0",
    "transposed map left BiasAdd-op0:output:0",
    "file cut by one byte map left ReLU-op0:output:0",
    "file missing map left MaxPool-op0:output:0",
    "bool flipped name left MatMul-op0:input:2",
    "a wrong run into the same directory map left ReLU-op0:output:0",
    "an iteration never dumped name left Conv2D-op0:input:0",
    # Of device dumps: a value, a memory format, slots, a file of either side, a rule.
    "sign of one NC1HWC0 channel",
    "header says no groups",
    "inputs swapped",
    "file cut by one byte",
    "reference's file missing",
    "rules name another layer",
)
WITH_WORKERS = (*BY_PYTEST[:2], *BY_PYTEST[6:8], "inputs swapped")


def trial_of(fault: Fault | AscendFault, root: Path) -> Trial | AscendTrial:
    if isinstance(fault, AscendFault):
        compiled = AscendTrial(root, settings=fault.settings)
        fault.inject(compiled)
        return compiled
    trial = lenet(root, fault.by, fault.settings)
    inject = fault.inject or BY_NAME[fault.kind].inject
    inject(trial, trial.pair_of(fault.named), fault.side, Random(0), fault.size)
    return trial


def one_line(text: str) -> str:
    """Text is wrapped to the terminal's width; a word of it is looked for without."""
    return " ".join(text.split())


def test_the_faults_are_many_and_different() -> None:
    assert len(FAULTS) >= 60
    assert len({(fault.what, fault.named) for fault in EVERY}) == len(EVERY)


def test_the_campaign_has_many_kinds() -> None:
    assert len({kind.what for kind in KINDS}) == len(KINDS) >= 56
    assert len({kind.what for kind in HARMLESS}) == len(HARMLESS) >= 22


@pytest.mark.parametrize("settings", [{}, {"profile": "strict"}, {"min_coverage": 1.0}])
def test_the_map_passes_without_a_fault(tmp_path: Path, settings: dict[str, object]) -> None:
    trial = lenet(tmp_path, "map", settings)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, "")
    assert "10 tensors: 10 pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("settings", [{}, {"profile": "bitwise"}, {"min_coverage": 1.0}])
def test_the_names_pass_without_a_fault(tmp_path: Path, settings: dict[str, object]) -> None:
    trial = lenet(tmp_path, "name", settings)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, "")
    assert "53 tensors: 53 pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("change", CONTROLS.values(), ids=CONTROLS)
def test_device_dumps_pass_without_a_fault(change: Callable[[AscendTrial], object], tmp_path: Path) -> None:
    trial = AscendTrial(tmp_path, settings={"min_coverage": 0.7})
    change(trial)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, ""), outcome.text
    assert f"{len(ADDRESSES)} tensors: {len(ADDRESSES)} pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.what)
def test_a_fault_fails_the_gate_and_is_named(fault: Fault | AscendFault, tmp_path: Path) -> None:
    trial = trial_of(fault, tmp_path)
    outcome = by_command(trial)
    assert outcome.code == 1
    assert outcome.named.replace("/", "_") == fault.named.replace("/", "_")
    assert outcome.failing in (frozenset(), {fault.named} | fault.too)
    assert "Traceback" not in outcome.text
    said = by_helper(trial)
    assert said is not None
    for text in (outcome.text, said):
        assert fault.named.rsplit(":", 2)[0].replace("/", "_") in one_line(text).replace("/", "_")
        assert fault.says.lower() in one_line(text).lower()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("what", "workers"),
    [*((what, ()) for what in BY_PYTEST), *((what, ("-n", "2")) for what in WITH_WORKERS)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "one process",
)
def test_pytest_says_the_same(what: str, workers: tuple[str, ...], tmp_path: Path) -> None:
    if workers:
        pytest.importorskip("xdist")
    fault = BY_WHAT[what]
    trial = trial_of(fault, tmp_path)
    outcome = by_pytest(trial, *workers)
    assert outcome.code == 1
    assert outcome.named.replace("/", "_") == fault.named.replace("/", "_")
    assert outcome[1:3] == by_command(trial)[1:3]
    assert isinstance(fault, AscendFault) or f"{1 + len(fault.too)} failed" in outcome.text
    assert "Traceback" not in outcome.text
    assert fault.says.lower() in one_line(outcome.text).lower()
