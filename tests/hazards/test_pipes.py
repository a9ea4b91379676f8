"""Pipes and devices in the place of files: said in one line, never waited for."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.compat import mscmp_advisor
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.files import read_regular, read_user_file

WHOLE = Path(__file__).parents[1] / "data" / "run_facts" / "whole"
A_PIPE = "it is a pipe, not a file"
STEP = "rank_0/Net/0/0"
MATMUL = "MatMul.Default_fc-Dense_MatMul-op0"


@pytest.fixture(autouse=True)
def no_hanging() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def stop(*_: object) -> None:
        raise AssertionError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return shutil.copytree(WHOLE, tmp_path / "dump")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "name",
    [
        "rank_0/graphs/ms_output_trace_code_graph_0.ir",
        "rank_0/execution_order/ms_execution_order_graph_0.csv",
        "rank_0/execution_order/ms_global_execution_order_graph_0.csv",
        "rank_0/.dump_metadata/config.json",
        "rank_0/.dump_metadata/data_dump.json",
        f"{STEP}/mapping.csv",
        f"{STEP}/statistic.csv",
        f"{STEP}/Opdebug.Node_OpDebug.5.1600000000000050.output.0.json",
        "acl_dump_0.json",
    ],
)
def test_a_pipe_beside_tensors_is_said_and_all_else_is_compared(
    dump: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pipe(dump / name)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(dump), str(WHOLE)]) == 0
    said = capsys.readouterr()
    assert A_PIPE in said.out or f"left out: {name}" in said.out, said.out


@pytest.mark.parametrize("name", ["msdump.json", "msdump.journal"])
def test_a_pipe_for_a_manifest_is_no_whole_recording(
    dump: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pipe(dump / name)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(dump), str(WHOLE)]) == 4
    said = capsys.readouterr().err
    assert "recording" in said
    assert main(["compare", str(dump), str(WHOLE), "--allow-incomplete"]) == 0
    assert A_PIPE in capsys.readouterr().out


def test_a_pipe_for_the_arguments_of_a_kernel_is_said(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pipe(dump / STEP / f"{MATMUL}.json")
    for file in (dump / STEP).glob(f"{MATMUL}.*.output.0.*.npy"):
        np.save(file, np.load(file) + 1)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(dump), str(WHOLE)]) == 1
    assert A_PIPE in (tmp_path / "msdump-report" / "results.json").read_text("utf-8")


def test_a_pipe_for_a_tensor_is_an_error_of_that_tensor(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (dump / STEP).glob(f"{MATMUL}.*.output.0.*.npy")
    put_pipe(file)
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", str(file)]) != 0
    assert A_PIPE in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "L", "R", "--fusion", "PIPE"],
        ["compare", "L", "R", "--quant-fusion", "PIPE", "--fusion", "FUSION"],
        ["compare", "L", "R", "--close-fusion", "PIPE", "--fusion", "FUSION"],
        ["compare", "--config", "PIPE"],
        ["check", "PIPE"],
        ["check", "RESULTS", "--config", "PIPE"],
        ["report", "PIPE"],
        ["config", "check", "PIPE"],
        ["config", "explain", "PIPE"],
        ["config", "check", "CONFIG", "--graph", "PIPE"],
        ["prototxt", "PIPE"],
        ["tfdbg", "PIPE"],
        ["rename", "FOLDER", "--undo", "PIPE"],
        ["convert", "PIPE", "--to", "npy", "--out", "OUT"],
        ["inspect", "L", "--graph", "PIPE"],
    ],
    ids=" ".join,
)
def test_a_pipe_that_was_named_is_refused_by_name(
    words: list[str], pipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(WHOLE), str(WHOLE)]) == 0
    capsys.readouterr()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "fusion.json").write_text('{"graph": [{"op": []}]}')
    places = {
        "L": WHOLE,
        "R": WHOLE,
        "PIPE": pipe,
        "FOLDER": tmp_path,
        "OUT": tmp_path / "out",
        "RESULTS": tmp_path / "msdump-report" / "results.json",
        "CONFIG": WHOLE / "rank_0/.dump_metadata/data_dump.json",
        "FUSION": tmp_path / "fusion.json",
    }
    assert main([str(places.get(word, word)) for word in words]) == 4
    said = capsys.readouterr().err
    assert any(f"pipe: {verb}{A_PIPE}" in said for verb in ("cannot be read: ", "cannot be opened: ", ""))
    assert said.count("\n") == 1


def test_a_suite_that_is_a_pipe_is_no_reason_to_compare_nothing(pytester: pytest.Pytester) -> None:
    os.mkfifo(pytester.path / "msdump.toml")
    pytester.makepyfile("def test_something(): pass")
    result = pytester.runpytest()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*msdump.toml: is not a file*"])


def test_the_advisor_does_not_wait_for_a_pipe(pipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mscmp_advisor.main(["-i", str(pipe), "-o", str(tmp_path)]) == 4
    assert A_PIPE in capsys.readouterr().err


def test_links_to_files_are_followed_and_links_to_pipes_are_not(pipe: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "other").symlink_to(pipe)
    assert read_regular(tmp_path / "link", 3) == b"abc"
    with pytest.raises(OSError, match=A_PIPE):
        read_regular(tmp_path / "other", 3)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/null", "it is a device, not a file"),
        ("/dev/zero", "it is a device, not a file"),
        ("/", "it is a directory, not a file"),
        ("a\0b", "its path is none"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_no_file_is_named_for_what_it_is(path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be read: {said}.*; give another"):
        read_user_file(Path(path), 100, want="give another")


def test_a_pipe_from_the_shell_is_refused() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(ConfigError, match=A_PIPE):
            read_user_file(Path(f"/dev/fd/{reading}"), 100, want="give a file")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("count", [0, 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_a_file_is_read_to_its_end_and_no_byte_more_than_allowed(tmp_path: Path, count: int) -> None:
    content = os.urandom(count)
    (tmp_path / "file").write_bytes(content)
    assert read_regular(tmp_path / "file", count) == content
    if count:
        with pytest.raises(OSError, match="it is larger than"):
            read_regular(tmp_path / "file", count - 1)


def test_files_that_the_kernel_makes_up_are_bounded_though_they_claim_to_be_empty() -> None:
    assert Path("/proc/self/maps").stat().st_size == 0
    assert len(read_regular(Path("/proc/self/maps"), 2**24)) > 100
    with pytest.raises(OSError, match="larger than 100 bytes"):
        read_regular(Path("/proc/self/maps"), 100)


TOO_LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "--config", TOO_LONG],
        ["compare", str(WHOLE), str(WHOLE), "-custom", TOO_LONG],
        ["check", TOO_LONG],
        ["config", "check", str(WHOLE / "rank_0/.dump_metadata/data_dump.json"), "--graph", TOO_LONG],
        ["convert", TOO_LONG, "--to", "npy", "--out", "o"],
        ["inspect", TOO_LONG],
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have_is_refused_in_a_line(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 4
    said = capsys.readouterr().err
    assert "xxx" in said
    assert "File name too long" in said or "there is no" in said or "no such" in said
    assert said.count("\n") == 1
