"""Dumps a small MindSpore network in graph mode on the CPU into $MSDUMP_DIR, by MindSpore's own dump."""

import json
import os
import re
import tempfile
from pathlib import Path

# MindSpore takes letters, digits, '-' and '_' only, and reads the configuration when it is imported.
folder = os.environ["MSDUMP_DIR"]
if not re.fullmatch(r"[A-Za-z0-9_/-]+", folder):
    raise SystemExit(f"{folder}: is no path that MindSpore dumps to")
kept = {"op_debug_mode": 0, "dump_mode": 0, "path": folder, "net_name": "Net", "iteration": "all"}
kept |= {"saved_data": "tensor", "input_output": 0, "kernels": [], "support_device": [0, 1, 2, 3, 4, 5, 6, 7]}
file = Path(tempfile.mkdtemp(), "data_dump.json")
file.write_text(json.dumps({"common_dump_settings": kept, "e2e_dump_settings": {"enable": True, "trans_flag": True}}))
os.environ["MINDSPORE_DUMP_CONFIG"] = str(file)

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import nn, ops  # noqa: E402


class Net(nn.Cell):
    """Convolution and normalisation, then a block with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, has_bias=True), nn.BatchNorm2d(16)
        self.layer_norm, self.dense = nn.LayerNorm((16,)), nn.Dense(16, 16)
        self.softmax, self.gelu = nn.Softmax(), nn.GELU()

    def construct(self, x):
        """Return what the block makes of an image."""
        x = ops.relu(self.norm(self.conv(x)))
        x = self.layer_norm(ops.transpose(ops.reshape(x, (2, 16, -1)), (0, 2, 1)))
        scores = self.softmax(ops.bmm(x, ops.transpose(x, (0, 2, 1))))
        return ops.log_softmax(self.gelu(self.dense(ops.bmm(scores, x))).mean(axis=1))


ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
net = Net().set_train(False)
rng = np.random.default_rng(7)
for parameter in net.get_parameters():
    values = np.abs(rng.standard_normal(parameter.shape)) * 0.2
    parameter.set_data(ms.Tensor(values.astype("f4")))
net(ms.Tensor(rng.standard_normal((2, 3, 8, 8)).astype("f4")))
