"""Run a port in MindSpore, graph mode, CPU: make_target.py NETWORK.py WEIGHTS.npz.

The dump itself is MindSpore's: it writes what the file named by MINDSPORE_DUMP_CONFIG asks for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import mindspore as ms
import numpy as np


def main(network_file: str, weights_file: str) -> None:
    """Load the shared weights, run once."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    weights = dict(np.load(weights_file))
    image = ms.Tensor(weights.pop("input"))
    # MindSpore reads the source of `construct` again, so the port must be a module that can be imported by its name.
    sys.path.insert(0, str(Path(network_file).parent))
    network = import_module(Path(network_file).stem).Lenet()
    network.set_train(False)
    unloaded, _ = ms.load_param_into_net(network, {name: ms.Parameter(array) for name, array in weights.items()})
    if unloaded:
        raise SystemExit(f"make_target.py: no weights for {unloaded}")
    network(image).asnumpy()


if __name__ == "__main__":
    main(*sys.argv[1:])
