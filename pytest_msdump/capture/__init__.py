"""Dumps from live models. Importing this loads neither numpy nor a framework; names are looked up when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
