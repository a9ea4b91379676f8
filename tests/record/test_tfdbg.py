"""Lists of tfdbg become commands that save every tensor once, in order, under names that readers know."""

from __future__ import annotations

import io
import re

import pytest

from pytest_msdump.capabilities.frameworks.tf_graphs import Listed, print_commands, read_listing
from pytest_msdump.cli import main
from pytest_msdump.core.dumps.file_names import parse_reference
from pytest_msdump.core.errors import ConfigError

LISTING = """\
run-end: run #1: 1 fetch (y_hat:0); 2 feeds
3 dumped tensor(s):

t (ms)     Size (B) Op type    Tensor name
[0.000]    170      VariableV2 k:0
[33.354]   1.18k    Identity   scope/k/read:0
[155.531]  576      Split      y_hat:1
"""
FIRST = 1600000000000000


def commands(text: str) -> list[str]:
    return list(print_commands(read_listing(text, source="list"), first=FIRST))


def test_two_names_of_one_spelling_stay_two():
    files = [command.split()[-1] for command in commands("[0.1] 4 Add a/b:0\n[0.2] 4 Add a_b:0\n")]
    assert [parse_reference(file).op for file in files] == ["a_b", "a_b_2"]


def test_a_list_that_is_cut_off_is_refused():
    with pytest.raises(ConfigError, match=r"2 tensors are listed of the 3"):
        read_listing(LISTING.rpartition("[")[0], source="list")


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"'\[1\.2\.3\]' is not a time"):
        read_listing("[1.2.3] 4 Add x:0\n", source="list")


def test_a_name_too_long_for_a_file_is_refused():
    assert len(next(print_commands([Listed(0, "x" * 232, 0)], first=FIRST)).split()[-1]) == 255
    with pytest.raises(ConfigError, match="would have 256 bytes"):
        list(print_commands([Listed(0, "x" * 233, 0)], first=FIRST))


def test_the_command_prints_lines_to_paste(tmp_path, capsys, monkeypatch):
    file = tmp_path / "tensor_name"
    file.write_text(LISTING)
    assert main(["tfdbg", "tensor_name", str(file), "--time", str(FIRST)]) == 0
    assert capsys.readouterr().out.splitlines() == commands(LISTING)
    monkeypatch.setattr("sys.stdin", io.StringIO(LISTING))
    assert main(["tfdbg", "-", "--time", str(FIRST), "--folder", "out"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "pt k:0 -n 0 -w out/k.0.1600000000000000.npy"


def test_times_are_now_unless_one_is_said(tmp_path, capsys):
    file = tmp_path / "list"
    file.write_text(LISTING)
    assert main(["tfdbg", str(file)]) == 0
    assert re.fullmatch(r"(pt \S+:\d -n 0 -w \w+\.\d\.\d{16}\.npy\n){3}", capsys.readouterr().out)


@pytest.mark.parametrize(
    "words", [["gone"], ["a", "b"], [".", "--time", "1"], [".", "--folder", "a b"], ["."], ["x", "y", "z"]]
)
def test_what_cannot_be_meant_is_exit_code_4(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tfdbg", *words]) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
