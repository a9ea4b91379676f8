"""Further hand-written models with places where one line can be wrong: caches, crossed attention, convolutions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.blame.models import Tensor, at

_HEADS = 4


def _heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (_HEADS, -1)).transpose(1, 2)


class Crossed(nn.Module):
    """Attention to another sequence, or with a cache to its own."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, other: Tensor, bias: Tensor | None, cache: dict[int, Tensor] | None) -> Tensor:
        """Return the output; ``cache`` holds keys and values of earlier steps."""
        q, k, v = _heads(self.query(x)), _heads(self.key(other)), _heads(self.value(other))
        if at("queries normalised", self.block):
            q = functional.normalize(q, dim=-1)
        if cache is not None:
            both = torch.stack((k, v))
            if self.block in cache:
                parts = [cache[self.block], both]
                both = torch.cat(parts[::-1] if at("cache joined in another order", self.block) else parts, -2)
            cache[self.block] = both
            k, v = both[0], both[1]
            if at("cache cut", self.block):
                k, v = k[..., -2:, :], v[..., -2:, :]
        scores = q @ k.transpose(-1, -2)
        scores = scores if at("scale left out", self.block) else scores / q.shape[-1] ** 0.5
        if bias is not None and not at("bias left out", self.block):
            scores = scores + (bias[..., -scores.shape[-1] :] if scores.shape[-1] <= bias.shape[-1] else bias)
        weights = scores.sigmoid() if at("sigmoid for softmax", self.block) else scores.softmax(-1)
        y = weights @ (v if not at("keys for values", self.block) else k)
        return self.out(y.transpose(1, 2).flatten(2))


