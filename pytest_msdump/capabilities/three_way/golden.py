"""Errors of a run against golden, a more exact run of the same model, and their ratios to those of another run.

References
----------
PyTorch, torch/_dynamo/utils.py, `same`: RMSE against float64. msprobe 8ff00da, pytorch/api_accuracy_checker,
compare/algorithm.py and precision_standard/benchmark_compare.py: the "dual benchmark", all numbers but `rmse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import DUAL_BENCHMARK
from pytest_msdump.core.metrics.definitions import LEFT_OUT
from pytest_msdump.core.metrics.sums import ZERO, Sum, dot
from pytest_msdump.core.metrics.values import (
    Array,
    Blocks,
    Doubles,
    Workspace,
    components,
    differences,
    magnitudes,
    numbers,
)
from pytest_msdump.core.model.comparison import GoldenErrors, Measurement, ThreeWay
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message

_BLOCK_ELEMENTS = 2**16
# msprobe's get_rmse: against division by 0, and once more.
_TINY = 0.0001
_DISTANCE, _LARGEST = "relative_euclidean_distance", "normalized_max_error"


def golden_errors(
    view: TensorView, golden: TensorView, *, block_elements: int = _BLOCK_ELEMENTS
) -> tuple[GoldenErrors, float]:
    """Measure a tensor against golden, of the same logical shape; return golden's root mean square as well."""
    sums, workspace = _Sums(view.dtype, golden.dtype), Workspace()
    with np.errstate(all="ignore"):
        for _, block, golden_block in Blocks(view, golden, block_elements):
            sums.add(numbers(block), numbers(golden_block), workspace)
    return sums.errors(), sums.golden.root_of_ratio(Sum(sums.finite)) if sums.finite else 0.0


def golden_distances(
    view: TensorView, golden: TensorView, dtype: str, *, block_elements: int = _BLOCK_ELEMENTS
) -> dict[str, float]:
    """Return how far a run in a data type is from golden, in metrics of profiles; infinite where NaN are elsewhere."""
    # What is beyond the range of the type counts as its largest number on both sides: masks are such numbers, or Inf.
    most, workspace = DTYPES[dtype].maximum or np.finfo(np.float64).max, Workspace()
    squares, sizes, farthest, largest = ZERO, ZERO, 0.0, 0.0
    with np.errstate(all="ignore"):
        for _, block, golden_block in Blocks(view, golden, block_elements):
            run, exact = (_clipped(numbers(one), most) for one in (block, golden_block))
            known = ~np.isnan(run)
            if not np.array_equal(known, ~np.isnan(exact)):
                return dict.fromkeys((_DISTANCE, _LARGEST), math.inf)
            error, size = _where(known, np.abs(run - exact)), _where(known, np.abs(exact))
            squares = squares.merge(_squares(error, workspace))
            sizes = sizes.merge(_squares(size, workspace))
            farthest, largest = (float(np.max(one, initial=most)) for one, most in ((error, farthest), (size, largest)))
    if not farthest or not largest:
        return dict.fromkeys((_DISTANCE, _LARGEST), math.inf if farthest else 0.0)
    return {_DISTANCE: squares.root_of_ratio(sizes), _LARGEST: farthest / largest}


def _clipped(block: Array, most: float) -> Array:
    """Return a block in float64 within the range of a type, or in complex128 as it is."""
    if block.dtype.kind == "c":
        return block.astype(np.complex128)
    return np.clip(block.astype(np.float64), -most, most)


