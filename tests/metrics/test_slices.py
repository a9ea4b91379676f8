"""One wrong channel shows in `worst_slice_error`, whatever the layout. The oracle is numpy over whole arrays."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import EACH
from semantics.gate import ask, ask_arrays

from pytest_msdump.capabilities.statistics.count_sketch import packed, sketch_of, unpacked
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics import measure as streaming
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.metrics.slices import least_error, sketched_grid
from pytest_msdump.core.model.comparison import Measurement
from pytest_msdump.core.text import say

Array = npt.NDArray[Any]

SLICE = "worst_slice_error"


@pytest.fixture(params=EACH)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def found(left: Array, right: Array, dtype: str | None = None, **options: Any) -> Measurement:
    return measure(ArrayView(left, dtype), ArrayView(right, dtype), **options).measurements[SLICE]


def errors(left: Array, right: Array, axis: int, floor: float = 1e-3) -> Array:
    """The error of every slice; positions where a side is NaN or Inf are taken out as zeros."""
    finite = np.isfinite(left) & np.isfinite(right)
    others = tuple(other for other in range(right.ndim) if other != axis)
    wide = [np.where(finite, side, 0).astype("longdouble") for side in (left, right)]
    apart, length = np.sum((wide[0] - wide[1]) ** 2, axis=others), np.sum(wide[1] ** 2, axis=others)
    least = floor**2 * length.sum() / right.shape[axis]
    ratio: Array = np.sqrt(apart / np.maximum(length, least)).astype(float)
    return ratio


def drifted(shape: tuple[int, ...], dtype: str = "float32", seed: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    right = rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 0, (1, shape[1], *(1 for _ in shape[2:])))
    return (right + rng.normal(size=shape) * 1e-3).astype(dtype), right.astype(dtype)


def test_a_dead_channel_of_512_that_the_default_profile_passes_is_found(tmp_path: Path) -> None:
    right = np.random.default_rng(1).normal(size=(2, 512, 7, 7)).astype("float32")
    right[:, 17] *= 0.01
    left = right.copy()
    left[:, 17] = 0
    assert ask_arrays(tmp_path, left, right).record["verdict"] == "pass"
    answer = ask_arrays(tmp_path, left, right, "--threshold", "slice=0.05")
    assert (answer.code, answer.failed) == (1, {SLICE})
    assert (answer.metrics[SLICE], answer.record["where"][SLICE]) == (1.0, [17])
    assert "worst_slice_error 1 is above 0.05" in answer.sentences
    assert "at slice 17" in answer.sentences


SHAPES = [
    ((40, 5), 1),
    ((5, 40), 0),
    ((3, 4, 7), 1),
    ((3, 70, 16), 2),
    ((3, 4, 5, 6), 1),
    ((4, 3, 2, 33), 2),
    ((2, 3, 40, 41), 1),
    ((1, 1, 2100), 1),
    ((1030, 3), 1),
    ((17, 1100), 1),
]


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("block_elements", [7, 100, 1500, 10**6])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_any_blocks_give_the_error_of_the_worst_slice(shape: tuple[int, ...], axis: int, block_elements: int) -> None:
    left, right = drifted(shape)
    left.ravel()[5::101], right.ravel()[9::97] = math.nan, math.inf
    left.ravel()[: left.size // 3] = right.ravel()[: left.size // 3]
    truth = errors(left, right, axis)
    one = found(left, right, slice_axis=axis, block_elements=block_elements)
    assert one.value == pytest.approx(truth.max(), rel=1e-12)
    assert one.where == (int(truth.argmax()),)


@settings(deadline=None, max_examples=100)
@given(
    shape=st.lists(st.integers(1, 12), min_size=2, max_size=4).filter(lambda shape: math.prod(shape) >= 16),
    scale=st.sampled_from([1.0, 1e-200, 1e200]),
    block_elements=st.integers(1, 300),
    seed=st.integers(0, 2**32),
    tile=st.sampled_from([5, 64, 2**16]),
)
@pytest.mark.full
def test_magnitudes_neither_overflow_nor_vanish(
    shape: list[int], scale: float, block_elements: int, seed: int, tile: int
) -> None:
    left, right = drifted(tuple(shape), "float64", seed)
    scales = np.full(math.prod(shape), scale)
    scales[: scales.size // 2] = 1.0 if seed % 2 else scale
    left, right = left * scales.reshape(shape), right * scales.reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_TILE_ELEMENTS", tile)
        one = found(left, right, block_elements=block_elements)
    truth = errors(left, right, 1)
    if right.size // right.shape[1] < 16:
        assert not one.applies
    else:
        assert one.value == pytest.approx(truth.max(), rel=1e-12)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize(("dtype", "floor"), [("float32", 1e-3), ("float16", 1e-3), ("bfloat16", 2.0**-8)])
def test_a_tiny_slice_counts_as_if_it_were_a_thousandth_of_the_others_or_what_rounding_leaves(
    dtype: str, floor: float
) -> None:
    right = np.ones((4, 8, 16), "float32")
    right[:, 3] = 2.0**-20
    left = right.copy()
    left[:, 3] = 0
    stored = "float16" if dtype == "float16" else "float32"
    one = found(left.astype(stored), right.astype(stored), dtype)
    # Seven of eight slices are 1, so that the root of the mean of squares is √(7/8).
    assert one.value == pytest.approx(2.0**-20 / (floor * math.sqrt(7 / 8)), rel=1e-9)
    assert one.where == (3,)


@pytest.mark.parametrize(
    ("shape", "axis", "reason"),
    [
        ((50,), None, "a tensor of fewer than two axes has no channels"),
        ((), None, "a tensor of fewer than two axes has no channels"),
        ((15, 100), None, "slices along axis 1 have 15 elements each, fewer than 16"),
        ((20, 30), 2, "slices along axis 2 need a tensor that has it; this one has 2"),
        ((50,), 0, "slices along axis 0 have 1 elements each, fewer than 16"),
    ],
)
def test_what_has_no_slices_says_why(shape: tuple[int, ...], axis: int | None, reason: str) -> None:
    one = found(np.ones(shape), np.full(shape, 2.0), slice_axis=axis)
    assert (one.value, one.applies, say(one.undefined)) == (None, False, reason)


def dumps(tmp_path: Path, left: Array, right: Array, suite: str) -> Path:
    for name, array in (("run", left), ("ref", right)):
        (tmp_path / name).mkdir(exist_ok=True)
        np.save(tmp_path / name / "conv1.0.0.npy", array)
    file = tmp_path / "msdump.toml"
    file.write_text(f'[msdump]\nleft = "run"\nright = "ref"\n{suite}', encoding="utf-8")
    return file


LIMIT = "[[msdump.rule]]\nworst_slice_error = 0.05\n"


@pytest.mark.parametrize(
    ("suite", "axis"),
    [
        (LIMIT, 1),
        ('left_format = "NHWC"\nright_format = "NHWC"\n' + LIMIT, 3),
        (LIMIT + "slice_axis = 2\n", 2),
        (LIMIT + '[[msdump.rule]]\nmatch = "conv*"\nslice_axis = 3\n', 3),
    ],
)
def test_channels_are_where_the_layout_or_a_rule_says(tmp_path: Path, suite: str, axis: int) -> None:
    right = np.random.default_rng(1).normal(size=(6, 7, 8, 9)).astype("float32")
    left = right.copy()
    place = tuple(5 if other == axis else slice(None) for other in range(4))
    left[place] *= 1.1
    file = dumps(tmp_path, left, right, suite)
    answer = ask(tmp_path / "run", tmp_path / "ref", "--config", str(file))
    assert answer.metrics[SLICE] == pytest.approx(0.1, rel=1e-5)
    assert answer.record["where"][SLICE] == [5]


def test_results_of_earlier_releases_are_judged_without_the_new_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = drifted((20, 30))
    answer = ask_arrays(tmp_path, left, right)
    assert answer.metrics[SLICE] > 0
    (record,) = answer.results["tensors"]
    for key in ("metrics", "undefined", "not_applicable", "where"):
        record[key] = {name: one for name, one in record[key].items() if name != SLICE and "ulp" not in name}
    file = tmp_path / "old.json"
    file.write_text(json.dumps(answer.results), encoding="utf-8")
    assert main(["check", str(file), "--threshold", "rel_euclid=1", "--threshold", "cosine=0.1"]) in (0, 1)
    assert main(["check", str(file), "--threshold", "slice=1"]) == 1
    assert "worst_slice_error is undefined, because it was not measured" in " ".join(capsys.readouterr().out.split())


def test_a_failing_tensor_names_the_slice_that_stands_out_and_no_other(tmp_path: Path) -> None:
    right = np.random.default_rng(1).normal(size=(2, 512, 7, 7)).astype("float32")
    left = right + np.float32(1e-3)
    assert "at slice" not in ask_arrays(tmp_path, left, right, "--threshold", "max_abs=0").text
    left[:, 17] *= 2
    assert "at slice 17" in ask_arrays(tmp_path, left, right, "--threshold", "max_abs=0").text


# -- what sketches say of it


def bound(left: Array, right: Array) -> float:
    """The lower bound by the norms of both sides, as they are after they were saved."""
    sides = []
    for array in (left, right):
        statistics = sketch_of(ArrayView(array))
        assert statistics.sketch is not None
        kept = packed(statistics.sketch)
        again = unpacked(kept, statistics.sketch.norm, array.shape, str(array.dtype))
        assert again is not None
        sides.append(again)
    grid = sketched_grid(right.shape, str(right.dtype))
    assert grid is not None
    found = least_error(grid, *sides, (str(left.dtype), str(right.dtype)))
    return 0.0 if found is None else found.at_least


CHANGES: dict[str, Any] = {
    "noise": lambda draw, x: x + draw.normal(size=x.shape) * 10.0 ** draw.uniform(-8, 1),
    "scaled": lambda draw, x: x * (1 + 10.0 ** draw.uniform(-8, 0)),
    "one channel": lambda draw, x: x * np.where(np.arange(x.shape[-1]) == draw.integers(x.shape[-1]), 0.0, 1.0),
    "channels": lambda draw, x: x * 10.0 ** draw.uniform(-1, 1, x.shape[-1]),
    "rounding": lambda draw, x: x + x * draw.uniform(-1, 1, x.shape) * 2.0**-24,
    "swapped": lambda _, x: x[..., ::-1],
    "nothing": lambda _, x: x,
}


@settings(deadline=None, max_examples=300)
@given(
    outer=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    channels=st.sampled_from([1, 2, 7, 64, 255, 256, 257, 300, 511, 513, 1000]),
    dtypes=st.sampled_from([("float64",) * 2, ("float32",) * 2, ("float16", "float32"), ("float32", "float16")]),
    change=st.sampled_from(sorted(CHANGES)),
    spread=st.integers(0, 8),
    seed=st.integers(0, 2**32),
)
def test_the_bound_by_norms_is_never_above_the_error(
    outer: list[int], channels: int, dtypes: tuple[str, str], change: str, spread: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    shape = (16, *outer, channels)
    right = draw.normal(size=shape) * 10.0 ** draw.uniform(-spread, 0, channels)
    left = CHANGES[change](draw, right)
    # Channels are the second axis.
    left, right = (
        np.moveaxis(np.array(one), -1, 1).astype(dtype) for one, dtype in zip((left, right), dtypes, strict=True)
    )
    truth = errors(left, right, 1).max()
    least = bound(left, right)
    assert 0.0 <= least <= truth
    if change == "scaled" and channels <= 256 and dtypes[0] == "float64":
        assert least >= 0.7 * truth - 1e-6


@pytest.mark.parametrize(("channels", "least"), [(64, 0.99), (256, 0.99), (1024, 0.12)])
def test_a_dead_channel_shows_in_its_norm(channels: int, least: float) -> None:
    right = np.random.default_rng(5).normal(size=(4, channels, 9, 9)).astype("float32")
    left = right.copy()
    left[:, channels // 2] = 0.0
    assert least <= bound(left, right) <= 1.0


def test_each_slice_of_several_together_has_a_floor() -> None:
    right = np.ones((100, 512))
    floor = 1e-3 * math.sqrt(510 / 512)
    # As many times its floor as the other one, which is below it.
    right[:, 0], right[:, 1] = math.sqrt(2) * floor, 0.0
    left = right.copy()
    left[:, 0] += 1000 * math.sqrt(2) * floor
    left[:, 1] += 1000 * floor
    assert 850 < bound(left, right) <= errors(left, right, 1).max()


def test_slices_that_the_metric_takes_together_stay_together() -> None:
    draw = np.random.default_rng(6)
    right = draw.normal(size=(16, 131_500)) * 10.0 ** draw.uniform(-2, 0, 131_500)
    left = right.copy()
    left[:, -1000:] *= 1.5
    assert 0.4 < bound(left, right) <= float(found(left, right).value or 0.0)


def test_coarse_types_have_a_higher_floor() -> None:
    bits = np.zeros((64, 100), "float32")
    bits[:, 1:] = 1.0
    left = bits.copy()
    left[:, 0] = 2.0**-8
    sketches = [sketch_of(ArrayView(one)).sketch for one in (left, bits)]
    assert sketches[0] is not None
    assert sketches[1] is not None
    grid = sketched_grid(bits.shape, "bfloat16")
    assert grid is not None
    gap = least_error(grid, sketches[0], sketches[1], ("bfloat16", "float32"))
    # The floor of bfloat16 is its rounding, 2**-8 of the typical slice.
    assert gap is not None
    assert gap.at_least == pytest.approx(1.0, rel=0.01)
    assert (gap.first, gap.last) == (0, 0)
