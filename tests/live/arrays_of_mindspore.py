"""Run by MindSpore's interpreter: every type that it has on a CPU goes to a dump and comes back as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore
import numpy as np

from pytest_msdump import assert_close, open_dump
from pytest_msdump.record import DumpWriter

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
PLAIN = ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128")


def main(folder: Path) -> None:
    arrays = {name: (np.arange(-6, 6).reshape(3, 4) * 1.5).astype(name) for name in PLAIN}
    halves = (np.arange(-6, 6, dtype="float32") / 8).reshape(3, 4)
    with DumpWriter(folder, framework="mindspore", version=mindspore.__version__) as writer:
        for name, array in arrays.items():
            writer.write(name, mindspore.Tensor(array))
        writer.write("bfloat16", mindspore.Tensor(halves, mindspore.bfloat16))
    dump = open_dump(folder)
    for name, array in arrays.items():
        read = dump.read(name)
        assert (read.dtype, read.tobytes()) == (array.dtype, array.tobytes()), name
    # Eighths below 1 have no more than 3 significant bits, so bfloat16 holds them.
    assert (dump.open("bfloat16").dtype, dump.read("bfloat16").tolist()) == ("bfloat16", halves.tolist())
    assert_close(mindspore.Tensor(halves, mindspore.bfloat16), halves)
    assert_close(mindspore.Parameter(mindspore.Tensor(halves)), halves)
    print(f"{len(arrays) + 1} types")  # noqa: T201


main(Path(sys.argv[1]))
