"""Profiles: named and versioned tables of limits, by the data type a pair is judged as.

A row is chosen by the float type (complex types by that of their component), or by the kind "integer" or "bool" when
both sides are such. Bounds are numbers that just pass: a metric of direction "high" fails below, "low" fails above.
A changed bound is a new `version`; `tests/limits/test_profiles.py` holds the numbers a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple


class ProfileFact(NamedTuple):
    """One profile: `rows` is data type or kind → metric → bound.

    `dtype_equal`: differing types fail by themselves. `every_occurrence`: a further occurrence of a compared tensor
    without a partner fails, instead of a warning.
    """

    version: int
    source: str
    rows: Mapping[str, Mapping[str, float]]
    dtype_equal: bool = False
    every_occurrence: bool = False


# "No overflow; NaN/Inf match", which all profiles but `bitwise` say of float types.
_CLASSES: dict[str, float] = {"nonfinite_mismatch": 0, "saturated_count": 0}

_EQUAL: dict[str, float] = {"max_absolute_error": 0}
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_WHOLE = ("integer", "bool")


def _default_bounds(cosine: float, euclid: float, largest: float) -> dict[str, float]:
    return {
        "cosine_similarity": cosine,
        "relative_euclidean_distance": euclid,
        "normalized_max_error": largest,
        **_CLASSES,
    }


_DEFAULT: dict[str, dict[str, float]] = {
    "float64": _default_bounds(0.999, 1e-7, 0.01),
    "float32": _default_bounds(0.999, 1e-3, 0.01),
    "float16": _default_bounds(0.999, 1e-2, 0.05),
    "bfloat16": _default_bounds(0.99, 5e-2, 0.1),
    **dict.fromkeys(_WHOLE, _EQUAL),
}

_ADVISED: dict[str, float] = {
    "cosine_similarity": 0.99,
    "relative_euclidean_distance": 0.05,
    "kl_divergence": 0.005,
    "root_mean_square_error": 1.0,
    "mean_relative_error": 1.0,
    **_CLASSES,
}

_ELEMENTWISE: dict[str, float] = {"allclose": 0, **_CLASSES}
# rtol = atol = 0: equality. The exact metric says it beside the count of differing elements.
_EQUAL_ELEMENTS: dict[str, float] = {"max_absolute_error": 0, "allclose": 0}

# Nats per token, on the average and at the worst one.
_KL = {
    name: {"softmax_kl": mean, "max_softmax_kl": 10 * mean}
    for name, mean in (("float64", 1e-4), ("float32", 1e-4), ("float16", 1e-3), ("bfloat16", 1e-2))
}

_BITS: dict[str, float] = {"bitwise_mismatch": 0}


def _dual_benchmark(level: str, largest: float, mean: float) -> ProfileFact:
    """Return a level of msprobe's dual benchmark: the mean relative error and the RMSE have one bound.

    See `get_benchmark_ratio_threshold`; `_small_value_threshold` is 2 at every level. The error balance has a threshold
    of 2 as well, but is not in its list of statuses. Elements that are NaN or Inf in a run or in golden are left out
    there; our counts of them stay judged. Integers are compared bit by bit.
    """
    bounds = {
        "golden_normal_rmse_ratio": mean,
        "golden_max_relative_error_ratio": largest,
        "golden_mean_relative_error_ratio": mean,
        "golden_small_value_ratio": 2,
        **_CLASSES,
    }
    source = f"msprobe 8ff00da, precision_standard/standard_config.py, level {level}"
    return ProfileFact(1, source, {**dict.fromkeys(_FLOATS, bounds), **dict.fromkeys(_WHOLE, _EQUAL)})


PROFILES: dict[str, ProfileFact] = {
    "default": ProfileFact(1, "pytest-msdump, INTERFACE section 6", _DEFAULT),
    "strict": ProfileFact(
        1,
        "pytest-msdump, INTERFACE section 6; what it does not name is as in `default`",
        {
            **_DEFAULT,
            "float32": {**_DEFAULT["float32"], "cosine_similarity": 0.999999, "relative_euclidean_distance": 1e-4},
            "float16": {**_DEFAULT["float16"], "relative_euclidean_distance": 2e-3},
            "bfloat16": {**_DEFAULT["bfloat16"], "relative_euclidean_distance": 1e-2},
        },
        every_occurrence=True,
    ),
    "ascend": ProfileFact(
        1,
        "Ascend accuracy comparison tool, documented advice for its columns; it has none for integers",
        {**dict.fromkeys(_FLOATS, _ADVISED), **dict.fromkeys(_WHOLE, _EQUAL)},
    ),
    "torch": ProfileFact(
        1,
        "PyTorch, torch.testing.assert_close; tolerances in `facts.profiles`",
        {**dict.fromkeys(_FLOATS, _ELEMENTWISE), **dict.fromkeys(_WHOLE, _EQUAL_ELEMENTS)},
    ),
    "bitwise": ProfileFact(
        1,
        "pytest-msdump, INTERFACE section 6",
        dict.fromkeys((*_FLOATS, *_WHOLE), _BITS),
        dtype_equal=True,
        every_occurrence=True,
    ),
    "generation": ProfileFact(
        1,
        "as `default`; of logits also the KL that MaxText's logit checker allows, and more for 16 bits",
        {**_DEFAULT, **{name: {**_DEFAULT[name], **_KL[name]} for name in _FLOATS}},
    ),
    "ascend_dual_l0": _dual_benchmark("L0", 10, 2),
    "ascend_dual_l1": _dual_benchmark("L1", 5, 1.5),
    "ascend_dual_l2": _dual_benchmark("L2", 2, 1.2),
}


class DualBenchmark(NamedTuple):
    """What msprobe's dual benchmark takes for a data type.

    Values up to `small` are small: they count where they err by more than `small_atol`, and have no relative error. No
    error of the other run counts as less than `least_error`, whatever the number; `epsilon` is added to the values that
    errors are divided by, where it is not that of the golden tensor's own type.
    """

    small: float
    small_atol: float
    least_error: float
    epsilon: float | None = None


# msprobe 8ff00da, precision_standard/standard_config.py: _small_value, _benchmark_small_value_atol, _minmum_err;
# core/common/const.py: BFLOAT16_EPS. Taken over with their oddities: 1e-16 for the types of 16 bits is most likely
# 2**-16 misspelt, so that every small value that errs at all counts; `least_error` is 1,000 times the rounding of
# float32, and of an RMSE has the unit of the data, so that smaller errors pass at any ratio; epsilon of bfloat16 is
# half the distance from 1 to the next number. Types that are not here are as float32.
DUAL_BENCHMARK: Mapping[str, DualBenchmark] = {
    "float32": DualBenchmark(2.0**-20, 2.0**-30, 2.0**-14),
    "float16": DualBenchmark(2.0**-10, 1e-16, 2.0**-11),
    "bfloat16": DualBenchmark(2.0**-10, 1e-16, 2.0**-8, epsilon=2.0**-8),
}

# PyTorch 2.13, torch/_dynamo/utils.py, `same`, get_multiplier: how many times the other run's error is allowed, and
# more for tensors of up to so many elements, as with its flag use_larger_multiplier_for_smaller_tensor.
_MULTIPLIERS: Mapping[str, float] = {"float16": 3.0, "bfloat16": 3.0}
_OTHER_MULTIPLIER = 2.0
_SMALL_TENSORS = ((10, 10.0), (500, 8.0), (999, 3.0))
_OF_ONE_PIXEL = 3.0


def golden_multiplier(dtype: str, shape: tuple[int, ...]) -> float:
    """Return how many times the other run's error against golden PyTorch allows a tensor of this type and shape.

    >>> golden_multiplier("float32", (64, 64)), golden_multiplier("bfloat16", (64, 64))
    (2.0, 3.0)
    """
    elements = prod(shape)
    for most, multiplier in _SMALL_TENSORS:
        if elements <= most:
            return multiplier
    if len(shape) == len("NCHW") and shape[-1] == shape[-2] == 1:
        return _OF_ONE_PIXEL
    return _MULTIPLIERS.get(dtype, _OTHER_MULTIPLIER)


class Tolerance(NamedTuple):
    """Relative part, a share of |right|, and absolute part, in units of the data."""

    rtol: float
    atol: float


# Of elements by data type, as `torch.testing.assert_close` chooses them.
TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
}


# Limits that are measured: which metrics they are of, and the figures that were chosen instead of measured.
#
# References
# ----------
# The figures were measured on twelve networks, forward and backward, with 360 harmless runs (threads, kernels, layouts,
# order of sums) and 799 seeded mistakes: `benchmarks/limits.py`, ``docs/explanation/limits_from_perturbation.md``.
# Noise on inputs averages out in the long sums of gradients, and the error of their order does not; TorchDynamo's
# `same()` widens its rule for small tensors for that reason.

# What limits files hold. A changed formula of one of these is a new version, which older files are refused by.
CALIBRATED_METRICS = ("relative_euclidean_distance", "normalized_max_error", "softmax_kl", "max_softmax_kl")
METRIC_VERSION = 1
# These grow with the square of an error: limits files hold their square roots, which multipliers are of. No such root
# is below what is left of 0 where softmax is computed in float64.
SQUARED_METRICS = frozenset({"softmax_kl", "max_softmax_kl"})
LEAST_ROOT = 1e-6

# A tensor is small below so many elements.
SMALL_ELEMENTS = 1000
# The last part of the names that recorders give to gradients.
GRADIENTS = ("grad", "grad_input", "grad_output")
# Limit = multiplier × what rounding does. Harmless runs reach 7.0 forward and 29 in gradients; of mistakes that are ten
# roundings or more somewhere, 99.7 % exceed these.
ASSUMED_MULTIPLIERS: Mapping[str, float] = {
    "forward_large": 12.0,
    "forward_small": 12.0,
    "gradient_large": 64.0,
    "gradient_small": 64.0,
}

# The perturbation that tells what a coarser type does to a tensor: float16's unit, which float32 resolves well.
COARSE_UNIT = 2.0**-12
# A tensor whose error grows more than so many times faster than the perturbation, in a run perturbed up to so many
# times as much, is chaotic. Slower growth is no sign of it: rounding inside of operators, which falls otherwise in each
# run, makes the error at a rounding unit up to 16 times that of the perturbation alone.
CHAOTIC_GROWTH, CHAOTIC_WITHIN = 2.0, 64.0
# A base so many times what was measured hides a regression: the limit of a forward tensor is then 120 times that.
STALE = 10.0
# A limit of a file that is more times looser than that of the profile `default` holds only where a person accepts it.
MOST_LOOSER = 10.0
# A run of the reference that is more times as far from it as the assumed multiplier allows is no harmless one. Harmless
# runs reach 2.4 times that (BatchNorm over 50,000 terms in channels-last memory).
OUTLYING = 10.0


# Limits of replayed modules, and which operations of PyTorch have limits of their own or cannot be replayed.
#
# A module's score is the left's error over the error of the reference's own run in the same precision, when both get
# the left's values. They are measured: see ``docs/explanation/replay.md``, which `benchmarks/replay.py` reproduces.

# By what is judged: outputs, those behind an exponential (MindSpore's is off by 17 units), and gradients, whose long
# sums cancel, so that the order of summation shows; outputs of 16 bits that round in several places, beside which what
# an exponential is off by is nothing.
SCORE_LIMITS = {"plain": 16.0, "exp": 64.0, "gradient": 64.0, "half": 8.0}

# Of elements stored in 16 bits: the share that may not be correctly rounded, and the number that a small tensor may
# have. Healthy runs were at 0.03 % at most.
FLIPS_SHARE_LIMIT = 1e-3
FLIPS_ALLOWED = 2
# Where the reference's own run has up to so many times more (short sums, few elements), twice its number is allowed;
# with still more it rounds in several places, and flips say nothing.
FLIPS_USABLE = 4

# Of the operators that a replay can judge.
LEAST_REPLAYED = 0.5
