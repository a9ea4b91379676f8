"""Every command line of `dump_data_conversion` and `shape_conversion`, the vendor's and its manual's, runs as written.

The files are the vendor's, byte by byte, but for what is listed; each entry cites the fault that it mends (section 9 of
the facts collected about that tool) or the sentence that asks for it. What is no longer a difference fails.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from capabilities.convert.independent_dump import decode

from pytest_msdump.capabilities.compat import dump_data_conversion, shape_conversion

CASE = Path(__file__).parents[1] / "data" / "ascend_golden" / "e_convert"
MAIN = {"dump_data_conversion": dump_data_conversion.main, "shape_conversion": shape_conversion.main}

GONE, EXTRA, OTHER = "not written by us", "only written by us", "other content"
CODE = "exit code 0, the vendor's is not"

HEADER = "fault 21: a header of JSON and sizes of 0, which no tool can read"
BACK = "fault 21: the vendor cannot read what it wrote"
FOLDER = "fault 22: nothing of a folder is converted, exit code 0"
NAMES = "issue 6: -target numpy keeps the whole file name as the seed shows"
SIM = "issue 6: dump_data_conversion -type caffe|tf|quant|offline|sim"
SAME = "fault 22's kind: exit code 0, and nothing was written"

NPY, DUMP = "conv1.0.1600000000000001.npy", "Add.nd.19.1.1600000000000019"
PARTS = ("input.0.npy", "output.0.npy", "output.1.npy", "l1buffer.0.bin", "space.0.bin")

# (label, file or "exit code") → (what differs, why).
DIFFERENCES = {
    ("legacy_ddc_caffe_dump", "conv1.0.1600000000000001.pb"): (OTHER, HEADER),
    ("legacy_ddc_tf_dump", "conv1.0.1600000000000001.pb"): (OTHER, HEADER),
    ("legacy_ddc_quant_dump", "conv1.0.1600000000000001.quant"): (OTHER, HEADER),
    ("legacy_ddc_offline_dump", "Conv2D.conv1.3.1600000000000001"): (OTHER, HEADER),
    **{(f"legacy_ddc_{kind}_back", NPY): (EXTRA, BACK) for kind in ("caffe", "tf", "quant")},
    **{(f"legacy_ddc_{kind}_back", "exit code"): (CODE, BACK) for kind in ("caffe", "tf", "quant")},
    ("legacy_ddc_dir", "conv1.0.1600000000000001.pb"): (EXTRA, FOLDER),
    **{("legacy_ddc_offline_numpy", f"{DUMP}.{part}"): (EXTRA, NAMES) for part in PARTS},
    **{("legacy_ddc_offline_numpy", f"nd.{part}"): (GONE, NAMES) for part in PARTS},
    **{("legacy_ddc_sim", f"{DUMP}.{part}"): (EXTRA, SIM) for part in PARTS},
    ("legacy_ddc_sim", "exit code"): (CODE, SIM),
    ("legacy_shape_same", f"{DUMP}.output.0.37x21.npy"): (EXTRA, SAME),
}


class Line(NamedTuple):
    """One command, and the exit code of the vendor's program."""

    label: str
    program: str
    words: list[str]
    code: int


def lines() -> list[Line]:
    pattern = rf"^\[(\w+)\].*\n({'|'.join(MAIN)}) (.*)\nrc=(\d+)"
    found = re.findall(pattern, (CASE / "command.txt").read_text(), re.M)
    return [Line(label, program, words.split(), int(code)) for label, program, words, code in found]


LINES = {line.label: line for line in lines()}
# Its input is what that one wrote.
AFTER = {f"legacy_ddc_{kind}_back": f"legacy_ddc_{kind}_dump" for kind in ("caffe", "tf", "quant")}


def sums_of(label: str) -> dict[str, str]:
    """Name → digest of what the vendor's program wrote."""
    rows = [row.split("  ", 1) for row in (CASE / "expected" / "SHA256SUMS").read_text().splitlines()]
    return {name.split("/out/")[1]: digest for digest, name in rows if name.startswith(f"{label}/out/")}


