"""Names in a record are those of the tensors, however they are put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.reporting.record_names import names_of, relative_file

SPEC = TensorSpec("float32", (2, 3), "NCHW", (2, 3))


def ref(folder: Path, name: str, true_name: str | None, file: str, *, is_inside: bool) -> TensorRef:
    key = TensorKey(OpKey(name, Coordinates(iteration=3), "Conv2D", true_name), "output", 12)
    source = TensorSource.inside(folder, file) if is_inside else TensorSource(folder / file)
    return TensorRef(key, TensorSpec(), source, "npy-folder")


@pytest.mark.parametrize("true_name", [None, "", "Default/a", 'Default/"ü"\\n'])
@pytest.mark.parametrize("name", ["Default_a", 'a"b\\c', "ü\x7f", "a\udc80"])
@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize(
    ("folder", "root"),
    [
        ("/dump", "/dump"),
        ("/dump/a/b", "/dump"),
        ("/dumping", "/dump"),
        ("/elsewhere", "/dump"),
        ("/dump", "/dump/a.npy"),
        ("dump/a", "dump"),
        ("dump", "."),
        (".", "."),
        ("/dump", "/"),
        ("/", "/"),
    ],
)
def test_names_are_those_of_the_tensors(
    name: str, true_name: str | None, folder: str, root: str, is_inside: bool
) -> None:
    left = ref(Path(folder), name, true_name, "a.npy", is_inside=is_inside)
    right = ref(Path(folder), "other", None, 'ü"\\.npy', is_inside=is_inside)
    pair = Pair(left, right, "name", "by", order=7)
    told = json.loads("{" + ", ".join(names_of(pair, SPEC, SPEC, left_root=Path(root), right_root=Path(root))) + "}")
    assert (told["order"], told["how"], told["by"], told["iteration"]) == (7, "name", "by", 3)
    for side, one in ((told["left"], left), (told["right"], right)):
        op = one.key.op
        assert (side["address"], side["name"], side["true_name"]) == (one.key.address, op.name, op.true_name)
        assert side["file"] == relative_file(one.source.path, Path(root))
        assert (side["op_type"], side["dtype"], side["shape"], side["memory_format"]) == (
            "Conv2D",
            "float32",
            [2, 3],
            "NCHW",
        )
    assert told["right"]["at"] == {"iteration": 3}
