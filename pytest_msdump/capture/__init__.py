"""Dumps from live models. Importing this loads neither numpy nor a framework; names are looked up when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.capture.caffe_blobs import from_caffe
    from pytest_msdump.capture.raw import RawArray
    from pytest_msdump.capture.recorder import Recorder
    from pytest_msdump.capture.reference import keep_reference
    from pytest_msdump.capture.weights import assert_same_weights, load_weights, read_weights, save_weights
    from pytest_msdump.capture.writer import DumpWriter

__all__ = [
    "DumpWriter",
    "RawArray",
    "Recorder",
    "assert_same_weights",
    "from_caffe",
    "keep_reference",
    "load_weights",
    "read_weights",
    "save_weights",
]

# Public name → module that has it.
_HOMES = {
    "from_caffe": "caffe_blobs",
    "DumpWriter": "writer",
    "RawArray": "raw",
    "Recorder": "recorder",
    "assert_same_weights": "weights",
    "keep_reference": "reference",
    "load_weights": "weights",
    "read_weights": "weights",
    "save_weights": "weights",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
