"""A recording that has not ended is never taken for a whole one, however it came to its end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.capabilities.record import manifest, writer
from pytest_msdump.capabilities.record.reference import keep_reference
from pytest_msdump.cli import main
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.errors import ConfigError, IncompleteRecordingError, MsdumpError, ProgramError
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import DumpWriter, RawArray, Recorder

pytestmark = pytest.mark.e2e

BFLOAT16 = RawArray(bytes([0x80, 0x3F, 0x00, 0xC0]), (2,), "bfloat16")
# Records one tensor in each iteration, and is killed by itself in the one before the last.
KILLED = """
import os, signal, sys
import numpy as np
from pytest_msdump.record import DumpWriter, RawArray
with DumpWriter(sys.argv[1], framework="numpy", iterations=sys.argv[2] == "several") as writer:
    writer.write("net/a", np.ones(3, "float32"))
    writer.write("net/b", RawArray(bytes([0x80, 0x3F, 0x00, 0xC0]), (2,), "bfloat16"))
    os.kill(os.getpid(), signal.SIGKILL)
    writer.write("net/c", np.ones(3, "float32"))
"""


def record(folder: Path, **options: bool) -> Path:
    """Record the whole of what the program above does not come to."""
    with DumpWriter(folder, **options) as made:
        made.write("net/a", np.ones(3, "float32"))
        made.write("net/b", BFLOAT16)
        made.write("net/c", np.ones(3, "float32"))
    return folder


def killed(folder: Path, iterations: str = "one") -> Path:
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), iterations], check=False)
    assert done.returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def both(tmp_path, monkeypatch):
    """A whole recording and one that was killed, in the current folder."""
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "whole")
    killed(tmp_path / "half")
    return tmp_path


COMMANDS = [
    ("compare", "whole", "half"),
    ("compare", "half", "whole"),
    ("compare", "half", "half"),
    ("match", "half", "whole"),
    ("inspect", "half"),
    ("inspect", "half", "--check"),
    ("inspect", "half", "--verify"),
    ("overflow", "half"),
    ("convert", "half", "--out", "arrays"),
    ("convert", "half", "--out", "containers", "--to", "dump"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_recording_that_was_killed(both, capsys, command):
    assert main(list(command)) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "half: the recording has not ended, or was broken off" in line
    assert "record it again" in line
    assert "--allow-incomplete" in line
    assert not (both / "arrays").exists()


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != ("overflow", "half")], ids=" ".join)
@pytest.mark.usefixtures("both")
def test_every_command_takes_it_where_that_is_allowed(capsys, command):
    assert main([*command, "--allow-incomplete"]) in (0, 1)
    assert capsys.readouterr().out
    assert main(["overflow", "half", "--allow-incomplete"]) == 0


def test_what_was_allowed_is_said_everywhere(both, capsys):
    arguments = ["compare", "half", "whole", "--allow-incomplete", "--report", "json,html,md"]
    assert main(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "left: incomplete: the recording has not ended, or was broken off" in told
    assert "THE LEFT SIDE IS AN INCOMPLETE RECORDING" in told
    assert "matched 2 of 3 right tensors" in told
    report = both / "msdump-report"
    results = read_json(report / "results.json")
    assert results["coverage"]["incomplete"] == ["left"]
    assert results["left"]["notes"][0].startswith("incomplete: ")
    assert results["right"]["notes"] == []
    assert "--allow-incomplete" in results["rerun"]
    assert "THE LEFT SIDE IS AN INCOMPLETE RECORDING" in (report / "summary.md").read_text()
    assert "incomplete: the recording has not ended" in (report / "index.html").read_text()
    assert main(["check", str(report / "results.json")]) == 0
    assert "THE LEFT SIDE IS AN INCOMPLETE RECORDING" in capsys.readouterr().out
    assert main([*arguments, "--min-coverage", "90", "--lang", "zh"]) == 1
    assert capsys.readouterr().out.count("左侧的采集不完整") == 2
    # The journal tells what files do not: the types that numpy has not.
    assert {record["left"]["dtype"] for record in results["tensors"]} == {"float32", "bfloat16"}


@pytest.mark.parametrize("how", ["flag", "suite", "ini", "not"])
def test_pytest_refuses_it_unless_it_is_allowed_in_one_of_three_ways(both, pytester, how):
    for name in ("half", "whole"):
        shutil.copytree(both / name, pytester.path / name)
    (pytester.path / "msdump.toml").write_text(
        "[msdump]\nleft = 'whole'\nright = 'half'\n" + ("allow_incomplete = true\n" if how == "suite" else "")
    )
    if how == "ini":
        pytester.makeini("[pytest]\nmsdump_allow_incomplete = true\n")
    os.chdir(pytester.path)
    result = pytester.runpytest_inprocess("-rA", *(["--msdump-allow-incomplete"] if how == "flag" else []))
    if how == "not":
        assert result.ret == 4
        result.stderr.fnmatch_lines(["ERROR: *half: the recording has not ended*record it again*"])
        return
    assert result.ret == 0
    # In the header, in the item `coverage`, in the summary.
    result.stdout.fnmatch_lines(
        [
            "*right: incomplete: the recording has not ended*",
            "THE RIGHT SIDE IS AN INCOMPLETE RECORDING*",
            "THE RIGHT SIDE IS AN INCOMPLETE RECORDING*",
        ]
    )


def test_a_failing_items_line_allows_it_too(both, pytester):
    for name in ("half", "whole"):
        shutil.copytree(both / name, pytester.path / name)
    (file,) = (pytester.path / "half").glob("net_a.*")
    np.save(file, np.full(3, 7, "float32"))
    os.chdir(pytester.path)
    result = pytester.runpytest_inprocess("--msdump-left=whole", "--msdump-right=half", "--msdump-allow-incomplete")
    text = result.stdout.str().replace(" \\\n", "")
    assert "--msdump-allow-incomplete --msdump-select=net/a" in text


@pytest.mark.usefixtures("both")
def test_helpers_refuse_it_unless_it_is_allowed():
    with pytest.raises(IncompleteRecordingError, match="allow_incomplete=True"):
        open_dump("half")
    assert len(open_dump("half", allow_incomplete=True)) == 2
    for sides in (("half", "whole"), ("whole", "half")):
        with pytest.raises(ConfigError, match="record it again"):
            assert_dumps_close(*sides)
    report = assert_dumps_close("whole", "half", allow_incomplete=True)
    assert report.coverage.incomplete == ("right",)


def test_one_file_of_it_is_whole_and_can_be_looked_at(both, capsys):
    (file,) = (both / "half").glob("net_b.*")
    (other,) = (both / "whole").glob("net_b.*")
    assert main(["inspect", str(file)]) == 0
    assert "bfloat16" in capsys.readouterr().out
    assert main(["compare", str(file), str(other)]) == 0


def test_a_folder_within_it_and_one_around_it_are_not_whole_either(tmp_path):
    killed(tmp_path / "half", "several")
    assert (tmp_path / "half/0").is_dir()
    for root in ("half", "half/0"):
        with pytest.raises(IncompleteRecordingError):
            open_dump(tmp_path / root)
    killed(tmp_path / "steps/0")
    record(tmp_path / "steps/1")
    with pytest.raises(IncompleteRecordingError, match=r"in .*steps/0"):
        open_dump(tmp_path / "steps")


def test_a_recording_that_goes_on_is_not_whole_and_is_whole_when_it_is_closed(tmp_path):
    with DumpWriter(tmp_path / "d") as made:
        for _ in range(2):
            made.write("a", np.zeros(1))
            with pytest.raises(IncompleteRecordingError):
                open_dump(tmp_path / "d")
    assert len(open_dump(tmp_path / "d").refs) == 2
    assert not (tmp_path / "d/msdump.journal").exists()


def test_a_writer_that_nobody_closed_leaves_no_whole_dump(tmp_path):
    DumpWriter(tmp_path / "d").write("a", np.zeros(1))
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")


@pytest.mark.parametrize(
    "cut", ["{", '{"file": "x.0.1.npy", "op": "x"', '{"file": 3, "op": "x"}', "\x00", "[]", "[" * 99999]
)
def test_a_torn_line_of_the_journal_is_a_note_and_the_other_lines_hold(tmp_path, cut):
    folder = killed(tmp_path / "half")
    with (folder / "msdump.journal").open("a") as journal:
        journal.write(cut)
    dump = open_dump(folder, allow_incomplete=True)
    assert "msdump.journal has 1 line that cannot be read: left out" in dump.dump.notes
    assert dump.open("net/b").dtype == "bfloat16"


def test_a_journal_without_its_manifest_is_no_whole_dump(tmp_path):
    folder = killed(tmp_path / "half")
    (folder / "msdump.json").unlink()
    with pytest.raises(IncompleteRecordingError):
        open_dump(folder)
    assert open_dump(folder, allow_incomplete=True).open("net/b").dtype == "bfloat16"


def test_a_manifest_without_its_files_is_no_whole_dump(tmp_path):
    folder = record(tmp_path / "d")
    next(folder.glob("net_c.*")).unlink()
    with pytest.raises(IncompleteRecordingError, match=r"names 1 file that is not there, e\.g\. net_c\.0\."):
        open_dump(folder)
    (note,) = open_dump(folder, allow_incomplete=True).dump.notes
    assert note.startswith("incomplete: msdump.json names 1 file")


def test_a_manifest_that_is_cut_anywhere_is_no_whole_dump(tmp_path):
    folder = record(tmp_path / "d")
    text = (folder / "msdump.json").read_bytes()
    for length in range(0, len(text), 7):
        (folder / "msdump.json").write_bytes(text[:length])
        with pytest.raises(IncompleteRecordingError):
            open_dump(folder)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_stands_in_the_place_of_a_manifest_and_is_none_says_nothing_of_a_whole_dump(tmp_path, kind):
    folder = record(tmp_path / "d")
    manifest = folder / "msdump.json"
    manifest.unlink()
    {"folder": manifest.mkdir, "pipe": lambda: os.mkfifo(manifest), "link": lambda: manifest.symlink_to("no")}[kind]()
    with pytest.raises(IncompleteRecordingError):
        open_dump(folder)


def test_a_manifest_that_is_older_than_the_word_complete_is_read(tmp_path):
    folder = record(tmp_path / "d")
    said = json.loads((folder / "msdump.json").read_text())
    del said["complete"]
    (folder / "msdump.json").write_text(json.dumps(said))
    assert open_dump(folder).open("net/b").dtype == "bfloat16"


def test_what_a_kill_leaves_behind_a_whole_manifest_is_nothing_to_tell_of(tmp_path):
    folder = record(tmp_path / "d")
    (folder / "msdump.journal").write_text('{"file": "x", "op"')
    (folder / f".{'0' * 32}.tmp").write_text("half")
    dump = open_dump(folder)
    assert (len(dump.refs), dump.dump.notes) == (3, ())


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["tensor", "journal", "manifest"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_on_a_full_disk_nothing_is_whole(tmp_path, monkeypatch, place, goes_on):
    """Whether the program takes note of the error or goes on, and whether there is room again later."""
    with suppress(MsdumpError), DumpWriter(tmp_path / "d") as made:
        made.write("a", np.zeros(1))
        with monkeypatch.context() as meanwhile:
            if place == "manifest":
                meanwhile.setattr(manifest.Path, "replace", full)
                with pytest.raises(MsdumpError, match="No space left on device"):
                    made.close()
            else:
                meanwhile.setattr(writer, "write_atomic" if place == "tensor" else "add_to_journal", full)
                with pytest.raises(MsdumpError, match="No space left on device") as caught:
                    made.write("b", np.zeros(1))
                if not goes_on:
                    raise caught.value
        if place != "manifest":
            made.write("c", np.zeros(1))
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")
    assert not list((tmp_path / "d").glob("*.tmp"))


def test_where_not_even_the_manifest_can_be_written_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest.Path, "replace", full)
    with pytest.raises(MsdumpError, match="No space left on device"):
        DumpWriter(tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


def test_a_forked_process_neither_writes_nor_ends_the_recording(tmp_path):
    folder = tmp_path / "d"
    with DumpWriter(folder) as made:
        made.write("a", np.zeros(1))
        child = os.fork()
        if not child:
            code = 1
            with suppress(BaseException):
                try:
                    made.write("b", np.zeros(1))
                except ConfigError:
                    code = 0
                made.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not read_manifest(folder)[0].complete
        made.write("c", np.zeros(1))
    assert [ref.key.op.label for ref in open_dump(folder).refs] == ["a", "c"]


@pytest.mark.parametrize("save", ["full", "sketch"])
def test_of_two_recordings_within_each_other_each_is_whole_by_itself(tmp_path, save):
    with DumpWriter(tmp_path / "outer", save=save) as outer:
        outer.write("a", np.zeros(1))
        with pytest.raises(ConfigError, match="a recording that has not ended"):
            DumpWriter(tmp_path / "outer")
        with DumpWriter(tmp_path / "inner", save=save) as inner:
            inner.write("a", np.zeros(1))
        assert len(open_dump(tmp_path / "inner").refs) == 1
        with pytest.raises(IncompleteRecordingError):
            open_dump(tmp_path / "outer")
    assert len(open_dump(tmp_path / "outer").refs) == 1


def test_a_broken_off_recording_is_not_recorded_over(tmp_path):
    killed(tmp_path / "d")
    with pytest.raises(ConfigError, match="a recording that has not ended"):
        DumpWriter(tmp_path / "d")


def test_what_each_tensor_costs_does_not_grow_with_their_number(tmp_path, monkeypatch):
    """The manifest is written twice, however many tensors there are; the journal grows by each one's own line."""
    texts, write = [], manifest.write_atomic
    monkeypatch.setattr(manifest, "write_atomic", lambda path, content: texts.append(content) or write(path, content))
    sizes = [0]
    with DumpWriter(tmp_path / "d") as made:
        for number in range(200):
            made.write(f"op{number:03d}", np.zeros(1))
            sizes.append((tmp_path / "d/msdump.journal").stat().st_size)
    assert len({new - old for old, new in pairwise(sizes)}) == 1
    assert len(texts) == 2


