"""Run by MindSpore's interpreter: every type that it has on a CPU goes to a dump and comes back as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore
import numpy as np

from pytest_msdump import assert_close, open_dump
from pytest_msdump.capabilities.record.mindspore import array_of
from pytest_msdump.capabilities.record.sketching import decoded_blocks
from pytest_msdump.capabilities.statistics.count_sketch import sketch_blocks
from pytest_msdump.core.dtypes.arrays import array_to_save
from pytest_msdump.record import DumpWriter

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
PLAIN = ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128")


def check_sketch(name: str, values: np.ndarray) -> None:
    """The sketch of a tensor is that of the same numbers in an array of numpy, in other blocks."""
    tensor = mindspore.Tensor(values, mindspore.bfloat16) if name == "bfloat16" else mindspore.Tensor(values)
    blocks, dtype = decoded_blocks(*array_to_save(array_of(tensor)))
    statistics, sketch = sketch_blocks(blocks, dtype)
    expected, right = sketch_blocks(np.array_split(values, 7), values.dtype.name)
    assert dtype == name
    assert np.abs(sketch.buckets - right.buckets).max() <= 1e-12 * right.norm, name
    norms = [np.sqrt(np.square(np.abs(values.astype("c16"))).sum()), sketch.norm]
    assert np.isclose(*norms, rtol=1e-12), name
    assert all(np.isclose(statistics[key], expected[key], rtol=1e-12) for key in expected), name


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
    noise = np.random.default_rng(3).standard_normal(40_000) * 40
    for name in PLAIN:
        check_sketch(name, (abs(noise) if name.startswith("u") else noise).astype(name))
    check_sketch("bfloat16", (noise.astype("float32").view("<u4") & np.uint32(0xFFFF0000)).view("<f4"))
    print(f"{len(arrays) + 1} types")  # noqa: T201


main(Path(sys.argv[1]))
