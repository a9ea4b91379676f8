"""The networks that `leave_on.py` runs: models with random weights, each with what one step of it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["NETWORKS", "Network", "decoder", "resnet18"]


class Network(NamedTuple):
    """A model in memory: `record` is the method of `Recorder` that records it."""

    model: Any
    step: Callable[[], object]
    record: str = "torch"


class Known(NamedTuple):
    """What the table says of a network, whether its step has a backward pass, and what makes it."""

    title: str
    make: Callable[[], Network]
    trains: bool = True


def resnet18() -> Any:
    """Return torchvision's ResNet-18 with random weights."""
    return torchvision_models().resnet18()


def decoder(layers: int, width: int) -> Any:
    """Return a decoder as Llama is one, without rotations: RMS norms, causal attention, a gated MLP; random weights."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

        def forward(self, x: Any) -> Any:
            split = (one(x).unflatten(-1, (-1, 64)).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj))
            mixed = nn.functional.scaled_dot_product_attention(*split, is_causal=True)
            return self.o_proj(mixed.transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = width * 11 // 4 // 64 * 64
            self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
            self.act, self.down_proj = nn.SiLU(), nn.Linear(inner, width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.attention, self.norm2, self.mlp = nn.RMSNorm(width), Attention(), nn.RMSNorm(width), Mlp()

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    torch.manual_seed(0)
    words = 16000 * width // 512
    return nn.Sequential(
        nn.Embedding(words, width),
        *(Layer() for _ in range(layers)),
        nn.RMSNorm(width),
        nn.Linear(width, words, bias=False),
    )


def torchvision_models() -> Any:
    """Return torchvision's models."""
    _declare_operators()
    from torchvision import models

    return models


def _declare_operators() -> None:
    """Declare what torchvision looks for: beside a PyTorch without CUDA, the library that has it is not loaded."""
    import torch

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _training(model: Any, *shape: int) -> Network:
    import torch

    given = torch.randn(*shape)

    def step() -> None:
        model.zero_grad()
        model(given).square().mean().backward()

    return Network(model, step)


def _small() -> Network:
    from torch import nn

    return _training(
        nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)), 4, 3, 32, 32
    )


def _resnet18() -> Network:
    return _training(resnet18(), 4, 3, 224, 224)


def _vit() -> Network:
    from torch import nn

    model = torchvision_models().vit_b_16()
    # It is zero at first, and so would be every gradient.
    nn.init.normal_(model.heads.head.weight, std=0.02)
    return _training(model, 4, 3, 224, 224)


def _bert() -> Network:
    import torch

    # transformers imports torchvision where it is installed.
    _declare_operators()
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).eval()
    words = torch.randint(0, model.config.vocab_size, (4, 128))

    def step() -> None:
        with torch.no_grad():
            model(input_ids=words)

    return Network(model, step)


def _decoder() -> Network:
    import torch

    model = decoder(10, 768)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    words = torch.randint(0, 16000, (1, 64))

    def step() -> None:
        model.zero_grad()
        model(words).logsumexp(-1).mean().backward()
        optimizer.step()

    return Network(model, step)


def _mindspore() -> Network:
    import mindspore
    import numpy as np
    from mindcv import create_model

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    cell = create_model("resnet18").set_train(False)
    given = mindspore.Tensor(np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype("float32"))

    # Operations are started, not finished, when they give back.
    return Network(cell, lambda: cell(given).asnumpy(), "mindspore")


NETWORKS = {
    "resnet18": Known("ResNet-18, batch 4, 224 px, forward and backward", _resnet18),
    "vit": Known("ViT-B/16, batch 4, 224 px, forward and backward", _vit),
    "bert": Known("BERT-base, batch 4, 128 words, forward", _bert, trains=False),
    "decoder": Known("a decoder of 109 M weights, 64 words, SGD step", _decoder),
    # A step of MindSpore's convolutions takes a minute on a CPU with the images of the others.
    "mindspore": Known("mindcv's ResNet-18 as PyNative cells, batch 2, 64 px, forward", _mindspore, trains=False),
    "small": Known("two convolutions, to try this benchmark", _small),
}
