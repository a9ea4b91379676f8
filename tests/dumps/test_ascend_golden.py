"""Every array that the vendor's tool made of a golden dump is what we read, or is on a list with the reason why not."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.ascend.dump_file import open_part, read_header
from pytest_msdump.core.dumps.base import index_dump, reader
from pytest_msdump.core.layouts.device_layout import logical

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
ARRAYS = sorted(path.relative_to(GOLDEN).as_posix() for path in GOLDEN.glob("*/expected/**/*.npy"))

# Tables of eight bits in which the vendor's decoder errs: fault 9. Our answer to them is in the tests of that fault.
WRONG = {
    "d2_values_dump/expected/convert_fp8_e4m3/out/Op.fp8_e4m3_all.23.1.1600000000000023.output.0.npy",
    "d2_values_dump/expected/convert_fp8_e5m2/out/Op.fp8_e5m2_all.24.1.1600000000000024.output.0.npy",
    "d2_values_dump/expected/convert_hif8/out/Op.hif8_all.25.1.1600000000000025.output.0.npy",
}
# The operator's name in the file's is what its header says there, which is no name of its own.
RENAMED = {"Add.1600000000000001.1.2.1600000000000001": "Add.nano_op.1.2.1600000000000001"}

# Two dumps of devices are compared as they are stored where nothing makes them differ, so this one was left alone.
AS_STORED = {"b_npu_vs_npu/expected/detail_conv1/out/conv1_output_0.npy"}


def folder_of(path):
    """Return the dump that an array was made of: `left`, or the folder that the label begins with."""
    case, _, label = path.parts[:3]
    folders = (GOLDEN / case / name for name in ("left", label, label.removesuffix("_top2")))
    return next(folder for folder in folders if folder.is_dir())


@cache
def refs_of(folder):
    return index_dump(folder).refs


def from_file(folder, file, io, slot):
    """Open the tensor of one file, its axes as they are stored."""
    path = folder / RENAMED.get(file, file)
    tensors = read_header(path)[0].tensors
    return open_part(path, [(one.io, one.slot) for one in tensors].index((io, slot)))


def from_operator(folder, op, io, slot):
    """Open the tensor of one operator, its axes as they are stored."""
    (ref,) = (
        ref
        for ref in refs_of(folder)
        if (ref.key.op.name, ref.key.io, ref.key.slot, ref.key.op.at.occurrence) == (op, io, slot, 0)
    )
    return reader(ref.reader).open(ref)


def opened(path):
    folder = folder_of(path)
    converted = re.fullmatch(r"(.+)\.(input|output)\.([0-9]+)(?:\.ND)?\.npy", path.name)
    if converted:
        file, io, slot = converted.groups()
        return from_file(folder, file, io, int(slot))
    op, io, slot = re.fullmatch(r"(.+)_(input|output)_([0-9]+)\.npy", path.name).groups()
    view = from_operator(folder, op, io, int(slot))
    return view if path.as_posix() in AS_STORED else logical(view)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in WRONG])
def test_what_the_vendor_made_of_a_dump_is_what_is_read(name):
    expected = np.load(GOLDEN / name)
    view = opened(Path(name))
    values = view.read(0, view.size).reshape(view.shape).copy()
    view.close()
    assert values.shape == expected.shape
    # An array without elements is float64 there, whatever its type.
    assert values.dtype == expected.dtype or not values.size
    assert values.tobytes() == expected.tobytes()


def test_the_list_of_wrong_answers_is_not_longer_than_needed():
    assert set(ARRAYS) >= WRONG
    for name in WRONG:
        view = opened(Path(name))
        assert view.read(0, 256).astype("f8").tobytes() != np.load(GOLDEN / name).astype("f8").tobytes()
        view.close()
    assert len(ARRAYS) > 40
