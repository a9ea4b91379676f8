"""A second run into a directory that wrote some tensors only, and tensors that are there more often than compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import START, write_mindspore, write_reference
from dumps.dumpmade import one_output
from semantics.gate import ask

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index

LENET = Path(__file__).parents[1] / "data" / "lenet"
STRICT = ("--profile", "strict", "--min-coverage", "100")
MINUTE_US = 60_000_000


@pytest.fixture
def lenet(tmp_path: Path) -> Path:
    """A LeNet run and a copy of it to be its reference."""
    for side in ("left", "right"):
        shutil.copytree(LENET / "target", tmp_path / side)
    return tmp_path


def files_of(folder: Path, operator: str) -> list[Path]:
    """The output files of an operator, the oldest first."""
    found = folder.rglob(f"*{operator}*.output.0.*.npy")
    return sorted(found, key=lambda file: file.name.split(".")[4])


def again(file: Path, later_us: int = MINUTE_US, change: float = 1.0) -> Path:
    """Write a newer file of the same tensor."""
    timestamp = file.name.split(".")[-6 if "output" in file.name else -2]
    newer = file.with_name(file.name.replace(timestamp, str(int(timestamp) + later_us)))
    np.save(newer, np.load(file) * np.float32(change))
    return newer


def drift(file: Path) -> None:
    np.save(file, np.load(file) * np.float32(1.5) + np.float32(1))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("repeated", ["Parameter.conv1_weight", "pool2-MaxPool2d"])
def test_one_newer_file_never_hides_a_drifted_relu(lenet: Path, side: str, repeated: str) -> None:
    total = len(list((lenet / side).rglob("*.output.*.npy")))
    again(files_of(lenet / side, repeated)[0])
    drift(files_of(lenet / "left", "relu1-ReLU")[0])
    answer = ask(lenet / "left", lenet / "right", *STRICT)
    assert answer.code == 1
    failing = [one["left"]["address"] for one in answer.results["tensors"] if one["verdict"] == "fail"]
    assert failing == ["Default/relu1-ReLU/ReLU-op0:output:0"]
    assert answer.results["coverage"]["right_total"] == total
    every = len(list((lenet / side).rglob("*.npy"))) - 1
    assert answer.results[side]["partial_run"] == {"newer": 1, "tensors": every}
    said = f"{side}: the directory holds a partial second run: 1 of {every} tensors"
    # In the header, and in the summary.
    assert answer.text.count(said) == 2


def test_the_newer_file_of_a_tensor_is_the_one_that_is_compared(lenet: Path) -> None:
    newer = again(files_of(lenet / "left", "relu2-ReLU")[0], change=2.0)
    answer = ask(lenet / "left", lenet / "right", *STRICT)
    (failing,) = [one for one in answer.results["tensors"] if one["verdict"] == "fail"]
    assert (answer.code, failing["left"]["file"]) == (1, newer.relative_to(lenet / "left").as_posix())
    orders = {one["left"]["name"]: one["order"] for one in ask(lenet / "right", lenet / "right").results["tensors"]}
    assert failing["order"] == orders[failing["left"]["name"]]


def test_a_whole_second_run_is_told_as_a_re_run_and_nothing_is_partial(lenet: Path) -> None:
    for file in list((lenet / "left").rglob("*.npy")):
        again_in_time(file)
    answer = ask(lenet / "left", lenet / "right", *STRICT)
    assert answer.code == 0
    assert "re-run into the same directory" in answer.text
    assert "partial" not in answer.text
    assert "partial_run" not in answer.results["left"]


def again_in_time(file: Path) -> None:
    fields = file.name.split(".")
    fields[4] = str(int(fields[4]) + MINUTE_US)
    shutil.copy(file, file.with_name(".".join(fields)))


ARRAY, CONTAINER = b"", one_output(np.arange(1.0, 7.0, dtype="<f4"))
LAYOUTS = {
    "mindspore": ("rank_0/Net/0/0/Add.{op}.1.1.{time}.output.0.DefaultFormat.Float32.npy", ARRAY),
    "mindspore, one directory": ("Add.{op}.1.1.{time}.output.0.DefaultFormat.npy", ARRAY),
    "ascend": ("Add.{op}.1.1.{time}", CONTAINER),
    "ascend without a stream": ("Add.{op}.1.{time}", CONTAINER),
    "ascend by MindSpore": ("rank_0/Net/0/0/Add.{op}.1.1.{time}", CONTAINER),
    "ascend by CANN": ("20260131235959/0/Net/1/0/Add.{op}.1.1.{time}", CONTAINER),
    "converted": ("Add.{op}.1.1.{time}.output.0.6.npy", ARRAY),
    "npy folder": ("{op}.0.{time}.npy", ARRAY),
    "npy folder of iterations": ("0/{op}.0.{time}.npy", ARRAY),
    "pb folder": ("{op}.0.{time}.pb", b""),
    "statistics": (
        "Add.{op}.1.1.{time}.csv",
        b"Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value\nOutput,0,24,DT_FLOAT,ND,6,6.0\n",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("later", [("b",), ("b", "c")])
def test_in_every_layout_a_newer_file_replaces_its_own_tensor_in_its_place(
    tmp_path: Path, layout: str, later: tuple[str, ...]
) -> None:
    form, content = LAYOUTS[layout]
    for start, ops in ((START, ("a", "b", "c", "d")), (START + MINUTE_US, later)):
        for number, op in enumerate(ops):
            file = tmp_path / form.format(op=op, time=start + number * 100)
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".npy":
                np.save(file, np.arange(1.0, 7.0, dtype="f4"))
            else:
                file.write_bytes(content)
    dump = index(tmp_path)
    assert [(ref.key.op.name, ref.place) for ref in dump.refs] == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    newer = {ref.key.op.name for ref in dump.refs if (ref.source.timestamp or 0) >= START + MINUTE_US}
    assert newer == set(later)
    assert [ref.key.op.name for ref in dump.older] == list(later)
    assert dump.partial is not None
    assert (dump.partial.newer, dump.partial.tensors) == (len(later), 4)
    assert any(f"partial second run: {len(later)} of 4 tensors" in note for note in dump.notes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_every_layout_numbers_that_are_no_times_hide_no_file(tmp_path: Path, layout: str) -> None:
    form, content = LAYOUTS[layout]
    for time in (START, *range(3)):
        file = tmp_path / form.format(op="features" if time < START else "head", time=time)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".npy":
            np.save(file, np.arange(1.0, 7.0, dtype="f4"))
        else:
            file.write_bytes(content)
    dump = index(tmp_path)
    assert dump.older == ()
    assert [ref.key.op.at.occurrence for ref in dump.refs] == [0] * 4
    assert dump.partial is None


# -- occurrences that met no partner --------------------------------------------------------------------------------


def looped(folder: Path, turns: int, **where: Any) -> None:
    """A network whose body runs several times."""
    values = np.arange(1.0, 7.0, dtype="f4")
    body = [("ReLU", "Default/body/ReLU-op0", "output", 0, values) for _ in range(turns)]
    ends = [("Add", f"Default/{name}/Add-op0", "output", 0, values) for name in ("first", "last")]
    write_mindspore(folder, [ends[0], *body, ends[1]], execution_order=False, **where)


def found_uncompared(answer: Any) -> list[tuple[str, str, dict[str, int]]]:
    return [
        (one["verdict"], one["left"]["name"], one["uncompared"])
        for one in answer.results["tensors"]
        if "uncompared" in one
    ]


@pytest.mark.parametrize(
    ("profile", "verdict", "code"), [("default", "warn", 0), ("strict", "fail", 1), ("bitwise", "fail", 1)]
)
@pytest.mark.parametrize(("left", "right"), [(3, 1), (3, 2), (1, 3)])
def test_occurrences_that_met_no_partner_are_told_and_fail_where_all_must_be_compared(
    tmp_path: Path, left: int, right: int, profile: str, verdict: str, code: int
) -> None:
    looped(tmp_path / "left", left)
    looped(tmp_path / "right", right)
    answer = ask(tmp_path / "left", tmp_path / "right", "--profile", profile)
    assert answer.code == code
    counts = {"left": max(left - right, 0), "right": max(right - left, 0)}
    assert found_uncompared(answer) == [(verdict, "Default_body_ReLU-op0", counts)]
    (record,) = [one for one in answer.results["tensors"] if "uncompared" in one]
    # Of several compared occurrences, the last one tells.
    assert record["occurrence"] == min(left, right) - 1
    (finding,) = [one for one in record["findings"] if one.get("code") == "uncompared_occurrences"]
    assert finding["outcome"] == verdict
    more = max(counts.values())
    assert f"1 compared tensor has more occurrences, which were not compared: {more}" in answer.text


def test_a_second_drifted_file_a_moment_later_fails_in_strict(lenet: Path) -> None:
    again(files_of(lenet / "left", "relu1-ReLU")[0], later_us=1, change=3.0)
    lax = ask(lenet / "left", lenet / "right")
    assert (lax.code, lax.results["counts"]["warn"]) == (0, 1)
    assert ask(lenet / "left", lenet / "right", *STRICT).code == 1


def test_a_saved_result_is_judged_with_its_uncompared_occurrences_again(tmp_path: Path) -> None:
    looped(tmp_path / "left", 3)
    looped(tmp_path / "right", 2)
    assert ask(tmp_path / "left", tmp_path / "right").code == 0
    saved = tmp_path / "reports" / "results.json"
    for profile, code in (("default", 0), ("strict", 1)):
        assert main(["check", str(saved), "--profile", profile]) == code


def test_selection_and_align_that_leave_occurrences_out_stay_silent(tmp_path: Path) -> None:
    for iteration, turns in ((0, 3), (9, 2)):
        looped(tmp_path / "left", turns, iteration=iteration, start=START + iteration * MINUTE_US)
    looped(tmp_path / "right", 2)
    sides = tmp_path / "left", tmp_path / "right"
    assert ask(*sides, "--iteration=0", *STRICT).code == 1
    for number, (arrows, *silent) in enumerate(
        [("9->0", "--iteration=9"), ("9->0, 0->7",), ("0->0", "--deselect=*body*"), ("0->0", "--select=*first*")]
    ):
        suite = tmp_path / f"{number}.msdump.toml"
        suite.write_text(
            f'[msdump]\nleft = "left"\nright = "right"\nprofile = "strict"\nalign = {{ iteration = "{arrows}" }}\n'
        )
        answer = ask(*sides, f"--config={suite}", *silent, reports=tmp_path / f"reports{number}")
        assert (answer.code, found_uncompared(answer)) == (0, [])


def test_a_second_file_of_a_flat_reference_is_told_of_the_pair_that_was_compared(tmp_path: Path) -> None:
    for side in ("left", "right"):
        write_reference(tmp_path / side, {"a": [1.0], "b": [2.0], "c": [3.0]})
    np.save(tmp_path / "right" / f"a.0.{START + 1}.npy", [9.0])
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert found_uncompared(answer) == [("warn", "a", {"left": 0, "right": 1})]
    assert ask(tmp_path / "left", tmp_path / "right", "--profile=strict").code == 1
