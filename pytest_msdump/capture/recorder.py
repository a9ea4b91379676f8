"""One object that records every framework: what the fixture ``msdump_recorder`` gives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import ConfigError

if TYPE_CHECKING:
    from pytest_msdump.capture.writer import DumpWriter

__all__ = ["Recorder", "require"]


class Recorder:
    """Records live models. Frameworks are imported when they are used.

    Every method takes ``directory=``, an empty folder or one that will be made; else it is a new one below `base`.

    Parameters
    ----------
    base : path
        Where dumps go of which nobody says where.
    opened : callable, optional
        Makes what the methods that wait for a program return of its folder, or of its `capture.process.Ran`, which
        has the folder and the end of the log; that itself otherwise.
    """

    def __init__(self, base: str | PathLike[str], *, opened: Callable[[Any], Any] | None = None) -> None:
        self.base = Path(base)
        self._opened = opened or (lambda result: result)
        self._given: set[Path] = set()

    def writer(self, directory: str | PathLike[str] | None = None, *, name: str = "dump", **said: Any) -> DumpWriter:
        """Return a `DumpWriter` for arrays that you have in hand; `said` are its keywords."""
        from pytest_msdump.capture.writer import DumpWriter

        return DumpWriter(self.folder(name, directory), **said)

    def torch(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a PyTorch model: a context manager; see `capture.torch_modules.record`."""
        return self._record("torch", "torch_modules", model, directory, options)

    def keras(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a Keras model; see `capture.keras_layers.record`."""
        return self._record("keras", "keras_layers", model, directory, options)

    def tf1(self, session: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a graph of ``tf.compat.v1``; see `capture.tf_graphs.record`."""
        return self._record("tensorflow", "tf_graphs", session, directory, options)

    def onnx(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a model file by ONNX Runtime; see `capture.onnx_outputs.record`."""
        return self._record("onnxruntime", "onnx_outputs", model, directory, options)

    def caffe(self, net: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a Caffe net after its forward pass; needs ``prototxt=``, see `capture.caffe_blobs.from_caffe`."""
        return self._finished(self._record("", "caffe_blobs", net, directory, options))

    def mindspore(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record MindSpore: a cell in PyNative mode through hooks, else a script or callable in a process of its own.

        See `capture.mindspore_cells.record` and `capture.mindspore_run.record`.
        """
        if hasattr(model, "cells_and_names"):
            return self._record("mindspore", "mindspore_cells", model, directory, options)
        return self._finished(self._record("", "mindspore_run", model, directory, options))

    def run(
        self, command: Sequence[str | PathLike[str]], *, directory: str | PathLike[str] | None = None, **options: Any
    ) -> Any:
        """Run any program that dumps, in time, and open what appeared; see `capture.program_run.record`."""
        return self._finished(self._record("", "program_run", command, directory, options))

    def folder(self, name: str, directory: str | PathLike[str] | None = None) -> Path:
        """Return the folder of a recording: `directory` where somebody says one, else a new one that `name` tells."""
        if directory is not None:
            return Path(directory)
        number = 1
        while (path := self.base / (name if number == 1 else f"{name}_{number}")) in self._given or path.exists():
            number += 1
        self._given.add(path)
        return path

    def _record(
        self, package: str, module: str, subject: Any, directory: str | PathLike[str] | None, options: dict[str, Any]
    ) -> Any:
        require(package)
        record = import_module(f"pytest_msdump.capture.{module}").record
        return record(subject, self.folder(module.partition("_")[0], directory), **options)

    def _finished(self, result: Any) -> Any:
        from pytest_msdump.capture.process import Ran

        return self._opened(result) if isinstance(result, (Path, Ran)) else result


# Package → extra of this project that installs it.
_EXTRAS = {
    "torch": "torch",
    "keras": "tensorflow",
    "tensorflow": "tensorflow",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "mindspore": "mindspore",
}


def require(package: str) -> None:
    """Say what to install when a framework is not there; an empty name needs nothing.

    Raises
    ------
    ConfigError
        It cannot be imported.
    """
    if not package or package in sys.modules or find_spec(package) is not None:
        return
    extra = _EXTRAS.get(package, package)
    raise ConfigError(
        f"{package} is not installed here, and recording needs it; pip install 'pytest-msdump[{extra}]'"
    ) from ModuleNotFoundError(f"No module named '{package}'", name=package)
