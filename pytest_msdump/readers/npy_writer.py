"""Writes a tensor into a ``.npy`` file, block by block; the file appears whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy_format

from pytest_msdump.errors import MsdumpError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorView

__all__ = ["write_npy"]

_BLOCK_ELEMENTS = 2**17


def write_npy(view: TensorView, path: Path) -> Path:
    """Write the values of a tensor in C order, in the numpy type they are computed in (bfloat16 as float32).

    Parameters
    ----------
    view : TensorView
        Read to its end.
    path : Path
        The file; its folder exists.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    MsdumpError
        The tensor cannot be read, or the file cannot be written.
    """
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    dtype = np.dtype(DTYPES[view.dtype].native).newbyteorder("<")
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": view.shape}
    try:
        try:
            with temporary.open("wb") as stream:
                npy_format.write_array_header_1_0(stream, header)
                for block in view.blocks(_BLOCK_ELEMENTS):
                    stream.write(block.astype(dtype, copy=False).tobytes())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written: {error.strerror or error}; choose another folder") from error
    return path
