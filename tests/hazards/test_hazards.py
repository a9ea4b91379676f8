"""Real dumps that are easily misread: bfloat16, a loop, a second run into one directory, names too long for a file."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask

from pytest_msdump.capabilities.arrays.writer import text_bytes
from pytest_msdump.capabilities.suggest.fingerprint import sample
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"


@pytest.fixture
def hazard(tmp_path: Path) -> Path:
    """A copy that may be written to."""
    shutil.copytree(HAZARDS, tmp_path / "hazards")
    return tmp_path / "hazards"


def npy_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npy"))


# -- bfloat16 ----------------------------------------------------------------------------------------------------


def test_a_bfloat16_dump_passes_against_itself_and_not_against_another(hazard: Path) -> None:
    same = ask(hazard / "bf16", HAZARDS / "bf16", "--io", "all", "--profile", "bitwise")
    assert (same.code, same.results["counts"]["pass"]) == (0, 5)
    (file,) = hazard.glob("bf16/rank_0/Net/0/0/*op0.*.output.*BFloat16*")
    data = bytearray(file.read_bytes())
    data[-1] ^= 0x80
    file.write_bytes(data)
    other = ask(hazard / "bf16", HAZARDS / "bf16", "--io", "all")
    failing = [record for record in other.results["tensors"] if record["verdict"] == "fail"]
    assert [(one["left"]["address"], one["judged_as"]) for one in failing] == [
        ("Default_Cast-op0:output:0", "bfloat16")
    ]
    assert (failing[0]["worst"][0]["left"], failing[0]["worst"][0]["right"]) == (2.25, -2.25)


# -- a loop ------------------------------------------------------------------------------------------------------


def test_each_turn_of_a_loop_meets_the_same_turn(hazard: Path) -> None:
    third = sorted(hazard.glob("while_loop/rank_0/Net/1/0/ReLU.Default_ReLU-op0.*.output.*"))[2]
    np.save(third, np.load(third) * 2 + 1)
    answer = ask(hazard / "while_loop", HAZARDS / "while_loop")
    failing = [record for record in answer.results["tensors"] if record["verdict"] == "fail"]
    assert answer.code == 1
    assert [(one["left"]["address"], one["graph"], one["iteration"], one["occurrence"]) for one in failing] == [
        ("Default/ReLU-op0:output:0", 1, 0, 2)
    ]


def test_a_turn_that_one_side_lacks_is_unmatched_and_named(hazard: Path) -> None:
    for file in sorted(hazard.glob("while_loop/rank_0/Net/1/1/ReLU.Default_ReLU-op0.*"))[2:]:
        file.unlink()
    answer = ask(hazard / "while_loop", HAZARDS / "while_loop", "--min-coverage", "100")
    assert answer.code == 1
    (entry,) = [entry for entry in answer.results["unmatched"] if entry["side"] == "right"]
    assert (entry["address"], entry["iteration"], entry["occurrence"]) == ("Default/ReLU-op0:output:0", 1, 1)
    assert "occurrence" in entry["reason"]


# -- a second run into the same directory ---------------------------------------------------------------------------


def test_of_two_runs_the_newest_is_compared_and_the_header_says_so(hazard: Path) -> None:
    files = npy_files(HAZARDS / "rerun_same_dir")
    times = {int(file.name.split(".")[4]) for file in files}
    # More than two minutes lie between the runs, and milliseconds between the tensors of one.
    newer = [file for file in files if int(file.name.split(".")[4]) > min(times) + 60_000_000]
    older = [file for file in files if file not in newer]
    assert len(newer) == len(older) == 7
    answer = ask(hazard / "rerun_same_dir", HAZARDS / "rerun_same_dir", "--io", "all")
    assert answer.code == 0
    assert {Path(record["left"]["file"]).name for record in answer.results["tensors"]} == {one.name for one in newer}
    for side in ("left", "right"):
        left_out = [entry for entry in answer.results["unmatched"] if entry["side"] == side]
        assert {Path(entry["file"]).name for entry in left_out} == {one.name for one in older}
        assert {entry["reason"] for entry in left_out} == {"older run"}
    header = answer.text.partition("matched")[0]
    assert header.count("re-run into the same directory: 7 older files left out") == 2


@pytest.mark.parametrize(("run", "code"), [("older", 0), ("newer", 1)])
def test_only_the_newest_run_is_judged(hazard: Path, run: str, code: int) -> None:
    both = sorted(hazard.glob("rerun_same_dir/rank_0/Net/0/0/ReLU.Default_ReLU-op0.*.output.*"))
    file = both[0] if run == "older" else both[1]
    np.save(file, np.load(file) + 7)
    assert ask(hazard / "rerun_same_dir", HAZARDS / "rerun_same_dir").code == code


# -- long names ----------------------------------------------------------------------------------------------------


def test_names_too_long_for_a_file_pair_through_mapping_csv(hazard: Path) -> None:
    folder = HAZARDS / "longname/rank_0/Net/0/0"
    with (folder / "mapping.csv").open(newline="", encoding="utf-8") as file:
        rows = {short.strip(): long.strip() for short, long in csv.reader(file)}
    assert len(rows) == 6
    answer = ask(hazard / "longname", HAZARDS / "longname", "--io", "all", "--min-coverage", "100")
    assert (answer.code, answer.results["counts"]["unmatched_left"]) == (0, 0)
    records = {Path(record["left"]["file"]).name: record for record in answer.results["tensors"]}
    assert set(records) == {file.name for file in npy_files(folder)}
    for short, long in rows.items():
        record = records[short]
        op_type, op, _, _, _, kind, slot, *_ = long.split(".")
        assert record["left"]["address"].endswith(f":{kind}:{slot}")
        assert (record["left"]["op_type"], record["left"]["name"]) == (op_type, op)
        # The execution order gives the name as the framework writes it.
        assert record["left"]["true_name"].replace("/", "_") == op


@pytest.mark.parametrize("read", [sample, lambda view: list(text_bytes(view))], ids=["sampled", "text"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_signalling_nans_are_widened_without_a_warning(read: Callable[[ArrayView], object], dtype: type) -> None:
    assert read(ArrayView(np.full(8, 0x7F800001, np.uint32).view(dtype)))


@pytest.mark.parametrize(
    "asked", [(), ("--spread", "all"), ("--suggest",), ("--detail", "1"), ("--report", "json,csv,html,md")]
)
@pytest.mark.parametrize(("dtype", "bits"), [("<f4", 0x7F800001), ("<f2", 0x7C01)])
def test_signalling_nans_of_broken_bytes_give_no_warning(
    tmp_path: Path, asked: tuple[str, ...], dtype: str, bits: int
) -> None:
    values = np.random.default_rng(0).standard_normal((4, 8, 5)).astype(dtype)
    broken = values.copy()
    broken.view(dtype.replace("f", "u")).flat[[3, 9]] = bits
    # One more on each side, for which a partner is looked for.
    for side, arrays in (("left", {"a": broken, "b": broken}), ("right", {"a": values, "c": values})):
        (tmp_path / side).mkdir()
        for name, array in arrays.items():
            np.save(tmp_path / side / f"{name}.0.1600000000000001.npy", array)
    sides = [str(tmp_path / side) for side in ("left", "right")]
    # Warnings are errors.
    assert main(["compare", *sides, "--report-dir", str(tmp_path / "reports"), *asked]) == 1
