"""Names of converted files: the vendor's, so that its users' scripts and our readers find them.

References
----------
Ascend "Accuracy Comparison Tool", ``msaccucmp.py convert``, release 26.2.0.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from math import prod
from typing import NamedTuple

from pytest_msdump.dumps.file_names import parse_ascend, parse_converted, parse_mindspore, parse_protobuf
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorRef, mangle

__all__ = ["SUFFIXES", "Stem", "short_name", "stem_of"]

SUFFIXES = {"npy": ".npy", "msnpy": ".npy", "npz": ".npz", "bin": ".bin", "txt": ".txt"}

# Where the vendor's tool begins to write names into mapping.csv.
_TOO_LONG = 255
# An npy file holds complex64 where a dump holds complex32; the name would contradict it.
_UNSAYABLE = frozenset({"complex32"})
_MSNPY_FIELDS = 5


class Stem(NamedTuple):
    """Beginnings of the name of a tensor's file.

    npy and txt files without a memory format have `whole`. `numbered` ends with the tensor's number, ``None`` where the
    source's name has no place for it; `renamed` is for msnpy.
    """

    whole: str
    numbered: str | None
    renamed: str | None = None

    def file_name(self, to: str, *, shape: tuple[int, ...], dtype: str, memory_format: str, converted: bool) -> str:
        """Return the name of a tensor's file.

        Parameters
        ----------
        to : str
            A key of `SUFFIXES` other than ``npz``.
        shape : tuple of int
            As it is written.
        dtype : str
            Its logical type.
        memory_format : str
            As it is written.
        converted : bool
            Whether that format was asked for; only then the name has the shape.

        Examples
        --------
        >>> stem = Stem("Add.op.1.2.3.output.0", "Add.op.1.2.3.output.0")
        >>> stem.file_name("bin", shape=(2, 19), dtype="float16", memory_format="ND", converted=True)
        'Add.op.1.2.3.output.0.2_19.float16.ND.bin'
        """
        lengths = [str(length) for length in shape]
        if to == "msnpy":
            fields = [self.renamed or self.numbered or self.whole, memory_format]
            # The type, where an npy file holds it as another one.
            fields += [dtype] if DTYPES[dtype].native != dtype and dtype not in _UNSAYABLE else []
        elif to == "bin":
            fields = [self.numbered or self.whole, "_".join(lengths) if converted and lengths else str(prod(shape))]
            fields += [dtype, memory_format]
        elif converted and self.numbered is not None and lengths:
            fields = [self.numbered, "x".join(lengths)]
        else:
            fields = [self.whole]
        return ".".join(fields) + SUFFIXES[to]


def stem_of(ref: TensorRef, name: str) -> Stem:
    """Return what the names of a tensor's files begin with; `name` is its own file's, before it was shortened.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
    >>> ref = TensorRef(TensorKey(OpKey("a"), "output", 1), TensorSpec(), TensorSource.of(Path("x"), part=0), "ascend")
    >>> stem_of(ref, "Conv2D.a.3.1.1600000000000003").whole
    'Conv2D.a.3.1.1600000000000003.output.1'
    """
    number = f"{ref.key.io}.{ref.key.slot}"
    protobuf = parse_protobuf(name)
    if protobuf is not None:
        return Stem(protobuf.filename.removesuffix(".npy"), None)
    array, mindspore = parse_converted(name), parse_mindspore(name)
    if array is not None or mindspore is not None:
        # The file's name up to the tensor's number.
        fields = name.split(".")
        last = max(place for place, field in enumerate(fields[:-1]) if field in ("input", "output"))
        return Stem(name.removesuffix(".npy"), ".".join(fields[: last + 2]))
    if parse_ascend(name) is not None:
        return Stem(f"{name}.{number}", f"{name}.{number}", f"{_renamed(ref, name)}.{number}")
    return Stem(name.rpartition(".")[0] or name, None)


def _renamed(ref: TensorRef, name: str) -> str:
    """Put the last part of the operator's own name into a file name of five fields, as the vendor's msnpy does."""
    fields = name.split(".")
    if len(fields) != _MSNPY_FIELDS:
        return name
    fields[1] = mangle(ref.key.op.label.rpartition("/")[2]) or fields[1]
    return ".".join(fields)


def short_name(name: str) -> str | None:
    """Return the name that stands for one too long for the file system; ``None`` where it is not.

    Examples
    --------
    >>> short_name("Add.op.1.2.3.output.0.npy") is None
    True
    """
    if len(os.fsencode(name)) < _TOO_LONG:
        return None
    # The vendor's way, so that both tools give one file one name; no secret depends on it.
    # `uuid.uuid3` does the same, but for UTF-8 names only.
    digest = hashlib.md5(uuid.NAMESPACE_DNS.bytes + os.fsencode(name), usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest, version=3).hex + os.path.splitext(name)[1]  # noqa: PTH122
