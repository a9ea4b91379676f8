"""Memory formats: how the axes of a tensor lie in a device's memory. One row each; `memory_formats` is the engine.

`axes` names the logical axes by letter. `stored` has one entry for each stored axis, and an entry is what it is made
of: a letter is a whole axis, ``C1`` the number of the block that an element of axis C is in, ``C0`` its place in the
block. ``...`` stands for leading axes that stay as they are, ``I`` and ``J`` for the last two of any tensor, ``S`` for
all spatial axes as one. Axes in blocks are padded to whole blocks; the block's length is read from the stored shape, or
given by `blocks` where two axes share one stored axis.

References
----------
Ascend "Custom operator development", data formats; the formulas of the vendor's converters. FRACTAL_Z of grouped
convolutions: several groups share a block so that channels fill it (see `layouts.gather`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pytest_msdump.core.registry import entries


class MemoryFormat(NamedTuple):
    """One row. `default_blocks` are the block lengths of a writer without a setting."""

    axes: str
    stored: tuple[str, ...]
    blocks: Mapping[str, int] = {}
    default_blocks: Mapping[str, int] = {}
    is_grouped: bool = False


MEMORY_FORMATS: dict[str, MemoryFormat] = {
    "ND": MemoryFormat("", ("...",)),
    "NCHW": MemoryFormat("NCHW", ("N", "C", "H", "W")),
    "NHWC": MemoryFormat("NCHW", ("N", "H", "W", "C")),
    "HWCN": MemoryFormat("NCHW", ("H", "W", "C", "N")),
    "CHWN": MemoryFormat("NCHW", ("C", "H", "W", "N")),
    "NCDHW": MemoryFormat("NCDHW", ("N", "C", "D", "H", "W")),
    "NDHWC": MemoryFormat("NCDHW", ("N", "D", "H", "W", "C")),
    "DHWCN": MemoryFormat("NCDHW", ("D", "H", "W", "C", "N")),
    "DHWNC": MemoryFormat("NCDHW", ("D", "H", "W", "N", "C")),
    "NC1HWC0": MemoryFormat("NCHW", ("N", "C1", "H", "W", "C0"), default_blocks={"C": 16}),
    "NC1HWC0_C04": MemoryFormat("NCHW", ("N", "C1", "H", "W", "C0"), default_blocks={"C": 4}),
    "NHWC1C0": MemoryFormat("NCHW", ("N", "H", "W", "C1", "C0"), default_blocks={"C": 16}),
    "C1HWNC0": MemoryFormat("NCHW", ("C1", "H", "W", "N", "C0"), default_blocks={"C": 16}),
    "NDC1HWC0": MemoryFormat("NCDHW", ("N", "D", "C1", "H", "W", "C0"), default_blocks={"C": 16}),
    "FRACTAL_Z": MemoryFormat("NCHW", ("C1 H W", "N1", "N0", "C0"), default_blocks={"N": 16, "C": 16}, is_grouped=True),
    "FRACTAL_Z_3D": MemoryFormat(
        "NCDHW", ("D C1 H W", "N1", "N0", "C0"), default_blocks={"N": 16, "C": 16}, is_grouped=True
    ),
    # Four positions of four channels each fill a block of 16.
    "FRACTAL_Z_C04": MemoryFormat("NCS", ("S1", "N1", "N0", "S0 C0"), {"S": 4, "C": 4}, {"N": 16}),
    "FRACTAL_NZ": MemoryFormat("IJ", ("...", "J1", "I1", "I0", "J0"), default_blocks={"I": 16, "J": 16}),
    "FRACTAL_ZZ": MemoryFormat("IJ", ("...", "I1", "J1", "I0", "J0"), default_blocks={"I": 16, "J": 16}),
}

# Rows of other packages: the name of the entry point is the format's.
MEMORY_FORMATS.update(entries("memory_formats"))

# How else they are written, upper case and without underscores.
FORMAT_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("", "DEFAULTFORMAT", "NCL", "NC", "CN", "MD"), "ND"),
    "FRACZ": "FRACTAL_Z",
    "FRACZ3D": "FRACTAL_Z_3D",
    "FRACZC04": "FRACTAL_Z_C04",
    "FRACTALZG": "FRACTAL_Z",
    "FRACNZ": "FRACTAL_NZ",
}


# A dump has many tensors and few formats.
@lru_cache(maxsize=256)
def may_be_padded(memory_format: str | None) -> bool:
    """Return whether stored and logical shape may differ: the format has blocks, or is unknown."""
    plain = (memory_format or "").strip().upper().replace("_", "")
    known = FORMAT_ALIASES.get(plain, plain).replace("_", "")
    rows = [row for name, row in MEMORY_FORMATS.items() if name.replace("_", "") == known]
    return not rows or any(len(axis) == 2 for entry in rows[0].stored for axis in entry.split())
