"""Dumps from live models. Importing this loads neither numpy nor a framework; names are looked up when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.capabilities.frameworks.caffe import from_caffe
    from pytest_msdump.capabilities.frameworks.recorder import Recorder
    from pytest_msdump.capabilities.record.manifest import this_rank
    from pytest_msdump.capabilities.record.reference import keep_reference
    from pytest_msdump.capabilities.record.variation import Control, Perturbation
    from pytest_msdump.capabilities.record.writer import DumpWriter
    from pytest_msdump.capabilities.weights.weights import assert_same_weights, load_weights, read_weights, save_weights
    from pytest_msdump.core.dtypes.arrays import RawArray

__all__ = [
    "Control",
    "DumpWriter",
    "Perturbation",
    "RawArray",
    "Recorder",
    "assert_same_weights",
    "from_caffe",
    "keep_reference",
    "load_weights",
    "read_weights",
    "save_weights",
    "this_rank",
]

# Public name → module that has it.
_HOMES = {
    "Control": "pytest_msdump.capabilities.record.variation",
    "Perturbation": "pytest_msdump.capabilities.record.variation",
    "from_caffe": "pytest_msdump.capabilities.frameworks.caffe",
    "DumpWriter": "pytest_msdump.capabilities.record.writer",
    "RawArray": "pytest_msdump.core.dtypes.arrays",
    "Recorder": "pytest_msdump.capabilities.frameworks.recorder",
    "assert_same_weights": "pytest_msdump.capabilities.weights.weights",
    "keep_reference": "pytest_msdump.capabilities.record.reference",
    "load_weights": "pytest_msdump.capabilities.weights.weights",
    "read_weights": "pytest_msdump.capabilities.weights.weights",
    "save_weights": "pytest_msdump.capabilities.weights.weights",
    "this_rank": "pytest_msdump.capabilities.record.manifest",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
