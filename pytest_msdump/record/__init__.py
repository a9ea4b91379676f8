"""Dumps from live models. Importing this loads neither numpy nor a framework; names are looked up when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.core.dtypes.arrays import RawArray
    from pytest_msdump.record.caffe import from_caffe
    from pytest_msdump.record.ranks import this_rank
    from pytest_msdump.record.recorder import Recorder
    from pytest_msdump.record.reference import keep_reference
    from pytest_msdump.record.variation import Control, Perturbation
    from pytest_msdump.record.weights import assert_same_weights, load_weights, read_weights, save_weights
    from pytest_msdump.record.writer import DumpWriter

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
    "Control": "pytest_msdump.record.variation",
    "Perturbation": "pytest_msdump.record.variation",
    "from_caffe": "pytest_msdump.record.caffe",
    "DumpWriter": "pytest_msdump.record.writer",
    "RawArray": "pytest_msdump.core.dtypes.arrays",
    "Recorder": "pytest_msdump.record.recorder",
    "assert_same_weights": "pytest_msdump.record.weights",
    "keep_reference": "pytest_msdump.record.reference",
    "load_weights": "pytest_msdump.record.weights",
    "read_weights": "pytest_msdump.record.weights",
    "save_weights": "pytest_msdump.record.weights",
    "this_rank": "pytest_msdump.record.ranks",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
