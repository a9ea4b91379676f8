"""Hand-written models, each with places where one line can be wrong.

``self.at("name")`` is true where the mistake of that name is made, in the block that it is made in. Names say what is
wrong; the places are between modules, as most mistakes of ports are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor


class Place:
    """Which mistake is made, in which block, and what is done when the wrong line runs."""

    wrong: ClassVar[str] = ""
    block: ClassVar[int] = 0
    note: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    # Where it is an expression in which modules run: when that has ended.
    done: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    known: ClassVar[dict[str, None]] = {}
    # The module in which the wrong line ran first, and the innermost that runs.
    where: ClassVar[str] = ""
    path: ClassVar[Callable[[], str]] = staticmethod(lambda: "")


def at(name: str, block: int = 0) -> bool:
    """Whether the line that follows is wrong in this run."""
    Place.known[name] = None
    is_here = Place.wrong == name and Place.block == block
    if is_here:
        Place.note()
    return is_here


def rope(x: Tensor, block: int, which: str) -> Tensor:
    """Turn queries or keys by their places."""
    half = x.shape[-1] // 2
    theta = 500.0 if at(f"rope theta of {which}", block) else 10000.0
    steps = torch.arange(x.shape[-2], dtype=x.dtype)
    steps = steps + 1 if at(f"rope offset of {which}", block) else steps
    angles = steps[:, None] * theta ** (-torch.arange(half, dtype=x.dtype) / half)
    if at(f"rope interleaved of {which}", block):
        one, other = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()), -1)
        return turned.flatten(-2)
    one, other = x[..., :half], x[..., half:]
    return torch.cat((one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()), -1)


def attend(q: Tensor, k: Tensor, v: Tensor, block: int, *, causal: bool) -> Tensor:
    """Return attention, with a mask if it is causal."""
    scale = q.shape[-1] ** (-1.0 if at("attention scale", block) else -0.5)
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        shift = 2 if at("mask shifted", block) else 1
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(shift).bool(), -1e9)
    weights = scores.softmax(-2 if at("softmax axis", block) else -1)
    return weights @ v


class Attention(nn.Module):
    """Causal attention with rotary positions and fewer heads of keys."""

    def __init__(self, width: int, heads: int, kv_heads: int, block: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.block, head = heads, kv_heads, block, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * head, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        batch, length, width = x.shape
        q, k, v = (
            one.view(batch, length, count, -1).transpose(1, 2)
            for one, count in ((self.q(x), self.heads), (self.k(x), self.kv_heads), (self.v(x), self.kv_heads))
        )
        q, k = rope(q, self.block, "q"), rope(k, self.block, "k")
        times = self.heads // self.kv_heads
        repeat = (
            (lambda one: one.repeat(1, times, 1, 1))
            if at("heads repeated", self.block)
            else (lambda one: one.repeat_interleave(times, 1))
        )
        y = attend(q, repeat(k), repeat(v), self.block, causal=True)
        if at("heads not joined", self.block):
            return self.o(y.reshape(batch, length, width))
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    """Feed-forward layer with a gate."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        gate, up = self.gate(x), self.up(x)
        if at("gate and up swapped", self.block):
            return self.down(functional.silu(up) * gate)
        act = functional.gelu if at("gelu for silu", self.block) else functional.silu
        return self.down(act(gate) * up)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.weight, self.block = nn.Parameter(torch.rand(width) + 0.5), block

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        mean = x.square().mean(-1, keepdim=True)
        eps = 0.3 if at("epsilon of the norm", self.block) else 1e-6
        return x * torch.rsqrt(mean + eps) * self.weight


class DecoderBlock(nn.Module):
    """Norm, attention, norm, feed-forward."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.n1, self.n2 = Norm(width, 100 + block), Norm(width, 200 + block)
        self.attention, self.mlp = Attention(width, 4, 2, block), Gated(width, block)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        y = self.attention(self.n1(x))
        x = x + (2 * y if at("residual doubled", self.block) else y)
        y = self.mlp(self.n2(x))
        if at("residual left out", self.block):
            return y
        return x + y


class Decoder(nn.Module):
    """A small Llama."""

    def __init__(self, blocks: int = 3, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList([DecoderBlock(width, number) for number in range(blocks)])
        self.norm, self.head = Norm(width, 300), nn.Linear(width, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the output."""
        x = self.embed(ids)
        if at("embedding scaled"):
            x = x * 4
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x / 2 if at("logits scaled") else x)


