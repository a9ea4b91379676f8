"""Recordings of sketches, by numpy: what is in them, what is refused, and what a dump of any format becomes."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record import sketching
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError, IncompleteRecordingError
from pytest_msdump.record import DumpWriter, RawArray

LARGE = np.random.default_rng(0).standard_normal((8, 40, 25)).astype("f4")
SMALL = np.arange(12, dtype="f4").reshape(3, 4)


def recorded(folder, *, large=LARGE, **options):
    with DumpWriter(folder, save="sketch", framework="numpy", **options) as writer:
        writer.write("conv1", large, op_type="Conv2d", line="net.py:7")
        writer.write("fc", SMALL, slot=1)
    return folder


def entries(folder):
    return json.loads((folder / "msdump.json").read_text("utf-8"))["tensors"]


def compared(capsys, *arguments):
    code = main(["compare", *map(str, arguments)])
    return code, " ".join(capsys.readouterr().out.split())


def test_a_large_tensor_is_a_sketch_with_its_statistics_and_a_small_one_is_whole(tmp_path):
    folder = recorded(tmp_path / "d")
    assert sorted(path.name for path in folder.iterdir()) == ["msdump.json", "tensors.npz"]
    kept, (conv1, fc) = np.load(folder / "tensors.npz"), sorted(entries(folder))
    assert (kept[conv1[:-4]].dtype.str, kept[conv1[:-4]].shape) == ("<f8", (1044,))
    np.testing.assert_array_equal(kept[fc[:-4]], SMALL)
    assert entries(folder)[fc] == {"op": "fc", "slot": 1}
    said = entries(folder)[conv1]
    assert (said["dtype"], said["shape"], said["line"]) == ("float32", [8, 40, 25], "net.py:7")
    exact = LARGE.astype("f8")
    assert said["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-14)
    found = said["statistics"]
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-9)
    assert (found["count"], found["maximum"], found["minimum"]) == (8000, exact.max(), exact.min())
    # Its norm is near that of the tensor, which is all that a sketch promises.
    assert np.linalg.norm(kept[conv1[:-4]][:1024]) == pytest.approx(said["norm"], rel=0.15)
    # Behind it are the norms of the forty slices.
    norms = kept[conv1[:-4]][1024:].view("<f4") * said["norm"]
    np.testing.assert_allclose(norms, np.sqrt((exact**2).sum(axis=(0, 2))), rtol=1e-6)


def test_a_small_difference_in_a_large_tensor_is_seen_and_none_is_not(tmp_path, capsys):
    recorded(tmp_path / "right")
    recorded(tmp_path / "same")
    recorded(tmp_path / "wrong", large=np.roll(LARGE, 1, axis=0))
    code, text = compared(capsys, tmp_path / "same", tmp_path / "right")
    assert (code, "2 tensors: 2 pass" in text) == (0, True)
    code, text = compared(capsys, tmp_path / "wrong", tmp_path / "right")
    assert (code, "2 tensors: 1 pass, 1 fail" in text) == (1, True)
    # With the tensors themselves on the other side, too.
    with DumpWriter(tmp_path / "full") as writer:
        writer.write("conv1", LARGE)
        writer.write("fc", SMALL, slot=1)
    assert compared(capsys, tmp_path / "full", tmp_path / "right")[0] == 0
    assert compared(capsys, tmp_path / "wrong", tmp_path / "full")[0] == 1


def test_types_that_numpy_lacks_are_sketched_by_their_values(tmp_path):
    bits = (LARGE.view("u4") >> 16).astype("u2")
    with DumpWriter(tmp_path / "d", save="sketch") as writer:
        writer.write("a", RawArray(bits, LARGE.shape, "bfloat16"))
    (entry,) = entries(tmp_path / "d").values()
    values = (bits.astype("u4") << 16).view("f4").astype("f8")
    assert entry["dtype"] == "bfloat16"
    assert entry["norm"] == pytest.approx(np.linalg.norm(values), rel=1e-12)


def test_what_is_not_finite_is_counted_and_compared(tmp_path, capsys):
    holes = LARGE.copy()
    holes.flat[[3, 4]] = np.nan, np.inf
    recorded(tmp_path / "left", large=holes)
    recorded(tmp_path / "right")
    (name,) = [name for name in entries(tmp_path / "left") if name.startswith("conv1")]
    found = entries(tmp_path / "left")[name]["statistics"]
    assert (found["nan_count"], found["positive_inf_count"], found["l2_norm"]) == (1, 1, "nan")
    assert compared(capsys, tmp_path / "left", tmp_path / "right")[0] == 1


def test_equal_tensors_are_sketched_once_and_those_that_only_look_alike_are_not(tmp_path, monkeypatch):
    made, other = [], LARGE.copy()
    # None of the elements by which equal tensors are sought.
    other.flat[77] += 1
    blocks = sketching.sketch_blocks
    monkeypatch.setattr(sketching, "sketch_blocks", lambda *given, **named: made.append(1) or blocks(*given, **named))
    tensors = {"relu": LARGE, "block": LARGE.copy(), "other": other, "half": LARGE.astype("float16"), "again": other}
    with DumpWriter(tmp_path / "d", save="sketch") as writer:
        for name, array in tensors.items():
            writer.write(name, array)
    assert len(made) == 3
    found = {said["op"]: said for said in entries(tmp_path / "d").values()}
    assert [*found] == [*tensors]
    for name, array in tensors.items():
        exact = array.astype("f8")
        assert (found[name]["dtype"], found[name]["shape"]) == (str(array.dtype), [8, 40, 25])
        assert found[name]["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-13)
        assert found[name]["statistics"]["mean"] == pytest.approx(exact.mean(), rel=1e-9)
    members = [name.split(".")[0] for name in np.load(tmp_path / "d/tensors.npz").files]
    assert members == ["relu", "other", "half"]
    assert found["again"]["member"].startswith("other.0.")


def test_equal_tensors_share_a_member_and_are_compared_each_by_itself(tmp_path, capsys):
    for folder, arrays in {"left": (LARGE, -LARGE, LARGE), "right": (LARGE, LARGE, LARGE)}.items():
        with DumpWriter(tmp_path / folder, save="sketch", iterations=True) as writer:
            for step, array in enumerate(arrays):
                writer.write("a", array, iteration=step)
                writer.write("a/grad", array, iteration=step)
    assert [len(np.load(tmp_path / folder / "tensors.npz").files) for folder in ("left", "right")] == [2, 1]
    dump = open_dump(tmp_path / "right")
    assert [(ref.key.op.name, ref.key.op.at.iteration) for ref in dump.refs] == [
        (name, step) for step in range(3) for name in ("a", "a_grad")
    ]
    code, text = compared(capsys, tmp_path / "left", tmp_path / "right")
    assert (code, "6 tensors: 4 pass, 2 fail" in text) == (1, True)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"member": "gone.0.1700000000000000.npy"}, 4),
        ({"member": "../../left/tensors.npz"}, 4),
        ({"member": 7}, 4),
        ({"member": "x" * 5000}, 4),
        ({"norm": None}, 4),
        ({"member": "small"}, 1),
        ({"member": "itself"}, 4),
    ],
)
def test_a_manifest_that_names_a_member_of_something_else_is_an_error(tmp_path, capsys, change, code):
    for folder in ("left", "right"):
        with DumpWriter(tmp_path / folder, save="sketch") as writer:
            for name, array in {"a": LARGE, "b": LARGE, "small": SMALL}.items():
                writer.write(name, array)
    manifest = json.loads((tmp_path / "left/msdump.json").read_text("utf-8"))
    files = {said["op"]: name for name, said in manifest["tensors"].items()}
    known = {"small": files["small"], "itself": files["b"]}
    manifest["tensors"][files["b"]] |= {name: known.get(value, value) for name, value in change.items()}
    (tmp_path / "left/msdump.json").write_text(json.dumps(manifest), "utf-8")
    assert compared(capsys, tmp_path / "left", tmp_path / "right")[0] == code


def test_another_way_to_save_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"save is 'sketches'.*sketch"):
        DumpWriter(tmp_path / "d", save="sketches")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("way", ["recorded", "sketched"])
def test_sketches_of_4096_buckets_are_compared_with_each_other_and_with_tensors(tmp_path, capsys, way):
    large = np.random.default_rng(1).standard_normal((4, 5000)).astype("f4")
    for name, array in {"right": large, "same": large, "wrong": np.roll(large, 1)}.items():
        if way == "recorded":
            recorded(tmp_path / name, large=array, buckets=4096)
        else:
            with DumpWriter(tmp_path / f"full-{name}") as writer:
                writer.write("conv1", array)
                writer.write("fc", SMALL, slot=1)
            arguments = [str(tmp_path / f"full-{name}"), "-o", str(tmp_path / name), "--buckets", "4096"]
            assert main(["sketch", *arguments]) == 0
    kept = np.load(tmp_path / "right/tensors.npz")
    assert kept[min(kept.files)].shape == (4096,)
    # Six of its deviations, which are a half of those of 1,024 buckets.
    assert np.linalg.norm(kept[min(kept.files)]) == pytest.approx(np.linalg.norm(large.astype("f8")), rel=0.066)
    with DumpWriter(tmp_path / "tensors") as writer:
        writer.write("conv1", large)
        writer.write("fc", SMALL, slot=1)
    assert compared(capsys, tmp_path / "same", tmp_path / "right")[0] == 0
    assert compared(capsys, tmp_path / "wrong", tmp_path / "right")[0] == 1
    assert compared(capsys, tmp_path / "tensors", tmp_path / "right")[0] == 0
    # As small as this one, a tensor is kept as it is.
    recorded(tmp_path / "whole", buckets=4096)
    whole = np.load(tmp_path / "whole/tensors.npz")
    np.testing.assert_array_equal(whole[min(whole.files)], LARGE)


def test_sketches_of_two_sizes_say_nothing_of_each_other(tmp_path, capsys):
    large = np.random.default_rng(1).standard_normal(20_000)
    recorded(tmp_path / "left", large=large)
    recorded(tmp_path / "right", large=-large, buckets=4096)
    assert (
        "sketches of 1024 and 4096 buckets cannot be compared"
        in compared(capsys, tmp_path / "left", tmp_path / "right")[1]
    )


# -- recordings that did not end

KILLED = """
import os, signal, sys
import numpy as np
from pytest_msdump.record import DumpWriter
with DumpWriter(sys.argv[1], save="sketch") as writer:
    writer.write("a", np.ones(9000, "float32"))
    os.kill(os.getpid(), signal.SIGKILL)
