"""`Recorder` records models of every framework; the fixture ``msdump_recorder`` is one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.frameworks.caffe import from_caffe
from pytest_msdump.capabilities.frameworks.keras import KerasRecording
from pytest_msdump.capabilities.frameworks.mindspore import CellRecording
from pytest_msdump.capabilities.frameworks.onnx import OnnxRecording
from pytest_msdump.capabilities.frameworks.tf_graphs import TfGraphRecording
from pytest_msdump.capabilities.record.process import Ran
from pytest_msdump.capabilities.record.torch import TorchRecording
from pytest_msdump.capabilities.record.writer import DumpWriter
from pytest_msdump.core import registry
from pytest_msdump.core.compare.opening import OpenDump, open_dump
from pytest_msdump.core.errors import DumpNotFoundError, UnknownDumpFormatError, require_packages
from pytest_msdump.core.ports import offered

Directory = str | PathLike[str] | None


class Recorder:
    """Records live models. Frameworks are imported when they are used.

    Every method takes ``directory=``, an empty folder or one that will be made; by default a new one below `base`.

    Parameters
    ----------
    base : path
        Where dumps go by default.
    opened : callable, optional
        Makes what the methods that wait for a program return, of the folder or of the `record.process.Ran` that has
        the folder and the end of the log. By default they return that itself.
    """

    def __init__(self, base: str | PathLike[str], *, opened: Callable[[Any], Any] | None = None) -> None:
        self.base = Path(base)
        self._opened = opened or (lambda result: result)
        self._used: set[Path] = set()

    def writer(self, directory: Directory = None, *, name: str = "dump", **options: Any) -> DumpWriter:
        """Return a `DumpWriter` for arrays that you have in hand; `options` are its keywords."""
        return DumpWriter(self.folder(name, directory), **options)

    def torch(self, model: Any, *, directory: Directory = None, **options: Any) -> TorchRecording | KerasRecording:
        """Record a PyTorch model, also one of Keras: a context manager; see `record.torch.TorchRecording`."""
        require_packages("torch", need="recording")
        if isinstance(model, getattr(sys.modules.get("keras"), "Layer", ())):
            # PyTorch's hooks see the model alone: Keras calls its layers itself.
            return KerasRecording(model, self.folder("torch", directory), **options)
        return TorchRecording(model, self.folder("torch", directory), **options)

    def keras(self, model: Any, *, directory: Directory = None, **options: Any) -> KerasRecording:
        """Record a Keras model; see `record.keras.KerasRecording`."""
        require_packages("keras", need="recording")
        return KerasRecording(model, self.folder("keras", directory), **options)

    def tf1(self, session: Any, *, directory: Directory = None, **options: Any) -> TfGraphRecording:
        """Record a graph of ``tf.compat.v1``; see `record.tf_graphs.TfGraphRecording`."""
        require_packages("tensorflow", need="recording")
        return TfGraphRecording(session, self.folder("tf", directory), **options)

    def onnx(self, model: Any, *, directory: Directory = None, **options: Any) -> OnnxRecording:
        """Record a model file by ONNX Runtime; see `record.onnx.OnnxRecording`."""
        require_packages("onnxruntime", "onnx", need="recording")
        return OnnxRecording(model, self.folder("onnx", directory), **options)

    def caffe(self, net: Any, *, prototxt: str | PathLike[str], directory: Directory = None, **options: Any) -> Any:
        """Record a Caffe net after its forward pass; see `record.caffe.from_caffe`."""
        return self._opened(from_caffe(net, prototxt, self.folder("caffe", directory), **options))

    def mindspore(self, model: Any, *, directory: Directory = None, **options: Any) -> Any:
        """Record MindSpore: a cell in PyNative mode through hooks, else a script or callable in a process of its own.

        See `record.mindspore.CellRecording` and `programs.program.run_mindspore`.
        """
        if hasattr(model, "cells_and_names"):
            require_packages("mindspore", need="recording")
            return CellRecording(model, self.folder("mindspore", directory), **options)
        return self._opened(offered("programs").run_mindspore(model, self.folder("mindspore", directory), **options))

    def run(self, command: Sequence[str | PathLike[str]], *, directory: Directory = None, **options: Any) -> Any:
        """Run any program that dumps, in time, and open what appeared; see `programs.program.run_program`."""
        return self._opened(offered("programs").run_program(command, self.folder("program", directory), **options))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the recorder of this name of another package, from the entry-point group ``pytest_msdump.record``.

        It is a function of the model, the folder of the dump and its own keywords; here it is called as the methods
        above are. A folder that it returns is opened.
        """
        record = None if name.startswith("_") else registry.entries("record").get(name)
        if record is None:
            raise AttributeError(f"there is no recorder {name!r}: no method, and no package that adds one is installed")

        def recorded(model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
            result = record(model, self.folder(name, directory), **options)
            return self._opened(result) if isinstance(result, (Path, Ran)) else result

        return recorded

    def folder(self, name: str, directory: Directory = None) -> Path:
        """Return the folder of a recording: `directory` where it is given, else a new one with `name`."""
        if directory is not None:
            return Path(directory)
        number = 1
        while (path := self.base / (name if number == 1 else f"{name}_{number}")) in self._used or path.exists():
            number += 1
        self._used.add(path)
        return path


def opened(ran: Ran | Path) -> OpenDump:
    """Open what a program or a writer left; ProgramError with the end of what was printed where that is no dump."""
    if isinstance(ran, Path):
        return open_dump(ran)
    try:
        dump = open_dump(ran.directory)
    except DumpNotFoundError:
        ran.fail(f"ended well and has removed {ran.directory}, which it was to dump to")
    except UnknownDumpFormatError as error:
        ran.fail(f"ended well, and what it left is not a dump: {error}")
    if not dump.refs:
        ran.fail(f"ended well after {ran.seconds:.1f} s and dumped nothing to {ran.directory}: {ran.question}")
    return dump
