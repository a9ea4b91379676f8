"""Files of numbers without a header, ``.raw`` and ``.bin``, of which a suite says the type and, where known, the shape.

Runtimes on devices write them: QNN and SNPE one for each tensor, in ``Result_0``, ``Result_1``, … for each input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.tensor_files.folder import FileTreeReader
from pytest_msdump.core.dtypes.decode import bytes_needed, stored_as
from pytest_msdump.core.dumps.array_files import dump_of_names
from pytest_msdump.core.dumps.array_reader import StoredView, can_be_held, layout_of
from pytest_msdump.core.dumps.base import DumpBuilder
from pytest_msdump.core.dumps.stored_file import opened
from pytest_msdump.core.errors import ConfigError, TensorFileError, UnknownDumpFormatError, nearest
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.spellings import addresses, glob_matches
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec

_SUFFIXES = (".raw", ".bin")
# Globs of operators, each with what it says of them; the first that fits counts.
Said = tuple[tuple[str, Any], ...]


class RawReader(FileTreeReader):
    """Numbers in C order, little-endian, as the suite says; a file of which it gives no shape is one axis long."""

    name = "raw"
    looks_for = "a folder of .raw or .bin files without a header, with dtype said in the suite"
    precedence = -4

    def __init__(self, dtype: Said = (), shape: Said = ()) -> None:
        self._dtype, self._shape = dtype, shape

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is such a file, or there is one in it."""
        return super().recognises(root) if root.is_dir() else self.takes(root.parent, root.name)

    def takes(self, folder: Path, name: str) -> bool:  # noqa: ARG002 - the name says it
        """Whether a file is of such bytes."""
        return name.lower().endswith(_SUFFIXES)

    def index(self, root: Path) -> Dump:
        """List the files by name. UnknownDumpFormatError where nothing says the type of their numbers."""
        if not self._dtype:
            raise UnknownDumpFormatError(
                f"{root}: holds bytes without a header; say in a suite file what they are, left (or right) = "
                f'{{ path = "{root.name}", dtype = "float32" }}, where it is known with shape = [1, 3, 8, 8] or '
                'shape = { "conv*" = [1, 3, 8, 8] }, and compare with --config FILE'
            )
        if root.is_dir():
            dump = super().index(root)
        else:
            key = TensorKey(OpKey(root.stem, Coordinates(iteration=0, occurrence=0)), "output", 0)
            ref = TensorRef(key, TensorSpec(), TensorSource.of(root), self.name)
            dump = dump_of_names(DumpBuilder(root, self.name), [ref])
        names = [addresses(ref.key) for ref in dump.refs]
        for glob, _ in (*self._dtype, *self._shape):
            if not any(glob_matches(glob, one) for one in names):
                raise ConfigError(f"{root}: {glob!r} names no file of it; {nearest(glob, (one[0] for one in names))}")
        specs = [TensorSpec(_said(self._dtype, one), shape := _said(self._shape, one), None, shape) for one in names]
        return replace(dump, refs=tuple(map(_with_spec, dump.refs, specs)))

    def open(self, ref: TensorRef) -> StoredView:
        """Open a file as what the suite says of it. TensorFileError where its size does not fit."""
        dtype, shape = ref.spec.dtype, ref.spec.shape
        if dtype is None:
            raise TensorFileError(f"{ref.source.path}: the suite says no dtype of {ref.key.op.name}; add it there")
        bits = stored_as(dtype).bits
        with opened(ref.source.path) as file:
            if shape is None:
                shape = (8 * file.size // bits,)
            if not can_be_held(shape) or bytes_needed(dtype, prod(shape)) != file.size:
                said = f"{shape} of {dtype}, as the suite says" if ref.spec.shape is not None else f"numbers of {dtype}"
                raise TensorFileError(
                    f"{file.where}: has {file.size} bytes, which cannot be {said}; mend dtype or shape in the suite, "
                    "or dump it again"
                )
            return StoredView(file, 0, layout_of(TensorSpec(dtype, shape, None, shape)))


def index_as(root: Path, dtype: Said, shape: Said) -> Dump:
    """List files without a header as what a suite says of them; raises as `RawReader.index`."""
    return RawReader(dtype, shape).index(root)


def with_shapes(pairing: Pairing, _dumps: Mapping[str, Dump]) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
    """Return pairs with tensors of unknown shape as ones of the same numbers in C order."""
    pairs = (
        replace(pair, transform=replace(pair.transform, reshape=True))
        if any(ref.reader == RawReader.name and ref.spec.shape is None for ref in (pair.left, pair.right))
        else pair
        for pair in pairing.pairs
    )
    return replace(pairing, pairs=tuple(pairs)), {}


def _said(said: Said, names: Sequence[str]) -> Any:
    return next((value for glob, value in said if glob_matches(glob, names)), None)


def _with_spec(ref: TensorRef, spec: TensorSpec) -> TensorRef:
    return replace(ref, spec=spec)
