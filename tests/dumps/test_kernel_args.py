"""Arguments of a kernel beside its tensors: read when asked for, bounded, and never from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_msdump.core.dumps.sidefiles import read_kernel_args
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec


def ref(folder: Path, name: str = "Default_MatMul-op0", op_type: str | None = "MatMul") -> TensorRef:
    key = TensorKey(OpKey(name, op_type=op_type), "output", 0)
    return TensorRef(key, TensorSpec(), TensorSource.of(folder / "x.npy"), "mindspore")


def test_the_documented_example_is_read(tmp_path: Path) -> None:
    # As the documentation of the dump shows it for MatMul.
    text = '{\n"transpose_a": "False",\n"transpose_b": "False"\n}\n'
    (tmp_path / "MatMul.Default_MatMul-op0.json").write_text(text)
    found = read_kernel_args(ref(tmp_path))
    assert found is not None
    assert (found.source, found.note) == ("MatMul.Default_MatMul-op0.json", "")
    assert found.values == {"transpose_a": "False", "transpose_b": "False"}


@pytest.mark.parametrize("name", ["../secret", "/etc/secret", "..\\secret", "a/../../secret", "a/../MatMul.secret"])
def test_a_name_leads_to_no_other_directory(name: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    # Only through a directory that is there would a path lead up again.
    (inner / "MatMul.a").mkdir(parents=True)
    for folder in (tmp_path, inner):
        (folder / "MatMul.secret.json").write_text('{"a": "b"}')
        (folder / "secret.json").write_text('{"a": "b"}')
    assert read_kernel_args(ref(inner, name=name)) is None
    assert read_kernel_args(ref(inner, name="secret", op_type="../x")) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b" " * (2**20 + 1)],
    ids=["empty", "cut", "list", "text", "binary", "deep", "large"],
)
def test_a_bad_file_is_a_note(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "MatMul.Default_MatMul-op0.json").write_bytes(content)
    found = read_kernel_args(ref(tmp_path))
    assert found is not None
    assert not found.values
    assert found.note
