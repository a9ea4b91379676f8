"""What people give where a tensor is asked for: an array, a framework's tensor, a file, a reference, an opened view."""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Union

from pytest_msdump.capture.arrays import as_array
from pytest_msdump.capture.raw import RawArray
from pytest_msdump.capture.stored import decoded
from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.metrics.arrays import ArrayView
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorView
from pytest_msdump.pipeline.indexing import index
from pytest_msdump.pipeline.opening import as_path, open_view

__all__ = ["Tensor", "opened"]

# An array (anything numpy can make one of), an opened tensor, a reference to one, or a tensor file.
Tensor: TypeAlias = Union[TensorView, TensorRef, str, "PathLike[str]", Any]


def opened(side: Tensor, name: str, stack: ExitStack) -> tuple[TensorRef, TensorView]:
    """Return whatever stands for a tensor as a reference and an opened view, which `stack` closes.

    Raises
    ------
    ConfigError
        A path to a dump of several tensors.
    MsdumpError
        The file cannot be opened.
    """
    if isinstance(side, (str, PathLike)):
        refs = index(as_path(side)).refs
        if len(refs) != 1:
            raise ConfigError(f"{side}: holds {len(refs)} tensors; give one tensor file, or use assert_dumps_close")
        side = refs[0]
    if isinstance(side, TensorRef):
        view = open_view(side)
        stack.callback(view.close)
        return side, view
    view = side if hasattr(side, "blocks") else _view(side)
    key = TensorKey(OpKey(name), "output", 0)
    return TensorRef(key, view.spec, TensorSource(Path("array in memory")), reader="array"), view


def _view(value: Any) -> ArrayView:
    """A view of an array in memory; of types that numpy lacks, their values, judged as the type."""
    array = as_array(value)
    if not isinstance(array, RawArray):
        # Libraries that extend numpy with such types give arrays whose bits are told by the type's name.
        known = canonical(getattr(getattr(array, "dtype", None), "name", ""))
        if known is None or DTYPES[known].native == known:
            return ArrayView(array)
        array = RawArray(array, array.shape, known)
    values, dtype = decoded(array)
    return ArrayView(values, dtype)
