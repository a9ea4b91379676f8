"""`msdump convert`: names, kinds, what is refused, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference
from dumps import dumpmade
from semantics import ascend_made as made

from pytest_msdump import open_dump
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_view

RNG = np.random.default_rng(61)
HALF = RNG.standard_normal((2, 19, 5, 7)).astype(np.float16)
DATA = Path(__file__).parents[1] / "data"
FAILED = "convert_failed_file_list.txt"


def convert(*words: object) -> int:
    return main(["convert", *map(str, words)])


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def conv(tmp_path) -> Path:
    return made.device(
        tmp_path / "dump", "Conv2D", "conv", made.nc1hwc0(HALF), memory_format="NC1HWC0", original=HALF.shape
    )


@pytest.mark.parametrize(
    ("number", "name", "width"), [(27, "bfloat16", 2), (34, "float8_e5m2", 1), (33, "hifloat8", 1), (29, "uint1", 1)]
)
@pytest.mark.parametrize("to", ["bin", "msnpy"])
def test_types_that_numpy_lacks_come_back_as_what_they_were(to, number, name, width, tmp_path):
    raw = RNG.integers(0, 100, (3, 8), dtype=np.uint8 if width == 1 else np.uint16)
    shape = raw.shape if number != 29 else (3, 64)
    header = dumpmade.message(outputs=[dumpmade.op_output(number, shape, raw.nbytes)])
    file = dumpmade.put(tmp_path / "dump", f"Op.a.1.1.{dumpmade.TIME}", dumpmade.dump2(header, raw.tobytes()))
    assert convert(file, "--out", tmp_path / "out", "--to", to, "--memory-format", "ND") == 0
    again = open_dump(tmp_path / "out")
    before, after = open_dump(file.parent).open("a"), again.open("a")
    assert (after.dtype, after.shape) == (name, shape)
    np.testing.assert_array_equal(after.read(0, after.size), before.read(0, before.size))
    if to == "bin":
        (path,) = (tmp_path / "out").iterdir()
        assert path.read_bytes() == raw.tobytes()


def test_inputs_outputs_buffers_and_workspaces_have_their_bytes(tmp_path):
    inputs = [dumpmade.op_input(1, (2,), 8)]
    outputs = [dumpmade.op_output(1, (3,), 12)]
    header = dumpmade.message(inputs=inputs, outputs=outputs, buffers=[3, 2]) + dumpmade.chunk(8, dumpmade.number(3, 4))
    content = dumpmade.dump2(header, np.arange(5, dtype="<f4").tobytes(), b"abc", b"de", b"wxyz")
    file = dumpmade.put(tmp_path / "dump", f"Op.a.1.1.{dumpmade.TIME}", content)
    assert convert(file, "--out", tmp_path / "out") == 0
    out = tmp_path / "out"
    np.testing.assert_array_equal(np.load(out / f"{file.name}.input.0.npy"), [0, 1])
    np.testing.assert_array_equal(np.load(out / f"{file.name}.output.0.npy"), [2, 3, 4])
    rest = [(out / f"{file.name}.{part}.bin").read_bytes() for part in ("l1buffer.0", "l1buffer.1", "space.0")]
    assert rest == [b"abc", b"de", b"wxyz"]
    assert len(names(out)) == 5
    assert [ref.key.address for ref in open_dump(out).refs] == ["a:input:0", "a:output:0"]
    assert not open_dump(out).dump.unexplained
    assert convert(file, "--out", tmp_path / "few", "--io", "input") == 0
    assert names(tmp_path / "few") == [f"{file.name}.input.0.npy"]


def test_a_buffer_that_is_cut_off_fails_and_the_tensors_stay(tmp_path):
    header = dumpmade.message(outputs=[dumpmade.op_output(1, (1,), 4)], buffers=[9])
    file = dumpmade.put(tmp_path / "dump", f"Op.a.1.1.{dumpmade.TIME}", dumpmade.dump2(header, b"\0" * 4, b"abc"))
    assert convert(file, "--out", tmp_path / "out") == 1
    assert names(tmp_path / "out") == [f"{file.name}.output.0.npy", FAILED]
    listed = (tmp_path / "out" / FAILED).read_text().splitlines()
    assert listed[0] == f"{file},l1buffer:0"
    assert "3 of its 9 bytes are there" in listed[1]


# -- trees and references ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", ["g4", "g5", "g6_npy", "g7_bin", "g7b_npy", "mixed", "converted_shape", "g1", "g1b"])
def test_every_tensor_of_a_tree_is_there_again_with_its_values(tree, tmp_path):
    source = open_dump(DATA / "generations" / tree)
    assert convert(DATA / "generations" / tree, "--out", tmp_path / "out", "--jobs", 1) == 0
    written = list((tmp_path / "out").rglob("*.npy"))
    assert len(written) == len({(ref.source, ref.key.io, ref.key.slot) for ref in (*source.refs, *source.dump.older)})
    values = sorted(np.load(path).tobytes() for path in written)
    expected = []
    for ref in (*source.refs, *source.dump.older):
        view = open_view(ref)
        expected.append(view.read(0, view.size).tobytes())
        view.close()
    assert values == sorted(expected)


def test_an_array_is_brought_to_a_format_when_somebody_says_what_it_is_in(tmp_path, capsys):
    write_reference(tmp_path / "reference", {"conv": made.nc1hwc0(HALF)})
    words = (tmp_path / "reference", "--out", tmp_path / "out", "--memory-format", "NHWC")
    assert convert(*words) == 1
    assert "ND does not say what its axes are" in capsys.readouterr().err
    assert convert(*words, "--from-format", "NC1HWC0", "--shape", "2,5,7,19") == 0
    (path,) = (tmp_path / "out").glob("*.npy")
    np.testing.assert_array_equal(np.load(path), HALF.transpose(0, 2, 3, 1))
    # The list of the first time is gone with what it told of.
    assert not (tmp_path / "out" / FAILED).exists()


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_name_that_is_too_long_is_found_again_by_mapping_csv(tmp_path):
    long = f"Add.{'n' * 222}.1.1.{dumpmade.TIME}"
    for number in range(2):
        folder = tmp_path / f"dump{number}"
        name = long.replace("Add", f"Add{number}")
        file = dumpmade.put(folder, name, dumpmade.one_output(np.full(2, number, "<f4")))
        assert convert(file, "--out", tmp_path / "out") == 0
    rows = (tmp_path / "out" / "mapping.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows] == [f"{long.replace('Add', f'Add{n}')}.output.0.npy" for n in range(2)]
    assert all(len(row.split(",")[0]) == 36 for row in rows)
    assert sorted(ref.key.op.op_type for ref in open_dump(tmp_path / "out").refs) == ["Add0", "Add1"]


def test_two_sources_of_one_name_are_refused_but_for_the_first(tmp_path):
    name = f"Op.a.1.1.{dumpmade.TIME}"
    files = [dumpmade.put(tmp_path / f"{n}", name, dumpmade.one_output(np.full(1, n, "<f4"))) for n in range(2)]
    assert convert(*files, files[0], "--out", tmp_path / "out") == 1
    assert np.load(tmp_path / "out" / f"{name}.output.0.npy").tolist() == [0]
    listed = (tmp_path / "out" / FAILED).read_text()
    assert listed.splitlines()[0] == str(files[1])
    assert f"is made of {files[0]} already" in listed
    assert convert(*files, "--out", tmp_path / "npz", "--to", "npz") == 1
    assert names(tmp_path / "npz") == [f"{name}.npz", FAILED]


def test_a_source_is_never_written_over(tmp_path):
    write_reference(tmp_path / "reference", {"conv": HALF})
    (file,) = (tmp_path / "reference").iterdir()
    before = file.read_bytes()
    for source in (file, Path(os.path.relpath(file))):
        assert convert(source, "--out", tmp_path / "reference") == 1
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "reference")
    assert convert(file, "--out", link) == 1
    assert file.read_bytes() == before
    assert "stays as it is" in (tmp_path / "reference" / FAILED).read_text()


def test_links_at_a_targets_place_are_replaced_not_followed(conv, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{conv.name}.output.0.npy").symlink_to(precious)
    assert convert(conv, "--out", out) == 0
    assert precious.read_text() == "kept"
    assert not (out / f"{conv.name}.output.0.npy").is_symlink()


# -- a user's code ----------------------------------------------------------------------------------------------------


def test_a_users_function_gets_both_shapes_and_flat_values_and_wins(conv, tmp_path, capsys):
    folder = tmp_path / "code" / "format_convert"
    folder.mkdir(parents=True)
    file = folder / "convert_NC1HWC0_to_NCHW.py"
    file.write_text(
        "import numpy as np\n"
        "def convert(shape_from, shape_to, array):\n"
        "    assert tuple(shape_from) == (2, 2, 5, 7, 16) and tuple(shape_to) == (2, 19, 5, 7)\n"
        "    assert array.shape == (2240,)\n"
        "    return np.full((2, 32, 5, 7), 7, array.dtype)\n"
    )
    words = (conv, "--out", tmp_path / "out", "--memory-format", "NCHW")
    assert convert(*words) == 0
    (path,) = (tmp_path / "out").iterdir()
    np.testing.assert_array_equal(np.load(path), HALF)
    assert convert(*words, "--code", tmp_path / "code") == 0
    assert str(file) in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(path), np.full((2, 19, 5, 7), 7, np.float16))


# -- what cannot be meant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["gone"], "gone: no such directory or file"),
        (["dump", "--memory-format", "NCHV"], "--memory-format: unknown memory format 'NCHV'; did you mean 'NCHW'?"),
        (["dump", "--from-format", "x"], "--from-format: unknown memory format 'x'"),
        (["dump", "--shape", "2,3"], "give --memory-format"),
        (["dump", "--code", "."], "give --memory-format"),
        (["dump", "--code", ".", "--memory-format", "ND"], "holds no format_convert"),
        (["dump", "--shape", "2,-3", "--memory-format", "ND"], "--shape 2,-3: give lengths"),
        (["dump", "--select", "nobody"], "nothing was selected"),
        (["dump", "--io", "input"], "nothing was selected"),
        (["dump", "--jobs", "0"], "--jobs 0: give a number from 1 to 256"),
        (["dump", "--to", "pt"], "invalid choice: 'pt'"),
        (["dump", "--out", "dump/out"], "lies in dump"),
        (["dump", "--out", "dump"], "lies in dump"),
        (["dump", "--out", "dump/Op"], "lies in dump"),
        (["dump", "--out", "file/out"], "cannot be made"),
        (["notes"], "no known format has names like"),
    ],
)
def test_a_call_that_cannot_be_meant_is_one_line_and_4(words, line, conv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("")
    assert convert(*([] if "--out" in words else ["--out", "out"]), *words) == 4
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert names(conv.parent) == [conv.name]


# -- what a dump may not do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../escaped.1.1.1600000000000009", "a/../../b.c.1.1.1600000000000009", ".."])
def test_a_mapping_leads_no_file_out_of_the_output_folder(name, tmp_path):
    write_reference(tmp_path / "dump", {"conv": HALF})
    dumpmade.put(tmp_path / "ascend", f"Op.a.1.1.{dumpmade.TIME}", dumpmade.one_output(np.ones(2, "<f4")))
    dumpmade.put(tmp_path / "ascend", "123", dumpmade.one_output(np.ones(2, "<f4")))
    for folder in (tmp_path / "dump", tmp_path / "ascend"):
        rows = "".join(f"{path.name},{name}\n" for path in folder.iterdir())
        (folder / "mapping.csv").write_text(rows)
        out = tmp_path / "deep" / "out"
        assert convert(folder, "--out", out) == 0
        assert {path.parent for path in (tmp_path / "deep").rglob("*.npy")} == {out}
    assert not list(tmp_path.glob("*escaped*"))


def test_a_line_break_in_a_name_forges_no_line_of_the_list(tmp_path, capsys):
    file = dumpmade.put(tmp_path / "dump", f"Op.a\nforged.1.1.{dumpmade.TIME}", b"broken")
    assert convert(file.parent, "--out", tmp_path / "out") == 1
    lines = (tmp_path / "out" / FAILED).read_text().splitlines()
    assert len(lines) == 2
    assert "a\\nforged" in lines[0]
    assert capsys.readouterr().err.count("\n") == 2


def test_a_shape_is_for_one_file(conv, tmp_path, capsys):
    made.device(conv.parent, "Conv2D", "other", made.nc1hwc0(HALF), memory_format="NC1HWC0")
    words = ("--out", tmp_path / "out", "--memory-format", "NCHW", "--shape", "2,19,5,7")
    assert convert(conv.parent, *words) == 4
    assert "--shape is for one file, and there are 2" in capsys.readouterr().err
