"""Every command line that the vendor's `convert` was run with gives the vendor's files, but for what it does wrong."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pytest_msdump.capabilities.compat import msaccucmp

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
FAILED = "convert_failed_file_list.txt"
GONE, EXTRA, OTHER, LISTED = "not written by us", "only written by us", "other content", "listed by one only"
SUCCEEDS, FAILS = "only the vendor's program fails", "only ours fails"
Why = tuple[str, str]

# Issue 6 asks for every pair of formats that the rows of facts.memory_formats give.
PAIRS = "issue 6: every other pair our rows give"
SHAPES = "INTERFACE 5: shape differences are error; batch axes merged into one would be such a difference"

# (case, label, file or "exit code") → (what differs, why). Numbers are those of the vendor's known faults, section 9.
ALIKE = "issue 6: any dump format that we read"
NAMES = "INTERFACE 2: OP is the name as the framework writes it or as the file has it"
TYPES = "INTERFACE 5: the logical dtype is the file name's field"
NHWC_ORIGIN, NCHW_ORIGIN = "Conv2D.c5hd_ori_nhwc.2.1.1600000000000002", "Conv2D.c5hd_ori_nchw.1.1.1600000000000001"
BATCH, EXACT = "BatchMatMul.nz_4d.7.1.1600000000000007", "BatchMatMul.nz_4d_exact.8.1.1600000000000008"
FZ_NCHW, FZ_HWCN = "Const.fz_ori_nchw.9.1.1600000000000009", "Const.fz_ori_hwcn.10.1.1600000000000010"


def instead(case: str, label: str, source: str, theirs: str, ours: str, why: str) -> dict[tuple[str, str, str], Why]:
    """A file of ours in place of one of theirs."""
    begin = f"{source}.output.0"
    return {(case, label, f"{begin}.{theirs}"): (GONE, why), (case, label, f"{begin}.{ours}"): (EXTRA, why)}


def besides(label: str, source: str, ours: str, why: str) -> dict[tuple[str, str, str], Why]:
    """A file of ours where the vendor's program failed."""
    return {
        ("e_convert", label, f"{source}.output.0.{ours}"): (EXTRA, why),
        ("e_convert", label, "exit code"): (SUCCEEDS, why),
    }


# (case, label, file, "exit code" or line of the list) → (what differs, why). Faults are those of section 9.
DIFFERENCES: dict[tuple[str, str, str], Why] = {
    **instead("e_convert", "c5hd_ori_nchw_to_NHWC", NCHW_ORIGIN, "2x5x7x32.npy", "2x5x7x19.npy", "fault 2"),
    **instead("e_convert", "c5hd_ori_nchw_to_HWCN", NCHW_ORIGIN, "2x7x5x2.npy", "5x7x19x2.npy", "fault 2"),
    **instead("e_convert", "c5hd_ori_nhwc_to_NCHW", NHWC_ORIGIN, "2x5x5x7.npy", "2x19x5x7.npy", "fault 2"),
    **instead("e_convert", "c5hd_ori_nhwc_to_HWCN", NHWC_ORIGIN, "2x5x7x2.npy", "5x7x19x2.npy", "fault 2"),
    **instead(
        "e_convert",
        "c5hd_to_NHWC_bin",
        NCHW_ORIGIN,
        "2_5_7_32.float16.NC1HWC0.bin",
        "2_5_7_19.float16.NHWC.bin",
        "fault 2",
    ),
    **instead("e_convert", "dir_to_NCHW", NHWC_ORIGIN, "2x5x5x7.npy", "2x19x5x7.npy", "fault 2"),
    ("e_convert", "w_depthwise48_to_FRACTAL_Z", "Const.w_depthwise48.17.1.1600000000000017.output.0.18x1x16x16.npy"): (
        OTHER,
        "fault 7",
    ),
    ("b5_broken_files", "convert_shortdata", "exit code"): (FAILS, "fault 8"),
    ("b5_broken_files", "convert_dir", "Add.shortdata.8.3.1600000000000004"): (LISTED, "fault 8"),
    ("d2_values_dump", "convert_fp8_e4m3", "Op.fp8_e4m3_all.23.1.1600000000000023.output.0.npy"): (OTHER, "fault 9"),
    ("d2_values_dump", "convert_fp8_e5m2", "Op.fp8_e5m2_all.24.1.1600000000000024.output.0.npy"): (OTHER, "fault 9"),
    ("d2_values_dump", "convert_hif8", "Op.hif8_all.25.1.1600000000000025.output.0.npy"): (OTHER, "fault 9"),
    ("d2_values_dump", "convert_bf16_bin", "Op.bf16.21.1.1600000000000021.output.0.105.bfloat16.ND.bin"): (
        OTHER,
        TYPES,
    ),
    ("b5_broken_files", "convert_dir", "Add.int4.9.3.1600000000000005"): (LISTED, ALIKE),
    ("b5_broken_files", "convert_dir", "Add.int4.9.3.1600000000000005.output.0.npy"): (EXTRA, ALIKE),
    **instead("e_convert", "nz_4d_to_ND", BATCH, "6x17x21.npy", "3x2x17x21.npy", SHAPES),
    **instead("e_convert", "nz_4d_to_NCHW", BATCH, "6x17x21.npy", "3x2x17x21.npy", SHAPES),
    **instead("e_convert", "nz_4d_exact_to_ND", EXACT, "6x32x16.npy", "3x2x32x16.npy", SHAPES),
    **instead("e_convert", "dir_to_NCHW", BATCH, "6x17x21.npy", "3x2x17x21.npy", SHAPES),
    **instead("e_convert", "dir_to_NCHW", EXACT, "6x32x16.npy", "3x2x32x16.npy", SHAPES),
    **besides("c5hd_to_ND", NCHW_ORIGIN, "2x19x5x7.npy", PAIRS),
    **besides("fz_ori_nchw_to_HWCN", FZ_NCHW, "3x2x6x20.npy", PAIRS),
    **besides("fz_ori_nchw_to_NHWC", FZ_NCHW, "20x3x2x6.npy", PAIRS),
    **besides("fz_ori_hwcn_to_NCHW", FZ_HWCN, "20x6x3x2.npy", PAIRS),
    **besides("fz_ori_hwcn_to_NHWC", FZ_HWCN, "20x3x2x6.npy", PAIRS),
    **besides("w_nchw_noori_to_HWCN", "Const.w_nchw_noori.12.1.1600000000000012", "3x2x6x20.npy", PAIRS),
    ("e_convert", "dir_to_NCHW", f"{FZ_HWCN}.output.0.20x6x3x2.npy"): (EXTRA, PAIRS),
    ("e_convert", "dir_to_NCHW", f"{FZ_HWCN},output:0"): (LISTED, PAIRS),
    **{
        ("m_nano", "convert_msnpy", f"Add.{op}.1.2.1600000000000001.{io}.0.ND.npy"): (what, NAMES)
        for op, what in (("1600000000000001", GONE), ("nano_op", EXTRA))
        for io in ("input", "output")
    },
}


