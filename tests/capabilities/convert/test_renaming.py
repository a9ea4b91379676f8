"""Foreign names become names of the grammar: all or nothing, never over another file, and back."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_msdump.capabilities.convert import renaming
from pytest_msdump.capabilities.convert.renaming import (
    Move,
    apply,
    compile_pattern,
    new_undo_file,
    parts_of,
    plan_renaming,
    read_undo,
    take_back,
    write_undo,
)
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError, MsdumpError

TIME = 1_700_000_000_000_000


def folder_of(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "dump"
    for number, name in enumerate(names):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.full(2, number, "float32")) if name.endswith(".npy") else file.write_text(name)
        os.utime(file, ns=((TIME + number) * 1000,) * 2)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def new_names(folder: Path, pattern: str) -> dict[str, str]:
    return {move.old: move.new for move in plan_renaming(folder, pattern).moves}


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "op", "slot", "time"),
    [
        ("{op}-{slot}.npy", "conv-1-0.npy", "conv-1", 0, None),
        ("{op}_{slot}_DebugIdentity_{time}.npy", "a_b_1_DebugIdentity_1700000000000000.npy", "a_b", 1, TIME),
        ("{any}_{op}.npy", "0001_conv.npy", "conv", 0, None),
        ("{op}.npy", "layer1.0/conv:w.npy", "layer1_0_conv_w", 0, None),
        ("{op}@{time}.npy", "x@1700000000.npy", "x", 0, TIME),
        ("{op}@{time}.npy", "x@1700000000000.npy", "x", 0, TIME),
        ("{op}@{time}.npy", "x@1700000000000000999.npy", "x", 0, TIME),
        (r"(?P<slot>\d+)__(?P<op>\w+)\.npy", "012__relu.npy", "relu", 12, None),
        (r"(?P<op>[a-z]+)(_(?P<slot>\d+))?\.npy", "relu.npy", "relu", 0, None),
        ("a+{op}.npy", "a+x.npy", "x", 0, None),
    ],
)
def test_a_pattern_tells_operator_slot_and_time(pattern, name, op, slot, time):
    assert parts_of(name, compile_pattern(pattern))[:3] == (op, slot, time)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("{slot}.npy", "does not say where the operator stands"),
        ("(?P<slot>.).npy", "does not say where the operator stands"),
        ("{opp}.npy", "unknown field '{opp}'; did you mean 'op'?"),
        ("{op}{}.npy", "unknown field '{}'"),
        ("(?P<op>.)(?P<tim>.)", "unknown group 'tim'; did you mean 'time'?"),
        ("{op}{op}", "has {op} twice"),
        ("(?P<op>(", "is not a regular expression"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(pattern, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "told"),
    [
        (r"(?P<op>x)(?P<slot>.*)", "xy", "'y' is not a slot"),
        (r"(?P<op>x)(?P<slot>.*)", "x" + "1" * 10, "is not a slot"),
        ("{op}-{time}.npy", "x-5.npy", "'5' is not a time"),
        ("{op}-{time}.npy", "x-0700000000.npy", "is not a time"),
        ("(?P<op>x?)y", "y", "no letter for the operator"),
    ],
)
def test_a_part_that_cannot_be_is_refused(pattern, name, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        parts_of(name, compile_pattern(pattern))


# -- plans ------------------------------------------------------------------------------------------------------------


def test_numbered_sub_folders_are_renamed_and_no_others(tmp_path):
    folder = folder_of(tmp_path, "0/x-0.npy", "1/x-0.npy", "more/x-0.npy", "0/1/x-0.npy")
    assert new_names(folder, "{op}-{slot}.npy") == {
        "0/x-0.npy": f"0/x.0.{TIME}.npy",
        "1/x-0.npy": f"1/x.0.{TIME + 1}.npy",
    }


@pytest.mark.parametrize(
    ("names", "pattern", "told"),
    [
        (["x1-a-0.npy", "x2-a-0.npy"], "{any}-{op}-{slot}.npy", "x1-a-0.npy and x2-a-0.npy would both be a.0"),
        (["a.b-0.npy", "a_b-1.npy"], "{op}-{slot}.npy", "'a.b' and 'a_b' would both be the operator a_b"),
        (["a.b-0@1700000000.npy", "a_b-0@1700000001.npy"], "{op}-{slot}@{time}.npy", "would both be the operator a_b"),
        (["a-0.npy", "a-00.npy"], "{op}-{slot}.npy", "would both be a.0"),
        (["a-0@1700000000.npy", "a-00@1700000001.npy"], "{op}-{slot}@{time}.npy", "would both be a.0"),
        (["x1-a-0@1700000000.npy", "x2-a-0@1700000000.npy"], "{any}-{op}-{slot}@{time}.npy", "would both be a.0.17"),
        ([f"a.0.{TIME}.npy", "a-0.npy"], "{op}-{slot}.npy", "would both be a.0"),
        (["A-0@1700000000.npy", "a-0@1700000000.npy"], "{op}-{slot}@{time}.npy", "would both be a.0.17"),
        ([f"a.0.{TIME}.npy", f"a-0@{TIME}.npy"], "{op}-{slot}@{time}.npy", "which is there already"),
        (["x.npy"], "{op}-{slot}.npy", "fits no .npy file there; there are: x.npy"),
        (["x" * 240 + ".npy"], "{op}.npy", "longer than 255 bytes"),
        (["x-0.npy", "msdump.json"], "{op}-{slot}.npy", "its msdump.json has the present file names"),
        (["x-0.npy", "mapping.csv"], "{op}-{slot}.npy", "its mapping.csv has the present file names"),
    ],
)
def test_what_cannot_be_done_wholly_is_refused(tmp_path, names, pattern, told):
    folder = folder_of(tmp_path, *names)
    before = content(folder)
    with pytest.raises(ConfigError, match=re.escape(told)):
        plan_renaming(folder, pattern)
    assert content(folder) == before


def test_a_tensor_of_several_times_stays_several_files(tmp_path):
    folder = folder_of(tmp_path, "a-0@1700000000.npy", "a-0@1700000001.npy")
    assert sorted(new_names(folder, "{op}-{slot}@{time}.npy").values()) == [
        "a.0.1700000000000000.npy",
        "a.0.1700000001000000.npy",
    ]


# -- there and back ---------------------------------------------------------------------------------------------------


@given(names=st.sets(st.text("ab.:é\n ", min_size=1, max_size=5), min_size=1, max_size=4))
def test_what_was_renamed_can_be_taken_back(tmp_path_factory, names):
    tmp_path = tmp_path_factory.mktemp("back")
    folder = folder_of(tmp_path, *(f"{number}{name}-0.npy" for number, name in enumerate(sorted(names))))
    before = content(folder)
    undo = new_undo_file(folder)
    apply(plan_renaming(folder, "{op}-{slot}.npy"), undo)
    after = content(folder)
    assert all(re.fullmatch(r"[\w-]+\.\d\.\d{16}\.npy", name, re.ASCII) for name in after)
    assert sorted(after.values()) == sorted(before.values())
    assert take_back(folder, read_undo(undo)) == len(names)
    assert content(folder) == before
    assert take_back(folder, read_undo(undo)) == 0


@pytest.fixture
def two(tmp_path):
    """A folder of two files, its plan, and where the undo file goes."""
    folder = folder_of(tmp_path, "a-0.npy", "b-0.npy")
    return folder, plan_renaming(folder, "{op}-{slot}.npy"), tmp_path / "undo.json"


def test_a_failure_half_way_gives_all_names_back(two, monkeypatch):
    folder, plan, undo = two
    before = content(folder)
    real = renaming._move

    def failing(old: Path, new: Path) -> None:
        if old.name == "b-0.npy":
            raise PermissionError(errno.EACCES, "denied")
        real(old, new)

    monkeypatch.setattr(renaming, "_move", failing)
    with pytest.raises(MsdumpError, match=r"b-0\.npy: cannot be renamed .*denied; nothing was renamed"):
        apply(plan, undo)
    assert content(folder) == before
    assert not undo.exists()


def test_an_undo_file_is_left_where_names_cannot_be_given_back(two, monkeypatch):
    folder, plan, undo = two
    real = renaming._move

    def failing(old: Path, new: Path) -> None:
        if old.name != "a-0.npy":
            raise PermissionError(errno.EACCES, "denied")
        real(old, new)

    monkeypatch.setattr(renaming, "_move", failing)
    with pytest.raises(MsdumpError, match="take them back by the undo file"):
        apply(plan, undo)
    monkeypatch.undo()
    assert take_back(folder, read_undo(undo)) == 1
    assert sorted(content(folder)) == ["a-0.npy", "b-0.npy"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_came_since_is_never_written_over(two, monkeypatch, has_links):
    folder, plan, undo = two
    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    (folder / plan.moves[1].new).write_text("mine")
    with pytest.raises(MsdumpError, match="nothing was renamed"):
        apply(plan, undo)
    assert sorted(content(folder)) == sorted(["a-0.npy", "b-0.npy", plan.moves[1].new])
    assert (folder / plan.moves[1].new).read_text() == "mine"


def test_files_are_renamed_where_there_are_no_hard_links(two, monkeypatch):
    folder, plan, undo = two
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    apply(plan, undo)
    assert sorted(content(folder)) == [move.new for move in plan.moves]


def test_a_run_killed_half_way_can_be_taken_back(two):
    folder, plan, undo = two
    write_undo(undo, folder, plan.moves)
    os.link(folder / plan.moves[0].old, folder / plan.moves[0].new)
    assert take_back(folder, read_undo(undo)) == 1
    assert sorted(content(folder)) == ["a-0.npy", "b-0.npy"]


def test_an_undo_file_that_is_there_is_never_written_over(two):
    folder, plan, undo = two
    undo.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        apply(plan, undo)
    assert (undo.read_text(), sorted(content(folder))) == ("mine", ["a-0.npy", "b-0.npy"])
    beside = folder.with_name("dump.undo.json")
    assert new_undo_file(folder) == beside
    beside.write_text("")
    assert new_undo_file(folder) == folder.with_name("dump.undo_2.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder, new: (folder / new).unlink(), "is gone, and so is a-0.npy"),
        (lambda folder, _: (folder / "a-0.npy").write_text("other"), "but that is there, too"),
    ],
)
def test_what_cannot_be_taken_back_wholly_is_refused(two, change, told):
    folder, plan, undo = two
    apply(plan, undo)
    change(folder, plan.moves[0].new)
    before = content(folder)
    with pytest.raises(ConfigError, match=told):
        take_back(folder, read_undo(undo))
    assert content(folder) == before


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"schema_version": 2, "renamed": []},
        {"schema_version": 1, "renamed": [["../a.npy", "b.npy"]]},
        {"schema_version": 1, "renamed": [["a.npy", "/b.npy"]]},
        {"schema_version": 1, "renamed": [["a.npy", "b\0.npy"]]},
        {"schema_version": 1, "renamed": [["a.npy", "..\\b.npy"]]},
        {"schema_version": 1, "renamed": [["a.npy"]]},
        {"schema_version": 1, "renamed": [["a.npy", 1]]},
        {"schema_version": 1, "renamed": [["a.npy", "c.npy"], ["b.npy", "c.npy"]]},
    ],
)
def test_an_undo_file_that_says_anything_else_is_refused(tmp_path, document):
    (tmp_path / "undo.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"undo\.json: "):
        read_undo(tmp_path / "undo.json")


def test_an_undo_file_cut_off_is_refused(tmp_path):
    write_undo(tmp_path / "undo.json", tmp_path, [Move("a.npy", "b.npy")])
    (tmp_path / "undo.json").write_bytes((tmp_path / "undo.json").read_bytes()[:-5])
    with pytest.raises(ConfigError, match="is not JSON"):
        read_undo(tmp_path / "undo.json")


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_tells_renames_and_takes_back(tmp_path, monkeypatch, capsys):
    folder = folder_of(tmp_path, "a-0.npy", "b-0.npy", "odd.npy")
    monkeypatch.chdir(tmp_path)
    before = content(tmp_path)
    moves = f"a-0.npy -> a.0.{TIME}.npy\nb-0.npy -> b.0.{TIME + 1}.npy\n"
    moves += "left alone: 1 file that the pattern does not fit: odd.npy\n"
    assert main(["rename", "dump", "--pattern", "{op}-{slot}.npy", "--dry-run"]) == 0
    assert capsys.readouterr().out == moves + "2 files would be renamed; nothing was changed\n"
    assert content(tmp_path) == before
    assert main(["rename", "dump", "--pattern", "{op}-{slot}.npy"]) == 0
    out = capsys.readouterr().out
    assert out == moves + "2 files renamed; to take it back: msdump rename dump --undo dump.undo.json\n"
    assert sorted(content(folder)) == [f"a.0.{TIME}.npy", f"b.0.{TIME + 1}.npy", "odd.npy"]
    assert main(["rename", "dump", "--undo", "dump.undo.json"]) == 0
    assert capsys.readouterr().out == "2 files renamed back\n"
    assert main(["rename", "dump", "--undo", "dump.undo.json"]) == 0
    assert capsys.readouterr().out == "every file has its old name already\n"
    assert {name: data for name, data in content(tmp_path).items() if not name.endswith("json")} == before


@pytest.mark.parametrize(
    "words",
    [
        ["dump"],
        ["dump", "--pattern", "{op}.npy", "--undo", "x"],
        ["dump", "--undo", "gone.json"],
        ["dump", "--undo", "gone.json", "--dry-run"],
        ["gone", "--undo", "gone.json"],
        ["gone", "--pattern", "{op}.npy"],
    ],
)
def test_what_cannot_be_meant_is_exit_code_4(tmp_path, monkeypatch, capsys, words):
    folder_of(tmp_path, "a-0.npy")
    monkeypatch.chdir(tmp_path)
    assert main(["rename", *words]) == 4
    assert capsys.readouterr().err.count("\n") == 1
