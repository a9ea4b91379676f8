"""Statistics in the place of tensors, on the left, on the right and on both sides: drift fails, equality passes."""

from __future__ import annotations

import hashlib
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference
from semantics.gate import Answer, ask
from semantics.statistic_files import ALL, COUNTED, DEFAULT, DIGESTS, write_statistics

from pytest_msdump.cli import main

RANDOM = np.random.default_rng(20240601)
NOISE = RANDOM.standard_normal((16, 64)).astype("f4")
ACTIVE = np.maximum(NOISE, 0) + np.float32(0.01)
WHOLE = RANDOM.integers(-1000, 1000, (9, 11))
LOGITS = (NOISE * 3 + 0.5).astype("f2")
WITH_NAN = NOISE.copy()
WITH_NAN[3, 5] = np.nan
WITH_INF = NOISE.copy()
WITH_INF[3, 5] = np.inf
BENT = NOISE.copy()
BENT[np.unravel_index(NOISE.argmax(), NOISE.shape)] *= 1.5
DRIFTED = NOISE * (1 + np.float32(2e-4) * RANDOM.standard_normal(NOISE.shape).astype("f4"))
WRONG = NOISE * np.float32(1.5)
NEXT = WHOLE.copy()
NEXT[np.unravel_index(WHOLE.argmax(), WHOLE.shape)] += 1

# Name → left, right, the columns saved, the verdict, what the sentences name.
CASES = {
    "equal": (NOISE, NOISE, ALL, "pass", ""),
    "equal in half precision": (LOGITS, LOGITS, ALL, "pass", ""),
    "equal integers": (WHOLE, WHOLE, COUNTED, "pass", ""),
    "equal with NaN": (WITH_NAN, WITH_NAN, ALL, "warn", "at places that were not saved"),
    "equal with NaN, by its bytes": (WITH_NAN, WITH_NAN, DIGESTS, "pass", "digests are equal"),
    "a NaN elsewhere": (WITH_NAN[::-1], WITH_NAN, (*COUNTED, "MD5"), "warn", "at places that were not saved"),
    "drift within the limits": (DRIFTED, NOISE, ALL, "pass", ""),
    "rounded to half precision": (NOISE.astype("f2"), NOISE, ALL, "pass", ""),
    "scaled by half a percent": (NOISE * np.float32(1.005), NOISE, ALL, "fail", "relative_euclidean_distance"),
    "scaled, and no norm saved": (NOISE * np.float32(1.005), NOISE, COUNTED, "fail", "relative_euclidean_distance"),
    "another sign": (-NOISE, NOISE, ALL, "fail", "avg changed its sign"),
    "another sign of activations": (-ACTIVE, ACTIVE, DEFAULT, "fail", "max changed its sign"),
    "shifted": (NOISE + np.float32(0.05), NOISE, ALL, "fail", "avg is"),
    "one outlier": (BENT, NOISE, DEFAULT, "fail", "max is"),
    "a NaN": (WITH_NAN, NOISE, ALL, "fail", "nonfinite_mismatch"),
    "a NaN, by its count": (WITH_NAN, NOISE, COUNTED, "fail", "nonfinite_mismatch"),
    "an infinity": (WITH_INF, NOISE, DEFAULT, "fail", "nonfinite_mismatch"),
    "an integer that is one more": (NEXT, WHOLE, DEFAULT, "fail", "max_absolute_error 1"),
    "zeros": (np.zeros_like(NOISE), NOISE, ALL, "fail", "l2norm is 0"),
    "another shape": (NOISE.reshape(32, 32), NOISE, ALL, "error", "shape"),
}
SIDES = ("left", "right", "both")


def write(root: Path, tensors: dict[str, np.ndarray], columns: tuple[str, ...] | None) -> Path:
    """A dump: of statistics with `columns`, else of tensors."""
    if columns is not None:
        write_statistics(root, [(f"Default_{op}-op0", array) for op, array in tensors.items()], columns)
    else:
        write_mindspore(root, [("Add", f"Default/{op}-op0", "output", 0, array) for op, array in tensors.items()])
    return root


def compared(
    folder: Path,
    left: np.ndarray,
    right: np.ndarray,
    columns: tuple[str, ...],
    unseen: str,
    *arguments: str,
) -> Answer:
    sides = {"left": left, "right": right}
    for side, array in sides.items():
        write(folder / side, {"a": array}, columns if unseen in (side, "both") else None)
    return ask(folder / "left", folder / "right", *arguments, reports=folder / "out")


