"""The pages that follow a port from two recordings to its mistake do what they say.

They need PyTorch with torchvision, and ONNX Runtime or MindSpore, one of them with mindcv.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from docs_pages import ROOT, follow_live

pytestmark = pytest.mark.live

# torchvision of PyPI is built for CUDA. Beside a PyTorch for the CPU it can be imported where these are declared.
DECLARE_NMS = """
import torch

if not hasattr(torch.ops.torchvision, "nms"):
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


@pytest.fixture(autouse=True)
def torchvision_for_the_cpu(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(DECLARE_NMS, encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.parametrize(
    ("page", "packages", "commands"),
    [
        ("howto/from_pytorch_to_onnx_runtime", ("torchvision", "onnxruntime", "onnxscript"), 9),
        ("howto/check_a_port_that_somebody_else_wrote", ("mindcv", "torch"), 8),
        ("howto/quantised_against_float", ("onnxruntime", "torch"), 3),
        ("howto/port_a_model_to_mindspore", ("mindspore", "torch"), 8),
        ("tutorial/your_own_hooks_and_mindspores_dump", ("mindspore", "torch"), 10),
    ],
)
def test_the_commands_of_the_page_print_what_it_shows(
    page: str, packages: tuple[str, ...], commands: int, tmp_path: Path
) -> None:
    for package in packages[1:]:
        pytest.importorskip(package)
    file = ROOT / f"docs/{page}.md"
    assert follow_live(file, {packages[0]}, tmp_path, tmp_path) == commands