class EncoderBlock(nn.Module):
    """A layer of BERT: norms behind the sums, joined projections."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (parts[2], parts[1], parts[0]) if at("q, k, v in another order", self.block) else parts
        q, k, v = (one.unflatten(-1, (4, -1)).transpose(1, 2) for one in (q, k, v))
        y = attend(q, k, v, self.block, causal=False).transpose(1, 2).flatten(2)
        y = self.o(y)
        x = self.n1(y) + x if at("norm before the sum", self.block) else self.n1(x + y)
        approximate = "tanh" if at("gelu by tanh", self.block) else "none"
        y = self.down(functional.gelu(self.up(x) * 3, approximate=approximate))
        if at("dropout left on", self.block):
            y = functional.dropout(y, 0.5)
        return self.n2(x + y)


class Encoder(nn.Module):
    """A small BERT or ViT."""

    def __init__(self, blocks: int = 3, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.layers = nn.ModuleList([EncoderBlock(width, number) for number in range(blocks)])
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        x = x.flip(1) if at("channels BGR") else x
        x = self.patches(x)
        x = x.transpose(2, 3) if at("patches transposed") else x
        x = x.flatten(2).transpose(1, 2)
        token = self.token.expand(len(x), -1, -1)
        x = torch.cat((x, token) if at("token at the end") else (token, x), 1)
        if not at("places left out"):
            x = x + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1) if at("pooled by mean") else x[:, 0])


class ConvBlock(nn.Module):
    """A block of ResNet."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        y = self.bn1(self.conv1(x))
        y = functional.leaky_relu(y, 0.2) if at("leaky for relu", self.block) else y.relu()
        y = self.bn2(self.conv2(y))
        if at("relu before the sum", self.block):
            return y.relu() + x
        return (y - x if at("residual subtracted", self.block) else y + x).relu()


class Net(nn.Module):
    """A small U-Net of residual blocks: down, up, joined by channels."""

    def __init__(self, blocks: int = 2, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([ConvBlock(width, number) for number in range(blocks)])
        self.mid = ConvBlock(width, blocks)
        self.join = nn.Conv2d(2 * width, width, 1)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        x = self.stem(x)
        for block in self.down:
            x = block(x)
        small = functional.max_pool2d(x, 2) if at("maximum for mean") else functional.avg_pool2d(x, 2)
        small = self.mid(small)
        mode = "bilinear" if at("bilinear for nearest") else "nearest"
        large = functional.interpolate(small, scale_factor=2, mode=mode)
        both = (large, x) if at("joined in another order") else (x, large)
        x = self.join(torch.cat(both, 1))
        x = x.sigmoid() if at("sigmoid for tanh") else x.tanh()
        return self.head(x.amax((2, 3)) if at("pooled by maximum") else x.mean((2, 3)))


class Cell(nn.Module):
    """A layer of a recurrent network, called at each step."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.given, self.kept = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the output."""
        h, c = state
        i, f, g, o = (self.given(x) + self.kept(h)).chunk(4, -1)
        if at("gates in another order", self.block):
            i, f = f, i
        f = f + 1 if at("bias of the forget gate", self.block) else f
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * (c if at("tanh left out", self.block) else c.tanh()), c


class Recurrent(nn.Module):
    """Two layers over six steps."""

    def __init__(self, blocks: int = 2, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.cells = nn.ModuleList([Cell(width, number) for number in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the output."""
        x, found = self.embed(ids), []
        states = [(torch.zeros_like(x[:, 0]),) * 2 for _ in self.cells]
        for step in range(x.shape[1]):
            y = x[:, step]
            for number, cell in enumerate(self.cells):
                given = states[number]
                given = (given[1], given[0]) if at("state swapped", number) else given
                states[number] = cell(y, given)
                y = states[number][0]
            found.append(y)
        found = found[::-1] if at("steps reversed") else found
        return self.head(self.norm(torch.stack(found, 1)))


def ids(seed: int) -> Tensor:
    """Return two sequences of seven tokens."""
    return torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(seed))


def images(seed: int) -> Tensor:
    """Return two images."""
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