# -- programs that dump in ways of their own


def program(folder: Path, code: str) -> object:
    return Recorder(folder).run([sys.executable, "-c", code, "{directory}"], directory=folder / "dump", timeout=60)


SAVES = "import sys, numpy; numpy.save(sys.argv[1] + '/a.0.1700000000000000.npy', numpy.ones(3)); "


def test_of_a_program_that_ended_well_no_mark_is_left(tmp_path):
    program(tmp_path, SAVES + "import os; assert os.listdir(sys.argv[1]).count('msdump.journal') == 1")
    assert [path.suffix for path in (tmp_path / "dump").iterdir()] == [".npy"]
    assert len(open_dump(tmp_path / "dump").refs) == 1


@pytest.mark.parametrize("end", ["sys.exit(3)", "__import__('os').abort()", "__import__('os').kill(0, 9)"])
def test_what_a_program_dumped_that_failed_is_not_whole(tmp_path, end):
    with pytest.raises(ProgramError):
        program(tmp_path, SAVES + end)
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "dump")
    assert len(open_dump(tmp_path / "dump", allow_incomplete=True).refs) == 1


def test_what_a_framework_dumped_while_we_were_killed_is_not_whole(tmp_path):
    write_mindspore(tmp_path / "dump", [("A", "a", "output", 0, [1.0, 1.0])])
    (tmp_path / "dump/msdump.journal").touch()
    step = next(path.parent for path in (tmp_path / "dump").rglob("*.npy"))
    for root in (tmp_path / "dump", step):
        with pytest.raises(IncompleteRecordingError):
            open_dump(root)


