"""A reference is made once, kept while its key holds, and made by one process at a time."""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record.reference import key_digest
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.record import DumpWriter, Recorder, keep_reference


def build(folder, value=1.0, calls=None):
    if calls is not None:
        calls.append(value)
    with DumpWriter(folder, framework="numpy") as writer:
        writer.write("op", np.full(2, value))


def kept(tmp_path, key=None, value=1.0, calls=None, **options):
    # The key must not hold `calls`, which changes.
    def made(folder):
        build(folder, value, calls)

    return keep_reference("net/a", made, directory=tmp_path / "refs", key=key, **options)


@pytest.mark.parametrize("key", [{"x": np.arange(3)}, "other", 1.5])
def test_another_key_makes_it_again(tmp_path, key):
    calls = []
    kept(tmp_path, key={"x": np.arange(4)}, calls=calls)
    folder = kept(tmp_path, key=key, value=2.0, calls=calls)
    assert calls == [1.0, 2.0]
    assert open_dump(folder).read("op").tolist() == [2.0, 2.0]
    assert [path.name for path in (tmp_path / "refs").iterdir()] == ["net_a"]


def test_the_code_of_build_is_part_of_the_key(tmp_path):
    keep_reference("a", partial(build, value=1.0), directory=tmp_path)
    folder = keep_reference("a", lambda folder: build(folder, 3.0), directory=tmp_path)
    assert open_dump(folder).read("op").tolist() == [3.0, 3.0]


def test_generate_makes_it_again_once_in_a_session(tmp_path):
    calls = []
    for _ in range(3):
        kept(tmp_path, calls=calls, generate=True, mark=tmp_path / "session")
    assert calls == [1.0]
    kept(tmp_path, calls=calls, generate=True, mark=tmp_path / "next session")
    kept(tmp_path, calls=calls)
    assert calls == [1.0, 1.0]


def test_a_damaged_reference_is_made_again(tmp_path):
    calls = []
    next(kept(tmp_path, calls=calls).glob("op.*")).unlink()
    kept(tmp_path, calls=calls)
    assert len(calls) == 2


def test_a_reference_that_is_not_complete_is_made_again(tmp_path):
    calls = []
    manifest = kept(tmp_path, calls=calls) / "msdump.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    kept(tmp_path, calls=calls)
    assert len(calls) == 2


def test_what_build_raises_leaves_the_reference_before_as_it_was(tmp_path):
    folder = kept(tmp_path, key=1)

    def broken(folder):
        (folder / "half").touch()
        raise FileNotFoundError("data.bin")

    with pytest.raises(FileNotFoundError, match=r"data\.bin"):
        keep_reference("net/a", broken, directory=tmp_path / "refs", key=2)
    assert open_dump(folder).read("op").tolist() == [1.0, 1.0]
    assert [path.name for path in (tmp_path / "refs").iterdir()] == ["net_a"]


def test_without_the_framework_the_text_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    def needs(_):
        import no_such_framework  # noqa: F401

    with pytest.raises(ConfigError, match=r"there is none, and it cannot be made here: No module named 'no_such.*"):
        keep_reference("a", needs, directory=tmp_path)
    keep_reference("a", build, directory=tmp_path)
    with pytest.raises(ConfigError, match=r"of something else.*--msdump-generate"):
        keep_reference("a", needs, directory=tmp_path)
    with pytest.raises(ConfigError, match="--msdump-generate"):
        keep_reference("a", lambda folder: Recorder(folder).torch(None), directory=tmp_path)


def test_a_wrong_setting_in_build_is_not_taken_for_a_missing_framework(tmp_path):
    def wrong(_):
        raise ConfigError("no such module 'conv9'")

    with pytest.raises(ConfigError, match=r"^no such module 'conv9'$"):
        keep_reference("a", wrong, directory=tmp_path)


