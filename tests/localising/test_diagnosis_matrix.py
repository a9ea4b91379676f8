"""The confusion matrix of the benchmark, in a size for every run of the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
    assert matrix.precision >= 0.99, matrix.wrong
    found = sum(count for (kind, told), count in matrix.counts.items() if kind is not None and kind == told)
    asked = sum(count for (kind, _), count in matrix.counts.items() if kind is not None)
    assert found >= 0.95 * asked, matrix.wrong


def test_every_pattern_has_a_diagnosis_of_its_name(benchmark_module):
    from pytest_msdump.facts.diagnoses import DIAGNOSES

    assert set(benchmark_module.PATTERNS) == set(DIAGNOSES) - {"constant", "nonfinite"}
