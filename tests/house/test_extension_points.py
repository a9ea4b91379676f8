"""Each diff of CONTRIBUTING.md adds what it says, as another package or a change here would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from operator_networks import Network, Step

import pytest_msdump

PACKAGE = Path(pytest_msdump.__file__).parent
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DIFFS = dict(re.findall(r"^### An? ([\w ]+)\n.*?^```diff\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL))
# Kind → how many files it is, beside the line that names it as an entry point.
KINDS = {
    "dump format": 1,
    "report": 1,
    "memory format": 1,
    "recorder": 1,
    "metric": 1,
    "operator definition": 1,
    "command": 1,
    "finding": 1,
    "option": 2,
}
METADATA = "Metadata-Version: 2.1\nName: addon\nVersion: 1\n"


def files_of(diff: str) -> dict[str, list[str]]:
    parts = re.split(r"^\+\+\+ b/(.+)\n", diff, flags=re.MULTILINE)
    return {name: lines.splitlines() for name, lines in zip(parts[1::2], parts[2::2], strict=True)}


def install(kind: str, site: Path) -> None:
    """Apply a diff: files of another package with its entry points, or a capability in a copy of this package."""
    for name, lines in files_of(DIFFS[kind]).items():
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
        path = site / name
        if name == "pyproject.toml":
            group, *points = after.splitlines()
            (site / "addon-1.dist-info").mkdir()
            (site / "addon-1.dist-info/METADATA").write_text(METADATA)
            section = re.sub(r'\[project.entry-points."(.*)"\]', r"[\1]", group)
            text = "\n".join([section, *(point.replace('"', "") for point in points)])
            (site / "addon-1.dist-info/entry_points.txt").write_text(text + "\n")
            continue
        if name.startswith("pytest_msdump/"):
            if not (site / "pytest_msdump").exists():
                shutil.copytree(PACKAGE, site / "pytest_msdump", ignore=shutil.ignore_patterns("__pycache__"))
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").touch()
        path.write_text(after, "utf-8")


def run(folder: Path, *words: str, code: int = 0) -> str:
    """Run Python on words in a folder, with what was installed beside it."""
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def msdump(folder: Path, *words: str, code: int = 0) -> str:
    return run(folder, "-m", "pytest_msdump", *words, code=code)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    np.save(tmp_path / "left.npy", np.float32([1, 2, 3]))
    np.save(tmp_path / "right.npy", np.float32([1, 2, 5]))
    return tmp_path


def test_every_kind_is_a_diff_of_less_than_forty_lines_and_so_many_files() -> None:
    assert {kind: len(files_of(diff).keys() - {"pyproject.toml"}) for kind, diff in DIFFS.items()} == KINDS
    assert all(len(diff.splitlines()) < 40 for diff in DIFFS.values())


@pytest.mark.e2e
def test_a_dump_format(folder: Path) -> None:
    install("dump format", folder / "site")
    for side in ("left", "right"):
        (folder / side).mkdir()
        shutil.copy(folder / f"{side}.npy", folder / side / "conv1.tensor")
    assert "reader dot-tensor" in msdump(folder, "compare", "left", "left")
    assert "conv1:output:0" in msdump(folder, "compare", "left", "right", code=1)


@pytest.mark.e2e
def test_a_dump_format_keeps_the_laws(folder: Path) -> None:
    install("dump format", folder / "site")
    (folder / "test_reader.py").write_text(
        "import numpy, pytest\n"
        "from tensor_folder import TensorFolderReader\n"
        "from pytest_msdump.testing.conformance import ReaderConformance\n"
        "class TestReader(ReaderConformance):\n"
        "    @pytest.fixture\n    def reader(self):\n        return TensorFolderReader()\n"
        "    @pytest.fixture\n    def dump_root(self, tmp_path):\n"
        "        (tmp_path / 'dump').mkdir()\n"
        "        with open(tmp_path / 'dump' / 'conv1.tensor', 'wb') as file:\n"
        "            numpy.save(file, numpy.ones(3))\n"
        "        return tmp_path / 'dump'\n"
    )
    assert " passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reader.py")


@pytest.mark.e2e
def test_a_report(folder: Path) -> None:
    install("report", folder / "site")
    (folder / "test_report.py").write_text(
        "import pytest\n"
        "from lines_report import LinesReport\n"
        "from pytest_msdump.testing.conformance import ReportConformance\n"
        "class TestReport(ReportConformance):\n"
        "    @pytest.fixture\n    def kind(self):\n        return LinesReport()\n"
    )
    assert " passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_report.py")
    words = ["compare", "left.npy", "right.npy", "--report", "json,lines", "--report-dir", "out"]
    assert "lines.txt" in msdump(folder, *words, code=1)
    assert (folder / "out/lines.txt").read_text() == "fail left:output:0\n"


@pytest.mark.e2e
def test_a_report_of_pytest(folder: Path) -> None:
    install("report", folder / "site")
    words = ["--msdump-left=left.npy", "--msdump-right=right.npy", "--msdump-report=lines", "--msdump-report-dir=out"]
    run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, code=1)
    assert (folder / "out/lines.txt").read_text() == "fail left:output:0\n"


@pytest.mark.e2e
def test_a_memory_format(folder: Path) -> None:
    install("memory format", folder / "site")
    values = np.arange(2 * 3 * 4 * 5, dtype="f4").reshape(2, 3, 4, 5)
    np.save(folder / "stored.npy", values.transpose(3, 2, 1, 0).copy())
    msdump(folder, "convert", "stored.npy", "--from-format", "WHCN", "--memory-format", "NCHW", "--out", "out")
    (made,) = (folder / "out").glob("*.npy")
    np.testing.assert_array_equal(np.load(made), values)


@pytest.mark.e2e
def test_a_recorder(folder: Path) -> None:
    install("recorder", folder / "site")
    (folder / "test_steps.py").write_text(
        "import numpy\n"
        "def test_steps(msdump_recorder):\n"
        "    dump = msdump_recorder.steps([('one', numpy.ones(2)), ('two', numpy.zeros(3))])\n"
        "    assert [ref.key.op.label for ref in dump.refs] == ['one', 'two']\n"
        "    assert not hasattr(msdump_recorder, 'missing')\n"
    )
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_steps.py")


@pytest.mark.e2e
def test_a_metric(folder: Path) -> None:
    install("metric", folder / "site")
    words = ["compare", "left.npy", "right.npy", "--threshold", "cosine=0.5", "--threshold", "mse=1.3"]
    assert re.search(r"\n  mse +1\.33333 +<= 1\.3 +--threshold mse=1\.3 +FAIL\n", msdump(folder, *words, code=1))


@pytest.mark.e2e
def test_an_operator_definition(folder: Path) -> None:
    install("operator definition", folder / "site")
    (folder / "test_cube.py").write_text(
        "import numpy, pytest\n"
        "from cube_operator import cube\n"
        "from pytest_msdump.capabilities.kernels.operators.definition import Call\n"
        "from pytest_msdump.testing.conformance import OperatorConformance\n"
        "class TestCube(OperatorConformance):\n"
        "    @pytest.fixture\n    def definition(self):\n        return cube\n"
        "    @pytest.fixture\n    def cases(self):\n"
        "        x = numpy.linspace(-2, 2, 12).reshape(3, 4)\n"
        "        return [(Call('Cube', [x], {'factor': 'F32(2)'}), [2 * x * x * x])]\n"
    )
    assert "5 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cube.py")
    cube = Step("Cube", "cube", ["x"], lambda x: x**3)
    net = Network([cube], {"x": np.linspace(-2, 2, 12, dtype=np.float32)})
    net.dump(folder / "run")
    assert "replayed 1 of 1 operator call, 1 output; no operator accused" in msdump(folder, "replay", "run")
    net.dump(folder / "wrong", {"cube": lambda _, y: y * np.float32(1.0001)})
    assert "ACCUSED  Default/cube-op0  (Cube)" in msdump(folder, "replay", "wrong", code=1)


@pytest.mark.e2e
def test_a_command(folder: Path) -> None:
    install("command", folder / "site")
    assert msdump(folder, "count", "left.npy") == "1 tensors\n"
    assert "\n    count        count the tensors of a dump\n" in msdump(folder, "--help")


@pytest.mark.e2e
def test_a_finding(folder: Path) -> None:
    install("finding", folder / "site")
    assert "hardly any elements" in msdump(folder, "compare", "left.npy", "right.npy", code=1)
    assert "元素极少" in msdump(folder, "compare", "left.npy", "right.npy", "--lang=zh", code=1)


@pytest.mark.e2e
def test_an_option(folder: Path) -> None:
    install("option", folder / "site")
    np.save(folder / "left.npy", np.float32([-1, 2, -5]))
    msdump(folder, "compare", "left.npy", "right.npy", code=1)
    msdump(folder, "compare", "left.npy", "right.npy", "--magnitudes")
    sides = '[msdump]\nleft = "left.npy"\nright = "right.npy"\n'
    (folder / "msdump.toml").write_text(f"{sides}magnitudes = true\n")
    msdump(folder, "compare")
    (folder / "msdump.toml").write_text(sides)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "msdump.toml"]
    assert "2 passed" in run(folder, *words, "--msdump-magnitudes")
    run(folder, *words, code=1)