def test_a_program_may_record_by_a_writer_of_its_own(tmp_path):
    writes = "import sys, numpy; from pytest_msdump.record import DumpWriter; w = DumpWriter(sys.argv[1]); "
    writes += "w.write('a', numpy.ones(3)); "
    program(tmp_path, writes + "w.close()")
    assert len(open_dump(tmp_path / "dump").refs) == 1
    shutil.rmtree(tmp_path / "dump")
    program(tmp_path, writes)
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "dump")


def test_after_a_program_that_failed_and_dumped_nothing_the_folder_can_be_used_again(tmp_path):
    with pytest.raises(ProgramError):
        program(tmp_path, "raise SystemExit(1)")
    program(tmp_path, SAVES)
    assert len(open_dump(tmp_path / "dump").refs) == 1


# -- references that are kept


KEEPS = """
import os, signal, sys
import numpy as np
from pathlib import Path
from pytest_msdump.record import DumpWriter
from pytest_msdump.capabilities.record import reference
def build(folder):
    with DumpWriter(folder) as writer:
        writer.write("a", np.ones(3))
        if sys.argv[2] == "build":
            os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "swap":
    reference._swap = lambda new, kept: (kept.rename(kept.with_name(".a.0.old")), os.kill(os.getpid(), signal.SIGKILL))
reference.keep_reference("a", build, directory=sys.argv[1], key=2)
"""


@pytest.mark.parametrize("where", ["build", "swap"])
def test_a_reference_that_was_killed_in_the_making_is_made_again_and_leaves_nothing(tmp_path, where):
    def build(folder):
        with DumpWriter(folder) as made:
            made.write("a", np.ones(3))

    keep_reference("a", build, directory=tmp_path, key=1)
    (tmp_path / "keeps.py").write_text(KEEPS)
    done = subprocess.run([sys.executable, tmp_path / "keeps.py", tmp_path, where], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.glob(".a.*")].count(".tmp") == 1
    assert len(open_dump(keep_reference("a", build, directory=tmp_path, key=2)).refs) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "keeps.py"]
