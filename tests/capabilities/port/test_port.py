"""``msdump port``: which model is the reference, and what both are given; the frameworks are made here."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump import cli
from pytest_msdump.capabilities.port import command
from pytest_msdump.capabilities.port.sides import Declared, Inputs, Side, draw, read_inputs
from pytest_msdump.record import Recorder

NETS = """
import numpy as np

def build():
    return lambda x: {"double": 2 * x, "sum": (2 * x).sum(-1)}

def wrong():
    return lambda x: {"double": 2 * x, "sum": (2.5 * x).sum(-1)}

def with_inputs():
    return build(), {"x": np.full((2, 3), 7, np.float32)}

def broken():
    raise ZeroDivisionError("no such checkpoint")

def text():
    return build(), "images"
"""


class Made(Side):
    """A function of arrays; what it returns is recorded."""

    def run(self, inputs: Inputs, directory: Path) -> None:
        seen.append({name: array.copy() for name, array in inputs.items()})
        with Recorder(directory.parent).writer(directory) as writer:
            for name, values in self.made[0](*inputs.values()).items():
                writer.write(name, values)


class Original(Made):
    option, title = "original", "the first framework"


class Ported(Made):
    option, title = "ported", "the second one"

    @property
    def declared(self) -> list[Declared]:
        return [Declared("x", ("batch", 3), "float32")]


seen: list[Inputs] = []


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "SIDES", (Original, Ported))
    (tmp_path / "net.py").write_text(NETS, "utf-8")
    seen.clear()

    def run(*words: str) -> tuple[int, str]:
        code = cli.main(["port", *words])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


def test_the_same_model_twice_passes_and_the_first_framework_is_the_reference(port: Callable[..., Any]) -> None:
    for words in (["--ported", "net.py:build", "--original", "net.py:build"],
                  ["--original", "net.py:build", "--ported", "net.py:build"]):  # fmt: skip
        code, printed = port(*words)
        assert code == 0, printed
        assert "2 tensors: 2 pass" in printed
        assert "drawn for net.py:build: x float32 (2, 3)" in printed
    assert all(np.array_equal(one["x"], seen[0]["x"]) for one in seen)
    code, printed = port("--original", "net.py:build", "--ported", "net.py:wrong")
    assert code == 1
    assert "DRIFT  sum:output:0" in printed


def test_of_two_models_of_one_kind_the_second_is_the_reference(port: Callable[..., Any]) -> None:
    code, printed = port("--ported", "net.py:wrong", "--ported", "net.py:build", "--inputs", "x.npz")
    assert (code, "x.npz" in printed) == (4, True)
    np.savez("x.npz", anything=np.ones((1, 3), np.float32))
    code, printed = port("--ported", "net.py:wrong", "--ported", "net.py:build", "--inputs", "x.npz")
    assert code == 1
    # 2.5 × 3 on the left, 2 × 3 on the right.
    assert "7.5" in printed.split("err / allowed")[-1]
    assert [one["anything"].shape for one in seen] == [(1, 3), (1, 3)]


def test_what_the_function_returns_beside_the_model_is_given_to_both(port: Callable[..., Any]) -> None:
    code, printed = port("--original", "net.py:build", "--ported", "net.py:with_inputs")
    assert code == 0
    assert "that net.py:with_inputs returned" in printed
    assert [one["x"].tolist() for one in seen] == [[[7.0] * 3] * 2] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--original", "net.py:build"], "name two models, by two of --original, --ported: there are 1"),
        (["--original", "net.py:buil", "--ported", "net.py:build"], "did you mean 'build'"),
        (["--original", "net.py:broken", "--ported", "net.py:build"], "ZeroDivisionError: no such checkpoint"),
        (["--original", "net.py:text", "--ported", "net.py:build"], "tensors of numbers"),
        (["--original", "net.py:build", "--original", "net.py:build"], "return its inputs beside it"),
    ],
)
def test_what_cannot_run_is_one_line_and_can_be_repeated(port: Callable[..., Any], words: list[str], said: str) -> None:
    for _ in range(2):
        code, printed = port(*words)
        assert (code, len(printed.splitlines())) == (4, 1)
        assert said in printed


def test_a_kept_port_is_a_suite_that_says_the_same(
    port: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--original", "net.py:build", "--ported", "net.py:wrong", "--keep", "kept"]
    assert port(*words)[0] == 1
    assert cli.main(["compare", "--config", "kept/msdump.toml"]) == 1
    assert "DRIFT  sum:output:0" in capsys.readouterr().out
    code, printed = port(*words)
    assert (code, "is there already" in printed) == (4, True)


def test_the_command_that_is_printed_last_compares_the_same_again(
    port: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = port("--original", "net.py:build", "--ported", "net.py:wrong")
    words = shlex.split(printed.rpartition("re-run just this: msdump ")[2].replace("\\\n", ""))
    assert (code, cli.main(words)) == (1, 1)
    again = capsys.readouterr().out
    assert "DRIFT  sum:output:0" in again
    assert "1 tensor: 1 fail" in again


def test_nothing_of_others_is_removed(port: Callable[..., Any]) -> None:
    Path("msdump-report/port").mkdir(parents=True)
    Path("msdump-report/port/mine.txt").write_text("", "utf-8")
    code, printed = port("--original", "net.py:build", "--ported", "net.py:build")
    assert (code, "nothing of an earlier run" in printed) == (4, True)
    assert Path("msdump-report/port/mine.txt").exists()


def test_inputs_of_an_archive_are_in_its_order_and_a_damaged_one_is_refused(port: Callable[..., Any]) -> None:
    np.savez("x.npz", zeta=np.ones(2, np.float32), alpha=np.zeros(3, np.float32))
    assert list(read_inputs("x.npz")) == ["zeta", "alpha"]
    Path("x.npz").write_bytes(Path("x.npz").read_bytes()[:100])
    code, printed = port("--original", "net.py:build", "--ported", "net.py:build", "--inputs", "x.npz")
    assert (code, len(printed.splitlines())) == (4, 1)


def test_drawn_inputs_are_the_same_each_time_and_as_long_as_each_other() -> None:
    declared = [
        Declared("ids", ("batch", "length"), "int64", bound=9),
        Declared("types", ("batch", "length"), "int64"),
        Declared("mask", ("batch", "length"), "bool"),
        Declared("image", (None, 3, None), "float32"),
    ]
    one, other = draw(declared), draw(declared)
    assert {name: (array.shape, str(array.dtype)) for name, array in one.items()} == {
        "ids": ((2, 8), "int64"),
        "types": ((2, 8), "int64"),
        "mask": ((2, 8), "bool"),
        "image": ((2, 3, 8), "float32"),
    }
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert set(np.unique(one["types"])) == {0, 1}
    assert set(np.unique(one["ids"])) <= set(range(9))
    assert one["ids"].max() > 1


def test_what_drawn_inputs_cannot_run_says_so(port: Callable[..., Any]) -> None:
    Path("other.py").write_text("def build():\n    return lambda x: {'y': x.reshape(5, 'many')}\n", "utf-8")
    code, printed = port("--original", "net.py:build", "--ported", "other.py:build")
    assert (code, len(printed.splitlines())) == (4, 2)
    assert "drawn (x float32 (2, 3)); give --inputs FILE.npz" in printed


def test_of_what_is_raised_the_first_line_is_said(port: Callable[..., Any]) -> None:
    Path("other.py").write_text("def build():\n    raise ValueError('sizes differ\\nat a.cc:12')\n", "utf-8")
    code, printed = port("--original", "net.py:build", "--ported", "other.py:build")
    assert code == 4
    assert "raised ValueError: sizes differ; mend it" in printed
    assert "a.cc" not in printed
