"""Twelve small networks in PyTorch, trained for some steps on data that is made, each with one batch to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["NETWORKS", "Network", "loss_of", "made"]

CLASSES = 10
WORDS = 64


@dataclass(frozen=True)
class Network:
    """A trained network and the batch that every run takes.

    Parameters
    ----------
    name : str
        E.g. ``"resnet18"``.
    model : nn.Module
        Takes a batch, and returns scores with the classes on the last axis.
    given, labels : torch.Tensor
        The batch.
    momentum : dict of str to torch.Tensor
        Buffers of the optimizer before the step, by the names of parameters.
    is_image : bool
        Whether the batch is images, for which there are two memory layouts.
    couples_batch : bool
        Whether one sample's result depends on the others': batch normalisation while training.
    attends : bool
        Whether it calls fused attention.
    """

    name: str
    model: nn.Module
    given: torch.Tensor
    labels: torch.Tensor
    momentum: dict[str, torch.Tensor]
    is_image: bool
    couples_batch: bool
    attends: bool


def made(name: str, steps: int = 150) -> Network:
    """Make a network, and train it with Adam; the same each time."""
    plan = NETWORKS[name]
    torch.manual_seed(11)
    model = plan.build()
    generator = torch.Generator().manual_seed(5)
    # Labels follow from the data, so that there is something to learn.
    teacher = torch.randn(3 * 16 if plan.is_image else 1, CLASSES, generator=generator)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        if plan.is_image:
            images = torch.randn(plan.batch, 3, plan.size, plan.size, generator=generator)
            seen = functional.adaptive_avg_pool2d(images, 4).flatten(1) @ teacher
            labels = seen.argmax(1)
            if plan.labels_pixels:
                labels = labels[:, None, None].expand(-1, plan.size, plan.size)
            return images, labels
        words = torch.randint(1, WORDS, (plan.batch, plan.size), generator=generator)
        if plan.pads:
            words[::2, -4:] = 0
        return words, (words * 7 + words.roll(1, 1) * 3) % CLASSES

    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        given, labels = batch()
        optimizer.zero_grad()
        loss_of(model(given), labels, len(given)).backward()
        optimizer.step()
    given, labels = batch()
    optimizer.zero_grad()
    if not plan.trains:
        model.eval()
    kept = {key: value.clone() for key, value in model.state_dict().items()}
    loss_of(model(given), labels, len(given)).backward()
    momentum = {key: one.grad.clone() for key, one in model.named_parameters() if one.grad is not None}
    model.load_state_dict(kept)
    model.zero_grad()
    given, labels = batch()
    return Network(name, model, given, labels, momentum, plan.is_image, plan.trains, plan.attends)


def loss_of(scores: torch.Tensor, labels: torch.Tensor, samples: int) -> torch.Tensor:
    """Return the cross entropy summed over a part of a batch, divided by the samples of the whole batch."""
    items = labels[0].numel()
    total = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1), reduction="sum")
    return total / (samples * items)


class Convolutions(nn.Module):
    """Convolutions with a bias before BatchNorm, whose gradient is zero in exact arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32)
        self.conv3, self.bn3 = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.drop = nn.Identity()
        self.fc1, self.fc2 = nn.Linear(32 * 16, 64), nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.pool(self.relu(self.bn3(self.conv3(x))))
        return self.fc2(self.drop(self.relu(self.fc1(x.flatten(1)))))


class Memory(nn.Module):
    """An LSTM with layer normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.lstm = nn.LSTM(32, 48, 2, batch_first=True)
        self.norm = nn.LayerNorm(48)
        self.drop = nn.Identity()
        self.head = nn.Linear(48, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of each word."""
        return self.head(self.drop(self.norm(self.lstm(self.embed(words))[0])))


class _Double(nn.Module):
    def __init__(self, given: int, out: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(given, out, 3, padding=1), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn2(self.conv2(self.act(self.bn1(self.conv1(x))))))


class UNet(nn.Module):
    """Two levels down and up again, one up by interpolation and one by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = _Double(3, 12), _Double(12, 24), _Double(24, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(32, 24, 2, stride=2)
        self.join2 = _Double(48, 24)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join1 = _Double(36, 12)
        self.head = nn.Conv2d(12, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of each pixel."""
        one = self.down1(x)
        two = self.down2(self.pool(one))
        x = self.up2(self.bottom(self.pool(two)))
        x = self.join2(torch.cat([x, two], 1))
        x = self.join1(torch.cat([self.up1(x), one], 1))
        return self.head(x).permute(0, 2, 3, 1)


class _Expert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


