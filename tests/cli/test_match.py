"""``msdump match``: who pairs with whom, by names alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from dump_builder import write_reference
from plugin.suites import write_suite

from pytest_msdump.cli import main


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(autouse=True)
def dumps(tmp_path):
    values = np.arange(4, dtype=np.float32)
    for name, operators in (("run", ("conv1", "relu_a", "fc")), ("reference", ("conv1", "fc", "relu1"))):
        write_reference(tmp_path / name, dict.fromkeys(operators, values))
    return tmp_path


def test_every_pair_is_told_in_execution_order_with_what_paired_it(lenet, tmp_path, capsys):
    suite = write_suite(tmp_path / "msdump.toml", lenet, "target")
    assert main(["match", "--config", str(suite)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"msdump: left  = under test  {lenet / 'target'}" in lines[0]
    pairs = [line.split(maxsplit=3) for line in lines if "[[msdump.map]]" in line]
    assert [row[0] for row in pairs] == ["2", "3", "4", "6", "7", "8", "9", "11", "12", "14"]
    assert pairs[6][1:3] == ["Default/flatten-Flatten/Flatten-op0:output:0", "flatten:output:0"]
    assert pairs[6][3] == "msdump.toml [[msdump.map]] #7; reshape"
    assert lines[-1].startswith(
        "10 pairs; 10 of 10 right tensors have a partner (100 %); without one: 13 left, 0 right"
    )


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_nothing_but_the_header_is_wider_than_the_terminal(lenet, tmp_path, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    suite = write_suite(tmp_path / "msdump.toml", lenet, "target")
    main(["match", "--config", str(suite)])
    told = capsys.readouterr().out.partition("\n\n")[2]
    assert max(map(len, told.splitlines())) <= width
    # Names are broken, never cut.
    joined = "".join(told.split())
    assert "Default/flatten-Flatten/Flatten-op0:output:0<->" in joined or width == 200
    assert "Default/conv2-Conv2d/Conv2D-op0:output:0(nearest:conv2:output:0)" in joined


def test_no_tensor_is_read(dumps, capsys):
    for file in dumps.rglob("*.npy"):
        file.write_bytes(b"")
    assert main(["match", "run", "reference"]) == 0
    assert "2 pairs;" in capsys.readouterr().out


def test_nothing_pairs_is_1(dumps, capsys):
    write_reference(dumps / "other", {"elsewhere": np.zeros(3)})
    assert main(["match", "run", "other"]) == 1
    assert capsys.readouterr().out.endswith("nothing pairs: no left tensor has a partner on the right\n")


def test_a_missing_mapped_tensor_is_1(dumps, capsys):
    entry = '[[msdump.map]]\nleft = "gone"\nright = "relu1"\n'
    (dumps / "msdump.toml").write_text(f'[msdump]\nleft = "run"\nright = "reference"\n\n{entry}', "utf-8")
    assert main(["match"]) == 1
    out = capsys.readouterr().out
    assert "asked for, but not paired (1):\n  gone <-> relu1: " in out
    assert "1 map entry found no pair" in out


@pytest.mark.parametrize("words", [["nowhere", "reference"], ["run"], ["run", "reference", "--threshold", "cosine=1"]])
def test_what_cannot_be_meant_is_4_in_one_line(capsys, words):
    assert main(["match", *words]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_json_tells_the_same(capsys):
    assert main(["match", "run", "reference", "--select", "conv*", "--select", "relu*", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(pair["left"]["address"], pair["right"]["address"], pair["how"]) for pair in found["pairs"]] == [
        ("conv1:output:0", "conv1:output:0", "name")
    ]
    alone = {(one["side"], one["address"]): (one["reason"], one["candidates"]) for one in found["unmatched"]}
    assert set(alone) >= {("left", "relu_a:output:0"), ("right", "relu1:output:0")}
    assert alone["left", "relu_a:output:0"][1] == ["relu1:output:0"]
    assert (found["left"]["reader"], found["missing"], found["problems"]) == ("npy-folder", [], [])
    assert found["coverage"]["right_paired"] == 1


@pytest.mark.parametrize("command", ["match", "compare"])
def test_typed_arrows_say_who_meets_whom(command, tmp_path, capsys):
    for iteration in (0, 9):
        write_reference(tmp_path / "steps" / str(iteration), {"conv1": np.full(3, iteration, np.float32)})
    write_reference(tmp_path / "last", {"conv1": np.full(3, 9, np.float32)})
    assert main([command, "steps", "last", "--select=conv1", "--iteration=9"]) == 1
    assert main([command, "steps", "last", "--select=conv1", "--iteration=9", "--align", "iteration=9->0"]) == 0
    assert main([command, "steps", "last", "--align", "iteration=9"]) == 4
    assert "--align: iteration = '9' is not 'left->right'" in capsys.readouterr().err
