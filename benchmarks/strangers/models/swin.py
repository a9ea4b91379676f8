"""A tiny Swin of torchvision, channels last, and a port with the names of its authors, tokens in one axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..port import Model, Port
from .weights import declare_nms, images, seeded

INPUT = images(1, 3, 32, 32)
WIDTH, DEPTHS, HEADS, WINDOW = 16, (2, 2), (2, 4), 4
_EPSILON = 1e-5


def _reference() -> nn.Module:
    declare_nms()
    from torchvision.models import SwinTransformer

    sizes = {"patch_size": [4, 4], "embed_dim": WIDTH, "depths": [*DEPTHS], "num_heads": [*HEADS], "mlp_ratio": 2.0}
    return seeded(SwinTransformer(**sizes, window_size=[WINDOW] * 2, num_classes=10, stochastic_depth_prob=0.0))


def _windows(x: torch.Tensor) -> torch.Tensor:
    """Cut ``(B, H, W, C)`` into windows, ``(B * windows, WINDOW ** 2, C)``."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, channels)


def _joined(x: torch.Tensor, size: int) -> torch.Tensor:
    count = size // WINDOW
    x = x.view(-1, count, count, WINDOW, WINDOW, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(x.shape[0], size, size, -1)


class WindowAttention(nn.Module):
    """Attention inside windows, shifted or not, on ``(B, tokens, C)``."""

    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.qkv, self.proj, self.softmax = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Softmax(-1)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
        self.heads, self.size, self.shift = heads, size, shift
        places = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None] + WINDOW - 1
        self.register_buffer("index", apart[0] * (2 * WINDOW - 1) + apart[1], persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x.view(len(x), self.size, self.size, -1).roll((-self.shift, -self.shift), (1, 2))
        x = _windows(x)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)
        scores = scores + self.relative_position_bias_table[self.index].permute(2, 0, 1)
        if self.shift:
            scores = scores + self._mask().repeat(len(scores) // len(self._mask()), 1, 1, 1)
        x = self.proj((self.softmax(scores) @ v).transpose(1, 2).flatten(2))
        return _joined(x, self.size).roll((self.shift, self.shift), (1, 2)).flatten(1, 2)

    def _mask(self) -> torch.Tensor:
        """Return what keeps tokens apart that were not neighbours before the shift."""
        areas = torch.zeros(1, self.size, self.size, 1)
        cuts = (slice(0, -WINDOW), slice(-WINDOW, -self.shift), slice(-self.shift, None))
        for number, (rows, columns) in enumerate((one, other) for one in cuts for other in cuts):
            areas[:, rows, columns] = number
        flat = _windows(areas)[..., 0]
        return torch.where(flat[:, None] == flat[:, :, None], 0.0, -100.0)[:, None]


class Mlp(nn.Module):
    """fc1, act, fc2."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.fc2(self.act(self.fc1(x)))


class SwinBlock(nn.Module):
    """norm1, attn, norm2, mlp."""

    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, _EPSILON), nn.LayerNorm(width, _EPSILON)
        self.attn, self.mlp = WindowAttention(width, heads, size, shift), Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one token."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width, _EPSILON), nn.Linear(4 * width, 2 * width, bias=False)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x.view(len(x), self.size, self.size, -1)
        parts = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1).flatten(1, 2)))


class Stage(nn.Module):
    """Blocks, then perhaps a merging."""

    def __init__(self, number: int) -> None:
        super().__init__()
        width, size = WIDTH * 2**number, 8 // 2**number
        shifts = [WINDOW // 2 * (place % 2) * (size > WINDOW) for place in range(DEPTHS[number])]
        self.blocks = nn.ModuleList(SwinBlock(width, HEADS[number], size, shift) for shift in shifts)
        self.downsample = PatchMerging(width, size) if number + 1 < len(DEPTHS) else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        for block in self.blocks:
            x = block(x)
        return x if self.downsample is None else self.downsample(x)


class PatchEmbed(nn.Module):
    """proj, norm."""

    def __init__(self) -> None:
        super().__init__()
        self.proj, self.norm = nn.Conv2d(3, WIDTH, 4, 4), nn.LayerNorm(WIDTH, _EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.norm(self.proj(x).flatten(2).transpose(1, 2))


class Swin(nn.Module):
    """patch_embed, layers, norm, avgpool, head."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.layers = nn.ModuleList(Stage(number) for number in range(len(DEPTHS)))
        self.norm = nn.LayerNorm(2 * WIDTH, _EPSILON)
        self.avgpool, self.head = nn.AdaptiveAvgPool1d(1), nn.Linear(2 * WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.patch_embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.avgpool(self.norm(x).transpose(1, 2)).flatten(1))


def _fill(model: Any, reference: Any) -> None:
    for number, stage in enumerate(model.layers):
        for block, theirs in zip(stage.blocks, reference.features[2 * number + 1], strict=True):
            block.attn.qkv.load_state_dict(theirs.attn.qkv.state_dict())
            block.attn.proj.load_state_dict(theirs.attn.proj.state_dict())
            table = theirs.attn.relative_position_bias_table
            block.attn.relative_position_bias_table.data.copy_(table.data)


def _table() -> dict[str, str]:
    same = {
        "patch_embed.proj": "features.0.0", "patch_embed.norm": "features.0.2", "norm": "norm",
        "layers.0.downsample.norm": "features.2.norm", "layers.0.downsample.reduction": "features.2.reduction",
        "avgpool": "avgpool", "head": "head",
    }  # fmt: skip
    parts = {"norm1": "norm1", "attn": "attn", "norm2": "norm2", "mlp": "mlp", "mlp.fc1": "mlp.0", "mlp.act": "mlp.1",
             "mlp.fc2": "mlp.3"}  # fmt: skip
    for number in range(len(DEPTHS)):
        block, theirs = f"layers.{number}.blocks.{{i}}", f"features.{2 * number + 1}.{{i}}"
        same |= {block: theirs} | {f"{block}.{left}": f"{theirs}.{right}" for left, right in parts.items()}
    # All tokens of the last stage are in one window, so that nothing is put back into its place.
    same["layers.1.blocks.{i}.attn.proj"] = "features.3.{i}.attn"
    return same


MODEL = Model(
    "swin",
    _reference,
    lambda model: model(INPUT),
    (Port("authors", Swin, _table(), fill=_fill),),
    export=(INPUT,),
)
