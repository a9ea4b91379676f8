"""``msdump repeat -- COMMAND``: a program is run several times, and what it dumped is compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_msdump.cli import main

# What an operator adds to the sum of its inputs is the number of the run, which a file counts.
PROGRAM = """
    import sys, pathlib, numpy as np
    from pytest_msdump.core.model.dump import Edge, Operator
    from pytest_msdump.record import DumpWriter

    counter = pathlib.Path(__file__).with_name("runs")
    number = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("x" * (number + 1))
    print("this is run", number + 1)
    with DumpWriter(sys.argv[1], framework="numpy") as writer:
        x, before = np.arange(4, dtype="float32"), ()
        for line, (name, op_type, added) in enumerate([("a", "Mul", 0), ("b", "Sum", number // 2), ("c", "Add", 0)]):
            x = x + added
            writer.write(name, x, op_type=op_type, line=f"net.py:{line + 1}")
            writer.add_call(Operator(name, op_type, inputs=before))
            before = (Edge(name, 0),)
    """
# Dumps an array to where its own configuration says, as MindSpore does.
CONFIGURED = """
    import json, os, pathlib, numpy as np
    settings = json.loads(pathlib.Path(os.environ["MINDSPORE_DUMP_CONFIG"]).read_text())["common_dump_settings"]
    folder = pathlib.Path(settings["path"], "rank_0", settings["net_name"], "0", "0")
    folder.mkdir(parents=True)
    zeros = np.zeros(2, "float32")
    np.save(folder / "Mul.Default_Mul-op0.0.0.1700000000000000.output.0.DefaultFormat.float32.npy", zeros)
    """


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def words(folder: Path, code: str = PROGRAM, *options: str) -> list[str]:
    script = folder / "program.py"
    script.write_text(dedent(code))
    return ["repeat", *options, "--", sys.executable, str(script)]


@pytest.mark.e2e
def test_the_first_operator_that_differs_is_printed_with_its_line_and_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_msdump", *words(tmp_path, PROGRAM, "-n", "4"), "{directory}"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.splitlines() == [
        "4 runs, 3 tensors each: 2 differ between runs",
        "first: b:output:0 (Sum) differs from run 1 in runs 3, 4, made at net.py:2",
        "       all of its inputs that were compared are equal",
    ]
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.e2e
def test_the_program_gets_its_folder_in_a_dump_configuration(tmp_path: Path, capsys) -> None:
    config = tmp_path / "data_dump.json"
    settings = {"dump_mode": 0, "path": "/somewhere", "net_name": "Net", "iteration": "all", "input_output": 0}
    config.write_text(json.dumps({"common_dump_settings": {**settings, "kernels": [], "support_device": [0]}}))
    before = config.read_bytes()
    assert main(words(tmp_path, CONFIGURED, "--dump-config", str(config))) == 0
    assert capsys.readouterr().out == "3 runs, 1 tensor each: all equal\n"
    assert config.read_bytes() == before


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; print('loss is nan'); sys.exit(3)", ["failed with exit code 3", "| loss is nan"]),
        ("print('one step')", ["dumped nothing to", "| one step"]),
        ("import sys, pathlib; pathlib.Path(sys.argv[1], 'log').write_text('x')", ["is not a dump"]),
    ],
    ids=["failing", "nothing", "no dump"],
)
def test_a_run_that_fails_or_dumps_nothing_is_exit_4_with_what_it_printed(
    tmp_path: Path, capsys, temporary: Path, code: str, said: list[str]
) -> None:
    assert main([*words(tmp_path, code), "{directory}"]) == 4
    printed = capsys.readouterr()
    assert printed.err.startswith("msdump: run 1 of 3: python")
    assert [text for text in said if text not in printed.err] == []
    assert printed.out == ""
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--", "python", "train.py"], "nothing says where the program dumps to: write {directory}"),
        (["-n", "1", "--", "python", "{directory}"], "make 2 at least"),
        (["-n", "many", "--", "python", "{directory}"], "invalid int value"),
        pytest.param(
            ["--", "there-is-no-such-program", "{directory}"],
            "there-is-no-such-program cannot be started",
            marks=pytest.mark.e2e,
        ),
        (["--timeout", "-1", "--", "python", "{directory}"], "timeout is -1.0"),
        (["--dump-config", "absent.json", "--", "python"], "absent.json"),
        ([], "the following arguments are required: COMMAND"),
    ],
    ids=["no folder", "one run", "no number", "no program", "timeout", "configuration", "no command"],
)
def test_what_cannot_be_meant_is_exit_4(typed: list[str], said: str, capsys) -> None:
    assert main(["repeat", *typed]) == 4
    assert said in capsys.readouterr().err