class Mixture(nn.Module):
    """Experts, of which each word takes the best; all are computed, so that shapes do not depend on values."""

    def __init__(self, width: int, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(_Expert(width) for _ in range(experts))
        self.best, self.renormalises = 2, True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the best experts."""
        shares = self.router(x).softmax(-1)
        top, chosen = shares.topk(self.best, -1)
        if self.renormalises:
            top = top / top.sum(-1, keepdim=True)
        gates = torch.zeros_like(shares).scatter(-1, chosen, top)
        return sum(gates[..., number, None] * expert(x) for number, expert in enumerate(self.experts))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.scale, self.diagonal = heads, (width // heads) ** -0.5, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril(self.diagonal)
        mask[0, 0] = True
        x = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return self.proj(x.transpose(1, 2).reshape(batch, length, width))


class _MixtureBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), _Attention(width, 4)
        self.norm2, self.mix = nn.LayerNorm(width), Mixture(width)
        self.skip = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.skip * x + self.attn(self.norm1(x))
        return x + self.mix(self.norm2(x))


class MixtureOfExperts(nn.Module):
    """A causal transformer of three blocks with a mixture each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(WORDS, 48), nn.Embedding(32, 48)
        self.blocks = nn.ModuleList(_MixtureBlock(48) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of each word."""
        x = self.embed(words) + self.positions(torch.arange(words.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class StandardConv(nn.Conv2d):
    """A convolution with standardised weights, as in norm-free networks (Brock et al., 2021)."""

    eps = 1e-4

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.gain = nn.Parameter(torch.ones(self.out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution."""
        fan_in = self.weight[0].numel()
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, correction=0)
        scale = torch.rsqrt((variance * fan_in).clamp(min=self.eps)) * self.gain.view(-1, 1, 1, 1)
        weight = (self.weight - mean) * scale
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _FreeBlock(nn.Module):
    def __init__(self, width: int, beta: float) -> None:
        super().__init__()
        self.act, self.alpha, self.beta = nn.GELU(), 0.2, beta
        self.conv1, self.conv2 = StandardConv(width, width, 3, padding=1), StandardConv(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(self.act(x) * 1.7015 / self.beta)
        return x + self.alpha * self.conv2(self.act(out) * 1.7015)


class NormFree(nn.Module):
    """A residual network without normalisation of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = StandardConv(3, 24, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(_FreeBlock(24, (1 + 0.04 * number) ** 0.5) for number in range(4)))
        self.act, self.pool = nn.GELU(), nn.AvgPool2d(2)
        self.head = nn.Linear(24 * 64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return self.head(self.pool(self.act(self.blocks(self.stem(x)))).flatten(1))


class Words(nn.Module):
    """A language model of transformers, with a head of our own."""

    def __init__(self, model: nn.Module, width: int, *, pads: bool = False) -> None:
        super().__init__()
        self.model, self.head, self.pads, self.shift = model, nn.Linear(width, CLASSES), pads, 0

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of each word."""
        # Word 0 is a pad.
        mask, options = (words != 0).long(), {}
        if self.pads:
            mask = mask.roll(self.shift, 1)
        else:
            options["position_ids"] = torch.arange(words.shape[1])[None].expand_as(words) + self.shift
        return self.head(self.model(input_ids=words, attention_mask=mask, **options).last_hidden_state)


def _vision() -> Any:
    # Beside a PyTorch without CUDA, the library that declares these is not loaded.
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import models

    return models


def _resnet18() -> nn.Module:
    _vision()
    from timm.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [2, 2, 2, 2], channels=(16, 24, 32, 48), num_classes=CLASSES)


def _resnet18_whole() -> nn.Module:
    return _vision().resnet18(num_classes=CLASSES)


def _mobilenet() -> nn.Module:
    return _vision().mobilenet_v3_small(num_classes=CLASSES, width_mult=0.5, dropout=0.0)


def _vit() -> nn.Module:
    sizes = {"image_size": 32, "patch_size": 8, "hidden_dim": 48, "mlp_dim": 96}
    model = _vision().VisionTransformer(num_layers=4, num_heads=4, num_classes=CLASSES, **sizes)
    nn.init.normal_(model.heads.head.weight, std=0.1)
    return model


def _swin() -> nn.Module:
    sizes = {"patch_size": [2, 2], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
    return _vision().SwinTransformer(num_classes=CLASSES, stochastic_depth_prob=0.0, **sizes)


_TINY = {
    "vocab_size": WORDS,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}


def _bert() -> nn.Module:
    _vision()
    from transformers import BertConfig, BertModel

    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Words(BertModel(BertConfig(**_TINY, **off), add_pooling_layer=False), 48, pads=True)


def _gpt2() -> nn.Module:
    _vision()
    from transformers import GPT2Config, GPT2Model

    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {
        "vocab_size": WORDS,
        "n_embd": 48,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    return Words(GPT2Model(GPT2Config(**sizes, **off, use_cache=False)), 48)


def _llama() -> nn.Module:
    _vision()
    from transformers import LlamaConfig, LlamaModel

    model = LlamaModel(LlamaConfig(**_TINY, num_key_value_heads=2, use_cache=False, max_position_embeddings=64))
    # Its own normalisation computes in float32 whatever it is given; in float64 that would be no golden run.
    for name, module in list(model.named_modules()):
        if type(module).__name__ == "LlamaRMSNorm":
            model.set_submodule(name, nn.RMSNorm(48, eps=module.variance_epsilon))
    return Words(model, 48)


@dataclass(frozen=True)
class _Plan:
    build: Callable[[], nn.Module]
    size: int
    is_image: bool = True
    trains: bool = False
    attends: bool = False
    labels_pixels: bool = False
    pads: bool = False
    batch: int = 8
    is_small: bool = True


# `size` is the side of an image, or how many words there are.
NETWORKS: dict[str, _Plan] = {
    "cnn": _Plan(Convolutions, 32, trains=True),
    "resnet18": _Plan(_resnet18, 48, trains=True),
    "mobilenet_v3": _Plan(_mobilenet, 48),
    "vit": _Plan(_vit, 32, attends=True),
    "swin": _Plan(_swin, 32),
    "bert": _Plan(_bert, 24, is_image=False, attends=True, pads=True),
    "gpt2": _Plan(_gpt2, 24, is_image=False, attends=True),
    "llama": _Plan(_llama, 24, is_image=False, attends=True),
    "lstm": _Plan(Memory, 24, is_image=False),
    "unet": _Plan(UNet, 32, trains=True, labels_pixels=True, batch=4),
    "moe": _Plan(MixtureOfExperts, 24, is_image=False, attends=True),
    "norm_free": _Plan(NormFree, 32),
    # Sums of 50,000 terms and two million activations: only where it is named.
    "resnet18_224": _Plan(_resnet18_whole, 224, trains=True, batch=4, is_small=False),
}
