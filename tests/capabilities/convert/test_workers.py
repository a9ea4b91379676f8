"""Many files at a time: broken ones are listed, killed processes take nothing with them, no half file looks whole."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from capabilities.convert.deadly import deadly
from dumps import dumpmade

from pytest_msdump.capabilities.convert import one_file
from pytest_msdump.capabilities.convert.one_file import ConvertOptions, convert_files
from pytest_msdump.capabilities.convert.sources import SourceFile
from pytest_msdump.cli import main

FAILED = "convert_failed_file_list.txt"
BROKEN = (7, 700, 1999)


def dump_of(folder: Path, count: int, elements: int = 6) -> list[Path]:
    values = np.arange(elements, dtype="<f4")
    content = dumpmade.one_output(values)
    return [
        dumpmade.put(folder, f"Op.op{n}.1.1.{dumpmade.TIME + n}", content[:-1] if n in BROKEN else content)
        for n in range(count)
    ]


def sources(count: int) -> list[SourceFile]:
    return [SourceFile(Path(f"{number}"), f"{number}", Path()) for number in range(count)]


def test_of_2000_files_with_three_broken_ones_1997_are_converted_and_three_are_listed(tmp_path, capsys):
    files = dump_of(tmp_path / "dump", 2000)
    assert main(["convert", str(tmp_path / "dump"), "--out", str(tmp_path / "out"), "--jobs", "2"]) == 1
    captured = capsys.readouterr()
    assert "converted 1997 of 2000 files: 1997 files in " in captured.out
    assert "3 files of 2000 failed" in captured.err
    whole = sorted(path.name for path in (tmp_path / "out").glob("*.npy"))
    assert whole == sorted(f"{file.name}.output.0.npy" for n, file in enumerate(files) if n not in BROKEN)
    lines = (tmp_path / "out" / FAILED).read_text().splitlines()
    assert sorted(lines[::2]) == sorted(str(files[n]) for n in BROKEN)
    assert all("cut off, 23 of its 24 bytes are there" in reason for reason in lines[1::2])


def test_a_killed_process_fails_its_own_file_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setattr(one_file, "_convert_file", deadly)
    outcomes = list(convert_files(sources(9), ConvertOptions(tmp_path), jobs=2))
    assert sorted(int(outcome.path.name) for outcome in outcomes) == list(range(9))
    failed = {outcome.path.name: outcome.failures for outcome in outcomes if outcome.failures}
    assert failed.keys() == {"3"}
    assert "was killed" in failed["3"][0][1]


def run(tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest_msdump", "convert", "dump", "--out", "out", *words]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.e2e
def test_after_kill_9_no_half_file_looks_whole_and_the_next_run_makes_all_of_it_good(tmp_path):
    elements = 100_000
    dump_of(tmp_path / "dump", 120, elements)
    expected = np.arange(elements, dtype="<f4")
    out = tmp_path / "out"
    started = run(tmp_path, "--jobs", "2")
    limit = time.monotonic() + 60
    while len(list(out.glob("*.npy"))) < 5:
        assert started.poll() is None
        assert time.monotonic() < limit
    started.kill()
    started.wait()
    written = list(out.glob("*.npy"))
    assert 5 <= len(written) < 119
    for path in written:
        np.testing.assert_array_equal(np.load(path), expected)
    # What a writer leaves that is killed while it writes.
    (out / ".msdump-convert-0123.part").write_bytes(b"half")
    assert run(tmp_path, "--jobs", "1").wait() == 1
    assert sorted(path.suffix for path in out.iterdir()) == [".npy"] * 119 + [".txt"]
    for path in out.glob("*.npy"):
        np.testing.assert_array_equal(np.load(path), expected)


@pytest.mark.e2e
def test_a_large_tensor_takes_little_memory(tmp_path):
    elements, megabyte = 200 * 2**18, 2**20
    shape = (2, 2, elements // 64, 1, 16)
    header = dumpmade.message(
        outputs=[
            dumpmade.op_output(
                1, shape, 4 * elements, memory_format=dumpmade.NC1HWC0, original=(2, 32, elements // 64, 1)
            )
        ]
    )
    file = dumpmade.put(tmp_path / "dump", f"Op.large.1.1.{dumpmade.TIME}", dumpmade.dump2(header))
    os.truncate(file, file.stat().st_size + 4 * elements)
    code = (
        "import resource, sys\n"
        "from pytest_msdump.cli import main\n"
        "import numpy, pytest_msdump.capabilities.convert.one_file, pytest_msdump.core.compare.opening\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert main(sys.argv[1:]) == 0\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    words = ["convert", str(file), "--out", str(tmp_path / "out"), "--memory-format", "NHWC"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout.split()[-1]) * unit < 60 * megabyte
    (path,) = (tmp_path / "out").iterdir()
    assert path.stat().st_size == 4 * elements + 128
