"""Two npy files whose elements all differ, a little: a process of its own, so that who measures stays small.

python made_pairs.py FOLDER DTYPE COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK = 1 << 22


def main() -> int:
    """Write left.npy and right.npy."""
    folder, dtype, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    random = np.random.default_rng(1)
    # MindSpore writes bfloat16 under a type that numpy does not know.
    descr = {"float32": "<f4", "float16": "<f2", "bfloat16": "<E2", "int8": "|i1"}[dtype]
    with (folder / "left.npy").open("wb") as left, (folder / "right.npy").open("wb") as right:
        for file in (left, right):
            np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": (count,)})
        for start in range(0, count, _BLOCK):
            ours, theirs = _block(random, dtype, min(_BLOCK, count - start))
            assert (ours != theirs).all()
            left.write(ours.tobytes())
            right.write(theirs.tobytes())
    return 0


def _block(random: np.random.Generator, dtype: str, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Both sides of some elements: those of few bits are neighbours of each other."""
    if dtype == "int8":
        values = random.integers(60, 126, count, dtype=np.int8)
        return values, values + np.int8(1)
    values = random.random(count, dtype=np.float32) + 1
    if dtype == "float32":
        return values, values * np.float32(1.0001)
    bits = values.astype(np.float16).view(np.uint16) if dtype == "float16" else values.view(np.uint32) >> 16
    return bits.astype(np.uint16), bits.astype(np.uint16) ^ np.uint16(1)


if __name__ == "__main__":
    sys.exit(main())