class _Sums:
    """What the blocks of a tensor add up to."""

    def __init__(self, dtype: str, golden_dtype: str) -> None:
        name = DTYPES[dtype].component or dtype
        self._benchmark = DUAL_BENCHMARK.get(name, DUAL_BENCHMARK["float32"])
        own = EPSILON.get(DTYPES[golden_dtype].component or golden_dtype, EPSILON["float32"])
        self._epsilon = own if self._benchmark.epsilon is None else self._benchmark.epsilon
        self._is_real = "complex" not in (DTYPES[dtype].kind, DTYPES[golden_dtype].kind)
        self.finite = self._elements = self._small = self._small_errors = self._normal = self._above = 0
        self.golden = self._squares = self._normal_squares = ZERO
        self._relative = self._largest = 0.0

    def add(self, block: Array, golden: Array, workspace: Workspace) -> None:
        rounded = golden.astype(block.dtype) if self._is_real and block.dtype.kind == "f" else golden
        finite = np.isfinite(block) & np.isfinite(golden)
        parts = components(block, "left", workspace), components(golden, "right", workspace)
        error, size = differences(block, golden, parts).doubles, magnitudes(parts[1])
        self._elements += block.size
        self.finite += int(np.count_nonzero(finite))
        self._squares = self._squares.merge(_squares(_where(finite, error), workspace))
        self.golden = self.golden.merge(_squares(_where(finite, size), workspace))
        if self._is_real:
            self._above += int(np.count_nonzero(block > rounded)) - int(np.count_nonzero(block < rounded))
        # Golden may be beyond the range of the run's type, where msprobe does not compare.
        finite &= np.isfinite(rounded)
        small = finite & (size <= self._benchmark.small)
        self._small += int(np.count_nonzero(small))
        self._small_errors += int(np.count_nonzero(error[small] > self._benchmark.small_atol))
        normal = finite & ~small
        error, size = _where(normal, error), _where(normal, size)
        if error.size:
            relative = error / (size + self._epsilon)
            self._normal += error.size
            self._normal_squares = self._normal_squares.merge(_squares(error, workspace))
            self._relative += float(np.add.reduce(relative))
            self._largest = max(self._largest, float(relative.max()))

    def errors(self) -> GoldenErrors:
        scale = self._elements / (self._normal + _TINY) + _TINY
        return GoldenErrors(
            finite=self.finite,
            rmse=self._squares.root_of_ratio(Sum(self.finite)) if self.finite else 0.0,
            normal_rmse=self._normal_squares.scaled(scale).root_of_ratio(Sum(self._elements)) if self._normal else 0.0,
            max_relative_error=self._largest,
            mean_relative_error=self._relative / self._normal if self._normal else 0.0,
            small_value_share=self._small_errors / self._small if self._small else 0.0,
            error_balance=abs(self._above) / self._elements if self._is_real and self._elements else None,
        )


def _where(mask: npt.NDArray[np.bool_], values: Doubles) -> Doubles:
    return values if mask.all() else values[mask]


def _squares(values: Doubles, workspace: Workspace) -> Sum:
    if not values.size:
        return ZERO
    peak = float(values.max())
    return dot(values, values, (peak, peak), workspace)


def golden_ratios(found: ThreeWay, *, dtype: str, floor: float, without: Mapping[str, str]) -> dict[str, Measurement]:
    """Return every ratio of the left run's error to the other run's; `dtype` is the left run's."""
    name = DTYPES[dtype].component or dtype
    least = DUAL_BENCHMARK.get(name, DUAL_BENCHMARK["float32"]).least_error
    fields = {metric: fact.golden for metric, fact in METRICS.items() if fact.golden}
    return {
        metric: Measurement(metric, undefined=Message(LEFT_OUT, {"rule": without[metric]}))
        if metric in without
        else _ratio(metric, found, field, floor if field == "rmse" else least)
        for metric, field in fields.items()
    }


def _ratio(metric: str, found: ThreeWay, field: str, floor: float) -> Measurement:
    left, other = getattr(found.left, field), getattr(found.other, field)
    if not (found.left.finite and found.other.finite):
        why = "golden_nothing_finite"
    elif left is None or other is None:
        why = "tensors_are_complex"
    elif left and not max(other, floor):
        why = "golden_other_is_exact"
    else:
        value = left / max(other, floor) if left else 0.0
        if math.isfinite(value) and math.isfinite(other):
            return Measurement(metric, value)
        why = "number_too_large"
    return Measurement(metric, undefined=Message(why))
