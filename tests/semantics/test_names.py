"""What other tools get wrong of names, folders and sides, through the whole gate; one law each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference
from semantics.gate import Answer, ask

from pytest_msdump import assert_dumps_close, open_dump

ONE, TWO = np.ones(4, np.float32), np.full(4, 2, np.float32)


def names(answer: Answer) -> list[tuple[str, str, str]]:
    return [
        (record["left"]["address"], record["right"]["address"], record["verdict"])
        for record in answer.results["tensors"]
    ]


def references(root: Path, left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> tuple[Path, Path]:
    write_reference(root / "left", left)
    write_reference(root / "right", right)
    return root / "left", root / "right"


@pytest.mark.parametrize(
    "name",
    [
        "block.0.conv",
        "a.1.2.3",
        "1",
        "1.0",
        "...",
        "..",
        "-q",
        "a b",
        "a[0]",
        "a*",
        "a:b",
        "a::b",
        "#1",
        "{x}",
        "%s",
        "слой",
        "层/1".replace("/", "_"),
        "e\u0301",
        "\u202ename",
        "\N{GRINNING FACE}",
    ],
)
def test_names_are_kept_as_they_are(tmp_path: Path, name: str) -> None:
    sides = references(tmp_path, {name: ONE, "other": ONE}, {name: TWO, "other": ONE})
    answer = ask(*sides)
    assert answer.code == 1
    assert sorted(names(answer)) == sorted(
        [(f"{name}:output:0", f"{name}:output:0", "fail"), ("other:output:0", "other:output:0", "pass")]
    )


def test_names_that_mangle_to_the_same_are_never_mixed_up(tmp_path: Path) -> None:
    write_mindspore(tmp_path / "left", [("ReLU", "a/b", "output", 0, ONE)])
    write_reference(tmp_path / "right", {"a.b": ONE, "a_b": TWO})
    answer = ask(tmp_path / "left", tmp_path / "right")
    # Whichever it is, one of the two cannot be the left's: it has to be told.
    assert len(answer.results["tensors"]) + len(answer.results["unmatched"]) >= 2
    assert any(entry["side"] == "right" for entry in answer.results["unmatched"])


@pytest.mark.parametrize("escape", ["../../../../secret.npy", "/etc/hostname", "..", "rank_0/../../secret.npy"])
def test_mapping_csv_cannot_point_outside_its_folder(tmp_path: Path, escape: str) -> None:
    for side in ("left", "right"):
        write_mindspore(tmp_path / side, [("ReLU", "Default/ReLU-op0", "output", 0, ONE)])
    np.save(tmp_path / "secret.npy", TWO)
    mapping = tmp_path / "left/rank_0/Net/0/0/mapping.csv"
    mapping.write_text(f"{escape},ReLU.Default_Other-op0.0.0.1700000000000500.output.0.DefaultFormat.Float32.npy\n")
    paths = [ref.source.path.resolve() for ref in open_dump(tmp_path / "left").refs]
    assert all((tmp_path / "left").resolve() in path.parents for path in paths)
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert "Traceback" not in answer.text
    assert [name for name, _, _ in names(answer)] == ["Default/ReLU-op0:output:0"]


def test_a_folder_that_holds_itself_is_walked_once(tmp_path: Path) -> None:
    for side in ("left", "right"):
        write_mindspore(tmp_path / side, [("ReLU", "Default/ReLU-op0", "output", 0, ONE)])
    (tmp_path / "left/rank_0/Net/0/1").symlink_to(tmp_path / "left/rank_0/Net/0", target_is_directory=True)
    (tmp_path / "left/rank_0/loop").symlink_to("..", target_is_directory=True)
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert "Traceback" not in answer.text
    assert names(answer) == [("Default/ReLU-op0:output:0", "Default/ReLU-op0:output:0", "pass")]
    # What is not followed is told.
    assert answer.results["left"]["unexplained"]


def test_one_tensor_twice_in_the_same_microsecond_is_not_dropped(tmp_path: Path) -> None:
    for side in ("left", "right"):
        write_mindspore(tmp_path / side, [("ReLU", "Default/ReLU-op0", "output", 0, ONE)])
    folder = tmp_path / "left/rank_0/Net/0/0"
    (file,) = folder.glob("*.npy")
    np.save(folder / file.name.replace("-op0.0.0.", "-op0.0.1."), TWO)
    answer = ask(tmp_path / "left", tmp_path / "right")
    told = [record["left"]["file"] for record in answer.results["tensors"]]
    told += [entry["file"] for entry in answer.results["unmatched"]]
    told += answer.results["left"]["unexplained"]
    assert len([file for file in told if file.endswith(".npy") and "op0.0." in file]) == 2


def test_gaps_in_the_slots_are_no_partners(tmp_path: Path) -> None:
    left, right = references(
        tmp_path, {"split:0": ONE, "split:2": TWO}, {"split:0": ONE, "split:1": TWO, "split:2": TWO}
    )
    answer = ask(left, right)
    assert names(answer) == [
        ("split:output:0", "split:output:0", "pass"),
        ("split:output:2", "split:output:2", "pass"),
    ]
    assert [(entry["side"], entry["address"]) for entry in answer.results["unmatched"]] == [("right", "split:output:1")]
    with pytest.raises(AssertionError, match=r"66\.6 %"):
        assert_dumps_close(left, right, min_coverage=1)
