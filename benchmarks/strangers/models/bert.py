"""BERT of transformers; a port with short names, and one of PyTorch's own encoder layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import TOKENS, VOCABULARY, seeded, transformers

WIDTH, HEADS, LAYERS, INNER, LENGTH = 32, 4, 3, 64, 16
_EPSILON = 1e-12


def _reference() -> nn.Module:
    package = transformers()
    config = package.BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=LENGTH, attn_implementation="eager",
    )  # fmt: skip
    return seeded(package.BertModel(config))


class Embed(nn.Module):
    """Tokens, positions and segments."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.seg, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, _EPSILON)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        places = torch.arange(ids.shape[1])[None]
        return self.norm(self.tok(ids) + self.seg(torch.zeros_like(ids)) + self.pos(places))


class Attn(nn.Module):
    """q, k, v, out."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        split = [layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        return self.out(functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class Ffn(nn.Module):
    """fc1, act, fc2."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.fc2(self.act(self.fc1(x)))


class ShortLayer(nn.Module):
    """Normalisations behind each part."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.ffn = Attn(), Ffn()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, _EPSILON), nn.LayerNorm(WIDTH, _EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.ffn(x))


class ShortBert(nn.Module):
    """embed, layers, pool."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = Embed()
        self.layers = nn.ModuleList(ShortLayer() for _ in range(LAYERS))
        self.pool = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.pool(x[:, 0])


class EncoderBert(nn.Module):
    """The encoder that PyTorch has, whose projections are no modules."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embed()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, activation=nn.GELU(), batch_first=True, layer_norm_eps=_EPSILON
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.pooler(self.encoder(self.embedding(ids))[:, 0]).tanh()


def _run_encoder(model: nn.Module) -> Any:
    torch.backends.mha.set_fastpath_enabled(False)
    return model(TOKENS)


def _fill_encoder(model: Any, reference: Any) -> None:
    for layer, theirs in zip(model.encoder.layers, reference.encoder.layer, strict=True):
        parts = [getattr(theirs.attention.self, name) for name in ("query", "key", "value")]
        layer.self_attn.in_proj_weight.data.copy_(torch.cat([part.weight.data for part in parts]))
        layer.self_attn.in_proj_bias.data.copy_(torch.cat([part.bias.data for part in parts]))
        layer.self_attn.out_proj.load_state_dict(theirs.attention.output.dense.state_dict())


_LAYER = "encoder.layer.{i}"


def _embedding(name: str) -> dict[str, str]:
    words = {
        "tok": "word_embeddings",
        "pos": "position_embeddings",
        "seg": "token_type_embeddings",
        "norm": "LayerNorm",
    }
    return {name: "embeddings"} | {f"{name}.{left}": f"embeddings.{right}" for left, right in words.items()}


_SHORT = _embedding("embed") | {
    "layers.{i}": _LAYER,
    "layers.{i}.attn.q": f"{_LAYER}.attention.self.query", "layers.{i}.attn.k": f"{_LAYER}.attention.self.key",
    "layers.{i}.attn.v": f"{_LAYER}.attention.self.value", "layers.{i}.attn.out": f"{_LAYER}.attention.output.dense",
    "layers.{i}.norm1": f"{_LAYER}.attention.output.LayerNorm", "layers.{i}.norm2": f"{_LAYER}.output.LayerNorm",
    "layers.{i}.ffn.fc1": f"{_LAYER}.intermediate.dense", "layers.{i}.ffn.fc2": f"{_LAYER}.output.dense",
    "layers.{i}.ffn.act": f"{_LAYER}.intermediate.intermediate_act_fn",
    "pool.0": "pooler.dense", "pool.1": "pooler.activation",
}  # fmt: skip
_ENCODER = _embedding("embedding") | {
    "encoder.layers.{i}": _LAYER, "encoder.layers.{i}.self_attn": f"{_LAYER}.attention.output.dense",
    "encoder.layers.{i}.norm1": f"{_LAYER}.attention.output.LayerNorm",
    "encoder.layers.{i}.norm2": f"{_LAYER}.output.LayerNorm",
    "encoder.layers.{i}.activation": f"{_LAYER}.intermediate.intermediate_act_fn",
    "encoder.layers.{i}.linear1": f"{_LAYER}.intermediate.dense",
    "encoder.layers.{i}.linear2": f"{_LAYER}.output.dense", "pooler": "pooler.dense",
}  # fmt: skip

MODEL = Model(
    "bert",
    _reference,
    lambda model: model(TOKENS),
    (
        Port("short", ShortBert, _SHORT),
        Port("encoder", EncoderBert, _ENCODER, fill=_fill_encoder, run=_run_encoder),
    ),
    export=(TOKENS,),
)
