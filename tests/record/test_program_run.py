"""Any program: its configuration is written, it runs, what it dumped is opened, nothing else of it is left."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from pytest_msdump.capabilities.frameworks.recorder import opened
from pytest_msdump.capabilities.programs.program import run_program
from pytest_msdump.core.compare.opening import OpenDump
from pytest_msdump.core.errors import ConfigError, ProgramError

pytestmark = pytest.mark.usefixtures("temporary")

GOLDEN = Path(__file__).parent.parent / "data/ascend_golden/b_npu_vs_npu/right"
# Dumps what an AscendCL program would, to where its configuration says.
ACL_PROGRAM = f"""
    import json, os, pathlib, shutil, sys
    file = pathlib.Path(sys.argv[1])
    settings = json.loads(file.read_text())
    print("reads", settings)
    print("temporary", os.environ["TMPDIR"])
    pathlib.Path(os.environ["TMPDIR"], "left").mkdir()
    tree = pathlib.Path(settings["dump"]["dump_path"], "20240101000000", "0", "model", "1", "0")
    tree.mkdir(parents=True)
    for name in ("Conv2D.conv1.30.2.1600000000000903", "MatMul.nz.70.2.1600000000000907"):
        shutil.copy(pathlib.Path({str(GOLDEN)!r}, name), tree)
    """
WRITES_REFERENCE = """
    import sys, numpy
    numpy.save(sys.argv[1] + "/conv1.0.1700000000000000.npy", numpy.arange(6, dtype="float32"))
    """
DUMPS_NOTHING = "print('step 1 of 1: loss 0.3')"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., OpenDump]:
    def run(code: str, *args: str, **options: Any) -> OpenDump:
        script = tmp_path / "program.py"
        script.write_text(dedent(code))
        return opened(
            run_program([sys.executable, script, *args], options.pop("directory", tmp_path / "dump"), **options)
        )

    return run


@pytest.mark.e2e
def test_an_acl_program_reads_where_to_dump(run: Callable[..., OpenDump], tmp_path: Path, temporary: Path) -> None:
    dump = run(ACL_PROGRAM, "{config}", acl_json={"dump": {"dump_list": [], "dump_op_switch": "on"}})
    assert dump.dump.root == tmp_path / "dump"
    assert {ref.key.op.name for ref in dump.refs} == {"conv1", "nz"}
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
def test_a_given_file_keeps_its_keys_but_for_the_path(
    run: Callable[..., OpenDump], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "mine.json"
    text = json.dumps({"dump": {"dump_path": "/elsewhere", "dump_mode": "all"}, "profiler": {"switch": "off"}})
    given.write_text(text)
    run(ACL_PROGRAM, "{config}", acl_json=given)
    assert given.read_text() == text
    read = {"dump": {"dump_path": str(tmp_path / "dump"), "dump_mode": "all"}, "profiler": {"switch": "off"}}
    assert f"reads {read}" in capsys.readouterr().out


@pytest.mark.e2e
@pytest.mark.parametrize("ends_well", [True, False])
def test_a_configuration_in_a_fixed_place_is_put_back(
    ends_well: bool, run: Callable[..., OpenDump], tmp_path: Path
) -> None:
    place = tmp_path / "src"
    place.mkdir()
    (place / "acl.json").write_text("{}  ")
    program = ACL_PROGRAM if ends_well else "import sys; print(open(sys.argv[1]).read()); sys.exit(1)"
    options = {"acl_json": {"dump": {}}, "config_file": "acl.json", "cwd": place}
    if ends_well:
        assert len(run(program, "acl.json", **options)) > 0
    else:
        with pytest.raises(ProgramError, match="dump_path"):
            run(program, "acl.json", **options)
    assert [path.name for path in place.iterdir()] == ["acl.json"]
    assert (place / "acl.json").read_text() == "{}  "


def test_what_a_broken_off_run_has_put_aside_is_not_lost(run: Callable[..., OpenDump], tmp_path: Path) -> None:
    (tmp_path / "acl.json.before_msdump").write_text("precious")
    with pytest.raises(ConfigError, match=r"acl\.json\.before_msdump: a run that was broken off left this"):
        run(ACL_PROGRAM, acl_json={}, config_file=tmp_path / "acl.json")
    assert (tmp_path / "acl.json.before_msdump").read_text() == "precious"


@pytest.mark.e2e
def test_a_program_that_is_told_otherwise_gets_the_directory(run: Callable[..., OpenDump]) -> None:
    dump = run(WRITES_REFERENCE, "{directory}")
    np.testing.assert_array_equal(dump.read("conv1"), np.arange(6, dtype="float32"))


@pytest.mark.e2e
def test_a_program_of_mindspore_gets_its_configuration(
    run: Callable[..., OpenDump], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    code = """
        import json, os, pathlib
        from dump_builder import write_mindspore
        settings = json.loads(pathlib.Path(os.environ["MINDSPORE_DUMP_CONFIG"]).read_text())
        path = pathlib.Path(settings["common_dump_settings"]["path"])
        assert str(path).replace("/", "").replace("_", "").replace("-", "").isalnum(), path
        write_mindspore(path, [("Conv2D", "Default/conv1/Conv2D-op1", "output", 0, [1.0])])
        """
    # MindSpore takes no dot in a path.
    dump = run(code, directory=tmp_path / "v1.2" / "dump", dump_config={"common_dump_settings": {"path": ""}})
    assert len(dump) == 1
    assert (tmp_path / "v1.2/dump/rank_0").is_dir()


@pytest.mark.e2e
def test_a_program_that_dumps_nothing_is_told_with_what_it_printed(
    run: Callable[..., OpenDump], temporary: Path
) -> None:
    with pytest.raises(ProgramError) as caught:
        run(DUMPS_NOTHING, acl_json={})
    first, last = str(caught.value).splitlines()
    assert "ended well after " in first
    assert first.endswith("does it read the configuration that was written for it?; the end of what it printed:")
    assert last == "  | step 1 of 1: loss 0.3"
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os, sys; open(sys.argv[1] + '/log.txt', 'w').write('x')", "what it left is not a dump: "),
        ("import shutil, sys; shutil.rmtree(sys.argv[1])", "ended well and has removed "),
    ],
)
def test_what_is_no_dump_is_told(code: str, said: str, run: Callable[..., OpenDump]) -> None:
    with pytest.raises(ProgramError, match=said):
        run(code, "{directory}")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("code", "said"), [("raise SystemExit('no device')", "no device"), ("import time; time.sleep(300)", "time limit")]
)
def test_nothing_is_left_of_a_program_that_fails(
    code: str, said: str, run: Callable[..., OpenDump], temporary: Path
) -> None:
    prepared = "import tempfile; tempfile.mkdtemp()\n" + code
    with pytest.raises(ProgramError, match=said):
        run(prepared, acl_json={}, timeout=1)
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
def test_variables_are_added(run: Callable[..., OpenDump]) -> None:
    with pytest.raises(ProgramError, match="RANK_ID is 4"):
        run("import os; raise SystemExit(f\"RANK_ID is {os.environ['RANK_ID']}\")", env={"RANK_ID": "4"})


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acl_json": {}, "dump_config": {}}, "not both"),
        ({"config_file": "x.json"}, "config_file says where"),
        ({"acl_json": {"dump": []}}, "acl_json: 'dump' is an object"),
        ({"dump_config": {"common_dump_settings": 1}}, "dump_config: 'common_dump_settings' is an object"),
        ({"acl_json": {"dump": {"dump_step": object()}}}, "acl_json: cannot be written as JSON"),
        ({"acl_json": {"dump": {"dump_step": float("nan")}}}, "acl_json: cannot be written as JSON"),
        ({"acl_json": "/no/such.json"}, r"/no/such\.json: there is no such file"),
        ({"acl_json": __file__}, r"test_program_run\.py: is not JSON"),
        ({"timeout": 0}, "give the seconds"),
        ({"cwd": "/no/such/folder"}, "cannot be started in /no/such/folder"),
    ],
)
def test_what_cannot_be_asked_is_the_callers_error(
    options: dict[str, Any], said: str, run: Callable[..., OpenDump], temporary: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        run(DUMPS_NOTHING, **options)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("command", ["./main --steps 3", []])
def test_a_command_is_a_list(command: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give a list, the program first"):
        run_program(command, tmp_path / "dump")
    assert not (tmp_path / "dump").exists()


@pytest.mark.e2e
def test_a_folder_with_a_dump_in_it_is_not_dumped_to(run: Callable[..., OpenDump], tmp_path: Path) -> None:
    run(WRITES_REFERENCE, "{directory}")
    with pytest.raises(ConfigError, match=r"dump: is not empty \(it holds e\.g\. 'conv1\.0\.1700000000000000\.npy'\)"):
        run(WRITES_REFERENCE, "{directory}")
    assert [path.name for path in (tmp_path / "dump").iterdir()] == ["conv1.0.1700000000000000.npy"]
