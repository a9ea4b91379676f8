"""From stored bytes to values.

The name of a dump file says the logical type, an npy header how the bytes are stored. The table of storage forms below
is complete on purpose: a pair of statements that is not in it is a contradiction. Binary dumps have no header: their
elements lie as `stored_as` says.

References
----------
MindSpore 2.10 writes bfloat16 as two bytes under the descr ``'<E2'``, an earlier one as ``'<T2'``; its documentation
says float32 for Ascend, and int8 and uint8 for int4 and uint1. Libraries that extend numpy write ``'|V2'``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.low_precision import BYTE_TABLES, byte_table, float4_e2m1_codes
from pytest_msdump.core.errors import TensorFileError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES

Array = npt.NDArray[Any]

_DESCR = re.compile(r"([<>|=]?)([A-Za-z?]+)(\d{0,3})", re.ASCII)

# Kind letter and bytes of one element, as in numpy's array protocol, and the type they hold.
_CODES = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16"
_PLAIN: dict[str, str] = {**{code: np.dtype(code).name for code in _CODES.split()}, "E2": "bfloat16", "T2": "bfloat16"}
# Other spellings that numpy takes, as writers of their own use them: its letters and names.
_NAMES = "bool int uint float complex half single double longdouble clongdouble"
_SPELLED: dict[str, str] = {
    name: f"{dtype.kind}{dtype.itemsize}"
    for name in (*"?bBhHiIlLqQefdgFDG", *_PLAIN.values(), *_NAMES.split())
    if name != "bfloat16" and (dtype := np.dtype(name))
}

_BYTE_FLOATS = tuple(name for name in BYTE_TABLES if DTYPES[name].kind == "float")

# (what the dump claims, what the header says) → logical type, where the two differ.
_STORED_AS = {
    **{("bfloat16", code): "bfloat16" for code in ("f4", "u2", "V2")},
    **{(name, code): name for name in _BYTE_FLOATS for code in ("u1", "V1", "f1", "f4")},
    # As this package records it: one element a byte. How binary dumps pack it is unknown.
    ("float4_e2m1", "u1"): "float4_e2m1",
    ("int4", "i1"): "int4",
    ("int2", "i1"): "int2",
    **{(name, "u1"): name for name in ("uint2", "uint4", "uint1")},
    ("complex32", "u4"): "complex32",
}

# Codes of raw bits, whose type the dump has to say.
_BITS = {"V2": "u2", "E2": "u2", "T2": "u2", "V1": "u1", "f1": "u1"}

_REFUSED = {
    "O": "pickled Python objects, which are never loaded; where you trust a dict of arrays, make an archive of it in "
    'Python: np.savez("f.npz", **np.load("f.npy", allow_pickle=True).item())',
    "S": "byte strings, which cannot be compared as numbers: leave this tensor out with deselect",
    "U": "text, which cannot be compared as numbers: leave this tensor out with deselect",
    "M": "dates, which cannot be compared as tensors: save them as int64",
    "m": "time spans, which cannot be compared as tensors: save them as int64",
    "V": "raw bytes of unknown meaning: bfloat16 is read when the file name says BFloat16, else save float32",
    "f": "floats wider than 64 bits, which differ from machine to machine: save them as float64",
    "c": "complex numbers wider than 128 bits, which differ from machine to machine: save them as complex128",
}


class Storage(NamedTuple):
    """How a tensor is stored: its logical type, the numpy type to read it as, and what turns that into values."""

    logical: str
    stored: np.dtype[Any]
    decode: Callable[[Array], Array]

    @property
    def bits(self) -> int:
        """Bits of one element in a binary dump."""
        return DTYPES[self.logical].bits


def bfloat16_values(bits: Array) -> Array:
    """Return bfloat16 numbers, given as 16 bits in any byte order, exactly as float32; NaN payloads are kept."""
    wide: Array = np.left_shift(bits, np.uint32(16), dtype=np.uint32)
    return wide.view(np.float32)


def rounded_to(values: Array, name: str) -> Array:
    """Round numbers to the nearest of a data type, to even where two are as near; floats come as float64."""
    native = np.dtype(DTYPES[name].native)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: Array = values.astype(native)
    if name == "bfloat16":
        bits = rounded.view(np.uint32)
        upper = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
        # Of a NaN the sum may carry into the sign.
        rounded = np.where(np.isnan(rounded), rounded, upper.view(np.float32))
    return rounded.astype(np.float64) if native.kind == "f" else rounded


@lru_cache(maxsize=256)
def can_decode(name: str) -> bool:
    """Whether `stored_as` can decode a data type."""
    known = canonical(name)
    return known is not None and DTYPES[known].native != ""


@lru_cache(maxsize=256)
def stored_as(name: str) -> Storage:
    """Return how a binary dump stores elements of a data type: little-endian, without gaps."""
    known = canonical(name)
    if known is None:
        raise UnknownNameError(f"unknown data type '{name}'; {nearest(name, DTYPES)}")
    if not DTYPES[known].native:
        why = "holds no numbers" if DTYPES[known].kind == "opaque" else "has no numeric decoding that is known"
        raise TensorFileError(f"data type {known} {why}, so it cannot be compared: leave the tensor out with deselect")
    if known in BYTE_TABLES:
        table = byte_table(known)
        return Storage(known, np.dtype(np.uint8), lambda raw: table[raw].reshape(-1))
    if known == "bfloat16":
        return Storage(known, np.dtype("<u2"), bfloat16_values)
    if known == "bool":
        # A bool byte that is neither 0 nor 1 would make numpy's answers depend on the operation.
        return Storage(known, np.dtype(np.uint8), lambda raw: raw != 0)
    if known == "complex32":
        return Storage(known, np.dtype("<f2"), lambda raw: raw.astype(np.float32).view(np.complex64))
    return _as_native(known, np.dtype(DTYPES[known].native).newbyteorder("<"))


def bytes_needed(name: str, elements: int) -> int:
    """Return the bytes of so many elements in a binary dump; raises as `stored_as`."""
    return -(-elements * stored_as(name).bits // 8)


def storage_of(descr: object, claimed: str | None, *, where: str) -> Storage:
    """Return how a tensor is stored, from an npy header's `descr` and the type that the file's name claims."""
    if not isinstance(descr, str):
        raise TensorFileError(
            f"{where}: holds records of several fields (structured dtype); save each field as a plain array of its own"
        )
    try:
        found = _storage_of(descr, claimed)
    except TensorFileError as error:
        raise TensorFileError(f"{where}: {error}") from None
    if found.logical == "float4_e2m1":
        return found._replace(decode=lambda raw: _float4_values(raw, where))
    return found


# A dump has many files and few types.
@lru_cache(maxsize=256)
def _storage_of(descr: str, claimed: str | None) -> Storage:
    order, code = _code_of(descr)
    logical = _logical_of(code, claimed, descr)
    code = _BITS.get(code, code)
    if code == "b1" or (logical in _BYTE_FLOATS and code == "u1"):
        return stored_as(logical)
    stored = np.dtype(order + code)
    if logical == "bfloat16" and code == "u2":
        return Storage(logical, stored, bfloat16_values)
    if logical == "complex32":
        # The real part is the first half in memory, whatever the order of bytes in each half.
        return Storage(logical, stored, lambda raw: stored_as(logical).decode(raw.astype("<u4").view("<f2")))
    return _as_native(logical, stored)


def _as_native(logical: str, stored: np.dtype[Any]) -> Storage:
    """Return the storage of numbers whose byte order or width may differ from the native type's."""
    native = np.dtype(DTYPES[logical].native or stored)
    same = stored == native
    return Storage(logical, stored, lambda raw: raw if same else raw.astype(native, copy=False))


