"""The recorder's folders, and what it says without a framework."""

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import Recorder


@pytest.fixture
def absent(monkeypatch):
    monkeypatch.setattr("pytest_msdump.core.errors.find_spec", lambda _: None)
    for name in ("torch", "keras", "tensorflow", "onnxruntime", "mindspore"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize(
    ("method", "extra"), [("torch", "torch"), ("keras", "tensorflow"), ("tf1", "tensorflow"), ("onnx", "onnx")]
)
def test_a_framework_that_is_not_there_is_told_with_its_extra(tmp_path, method, extra):
    with pytest.raises(ConfigError, match=rf"not installed here.*pip install 'pytest-msdump\[{extra}\]'"):
        getattr(Recorder(tmp_path), method)(None)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def framework(monkeypatch):
    """A framework that is there, and a recording of it that gives back what it is given."""
    monkeypatch.setattr(
        "pytest_msdump.capabilities.frameworks.recorder.TorchRecording", lambda model, path, **more: (model, path, more)
    )
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))


@pytest.mark.usefixtures("framework")
def test_recordings_get_folders_of_their_own(tmp_path):
    recorder = Recorder(tmp_path)
    made = [recorder.torch("net", depth=1)[1] for _ in range(2)]
    assert made == [tmp_path / "torch", tmp_path / "torch_2"]
    assert recorder.torch("net", directory=str(tmp_path / "x"), depth=1) == ("net", tmp_path / "x", {"depth": 1})


def test_arrays_in_hand_are_written(tmp_path):
    with Recorder(tmp_path).writer(framework="mine") as writer:
        writer.write("op", np.ones(1))
    assert writer.directory == tmp_path / "dump"


def test_what_a_run_left_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_msdump.capabilities.programs.program.run_program", lambda _, directory: directory)
    recorder = Recorder(tmp_path, opened=lambda folder: ("opened", folder))
    assert recorder.run(["true"]) == ("opened", tmp_path / "program")


@pytest.mark.e2e
def test_a_program_that_has_run_is_opened_with_its_log(tmp_path):
    seen = []
    Recorder(tmp_path, opened=seen.append).run([sys.executable, "-c", "print('printed')"], timeout=30)
    assert [(ran.directory, ran.printed) for ran in seen] == [(tmp_path / "program", "printed")]


@pytest.mark.e2e
def test_a_script_is_run_by_the_interpreter_that_is_named(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv[1:])")
    ran = Recorder(tmp_path).mindspore(script, args=["--fast"], python=sys.executable)
    assert (ran.directory, ran.printed) == (tmp_path / "mindspore", "['--fast']")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("used", "absent"),
    [
        ("room", "numpy torch tensorflow mindspore onnx"),
        ("room.Recorder('x')", "torch tensorflow keras mindspore onnx"),
    ],
)
def test_frameworks_are_imported_when_they_are_used(used, absent):
    code = (
        f"import sys, pytest_msdump.record as room; {used};"
        f"sys.exit(sorted(set({absent!r}.split()) & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there_and_others_are_not():
    import pytest_msdump.record as room

    assert all(getattr(room, name) for name in room.__all__)
    assert set(room.__all__) <= set(dir(room))
    with pytest.raises(AttributeError, match="nothing"):
        _ = room.nothing
