"""A user's conversions: which files count, what they get, and what becomes of their mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.layouts.converters import converted, load_converters
from pytest_msdump.core.layouts.device_layout import logical, stored
from pytest_msdump.core.model.tensor import TensorSpec

SHAPE = (2, 19, 5, 7)


class Dumped(ArrayView):
    def __init__(self, values: np.ndarray, memory_format: str, logical_shape, groups: int = 1) -> None:
        super().__init__(np.ascontiguousarray(values))
        self._said = TensorSpec("float32", values.shape, memory_format, logical_shape, groups)

    @property
    def spec(self) -> TensorSpec:
        return self._said


def padded(memory_format: str = "NC1HWC0") -> Dumped:
    values = np.arange(2 * 19 * 5 * 7, dtype=np.float32).reshape(SHAPE)
    return Dumped(stored(values, "NC1HWC0", logical_format="NCHW"), memory_format, SHAPE)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "format_convert" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def values_of(view) -> np.ndarray:
    return view.read(0, view.size).reshape(view.shape)


def test_a_users_conversion_wins_over_ours_and_what_ran_is_told(tmp_path):
    path = write(
        tmp_path,
        "convert_NC1HWC0_to_NCHW.py",
        "import numpy as np\n"
        "MINE = -1\n"
        "def convert(shape_from, shape_to, array):\n"
        "    assert shape_from == (2, 2, 5, 7, 16) and shape_to == (2, 19, 5, 7) and array.shape == (2240,)\n"
        "    return np.full([2, 32, 5, 7], MINE, np.float32)\n",
    )
    write(tmp_path, "__init__.py", "raise RuntimeError('not a conversion, not run')\n")
    write(tmp_path, "convert_NC1HWC0_to_.py", "raise RuntimeError('not a conversion, not run')\n")
    converters, files = load_converters(tmp_path)
    assert files == (path,)
    found = logical(padded(), converters=converters)
    assert found.shape == SHAPE
    assert (values_of(found) == -1).all()
    assert not (values_of(logical(padded())) == -1).any()
    assert logical(padded(), logical_shape=(2, 19, 5, 7), logical_format="NCHW", converters={}).shape == SHAPE


def test_a_format_that_we_do_not_know_can_be_taught(tmp_path):
    write(
        tmp_path,
        "convert_FRACTAL_MINE_to_NCHW.py",
        "def convert(shape_from, shape_to, array):\n"
        "    return array.reshape(shape_from).transpose(0, 1, 4, 2, 3).reshape(2, 32, 5, 7)\n",
    )
    converters, _ = load_converters(tmp_path)
    with pytest.raises(TensorShapeError, match="FRACTAL_MINE"):
        logical(padded("FRACTAL_MINE"))
    found = logical(padded("fractal_mine"), converters=converters)
    assert np.array_equal(values_of(found), np.arange(1330, dtype=np.float32).reshape(SHAPE))
    turned = found.permuted((0, 2, 3, 1))
    assert np.array_equal(values_of(turned), np.arange(1330).reshape(SHAPE).transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise ValueError('no idea')", "ValueError: no idea"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("return list(array)", "returned a list"),
        ("return array", "returned shape"),
        ("return array.reshape(shape_from)", "returned shape"),
        ("return array.reshape(2, 32, 5, 7)[:, :18]", "returned shape"),
        ("return array.reshape(2, 32, 5, 7).astype(complex)", "complex128, which cannot stand for float32"),
        ("return array.reshape(2, 32, 5, 7).astype(object)", "object, which cannot stand for float32"),
    ],
)
def test_a_conversions_mistake_is_that_tensors_error(tmp_path, body, text):
    path = write(tmp_path, "convert_NC1HWC0_to_NCHW.py", f"def convert(shape_from, shape_to, array):\n    {body}\n")
    converters, _ = load_converters(tmp_path)
    with pytest.raises(TensorShapeError) as caught:
        logical(padded(), converters=converters)
    assert text in str(caught.value)
    assert path.name in str(caught.value) or "NC1HWC0 to NCHW" in str(caught.value)


def test_what_a_conversion_returns_is_computed_with_in_the_tensors_own_type(tmp_path):
    write(
        tmp_path,
        "convert_NC1HWC0_to_NCHW.py",
        "def convert(shape_from, shape_to, array):\n    return array.reshape(2, 32, 5, 7).astype('float64')\n",
    )
    converters, _ = load_converters(tmp_path)
    assert logical(padded(), converters=converters).read(0, 5).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("convert_A_to_B.py", "def convert(one, two): ...", "needs a function convert(shape_from, shape_to, array)"),
        ("convert_A_to_B.py", "def convert(one, two, three, four): ...", "needs a function"),
        ("convert_A_to_B.py", "def other(one, two, three): ...", "needs a function"),
        ("convert_A_to_B.py", "convert = zip", "needs a function"),
        ("convert_A_to_FRACTAL_Z.py", "def convert(one, two): ...", "needs a function"),
        ("convert_A_to_B.py", "def convert(", "SyntaxError"),
        ("convert_A_to_B.py", "import sys; sys.exit(1)", "SystemExit"),
        ("convert_A_to_B.py", "1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_one_stops_the_tensors_that_need_it_and_no_others(tmp_path, name, text, why):
    path = write(tmp_path, name, text + "\n")
    converters, files = load_converters(tmp_path)
    assert files == (path,)
    assert logical(padded(), converters=converters).shape == SHAPE
    ((_, wanted),) = converters
    with pytest.raises(TensorShapeError) as caught:
        converted(padded("A"), "A", SHAPE, wanted, converters)
    assert str(path) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "parameters", ["one, two, three", "one, two, three, groups", "one, two, three, groups=1", "*all"]
)
@pytest.mark.parametrize("name", ["FRACTAL_Z", "fracZ", "FRACTAL_Z_C04", "FRACTAL_Z_3D"])
def test_a_conversion_to_fractal_z_takes_the_number_of_groups_or_not(tmp_path, name, parameters):
    body = "[*all]" if parameters == "*all" else "[three, groups]" if "groups" in parameters else "[three]"
    seen = "import numpy as np\nSEEN = []\n"
    text = (
        f"{seen}def convert({parameters}):\n    three = ({body})\n    return np.zeros(SHAPE, np.float32) + len(three)\n"
    )
    write(tmp_path, f"convert_A_to_{name}.py", text.replace("SHAPE", str(SHAPE)))
    converters, _ = load_converters(tmp_path)
    ((_, wanted),) = converters
    found = converted(padded("A"), "A", SHAPE, wanted, converters)
    assert found.read(0, 1)[0] == {"*all": 4, "one, two, three": 1}.get(parameters, 2)


def test_a_folder_that_is_no_folder_of_code_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        load_converters(tmp_path / "gone")
    (tmp_path / "dump").mkdir()
    with (tmp_path / "dump" / "large").open("wb") as file:
        file.truncate(2**20)
    with pytest.raises(ConfigError, match="1 MiB or more"):
        load_converters(tmp_path)


def test_too_many_files_and_folders_too_deep_are_refused(tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1001):
        (many / str(number)).touch()
    with pytest.raises(ConfigError, match="more than 1000 files"):
        load_converters(many)
    deep = tmp_path / "deep"
    (deep / Path(*"d" * 51)).mkdir(parents=True)
    with pytest.raises(ConfigError, match="deeper than 50"):
        load_converters(deep)
    assert load_converters(tmp_path / "deep" / "d") == ({}, ())


def test_a_link_that_leads_out_of_the_folder_is_not_run(tmp_path):
    outside = tmp_path / "convert_ND_to_NCHW.py"
    outside.write_text("raise SystemExit(3)\ndef convert(a, b, c): return c\n")
    folder = tmp_path / "mine" / "format_convert"
    folder.mkdir(parents=True)
    (folder / outside.name).symlink_to(outside)
    with pytest.raises(ConfigError, match="leads out of"):
        load_converters(tmp_path / "mine")
