"""How the command starts: by the name of a subcommand, in the width and colours of its terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import one_output

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
