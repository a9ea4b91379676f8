"""Write the weights and the input that both frameworks start from: make_weights.py OUTPUT.npz."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SEED = 20260
BATCH = 2

# PyTorch's names and shapes; MindSpore's layers take the same arrays as they are.
SHAPES: dict[str, tuple[int, ...]] = {
    "conv1.weight": (6, 1, 3, 3),
    "conv1.bias": (6,),
    "conv2.weight": (12, 6, 3, 3),
    "conv2.bias": (12,),
    "fc1.weight": (24, 48),
    "fc1.bias": (24,),
    "fc2.weight": (10, 24),
    "fc2.bias": (10,),
}


def arrays() -> dict[str, np.ndarray]:
    """Return every parameter, and `input`, as float32."""
    random = np.random.default_rng(SEED)
    made = {}
    for name, shape in SHAPES.items():
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
        made[name] = (random.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)
    made["input"] = random.standard_normal((BATCH, 1, 16, 16)).astype(np.float32)
    return made


if __name__ == "__main__":
    np.savez(Path(sys.argv[1]), **arrays())
