"""How the command starts: by the name of a subcommand, in the width and colours of its terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import one_output

from pytest_msdump import cli
from pytest_msdump.core.ports import rows

PROGRAM = """
import sys
from pytest_msdump.cli import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""


def loaded(folder: Path, *words: str, **environment: str) -> tuple[int, set[str], str]:
    """Run the command with its output in a pipe; return exit code, loaded modules and what it said."""
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return ran.returncode, set(ran.stderr.split()), ran.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    right = np.random.default_rng(1).normal(size=10_000).astype("f4")
    for name, factor in (("left", 1.00001), ("right", 1.0), ("wrong", -1.0)):
        np.save(tmp_path / f"{name}.npy", right * np.float32(factor))
    return tmp_path


@pytest.mark.e2e
def test_what_a_failing_pair_looks_like_is_still_told(folder: Path) -> None:
    code, _, said = loaded(folder, "compare", "wrong.npy", "right.npy")
    assert code == 1
    assert "sign" in said


@pytest.mark.e2e
def test_forced_colours_are_there_and_the_words_are_the_same(folder: Path) -> None:
    _, _, plain = loaded(folder, "compare", "wrong.npy", "right.npy")
    _, _, coloured = loaded(folder, "compare", "wrong.npy", "right.npy", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[1;31mDRIFT" in coloured or "\x1b[1;31mFAIL" in coloured
    assert coloured.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == plain


@pytest.mark.e2e
def test_a_pipe_is_as_wide_as_the_environment_says(folder: Path) -> None:
    said = {
        text: loaded(folder, "compare", "wrong.npy", "right.npy", COLUMNS=text)[2] for text in ("80", "0", "", "150")
    }
    assert said["80"] == said["0"] == said[""]
    lengths = {text: max(len(line) for line in said[text].splitlines() if str(folder) not in line) for text in said}
    assert lengths["80"] <= 80 < 110 < lengths["150"] <= 150


@pytest.mark.parametrize("name", rows("COMMANDS"))
def test_each_command_is_the_module_of_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([name, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: msdump {name} ")


def test_an_unknown_command_like_no_other_is_answered_with_all_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["frobnicate"]) == 4
    said = capsys.readouterr().err
    assert all(name in said for name in rows("COMMANDS"))


def test_the_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("msdump ")


@pytest.mark.e2e
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("frobnicate",)])
def test_help_loads_no_numpy(folder: Path, words: tuple[str, ...]) -> None:
    assert "numpy" not in loaded(folder, *words)[1]


@pytest.mark.e2e
def test_dumps_of_every_format_pair_by_name(folder: Path) -> None:
    output = one_output(np.zeros(2, "f4"))
    for name, content in {
        "ascend/Add.one.1.1.1700000000000001": output,
        "mindspore/rank_0/Net/0/0/Add.one.1.1.1700000000000001.output.0.DefaultFormat.Float32.npy": b"",
        "mindspore/rank_0/Net/0/0/Add.two.1.1.1700000000000002": output,
        "flat/Net/device_0/iteration_1/Default--Add-op1_output_0_shape_2_Float32_DefaultFormat.bin": bytes(8),
        "converted/Add.one.1.1.1700000000000001.output.0.2x4.npy": b"",
        "plain/one.0.1700000000000001.npy": b"",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for side in ("ascend", "mindspore", "flat", "converted"):
        assert "reader npy-folder" in loaded(folder, "match", side, "plain")[2]


THREADS = """
from pathlib import Path
from pytest_msdump.cli import main
code = main()
print(code, next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Threads:")))
"""


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how many threads a process has")
@pytest.mark.parametrize(("said", "threads"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, min(2, os.cpu_count() or 1))])
def test_numpy_has_no_threads_of_its_own_unless_the_environment_asks_for_them(
    folder: Path, said: dict[str, str], threads: int
) -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    words = [sys.executable, "-c", THREADS, "compare", "left.npy", "right.npy"]
    done = subprocess.run(words, cwd=folder, env=inherited | said, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["0", "Threads:", str(threads)]
