"""A U-Net with numbered names, and a port with Sequentials inside Sequentials."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from ..port import Model, Port
from .weights import images, seeded

INPUT = images(1, 3, 32, 32)
WIDTH = 4


def _numbered(inner: int, outer: int, name: str) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, width in ((1, inner), (2, outer)):
        layers[f"{name}conv{number}"] = nn.Conv2d(width, outer, 3, padding=1, bias=False)
        layers[f"{name}norm{number}"] = nn.BatchNorm2d(outer)
        layers[f"{name}relu{number}"] = nn.ReLU(inplace=True)
    return nn.Sequential(layers)


class UNet(nn.Module):
    """The reference: encoder1, pool1 … bottleneck, upconv3, decoder3 and so on."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, WIDTH, 2 * WIDTH, 4 * WIDTH)
        for number in (1, 2, 3):
            setattr(self, f"encoder{number}", _numbered(widths[number - 1], widths[number], f"enc{number}"))
            setattr(self, f"pool{number}", nn.MaxPool2d(2))
        self.bottleneck = _numbered(4 * WIDTH, 8 * WIDTH, "bottleneck")
        for number in (3, 2, 1):
            width = widths[number]
            setattr(self, f"upconv{number}", nn.ConvTranspose2d(2 * width, width, 2, 2))
            setattr(self, f"decoder{number}", _numbered(2 * width, width, f"dec{number}"))
        self.conv = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        skips = []
        for number in (1, 2, 3):
            skips.append(self.get_submodule(f"encoder{number}")(x))
            x = self.get_submodule(f"pool{number}")(skips[-1])
        x = self.bottleneck(x)
        for number in (3, 2, 1):
            x = torch.cat([self.get_submodule(f"upconv{number}")(x), skips[number - 1]], 1)
            x = self.get_submodule(f"decoder{number}")(x)
        return torch.sigmoid(self.conv(x))


class DoubleConv(nn.Module):
    """Convolution, normalisation, activation, twice."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        first = (nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())
        second = (nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())
        self.double_conv = nn.Sequential(*first, *second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.double_conv(x)


class Down(nn.Module):
    """Pooling, then a double convolution."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inner, outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.maxpool_conv(x)


class Up(nn.Module):
    """A transposed convolution, then a double one over both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.conv = DoubleConv(2 * width, width)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.conv(torch.cat([self.up(x), skip], 1))


class DownUp(nn.Module):
    """inc, down1 …, up1 …, outc."""

    def __init__(self) -> None:
        super().__init__()
        self.inc = DoubleConv(3, WIDTH)
        self.down1, self.down2 = Down(WIDTH, 2 * WIDTH), Down(2 * WIDTH, 4 * WIDTH)
        self.down3 = Down(4 * WIDTH, 8 * WIDTH)
        self.up1, self.up2, self.up3 = Up(4 * WIDTH), Up(2 * WIDTH), Up(WIDTH)
        self.outc = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(self.down3(x3), x3)
        return self.outc(self.up3(self.up2(x, x2), x1)).sigmoid()


def _double(left: str, right: str, name: str) -> dict[str, str]:
    kinds = [f"{kind}{number}" for number in (1, 2) for kind in ("conv", "norm", "relu")]
    rows = {f"{left}.double_conv.{place}": f"{right}.{name}{kind}" for place, kind in enumerate(kinds)}
    return rows | {left: right}


_TABLE = {
    **_double("inc", "encoder1", "enc1"),
    **_double("down1.maxpool_conv.1", "encoder2", "enc2"),
    **_double("down2.maxpool_conv.1", "encoder3", "enc3"),
    **_double("down3.maxpool_conv.1", "bottleneck", "bottleneck"),
    **_double("up1.conv", "decoder3", "dec3"),
    **_double("up2.conv", "decoder2", "dec2"),
    **_double("up3.conv", "decoder1", "dec1"),
    "down1.maxpool_conv.0": "pool1", "down2.maxpool_conv.0": "pool2", "down3.maxpool_conv.0": "pool3",
    "up1.up": "upconv3", "up2.up": "upconv2", "up3.up": "upconv1", "outc": "conv",
}  # fmt: skip

MODEL = Model(
    "unet",
    lambda: seeded(UNet(), INPUT),
    lambda model: model(INPUT),
    (Port("down-up", DownUp, _TABLE),),
    export=(INPUT,),
)