@pytest.mark.parametrize("how", ["nothing", "broken off"])
def test_a_build_without_a_whole_dump_is_an_error(tmp_path, how):
    def poor(folder):
        if how == "broken off":
            writer = DumpWriter(folder)
            writer._failed = True
            writer.close()

    with pytest.raises(MsdumpError, match="nothing was recorded" if how == "nothing" else "not complete"):
        keep_reference("a", poor, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_dumps_of_a_frameworks_own_are_kept_too(tmp_path):
    calls = []

    def foreign(folder):
        calls.append(1)
        np.save(folder / "op.0.1700000000000000.npy", np.ones(2))

    for _ in range(2):
        folder = keep_reference("a", foreign, directory=tmp_path)
    assert calls == [1]
    dump = open_dump(folder).dump
    assert (len(dump.refs), dump.unexplained, dump.notes) == (1, (), ())


def _ask(directory, counter, ready):
    ready.wait()

    def slow(folder):
        with counter.open("a") as file:
            file.write("made\n")
        build(folder)

    keep_reference("a", slow, directory=directory)


@pytest.mark.e2e
def test_of_several_processes_one_makes_it(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(4)
    workers = [
        context.Process(target=_ask, args=(tmp_path / "refs", tmp_path / "count", ready), daemon=True) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert (tmp_path / "count").read_text() == "made\n"
    assert [path.name for path in (tmp_path / "refs").iterdir()] == ["a"]


@dataclass
class Config:
    layers: int


def test_a_reference_of_sketches_is_made_again_in_another_size(tmp_path):
    def shape():
        (name,) = np.load(tmp_path / "refs/net_a/tensors.npz").files
        return np.load(tmp_path / "refs/net_a/tensors.npz")[name].shape

    def made(folder):
        calls.append(folder)
        with DumpWriter(folder) as writer:
            writer.write("op", np.arange(20_000.0))

    calls = []
    for buckets, count in ((1024, 1), (4096, 2), (4096, 2), (1024, 3)):
        options = {"directory": tmp_path / "refs", "key": "x", "save": "sketch", "buckets": buckets}
        keep_reference("net/a", made, **options)
        assert (shape(), len(calls)) == ((buckets,), count)
    with pytest.raises(ConfigError, match="buckets is 2048; known: 1024, 4096"):
        keep_reference("net/a", build, directory=tmp_path / "refs", save="sketch", buckets=2048)


def test_keys_differ_where_their_values_do(tmp_path):
    (tmp_path / "f").write_text("1")
    (tmp_path / "g").write_text("2")
    values = [
        None, 0, 0.0, False, "0", b"0", [], {}, [0], (0, 0), {"a": 0}, {"a": 1}, np.zeros(2), np.zeros(3),
        np.zeros(2, "f4"), tmp_path, tmp_path / "f", tmp_path / "g", build, kept, Config(1), Config(2), Path,
        np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2),
    ]  # fmt: skip
    assert len({key_digest(value) for value in values}) == len(values)


def test_keys_are_the_same_on_every_machine():
    assert key_digest(None, 1, 2.5, "é", b"\0", [np.float64(2.5)]) == "8dac535d27b21afd9e9d88cf6bb8ea2e"
    assert key_digest(np.arange(3, dtype=">i4")) == key_digest(np.arange(3, dtype="<i4"))


def test_a_key_that_cannot_be_told_is_refused():
    with pytest.raises(ConfigError, match="holds a object, whose content is unknown"):
        key_digest(object())
    with pytest.raises(ConfigError, match="cannot be read"):
        key_digest(Path("/no/such/file"))


def test_comments_and_empty_lines_are_no_code():
    def one(x):
        return x + 1

    first = key_digest(one)

    def one(x):  # the same

        # with a comment
        return x + 1

    assert key_digest(one) != first  # a comment behind code stays: telling it from a text needs a parser

    def one(x):

        # with a comment
        return x + 1

    assert key_digest(one) == first