class Line(NamedTuple):
    """One command of a case, and the exit code of the vendor's program."""

    case: str
    label: str
    words: list[str]
    code: int


def lines() -> list[Line]:
    pattern = r"^\[(\w+)\].*\nmsaccucmp convert (.*)\nrc=(\d+)"
    return [
        Line(file.parent.name, label, words.split(), int(code))
        for file in sorted(GOLDEN.glob("*/command.txt"))
        for label, words, code in re.findall(pattern, file.read_text(), re.M)
    ]


LINES = lines()


def sums_of(case: str, label: str) -> dict[str, str]:
    """Name → digest of what the vendor's program wrote."""
    table = GOLDEN / case / "expected" / "SHA256SUMS"
    if table.exists():
        rows = [row.split("  ", 1) for row in table.read_text().splitlines()]
        return {name.split("/out/")[1]: digest for digest, name in rows if name.startswith(f"{label}/out/")}
    return digests(GOLDEN / case / "expected" / label / "out")


def digests(folder: Path) -> dict[str, str]:
    files = folder.iterdir() if folder.is_dir() else ()
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.name != FAILED}


def same_numbers(name: str, ours: Path, theirs: Path) -> bool:
    """Whether two arrays hold the same numbers, whatever the width of the type that they are written in."""
    if not name.endswith(".npy") or not (theirs / name).exists():
        return False
    left, right = np.load(ours / name), np.load(theirs / name)
    return left.shape == right.shape and np.array_equal(left, right, equal_nan=True)


def failed(text: str) -> set[str]:
    """Paths without their folders, with the numbers of their tensors."""
    return {line.rpartition("/")[2] for line in text.splitlines() if not line.startswith("#")}


def differences(line: Line, out: Path, code: int) -> dict[str, str]:
    ours, theirs = digests(out), sums_of(line.case, line.label)
    found = dict.fromkeys(theirs.keys() - ours.keys(), GONE) | dict.fromkeys(ours.keys() - theirs.keys(), EXTRA)
    golden = GOLDEN / line.case / "expected" / line.label / "out"
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name] and not same_numbers(name, out, golden):
            found[name] = OTHER
    if (code == 0) != (line.code == 0):
        found["exit code"] = SUCCEEDS if code == 0 else FAILS
    listed = [
        path
        for path in (golden / FAILED, GOLDEN / line.case / "expected" / f"{line.label}_failed.txt")
        if path.exists()
    ]
    for path in listed:
        found |= dict.fromkeys(failed((out / FAILED).read_text()) ^ failed(path.read_text()), LISTED)
    return found


def run(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    folder = tmp_path / line.case
    shutil.copytree(GOLDEN / line.case, folder, ignore=shutil.ignore_patterns("expected", "right"))
    monkeypatch.chdir(folder)
    code = msaccucmp.main(["convert", *line.words])
    out = folder / "expected" / line.label / "out"
    assert (out / FAILED).exists() == (code == 1)
    return differences(line, out, code)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.case}-{line.label}")
def test_a_line_of_the_vendors_gives_the_vendors_files(line, tmp_path, monkeypatch):
    expected = {
        name: what for (case, label, name), (what, _) in DIFFERENCES.items() if (case, label) == (line.case, line.label)
    }
    assert run(line, tmp_path, monkeypatch) == expected


def test_the_list_of_differences_has_no_entry_that_is_gone():
    known = {(line.case, line.label) for line in LINES}
    assert len(LINES) == 87
    assert {(case, label) for case, label, _ in DIFFERENCES} <= known
    assert all(re.match(r"fault \d+|INTERFACE \d+: |issue 6: ", why) for _, why in DIFFERENCES.values())