def digests(folder: Path) -> dict[str, str]:
    files = folder.iterdir() if folder.is_dir() else ()
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


Run = Callable[[str], Path]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    """Run a line in a copy of its case and return the folder that it wrote to."""
    folder = tmp_path / "case"
    shutil.copytree(CASE, folder, ignore=shutil.ignore_patterns("expected"))
    monkeypatch.chdir(folder)

    def go(label: str) -> Path:
        line = LINES[label]
        assert MAIN[line.program](line.words) == 0
        return folder / "expected" / label / "out"

    return go


def test_all_lines_are_here_and_the_list_speaks_of_no_other() -> None:
    assert len(LINES) == 14
    assert {label for label, _ in DIFFERENCES} <= set(LINES)
    assert set(AFTER) <= set(LINES)


@pytest.mark.parametrize("label", LINES)
def test_a_line_of_the_vendors_gives_the_vendors_files(
    label: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    if label in AFTER:
        run(AFTER[label])
    ours, theirs = digests(run(label)), sums_of(label)
    found = dict.fromkeys(theirs.keys() - ours.keys(), GONE) | dict.fromkeys(ours.keys() - theirs.keys(), EXTRA)
    found |= dict.fromkeys((name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]), OTHER)
    found |= {"exit code": CODE} if LINES[label].code else {}
    assert found == {name: what for (known, name), (what, _) in DIFFERENCES.items() if known == label}
    told = capsys.readouterr().err.splitlines()
    assert sum("msdump convert " in line for line in told) == (2 if label in AFTER else 1)


@pytest.mark.parametrize("kind", ["offline_numpy", "sim"])
def test_under_another_name_the_content_is_the_vendors(kind: str, run: Run) -> None:
    ours = digests(run(f"legacy_ddc_{kind}"))
    theirs = {
        name.replace("nd.", f"{DUMP}.", 1): digest for name, digest in sums_of("legacy_ddc_offline_numpy").items()
    }
    assert ours == theirs
    assert len(ours) == 5


@pytest.mark.parametrize("kind", ["caffe", "tf", "quant"])
def test_fault_21_what_was_written_can_be_read_and_is_the_array_that_it_was_made_of(kind: str, run: Run) -> None:
    (dump,) = run(f"legacy_ddc_{kind}_dump").iterdir()
    (output,) = decode(dump.read_bytes())["output"]
    values = np.load(CASE / "npyin" / NPY)
    assert (output["data_type"], output["shape"], output["size"]) == (2, values.shape, values.nbytes)
    assert output["data"] == values.tobytes()
    back = run(f"legacy_ddc_{kind}_back") / NPY
    assert back.read_bytes() == (CASE / "npyin" / NPY).read_bytes()


def test_fault_21_the_dump_of_a_device_can_be_read(run: Run) -> None:
    (dump,) = run("legacy_ddc_offline_dump").iterdir()
    header = decode(dump.read_bytes())
    assert (header["version"], header["op_name"], header["dump_time"]) == (b"2.0", b"conv1", 1600000000000001)
    assert header["output"][0]["data"] == np.load(CASE / "npyin2" / "Conv2D.conv1.3.1600000000000001.0.npy").tobytes()


# The manual's own lines; its folders are made here.
MANUAL = [
    ("-type caffe -target dump -i /home/HwHiAiUser/caffenpyfile -o /home/HwHiAiUser/caffedump", "pool1.0.{time}.pb"),
    ("-type tf -target dump -i /home/HwHiAiUser/tfnpyfile -o /home/HwHiAiUser/tfdump", "pool1.0.{time}.pb"),
    (
        "-target numpy -type offline -i /home/HwHiAiUser/dump -o /home/HwHiAiUser/dumptonumpy",
        "Pooling.pool1.1147.{time}.output.0.npy",
    ),
]


