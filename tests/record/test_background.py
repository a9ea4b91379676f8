"""What is written beside the model: in order, within bounds, and with its errors where they belong."""

import os
import threading
from contextlib import suppress

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record import recording, writer
from pytest_msdump.capabilities.record.recording import Background, HookedRecording
from pytest_msdump.core.errors import IncompleteRecordingError, MsdumpError


@pytest.fixture
def beside():
    made = Background()
    yield made
    made.close()


class Arrays(HookedRecording):
    """A recording of arrays that a test gives it."""

    title = "arrays"
    FRAMEWORKS = ("pytest",)
    NOT_CALLED = NO_GRADIENTS = "nothing came"

    def array_of(self, tensor):
        return tensor


def test_a_caller_waits_where_too_many_bytes_would(beside, monkeypatch):
    monkeypatch.setattr(recording, "_MOST_BYTES", 100)
    may_go_on, begun = threading.Event(), []
    beside.do(60, may_go_on.wait)

    def give():
        beside.do(60, begun.append, 1)
        begun.append(2)

    caller = threading.Thread(target=give)
    caller.start()
    caller.join(0.2)
    assert caller.is_alive()
    assert begun == []
    may_go_on.set()
    caller.join(10)
    assert 2 in begun


def test_an_error_is_raised_once_and_what_waits_is_dropped(beside):
    may_go_on, done = threading.Event(), []

    def fails():
        may_go_on.wait()
        raise MsdumpError("no room")

    beside.do(1, fails)
    beside.do(1, done.append, 1)
    may_go_on.set()
    with pytest.raises(MsdumpError, match="no room"):
        beside.wait()
    beside.do(1, done.append, 2)
    beside.wait()
    assert done in ([2], [1, 2])


@pytest.mark.e2e
def test_a_forked_process_waits_for_no_thread_that_it_has_not():
    made = Background()
    made.do(1, lambda: None)
    child = os.fork()
    if not child:
        done = []
        made.do(10**12, done.append, 1)
        made.wait()
        made.close()
        os._exit(0 if done == [1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    made.close()


def test_what_a_model_changes_afterwards_is_recorded_as_it_was(tmp_path, monkeypatch):
    may_go_on, write = threading.Event(), writer.DumpWriter.write
    monkeypatch.setattr(writer.DumpWriter, "write", lambda *given, **named: may_go_on.wait() and write(*given, **named))
    tensor = np.ones(3, "float32")
    with Arrays(tmp_path / "d") as recording:
        recording.write_all("relu", [tensor], "output", "ReLU")
        tensor[:] = 7
        may_go_on.set()
    np.testing.assert_array_equal(open_dump(tmp_path / "d").read("relu"), [1, 1, 1])


def test_an_error_of_the_model_leaves_no_thread_no_file_and_nothing_that_is_believed(tmp_path):
    before = threading.active_count()
    for save in ("full", "sketch"):
        with suppress(ZeroDivisionError), Arrays(tmp_path / save, save=save) as recording:
            recording.write_all("a", [np.ones(2**18)], "output", "A")
            raise ZeroDivisionError
        with pytest.raises(IncompleteRecordingError):
            open_dump(tmp_path / save)
    assert threading.active_count() == before
    assert sorted(path.name for path in (tmp_path / "sketch").iterdir()) == ["msdump.json", "tensors.npz"]
    [kept] = {path.name for path in (tmp_path / "full").iterdir()} - {"msdump.json"}
    assert kept.endswith(".npy")


def test_of_two_recordings_within_each_other_each_is_whole(tmp_path):
    before = threading.active_count()
    with Arrays(tmp_path / "outer") as outer, Arrays(tmp_path / "inner", save="sketch") as inner:
        for number in range(20):
            for recording in (outer, inner):
                recording.write_all(f"op{number}", [np.full(9000, number)], "output", "A")
    assert threading.active_count() == before
    for folder in ("outer", "inner"):
        assert len(open_dump(tmp_path / folder).refs) == 20


def full(*_):
    raise OSError(28, "No space left on device")


def test_what_cannot_be_written_is_raised_at_the_end_of_its_iteration(tmp_path, monkeypatch):
    with suppress(ZeroDivisionError), Arrays(tmp_path / "d", iterations=True) as recording:
        recording.write_all("a", [np.ones(3)], "output", "A")
        recording.step()
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(writer, "write_atomic", full)
            recording.write_all("b", [np.ones(3)], "output", "B")
            with pytest.raises(MsdumpError, match="No space left on device"):
                recording.step()
        raise ZeroDivisionError
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")


def test_what_cannot_be_written_at_last_is_raised_at_the_end(tmp_path, monkeypatch):
    def record():
        with Arrays(tmp_path / "d") as recording:
            monkeypatch.setattr(writer, "write_atomic", full)
            recording.write_all("b", [np.ones(3)], "output", "B")

    with pytest.raises(MsdumpError, match="No space left on device"):
        record()
    assert not [one for one in threading.enumerate() if one.name.startswith("msdump")]
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")
