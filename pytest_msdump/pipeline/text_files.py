"""Tensors as text files, as `numpy.savetxt` writes them: flat, one value a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.model.tensor import TensorRef, TensorView
from pytest_msdump.pipeline.inspecting import tensors_of
from pytest_msdump.pipeline.opening import open_logical

__all__ = ["save_text"]

_BLOCK_ELEMENTS = 2**16
_ARRAY = ".npy"


def save_text(path: Path, directory: Path, *, with_header: bool = False) -> Iterator[Path]:
    """Write every tensor of a file as text.

    Parameters
    ----------
    path : Path
        A file of a dump.
    directory : Path
        Is made when it is not there.
    with_header : bool
        Whether to write shape and type into a first line that begins with ``#``, which `numpy.loadtxt` passes over.

    Yields
    ------
    Path
        ``NAME.txt`` for the array in ``NAME.npy``; ``NAME.IO.SLOT.txt`` for each tensor of another file. Values are
        in C order of the logical shape, each as ``%.18e``.

    Raises
    ------
    ConfigError
        The file holds no tensor.
    MsdumpError
        A tensor cannot be read, or a file not be written.
    """
    _, refs = tensors_of(path)
    if not refs:
        raise ConfigError(f"{path}: holds no tensor that could be written as text")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{directory}: cannot be made: {error.strerror or error}; name another folder") from error
    for ref in refs:
        with closing(open_logical(ref)) as view:
            yield _write(view, directory / _name(ref, path), with_header=with_header)


def _name(ref: TensorRef, path: Path) -> str:
    if path.suffix == _ARRAY:
        return f"{path.stem}.txt"
    return f"{path.name}.{ref.key.io}.{ref.key.slot}.txt"


def _write(view: TensorView, path: Path, *, with_header: bool) -> Path:
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        try:
            with temporary.open("w", encoding="ascii", newline="\n") as stream:
                if with_header:
                    stream.write(f"# shape {view.shape}, dtype {view.dtype}\n")
                for block in view.blocks(_BLOCK_ELEMENTS):
                    np.savetxt(stream, block)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written: {error.strerror or error}; choose another folder") from error
    return path