@pytest.mark.parametrize(("line", "file"), MANUAL)
def test_the_manuals_own_lines_run_as_written(line: str, file: str, tmp_path: Path) -> None:
    home, time, values = tmp_path / "home", "1589195081588018", np.arange(6, dtype=np.float32)
    for folder in ("caffenpyfile", "tfnpyfile", "npy"):
        (home / folder).mkdir(parents=True)
        np.save(home / folder / f"pool1.0.{time}.npy", values)
    np.save(home / "npy" / f"Pooling.pool1.1147.{time}.0.npy", values)
    (home / "npy" / f"pool1.0.{time}.npy").unlink()
    made = f"-type offline -target dump -i {home}/npy -o {home}/dump"
    assert dump_data_conversion.main(made.split()) == 0
    words = line.replace("/home/HwHiAiUser", str(home)).split()
    assert dump_data_conversion.main(words) == 0
    (written,) = Path(words[-1]).iterdir()
    assert written.name == file.format(time=time)
    if written.suffix == ".npy":
        assert np.load(written).tolist() == values.tolist()


# From → to, as the manual lists them.
PAIRS = """FRACTAL_NZ NCHW, FRACTAL_NZ ND, HWCN FRACTAL_Z, HWCN NCHW, HWCN NHWC, NC1HWC0 HWCN, NC1HWC0 NCHW,
NC1HWC0 NHWC, NCHW FRACTAL_Z, NCHW NHWC, NHWC FRACTAL_Z, NHWC HWCN, NHWC NCHW"""
SOURCES = {
    "FRACTAL_NZ": "MatMul.nz_2d.5.1.1600000000000005",
    "HWCN": "Const.w_hwcn.13.1.1600000000000013",
    "NC1HWC0": "Conv2D.c5hd_ori_nchw.1.1.1600000000000001",
    "NCHW": "Const.w_nchw.11.1.1600000000000011",
    "NHWC": "Const.w_nhwc.14.1.1600000000000014",
}
# Label of `convert`, whose answer the vendor does not slice for these.
CONVERTED = {
    ("FRACTAL_NZ", "NCHW"): "nz_2d_to_NCHW",
    ("FRACTAL_NZ", "ND"): "nz_2d_to_ND",
    ("HWCN", "FRACTAL_Z"): "w_hwcn_to_FRACTAL_Z",
    ("HWCN", "NCHW"): "w_hwcn_to_NCHW",
    ("HWCN", "NHWC"): "w_hwcn_to_NHWC",
    ("NC1HWC0", "NHWC"): "legacy_shape_5hd",
    ("NCHW", "FRACTAL_Z"): "w_nchw_to_FRACTAL_Z",
    ("NHWC", "FRACTAL_Z"): "w_nhwc_to_FRACTAL_Z",
    ("NHWC", "HWCN"): "w_nhwc_to_HWCN",
    ("NHWC", "NCHW"): "w_nhwc_to_NCHW",
}
PERMUTED = {"HWCN": (2, 3, 1, 0), "NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1)}


@pytest.mark.parametrize("pair", [tuple(pair.split()) for pair in PAIRS.replace("\n", " ").split(", ")])
def test_the_manuals_thirteen_pairs_give_the_vendors_arrays(pair: tuple[str, str], tmp_path: Path) -> None:
    source, wanted = pair
    words = ["-i", str(CASE / "left" / SOURCES[source]), "-format", wanted, "-o", str(tmp_path)]
    assert shape_conversion.main(words) == 0
    (written,) = tmp_path.iterdir()
    if pair in CONVERTED:
        assert digests(tmp_path) == sums_of(CONVERTED[pair])
        return
    # No run of the vendor's holds these; the permutation of one that does.
    values = np.load(CASE.parents[1] / "e_convert" / "expected" / "w_nhwc_to_NCHW.npy")
    if source == "NC1HWC0":
        shape_conversion.main(["-i", words[1], "-format", "NHWC", "-o", str(tmp_path / "nhwc")])
        (other,) = (tmp_path / "nhwc").iterdir()
        values = np.load(other).transpose(0, 3, 1, 2)
        assert values.shape == (2, 32, 5, 7)
    found = np.load(written)
    assert found.tobytes() == np.ascontiguousarray(values.transpose(PERMUTED[wanted])).tobytes()
