"""Dumps of sketches: what is said of them, and what a damaged one does."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from semantics.gate import Answer, ask

from pytest_msdump.capabilities.calibrate.limits_file import (
    LimitsFile,
    Perturbed,
    ReferenceFacts,
    TensorLimits,
    limits_text,
)
from pytest_msdump.capabilities.record.writer import DumpWriter
from pytest_msdump.capabilities.statistics.count_sketch import CountSketch
from pytest_msdump.capabilities.statistics.tensor_statistics import quick_digest
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

RANDOM = np.random.default_rng(20261123)
RIGHT = RANDOM.standard_normal((16, 25, 50)).astype("f4")
NOISE = RANDOM.standard_normal(RIGHT.shape).astype("f4")
LIMIT = 1e-3  # of profile `default`, float32


def off_by(share: float) -> np.ndarray:
    """RIGHT with noise, whose norm is that share of the limit."""
    return (RIGHT + NOISE * (share * LIMIT * np.linalg.norm(RIGHT) / np.linalg.norm(NOISE))).astype("f4")


def write(root: Path, array: np.ndarray, save: str = "sketch") -> Path:
    with DumpWriter(root, save=save) as writer:
        writer.write("conv", array)
    return root


def compared(folder: Path, left: np.ndarray, right: np.ndarray, *arguments: str, unseen: str = "both") -> Answer:
    for side, array in (("left", left), ("right", right)):
        write(folder / side, array, "sketch" if unseen in (side, "both") else "full")
    return ask(folder / "left", folder / "right", *arguments, reports=folder / "out")


@pytest.mark.parametrize("unseen", ["left", "right", "both"])
@pytest.mark.parametrize(("share", "verdict"), [(0, "pass"), (0.5, "pass"), (1.0, "warn"), (2.0, "fail")])
def test_every_record_and_the_summary_say_that_tensors_were_not_seen(tmp_path, unseen, share, verdict):
    answer = compared(tmp_path, off_by(share), RIGHT, "--report", "json,md", unseen=unseen)
    assert (answer.code, answer.record["verdict"]) == (int(verdict == "fail"), verdict)
    words = {"left": "the left tensor was not saved", "right": "the right tensor was not saved"}
    assert words.get(unseen, "neither tensor was saved") in answer.sentences
    assert "judged by sketches and statistics" in answer.sentences
    unseen_text = "1 of 1 pair by saved statistics or sketches only, without values"
    assert answer.text.count(unseen_text) == 2
    assert unseen_text in (tmp_path / "out" / "summary.md").read_text()


def test_a_value_by_sketches_is_marked_as_an_estimate_and_has_its_interval(tmp_path):
    answer = compared(tmp_path, off_by(2), RIGHT)
    saved = answer.record["statistics"]["intervals"]["relative_euclidean_distance"]
    assert saved["low"] < 2 * LIMIT < saved["high"]
    (check,) = [one for one in answer.record["checks"] if one["metric"] == "relative_euclidean_distance"]
    assert (check["value"], check["outcome"]) == (saved["value"], "fail")
    assert f"rel_euclid ~{saved['value']:.6g}" in answer.text
    assert f"{saved['low']:.6g} to {saved['high']:.6g} by sketches" in answer.text
    # No end of the interval stands where numbers are exact.
    assert answer.record["metrics"] == {}
    assert answer.record["would_pass"]["relative_euclidean_distance"] >= saved["high"]


def test_a_metric_that_sketches_cannot_give_is_not_judged(tmp_path):
    answer = compared(tmp_path, off_by(0.1), RIGHT, "--threshold", "max_abs=1", "--threshold", "kld=1")
    (sentence,) = [one["sentence"] for one in answer.record["findings"] if one["code"] == "statistics_do_not_tell"]
    assert {"normalized_max_error", "max_absolute_error", "kl_divergence"} <= set(
        sentence.partition(": ")[2].split(", ")
    )
    checks = {one["metric"]: (one["value"], one["outcome"]) for one in answer.record["checks"]}
    assert checks["max_absolute_error"] == checks["normalized_max_error"] == (None, "skipped")


def test_the_extremes_still_fail_where_they_differ(tmp_path):
    left = RIGHT.copy()
    left[0, 0, 0] = 3 * np.abs(RIGHT).max()
    answer = compared(tmp_path, left, RIGHT, "--threshold", "rel_euclid=10", "--threshold", "cosine=0")
    assert answer.failed == {"normalized_max_error"}


def test_a_saved_result_is_judged_again_by_its_intervals(tmp_path, capsys):
    compared(tmp_path, off_by(0.5), RIGHT)
    results = str(tmp_path / "out" / "results.json")
    assert main(["check", results]) == 0
    assert main(["check", results, "--threshold", "rel_euclid=4e-4"]) == 1
    assert "~" in capsys.readouterr().out
    assert main(["check", results, "--threshold", "rel_euclid=5e-4"]) == 0
    assert "compare the tensors themselves" in " ".join(capsys.readouterr().out.split())
    assert main(["check", results, "--threshold", "rel_euclid=6e-4"]) == 0
    assert "compare the tensors themselves" not in " ".join(capsys.readouterr().out.split())


def test_a_saved_interval_that_does_not_hold_its_estimate_is_refused(tmp_path, capsys):
    compared(tmp_path, off_by(2), RIGHT)
    results = tmp_path / "out" / "results.json"
    known = json.loads(results.read_text())
    known["tensors"][0]["statistics"]["intervals"]["relative_euclidean_distance"]["low"] = 1.0
    results.write_text(json.dumps(known))
    assert main(["check", str(results), "--profile", "default"]) == 4
    assert "intervals" in capsys.readouterr().err


SWAPPED = RIGHT[::-1].copy()
HELD = np.maximum(RIGHT, 0)
MOVED = HELD.copy()
ZEROS = np.flatnonzero(HELD == 0)
HELD.flat[ZEROS[:500]], MOVED.flat[ZEROS[500:1000]] = np.nan, np.nan
IDS = RANDOM.integers(0, 1000, (200, 100))
FEW = IDS.copy()
FEW[3, 4] += 1


@pytest.mark.parametrize("unseen", ["left", "right", "both"])
@pytest.mark.parametrize(
    ("left", "right", "options", "verdict", "told"),
    [
        # Elements one by one are not in a sketch.
        (SWAPPED, RIGHT, ("--profile", "torch"), "undefined", "no limit on accuracy could be judged"),
        (off_by(1e-4), RIGHT, ("--profile", "torch"), "undefined", "e.g. relative_euclidean_distance"),
        (SWAPPED, RIGHT, ("--profile", "torch", "--threshold", "rel_euclid=0.1"), "fail", "rel"),
        (RIGHT, RIGHT, ("--profile", "torch"), "pass", "digests are equal"),
        (RIGHT.astype("f8"), RIGHT, ("--profile", "default"), "pass", ""),
        (FEW, IDS, (), "fail", "max_absolute_error"),
        (FEW, IDS, ("--threshold", "max_abs=5"), "undefined", "max_absolute_error"),
        (IDS.astype("i4"), IDS, (), "pass", ""),
        (IDS, IDS, ("--threshold", "max_abs=5"), "pass", ""),
        # What is NaN on one side is 0 on the other.
        (MOVED, HELD, (), "warn", "nonfinite_mismatch is not judged"),
        (HELD, HELD, (), "pass", "digests are equal"),
    ],
)
def test_what_a_sketch_does_not_show_is_not_judged(tmp_path, left, right, options, verdict, told, unseen):
    answer = compared(tmp_path, left, right, *options, unseen=unseen)
    assert (answer.code, answer.record["verdict"]) == (int(verdict in ("fail", "undefined")), verdict)
    assert told in answer.sentences
    if verdict == "warn":
        assert {"nonfinite_mismatch", "saturated_count"}.isdisjoint(answer.record["statistics"]["at_least"])


def test_a_limits_file_does_not_excuse_ids_that_were_not_seen(tmp_path):
    ids = {"conv:output:0": TensorLimits(20000, "forward_large", flipped=1)}
    text = limits_text(LimitsFile(ReferenceFacts(), Perturbed(2.0**-24), tensors=ids))
    (tmp_path / "limits.json").write_text(text)
    for left, verdict in ((IDS[::-1].copy(), "undefined"), (IDS, "pass")):
        answer = compared(tmp_path / verdict, left, IDS, "--limits", str(tmp_path / "limits.json"))
        assert answer.record["verdict"] == verdict


@pytest.mark.parametrize("profile", ["default", "torch", "bitwise"])
def test_a_digest_that_a_sketch_contradicts_is_an_error(tmp_path, profile):
    for side, array in (("left", SWAPPED), ("right", RIGHT)):
        write(tmp_path / side, array)
    edit(tmp_path / "left", statistics=statistics_of(tmp_path / "right"))
    answer = ask(tmp_path / "left", tmp_path / "right", "--profile", profile, reports=tmp_path / "out")
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert "says that all bytes are equal, relative_euclidean_distance that they are not" in answer.sentences


@pytest.mark.parametrize("left", [RIGHT, off_by(0.01)], ids=["equal", "near"])
def test_sketches_of_two_sizes_pass_by_equal_digests_alone(tmp_path, left):
    write(tmp_path / "left", left)
    wide = CountSketch(4096)
    wide.add(RIGHT.ravel())
    replace(write(tmp_path / "right", RIGHT), wide.values())
    answer = ask(tmp_path / "left", tmp_path / "right", reports=tmp_path / "out")
    is_equal = left is RIGHT
    assert (answer.code, answer.record["verdict"]) == ((0, "pass") if is_equal else (1, "undefined"))
    assert "sketches of 1024 and 4096 buckets cannot be compared" in answer.text or is_equal
    # Without the dumps, it is no pass either.
    assert main(["check", str(tmp_path / "out" / "results.json"), "--profile", "default"]) == int(not is_equal)


@pytest.mark.parametrize("left_type", ["i4", "i8"])
@pytest.mark.parametrize("unseen", ["left", "both"])
def test_integers_whose_order_differs_fail_and_equal_ones_of_another_width_pass(tmp_path, left_type, unseen):
    right = RANDOM.integers(-1000, 1000, (100, 100))
    answer = compared(tmp_path / "turned", right[::-1].astype(left_type), right, unseen=unseen)
    assert (answer.record["verdict"], answer.failed) == ("fail", {"max_absolute_error"})
    answer = compared(tmp_path / "equal", right.astype(left_type), right, unseen=unseen)
    assert answer.record["verdict"] == "pass"


def test_one_integer_that_is_one_more_fails(tmp_path):
    left = np.zeros((100, 100), "u1")
    right = left.copy()
    right[0, 0] = left[50, 50] = 1
    assert compared(tmp_path, left, right).record["verdict"] == "fail"


# -- damaged dumps -----------------------------------------------------------------------------------------------------


def edit(root: Path, **values: object) -> None:
    """Change what the manifest says of the tensor; `None` takes a key out."""
    file = root / "msdump.json"
    manifest = json.loads(file.read_text())
    (entry,) = manifest["tensors"].values()
    for key, value in values.items():
        entry[key] = value
        if value is None:
            del entry[key]
    file.write_text(json.dumps(manifest))


def replace(root: Path, array: np.ndarray | None, *, rename: str = "{}", content: bytes | None = None) -> None:
    """Put another member, or none, in the place of the only one."""
    file = root / "tensors.npz"
    (name,) = zipfile.ZipFile(file).namelist()
    with zipfile.ZipFile(file, "w") as archive:
        if array is not None or content is not None:
            buffer = BytesIO()
            if content is None:
                np.lib.format.write_array(buffer, array)
            archive.writestr(rename.format(name), content or buffer.getvalue())


def statistics_of(root: Path) -> dict[str, Any]:
    (entry,) = json.loads((root / "msdump.json").read_text())["tensors"].values()
    return entry["statistics"]


DIGEST = quick_digest()
BUCKETS = np.zeros(1024)
NAN = BUCKETS.copy()
NAN[7] = np.nan
DAMAGE = {
    "a NaN bucket": lambda root: replace(root, NAN),
    "an infinite bucket": lambda root: replace(root, np.where(np.isnan(NAN), np.inf, NAN)),
    "buckets of no size": lambda root: replace(root, np.zeros(1000)),
    "too many buckets": lambda root: replace(root, np.zeros(10**6)),
    "buckets of another type": lambda root: replace(root, BUCKETS.astype("f4")),
    "a norm that is none": lambda root: edit(root, norm="large"),
    "a negative norm": lambda root: edit(root, norm=-1.0),
    "an infinite norm": lambda root: edit(root, norm="Infinity"),
    "no norm": lambda root: edit(root, norm=None),
    "a shape that is none": lambda root: edit(root, shape="large"),
    "no shape": lambda root: edit(root, shape=None),
    "a shape of another size": lambda root: edit(root, shape=[16, 25, 51]),
    "a huge shape": lambda root: edit(root, shape=[2**62, 2**62]),
    "many axes": lambda root: edit(root, shape=[1] * 10_000),
    "statistics that are a list": lambda root: edit(root, statistics=[1, 2]),
    "no statistics": lambda root: edit(root, statistics=None),
    "a digest that was cut": lambda root: edit(root, statistics=statistics_of(root) | {DIGEST: "0123abcd"}),
    "a digest that is none": lambda root: edit(root, statistics=statistics_of(root) | {DIGEST: "z" * 32}),
    "statistics of wrong types": lambda root: edit(root, statistics={"count": "many", "maximum": [1]}),
    "a member that lies about its size": lambda root: replace(
        root, None, content=np.lib.format.magic(1, 0) + b"\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': "
        b"(1024,), }".ljust(117) + b"\n" + bytes(16)
    ),
    "a member that is no array": lambda root: replace(root, None, content=b"not an array"),
    "no member": lambda root: replace(root, None),
    "a member of another name": lambda root: replace(root, BUCKETS, rename="../{}"),
    "an absolute member": lambda root: replace(root, BUCKETS, rename="/etc/{}"),
    "a cut archive": lambda root: (root / "tensors.npz").write_bytes((root / "tensors.npz").read_bytes()[:-30]),
    "an empty archive": lambda root: (root / "tensors.npz").write_bytes(b""),
    "no archive": lambda root: (root / "tensors.npz").unlink(),
}  # fmt: skip


@pytest.mark.parametrize("other", ["sketch", "full"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_sketch_never_passes(tmp_path, capsys, damage, side, other):
    sides = {name: write(tmp_path / name, RIGHT, "sketch" if name == side else other) for name in ("left", "right")}
    DAMAGE[damage](sides[side])
    code = main(["compare", str(sides["left"]), str(sides["right"]), "--report-dir", str(tmp_path / "out")])
    captured = capsys.readouterr()
    assert code in (1, 4)
    if code == 4:
        assert 1 <= len(captured.err.strip().splitlines()) <= 3
        assert len(captured.err) <= 300 + len(str(tmp_path))
        return
    records = read_json(tmp_path / "out" / "results.json")["tensors"]
    assert [one["verdict"] for one in records] in ([], ["error"])
