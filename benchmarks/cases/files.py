"""Very many files, and what a file of `torch.save` takes to read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measuring.figures import Case, Limit

from cases.setting import IMPORTS_NUMPY, NotTimedError, Program, Setting, msdump, numpy_start

__all__ = ["MEMORY", "index", "torch_file"]

OURS = "msdump match"
MEMORY = "bytes of memory a file"

# A process of its own, which may be as large as it will. The files are MindSpore's own: output 0 of every operator.
_MAKE = """
import io, pathlib, sys, numpy
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
buffer = io.BytesIO()
numpy.save(buffer, numpy.arange(8, dtype=numpy.float32))
content = buffer.getvalue()
for side in ("left", "right"):
    tree = folder / side / "rank_0" / "Net" / "0" / "0"
    tree.mkdir(parents=True)
    for number in range(count):
        name = f"Default_network-Net_layer{number // 10}-Block_op{number}"
        op_type = ("Conv2D", "ReLU", "MatMul", "Add", "BatchNorm")[number % 5]
        file = f"{op_type}.{name}.0.0.{1700000000000000 + 100 * number}.output.0.DefaultFormat.Float32.npy"
        (tree / file).write_bytes(content)
"""


def index(setting: Setting) -> Iterator[Case]:
    """A hundred thousand files in all: two MindSpore trees of one layout whose names agree."""
    count = 100 if setting.small else 50_000
    folder = setting.folder / "index"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _MAKE, folder, str(count)], check=True)

    def check(said: str) -> None:
        if f"{count} of {count} right tensors have a partner" not in said:
            raise NotTimedError(f"{count} tensors should be matched, but msdump match says:\n{said[-2000:]}")

    command = msdump("match", Path("index", "left"), Path("index", "right"), "--quiet")
    programs = {IMPORTS_NUMPY: numpy_start(), OURS: Program(command, IMPORTS_NUMPY, check=check)}
    figures = setting.figures(programs)
    rates = {MEMORY: figures[OURS].mib_beyond * 2**20 / (2 * count)}
    text = f"indexing and matching {2 * count:,} files"
    limits = [
        Limit("4", f"{text}: time", 5, figures[OURS].seconds, "s"),
        Limit("4", f"{text}: peak of the whole process", 300, figures[OURS].peak_mib, "MiB"),
    ]
    yield Case("index", f"two MindSpore trees of {count:,} files each, matched by name", figures, limits, rates=rates)


NUMPY_LOAD = "numpy.load"
READS = "reads a file of torch.save"

# One tensor of float32, as an array of numpy and as torch.save writes it.
_MAKE_TENSOR = """
import pathlib, struct, sys, zipfile, numpy
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
values = numpy.random.default_rng(1).random(count, dtype=numpy.float32)
numpy.save(folder / "tensor.npy", values)
size = b"J" + struct.pack("<i", count)
text = lambda word: b"X" + struct.pack("<I", len(word)) + word.encode()
storage = b"(" + text("storage") + b"ctorch\\nFloatStorage\\n" + text("0") + text("cpu") + size + b"tQ"
view = b"K\\0" + size + b"\\x85K\\x01\\x85\\x89ccollections\\nOrderedDict\\n)R"
with zipfile.ZipFile(folder / "tensor.pt", "w") as archive:
    archive.writestr("tensor/data.pkl", b"\\x80\\x02ctorch._utils\\n_rebuild_tensor_v2\\n(" + storage + view + b"tR.")
    archive.writestr("tensor/byteorder", "little")
    archive.writestr("tensor/data/0", values.tobytes())
"""


def torch_file(setting: Setting) -> Iterator[Case]:
    """One tensor of 128 MiB: without PyTorch it is to be read about as fast as numpy reads its own files."""
    count = 1 << 16 if setting.small else 1 << 25
    subprocess.run([sys.executable, "-c", _MAKE_TENSOR, setting.folder, str(count)], check=True)
    script = Path(__file__).with_name("in_process.py")
    works = {NUMPY_LOAD: "numpy_load", READS: "torch_file"}
    figures = setting.figures(
        {name: Program([sys.executable, script, work, "tensor.npy", "tensor.pt"]) for name, work in works.items()}
    )
    speed = figures[NUMPY_LOAD].cpu_beyond / figures[READS].cpu_beyond
    limits = [Limit("1", "speed of reading a file of torch.save, over numpy.load's", 0.8, speed, at_least=True)]
    yield Case(
        "torch-file", f"one tensor of {count:,} elements of float32, {count * 4 / 2**20:.4g} MiB", figures, limits
    )