"""
# No file may be larger than so many bytes.
FULL = """
import resource, signal, sys
import numpy as np
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.record import DumpWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    with DumpWriter(sys.argv[1], save="sketch") as writer:
        for number in range(3):
            writer.write(f"a{number}", np.full(9000, number, "float32"))
except MsdumpError as error:
    print(error)
    sys.exit(3)
"""


def program(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], check=False, capture_output=True, text=True
    )


@pytest.mark.e2e
def test_one_that_is_killed_is_not_whole(tmp_path, capsys):
    assert program(KILLED, tmp_path / "d").returncode == -signal.SIGKILL
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")
    assert main(["compare", str(tmp_path / "d"), str(tmp_path / "d")]) == 4
    assert "the recording has not ended" in capsys.readouterr().err


@pytest.mark.e2e
@pytest.mark.parametrize("room", [4096, 12000, 25200])
def test_on_a_full_disk_the_error_is_said_and_nothing_is_whole(tmp_path, room):
    done = program(FULL, tmp_path / "d", room)
    assert (done.returncode, done.stderr) == (3, "")
    assert "cannot be written" in done.stdout
    assert "File too large" in done.stdout
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")


def test_an_error_of_the_model_leaves_none_that_is_whole(tmp_path):
    with suppress(ZeroDivisionError), DumpWriter(tmp_path / "d", save="sketch") as writer:
        writer.write("a", LARGE)
        raise ZeroDivisionError
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "d")


@pytest.mark.e2e
def test_a_forked_process_that_ends_leaves_the_archive_as_it_is(tmp_path):
    with DumpWriter(tmp_path / "d", save="sketch") as writer:
        writer.write("a", LARGE)
        child = os.fork()
        if not child:
            # What the interpreter does with an object when a process ends.
            writer._archive.__del__()
            writer.close()
            os._exit(0)
        os.waitpid(child, 0)
        writer.write("b", LARGE + 1)
    assert len(np.load(tmp_path / "d/tensors.npz").files) == 2


@pytest.mark.e2e
def test_a_forked_process_that_ends_waits_for_no_thread_that_it_has_not(tmp_path):
    held, may_go_on = threading.Event(), threading.Event()
    with DumpWriter(tmp_path / "d", save="sketch") as writer:

        def write():
            with writer._lock:
                held.set()
                may_go_on.wait()

        thread = threading.Thread(target=write)
        thread.start()
        held.wait()
        child = os.fork()
        if not child:
            signal.alarm(20)
            writer.close()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        may_go_on.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0
        writer.write("a", LARGE)
    assert len(open_dump(tmp_path / "d").refs) == 1


# -- dumps of any format as sketches


def test_a_dump_of_mindspore_becomes_sketches_that_agree_with_it(tmp_path, capsys):
    write_mindspore(tmp_path / "run", [("Conv2D", "conv1", "output", 0, LARGE), ("ReLU", "relu", "output", 0, SMALL)])
    assert main(["sketch", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 0
    assert "2 tensors in " in capsys.readouterr().out
    sketched = open_dump(tmp_path / "out")
    assert [ref.key.op.label for ref in sketched.refs] == [ref.key.op.label for ref in open_dump(tmp_path / "run").refs]
    assert compared(capsys, tmp_path / "run", tmp_path / "out")[0] == 0
    assert compared(capsys, tmp_path / "out", tmp_path / "run")[0] == 0


def test_a_folder_that_is_not_empty_is_refused(tmp_path, capsys):
    write_reference(tmp_path / "run", {"conv1": LARGE})
    assert main(["sketch", str(tmp_path / "run"), "-o", str(tmp_path / "run")]) == 4
    assert "is not empty" in capsys.readouterr().err


def test_sketches_are_not_sketched_again(tmp_path, capsys):
    recorded(tmp_path / "d")
    assert main(["sketch", str(tmp_path / "d"), "-o", str(tmp_path / "out")]) == 4
    assert "was not saved, so there is nothing to sketch" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dump_with_a_damaged_tensor_leaves_no_whole_sketches(tmp_path, capsys):
    write_reference(tmp_path / "run", {"conv1": LARGE, "conv2": LARGE})
    (path,) = (tmp_path / "run").glob("conv2.*")
    path.write_bytes(path.read_bytes()[:-100])
    assert main(["sketch", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 1
    assert "conv2" in capsys.readouterr().err
    with pytest.raises(IncompleteRecordingError):
        open_dump(tmp_path / "out")


# -- inputs that an operator gave back


def test_an_input_that_an_operator_gave_back_is_written_once(tmp_path):
    other = LARGE.copy()
    other.flat[77] += 1
    with DumpWriter(tmp_path / "d") as writer:
        relu = writer.write("relu", LARGE)
        same = writer.write("conv2", LARGE.copy(), io="input")
        differs = writer.write("conv2", other, io="input", slot=1)
        again = writer.write("conv2", LARGE)
    assert same.samefile(relu)
    assert not differs.samefile(relu)
    # An output has a file of its own: people change one and look what happens.
    assert not again.samefile(relu)
    for path, array in ((same, LARGE), (differs, other), (again, LARGE)):
        np.testing.assert_array_equal(np.load(path), array)


def test_where_a_file_cannot_have_two_names_it_is_written_twice(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refused)
    with DumpWriter(tmp_path / "d") as writer:
        relu = writer.write("relu", LARGE)
        same = writer.write("conv2", LARGE, io="input")
    assert not same.samefile(relu)
    np.testing.assert_array_equal(np.load(same), LARGE)
