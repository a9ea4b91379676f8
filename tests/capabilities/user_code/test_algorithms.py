"""A user's own algorithms: what they are given, what they may return, and that no failure of theirs is ours."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_msdump.capabilities.user_code.algorithms import AlgorithmArguments, load_algorithms, run_algorithms
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.comparison import CustomResult

GOOD = "def compare(left, right, args):\n    return str(abs(left - right).sum()), 'sum'\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "algorithm").mkdir()
    return tmp_path


def write(folder, name, text=GOOD):
    path = folder / "algorithm" / f"alg_{name}.py"
    path.write_text(text, "utf-8")
    return path


def run(folder, left, right, **arguments):
    return run_algorithms(
        load_algorithms(folder),
        ArrayView(left),
        ArrayView(right),
        files=(folder / "l.bin", folder / "r.npy"),
        arguments=arguments,
    )


def test_names_are_those_of_the_files_and_in_their_order(folder):
    write(folder, "Zeta")
    write(folder, "Alpha")
    (folder / "algorithm" / "__init__.py").write_text("raise SystemExit('never run')", "utf-8")
    (folder / "algorithm" / "notes.py").write_text("raise SystemExit('never run')", "utf-8")
    assert list(load_algorithms(folder)) == ["Alpha", "Zeta"]


def test_two_texts_come_back_as_they_are(folder):
    write(folder, "Sum")
    found = run(folder, np.float32([[1, 2], [3, 4]]), np.float32([[1, 2], [3, 6]]))
    assert found == {"Sum": CustomResult("2.0", "sum")}


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (np.uint8([1]), np.uint8([2]), "float32 float32 (1,)"),
        (np.float16([[1], [2]]), np.float32([[1], [2]]), "float32 float32 (2,)"),
        (np.int64([1]), np.float64([2]), "float64 float64 (1,)"),
        (np.complex64([1]), np.float32([2]), "complex64 float32 (1,)"),
        (np.bool_([True]), np.bool_([False]), "bool bool (1,)"),
        (np.bool_([True]), np.int8([0]), "float32 float32 (1,)"),
    ],
)
def test_arrays_are_flat_and_wide_enough_to_subtract(folder, left, right, told):
    write(folder, "Types", "def compare(l, r, a):\n    return f'{l.dtype} {r.dtype} {l.shape}', ''\n")
    assert run(folder, left, right)["Types"].value == told


def test_arguments_are_a_bag_of_texts_and_the_files(folder):
    write(folder, "Args", "def compare(l, r, a):\n    return a.k + a.get('j'), repr(sorted(a.get_dict().items()))\n")
    found = run(folder, np.ones((2, 3)), np.ones((2, 3)), Args={"k": "3", "j": "x"}, Other={"k": "4"})["Args"]
    assert found.value == "3x"
    assert found.message == repr(
        [
            ("ground_truth_dump_file", str(folder / "r.npy")),
            ("j", "x"),
            ("k", "3"),
            ("my_output_dump_file", str(folder / "l.bin")),
            ("shape_type", "matrix"),
        ]
    )


def test_an_argument_that_was_not_passed_is_named():
    arguments = AlgorithmArguments({"get": "3"})
    with pytest.raises(AttributeError, match="no argument 'k' was passed"):
        _ = arguments.k
    assert arguments.get("get") == "3"
    assert not hasattr(arguments, "k")


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((), "scalar"),
        ((1, 1), "scalar"),
        ((1, 0), "matrix"),
        ((2, 0), "matrix"),
        ((3,), "vector"),
        ((2, 2, 2), "tensor"),
    ],
)
def test_the_kind_of_shape(folder, shape, kind):
    write(folder, "Kind", "def compare(l, r, a):\n    return a.shape_type, ''\n")
    assert run(folder, np.zeros(shape), np.zeros(shape))["Kind"].value == kind


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 1.0, ''", r"alg_Bad.py returned \['float', 'str'\], not two texts"),
        ("return 'x'", "alg_Bad.py returned str, not two texts"),
        ("return 'x', 'y', 'z'", "not two texts"),
        ("return ['x', 'y']", "alg_Bad.py returned list, not two texts"),
        ("return None", "alg_Bad.py returned NoneType"),
        ("raise ValueError('so it is')", "alg_Bad.py raised ValueError in line 2: so it is"),
        ("import sys; sys.exit(0)", "alg_Bad.py raised SystemExit in line 2: 0"),
        ("return l.no_such_thing", "AttributeError in line 2"),
    ],
)
def test_whatever_goes_wrong_is_nan_and_a_reason_and_the_next_one_runs(folder, body, reason):
    write(folder, "Bad", f"def compare(l, r, a):\n    {body}\n")
    write(folder, "Good")
    found = run(folder, np.ones(2), np.ones(2))
    assert found["Bad"].value == "NaN"
    assert re.search(reason, found["Bad"].message)
    assert found["Good"].value == "0.0"


def test_tensors_that_memory_cannot_hold_are_nan_and_a_reason(folder):
    class Huge(ArrayView):
        def read(self, *_range):
            raise MemoryError

    write(folder, "Sum")
    views = Huge(np.ones(3)), Huge(np.ones(3))
    found = run_algorithms(load_algorithms(folder), *views, files=(folder, folder), arguments={})
    assert found["Sum"] == CustomResult("NaN", "3 elements a side are more than memory can hold at once")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def compare(l, r): ...", "exactly 3 parameters"),
        ("def compare(l, r, a, b): ...", "exactly 3 parameters"),
        ("def compare(*all): ...", "exactly 3 parameters"),
        ("def compare(l, r, *, a): ...", "exactly 3 parameters"),
        ("compare = 3", "needs a function compare"),
        ("", "needs a function compare"),
        ("def compare(:", "cannot be run: SyntaxError"),
        ("import no_such_module_here", "ModuleNotFoundError in line 1"),
        ("\nraise SystemExit(0)", "SystemExit in line 2"),
        ("\0", "cannot be run"),
    ],
)
def test_a_file_that_is_no_algorithm_is_refused_by_name(folder, text, reason):
    path = write(folder, "Bad", text)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_algorithms(folder)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a-b", "a.b", "a,b", "é"])
def test_a_name_that_cannot_be_asked_for_is_refused(folder, name):
    write(folder, name)
    with pytest.raises(ConfigError, match="rename the file"):
        load_algorithms(folder)


def test_a_name_of_ours_is_refused(folder):
    write(folder, "cosine_similarity")
    with pytest.raises(ConfigError, match="built-in metric"):
        load_algorithms(folder)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_out_of_the_folder_is_not_followed(tmp_path, what):
    outside = tmp_path / "outside" / "algorithm"
    outside.mkdir(parents=True)
    (outside / "alg_A.py").write_text("raise SystemExit('never run')", "utf-8")
    named = tmp_path / "named"
    named.mkdir()
    if what == "folder":
        (named / "algorithm").symlink_to(outside)
    else:
        (named / "algorithm").mkdir()
        (named / "algorithm" / "alg_A.py").symlink_to(outside / "alg_A.py")
    with pytest.raises(ConfigError, match="leads out of"):
        load_algorithms(named)
