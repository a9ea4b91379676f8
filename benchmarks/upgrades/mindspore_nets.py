"""Dumps the small MindSpore network of $MODEL, in graph mode on the CPU, into $MSDUMP_DIR, by MindSpore's own dump."""

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


class Convolutions(nn.Cell):
    """Convolutions, normalisation and pooling of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, has_bias=True), nn.BatchNorm2d(16)
        self.deep, self.pool = nn.Conv2d(16, 16, 3, group=16, has_bias=True), nn.MaxPool2d(2, 2)

    def construct(self, x):
        """Return a vector for each image."""
        return ops.relu6(self.deep(self.pool(ops.relu(self.norm(self.conv(x)))))).mean((2, 3))


class Attention(nn.Cell):
    """Normalisation, scores, and a block with GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = nn.LayerNorm((8,)), nn.Dense(8, 8)
        self.softmax, self.gelu = nn.Softmax(), nn.GELU()

    def construct(self, x):
        """Return what the block makes of rows of pixels."""
        x = self.norm(ops.reshape(x, (2, 24, 8)))
        scores = self.softmax(ops.bmm(x, ops.transpose(x, (0, 2, 1))))
        return ops.log_softmax(self.gelu(self.dense(ops.bmm(scores, x))).mean(axis=1))


class Recurrent(nn.Cell):
    """Two cells with gates, written out, over eight steps."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.fresh = nn.Dense(32, 16), nn.Dense(32, 8)

    def construct(self, x):
        """Return the last state."""
        x = ops.reshape(x, (2, 8, 24))
        state = ops.zeros((2, 8), ms.float32)
        for step in range(8):
            both = ops.concat((x[:, step], state), 1)
            keep = ops.sigmoid(self.gates(both))
            state = keep[:, :8] * state + keep[:, 8:] * ops.tanh(self.fresh(both))
        return state


class Elementwise(nn.Cell):
    """Functions of single numbers, one behind the other."""

    def construct(self, x):
        """Return small numbers."""
        x = ops.sqrt(ops.abs(x)) + ops.exp(-ops.square(x))
        x = ops.log(x + 1) * ops.erf(x) + ops.softplus(x)
        return ops.tanh(ops.rsqrt(x + 1) + ops.pow(x, 0.3))


NETS = {net.__name__.lower(): net for net in (Convolutions, Attention, Recurrent, Elementwise)}

ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
net = NETS[os.environ["MODEL"].removeprefix("mindspore-")]().set_train(False)
rng = np.random.default_rng(7)
for parameter in net.get_parameters():
    values = np.abs(rng.standard_normal(parameter.shape)) * 0.2
    parameter.set_data(ms.Tensor(values.astype("f4")))
net(ms.Tensor(rng.standard_normal((2, 3, 8, 8)).astype("f4")))
