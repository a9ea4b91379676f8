"""The page on TensorFlow and ONNX models and example 07 do what they say. Needs TensorFlow and ONNX Runtime."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from docs_pages import ROOT, copy_project, follow_live, options_of, run

from pytest_msdump.capabilities.frameworks.keras import KerasRecording
from pytest_msdump.capabilities.frameworks.onnx import OnnxRecording
from pytest_msdump.capabilities.frameworks.tf_graphs import TfGraphRecording

pytestmark = pytest.mark.live

PAGE = ROOT / "docs/howto/record_a_tensorflow_or_onnx_model.md"
EXAMPLE = ROOT / "example_suites/07_tensorflow_to_onnx"
# What TensorFlow says of itself and the machine.
_LOG = r"^(WARNING: All log messages|[IWE]\d{4} |To enable the following instructions).*"


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    for package in ("tensorflow", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    assert follow_live(PAGE, {"tensorflow", "onnxruntime"}, tmp_path, tmp_path, apart_from=_LOG) == 5


def test_ports_to_onnx_are_gated_beside_tensorflow(tmp_path: Path) -> None:
    for package in ("tensorflow", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    project = copy_project(tmp_path)
    readme = project / "example_suites" / EXAMPLE.name / "README.md"
    assert follow_live(readme, {"tensorflow"}, project, tmp_path, apart_from=_LOG) == 1


@pytest.mark.skipif(not os.environ.get("MSDUMP_MINDSPORE_PYTHON"), reason="MSDUMP_MINDSPORE_PYTHON is not set")
def test_a_port_to_mindspore_is_gated_without_tensorflow(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    readme = project / "example_suites" / EXAMPLE.name / "README.md"
    assert follow_live(readme, {"mindspore"}, project, tmp_path, apart_from=_LOG) == 1


def test_the_kept_reference_is_what_tensorflow_computes_now(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    project = copy_project(tmp_path)
    kept = f"example_suites/{EXAMPLE.name}/references/tensorflow"
    code, printed = run(f"cp -r {kept} before", project, tmp_path)
    assert code == 0, "\n".join(printed)
    code, printed = run(
        f"pytest -q example_suites/{EXAMPLE.name}/test_mindspore_port.py -k kept --msdump-generate", project, tmp_path
    )
    assert code == 0, "\n".join(printed)
    code, printed = run(f"msdump compare {kept} before --profile strict", project, tmp_path)
    assert code == 0, "\n".join(printed)
    assert "7 tensors: 7 pass" in "\n".join(printed)


@pytest.mark.parametrize(
    ("method", "recording"), [("keras", KerasRecording), ("tf1", TfGraphRecording), ("onnx", OnnxRecording)]
)
def test_every_option_of_the_page_exists(method: str, recording: type) -> None:
    text = PAGE.read_text(encoding="utf-8").partition(f"| option of `{method}` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == {*options_of(recording)}
