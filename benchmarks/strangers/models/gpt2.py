"""GPT-2 of transformers, with Conv1D and joined projections; ports with split, and with joined ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import TOKENS, VOCABULARY, seeded, transformers

WIDTH, HEADS, LAYERS, LENGTH = 32, 4, 3, 16


def _reference() -> nn.Module:
    package = transformers()
    sizes = {"n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS, "n_positions": LENGTH, "vocab_size": VOCABULARY}
    config = package.GPT2Config(**sizes, activation_function="gelu", attn_implementation="eager", use_cache=False)
    return seeded(package.GPT2LMHeadModel(config))


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    split = [x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v)]
    return functional.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2)


class SplitAttention(nn.Module):
    """query, key and value apart, as minGPT had them."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query, self.value, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        q, k, v = self.query(x), self.key(x), self.value(x)
        return self.proj(_attend(q, k, v))


class MiniBlock(nn.Module):
    """A block of minGPT: the MLP is a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = SplitAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class MiniGPT(nn.Module):
    """minGPT: positions are a parameter, blocks a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_emb = nn.Embedding(VOCABULARY, WIDTH)
        self.pos_emb = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(MiniBlock() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.drop(self.tok_emb(ids) + self.pos_emb[:, : ids.shape[1]])
        return self.head(self.ln_f(self.blocks(x)))


class Attention(nn.Module):
    """One joined projection."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.dense = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.dense(_attend(*self.qkv(x).chunk(3, -1)))


class FeedForward(nn.Module):
    """Two layers and their activation."""

    def __init__(self) -> None:
        super().__init__()
        self.dense_in, self.gelu, self.dense_out = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.dense_out(self.gelu(self.dense_in(x)))


class Layer(nn.Module):
    """A block as in Megatron's names."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.ffn = Attention(), FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class JoinedGPT(nn.Module):
    """Everything below `embedding`, `layers` and `final_norm`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.ModuleDict(
            {"word": nn.Embedding(VOCABULARY, WIDTH), "position": nn.Embedding(LENGTH, WIDTH)}
        )
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        positions = torch.arange(ids.shape[1])[None]
        x = self.embedding["word"](ids) + self.embedding["position"](positions)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.final_norm(x))


def _turned(target: Any, layer: Any, part: int | None = None) -> None:
    """Copy the weights of a Conv1D, or one third of them; it has its axes the other way."""
    weight, bias = layer.weight.data.T, layer.bias.data
    if part is not None:
        weight, bias = weight.chunk(3)[part], bias.chunk(3)[part]
    target.weight.data.copy_(weight)
    target.bias.data.copy_(bias)


def _fill_mini(model: Any, reference: Any) -> None:
    model.pos_emb.data.copy_(reference.transformer.wpe.weight.data[None])
    for block, theirs in zip(model.blocks, reference.transformer.h, strict=True):
        for part, name in enumerate(("query", "key", "value")):
            _turned(getattr(block.attn, name), theirs.attn.c_attn, part)
        _turned(block.attn.proj, theirs.attn.c_proj)
        _turned(block.mlp[0], theirs.mlp.c_fc)
        _turned(block.mlp[2], theirs.mlp.c_proj)


def _fill_joined(model: Any, reference: Any) -> None:
    for layer, theirs in zip(model.layers, reference.transformer.h, strict=True):
        _turned(layer.attention.qkv, theirs.attn.c_attn)
        _turned(layer.attention.dense, theirs.attn.c_proj)
        _turned(layer.ffn.dense_in, theirs.mlp.c_fc)
        _turned(layer.ffn.dense_out, theirs.mlp.c_proj)


_MINI = {
    "tok_emb": "transformer.wte", "drop": "transformer.drop",
    "blocks.{i}.ln1": "transformer.h.{i}.ln_1", "blocks.{i}.ln2": "transformer.h.{i}.ln_2",
    "blocks.{i}.attn.proj": "transformer.h.{i}.attn.c_proj", "blocks.{i}.attn": "transformer.h.{i}.attn",
    "blocks.{i}.mlp.0": "transformer.h.{i}.mlp.c_fc", "blocks.{i}.mlp.1": "transformer.h.{i}.mlp.act",
    "blocks.{i}.mlp.2": "transformer.h.{i}.mlp.c_proj", "blocks.{i}.mlp": "transformer.h.{i}.mlp",
    "blocks.{i}": "transformer.h.{i}", "ln_f": "transformer.ln_f", "head": "lm_head",
}  # fmt: skip
_MINI_PARTS = [
    (
        ("blocks.{i}.attn.query", "blocks.{i}.attn.key", "blocks.{i}.attn.value"),
        ("transformer.h.{i}.attn.c_attn",),
    )
]
_JOINED = {
    "embedding.word": "transformer.wte", "embedding.position": "transformer.wpe",
    "layers.{i}.norm1": "transformer.h.{i}.ln_1", "layers.{i}.norm2": "transformer.h.{i}.ln_2",
    "layers.{i}.attention.qkv": "transformer.h.{i}.attn.c_attn",
    "layers.{i}.attention.dense": "transformer.h.{i}.attn.c_proj", "layers.{i}.attention": "transformer.h.{i}.attn",
    "layers.{i}.ffn.dense_in": "transformer.h.{i}.mlp.c_fc", "layers.{i}.ffn.gelu": "transformer.h.{i}.mlp.act",
    "layers.{i}.ffn.dense_out": "transformer.h.{i}.mlp.c_proj", "layers.{i}.ffn": "transformer.h.{i}.mlp",
    "layers.{i}": "transformer.h.{i}", "final_norm": "transformer.ln_f", "output": "lm_head",
}  # fmt: skip

MODEL = Model(
    "gpt2",
    _reference,
    lambda model: model(TOKENS),
    (
        Port("split", MiniGPT, _MINI, _MINI_PARTS, _fill_mini),
        Port("joined", JoinedGPT, _JOINED, fill=_fill_joined),
    ),
    export=(TOKENS,),
)
