"""`msdump convert --to dump`: what is refused, what is left out, and what one file lacks stops no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capabilities.convert.independent_dump import decode

from pytest_msdump import cli
from pytest_msdump.capabilities.convert.dump_files import array_name

TIME = 1600000000000001
FAILED = "convert_failed_file_list.txt"


def save(path: Path, values: object = (1.0, 2.0)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.asarray(values, np.float32) if isinstance(values, tuple) else values)
    return path


def convert(*words: object) -> int:
    return cli.main(["convert", *map(str, words), "--to", "dump"])


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_missing_or_there_twice_stops_no_other_file(tmp_path, capsys):
    folder = tmp_path / "in"
    save(folder / f"A.gap.1.{TIME}.output.1.npy")
    save(folder / f"A.twice.1.{TIME}.output.0.npy")
    save(folder / f"A.twice.1.{TIME}.output.0.1x2.npy")
    save(folder / f"A.good.1.{TIME}.output.0.npy")
    save(folder / f"A.good.1.{TIME}.input.0.npy")
    (folder / f"A.cut.1.{TIME}.output.0.npy").write_bytes(b"\x93NUMPY")
    assert convert(folder, "--out", tmp_path / "out") == 1
    assert names(tmp_path / "out") == [f"A.good.1.{TIME}", FAILED]
    told = capsys.readouterr()
    assert told.out.startswith("wrote 1 of 4 files into ")
    listed = (tmp_path / "out" / FAILED).read_text()
    for reason in (
        f"output 0 of A.gap.1.{TIME} is not there, but A.gap.1.{TIME}.output.1.npy is",
        f"A.twice.1.{TIME}.output.0.1x2.npy and A.twice.1.{TIME}.output.0.npy are both output 0",
        "cut off inside its header",
    ):
        assert reason in listed
        assert reason in told.err
    (folder / f"A.cut.1.{TIME}.output.0.npy").unlink()
    assert convert(folder / f"A.good.1.{TIME}.output.0.npy", "--out", tmp_path / "out") == 0
    assert names(tmp_path / "out") == [f"A.good.1.{TIME}"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--dtype", "float17"], "unknown data type 'float17'"),
        (["--dtype", "uint4"], "no number for the data type uint4"),
        (["--from-format", "NCWH"], "unknown memory format 'NCWH'"),
        (["--memory-format", "FRACTAL_DECONV"], "--memory-format: unknown memory format 'FRACTAL_DECONV'"),
        (["--groups", "0"], "--groups 0"),
        (["--shape", "1,a"], "--shape 1,a"),
        (["--code", "x"], "give --memory-format, too"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words, text, tmp_path, capsys):
    source = save(tmp_path / f"conv1.0.{TIME}.npy")
    assert convert(source, "--out", tmp_path / "out", *words) == 4
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--dtype", "bfloat16"], "0.1 is none that bfloat16 has"),
        (["--dtype", "int8"], "none that int8 has"),
        (["--shape", "3,2"], "not a tensor of shape (3, 2): it has 2 elements"),
        (["--from-format", "NC1HWC0"], "NC1HWC0 has 5 stored axes"),
    ],
)
def test_what_the_array_is_not_is_a_failure(words, text, tmp_path, capsys):
    source = save(tmp_path / f"conv1.0.{TIME}.npy", (0.1, 2.0))
    assert convert(source, "--out", tmp_path / "out", *words) == 1
    assert text in capsys.readouterr().err
    assert names(tmp_path / "out") == [FAILED]


def test_a_logical_shape_that_the_stored_one_cannot_hold_is_a_failure(tmp_path, capsys):
    source = save(tmp_path / f"A.a.1.{TIME}.0.npy", np.zeros((2, 2, 5, 7, 16), np.float16))
    words = (source, "--from-format", "NC1HWC0", "--out", tmp_path / "out", "--shape")
    assert convert(*words, "2,33,5,7") == 1
    assert "cannot hold a tensor of shape (2, 33, 5, 7)" in capsys.readouterr().err
    assert convert(*words, "2,5,7,19") == 0
    assert decode((tmp_path / "out" / f"A.a.1.{TIME}").read_bytes())["output"][0]["original_shape"] == (2, 5, 7, 19)


def test_a_dump_stays_one_in_another_format_and_is_never_its_own_target(tmp_path, capsys):
    source = save(tmp_path / "in" / f"A.a.1.{TIME}.0.npy", np.arange(24, dtype=np.float16).reshape(1, 2, 3, 4))
    assert convert(source, "--from-format", "NCHW", "--memory-format", "NHWC", "--out", tmp_path / "first") == 0
    first = tmp_path / "first" / f"A.a.1.{TIME}"
    assert convert(first, "--memory-format", "NCHW", "--out", tmp_path / "second") == 0
    (output,) = decode((tmp_path / "second" / first.name).read_bytes())["output"]
    assert (output["shape"], output.get("format", 0)) == ((1, 2, 3, 4), 0)
    assert output["data"] == np.load(source).tobytes()
    before = first.read_bytes()
    assert convert(first, "--memory-format", "NCHW", "--out", tmp_path / "first") == 4
    assert "is what is to be converted" in capsys.readouterr().err
    assert first.read_bytes() == before


def test_code_of_a_user_runs_when_its_folder_is_named(tmp_path, capsys):
    (tmp_path / "code" / "format_convert").mkdir(parents=True)
    script = tmp_path / "code" / "format_convert" / "convert_NCHW_to_NHWC.py"
    script.write_text("def convert(shape_from, shape_to, array):\n    return array.reshape(shape_from) + 1\n")
    source = save(tmp_path / f"A.a.1.{TIME}.0.npy", np.zeros((1, 2, 3, 4), np.float32))
    common = (source, "--from-format", "NCHW", "--memory-format", "NHWC", "--out", tmp_path / "out")
    assert convert(*common) == 0
    dump = tmp_path / "out" / f"A.a.1.{TIME}"
    assert not any(decode(dump.read_bytes())["output"][0]["data"])
    assert convert(*common, "--code", tmp_path / "code") == 0
    assert f"ran user code: {script}" in capsys.readouterr().err
    assert decode(dump.read_bytes())["output"][0]["data"] == np.ones(24, np.float32).tobytes()


def test_names_that_were_shortened_are_whole_again_and_lead_nowhere_else(tmp_path):
    folder = tmp_path / "in"
    save(folder / "1.npy")
    save(folder / "2.npy")
    (folder / "mapping.csv").write_text(f"1.npy,conv1.0.{TIME}.npy\n2.npy,../../evil.0.{TIME}.npy\n")
    assert convert(folder, "--out", tmp_path / "out") == 0
    assert names(tmp_path / "out") == [f"conv1.0.{TIME}.pb"]
    assert array_name(f"../../evil.0.{TIME}.npy", "caffe") is None
    assert not list(tmp_path.rglob("evil*"))
