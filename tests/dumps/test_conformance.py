"""Every reader keeps the laws of a reader, each with samples of its format."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference
from dumps import dumpmade

from pytest_msdump.capabilities.runtime_files.raw import RawReader
from pytest_msdump.core import ports
from pytest_msdump.core.dumps import base
from pytest_msdump.record import DumpWriter
from pytest_msdump.testing.conformance import ReaderConformance

DATA = Path(__file__).parents[1] / "data"
RNG = np.random.default_rng(0)
ARRAYS = {
    "conv.weight": RNG.normal(size=(4, 3)).astype("<f4"),
    "conv2.weight": np.asfortranarray(RNG.normal(size=(3, 5)).astype(">f8")),
    "layers/0/bias": np.arange(7, dtype=np.int16),
    "scalar": np.array(3.5, np.float16),
    "empty": np.zeros((0, 3), np.float32),
    "large": RNG.normal(size=70_000).astype(np.float32),
}


def npz(folder: Path, *, compressed: bool) -> Path:
    (np.savez_compressed if compressed else np.savez)(folder / "a.npz", **ARRAYS)
    with zipfile.ZipFile(folder / "a.npz", "a") as archive:
        archive.writestr("notes/readme.txt", "no array")
    return folder / "a.npz"


def tensor_folder(folder: Path) -> Path:
    (folder / "dump").mkdir()
    np.savez(folder / "dump" / "layers.0.npz", **ARRAYS)
    np.savez_compressed(folder / "dump" / "lm_head.npz", ARRAYS["large"])
    shutil.copy(DATA / "torch/one.pth", folder / "dump" / "norm.pth")
    np.save(folder / "dump" / "embed.npy", ARRAYS["conv.weight"])
    return folder / "dump"


def raw_folder(folder: Path) -> Path:
    for number in (0, 1):
        (folder / f"dump/Result_{number}").mkdir(parents=True)
        for name, array in (("conv.raw", ARRAYS["conv.weight"]), ("layers.0.bin", ARRAYS["conv.weight"][0])):
            array.tofile(folder / f"dump/Result_{number}" / name)
    (folder / "dump/readme.txt").touch()
    return folder / "dump"


RAW = RawReader(dtype=(("*", "float32"),), shape=(("conv", (4, 3)), ("*", (3,))))


def npy_tree(folder: Path) -> Path:
    for name, array in ARRAYS.items():
        path = folder / "dump" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    (folder / "dump" / "layers" / "readme.txt").touch()
    return folder / "dump"


def one_file(folder: Path) -> Path:
    np.save(folder / "fc1.0.1700000000000000.npy", np.arange(6, dtype=np.int16))
    return folder / "fc1.0.1700000000000000.npy"


def numbered_folders(folder: Path) -> Path:
    for iteration in (0, 2, 11):
        write_reference(folder / "ref" / str(iteration), {"a.b": np.arange(3), "c:1": np.ones(())})
    (folder / "ref" / "more").mkdir()
    for name in ("readme.md", "0/half.txt", "more/a.0.1700000000000001.npy"):
        (folder / "ref" / name).touch()
    return folder / "ref"


def recorded(folder: Path) -> Path:
    with DumpWriter(folder / "dump", framework="torch") as writer:
        for io in ("input", "output", "output"):
            writer.write("net/conv.1", np.ones((2, 2), "f4"), io=io, op_type="Conv2d", line="net.py:12")
        writer.write("net.conv.1.weight", np.zeros(3), op_type="Parameter")
    return folder / "dump"


def many_coordinates(folder: Path) -> Path:
    tensors = [
        ("Add", "Default/Add-op0", "input", 1, np.float16(3)),
        ("Add", "Default/Add-op0", "output", 0, np.zeros((2, 0, 3))),
        ("Parameter", "w/x.y z:0", "output", 0, np.arange(3, dtype=np.uint8)),
    ]
    for rank, net, graph, iteration in [(0, "A", 0, 0), (0, "A", 0, 2), (0, "A", 3, 3), (1, "B", 0, 0)]:
        write_mindspore(folder / "dump", tensors, rank=rank, net=net, graph=graph, iteration=iteration)
    for name in ("rank_1/B/0/0/stranger.npy", "rank_1/B/half.npy", "readme.md"):
        (folder / "dump" / name).touch()
    return folder / "dump"


def in_protobuf(folder: Path) -> Path:
    data = [np.arange(count, dtype="<f4") for count in (3, 40, 2)]
    outputs = [dumpmade.op_output(dumpmade.FLOAT, one.shape, 0, data=one.tobytes()) for one in data]
    name = f"Add.op.1.1.{dumpmade.TIME}"
    return dumpmade.put(folder / "dump", name, dumpmade.message(outputs=outputs, version="1.0")).parent


def slices(folder: Path, pattern: str) -> Path:
    for path in (DATA / "ascend_golden/l_ffts/left").glob(pattern):
        dumpmade.put(folder / "dump", path.name, path.read_bytes())
    return folder / "dump"


# A reader, what it reads (below `data`, or made), and its files that are known and no tensors.
Sample = tuple[str, str | Callable[[Path], Path], str]


def samples(reader: str, *roots: str | Callable[[Path], Path], side_files: str = "") -> list[Sample]:
    return [(reader, root, side_files) for root in roots]


GENERATIONS = ("g1", "g1_bare_device", "g1b", "g3_unscoped", "g6_npy", "g7_npy", "g7b_npy")
MINDSPORE = samples(
    "mindspore",
    *(f"lenet/{run}" for run in ("target", "target_bad", "target_bad2")),
    *(f"hazards/{case}" for case in ("bf16", "longname", "rerun_same_dir", "while_loop", "longname/rank_0/Net/0/0")),
    *(f"generations/{tree}" for tree in GENERATIONS),
    many_coordinates,
    side_files="*graphs/* *execution_order/* *metadata/* *mapping.csv *acl_dump_0.json",
)
ARRAYS_BY_NAME = [
    *samples("npy-file", one_file),
    *samples("npy-folder", "lenet/reference", numbered_folders, recorded, side_files="msdump.json"),
    *samples("npy-tree", npy_tree),
    *samples("raw", raw_folder),
    *samples("proto-folder", "ascend_golden/g2_pb_right/right"),
    *samples(
        "converted",
        *(f"ascend_golden/{case}/out" for case in ("b5_broken_files/expected/convert_dir", "m_nano/expected/convert")),
        side_files="convert_failed_file_list.txt",
    ),
]
MSPROBE = ("tensor_L0", "mindspore_mix", "gelu", "debug", "debug/step0/proc1", "tensor_L0/step0/rank1")
HOOKS = [
    *samples(
        "msprobe",
        *(f"msprobe/{run}" for run in (*MSPROBE, "tensor_L0/step0/rank0/dump_tensor_data")),
        side_files="*dump.json *stack.json *construct.json *debug.json",
    ),
    *samples("sglang-dumper", "hooks/sglang_dumper", "hooks/sglang_dumper/run"),
    *samples("debug-tree", "hooks/debug_tree", side_files="*.json"),
]
# Nothing but the file itself says which tensors it has.
CASES = ("a_fusion_nchw", "b_npu_vs_npu", "i_l1_and_multi", "j2_name_matching", "m_nano")
ASCEND = [
    *samples("ascend", *(f"ascend_golden/{case}/left" for case in CASES), in_protobuf),
    *samples("ascend", partial(slices, pattern="*man_op*"), partial(slices, pattern="*auto_op*")),
    *samples("mindspore", "generations/mixed", side_files="*.json *mapping.csv *graphs/*"),
]
ARCHIVES = [
    *samples("npz", partial(npz, compressed=False), partial(npz, compressed=True)),
    *samples("safetensors", "safetensors/all.safetensors"),
    *samples("tensor-folder", tensor_folder, "onnx/sets"),
    *samples("onnx-tensor", *(f"onnx/sets/test_data_set_{number}/input_9.pb" for number in (0, 1))),
    *samples("polygraphy", "polygraphy/results.json", "polygraphy/inputs.json"),
    *samples("torch-file", *(f"torch/{name}" for name in ("dtypes.pt", "views.pt", "one.pth", "checkpoint.pt"))),
    *samples("forward-passes", "hooks/sglang_passes", "hooks/sglang_passes/TP1_PP0_Rank1_pid2"),
]
# No tensor was saved.
HASHES = samples("debug-mode", "debug_mode/ranks", "debug_mode/run.json")


def each(found: list[Sample]) -> object:
    return pytest.mark.parametrize("sample", found, ids=[f"{one[0]}-{number}" for number, one in enumerate(found)])


class OfSample(ReaderConformance):
    @pytest.fixture
    def reader(self, sample):
        return RAW if sample[0] == RAW.name else base.reader(sample[0])

    @pytest.fixture
    def dump_root(self, sample, tmp_path):
        self.side_files = sample[2].split()
        return sample[1](tmp_path) if callable(sample[1]) else DATA / sample[1]

    def is_side_file(self, relative):
        return any(fnmatch(relative.as_posix(), pattern) for pattern in self.side_files)


@each(MINDSPORE)
class TestMindSpore(OfSample):
    pass


@each(ARRAYS_BY_NAME)
class TestArrays(OfSample):
    pass


@each(HOOKS)
class TestHooks(OfSample):
    pass


class ByContent(OfSample):
    test_index_opens_no_tensor_file = None
    test_index_does_not_depend_on_the_content = None


@each(ASCEND)
class TestAscend(ByContent):
    pass


@each(ARCHIVES)
class TestArchives(ByContent):
    pass


@each(HASHES)
class TestHashes(ByContent):
    test_every_tensor_opens = None


def test_every_reader_of_tensors_is_among_them():
    # Tables of statistics are read beside tensors and have laws of their own.
    sampled = {one[0] for one in (*MINDSPORE, *ARRAYS_BY_NAME, *HOOKS, *ASCEND, *ARCHIVES, *HASHES)}
    assert sampled == ports.rows("READERS").keys() - {"statistics"}
