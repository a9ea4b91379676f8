"""Trees that msprobe itself made of PyTorch (two ranks) and MindSpore, read and judged where neither is installed."""

import functools
import operator
import os
import subprocess
import zlib
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index, open_logical
from pytest_msdump.core.report.json_report import read_json

pytestmark = [pytest.mark.live, pytest.mark.e2e]

HERE = Path(__file__).parent
# MindSpore has no groups of processes on the CPU.
RANKS = {"torch": {0, 1}, "mindspore": {None}}
LEVELS = ["L0", "L1", "mix"]
STATISTICS = {"L0": "statistics_md5", "L1": "statistics_xor", "mix": "statistics"}
RUNS = ["mix_tensor_wrong", *(f"{level}_{task}" for level in LEVELS for task in ("tensor", STATISTICS[level]))]
# The line of the program that makes what one address has, by how its operator's name ends.
LINES = {
    "norm": "normed = self.norm(x)",
    "LayerNorm": "normed = self.norm(x)",
    "up": "wide = self.up(normed)",
    "gelu": "hidden = ",
    "down": "narrow = self.down(hidden)",
    "__add__": "total = x + narrow",
    "all_reduce": "torch.distributed.all_reduce(",
}
APIS = ("Functional.", "Tensor.", "Distributed.", "Primitive.")


@pytest.fixture(scope="module", params=["torch", "mindspore"])
def made(request, tmp_path_factory):
    """All runs of a framework, by one process."""
    variable = f"MSDUMP_{request.param.upper()}_PYTHON"
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    folder = tmp_path_factory.mktemp(request.param)
    program = HERE / f"msprobe_{request.param}.py"
    done = subprocess.run(
        [os.environ[variable], "-W", "ignore", program, folder, *RUNS],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return request.param, folder, program


def seen_in(folder, name, rank):
    """Yield what was seen of the kinds that a level saves: address, iteration, call and values."""
    level = name.partition("_")[0]
    with np.load(folder / f"{name}.{rank or 0}.npz") as arrays:
        for key in arrays.files:
            iteration, _, rest = key.partition("/")
            address, _, call = rest.rpartition("/")
            if level in ("mix", "L1" if address.startswith(APIS) else "L0"):
                yield address, int(iteration), int(call), arrays[key]


def refs_by_place(dump):
    return {
        (ref.key.address, ref.key.op.at.rank, ref.key.op.at.iteration, ref.key.op.at.occurrence): ref
        for ref in dump.refs
    }


@pytest.mark.parametrize("level", LEVELS)
def test_every_file_is_explained_and_holds_what_the_network_computed(made, level):
    framework, folder, _ = made
    tree = folder / f"{level}_tensor"
    dump = index(tree)
    assert (dump.unexplained, dump.notes) == ((), ())
    files = {path for path in tree.rglob("*") if path.suffix in (".pt", ".npy")}
    assert {ref.source.path for ref in dump.refs} == files
    assert {ref.key.op.at.rank for ref in dump.refs} == RANKS[framework]
    refs, checked = refs_by_place(dump), 0
    for rank in RANKS[framework]:
        for address, iteration, call, values in seen_in(folder, tree.name, rank):
            with closing(open_logical(refs[address, rank, iteration, call])) as view:
                np.testing.assert_array_equal(view.read(0, view.size).reshape(view.shape), values, address)
            checked += 1
    assert checked >= 10 * len(RANKS[framework])


@pytest.mark.parametrize("level", LEVELS)
def test_statistics_are_those_of_what_the_network_computed(made, level):
    framework, folder, _ = made
    name = f"{level}_{STATISTICS[level]}"
    dump = index(folder / name)
    assert (dump.unexplained, dump.notes) == ((), ())
    refs, checked = refs_by_place(dump), 0
    assert all(ref.is_unseen for ref in refs.values())
    for rank in RANKS[framework]:
        for address, iteration, call, values in seen_in(folder, name, rank):
            ref = refs[address, rank, iteration, call]
            found = ref.statistics.values
            assert (ref.spec.dtype, ref.spec.shape, found["count"]) == ("float32", values.shape, values.size)
            content = values.tobytes()
            if "crc32" in found:
                assert int(found["crc32"], 16) == zlib.crc32(content), address
            elif "xor64" in found:
                words = np.frombuffer(content.ljust(-(-len(content) // 8) * 8, b"\0"), "<u8").tolist()
                assert int(found["xor64"], 16) == functools.reduce(operator.xor, words), address
            elif STATISTICS[level].endswith("xor"):
                # msprobe writes none of a number, and of MindSpore none at all.
                assert values.ndim == 0 or framework == "mindspore", address
            else:
                assert (found["maximum"], found["minimum"]) == (values.max(), values.min()), address
                np.testing.assert_allclose(found["mean"], values.mean(dtype="f8"), rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(found["l2_norm"], np.linalg.norm(values.astype("f8")), rtol=1e-5)
            checked += 1
    assert checked >= 10 * len(RANKS[framework])


@pytest.mark.parametrize("level", LEVELS)
def test_lines_are_those_of_the_program(made, level):
    _, folder, program = made
    text = program.read_text().splitlines()
    refs = [ref for task in ("tensor", STATISTICS[level]) for ref in index(folder / f"{level}_{task}").refs if ref.line]
    assert {ref.line.file for ref in refs} == {str(program)}
    known = set()
    for ref in refs:
        last = ref.key.op.label.rpartition(".")[2]
        if last in LINES:
            assert LINES[last] in text[ref.line.line - 1], (ref.key.address, ref.line)
            known.add(last)
    assert known >= ({"norm", "up", "down"} if level == "L0" else {"gelu", "__add__"})


def test_a_mistake_is_named_with_its_line_where_no_framework_is_installed(made, tmp_path, monkeypatch, capsys):
    framework, folder, program = made
    assert find_spec("torch") is None
    assert find_spec("mindspore") is None
    monkeypatch.chdir(tmp_path)
    sides = [str(folder / name) for name in ("mix_tensor_wrong", "mix_tensor")]
    assert main(["compare", *sides, "--io", "all", "--profile", "torch", "--report", "json"]) == 1
    capsys.readouterr()
    records = read_json(tmp_path / "msdump-report" / "results.json")["tensors"]
    line = next(number for number, text in enumerate(program.read_text().splitlines(), 1) if "hidden = " in text)
    causes = {
        (one["left"]["address"], one["occurrence"], one["rank"], one["source"]["file"], one["source"]["line"])
        for one in records
        if one.get("role") == "cause"
    }
    assert causes == {("Functional.gelu:output:0", 1, rank, str(program), line) for rank in RANKS[framework]}