@pytest.mark.parametrize("unseen", SIDES)
@pytest.mark.parametrize("case", CASES)
def test_drift_and_equality_are_told_apart_by_statistics(tmp_path: Path, case: str, unseen: str) -> None:
    left, right, columns, verdict, told = CASES[case]
    answer = compared(tmp_path, left, right, columns, unseen)
    assert (answer.code, answer.record["verdict"]) == (int(verdict in ("fail", "error")), verdict)
    assert told in answer.sentences
    if verdict == "error":
        return
    words = {"left": "the left tensor was not saved", "right": "the right tensor was not saved"}
    assert words.get(unseen, "neither tensor was saved") in answer.sentences
    assert "1 of 1 pair by saved statistics or sketches only, without values" in answer.text
    assert answer.record["statistics"]["unseen"] == (["left", "right"] if unseen == "both" else [unseen])
    assert answer.record["metrics"] == {}
    assert answer.record["elements"] is None


# Each two of data type, columns and profile meet on every side in turn.
PRINTED = product(
    ["f8", "f4", "f2", "i4", "u1", "?"], [DEFAULT, ALL, COUNTED, DIGESTS], ["default", "strict", "ascend", "torch"]
)


@pytest.mark.parametrize(
    ("dtype", "columns", "profile", "unseen"),
    [(*case, side) for case, side in zip(PRINTED, cycle(SIDES), strict=False)],
)
def test_what_printing_takes_away_is_no_drift_in_any_profile(
    tmp_path: Path, dtype: str, columns: tuple[str, ...], profile: str, unseen: str
) -> None:
    array = (np.abs(NOISE) * 37.123456789).astype(dtype)
    answer = compared(tmp_path, array, array, columns, unseen, "--profile", profile)
    assert (answer.code, answer.record["verdict"]) == (0, "pass"), answer.sentences


@pytest.mark.parametrize("unseen", SIDES)
def test_equal_digests_are_equal_bits_and_equal_numbers_are_not(tmp_path: Path, unseen: str) -> None:
    bitwise = ("--profile", "bitwise")
    assert compared(tmp_path / "a", NOISE, NOISE, DIGESTS, unseen, *bitwise).record["verdict"] == "pass"
    silent = compared(tmp_path / "b", NOISE, NOISE, ALL, unseen, *bitwise)
    assert (silent.code, silent.record["verdict"]) == (1, "undefined")
    assert "no digest" in silent.sentences
    swapped = NOISE[::-1]
    other = compared(tmp_path / "c", swapped, NOISE, DIGESTS, unseen, *bitwise)
    assert (other.record["verdict"], other.failed) == ("fail", {"bitwise_mismatch"})


@pytest.mark.parametrize("unseen", SIDES)
def test_differing_digests_decide_under_bitwise_alone(tmp_path: Path, unseen: str) -> None:
    answer = compared(tmp_path, NOISE[::-1], NOISE, DIGESTS, unseen)
    # No statistic tells of places: that is why the record says that nobody saw the tensors.
    assert answer.record["verdict"] == "pass"
    assert "digests differ" in answer.sentences


@pytest.mark.parametrize("unseen", SIDES)
@pytest.mark.parametrize("profile", ["default", "bitwise"])
def test_a_digest_of_another_tensor_clears_nothing(tmp_path: Path, unseen: str, profile: str) -> None:
    compared(tmp_path, WRONG, NOISE, DIGESTS, unseen)
    side, own, other = ("right", NOISE, WRONG) if unseen == "right" else ("left", WRONG, NOISE)
    table = tmp_path / side / "rank_0/Net/0/0/statistic.csv"
    text = table.read_text()
    for kind in ("md5", "sha1"):
        text = text.replace(*(hashlib.new(kind, array.tobytes()).hexdigest() for array in (own, other)))
    table.write_text(text)
    answer = ask(tmp_path / "left", tmp_path / "right", "--profile", profile, reports=tmp_path / "out")
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert "md5 says that all bytes are equal" in answer.sentences


@pytest.mark.parametrize("unseen", ["left", "right", "neither"])
def test_a_tensor_that_its_own_digest_contradicts_is_an_error(tmp_path: Path, unseen: str) -> None:
    for side in ("left", "right"):
        write(tmp_path / side, {"a": DRIFTED if side == "left" else NOISE}, DIGESTS if side == unseen else None)
        # The table says of both sides that they are one tensor.
        write_statistics(tmp_path / side, [("Default_a-op0", NOISE)], DIGESTS)
    reports = tmp_path / "out"
    answer = ask(tmp_path / "left", tmp_path / "right", reports=reports)
    told = {"left": "pass", "right": "error", "neither": "error"}[unseen]
    assert (answer.code, answer.record["verdict"]) == (int(told == "error"), told)
    if unseen == "neither":
        assert "md5 says that all bytes are equal, max_absolute_error that they are not" in answer.sentences
        again = str(reports / "results.json")
        assert main(["check", again, "--threshold", "rel_euclid=1"]) == 1


@pytest.mark.parametrize("unseen", SIDES)
def test_equal_bytes_of_an_unknown_type_are_no_equal_tensors(tmp_path: Path, unseen: str) -> None:
    bits = NOISE.view("i4")
    compared(tmp_path, bits, bits, ("MD5",), unseen)
    for side in ("left", "right"):
        for table in (tmp_path / side).rglob("statistic.csv"):
            table.write_text(
                table.read_text().replace("int32", "" if side == "left" or unseen == "right" else "float32")
            )
    answer = ask(tmp_path / "left", tmp_path / "right", "--profile", "bitwise", reports=tmp_path / "out")
    assert (answer.code, answer.record["verdict"]) == (1, "undefined")


