"""What runtimes save, held against what the libraries that wrote it say is in it (`make.py` beside the data)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_dump, open_view
from pytest_msdump.core.dumps.base import index_dump
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError

DATA = Path(__file__).parents[2] / "data"
# Field numbers and wire types of TensorProto, as bytes: dims, data_type FLOAT, raw_data, name.
DIMS, FLOAT, RAW, NAME = b"\x08", b"\x10\x01", b"\x4a", b"\x42"


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def field(tag: bytes, content: bytes) -> bytes:
    return tag + bytes([len(content)]) + content


def test_every_data_type_of_onnx_is_read_as_onnx_reads_it() -> None:
    dump, values = index_dump(DATA / "onnx/sets"), np.load(DATA / "onnx/values.npz")
    assert {ref.key.op.at.iteration for ref in dump.refs} == {0, 1}
    assert sorted(ref.key.op.name for ref in dump.refs) == sorted([*values, *values])
    for ref in dump.refs:
        view = open_view(ref)
        read = view.read(0, view.size).reshape(view.shape)
        np.testing.assert_array_equal(read.astype(np.complex128), values[ref.key.op.name], err_msg=str(ref.key))


def test_numbers_that_are_not_packed_or_in_several_pieces_are_read(tmp_path: Path) -> None:
    one, two = np.array([1.5], "<f4").tobytes(), np.array([2.5], "<f4").tobytes()
    dims = DIMS + b"\x02"
    for number, floats in enumerate((b"\x25" + one + b"\x25" + two, field(b"\x22", one) + field(b"\x22", two))):
        path = written(tmp_path / str(number) / "input_0.pb", dims + FLOAT + floats)
        assert open_dump(path).read("input_0").tolist() == [1.5, 2.5]
    # int64, not packed, one of them negative.
    path = written(tmp_path / "x.tensorproto", dims + b"\x10\x07" + b"\x38\x05" + b"\x38" + b"\xff" * 9 + b"\x01")
    assert open_dump(path).read("x").tolist() == [5, -1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (FLOAT + field(b"\x6a", b"\x0a\x08location"), "lie in another file"),
        (FLOAT + b"\x70\x01", "lie in another file"),
        (b"\x10\x08" + field(b"\x32", b"text"), "holds texts"),
        (DIMS + b"\x02" + FLOAT, "has no numbers"),
        (DIMS + b"\x02" + FLOAT + field(RAW, b"1234"), "4 bytes of numbers, and its type and shape need 8"),
        (b"\x10\x1b" + field(RAW, b"1"), "data type 27"),
        (FLOAT + field(b"\x1a", b"\x08\x00"), "a segment of a tensor, or a sequence"),
        (b"", "is empty, cut off, or no TensorProto"),
        (DIMS + b"\xff" * 9 + b"\x01" + FLOAT + field(RAW, b"1234"), "is none of a tensor"),
    ],
)
def test_a_tensor_that_cannot_be_read_says_why(content: bytes, why: str, tmp_path: Path) -> None:
    written(tmp_path / "input_0.pb", content)
    with pytest.raises(TensorFileError, match=why):
        open_dump(tmp_path).read("input_0")


def test_names_that_several_tensors_have_are_left_for_those_of_the_files(tmp_path: Path) -> None:
    tensor = FLOAT + field(NAME, b"x") + field(RAW, b"1234")
    for name in ("output_0.pb", "output_1.pb"):
        written(tmp_path / name, tensor)
    written(tmp_path / "output_2.pb", FLOAT + field(NAME, b"y") + field(RAW, b"1234"))
    assert sorted(ref.key.op.name for ref in index_dump(tmp_path).refs) == ["output_0", "output_1", "y"]


def test_a_pb_that_is_a_model_is_no_tensor(tmp_path: Path) -> None:
    # A SavedModel of TensorFlow: a version, and a message where a tensor has its type.
    written(tmp_path / "saved_model.pb", b"\x08\x01" + field(b"\x12", b"\x0a\x00"))
    with pytest.raises(UnknownDumpFormatError):
        index_dump(tmp_path)


def test_results_of_polygraphy_are_read_as_numpy_has_them() -> None:
    values = np.load(DATA / "polygraphy/values.npz")
    dump = index_dump(DATA / "polygraphy/results.json")
    shown = {"onnxrt-runner": "onn", "trt-runner": "trt"}
    found = {f"{shown[ref.key.op.at.net]} {ref.key.op.at.iteration} {ref.key.op.name}": ref for ref in dump.refs}
    assert found.keys() == values.keys()
    for name, ref in found.items():
        view = open_view(ref)
        np.testing.assert_array_equal(view.read(0, view.size).reshape(view.shape), values[name])
    # In the order of the outputs.
    assert [ref.key.op.name for ref in dump.refs[:4]] == ["/layers.0/Relu_output_0", "boxes", 'odd " name', "scalar"]


def test_an_array_of_polygraphy_is_read_in_any_range() -> None:
    ref = next(one for one in index_dump(DATA / "polygraphy/results.json").refs if one.key.op.name == "boxes")
    view = open_view(ref)
    whole = view.read(0, view.size).copy()
    for start in range(20):
        assert view.read(start, start + 7).tolist() == whole[start : start + 7].tolist()


def test_inputs_of_polygraphy_are_iterations() -> None:
    refs = index_dump(DATA / "polygraphy/inputs.json").refs
    assert [(ref.key.op.name, ref.key.op.at.iteration) for ref in refs] == [("x", 0), ("x", 1)]


def compared(folder: Path, side: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (folder / "msdump.toml").write_text(f'[msdump]\nleft = {{ path = "left", {side} }}\nright = "right"\n')
    code = main(["compare", "--config", str(folder / "msdump.toml"), f"--report-dir={folder}/report"])
    return code, " ".join(" ".join(capsys.readouterr()).split())


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for number in (0, 1):
        written(tmp_path / f"left/Result_{number}/conv.raw", (array + number).tobytes())
        written(tmp_path / f"left/Result_{number}/ids.bin", np.arange(5).tobytes())
        (tmp_path / f"right/{number}").mkdir(parents=True)
        np.save(tmp_path / f"right/{number}/conv.npy", array + number)
        np.save(tmp_path / f"right/{number}/ids.npy", np.arange(5))
    return tmp_path


@pytest.mark.parametrize(
    ("side", "code", "said"),
    [
        ('dtype = { conv = "float32", "*" = "int64" }', 0, "4 pass"),
        ('dtype = { conv = "fp32", ids = "int64" }, shape = { conv = [2, 3, 4] }', 0, "4 pass"),
        ('dtype = { conv = "float32" }', 1, "the suite says no dtype of ids"),
        (
            'dtype = { conv = "float32", "*" = "int64" }, shape = [2, 3, 4]',
            1,
            "has 40 bytes, which cannot be (2, 3, 4)",
        ),
        ('dtype = { conv = "float32", ids = "int64" }, shape = { conv = [2, 3, 5] }', 1, "has 96 bytes"),
        ('dtype = "int64", shape = { cnv = [1] }', 4, "did you mean 'conv'?"),
        ('dtype = "float3"', 4, "did you mean 'float32'?"),
        ("shape = [1]", 4, "need dtype, too"),
        ('dtype = "float32", shape = [-1]', 4, "a whole number"),
    ],
)
def test_bytes_are_what_the_suite_says(side: str, code: int, said: str, raw: Path, capsys) -> None:
    found = compared(raw, side, capsys)
    assert found[0] == code
    assert said in found[1]


def test_bytes_of_which_nothing_is_said_are_refused_with_what_to_write(raw: Path, capsys) -> None:
    assert main(["compare", str(raw / "left"), str(raw / "right")]) == 4
    said = capsys.readouterr().err
    assert "bytes without a header" in said
    # What it says to write is a side that works, once it is that of a file with such numbers.
    written = said.partition(" = {")[2].partition("}")[0]
    (raw / "left/Result_0/ids.bin").unlink()
    (raw / "left/Result_1/ids.bin").unlink()
    assert compared(raw, written.partition(",")[2], capsys)[0] == 0
