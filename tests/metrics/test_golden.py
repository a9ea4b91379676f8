"""Errors against golden, and their ratios: by formulas of numpy in float64, and by numbers that msprobe printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_msdump.capabilities.three_way.golden import golden_errors, golden_ratios
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.model.comparison import GoldenErrors, ThreeWay
from pytest_msdump.core.text import say

# Of msprobe: values up to which they are small, how far these may be off, least error of the other run, epsilon.
BENCHMARK = {
    "float16": (2**-10, 1e-16, 2**-11, 2**-52),
    "bfloat16": (2**-10, 1e-16, 2**-8, 2**-8),
    "float32": (2**-20, 2**-30, 2**-14, 2**-52),
}
RATIOS = {
    "golden_normal_rmse_ratio": "normal_rmse",
    "golden_max_relative_error_ratio": "max_relative_error",
    "golden_mean_relative_error_ratio": "mean_relative_error",
    "golden_small_value_ratio": "small_value_share",
    "golden_error_balance_ratio": "error_balance",
}


def bfloat16(values):
    """Values of bfloat16 as float32: the upper half of its bits, rounded to nearest."""
    bits = np.float32(values).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def drawn(seed, dtype, size=40):
    """Golden, a run that is off by some roundings, and one that is off by fewer; values of all sizes."""
    random = np.random.default_rng(seed)
    golden = random.normal(size=size) * 10.0 ** random.integers(-8, 3, size)
    unit = {"float32": 2**-22, "float16": 2**-9, "bfloat16": 2**-7}[dtype]
    cast = bfloat16 if dtype == "bfloat16" else lambda values: values.astype(dtype)
    left = cast(golden * (1 + unit * random.normal(size=size) * 3) + 1e-7 * random.normal(size=size))
    other = cast(golden * (1 + unit * random.normal(size=size)))
    if dtype != "bfloat16":
        left[3], other[5], golden[7] = np.nan, np.inf, np.nan
    return golden, left, other


def errors(run, golden, dtype=None, **options):
    return golden_errors(ArrayView(run, dtype), ArrayView(golden), **options)[0]


def expected(run, golden, dtype):
    """The formulas of PyTorch's `rmse` and of msprobe's compare/algorithm.py."""
    small_value, atol, _, epsilon = BENCHMARK[dtype]
    with np.errstate(all="ignore"):
        error, rounded = np.abs(run.astype(np.float64) - golden), golden.astype(run.dtype)
        finite = np.isfinite(run) & np.isfinite(golden)
        usable = np.isfinite(run) & np.isfinite(rounded)
        small = usable & (np.abs(golden) <= small_value)
        normal = usable & ~small
        relative = (error / (np.abs(golden) + epsilon))[normal]
        masked = np.where(normal, error, 0)
        mean = np.mean(masked**2) * (masked.size / (normal.sum() + 0.0001) + 0.0001)
        return GoldenErrors(
            finite=int(finite.sum()),
            rmse=math.sqrt(np.mean(error[finite] ** 2)),
            normal_rmse=math.sqrt(mean),
            max_relative_error=relative.max(initial=0),
            mean_relative_error=relative.mean() if relative.size else 0,
            small_value_share=(error[small] > atol).mean() if small.any() else 0,
            error_balance=abs(int((run > rounded).sum()) - int((run < rounded).sum())) / run.size,
        )


@pytest.mark.parametrize("dtype", BENCHMARK)
@pytest.mark.parametrize("block_elements", [1, 7, 2**16])
def test_errors_are_those_of_the_formulas_whatever_the_blocks(dtype, block_elements):
    for seed, size in enumerate([1, 9, 40, 500] if dtype == "bfloat16" else [9, 40, 500]):
        golden, left, _ = drawn(seed, dtype, size)
        found = errors(left, golden, dtype if dtype == "bfloat16" else None, block_elements=block_elements)
        assert found == pytest.approx(expected(left, golden, dtype), rel=1e-12)


# Printed by msprobe 26.2.0 itself (BenchmarkCompare._compute_metrics of device_output = run, bench_output = golden, and
# compare.algorithm.calc_ratio), for `drawn(seed, dtype)`: left run, other run, their ratio.
PRINTED = [
    (
        "float32",
        1,
        {
            "small_value_share": (1.0, 0.0, 16384.0),
            "max_relative_error": (0.1030933960561278, 4.68738351736047e-07, 1689.0822009835979),
            "mean_relative_error": (0.00894585925709863, 1.7007026221889297e-07, 146.56895806830394),
            "normal_rmse": (9.03717752389675e-06, 2.844402644415948e-06, 0.14806511655152435),
            "error_balance": (0.175, 0.175, 1.0),
        },
    ),
    (
        "float32",
        2,
        {
            "small_value_share": (1.0, 0.0, 16384.0),
            "max_relative_error": (0.07895864805318673, 4.997373200059728e-07, 1293.6584897034113),
            "mean_relative_error": (0.004206753486115119, 1.7854081895959408e-07, 68.92344911651011),
            "normal_rmse": (1.9642589397773795e-06, 5.961678370571915e-07, 0.032182418469312586),
            "error_balance": (0.05, 0.125, 0.4),
        },
    ),
    (
        "float16",
        1,
        {
            "small_value_share": (1.0, 1.0, 1.0),
            "max_relative_error": (0.013221205908033506, 0.0033581817536052047, 3.937013204791482),
            "mean_relative_error": (0.004578745780659483, 0.0013443787842134663, 3.4058450151296418),
            "normal_rmse": (0.08085899485891405, 0.03224426131617165, 2.5077018842531333),
            "error_balance": (0.2, 0.05, 4.0),
        },
    ),
    (
        "float16",
        2,
        {
            "small_value_share": (1.0, 1.0, 1.0),
            "max_relative_error": (0.009117797195806953, 0.004082898671549797, 2.2331676412498367),
            "mean_relative_error": (0.0036010669755036293, 0.0015456675656175143, 2.3297810315796825),
            "normal_rmse": (0.02412984088628057, 0.010175066997081001, 2.371467518907038),
            "error_balance": (0.1, 0.1, 1.0),
        },
    ),
]


@pytest.mark.parametrize(("dtype", "seed", "printed"), PRINTED)
def test_errors_and_ratios_are_what_msprobe_prints(dtype, seed, printed):
    golden, left, other = drawn(seed, dtype)
    found = ThreeWay("golden", "right", errors(left, golden), errors(other, golden))
    ratios = golden_ratios(found, dtype=dtype, floor=0.0, without={})
    for metric, field in RATIOS.items():
        numbers = getattr(found.left, field), getattr(found.other, field), ratios[metric].value
        assert numbers == pytest.approx(printed[field], rel=1e-12), metric


def ratios_of(left, other, golden, *, floor=0.0, without=None):
    found = ThreeWay("golden", "right", errors(np.asarray(left), golden), errors(np.asarray(other), golden))
    return golden_ratios(found, dtype="float32", floor=floor, without=without or {})


def test_the_other_runs_error_counts_as_one_rounding_at_least():
    golden = np.float64([3.0, 4.0])
    size = golden_errors(ArrayView(golden), ArrayView(golden))[1]
    assert size == pytest.approx(math.sqrt(12.5))
    floor = rounding_unit("float32", "float64") * size
    assert floor == pytest.approx(2**-24 * math.sqrt(12.5), rel=1e-15)
    left = golden + 1e-3
    found = ratios_of(left, golden, golden, floor=floor)
    assert found["golden_rmse_ratio"].value == pytest.approx(1e-3 / floor)
    # msprobe's have a least error of their own.
    assert found["golden_normal_rmse_ratio"].value == pytest.approx(1e-3 / 2**-14, rel=1e-3)


@pytest.mark.parametrize(
    ("dtypes", "unit"),
    [
        (("float64",), 2**-53),
        (("float32", "float16"), 2**-11),
        (("bfloat16", "float32"), 2**-8),
        (("complex64", "float64"), 2**-24),
        (("int32",), 0),
    ],
)
def test_a_rounding_is_that_of_the_coarser_type(dtypes, unit):
    assert rounding_unit(*dtypes) == unit


def test_an_error_of_nothing_is_a_ratio_of_nothing_and_of_an_exact_run_it_is_undefined():
    golden = np.int32([1, 2, 3])
    assert ratios_of(golden, golden + 1, golden)["golden_rmse_ratio"].value == 0
    found = ratios_of(golden + 1, golden, golden)["golden_rmse_ratio"]
    assert (found.value, say(found.undefined)) == (
        None,
        "the other run is exactly golden, and nothing of it is rounded",
    )


def test_a_run_that_is_nowhere_finite_has_no_ratio_of_any_kind():
    golden, nothing = np.ones(3), np.full(3, np.nan)
    for left, other in ((nothing, golden), (golden, nothing)):
        found = ratios_of(left, other, golden)
        assert {one.value for one in found.values()} == {None}
        assert {one.undefined.code for one in found.values()} == {"golden_nothing_finite"}


def test_a_value_beyond_the_runs_type_is_left_out_as_msprobe_does_and_counts_in_the_rmse():
    golden, run = np.float64([1.0, 1e6]), np.float16([1.0, 65504.0])
    found = errors(run, golden)
    assert (found.normal_rmse, found.max_relative_error) == (0, 0)
    assert found.rmse == pytest.approx((1e6 - 65504) / math.sqrt(2))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_large_and_tiny_values_neither_overflow_nor_vanish(scale):
    golden = np.float64([3.0, 4.0]) * scale
    found, size = golden_errors(ArrayView(golden * 1.25), ArrayView(golden))
    assert found.rmse == pytest.approx(0.25 * math.sqrt(12.5) * scale)
    assert size == pytest.approx(math.sqrt(12.5) * scale)


def test_errors_of_complex_numbers_are_of_the_modulus_and_have_no_balance():
    golden = np.complex128([3 + 4j, 1j])
    found = errors(np.complex64([3 + 4.5j, 1.5j]), golden)
    assert found.rmse == pytest.approx(0.5)
    assert found.max_relative_error == pytest.approx(0.5)
    assert found.error_balance is None
    ratios = ratios_of(np.complex64([3 + 4.5j, 1.5j]), np.complex64(golden), golden, floor=1e-7)
    assert ratios["golden_error_balance_ratio"].undefined.code == "tensors_are_complex"