def _float4_values(raw: Array, where: str) -> Array:
    codes = float4_e2m1_codes()
    if raw.size and raw.max() >= codes.size:
        raise TensorFileError(
            f"{where}: holds the byte {raw.max()}, and one element of float4_e2m1 a byte is at most {codes.size - 1}; "
            "save elements that share a byte one by one"
        )
    return codes[raw]


def _code_of(descr: str) -> tuple[str, str]:
    """Split ``'<f4'`` into byte order and code; refuse what holds no numbers."""
    match = _DESCR.fullmatch(descr)
    order, code = (match[1], match[2] + match[3]) if match else ("", "")
    code = _SPELLED.get(code, code)
    if code in _PLAIN or code in _BITS:
        # '|' on more than one byte and '=' mean the reading machine's own order, as in numpy.
        return order.replace("|", "="), code
    kind = code[:1] or descr[1:2]
    why = _REFUSED.get(kind, "no type that is known here: save the tensor as a plain numpy type, e.g. float32")
    raise TensorFileError(f"dtype {descr[:40]!r} in its header means {why}")


def _logical_of(code: str, claimed: str | None, descr: str) -> str:
    header = _PLAIN.get(code)
    if claimed is None:
        if header is None:
            raise TensorFileError(f"dtype {descr!r} in its header means {_REFUSED['V']}")
        return header
    said = canonical(claimed) or claimed.strip().lower()
    if said == header:
        return said
    logical = _STORED_AS.get((said, code))
    if logical is not None:
        return logical
    known = said in DTYPES or any(said == name for name, _ in _STORED_AS)
    advice = (
        "one of the two is wrong; dump the tensor again or rename the file"
        if known
        else "a type that cannot be decoded; save the tensor as float32 and name it so"
    )
    raise TensorFileError(f"its name says {claimed}, its header says {header or 'raw bytes'} ({descr}): {advice}")


def to_double(block: Array) -> Array:
    """Return numbers in float64, or complex128, a copy of their own."""
    with np.errstate(invalid="ignore"):
        return block.astype(np.complex128 if block.dtype.kind == "c" else np.float64)