def test_equal_bytes_of_two_types_contradict_no_tensor(tmp_path: Path) -> None:
    for side, array in (("left", NOISE.view("i4")), ("right", NOISE)):
        write(tmp_path / side, {"a": array}, None)
        write_statistics(tmp_path / side, [("Default_a-op0", array)], ("MD5",))
    answer = ask(tmp_path / "left", tmp_path / "right", reports=tmp_path / "out")
    assert (answer.code, answer.record["verdict"]) == (1, "fail")
    assert "md5" not in answer.sentences


def test_tables_that_count_other_elements_than_their_shape_has_are_an_error(tmp_path: Path) -> None:
    write(tmp_path / "right", {"a": NOISE}, None)
    path = write_statistics(tmp_path / "left", [("Default_a-op0", NOISE)], COUNTED)
    path.write_text(path.read_text().replace(",1024,", ",1000,"))
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert "counts 1000 elements, the right 1024" in answer.sentences


@pytest.mark.parametrize(("elements", "verdict"), [("1024", "pass"), ("1000", "error"), ("", "pass")])
def test_a_table_without_a_shape_is_compared_and_that_is_said(tmp_path: Path, elements: str, verdict: str) -> None:
    write(tmp_path / "right", {"a": NOISE}, None)
    path = write_statistics(tmp_path / "left", [("Default_a-op0", NOISE)], COUNTED)
    path.write_text(path.read_text().replace('"(16,64)"', "").replace(",1024,", f",{elements},"))
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert answer.record["verdict"] == verdict
    assert verdict == "error" or "the left table has no shapes, so shapes were not compared" in answer.sentences


def test_a_saved_result_with_other_statistics_is_refused(tmp_path: Path) -> None:
    compared(tmp_path, NOISE, NOISE, ALL, "both")
    path = tmp_path / "out" / "results.json"
    path.write_text(path.read_text().replace('"unseen":["left","right"]', '"unseen":[]'))
    assert main(["check", str(path)]) == 4


def test_tensors_are_seen_where_they_are_and_statistics_taken_where_they_are_not(tmp_path: Path) -> None:
    both = {"a": NOISE, "b": NOISE * 2}
    write(tmp_path / "left", both, ALL)
    write(tmp_path / "left", {"a": NOISE}, None)
    write(tmp_path / "right", both, None)
    answer = ask(tmp_path / "left", tmp_path / "right")
    seen, unseen = answer.results["tensors"]
    assert (answer.code, seen["elements"], "statistics" in seen) == (0, NOISE.size, False)
    assert (unseen["left"]["file"], unseen["left"]["row"]) == ("rank_0/Net/0/0/statistic.csv", 3)
    assert "1 of 2 pairs by saved statistics or sketches only" in answer.text
    assert "1 tensor was saved as statistics only, e.g. Default_b-op0:output:0" in answer.text


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_overflow_of_the_left_is_seen_in_its_extremes(tmp_path: Path, dtype: str) -> None:
    left = np.array([1, 2, np.finfo(dtype).max], dtype)
    right = np.array([1, 2, np.finfo(dtype).max * 0.999], dtype)
    answer = compared(tmp_path, left, right, COUNTED, "both", "--threshold", "rel_euclid=1")
    assert answer.failed == {"saturated_count"}


def test_devices_that_count_their_padding_are_compared_with_tensors_that_have_none(tmp_path: Path) -> None:
    right = RANDOM.uniform(1, 2, (1, 20, 4, 4)).astype("f2")
    stored = np.zeros((1, 2, 4, 4, 16), "f2")
    for channel in range(20):
        stored[:, channel // 16, :, :, channel % 16] = right[:, channel]
    folder = tmp_path / "left/20260131235959/0/Net/1/0"
    folder.mkdir(parents=True)
    header = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,l2norm"
    doubles = stored.astype("f8")
    numbers = (
        f"{doubles.max():g},{doubles.min():g},{doubles.mean():g},{stored.size},0,{np.linalg.norm(doubles.ravel()):g}"
    )
    table = folder / "Conv2D.conv.1.2.1700000000000000.csv"
    table.write_text(f"{header}\nOutput,0,{stored.nbytes},DT_FLOAT16,NC1HWC0,1x2x4x4x16,{numbers}\n")
    write_reference(tmp_path / "right", {"conv": right})
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert (answer.code, answer.record["verdict"]) == (0, "pass"), answer.sentences
    assert "192 zeros were added" in answer.sentences
    write_reference(tmp_path / "other", {"conv": right * np.float16(1.1)})
    assert ask(tmp_path / "left", tmp_path / "other").record["verdict"] == "fail"
