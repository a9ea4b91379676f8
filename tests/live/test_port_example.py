"""The example that ports a network inside of a pytest file does what its README shows. Needs PyTorch and MindSpore."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages import ROOT, blocks, copy_project, prints_as_said, run

pytest.importorskip("torch")
pytest.importorskip("mindspore")
pytestmark = pytest.mark.live

EXAMPLE = "example_suites/06_torch_to_mindspore"


def test_the_ports_pass_and_fail_as_the_readme_says(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    [block] = (block for block in blocks(ROOT / EXAMPLE / "README.md") if block.note == "live")
    for command in block.commands():
        code, printed = run(command.text, project, tmp_path)
        assert code == 0, "\n".join(printed)
        assert prints_as_said(command.printed, printed), "\n".join(printed)


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("port.set_train(False)", "port.set_train()", "bn1"),
        ("Softmax(axis=-1)", "Softmax(axis=1)", "softmax"),
        ("epsilon=1e-5", "epsilon=1e-3", "norm1"),
        ("    carry(port, reference, BLOCK_NAMES)\n", "", "dense_q"),
    ],
    ids=["training", "axis", "epsilon", "weights"],
)
def test_the_example_fails_on_a_mistake_that_it_does_not_expect(
    right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    project = copy_project(tmp_path)
    file = project / EXAMPLE / "test_port.py"
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    code, printed = run(f"pytest -q {EXAMPLE}/test_port.py", project, tmp_path)
    assert code == 1, "\n".join(printed)
    assert any(re.search(rf"DRIFT +{expected}:output:0", line) for line in printed), "\n".join(printed)
