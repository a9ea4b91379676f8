"""The confusion matrix of the benchmark, in a size for every run of the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.core.compare.opening import ArrayView

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "diagnosis.py"


@pytest.fixture(scope="module")
def benchmark_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagnosis_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_no_sure_diagnosis_is_wrong_and_nearly_every_pattern_is_found(benchmark_module):
    matrix = benchmark_module.judge(benchmark_module.trials(2, 120, seed=20, sizes=(600,)))
    assert matrix.precision == 1, matrix.wrong
    found = sum(count for (kind, told), count in matrix.counts.items() if kind is not None and kind == told)
    asked = sum(count for (kind, _), count in matrix.counts.items() if kind is not None)
    assert found >= 0.95 * asked, matrix.wrong


SMALL = (*((size,) for size in range(1, 17)), (2, 2), (3, 3), (2, 5), (2, 8), (4, 4), (1, 3, 2, 2), (1, 1, 4, 4))


def small_values(random: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """Values of any distribution, mean and type, as small tensors have them: logits, biases, counts, masks."""
    plain = random.normal(size=shape)
    way = random.integers(8)
    if way == 0:
        return random.integers(-4, 5, shape).astype(np.int8)
    if way == 1:
        return random.integers(-120, 120, shape).astype(np.int32)
    if way == 2:
        return plain > 0
    values = (plain, plain + 100, random.uniform(10, 11, shape), np.maximum(plain, 0), np.exp(3 * plain))[way - 3]
    return values.astype(random.choice(["float16", "float32", "float64"]))


def test_nothing_is_said_of_small_tensors_of_unrelated_values():
    random = np.random.default_rng(20)
    for number in range(200):
        shape = SMALL[number % len(SMALL)]
        left, right = small_values(random, shape), small_values(random, shape)
        found = {entry.id for entry in diagnose(ArrayView(left), ArrayView(right))}
        is_constant = left.size >= 4 and left.min() == left.max()
        assert found <= ({"constant"} if is_constant else set()), (left, right)