class CrossedBlock(nn.Module):
    """A layer of the decoder of a translator."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.own, self.cross = Crossed(width, block), Crossed(width, 100 + block)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(width) for _ in range(3))
        self.fc1, self.fc2, self.drop = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.Dropout(0.1)

    def forward(self, x: Tensor, other: Tensor, bias: Tensor, cache: dict[int, Tensor]) -> Tensor:
        """Return the output."""
        y = self.n1(x)
        x = x + self.drop(self.own(y, y, bias, cache))
        y = x if at("norm left out", self.block) else self.n2(x)
        y = self.cross(y, other, None, None)
        x = (y if at("residual of the cross left out", self.block) else x + y) * (
            0.5 if at("sum halved", self.block) else 1
        )
        if at("norm after for before", self.block):
            return x + self.n3(self.fc2(self.fc1(x).relu()))
        y = self.fc1(self.n3(x))
        y = y.relu().square() if at("relu squared", self.block) else y.relu()
        return x + self.drop(self.fc2(y))


class Translator(nn.Module):
    """Encodes once, and decodes three steps with a cache."""

    def __init__(self, blocks: int = 2, width: int = 16) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(50, width), nn.Embedding(50, width)
        self.places, self.encoder = nn.Embedding(20, width), nn.Linear(width, width)
        self.norm, self.blocks = nn.LayerNorm(width), nn.ModuleList([CrossedBlock(width, one) for one in range(blocks)])
        self.head = nn.Linear(width, 50)
        self.register_buffer("bias", torch.randn(_HEADS, 1, 3))

    def forward(self, ids: Tensor) -> Tensor:
        """Return what each step gives."""
        x = self.source(ids)
        x = x.flip(1) if at("source reversed") else x
        x = self.encoder(x)
        other = self.norm(x if at("tanh of the encoder left out") else x.tanh())
        cache: dict[int, Tensor] = {}
        found = []
        for step in range(3):
            place = torch.tensor([0 if at("place of the step left out") else step])
            x = self.target(ids[:, step : step + 1]) + self.places(place)
            for block in self.blocks:
                x = block(x, other, self.bias, cache)
            found.append(self.head(-x if at("sign of the hidden state") else x))
        return torch.cat(found, 1)


class Mobile(nn.Module):
    """A block of a small network for images: expanded, per channel, squeezed, projected."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.expand, self.bn1 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.depth = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width, bias=False)
        self.bn2, self.act = nn.BatchNorm2d(4 * width), nn.Hardswish()
        self.squeeze, self.excite = nn.Conv2d(4 * width, width, 1), nn.Conv2d(width, 4 * width, 1)
        self.project, self.bn3 = nn.Conv2d(4 * width, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        y = self.act(self.bn1(self.expand(x)))
        if at("channels shuffled", self.block):
            y = functional.channel_shuffle(y, 4)
        y = self.bn2(self.depth(y))
        y = functional.silu(y) if at("swish for hard swish", self.block) else self.act(y)
        s = y.amax((2, 3), keepdim=True) if at("squeezed by maximum", self.block) else y.mean((2, 3), keepdim=True)
        s = self.excite(self.squeeze(s).relu())
        y = y * (s.sigmoid() if at("sigmoid for hard sigmoid", self.block) else functional.hardsigmoid(s))
        y = y + s if at("added for multiplied", self.block) else y
        y = self.bn3(self.project(y))
        return y if at("shortcut left out", self.block) else x + y


class Phone(nn.Module):
    """A small MobileNet with a flattened head and two outputs."""

    def __init__(self, blocks: int = 2, width: int = 8) -> None:
        super().__init__()
        self.stem, self.features = nn.Conv2d(3, width, 3, 2), nn.Sequential(*[Mobile(width, n) for n in range(blocks)])
        self.last, self.norm = nn.Conv2d(width, width, 3, 2), nn.GroupNorm(2, width)
        self.classes, self.boxes = nn.Linear(9 * width, 10), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes and boxes."""
        x = x / 2 if at("images scaled") else x
        x = functional.pad(x, (0, 1, 0, 1) if not at("padded before") else (1, 0, 1, 0))
        x = self.stem(x) * 4
        x = self.features(x.relu() if at("relu for relu6") else functional.relu6(x))
        x = self.norm(self.last(x))
        y = x.permute(0, 2, 3, 1).flatten(1) if at("flattened channels last") else x.flatten(1)
        b = self.boxes(x.mean((2, 3)))
        b = b.exp() if at("boxes by exp") else b.sigmoid()
        return self.classes(y).log_softmax(0 if at("softmax over the batch") else -1), b


class Level(nn.Module):
    """Joins two levels of a pyramid by a gate that all channels share."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.side, self.smooth, self.gate = (
            nn.Conv2d(width, width, 1),
            nn.Conv2d(width, width, 3, padding=1),
            nn.Linear(width, 1),
        )

    def forward(self, x: Tensor, above: Tensor) -> Tensor:
        """Return the level."""
        corner = at("corners aligned", self.block)
        above = functional.interpolate(above, scale_factor=2, mode="bilinear", align_corners=corner)
        y = self.side(x)
        pooled = y.std((2, 3)) if at("deviation for mean", self.block) else y.mean((2, 3))
        gate = self.gate(pooled).sigmoid()[..., None, None]
        gate = 1 - gate if at("gate the other way", self.block) else gate
        y = y * gate + above if at("gate of one side", self.block) else y * gate + above * (1 - gate)
        y = functional.elu(y) if at("elu for leaky", self.block) else functional.leaky_relu(y, 0.3)
        return self.smooth(y)


class Pyramid(nn.Module):
    """Features at three sizes, joined from the top, with a head that all levels share."""

    def __init__(self, blocks: int = 2, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.downs = nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1) for _ in range(blocks)])
        self.levels = nn.ModuleList([Level(width, number) for number in range(blocks)])
        self.norm, self.head = nn.BatchNorm2d(width), nn.Conv2d(width, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the head says of each level."""
        x = x.transpose(2, 3) if at("image transposed") else x
        sizes = [self.stem(x).tanh()]
        for down in self.downs:
            sizes.append(functional.softplus(down(sizes[-1])) if at("softplus for relu") else down(sizes[-1]).relu())
        x, found = sizes[-1], []
        for number, level in enumerate(self.levels):
            x = level(sizes[-2 - number], x)
            found.append(self.head(self.norm(x)).flatten(2))
        found = found[::-1] if at("levels in another order") else found
        y = torch.cat(found, -1)
        return y.transpose(1, 2).softmax(1 if at("softmax over places") else -1)
