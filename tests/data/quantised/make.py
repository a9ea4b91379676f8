"""Writes the folders beside it: a small model in floats, in 8 bits, and in 8 bits with one number wrong.

``python tests/data/quantised/make.py`` needs torch, onnx and onnxruntime, and the benchmarks on the path.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from torch import nn

from benchmarks.blame import quantised
from pytest_msdump.record import Recorder

HERE = Path(__file__).parent
# Folder → how it is quantised, and what is wrong; the node that has to be named stands in the test.
MADE = {
    "sound": ("qdq", None),
    "too_small": ("qdq", quantised.too_small),
    "weight_scale": ("qdq", quantised.weight_scale),
    "sound_qoperator": ("qoperator", None),
    "too_small_qoperator": ("qoperator", quantised.too_small),
}


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


def main() -> None:
    """Write all folders."""
    quantised.MODELS["tiny"] = (_model, (16, 6))
    with tempfile.TemporaryDirectory() as folder:
        for name, (way, mistake) in MADE.items():
            draw = random.Random(4)
            made = quantised.make("tiny", way, "", 3, Path(folder))
            if mistake is not None:
                mistake(made.rounded, draw)
            for proto, part in ((made.rounded, name), (made.exact, "float")):
                shutil.rmtree(HERE / part, ignore_errors=True)
                with Recorder(HERE).onnx(proto, directory=HERE / part, digests=False) as recording:
                    recording.run(None, {"x": made.given})


if __name__ == "__main__":
    main()
