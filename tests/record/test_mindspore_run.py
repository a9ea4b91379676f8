"""Scripts and functions run in a process of their own that has the configuration from its first line on."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from pytest_msdump.capabilities.frameworks.recorder import opened
from pytest_msdump.capabilities.programs.program import run_mindspore
from pytest_msdump.core.compare.opening import OpenDump
from pytest_msdump.core.errors import ConfigError, ProgramError

pytestmark = pytest.mark.usefixtures("temporary")

# Stands for a script that runs a network: dumps as MindSpore would.
SCRIPT = """
    import json, os, pathlib, sys
    from dump_builder import write_mindspore
    print("arguments", sys.argv[1:])
    settings = json.loads(pathlib.Path(os.environ["MINDSPORE_DUMP_CONFIG"]).read_text())["common_dump_settings"]
    print("settings", json.dumps(settings))
    tensors = [("Conv2D", "Default/conv1/Conv2D-op1", "output", 0, [1.0])]
    write_mindspore(pathlib.Path(settings["path"]), tensors, net=settings["net_name"])
    """


@pytest.fixture(autouse=True)
def _programs_can_write_dumps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)


def run_network(values: Any = (1.0,), *, scale: float = 1.0, folder: str = "") -> None:
    """Stands for a function that runs a network."""
    from dump_builder import write_mindspore

    settings = json.loads(Path(os.environ["MINDSPORE_DUMP_CONFIG"]).read_text("utf-8"))["common_dump_settings"]
    array = np.asarray(values) * scale
    write_mindspore(Path(settings["path"]), [("Conv2D", "Default/conv1/Conv2D-op1", "output", 0, array)])
    sys.stdout.write(f"function in {os.getpid()} given {type(values).__name__} {folder}\n")


class Nets:
    @staticmethod
    def run() -> None:
        run_network()


def fails() -> None:
    raise ValueError("the network is wrong")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., OpenDump]:
    def run(code: str, **options: Any) -> OpenDump:
        script = tmp_path / "train.py"
        script.write_text(dedent(code))
        return opened(run_mindspore(script, tmp_path / "dump", **options))

    return run


def printed_settings(text: str) -> dict[str, Any]:
    line = next(line for line in text.splitlines() if line.startswith("settings "))
    settings: dict[str, Any] = json.loads(line.removeprefix("settings "))
    return settings


@pytest.mark.e2e
def test_a_script_runs_with_its_arguments_and_its_dump_is_opened(
    run: Callable[..., OpenDump], tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = run(SCRIPT, args=["--epochs", 3, tmp_path], net="Lenet")
    assert [ref.key.op.at.net for ref in dump.refs] == ["Lenet"]
    printed = capsys.readouterr().out
    assert f"arguments ['--epochs', '3', '{tmp_path}']" in printed
    assert printed_settings(printed)["path"] == str(tmp_path / "dump")
    assert list(temporary.iterdir()) == []
    assert "MINDSPORE_DUMP_CONFIG" not in os.environ


@pytest.mark.e2e
def test_what_is_dumped_can_be_said(run: Callable[..., OpenDump], capsys: pytest.CaptureFixture[str]) -> None:
    run(SCRIPT, iteration="0|2", kernels=["Conv2D"], outputs_only=True)
    settings = printed_settings(capsys.readouterr().out)
    assert [settings[key] for key in ("iteration", "kernels", "input_output", "dump_mode")] == ["0|2", ["Conv2D"], 2, 1]


@pytest.mark.e2e
def test_a_configuration_of_ones_own_keeps_its_keys(
    run: Callable[..., OpenDump], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.json"
    common = {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": "/elsewhere",
        "net_name": "Mine",
        "iteration": "1",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    mine.write_text(json.dumps({"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}))
    run(SCRIPT, dump_config=mine)
    assert printed_settings(capsys.readouterr().out) == {**common, "path": str(tmp_path / "dump")}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("target", "options", "value", "said"),
    [
        (run_network, {}, [1.0], "given tuple"),
        (run_network, {"args": [[1, 2]], "kwargs": {"scale": 3}}, [3, 6], "given list"),
        (run_network, {"args": [np.arange(3.0)], "kwargs": {"folder": Path("/data")}}, [0, 1, 2], "ndarray /data"),
        (run_network, {"kwargs": {"scale": np.float32(0.5)}}, [0.5], "given tuple"),
        (Nets.run, {}, [1.0], "given tuple"),
    ],
)
def test_a_function_runs_in_another_process(
    target: Callable[..., None],
    options: dict[str, Any],
    value: list[float],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dump = opened(run_mindspore(target, tmp_path / "dump", **options))
    np.testing.assert_array_equal(dump.read(next(iter(dump))), value)
    printed = capsys.readouterr().out
    assert said in printed
    assert f"function in {os.getpid()} " not in printed


@pytest.mark.e2e
def test_a_function_of_a_package_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "top/nets"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    # A name that a neighbour of the launcher has.
    own = tmp_path / "own"
    own.mkdir()
    (own / "writer.py").write_text("print('the writer of the user')")
    monkeypatch.syspath_prepend(str(own))
    (package / "small.py").write_text("import writer\nfrom . import inner\ndef main(): print(__name__, inner.HERE)\n")
    (package / "inner.py").write_text("HERE = 'inner'")
    monkeypatch.syspath_prepend(str(package.parent))
    from nets.small import main  # type: ignore[import-not-found]

    capsys.readouterr()
    run_mindspore(main, tmp_path / "dump", python=sys.executable, env={"PYTHONPATH": str(own)})
    assert capsys.readouterr().out.splitlines() == ["the writer of the user", "nets.small inner"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (lambda: None, {}, "another process cannot find this function"),
        (run_network, {"args": [object()]}, r"args\[0\]: object cannot be given to another process"),
        (run_network, {"kwargs": {"scale": {1, 2}}}, "scale: set cannot be given"),
        (run_network, {"args": [np.array([None])]}, "an array of objects"),
        (len, {}, "another process cannot find this function"),
        ("/no/such/train.py", {}, r"/no/such/train\.py: no such script"),
        (__file__, {"kwargs": {"a": 1}}, "no kwargs"),
        (__file__, {"args": [{"a": 1}]}, "an argument of a script is text"),
        (__file__, {"mode": "tpu"}, "unknown mode 'tpu'"),
        (__file__, {"iteration": "first"}, "iteration"),
        (__file__, {"dump_config": {"common_dump_settings": {}}}, "common_dump_settings"),
        (__file__, {"dump_config": {}}, "common_dump_settings"),
        (__file__, {"python": "/no/such/python"}, "cannot be started: No such file"),
        (__file__, {"timeout": -1}, "give the seconds"),
    ],
)
def test_what_cannot_be_run_is_the_callers_error(
    target: Any, options: dict[str, Any], said: str, tmp_path: Path, temporary: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        run_mindspore(target, tmp_path / "dump", **options)
    assert list(temporary.iterdir()) == []


def test_a_function_within_a_function_cannot_be_found(tmp_path: Path) -> None:
    def inner() -> None:
        run_network()

    with pytest.raises(ConfigError, match=r"define it at the top level of a module, or give the path of a script"):
        run_mindspore(inner, tmp_path / "dump")


@pytest.mark.e2e
def test_a_function_that_fails_is_told_with_its_traceback(tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(
        ProgramError, match=r"(?s)^fails\(\) failed with exit code 1 .*ValueError: the network is wrong"
    ):
        run_mindspore(fails, tmp_path / "dump")
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
def test_a_script_that_hangs_says_where(run: Callable[..., OpenDump], temporary: Path) -> None:
    code = "import time, tempfile\ndef wait_for_data():\n    time.sleep(300)\ntempfile.mkdtemp()\nwait_for_data()"
    with pytest.raises(ProgramError, match=r"(?s)^train\.py did not end within its time limit of 1 s.*wait_for_data"):
        run(code, timeout=1)
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
def test_a_script_that_dumps_nothing_is_asked_for_graph_mode(run: Callable[..., OpenDump]) -> None:
    with pytest.raises(ProgramError, match=r"(?s)dumped nothing to .*graph mode.*\| loss 0\.3"):
        run("print('loss 0.3')")


@pytest.mark.e2e
def test_where_the_framework_is_absent_its_extra_is_named(run: Callable[..., OpenDump]) -> None:
    code = "import sys\nsys.modules['mindspore'] = None\nraise ModuleNotFoundError(\"No module named 'mindspore'\")"
    with pytest.raises(ConfigError, match=r"pip install 'pytest-msdump\[mindspore\]'"):
        run(code)


@pytest.mark.e2e
def test_a_path_that_mindspore_does_not_take_is_gone_round(tmp_path: Path) -> None:
    dump = opened(run_mindspore(run_network, tmp_path / "john.doe" / "a dump"))
    assert dump.dump.root == tmp_path / "john.doe" / "a dump"
    assert len(dump) == 1


def test_without_any_path_that_mindspore_takes_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "john.doe"
    bad.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(bad))
    with pytest.raises(ConfigError, match="set TMPDIR, or give another directory"):
        run_mindspore(run_network, bad / "dump")
