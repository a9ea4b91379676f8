"""A tiny ViT of timm, whose projections are joined; ports with the names of Hugging Face, and of torchvision."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import declare_nms, images, seeded

INPUT = images(2, 3, 32, 32)
WIDTH, HEADS, LAYERS, PATCH = 32, 4, 3, 8
_LENGTH = (32 // PATCH) ** 2 + 1


def _reference() -> nn.Module:
    declare_nms()
    from timm.models.vision_transformer import VisionTransformer

    sizes = {"img_size": 32, "patch_size": PATCH, "embed_dim": WIDTH, "depth": LAYERS, "num_heads": HEADS}
    return seeded(VisionTransformer(**sizes, mlp_ratio=2, num_classes=10))


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    split = [x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v)]
    return functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)


class Patches(nn.Module):
    """A convolution, flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Conv2d(3, WIDTH, PATCH, PATCH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.projection(x).flatten(2).transpose(1, 2)


class Embeddings(nn.Module):
    """Patches, class token, positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embeddings = Patches()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position_embeddings = nn.Parameter(torch.zeros(1, _LENGTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.patch_embeddings(x)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.position_embeddings


class HubAttention(nn.Module):
    """``attention.attention.query`` … ``attention.output.dense``."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention, name, nn.Linear(WIDTH, WIDTH))
        self.output = nn.Module()
        self.output.dense = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        q, k, v = (self.attention.get_submodule(name)(x) for name in ("query", "key", "value"))
        return self.output.dense(_attend(q, k, v))


class HubLayer(nn.Module):
    """layernorm_before, attention, layernorm_after, intermediate, output."""

    def __init__(self) -> None:
        super().__init__()
        self.layernorm_before, self.layernorm_after = nn.LayerNorm(WIDTH, 1e-6), nn.LayerNorm(WIDTH, 1e-6)
        self.attention = HubAttention()
        self.intermediate = nn.Sequential()
        self.intermediate.add_module("dense", nn.Linear(WIDTH, 2 * WIDTH))
        self.intermediate.add_module("act", nn.GELU())
        self.output = nn.Module()
        self.output.dense = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.attention(self.layernorm_before(x))
        return x + self.output.dense(self.intermediate(self.layernorm_after(x)))


class HubViT(nn.Module):
    """embeddings, encoder.layer, layernorm, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(HubLayer() for _ in range(LAYERS))
        self.layernorm = nn.LayerNorm(WIDTH, 1e-6)
        self.classifier = nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.embeddings(x)
        for layer in self.encoder.layer:
            x = layer(x)
        return self.classifier(self.layernorm(x)[:, 0])


class EncoderBlock(nn.Module):
    """ln_1, one joined projection, ln_2, a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, 1e-6), nn.LayerNorm(WIDTH, 1e-6)
        self.in_proj, self.out_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.out_proj(_attend(*self.in_proj(self.ln_1(x)).chunk(3, -1)))
        return x + self.mlp(self.ln_2(x))


class FlatViT(nn.Module):
    """conv_proj, layers, ln, heads, without a module for the embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embedding = nn.Parameter(torch.zeros(1, _LENGTH, WIDTH))
        self.layers = nn.Sequential(*(EncoderBlock() for _ in range(LAYERS)))
        self.ln = nn.LayerNorm(WIDTH, 1e-6)
        self.heads = nn.Sequential(nn.Linear(WIDTH, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding
        return self.heads(self.ln(self.layers(x))[:, 0])


def _fill_hub(model: Any, reference: Any) -> None:
    model.embeddings.cls_token.data.copy_(reference.cls_token.data)
    model.embeddings.position_embeddings.data.copy_(reference.pos_embed.data)
    for layer, theirs in zip(model.encoder.layer, reference.blocks, strict=True):
        for part, name in enumerate(("query", "key", "value")):
            target = getattr(layer.attention.attention, name)
            target.weight.data.copy_(theirs.attn.qkv.weight.data.chunk(3)[part])
            target.bias.data.copy_(theirs.attn.qkv.bias.data.chunk(3)[part])


def _fill_flat(model: Any, reference: Any) -> None:
    model.class_token.data.copy_(reference.cls_token.data)
    model.pos_embedding.data.copy_(reference.pos_embed.data)


_LAYER = "encoder.layer.{i}"
_HUB = {
    "embeddings.patch_embeddings.projection": "patch_embed.proj", "embeddings.patch_embeddings": "patch_embed",
    "embeddings": "pos_drop", _LAYER: "blocks.{i}",
    f"{_LAYER}.layernorm_before": "blocks.{i}.norm1", f"{_LAYER}.layernorm_after": "blocks.{i}.norm2",
    f"{_LAYER}.attention.output.dense": "blocks.{i}.attn.proj", f"{_LAYER}.attention": "blocks.{i}.attn",
    f"{_LAYER}.intermediate.dense": "blocks.{i}.mlp.fc1", f"{_LAYER}.intermediate.act": "blocks.{i}.mlp.act",
    f"{_LAYER}.output.dense": "blocks.{i}.mlp.fc2", "layernorm": "norm", "classifier": "head",
}  # fmt: skip
_HUB_PARTS = [
    (tuple(f"{_LAYER}.attention.attention.{name}" for name in ("query", "key", "value")), ("blocks.{i}.attn.qkv",))
]
_FLAT = {
    "conv_proj": "patch_embed.proj", "layers.{i}": "blocks.{i}",
    "layers.{i}.ln_1": "blocks.{i}.norm1", "layers.{i}.ln_2": "blocks.{i}.norm2",
    "layers.{i}.in_proj": "blocks.{i}.attn.qkv", "layers.{i}.out_proj": "blocks.{i}.attn.proj",
    "layers.{i}.mlp.0": "blocks.{i}.mlp.fc1", "layers.{i}.mlp.1": "blocks.{i}.mlp.act",
    "layers.{i}.mlp.2": "blocks.{i}.mlp.fc2", "layers.{i}.mlp": "blocks.{i}.mlp", "ln": "norm", "heads.0": "head",
}  # fmt: skip

MODEL = Model(
    "vit",
    _reference,
    lambda model: model(INPUT),
    (Port("hub", HubViT, _HUB, _HUB_PARTS, _fill_hub), Port("flat", FlatViT, _FLAT, fill=_fill_flat)),
    export=(INPUT,),
)
