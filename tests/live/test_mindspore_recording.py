"""MindSpore's own dump and recorded cells, read back, beside what MindSpore itself gives back.

Needs MindSpore in an environment of its own, whose interpreter MSDUMP_MINDSPORE_PYTHON names.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live.reading_back import bits_of
from live.recordings import arrays_of, manifest_of

import pytest_msdump
from pytest_msdump import open_dump
from pytest_msdump.capabilities.frameworks.recorder import opened
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.record import Perturbation, Recorder

PYTHON = os.environ.get("MSDUMP_MINDSPORE_PYTHON")
PROGRAMS = Path(__file__).parent / "mindspore_programs.py"
PACKAGE = str(Path(pytest_msdump.__file__).parents[1])

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not PYTHON, reason="MSDUMP_MINDSPORE_PYTHON is not set"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Run one of the programs, once; the folder that it wrote to."""
    folders: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name.replace(" ", "_"))
            finished = subprocess.run(
                [str(PYTHON), str(PROGRAMS), name, str(folders[name])],
                env={**os.environ, "PYTHONPATH": PACKAGE, "GLOG_v": "3"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert finished.returncode == 0, finished.stdout + finished.stderr
        return folders[name]

    return run


def test_what_cells_gave_back_is_recorded(ran: Callable[[str], Path]) -> None:
    folder = ran("cells")
    found, expected = arrays_of(folder / "mindspore"), np.load(folder / "expected.npz")
    for name, key in {
        "conv1": ("conv1", "output", 0),
        "first": ("inner", "output", 0),
        "rest0": ("inner", "output", 1),
        "rest1": ("inner", "output", 2),
        "last": ("last.1", "output", 0),
        "grad hidden": ("conv1/grad_output", "output", 0),
    }.items():
        assert found[key][0].tobytes() == expected[name].tobytes(), name
    assert found["inner", "output", 0][1].tobytes() == expected["again"].tobytes()
    assert found["inner", "input", 0][0].tobytes() == expected["conv1"].tobytes()
    assert ("last", "output", 0) not in found
    for name in expected.files:
        kind, _, held = name.partition(" ")
        if kind == "held":
            assert found[held, "output", 0][0].tobytes() == expected[name].tobytes()
        elif kind == "grad" and held != "hidden":
            assert found[f"{held}/grad", "output", 0][0].tobytes() == expected[name].tobytes()


def test_gradients_of_inputs_come_through_the_cell(ran: Callable[[str], Path]) -> None:
    found = arrays_of(ran("cells") / "mindspore")
    # Of y = relu(x): the gradient of x is that of y where x is positive.
    positive = found["last.1", "output", 0][0] > 0
    expected = found["last.1/grad_output", "output", 0][0] * positive
    np.testing.assert_array_equal(found["last.1/grad_input", "output", 0][0], expected)


def test_the_graph_has_what_passes_from_cell_to_cell(ran: Callable[[str], Path]) -> None:
    calls = manifest_of(ran("edges") / "mindspore")["graph"]
    assert [(call["name"], call.get("occurrence", 0), call["inputs"], call.get("inside")) for call in calls] == [
        ("0", 0, [None], "SequentialCell"),
        ("1.a", 0, [["0", 0]], "1"),
        ("1.act", 0, [["1.a", 0]], "1"),
        ("1.b", 0, [["1.act", 0, 0]], "1"),
        # What was added between two cells is not followed.
        ("1.act", 1, [["", 0]], "1"),
        ("1", 0, [["0", 0], ["1.act", 0, 1]], "SequentialCell"),
        ("2", 0, [["1.act", 0, 1]], "SequentialCell"),
        ("SequentialCell", 0, [None, ["2", 0]], None),
    ]


def test_the_recording_is_a_dump_that_says_what_ran(ran: Callable[[str], Path]) -> None:
    folder = ran("cells") / "mindspore"
    dump = open_dump(folder)
    assert {ref.key.op.op_type for ref in dump.refs} >= {"Dense", "ReLU", "Inner", "Net", "Parameter"}
    manifest = manifest_of(folder)
    assert (manifest["framework"], manifest["device"], manifest["complete"]) == ("mindspore", "cpu", True)
    assert set(manifest["weights"]) == {
        f"{cell}.{held}" for cell in ("conv1", "inner.fc", "last.0") for held in ("weight", "bias")
    }
    assert len(manifest["inputs"]) == 1
    lines = {entry.get("line", "").rpartition(":")[0] for entry in manifest["tensors"].values()} - {""}
    assert lines == {str(PROGRAMS)}


def test_training_in_bfloat16_is_recorded(ran: Callable[[str], Path]) -> None:
    folder = ran("half")
    expected, dump = np.load(folder / "expected.npz")["out"], open_dump(folder / "mindspore")
    np.testing.assert_array_equal(dump.read("SequentialCell").astype(np.float32), expected)
    assert {"0/grad_output", "1/grad_output", "2/grad_input"} <= {ref.key.op.label for ref in dump.refs}


def test_levels_of_mixed_precision_say_their_type(ran: Callable[[str], Path]) -> None:
    manifests = ran("mixed").glob("*/msdump.json")
    assert {path.parent.name: json.loads(path.read_text("utf-8"))["dtype_policy"] for path in manifests} == {
        "O0": "",
        # It rewrites the network, which then knows no type.
        "O1": "amp O1",
        "O2": "amp O2 float16",
        "O3": "amp O3 float16",
        "O3 bfloat16": "amp O3 bfloat16",
        "auto bfloat16": "amp auto bfloat16",
    }


def test_a_later_operation_in_place_changes_no_record(ran: Callable[[str], Path]) -> None:
    folder = ran("later")
    found, expected = arrays_of(folder / "mindspore"), np.load(folder / "expected.npz")
    assert found["held", "output", 0][0].tobytes() == expected["before"].tobytes()
    assert found["InPlace", "output", 0][0].tobytes() == expected["after"].tobytes() != expected["before"].tobytes()


def test_what_a_program_overwrites_at_once_is_recorded_as_it_was(ran: Callable[[str], Path]) -> None:
    folder = ran("overwritten")
    found, expected = arrays_of(folder / "mindspore"), np.load(folder / "expected.npz")
    ways = json.loads((folder / "ways.json").read_text("utf-8"))
    assert len(found["held", "output", 0]) == len(found["after", "output", 0]) == ways == 4
    for name in ("held", "after"):
        for array in found[name, "output", 0]:
            assert array.tobytes() == expected[name].tobytes(), name


def test_errors_come_out_at_the_end_of_their_iteration(ran: Callable[[str], Path]) -> None:
    folder = ran("failing")
    said = json.loads((folder / "said.json").read_text("utf-8"))
    assert said["operation"].startswith("RuntimeError: Cholesky expects symmetric positive definite")
    assert said["conversion"] == "ConfigError: it has a negative number"
    assert said["program"] == "ValueError: the loss is NaN"
    assert not any(name.endswith("went on") for name in said)
    matrix = np.diag([4.0, -4.0]).astype(np.float32)
    for name in ("operation", "conversion", "program"):
        assert manifest_of(folder / name)["complete"] is False
        found = arrays_of(folder / name)
        assert found["0", "output", 0][0].tobytes() == np.maximum(matrix, 0).tobytes()
        assert (("1", "output", 0) in found) == (name != "conversion")


def test_iterations_have_folders(ran: Callable[[str], Path]) -> None:
    folder = ran("iterations")
    expected = np.load(folder / "expected.npz")
    refs = {str(ref.key.op.at.iteration): ref for ref in open_dump(folder / "mindspore").refs}
    assert set(refs) == {"0", "1"}
    for iteration, ref in refs.items():
        assert np.load(ref.source.path).tobytes() == expected[iteration].tobytes()


def test_every_type_is_read_back_bit_for_bit(ran: Callable[[str], Path]) -> None:
    folder = ran("types")
    expected = np.load(folder / "expected.npz")
    assert len(expected.files) == 14 + 2 * 4 + 3 + 1 + 5
    written = {ref.key.op.label: folder / "written" for ref in open_dump(folder / "written").refs}
    assert len(written) == 15
    for name, place in [*((name, folder / name) for name in expected.files), *written.items()]:
        dump = open_dump(place)
        (ref,) = (ref for ref in dump.refs if ref.key.op.label in ("Gives", name))
        assert np.load(ref.source.path).tobytes() == expected[name].tobytes(), name
        assert ref.spec.dtype in (None, name.partition(" ")[0].rstrip("_")), name
        address = ref.key.address
        if name == "qint4x2":
            with pytest.raises(TensorFileError, match=r"its name says qint4x2, .* a type that cannot be decoded"):
                dump.read(address)
            continue
        values = dump.read(address)
        assert values.shape == expected[name].shape
        assert bits_of(dump.open(address).dtype, values) == expected[name].tobytes(), name


def test_what_hooks_cannot_see_is_refused(ran: Callable[[str], Path]) -> None:
    said = json.loads((ran("refused") / "said.json").read_text("utf-8"))
    assert said["graph"].startswith("MindSpore runs in graph mode, whose compiled code calls no hooks; ")
    assert said["jit"].startswith("construct of Compiled is compiled (ms.jit), and cells inside of it, such as conv1, ")
    assert "none of the chosen cells was called" in said["called by jit"]
    assert "gradients of Net were asked for, and none came" in said["no gradient"]
    assert "no module is called 'conv9'" in said["nothing"]


# -- a process of its own ----------------------------------------------------------------------------------------------


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(tmp_path)
    return Recorder(tmp_path, opened=opened)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script that calls one of the functions."""

    def write(call: str) -> Path:
        script = tmp_path / "train.py"
        script.write_text(f"import sys\nsys.path.insert(0, {str(PROGRAMS.parent)!r})\n")
        with script.open("a") as file:
            file.write(f"import mindspore_programs as programs\nprograms.{call}\n")
        return script

    return write


OPTIONS: dict[str, Any] = {"python": PYTHON, "env": {"PYTHONPATH": PACKAGE, "GLOG_v": "3"}, "timeout": 300}


def test_a_script_in_graph_mode_is_dumped_and_opened(
    recorder: Recorder, program: Callable[[str], Path], tmp_path: Path
) -> None:
    dump = recorder.mindspore(program(f"graph({str(tmp_path / 'out.npy')!r})"), net="Small", **OPTIONS)
    relu = next(address for address in dump if "ReLU" in address and ":output:" in address)
    assert dump.read(relu).tobytes() == np.load(tmp_path / "out.npy").tobytes()
    assert {ref.key.op.at.net for ref in dump.refs} == {"Small"}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_path_with_a_dot_is_dumped_to(recorder: Recorder, program: Callable[[str], Path], tmp_path: Path) -> None:
    directory = tmp_path / "v1.2" / "a dump"
    assert len(recorder.mindspore(program("graph('out.npy')"), directory=directory, **OPTIONS)) > 0
    assert (directory / "rank_0").is_dir()


def test_a_perturbed_run_of_cells_is_that_of_perturbed_weights_and_inputs(ran: Callable[[str], Path]) -> None:
    folder = ran("perturbed")
    expected, perturb = np.load(folder / "expected.npz"), Perturbation(3, 2.0**-9)
    plain, noisy, after = (arrays_of(folder / name) for name in ("plain", "noisy", "after"))
    x = perturb("0/0", expected["x"])
    assert noisy["0", "input", 0][0].tobytes() == x.tobytes()
    weights = {name: perturb(name, expected[name]) for name in ("0.weight", "0.bias")}
    for name, array in weights.items():
        assert noisy[name, "output", 0][0].tobytes() == array.tobytes()
    np.testing.assert_allclose(noisy["0", "output", 0][0], x @ weights["0.weight"].T + weights["0.bias"], rtol=1e-5)
    assert after["SequentialCell", "output", 0][0].tobytes() == plain["SequentialCell", "output", 0][0].tobytes()
    assert expected["gradient"].shape == expected["x"].shape
    assert np.abs(expected["gradient"]).min() > 0
    manifests = [manifest_of(folder / name) for name in ("plain", "noisy")]
    assert manifests[0]["inputs"] == manifests[1]["inputs"] != {}
    assert manifests[0]["weights"] == manifests[1]["weights"] != {}
    assert manifests[1]["perturbation"] == {"u": 2.0**-9, "what": "input+weights", "seed": 3}
    held = noisy["held", "output", 0][0]
    assert (held != np.linspace(1, 2, 64, dtype=np.float32).view("u4") >> 16).any()
