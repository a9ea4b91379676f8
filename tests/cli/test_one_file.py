"""A file of a dump that describes itself by its name alone is handled by every command that takes a file."""

from __future__ import annotations

import numpy as np
import pytest

import pytest_msdump
from pytest_msdump.cli import main

VALUES = np.arange(6, dtype="<f4").reshape(2, 3)
# Of MindSpore 1.3, and what is made of a dump file.
NAMES = {
    "Default--fc--Add-op1_output_0_shape_2_3_Float32_DefaultFormat.bin": "Default_fc_Add-op1:output:0",
    "Add.fc.1.1.1600000000000001.output.0.2_3.float32.ND.bin": "fc:output:0",
}
COMMANDS = (
    "inspect F",
    "inspect F --check",
    "inspect F --save-txt out",
    "compare F F --report-dir out",
    "compare F ../right --report-dir out",
    "compare ../left F --report-dir out",
    "compare F F -d OP -o out --report-dir out",
    "convert F -o out",
    "convert F --to npz -o out",
    "overflow F",
    "match F F",
    "init F F -o out.toml",
)


@pytest.fixture(params=NAMES)
def file(request, tmp_path, monkeypatch):
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / request.param).write_bytes(VALUES.tobytes())
    monkeypatch.chdir(tmp_path / "left")
    return request.param


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_one_bin_file(file, command):
    words = {"F": file, "OP": NAMES[file].split(":")[0]}
    assert main([words.get(word, word) for word in command.split()]) == 0


def test_python_takes_one_bin_file(file):
    dump = pytest_msdump.open_dump(file)
    np.testing.assert_array_equal(dump.read(NAMES[file]), VALUES)
    pytest_msdump.assert_close(file, VALUES)
    with pytest.raises(AssertionError):
        pytest_msdump.assert_close(file, VALUES + 1)


def test_two_files_meet_whatever_their_names_and_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("--".join(("Default", "fc", "Add-op1_input_0_shape_2_3_Float32_DefaultFormat.bin")), "b.npy")
    (tmp_path / names[0]).write_bytes(VALUES.tobytes())
    for values, code in ((VALUES, 0), (VALUES + 1, 1)):
        np.save("b.npy", values)
        assert main(["compare", *names, "--report-dir", "out"]) == code
        assert main(["compare", *names[::-1], "--report-dir", "out"]) == code


def test_a_bin_file_that_is_cut_off_fails(file, capsys):
    with open(file, "r+b") as stream:  # noqa: PTH123 - cut in place
        stream.truncate(20)
    assert main(["compare", file, "../right", "--report-dir", "out"]) == 1
    assert "cut off after 20 of 24 bytes" in " ".join(capsys.readouterr().out.split())
