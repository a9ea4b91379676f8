"""The helpers judge as the gate does and say the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from dump_builder import write_reference
from dumps.dumpmade import one_output, put

from pytest_msdump import (
    assert_close,
    assert_dumps_close,
    assert_no_overflow,
    compare,
    open_dump,
)
from pytest_msdump.assertions import assert_unsuspicious
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, UnknownNameError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_unknown_words_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'cosine'"):
        assert_close([1.0], [1.0], cosin=1)
    with pytest.raises(UnknownNameError, match="unknown profile"):
        assert_close([1.0], [1.0], profile="lenient")
    with pytest.raises(ConfigError, match="right side is missing"):
        assert_close([1.0])


def test_files_and_references_stand_for_tensors(lenet):
    good, bad = open_dump(lenet / "target"), open_dump(lenet / "target_bad")
    address = "Default/conv2-Conv2d/BiasAdd-op0:output:0"
    assert_close(good[address], next((lenet / "reference").glob("conv2.*")))
    with pytest.raises(AssertionError, match="DRIFT"):
        assert_close(bad[address], good.open(address))


def test_a_map_can_be_given_as_a_dict(lenet):
    pairs = {"Default/conv1-Conv2d/BiasAdd-op0": "conv1"}
    with pytest.raises(
        AssertionError, match="coverage is 10 %, below the 50 % that is demanded unless min_coverage says"
    ):
        assert_dumps_close(lenet / "target", lenet / "reference", map=pairs)
    assert len(assert_dumps_close(lenet / "target", lenet / "reference", map=pairs, min_coverage=0.1).records) == 1
    with pytest.raises(AssertionError, match="coverage is 10 %"):
        assert_dumps_close(lenet / "target", lenet / "reference", map=pairs, min_coverage=0.5)
    with pytest.raises(AssertionError, match="1 map entry found no pair"):
        assert_dumps_close(lenet / "target", lenet / "reference", map={**pairs, "gone": "conv2"})


def test_what_covers_little_and_what_fails_ends_with_an_entry_that_pairs_more(lenet):
    entries = json.loads((lenet / "mapping.json").read_text())["entries"]
    truth = {(one["target_op"], one["reference"]) for one in entries}
    known = {"Default/fc2-Dense/BiasAdd-op0": "fc2"}
    with pytest.raises(AssertionError, match="below the 50 %") as few:
        assert_dumps_close(lenet / "target", lenet / "reference", map=known)
    with pytest.raises(AssertionError, match="1 fail") as failed:
        assert_dumps_close(lenet / "target_bad", lenet / "reference", map=known)
    for text in (str(few.value), str(failed.value)):
        (entry,) = tomllib.loads(_entry_of(text))["msdump"]["map"]
        assert entry["left"] == entry["right"] != "fc2"
        both = assert_dumps_close(
            lenet / "target", lenet / "reference", map={**known, **_pair(entry)}, min_coverage=0.2
        ).records
        assert {tuple(side.key.op.label for side in (one.left, one.right)) for one in both} <= truth
        assert len(both) == 2
    # Who says how much is enough, and has it, is not asked for more.
    with pytest.raises(AssertionError, match="1 fail") as failed:
        assert_dumps_close(lenet / "target_bad", lenet / "reference", map=known, min_coverage=0.1)
    assert "the next entry to write" not in str(failed.value)


def test_the_entry_to_type_is_of_what_has_no_name_on_the_other_side(tmp_path):
    # `left.out` is like `right.out` by name alone, which has a partner.
    arrays = {"right.out": np.ones(3), "fc": np.ones(2)}
    write_reference(tmp_path / "right", {**arrays, "somewhere": np.zeros(4)})
    write_reference(tmp_path / "left", {**arrays, "right.out.again": np.zeros(5)})
    with pytest.raises(AssertionError) as failed:
        assert_dumps_close(tmp_path / "left", tmp_path / "right", min_coverage=1)
    assert "--suggest" in str(failed.value)
    assert "the next entry to write" not in str(failed.value)


def test_with_an_entry_more_the_pairs_by_structure_are_kept(lenet, tmp_path):
    shutil.copytree(lenet / "reference", tmp_path / "right")
    (file,) = (tmp_path / "right").glob("fc2.*")
    file.rename(file.with_name(file.name.replace("fc2", "fc2_bn")))
    sides = (lenet / "target", tmp_path / "right")
    entry, ways = {"left": "fc2", "right": "fc2_bn"}, ["map", "name", "mangled", "structure"]
    with pytest.raises(AssertionError, match="coverage is 90 %"):
        assert_dumps_close(*sides, min_coverage=1, pair_by=ways)
    assert_dumps_close(*sides, map=_pair(entry), min_coverage=1, pair_by=ways)
    with pytest.raises(AssertionError, match="coverage is 10 %"):
        assert_dumps_close(*sides, map=_pair(entry), min_coverage=1)


def _entry_of(text: str) -> str:
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == "[[msdump.map]]")
    return "\n".join(line.strip() for line in lines[start : start + 3])


def _pair(entry: dict[str, str]) -> dict[str, str]:
    return {entry["left"]: entry["right"]}


def test_no_overflow_looks_at_one_side(lenet, tmp_path):
    assert_no_overflow(lenet / "target")
    assert_no_overflow(np.ones(3))
    with pytest.raises(AssertionError, match=r"1 NaN, 1 Inf of 4 elements; first at \[0, 1\]"):
        assert_no_overflow(np.array([[1, np.nan], [np.inf, 0]], np.float32))
    with pytest.raises(AssertionError, match="1 at the dtype's maximum"):
        assert_no_overflow(np.array([65504, 1], np.float16))
    write_reference(tmp_path / "dump", {"fine": np.ones(3), "over": np.float32([np.inf])})
    with pytest.raises(AssertionError, match="over:output:0: 1 Inf"):
        assert_no_overflow(open_dump(tmp_path / "dump"))


def test_no_overflow_does_not_pass_over_what_it_cannot_read(lenet, tmp_path):
    shutil.copytree(lenet / "reference", tmp_path / "dump")
    file = next((tmp_path / "dump").glob("fc1.*"))
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(AssertionError, match=r"fc1:output:0: .*cut off"):
        assert_no_overflow(tmp_path / "dump")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(AssertionError, match="nothing was checked"):
        assert_no_overflow(tmp_path / "nothing")
    with pytest.raises(DumpNotFoundError):
        assert_no_overflow(tmp_path / "gone")


def test_an_array_librarys_numbers_are_limits(lenet):
    assert_close(np.float32([1, 2]), np.float32([1, 2.3]), cosine=np.float32(0.5), rel_euclid=np.int64(1), norm_max=1)
    limits = {"cosine": np.float64(-0.99), "rel_euclid": np.int32(9), "norm_max": 9}
    assert_dumps_close(lenet / "target_bad", lenet / "target", limits=limits)


def test_an_empty_path_is_not_the_current_folder(lenet):
    for use in (open_dump, assert_no_overflow, lambda path: compare(path, lenet / "target")):
        with pytest.raises(ConfigError, match="path of a dump is empty"):
            use("")


@pytest.mark.e2e
def test_the_helpers_work_without_pytest():
    code = (
        "import sys; from pytest_msdump import assert_close; assert_close([1.0, 2.0], [1.0, 2.0]);"
        "sys.exit('pytest' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_of_several_tensors_names_none_of_them(tmp_path):
    for slot in (0, 1):
        np.save(tmp_path / f"split.{slot}.{1600000000000000 + slot}.npy", np.full(2, slot, np.float32))
    np.save(tmp_path / "add.0.1600000000000002.npy", np.full(2, 2, np.float32))
    dump = open_dump(tmp_path)
    assert [dump.read(name)[0] for name in ("split:output:0", "split:output:1", "add")] == [0, 1, 2]
    with pytest.raises(UnknownNameError, match="'split' is the name of 2 tensors; say which: split:output:0, split"):
        dump["split"]
    for name in ("a/b_c", "a_b/c"):
        put(tmp_path / "ascend", f"Add.a_b_c.{len(name)}.{ord(name[1])}.1600000000000000", dumped(name))
    alike = open_dump(tmp_path / "ascend")
    assert {alike.read(f"{name}:output:0")[0] for name in ("a/b_c", "a_b/c")} == {ord("/"), ord("_")}
    with pytest.raises(UnknownNameError, match="'a_b_c:output:0' is the name of 2 tensors"):
        alike["a_b_c:output:0"]


def dumped(name):
    """A dump file of an operator of this name, whose first element is its second letter."""
    return one_output(np.full(3, ord(name[1]), np.float32), op_name=name)


def test_several_map_entries_of_one_right_tensor_are_each_judged_and_it_counts_once(tmp_path):
    gradient = np.random.default_rng(0).random((3, 4), dtype=np.float32)
    write_reference(tmp_path / "left", {"leaves": gradient, "enters": gradient, "state": gradient})
    write_reference(tmp_path / "right", {"g": gradient, "alone": gradient})
    one_right = {"leaves": "g", "enters:output:0": "g", "state": "g:output:0"}
    report = assert_dumps_close(tmp_path / "left", tmp_path / "right", map=one_right, min_coverage=0.5)
    addresses = ["leaves:output:0", "enters:output:0", "state:output:0"]
    assert [record.left.address for record in report.records] == addresses
    assert {record.right.address for record in report.records} == {"g:output:0"}
    assert (report.coverage.right_paired, report.coverage.right_total) == (1, 2)
    with pytest.raises(AssertionError, match="coverage is 50 %, below the 51 %"):
        assert_dumps_close(tmp_path / "left", tmp_path / "right", map=one_right, min_coverage=0.51)
    # A drift of the last is not hidden by the first.
    write_reference(tmp_path / "left", {"leaves": gradient, "enters": gradient, "state": -gradient})
    with pytest.raises(AssertionError, match="3 tensors: 2 pass, 1 fail") as failure:
        assert_dumps_close(tmp_path / "left", tmp_path / "right", map=one_right)
    assert "DRIFT  state:output:0" in str(failure.value)


VALUES = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
# A name with a line break in it is written on one line.
LEADS = {
    "drifts": "2 of 3 tensors fail; cause b\\nc",
    "other_names": "1 of 3 tensors fails; cause c (b\\nc)",
    "too_few": "coverage is 33.3 %, below the 100 % of min_coverage: 1 of 3 right tensors",
    "both": "1 of 2 tensors fails; cause b\\nc; coverage is 66.6 %, below the 100 % of min_coverage",
    "nothing": "nothing was compared",
    "close": "DRIFT a\\nb:output:0: relative_euclidean_distance 1 is above 0.001",
    "zeros": "3 hits: tensor_all_zero 3; in ",
    "overflow": "3 of 3 tensors overflow or cannot be read; first in execution order:",
}


@pytest.mark.parametrize("case", LEADS)
def test_a_message_begins_with_a_line_that_says_the_outcome(tmp_path, case):
    names = ("a", "b\nc", "d")
    factors = {"drifts": (1, 2, 2), "other_names": (1, 1, 2), "too_few": (1,), "both": (1, 2), "nothing": ()}
    fill = {"zeros": 0, "overflow": np.nan}
    tensors = [VALUES * np.float32(factor) for factor in factors.get(case, (1, 1, 1))]
    write_reference(tmp_path / "right", dict.fromkeys(names, VALUES))
    write_reference(tmp_path / "left", dict(zip(names, tensors, strict=False)) or {"other": VALUES})
    write_reference(tmp_path / "one", dict.fromkeys(names, np.full_like(VALUES, fill.get(case, 1))))
    sides, entries = (tmp_path / "left", tmp_path / "right"), None
    if case == "other_names":
        write_reference(tmp_path / "named", dict(zip("abc", tensors, strict=True)))
        sides, entries = (tmp_path / "named", tmp_path / "right"), {"a": "a", "b": "d", "c": "b\nc"}
    least = 1 if case in ("too_few", "both") else 0.0
    helpers = {
        "close": lambda: assert_close(VALUES * 2, VALUES, name="a\nb"),
        "zeros": lambda: assert_unsuspicious(tmp_path / "one"),
        "overflow": lambda: assert_no_overflow(tmp_path / "one"),
    }
    helper = helpers.get(case, lambda: assert_dumps_close(*sides, map=entries, min_coverage=least))
    with pytest.raises(AssertionError) as failure:
        helper()
    first, *rest = str(failure.value).split("\n")
    assert first.startswith(LEADS[case])
    # All that was said is said below it.
    assert len(rest) > (0 if case == "overflow" else 3)


def test_pytest_and_junit_show_that_line(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    write_reference(pytester.path / "right", {"a": VALUES, "b": VALUES})
    write_reference(pytester.path / "left", {"a": VALUES, "b": VALUES * 2})
    pytester.makepyfile(
        "from pytest_msdump import assert_dumps_close\ndef test_it(): assert_dumps_close('left', 'right')"
    )
    result = pytester.runpytest("--junitxml=out.xml")
    (line,) = (line for line in result.outlines if line.startswith("FAILED"))
    assert line.endswith(" - AssertionError: 1 of 2 tensors fails; cause b")
    message = ElementTree.parse(pytester.path / "out.xml").find(".//failure").get("message")
    assert message.startswith("AssertionError: 1 of 2 tensors fails; cause b")


def test_what_a_call_says_wrong_is_not_called_a_marker():
    with pytest.raises(ConfigError, match=r"^limit cosin=0\.9: unknown metric .cosin.; did you mean .cosine."):
        assert_close([1.0], [1.0], cosin=0.9)
    with pytest.raises(ConfigError, match=r"^fusion: is of whole dumps.*assert_dumps_close"):
        compare("a", "a", fusion="f.json")


@pytest.mark.parametrize("tolerance", [(1e-3, 0.0), (1e-4, 1e-5), (0.0, 1.1e-3), (0.0, 0.9e-3), (0, 0)])
def test_a_tolerance_is_numpys(tolerance: tuple[float, float]) -> None:
    right = np.linspace(1, 2, 50, dtype=np.float32)
    left = right.copy()
    left[3] += 1e-3
    assert (compare(left, right, allclose=tolerance).verdict.outcome == "pass") == np.allclose(left, right, *tolerance)


@pytest.mark.parametrize("tolerance", [3, (1,), ("a", 1), (-1, 0), (float("nan"), 0), (True, 0)])
def test_what_is_no_tolerance_is_refused(tolerance: Any) -> None:
    with pytest.raises(ConfigError, match="allclose"):
        compare([1.0], [1.0], allclose=tolerance)


def test_a_result_is_shown_in_a_line() -> None:
    found = compare([1.0, 2.0], [1.0, 2.5], name="a\x1b[31m")
    assert repr(found).startswith("<Record fail a\\x1b[31m:output:0: ")
    assert len(repr(found).splitlines()) == 1
    assert repr(compare([1.0], [1.0])) == "<Record pass tensor:output:0>"
