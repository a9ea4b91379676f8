"""Records of earlier runs: used when nothing that they depend on has changed, and never otherwise."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from scheduling.dumps import LARGE, as_written, before_each_pair, file_of, interrupt_at, results, write_pairs

from pytest_msdump.capabilities.cache import cache as cache_module
from pytest_msdump.capabilities.cache.cache import CacheFile, Stamp, state_of
from pytest_msdump.cli import main
from pytest_msdump.core.model.comparison import Verdict
from pytest_msdump.core.model.record import Record, ReportedTensor
from pytest_msdump.core.report.record_json import to_text
from pytest_msdump.core.suite import load_suite

SIZES = [12, LARGE, 30, 7]
# For processes of their own, which do not go by the times of files of the last seconds either.
OLD_ENOUGH = "import pytest_msdump.capabilities.cache.cache\npytest_msdump.capabilities.cache.cache._RACY_SECONDS = 0\n"


@pytest.fixture
def measured(monkeypatch):
    """The operators that were measured, in order."""
    names: list[str] = []
    before_each_pair(monkeypatch, names.append)
    return names


@pytest.fixture
def dumps(tmp_path, monkeypatch):
    """Two dumps in the current folder, old enough to be trusted; the second operator drifts."""
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    write_pairs(tmp_path, SIZES, drifting=(1,))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def compare(dumps, measured, capsys):  # noqa: ARG001 - in the folder of the dumps
    """Compare with a cache: exit code, what was measured, what was printed."""

    def run(*arguments, cache="files"):
        measured.clear()
        capsys.readouterr()
        code = main(["compare", "left", "right", "--cache", cache, *arguments])
        return code, list(measured), capsys.readouterr().out

    return run


ALL = [f"op{number}" for number in range(len(SIZES))]


def test_a_second_run_measures_nothing_and_says_the_same(compare, dumps):
    code, names, first = compare("--spread", "all")
    assert (code, names) == (1, ALL)
    assert "cache: 0 of 4 pairs from earlier runs" in first
    tensors = results(dumps)["tensors"]
    code, names, second = compare("--spread", "all")
    assert (code, names) == (1, [])
    assert second == first.replace("cache: 0 of 4", "cache: 4 of 4")
    assert results(dumps)["tensors"] == tensors
    assert results(dumps)["notes"] == ["cache: 4 of 4 pairs from earlier runs"]


def test_without_asking_nothing_is_kept(compare, dumps):
    assert compare(cache="off")[1] == ALL
    assert not (dumps / ".msdump-cache").exists()


def test_what_is_kept_is_no_business_of_version_control(compare, dumps):
    compare()
    assert (dumps / ".msdump-cache" / ".gitignore").read_text() == "*\n"


def touched(dumps):
    os.utime(file_of(dumps / "left", "op2"))


def rewritten_with_its_old_times(dumps):
    file = file_of(dumps / "left", "op2")
    state, values = file.stat(), np.load(file)
    np.save(file, values * 2)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)


def replaced_with_its_old_times(dumps):
    file = file_of(dumps / "right", "op2")
    state, values = file.stat(), np.load(file)
    np.save(dumps / "other.npy", values * 2)
    os.utime(dumps / "other.npy", ns=(state.st_atime_ns, state.st_mtime_ns))
    (dumps / "other.npy").replace(file)


@pytest.mark.parametrize("change", [touched, rewritten_with_its_old_times, replaced_with_its_old_times])
def test_a_file_that_changed_is_measured_again_and_no_other(compare, dumps, change):
    compare()
    change(dumps)
    code, names, out = compare()
    assert names == ["op2"]
    assert "cache: 3 of 4 pairs from earlier runs" in out
    verdict = {record["left"]["name"]: record["verdict"] for record in results(dumps)["tensors"]}["op2"]
    assert verdict == ("pass" if change is touched else "fail")
    assert code == 1


def test_by_content_a_touched_file_is_the_same_and_a_changed_one_is_not(compare, dumps):
    assert compare(cache="content")[1] == ALL
    touched(dumps)
    assert compare(cache="content")[1] == []
    rewritten_with_its_old_times(dumps)
    assert compare(cache="content")[1] == ["op2"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--threshold", "cosine=0.9999"),
        ("--profile", "strict"),
        ("--spread", "failing"),
        ("--io", "all", "--profile", "torch"),
    ],
)
def test_other_limits_are_another_comparison(compare, arguments):
    compare()
    assert compare(*arguments)[1] == ALL
    assert compare(*arguments)[1] == []
    assert compare()[1] == []


def test_rules_and_days_of_a_suite_file_count(compare, dumps, monkeypatch):
    import datetime

    file = dumps / "msdump.toml"
    text = "[[msdump.rule]]\nmatch = 'op0'\nmax_absolute_error = 1e-3\n"
    drift = "[[msdump.known_drift]]\nmatch = 'op1'\nreason = 'r'\nuntil = 2999-01-01\nmax_relative_error = 1.0\n"
    file.write_text(f"[msdump]\n{text}")
    assert compare("--config", "msdump.toml")[1] == ALL
    file.write_text(f"[msdump]\n{text.replace('1e-3', '1e-4')}")
    assert compare("--config", "msdump.toml")[1] == ALL
    file.write_text(f"[msdump]\n{text}{drift}")
    assert compare("--config", "msdump.toml")[1] == ALL
    assert compare("--config", "msdump.toml")[1] == []

    class Tomorrow(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + datetime.timedelta(days=1)

    monkeypatch.setattr(cache_module.datetime, "datetime", Tomorrow)
    assert compare("--config", "msdump.toml")[1] == ALL


@pytest.mark.parametrize("field", ["version", "code", "numpy", "kernel"])
def test_another_program_is_another_comparison(compare, monkeypatch, field):
    compare()
    other = dict.fromkeys(("version", "code", "numpy", "kernel"), "0") | {field: "1"}
    monkeypatch.setattr(cache_module, "stamp", lambda: Stamp("0", "0", "0", "0"))
    assert compare()[1] == ALL
    monkeypatch.setattr(cache_module, "stamp", lambda: Stamp(**other))
    assert compare()[1] == ALL


def test_code_of_a_user_counts_by_its_content(compare, dumps):
    folder = dumps / "mine" / "algorithm"
    folder.mkdir(parents=True)
    (folder / "alg_mine.py").write_text("def compare(left, right, args): return '1', ''\n")
    assert compare("-custom", "mine")[1] == ALL
    assert compare("-custom", "mine")[1] == []
    (folder / "alg_mine.py").write_text("def compare(left, right, args): return '2', ''\n")
    assert compare("-custom", "mine")[1] == ALL
    assert results(dumps)["tensors"][0]["custom"]["mine"]["value"] == "2"


@pytest.fixture
def by_a_map(compare, dumps):
    """Compare, change a file by a second store through a memory map, which its times do not tell, and compare again."""

    def run():
        values = np.load(file_of(dumps / "left", "op2"), mmap_mode="r+")
        values[0] = values[0]
        first, before = compare(), state_of(file_of(dumps / "left", "op2"))
        values[0] += 1
        if state_of(file_of(dumps / "left", "op2")) != before:
            pytest.skip("this file system told of the second store")
        return first, compare()

    return run


def test_a_change_through_a_memory_map_is_seen_in_a_young_file(by_a_map, monkeypatch):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 3600)
    (_, first, _), (_, second, out) = by_a_map()
    assert (first, second) == (ALL, ["op2"])
    assert "cache: 3 of 4 pairs from earlier runs" in out


@pytest.mark.parametrize("seconds", [7200, -7200], ids=["behind", "ahead"])
def test_a_young_file_is_known_where_the_file_system_has_another_clock(by_a_map, monkeypatch, seconds):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 3)
    now = time.time_ns
    monkeypatch.setattr(cache_module.time, "time_ns", lambda: now() + seconds * 10**9)
    assert by_a_map()[1][1] == ["op2"]


def test_an_old_file_is_known_by_its_times_alone(compare, monkeypatch):
    read = []
    monkeypatch.setattr(cache_module, "_content", lambda path: read.append(path) or b"")
    assert compare()[1] == ALL
    assert compare()[1] == []
    assert read == []


def test_a_file_that_changes_while_it_is_measured_is_not_kept(compare, dumps, monkeypatch):
    file = file_of(dumps / "left", "op2")
    content = file.read_bytes()
    with monkeypatch.context() as meanwhile:
        before_each_pair(meanwhile, lambda _: np.save(file, np.load(file) * 2))
        assert compare("--select", "op2", cache="content")[0] == 1
    file.write_bytes(content)
    code, _, out = compare("--select", "op2", cache="content")
    assert code == 0
    assert "cache: 0 of 1 pair from earlier runs" in out


def test_errors_of_reading_are_never_kept(compare, dumps):
    file_of(dumps / "left", "op3").write_bytes(b"no array")
    compare()
    assert compare()[1] == ["op3"]
    shutil.copy(file_of(dumps / "right", "op3"), file_of(dumps / "left", "op3"))
    assert compare()[1] == ["op3"]


@pytest.mark.parametrize("damage", ["cut", "number", "title", "garbage", "json", "empty"])
def test_a_damaged_cache_is_measured_again_and_noted(compare, dumps, damage):
    compare()
    alone = results(dumps)["tensors"]
    (file,) = (dumps / ".msdump-cache").glob("*.comparisons")
    content = file.read_bytes()
    changes = {
        "cut": content[:-200],
        "number": content.replace(b'"verdict": "fail"', b'"verdict": "pass"'),
        "title": content.replace(b"comparisons 1", b"comparisons 2"),
        "garbage": content + b"\xff" * 500,
        "json": content.replace(b'{"order"', b'["order"'),
        "empty": b"",
    }
    assert changes[damage] != content
    file.write_bytes(changes[damage])
    code, names, out = compare()
    assert code == 1
    assert results(dumps)["tensors"] == alone
    assert "is damaged" in out
    assert (names == []) == (damage == "garbage")
    assert "is damaged" not in compare()[2]


def test_a_cache_that_cannot_be_written_is_said_and_harms_nothing(compare, dumps):
    (dumps / ".msdump-cache").write_text("a file")
    code, names, out = compare()
    assert (code, names) == (1, ALL)
    assert "the next run measures again" in out


def test_a_full_disk_is_said_with_the_folder(compare, dumps, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(CacheFile, "_write", full)
    assert compare()[:2] == (1, ALL)
    folder = dumps / ".msdump-cache"
    problem = f"cache: {folder}: cannot be written (No space left on device); the next run measures again"
    assert problem in results(dumps)["notes"]


def flip_a_byte(folder):
    """Damage the record of one pair in a way that only who reads it finds."""
    (file,) = folder.glob("*.comparisons")
    content = bytearray(file.read_bytes())
    content[content.rindex(b'"verdict"') + 1] ^= 1
    file.write_bytes(content)


@pytest.mark.e2e
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_who_finds_a_damaged_line_makes_no_difference(dumps, jobs):
    def notes():
        words = ["compare", "left", "right", "--cache", "content", "--jobs", jobs]
        subprocess.run([sys.executable, "-m", "pytest_msdump", *words], cwd=dumps, check=False, capture_output=True)
        return results(dumps)["notes"]

    notes()
    alone = results(dumps)["tensors"]
    flip_a_byte(dumps / ".msdump-cache")
    told, damaged = notes()
    assert told == "cache: 3 of 4 pairs from earlier runs"
    assert "is damaged" in damaged
    assert results(dumps)["tensors"] == alone
    assert notes() == ["cache: 4 of 4 pairs from earlier runs"]


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_a_damaged_line_is_told_by_pytest_and_written_anew(pytester, monkeypatch, workers):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    write_pairs(pytester.path, [8, 9])
    pytester.makeconftest(OLD_ENOUGH)
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-cache=files", *workers)
    pytester.runpytest_inprocess(*arguments)
    flip_a_byte(pytester.path / ".pytest_cache" / "d" / "msdump")
    pytester.runpytest_inprocess(*arguments)
    told, damaged = results(pytester.path)["notes"]
    assert told == "cache: 1 of 2 pairs from earlier runs"
    assert "is damaged" in damaged
    pytester.runpytest_inprocess(*arguments)
    assert results(pytester.path)["notes"] == ["cache: 2 of 2 pairs from earlier runs"]


def test_under_ci_only_who_types_it_has_a_cache(tmp_path):
    file = tmp_path / "msdump.toml"
    file.write_text("[msdump]\nleft = 'left'\nright = 'right'\ncache = 'files'\n")

    def said(environ, **options):
        return load_suite(file=file, options=options, directory=tmp_path, environ=environ).options["cache"]

    assert said({}) == "files"
    assert said({"CI": "true"}) == "off"
    assert said({"CI": "true"}, cache="content") == "content"


def test_an_interrupted_run_keeps_what_it_has(compare, monkeypatch):
    with monkeypatch.context() as meanwhile:
        before_each_pair(meanwhile, interrupt_at("op2"))
        assert compare()[0] == 2
    assert "cache: 2 of 4 pairs from earlier runs" in compare()[2]


def record(note: str, order: int = 0) -> Record:
    tensor = ReportedTensor("a:output:0", "a.npy")
    return Record(order, tensor, tensor, Verdict("error"), "name", by=note)


def test_what_is_no_record_is_not_there_although_its_digest_is_right(tmp_path):
    """The digest finds damage; a line that someone wrote has a digest as well."""
    key = "0" * 32
    CacheFile(tmp_path, "file").keep({key: record("")})
    file = tmp_path / "file.comparisons"
    title, line = file.read_bytes().splitlines()
    for text in (b"{}", b"[]", b"3", b"[" * 100_000, line[66:].replace(b'"a.npy"', b"7")):
        digest = hashlib.sha256(text).hexdigest()[:32].encode("ascii")
        file.write_bytes(b"\n".join([title, b" ".join([key.encode("ascii"), digest, text]), b""]))
        found = CacheFile(tmp_path, "file")
        assert found.get(key) is None
        assert "is damaged" in found.note


def test_size_is_bounded_and_what_was_used_last_stays(tmp_path):
    # Lines of 1,100 bytes, five of which fit.
    plain = record("")
    text = "x" * (1030 - len(to_text(plain)))
    records = {f"{number:032d}": record(text, order=number) for number in range(10)}
    first = CacheFile(tmp_path, "first", most_bytes=6000)
    first.keep(records)
    again = CacheFile(tmp_path, "first")
    kept = [key for key in records if again.get(key) == records[key]]
    assert kept == list(records)[5:]
    assert (tmp_path / "first.comparisons").stat().st_size <= 6000
    second = CacheFile(tmp_path, "second", most_bytes=6000)
    second.keep(dict(list(records.items())[:2]))
    assert not (tmp_path / "first.comparisons").exists()
    assert all(second.get(key) == records[key] for key in list(records)[:2])


def test_what_a_killed_run_left_half_written_is_deleted_after_a_day(tmp_path):
    for name, hours in ((".old.tmp", 25), (".young.tmp", 23)):
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (time.time() - 3600 * hours,) * 2)
    CacheFile(tmp_path, "file").keep({"0" * 32: record("")})
    assert sorted(path.name for path in tmp_path.glob(".*.tmp")) == [".young.tmp"]


def test_pytest_has_it_in_its_own_cache_with_and_without_workers(pytester, monkeypatch, measured):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    write_pairs(pytester.path, SIZES, drifting=(1,))
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-cache=files")
    first = pytester.runpytest_inprocess(*arguments)
    first.assert_outcomes(passed=4, failed=1)
    first.stdout.fnmatch_lines(["cache: 0 of 4 pairs from earlier runs"])
    failure = [line for line in first.outlines if "op1" in line]
    measured.clear()
    second = pytester.runpytest_inprocess(*arguments, "--msdump-jobs=2")
    second.assert_outcomes(passed=4, failed=1)
    second.stdout.fnmatch_lines(["cache: 4 of 4 pairs from earlier runs"])
    assert measured == []
    assert [line for line in second.outlines if "op1" in line and "rerun" not in line] == failure
    os.utime(file_of(pytester.path / "left", "op2"))
    pytester.runpytest_inprocess(*arguments, "-k", "op2 or op3").stdout.fnmatch_lines(["cache: 1 of 2 pairs *"])
    assert measured == ["op2"]
    assert list((pytester.path / ".pytest_cache" / "d" / "msdump").glob("*.comparisons"))
    whole = as_written(pytester.path)
    assert json.loads(whole)["notes"]


@pytest.mark.e2e
def test_workers_of_xdist_read_it_and_the_controller_writes_it(pytester, monkeypatch):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    write_pairs(pytester.path, [8, 9])
    pytester.makeconftest(OLD_ENOUGH)
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-cache=files")
    pytester.runpytest_inprocess(*arguments).stdout.fnmatch_lines(["cache: 0 of 2 pairs from earlier runs"])
    os.utime(file_of(pytester.path / "left", "op0"))
    pytester.runpytest_inprocess(*arguments, "-n2").stdout.fnmatch_lines(["cache: 1 of 2 pairs from earlier runs"])
    pytester.runpytest_inprocess(*arguments).stdout.fnmatch_lines(["cache: 2 of 2 pairs from earlier runs"])


# pytest says of its own part of the cache what it thinks of that.
QUIET = ("-W", "ignore::pytest.PytestCacheWarning")


@pytest.fixture
def unwritable(pytester, monkeypatch):
    """A folder of two dumps where pytest's cache cannot be made."""
    pytester.makeconftest(OLD_ENOUGH)
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    write_pairs(pytester.path, [8, 9])
    (pytester.path / ".pytest_cache").write_text("a file")
    return pytester


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_where_pytest_can_have_no_cache_there_is_our_own(unwritable, workers):
    ours = unwritable.path / ".msdump-cache"
    sides = ("--msdump-left=left", "--msdump-right=right", *QUIET, *workers)
    off = unwritable.runpytest_inprocess(*sides)
    off.assert_outcomes(passed=3)
    assert not ours.exists()
    assert results(unwritable.path)["tensors"]
    on = unwritable.runpytest_inprocess(*sides, "--msdump-cache=files")
    on.assert_outcomes(passed=3)
    assert list(ours.glob("*.comparisons"))
    assert results(unwritable.path)["notes"] == ["cache: 0 of 2 pairs from earlier runs"]


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_where_no_cache_can_be_written_all_is_measured_and_that_is_said_once(unwritable, workers):
    (unwritable.path / ".msdump-cache").write_text("a file")
    sides = ("--msdump-left=left", "--msdump-right=right", *QUIET, *workers)
    done = unwritable.runpytest_inprocess(*sides, "--msdump-cache=files")
    done.assert_outcomes(passed=3)
    told, problem = results(unwritable.path)["notes"]
    assert told == "cache: 0 of 2 pairs from earlier runs"
    assert "cannot be written" in problem
    assert len(results(unwritable.path)["tensors"]) == 2
