"""What a recording keeps of a tensor in its place: a sketch, in the one archive of the recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from pytest_msdump.capabilities.statistics.count_sketch import packed, sketch_blocks
from pytest_msdump.capabilities.statistics.tensor_statistics import Digests, quick_digest
from pytest_msdump.core.dtypes.decode import storage_of
from pytest_msdump.core.model.dump import ARCHIVE_FILE, TensorEntry
from pytest_msdump.core.model.tensor import Sketch, Statistic

Array = npt.NDArray[Any]

Looks: TypeAlias = tuple[Any, ...]
# Elements of a tensor by which an equal one is sought among the last ones.
SOME, _MOST_KNOWN = 64, 1024

# A tensor of fewer elements for each bucket is kept as it is.
_WORTH = 4
BLOCK_ELEMENTS = 2**20


class Sketched(NamedTuple):
    """A tensor in whose place a sketch is written that was made elsewhere."""

    dtype: str
    shape: tuple[int, ...]
    statistics: Mapping[str, Statistic]
    sketch: Sketch


def is_worth_it(elements: int, buckets: int) -> bool:
    """Whether a tensor is sketched; a small one is kept as it is."""
    return elements > _WORTH * buckets


def sketched(
    values: Array, entry: TensorEntry, buckets: int, known: dict[Looks, tuple[Array, TensorEntry]]
) -> tuple[Array, TensorEntry]:
    """Return the buckets of a large array as it would be saved, and its entry; `known` has those of the last ones."""
    blocks, dtype = decoded_blocks(values, entry.dtype)
    looks, name = (dtype, *looks_of(values)), quick_digest()
    if looks in known:
        # Hashing costs a fifth of the sketch.
        hashes = Digests([name], dtype)
        for block in blocks:
            hashes.add(block)
        buckets_of, like = known[looks]
        if hashes.values()[name] == like.statistics.get(name):
            return buckets_of, replace(
                entry, dtype=dtype, shape=values.shape, norm=like.norm, statistics=like.statistics
            )
        blocks, _ = decoded_blocks(values, entry.dtype)
    made = described(sketch_of(blocks, dtype, values.shape, buckets), entry)
    keep_latest(known, looks, made)
    return made


def looks_of(values: Array) -> Looks:
    """Return type, shape and some elements of an array with more than `SOME`, to seek others that may be equal."""
    return values.dtype.str, values.shape, values.reshape(-1)[:: values.size // SOME].tobytes()


def keep_latest(known: dict[Looks, Any], looks: Looks, value: Any) -> None:
    """Keep a value, and drop the eldest of too many."""
    known[looks] = value
    # Other threads may do so at the same time.
    for eldest in [*known][:-_MOST_KNOWN]:
        known.pop(eldest, None)


def decoded_blocks(values: Array, dtype: str | None) -> tuple[Iterator[Array], str]:
    """Return the numbers of an array as `array_to_save` returns it, block by block, and their logical type."""
    storage, flat = storage_of(values.dtype.str, dtype, where="an array in memory"), values.reshape(-1)
    return (
        storage.decode(flat[start : start + BLOCK_ELEMENTS]) for start in range(0, flat.size, BLOCK_ELEMENTS)
    ), storage.logical


def sketch_of(blocks: Iterable[Array], dtype: str, shape: tuple[int, ...], buckets: int) -> Sketched:
    """Return the sketch of a tensor, which is read block by block."""
    return Sketched(dtype, shape, *sketch_blocks(blocks, dtype, shape, buckets=buckets, digests=[quick_digest()]))


def described(made: Sketched, entry: TensorEntry) -> tuple[Array, TensorEntry]:
    """Return a sketch as it is saved, and the entry of its tensor."""
    known = {name: value for name, value in made.statistics.items() if value is not None}
    found = replace(entry, dtype=made.dtype, shape=made.shape, norm=made.sketch.norm, statistics=known)
    return packed(made.sketch), found


def npy_content(values: Array) -> Iterator[Any]:
    """Yield the content of an npy file, without a copy of an array in C order."""
    header = BytesIO()
    npy_format.write_array_header_1_0(header, npy_format.header_data_from_array_1_0(values))
    yield header.getvalue()
    yield np.ascontiguousarray(values)


class Archive(ZipFile):
    """The archive of a recording that is being written; its directory is written when it is closed, and only then."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / ARCHIVE_FILE, "x", ZIP_STORED)
        self._sketches: dict[bytes, str] = {}

    def add(self, file: str, values: Array, entry: TensorEntry) -> TensorEntry:
        """Add a tensor, or a sketch if no other tensor has the same one; return the entry, which says so."""
        content = b"".join(npy_content(values))
        # Two of three tensors of a transformer's step are another one's, too.
        member = file if entry.norm is None else self._sketches.setdefault(blake2b(content).digest(), file)
        if member != file:
            return replace(entry, member=member)
        self.writestr(file, content)
        return entry

    def __del__(self) -> None:
        """Write nothing: a forked process ends with a copy of what its parent goes on writing to."""
