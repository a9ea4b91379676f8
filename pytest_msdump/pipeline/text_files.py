"""Tensors as text files, byte by byte as `numpy.savetxt` writes them: flat, one value a line.

References
----------
Ascend "Accuracy Comparison Tool", "How Do I View a Dump File?": ``numpy.savetxt`` of the flattened tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pytest_msdump.converting.array_files import text_bytes, whole_file
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.model.tensor import TensorRef, TensorView
from pytest_msdump.pipeline.inspecting import tensors_of
from pytest_msdump.pipeline.opening import open_logical

__all__ = ["save_text"]

_ARRAY, _TEXT = ".npy", ".txt"


def save_text(path: Path, out: Path, *, with_header: bool = False) -> Iterator[Path]:
    """Write every tensor of a file as text.

    Parameters
    ----------
    path : Path
        A file of a dump.
    out : Path
        A file, when it ends in ``.txt`` and is no folder; else a folder, which is made when it is not there.
    with_header : bool
        Whether to write shape and type into a first line that begins with ``#``, which `numpy.loadtxt` passes over.

    Yields
    ------
    Path
        In a folder ``NAME.txt`` for the array in ``NAME.npy``, ``NAME.IO.SLOT.txt`` for each tensor of another file.

    Raises
    ------
    ConfigError
        The file holds no tensor, or several for one text file.
    MsdumpError
        A tensor cannot be read, or a file not be written.

    Notes
    -----
    Values are in C order of the logical shape, each as ``%.18e``, which brings every float back as it was. Integers are
    written so as well, hence as the float64 nearest to them: exact up to 2**53. A complex number is ``(re+imj)``.
    """
    _, refs = tensors_of(path)
    if not refs:
        raise ConfigError(f"{path}: holds no tensor that could be written as text")
    is_file = out.suffix.lower() == _TEXT and not out.is_dir()
    if is_file and len(refs) > 1:
        raise ConfigError(f"{out}: is one file, and {path.name} holds {len(refs)} tensors; name a folder")
    folder = out.parent if is_file else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{folder}: cannot be made: {error.strerror or error}; name another folder") from error
    for ref in refs:
        with closing(open_logical(ref)) as view:
            yield _write(view, out if is_file else out / _name(ref, path), with_header=with_header)


def _name(ref: TensorRef, path: Path) -> str:
    if path.suffix == _ARRAY:
        return f"{path.stem}.txt"
    return f"{path.name}.{ref.key.io}.{ref.key.slot}.txt"


def _write(view: TensorView, path: Path, *, with_header: bool) -> Path:
    with whole_file(path) as stream:
        for piece in text_bytes(view, with_header=with_header):
            stream.write(piece)
    return path
