"""Sides that are commands: programs that read prompts and write logits, right and with mistakes."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numpy_decoders import COMMAND, NET, PROMPTS

from pytest_msdump.cli import main

pytestmark = [pytest.mark.e2e, pytest.mark.full]


@pytest.fixture
def generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "said.py").write_text(COMMAND)
    (tmp_path / "prompts.json").write_text(json.dumps(PROMPTS))

    def run(left: str, right: str = "net.py:reference", *options: str) -> int:
        return main(["generation", left, right, "--prompts", "prompts.json", "--tokens", "12", *options])

    return run


def _command(decoder: str, *wrong: str) -> str:
    return shlex.join([sys.executable, "said.py", decoder, *wrong])


def test_a_command_says_what_the_function_says(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone, in a batch, free and as the reference; the tensors are the same bytes."""
    assert generation("net.py:padding", "net.py:reference", "--batched") == 1
    by_function = _written()
    verdicts = [line for line in capsys.readouterr().out.splitlines() if "tokens agree" in line]
    assert generation(_command("padding"), _command("reference"), "--batched") == 1
    assert _written() == by_function
    assert [line for line in capsys.readouterr().out.splitlines() if "tokens agree" in line] == verdicts
    assert generation(_command("tied_port"), "net.py:tied_reference", "--free") == 0
    assert "prompt_0: 4 of 12 tokens are compared" in capsys.readouterr().out


def test_a_command_writes_routers_beside_the_logits(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("net.py:routed_port", "net.py:routed_reference") == 0
    by_function = _written()
    assert generation(_command("routed_port"), _command("routed_reference")) == 0
    assert _written() == by_function
    capsys.readouterr()
    assert generation(_command("routed_port", "no experts")) == 4
    assert (
        "wrote no prompt_0.layer_0.experts.npy; write int64 of shape (12, experts of a token)"
        in capsys.readouterr().err
    )


def _written() -> dict[str, bytes]:
    folder = Path("msdump-report/generation")
    # Of prompt_0_logits.0.1700000000000000.npy without the time.
    return {f"{path.parent.name}/{path.name.split('.')[0]}": path.read_bytes() for path in folder.rglob("*.npy")}


def test_ids_of_a_command_are_those_that_it_chose(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation(_command("port", "ids")) == 1
    assert "12 of 12 choices differ" in " ".join(capsys.readouterr().out.split())


def test_bits_of_bfloat16_are_judged_as_such(generation: Callable[..., int]) -> None:
    assert generation(_command("reference", "bits")) == 0
    logits = json.loads(Path("msdump-report/results.json").read_text())["tensors"][0]
    assert logits["left"]["dtype"] == "bfloat16"
    assert 0 < logits["metrics"]["softmax_kl"] < 1e-2


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("fail", "failed with exit code 1"),
        ("lacking", "wrote no prompt_1.logits.npy; write floats of shape (12, vocabulary)"),
        ("short", "wrote float32 (11, 97) as prompt_0.logits.npy; write floats of shape (12, vocabulary)"),
        ("integers", "wrote int64 (12, 97) as prompt_0.logits.npy"),
        ("junk", "wrote a prompt_0.logits.npy that cannot be read: prompt_0.logits.npy: "),
        ("ids out of range", "wrote int64 (12,) as prompt_0.ids.npy; write 12 ids of the vocabulary"),
    ],
)
def test_a_command_that_fails_or_writes_something_else_is_one_clear_error(
    wrong: str, why: str, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation(_command("port", wrong)) == 4
    err = capsys.readouterr().err
    assert why in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("port.py", "name a file and a function of it"),
        ("no_such_program --fast", "cannot be started: No such file or directory"),
        ("python 'said.py", "close its quotes"),
        (" ", "is no decoder; give a function, FILE:FUNCTION, or a command"),
    ],
)
def test_what_is_neither_a_function_nor_a_command_is_one_clear_line(
    command: str, why: str, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation(command) == 4
    assert why in capsys.readouterr().err


def test_a_command_ends_with_its_time_limit(generation: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert generation(_command("port", "hang"), "net.py:reference", "--timeout", "0.5") == 4
    assert "did not end within its time limit of 0.5 s" in capsys.readouterr().err
    assert generation(_command("port"), "net.py:reference", "--timeout", "nan") == 4
    assert "give the seconds that the program may take" in capsys.readouterr().err


@pytest.mark.usefixtures("generation")
def test_the_fixture_takes_commands(msdump_generation: Callable[..., Any]) -> None:
    report = msdump_generation([sys.executable, "said.py", "port"], _command("reference"), PROMPTS, tokens=8)
    assert len(report.records) == 4
