"""Two steps of training: LeNet with momentum, and a small encoder with Adam."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .lenet import INPUT, MODEL, LeNet
from .weights import TOKENS, VOCABULARY, seeded

WIDTH, HEADS, LAYERS = 24, 4, 2
_CLASSES = torch.tensor([3, 7])


def _lenet_loss(model: nn.Module) -> torch.Tensor:
    return functional.cross_entropy(model(INPUT), _CLASSES)


def _encoder_loss(model: nn.Module) -> torch.Tensor:
    return functional.cross_entropy(model(TOKENS), _CLASSES)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    split = [x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v)]
    return functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """q_proj, k_proj, v_proj, out_proj; a bias of keys would have no gradient but rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.out_proj(_attend(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


class EncoderLayer(nn.Module):
    """self_attn, norm1, linear1, relu, linear2, norm2."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = SelfAttention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.linear1, self.relu, self.linear2 = nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.norm1(x + self.self_attn(x))
        return self.norm2(x + self.linear2(self.relu(self.linear1(x))))


class Encoder(nn.Module):
    """The reference."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.classifier = nn.Linear(WIDTH, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean(1))


class Attn(nn.Module):
    """wq, wk, wv, wo."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.wo(_attend(self.wq(x), self.wk(x), self.wv(x)))


class Block(nn.Module):
    """attn, ln1, ffn, ln2."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.ln1, self.ln2 = Attn(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ffn = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.ffn(x))


class Blocks(nn.Module):
    """embed, blocks, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.head(self.blocks(self.embed(ids)).mean(1))


_BLOCKS = {
    "embed": "embedding", "head": "classifier", "loss": "loss", "blocks.{i}": "layers.{i}",
    "blocks.{i}.attn": "layers.{i}.self_attn", "blocks.{i}.attn.wq": "layers.{i}.self_attn.q_proj",
    "blocks.{i}.attn.wk": "layers.{i}.self_attn.k_proj", "blocks.{i}.attn.wv": "layers.{i}.self_attn.v_proj",
    "blocks.{i}.attn.wo": "layers.{i}.self_attn.out_proj",
    "blocks.{i}.ln1": "layers.{i}.norm1", "blocks.{i}.ln2": "layers.{i}.norm2",
    "blocks.{i}.ffn.0": "layers.{i}.linear1", "blocks.{i}.ffn.1": "layers.{i}.relu",
    "blocks.{i}.ffn.2": "layers.{i}.linear2",
}  # fmt: skip

LENET = Model(
    "lenet-steps",
    lambda: seeded(LeNet()),
    _lenet_loss,
    tuple(Port(port.name, port.build, {**port.same, "loss": "loss"}) for port in MODEL.ports),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    inputs=(INPUT, _CLASSES),
)
FORWARD = Model(
    "encoder",
    lambda: seeded(Encoder()),
    lambda model: model(TOKENS),
    (Port("blocks", Blocks, {left: right for left, right in _BLOCKS.items() if left != "loss"}),),
    inputs=(TOKENS,),
)
ENCODER = Model(
    "encoder-steps",
    lambda: seeded(Encoder()),
    _encoder_loss,
    (Port("blocks", Blocks, _BLOCKS),),
    optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
)
