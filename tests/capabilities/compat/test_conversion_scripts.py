"""`shape_conversion` and `dump_data_conversion`: options, a user's code, what is refused, what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dumps import dumpmade

from pytest_msdump.capabilities.compat import dump_data_conversion, shape_conversion

CASE = Path(__file__).parents[2] / "data" / "ascend_golden" / "e_convert"
BLOCKED = CASE / "left" / "Conv2D.c5hd_ori_nchw.1.1.1600000000000001"
PLAIN = CASE / "left" / "Add.nd.19.1.1600000000000019"
TIME = 1600000000000001

Shape = Callable[..., int]


@pytest.fixture
def shape(tmp_path: Path) -> Shape:
    def run(file: Path, memory_format: str, *words: str) -> int:
        return shape_conversion.main(["-i", str(file), "-format", memory_format, "-o", str(tmp_path / "out"), *words])

    return run


def written(tmp_path: Path) -> dict[str, np.ndarray]:
    folder = tmp_path / "out"
    return {path.name: np.load(path) for path in folder.iterdir()} if folder.exists() else {}


def test_kept_padding_is_said_with_the_line_that_leaves_it_out(shape, tmp_path, capsys):
    assert shape(BLOCKED, "NCHW") == 0
    assert written(tmp_path)[f"{BLOCKED.name}.output.0.2x32x5x7.npy"].shape == (2, 32, 5, 7)
    told = capsys.readouterr().err
    assert f"without the padding: msdump convert {BLOCKED} --out" in told
    assert "--memory-format NCHW --select '*:output:0'" in told


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-index", "9"], "-index 9: "),
        (["-index", "-1"], "-index -1: give the number of a tensor"),
        (["-tensor", "outputs"], "did you mean 'output'"),
        (["-shape", "0,1"], "greater than 0"),
        (["-shape", "1x2"], "separated by commas"),
        (["-custom", "nowhere"], "there is no such folder"),
        (["-group", "2"], "unknown option '-group'"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_4(shape, words, text, tmp_path, capsys):
    assert shape(BLOCKED, "NCHW", *words) == 4
    told = capsys.readouterr().err
    assert text in told
    assert told.count("\n") == 1
    assert not written(tmp_path)


@pytest.mark.parametrize(
    ("file", "memory_format", "code", "text"),
    [
        (BLOCKED, "XYZ", 4, "unknown memory format 'XYZ'"),
        (BLOCKED, "FRACTAL_DECONV", 1, "convert_NC1HWC0_to_FRACTAL_DECONV.py"),
        (BLOCKED, "NDC1HWC0", 1, "NDC1HWC0"),
        (PLAIN, "NCHW", 1, "ND"),
        (CASE / "left" / "nothing", "NCHW", 4, "no such file"),
        (CASE / "command.txt", "NCHW", 1, "is not an Ascend dump"),
    ],
)
def test_what_cannot_be_converted_says_why(shape, file, memory_format, code, text, tmp_path, capsys):
    assert shape(file, memory_format) == code
    assert text in capsys.readouterr().err
    assert not written(tmp_path)


# -- code of a user ---------------------------------------------------------------------------------------------------


@pytest.fixture
def custom(tmp_path: Path) -> Callable[[str, str], list[str]]:
    def write(name: str, text: str) -> list[str]:
        folder = tmp_path / "custom" / "format_convert"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"convert_{name}.py").write_text(text)
        return ["-custom", str(tmp_path / "custom")]

    return write


def test_to_fractal_z_gets_the_number_of_groups(shape, custom, tmp_path):
    flag = custom("NCHW_to_FRACTAL_Z", "def convert(a, b, array, groups):\n    return array[:groups]\n")
    (weight,) = (CASE / "left").glob("Const.w_nchw_group4.*")
    assert shape(weight, "FRACTAL_Z", *flag) == 0
    assert list(written(tmp_path)) == [f"{weight.name}.output.0.4.npy"]


@pytest.mark.parametrize(("header", "number"), [("LOOKUP_KEYS", 21), ("DECONV_SP_STRIDE8_TRANS", 15)])
def test_formats_that_only_code_knows_are_spelled_as_the_manual_does(header, number, shape, custom, tmp_path):
    values = np.arange(6, dtype=np.float32)
    output = dumpmade.op_output(dumpmade.FLOAT, values.shape, values.nbytes, memory_format=number)
    file = dumpmade.put(tmp_path, f"A.a.1.{TIME}", dumpmade.dump2(dumpmade.message(outputs=[output]), values.tobytes()))
    words = custom(f"{header}_to_BN_WEIGHT", "def convert(a, b, array):\n    return array[::-1]\n")
    assert shape(file, "BN_WEIGHT", *words) == 0
    (array,) = written(tmp_path).values()
    assert array.tolist() == values[::-1].tolist()


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("def convert(a, b, c):\n    raise KeyError('x')\n", 1, "raised KeyError"),
        ("def convert(a, b, c):\n    return [1]\n", 1, "returned a list"),
        ("import numpy\ndef convert(a, b, c):\n    return numpy.array(['x'])\n", 1, "not numbers"),
        ("def convert(a, b):\n    return a\n", 1, "needs a function convert("),
        ("1 / 0\n", 1, "ZeroDivisionError"),
    ],
)
def test_code_that_fails_is_told_of_in_one_line(text, code, reason, shape, custom, tmp_path, capsys):
    assert shape(BLOCKED, "NCHW", *custom("NC1HWC0_to_NCHW", text)) == code
    told = capsys.readouterr().err
    assert reason in told
    assert "Traceback" not in told
    assert not written(tmp_path)


# -- dump_data_conversion ---------------------------------------------------------------------------------------------


def data(kind: str, target: str, source: object, out: object) -> int:
    return dump_data_conversion.main(["-type", kind, "-target", target, "-i", str(source), "-o", str(out)])


@pytest.mark.parametrize(
    ("kind", "target", "source", "text"),
    [
        ("torch", "dump", "npyin", "-type torch: is not known"),
        ("tf", "npy", "npyin", "-target npy: is not known"),
        ("tf", "dump", "nowhere", "nowhere"),
        ("offline", "dump", f"left/{PLAIN.name}", "-target dump reads .npy files"),
        ("tf", "numpy", f"npyin/conv1.0.{TIME}.npy", "-target numpy dump files"),
        ("offline", "dump", "npyin", "give OP_TYPE.OP.TASK"),
        ("caffe", "dump", "npyin2", "give OP.INDEX.TIME.npy"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind, target, source, text, tmp_path, capsys):
    assert data(kind, target, CASE / source, tmp_path / "out") == 4
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
