"""What msdump upgrade prints, writes and returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_msdump.cli import main

PROGRAM = """
import os
from pathlib import Path
import numpy as np
from pytest_msdump.record import DumpWriter
x = np.linspace(-1, 1, 64, dtype="f4")
with DumpWriter(os.environ["MSDUMP_DIR"], framework="numpy") as writer:
    y = writer.pass_on("exp", np.exp(x), op_type="Exp")
    writer.pass_on("total", np.asarray(y.sum() {more}), op_type="ReduceSum")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, and a program that computes otherwise where DIFFERENT is set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rec.py").write_text(PROGRAM.replace("{more}", "+ float(os.environ.get('MORE', 0))"), "utf-8")
    (tmp_path / "fails.py").write_text("raise SystemExit('no such device')", "utf-8")
    return tmp_path


def upgrade(*words: str) -> int:
    return main(["upgrade", "-q", *words])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--new", sys.executable, "--", "python", "rec.py"), "--old-dump"),
        (("--old", "a", "--old-dump", "b", "--new", "c", "--", "python", "rec.py"), "--old-dump"),
        (("--old-dump", "b", "--new", "c", "--each", "--", "python", "rec.py"), "requirement"),
        (("--old", "a", "--new", "c", "--releases", "1,2", "--", "python", "rec.py"), "--releases"),
        (("--old", "nowhere", "--new", "c", "--", "python", "rec.py"), "no Python"),
        (("--old", "a>=1", "--new", "a==2", "--each", "--", "python", "rec.py"), "one release"),
        (("--old", "a", "--new", "b", "--each", "--between", "--", "python", "rec.py"), "--each"),
        (("--old-dump", "nowhere", "--new", sys.executable, "--", "python", "rec.py"), "nowhere"),
    ],
)
def test_calls_that_cannot_be_meant_are_one_line_and_exit_code_4(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upgrade(*words) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.usefixtures("folder")
@pytest.mark.e2e
def test_a_program_that_fails_cannot_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    python = sys.executable
    assert upgrade("--old", python, "--new", python, "--", "python", "fails.py") == 125
    assert "no such device" in capsys.readouterr().err
    assert upgrade("--old", python, "--new", python, "--json", "--", "python", "fails.py") == 125
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == 125
    assert "no such device" in found["error"]["message"]


@pytest.mark.usefixtures("folder")
@pytest.mark.e2e
def test_equal_environments_exit_with_0_in_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    python = sys.executable
    assert upgrade("--old", python, "--new", python, "--json", "--", "python", "rec.py") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    (step,) = found["steps"]
    assert (step["tensors"], step["differing"], step["changes"]) == (2, 0, [])


@pytest.mark.e2e
@pytest.mark.full
def test_what_nothing_says_how_to_judge_is_no_pass(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump of before, of a sum that is off by a rounding; no graph says of what it is a sum."""
    monkeypatch.setenv("MSDUMP_DIR", "accepted")
    monkeypatch.setenv("MORE", "1e-5")
    exec(compile((folder / "rec.py").read_text("utf-8"), "rec.py", "exec"), {})
    monkeypatch.delenv("MORE")
    words = ("--old-dump", "accepted", "--new", sys.executable, "--", "python", "rec.py")
    assert upgrade("--lang", "en", *words) == 125
    english = capsys.readouterr().out
    assert "not judged     total (ReduceSum)" in english
    assert english.endswith("not all of it could be judged\n")
    assert upgrade("--lang", "zh", *words) == 125
    assert capsys.readouterr().out.endswith("未能全部判断\n")
    assert upgrade("--allow", "not-judged", *words) == 0
    monkeypatch.setenv("MORE", "1")
    # Beyond limits, whatever is allowed.
    assert upgrade("--allow", "not-judged", *words) == 1
    assert "beyond the limits of default: total" in capsys.readouterr().out
    text = (folder / "msdump-report" / "upgrade.md").read_text("utf-8")
    assert "| `total (ReduceSum)` | not judged |" in text
    page = (folder / "msdump-report" / "upgrade.html").read_text("utf-8")
    assert "default-src 'none'" in page
    assert "total (ReduceSum)" in page


@pytest.mark.e2e
def test_inputs_that_were_not_the_same_are_said_and_not_judged(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        (folder / "rec.py").read_text("utf-8").replace("as writer:", "as writer:\n    writer.describe(inputs={'x': x})")
    )
    monkeypatch.setenv("MSDUMP_DIR", "accepted")
    exec(compile(text.replace("(-1, 1", "(-2, 1"), "rec.py", "exec"), {})
    (folder / "rec.py").write_text(text, "utf-8")
    words = ("--old-dump", "accepted", "--new", sys.executable, "--allow", "not-judged")
    assert upgrade(*words, "--", "python", "rec.py") == 1
    assert "not given the same: inputs x" in capsys.readouterr().out


COPIES = """
import os, shutil
from pathlib import Path
import numpy as np
shutil.copytree(os.environ["RUN"], os.environ["MSDUMP_DIR"], dirs_exist_ok=True)
(file,) = Path(os.environ["MSDUMP_DIR"], "rank_0/Net/0/0").glob("MatMul.Default*second-Dense*.output.0.*.npy")
file.chmod(0o600)
values = np.load(file)
how = os.environ["HOW"]
if how == "rounded":
    values = np.nextafter(values, np.float32(9e9))
elif how == "coarse":
    values = (values.view(np.uint32) & 0xFFFF0000).astype(np.uint32).view(np.float32)
np.save(file, values)
"""
MATMUL = "Default/network-Net/second-Dense/MatMul-op0"


@pytest.mark.e2e
@pytest.mark.full
@pytest.mark.parametrize(
    ("how", "code", "verdict", "why"),
    [
        ("alike", 0, None, None),
        ("rounded", 0, "kernel", "upgrade_kernel"),
        ("coarse", 1, "wrong", "upgrade_wrong_new"),
    ],
)
def test_a_dump_of_mindspore_is_judged_by_its_graph(
    how: str,
    code: int,
    verdict: str | None,
    why: str | None,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Path(__file__).parents[3] / "example_suites" / "08_one_dump" / "run"
    monkeypatch.setenv("RUN", str(run))
    monkeypatch.setenv("HOW", how)
    (folder / "copies.py").write_text(COPIES, "utf-8")
    words = ("--old-dump", str(run), "--new", sys.executable, "--json", "--profile", "torch")
    assert upgrade(*words, "--", "python", "copies.py") == code
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    expected = [] if verdict is None else [(MATMUL, verdict, why)]
    assert [(one["operator"], one["verdict"], one["code"]) for one in step["changes"]] == expected
