"""Vision models that nothing is tuned on: two libraries' versions of one model, or a port by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port, expanded
from .weights import declare_nms, images, seeded

INPUT = images(2, 3, 64, 64)
SMALL = images(2, 3, 32, 32)


def _of_torchvision(build: Any, given: torch.Tensor) -> nn.Module:
    declare_nms()
    import torchvision

    return seeded(build(torchvision.models), given)


def _of_timm(build: Any) -> nn.Module:
    declare_nms()
    import timm

    model = build(timm)
    assert isinstance(model, nn.Module)
    return model


# -- ConvNeXt: torchvision against timm

_DEPTHS, _DIMS = (2, 2, 3, 2), (8, 16, 24, 32)


def _convnext(models: Any) -> nn.Module:
    config = models.convnext.CNBlockConfig
    stages = [
        config(inner, outer, depth) for inner, outer, depth in zip(_DIMS, (*_DIMS[1:], None), _DEPTHS, strict=True)
    ]
    made = models.ConvNeXt(stages, num_classes=10)
    assert isinstance(made, nn.Module)
    return made


def _scales(model: nn.Module, reference: nn.Module) -> None:
    ours = [value for name, value in model.named_parameters() if name.endswith("gamma")]
    theirs = [value for name, value in reference.named_parameters() if name.endswith("layer_scale")]
    for one, other in zip(ours, theirs, strict=True):
        other.data.fill_(0.5)
        one.data.copy_(other.data.flatten())


_CONVNEXT = {
    "stem.0": "features.0.0", "stem.1": "features.0.1", "head.norm": "classifier.0", "head.fc": "classifier.2",
    "head.global_pool": "avgpool",
}  # fmt: skip
for _stage in range(4):
    _blocks, _theirs = f"stages.{_stage}.blocks.{{i}}", f"features.{2 * _stage + 1}.{{i}}"
    _CONVNEXT |= {
        _blocks: _theirs, f"{_blocks}.drop_path": f"{_theirs}.stochastic_depth",
        f"{_blocks}.conv_dw": f"{_theirs}.block.0", f"{_blocks}.norm": f"{_theirs}.block.2",
        f"{_blocks}.mlp.fc1": f"{_theirs}.block.3", f"{_blocks}.mlp.act": f"{_theirs}.block.4",
        f"{_blocks}.mlp.fc2": f"{_theirs}.block.5",
    }  # fmt: skip
    if _stage:
        _CONVNEXT |= {f"stages.{_stage}.downsample.{one}": f"features.{2 * _stage}.{one}" for one in (0, 1)}

CONVNEXT = Model(
    "convnext",
    lambda: _with_scales(_of_torchvision(_convnext, INPUT)),
    lambda model: model(INPUT),
    (
        Port(
            "timm",
            lambda: _of_timm(lambda timm: timm.models.ConvNeXt(depths=_DEPTHS, dims=_DIMS, num_classes=10)),
            _CONVNEXT,
            fill=_scales,
        ),
    ),
    export=(INPUT,),
)


def _with_scales(model: nn.Module) -> nn.Module:
    for name, value in model.named_parameters():
        if name.endswith("layer_scale"):
            value.data.fill_(0.5)
    return model


# -- EfficientNet and RegNet: torchvision against timm


def _gate(ours: str, theirs: str, names: tuple[str, str, str, str]) -> dict[str, str]:
    """Return the rows of squeeze and excitation."""
    return {f"{ours}.{one}": f"{theirs}.{other}" for one, other in zip(
        names, ("fc1", "activation", "fc2", "scale_activation"), strict=True)} | {ours: theirs}  # fmt: skip


def _efficientnet_rows() -> dict[str, str]:
    rows = {"conv_stem": "features.0.0", "bn1": "features.0.2", "conv_head": "features.8.0", "bn2": "features.8.2",
            "classifier": "classifier.1", "global_pool.pool": "avgpool"}  # fmt: skip
    for stage in range(7):
        ours, theirs = f"blocks.{stage}.{{i}}", f"features.{stage + 1}.{{i}}"
        gate, base = (1, 0) if stage == 0 else (2, 1)
        rows[ours] = theirs
        rows |= _gate(f"{ours}.se", f"{theirs}.block.{gate}", ("conv_reduce", "act1", "conv_expand", "gate"))
        rows |= {f"{ours}.conv_dw": f"{theirs}.block.{base}.0", f"{ours}.bn{base + 1}": f"{theirs}.block.{base}.2"}
        last = "conv_pwl" if stage else "conv_pw"
        rows |= {
            f"{ours}.{last}": f"{theirs}.block.{gate + 1}.0",
            f"{ours}.bn{base + 2}": f"{theirs}.block.{gate + 1}.1",
        }
        if stage:
            rows |= {f"{ours}.conv_pw": f"{theirs}.block.0.0", f"{ours}.bn1": f"{theirs}.block.0.2"}
    return rows | _before_activation(rows)


def _before_activation(rows: dict[str, str]) -> dict[str, str]:
    """Return the rows of what timm's normalisations hand to their activation."""
    return {f"{ours}.drop": f"{theirs[:-1]}1" for ours, theirs in rows.items()
            if re.search(r"bn\d?$", ours) and theirs.endswith(".2")}  # fmt: skip


def _norms(rows: dict[str, str]) -> Callable[[nn.Module, nn.Module], None]:
    """Return what copies normalisations: they hold their activation in timm, and stand before it in torchvision."""

    def fill(model: nn.Module, reference: nn.Module) -> None:
        norms = [path for path, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]
        for template, other in rows.items():
            for path, theirs in expanded(template, other, norms):
                above, _, place = theirs.rpartition(".")
                norm = theirs if place == "1" else f"{above}.1"
                model.get_submodule(path).load_state_dict(reference.get_submodule(norm).state_dict())

    return fill


EFFICIENTNET = Model(
    "efficientnet",
    lambda: _of_torchvision(lambda models: models.efficientnet_b0(num_classes=10), INPUT),
    lambda model: model(INPUT),
    (
        Port(
            "timm",
            lambda: _of_timm(lambda timm: timm.create_model("efficientnet_b0", num_classes=10)),
            _efficientnet_rows(),
            fill=_norms(_efficientnet_rows()),
        ),
    ),
    export=(INPUT,),
)


def _regnet_rows() -> dict[str, str]:
    rows = {"stem.conv": "stem.0", "stem.bn": "stem.2", "head.global_pool": "avgpool", "head.fc": "fc"}
    for stage, depth in enumerate((1, 3, 6, 6), 1):
        for block in range(depth):
            ours, theirs = f"s{stage}.b{block + 1}", f"trunk_output.block{stage}.block{stage}-{block}"
            rows |= {ours: theirs, f"{ours}.conv3.conv": f"{theirs}.f.c.0", f"{ours}.conv3.bn": f"{theirs}.f.c.1"}
            for number, name in ((1, "a"), (2, "b")):
                rows |= {
                    f"{ours}.conv{number}.{one}": f"{theirs}.f.{name}.{other}"
                    for one, other in (("conv", 0), ("bn", 2))
                }
            rows |= _gate(f"{ours}.se", f"{theirs}.f.se", ("fc1", "act", "fc2", "gate"))
            if not block:
                rows |= {
                    f"{ours}.downsample.{one}": f"{theirs}.proj.{place}" for place, one in enumerate(("conv", "bn"))
                }
    return rows | _before_activation(rows)


REGNET = Model(
    "regnet",
    lambda: _of_torchvision(lambda models: models.regnet_y_400mf(num_classes=10), INPUT),
    lambda model: model(INPUT),
    (
        Port(
            "timm",
            lambda: _of_timm(lambda timm: timm.create_model("regnety_004", num_classes=10)),
            _regnet_rows(),
            fill=_norms(_regnet_rows()),
        ),
    ),
)


# -- DenseNet: torchvision against a port with flat names

_GROWTH, _LAYERS = 4, (2, 3)


class DenseLayer(nn.Module):
    """Normalisation, 1×1, normalisation, 3×3; the input stands before what it makes."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.bn_a, self.bn_b, self.act = nn.BatchNorm2d(inner), nn.BatchNorm2d(4 * _GROWTH), nn.ReLU()
        self.bottleneck = nn.Conv2d(inner, 4 * _GROWTH, 1, bias=False)
        self.grow = nn.Conv2d(4 * _GROWTH, _GROWTH, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        new = self.grow(self.act(self.bn_b(self.bottleneck(self.act(self.bn_a(x))))))
        return torch.cat([x, new], 1)


class Dense(nn.Module):
    """Stages of dense layers, each after the first behind a transition."""

    def __init__(self) -> None:
        super().__init__()
        width = 8
        self.first, self.first_bn = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.dense, self.squeeze = nn.ModuleList(), nn.ModuleList()
        for place, layers in enumerate(_LAYERS):
            if place:
                half = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False))
                self.squeeze.append(half.append(nn.AvgPool2d(2)))
                width //= 2
            self.dense.append(nn.Sequential(*(DenseLayer(width + _GROWTH * one) for one in range(layers))))
            width += _GROWTH * layers
        self.last_bn, self.scores = nn.BatchNorm2d(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = functional.max_pool2d(self.first_bn(self.first(x)).relu(), 3, 2, 1)
        for place, stage in enumerate(self.dense):
            x = stage(self.squeeze[place - 1](x) if place else x)
        return self.scores(self.last_bn(x).relu().mean((2, 3)))


_DENSE = {"first": "features.conv0", "first_bn": "features.norm0", "last_bn": "features.norm5", "scores": "classifier"}
_DENSE |= {
    f"squeeze.0.{place}": f"features.transition1.{name}" for place, name in enumerate(("norm", "relu", "conv", "pool"))
}
for _stage, _count in enumerate(_LAYERS):
    for _layer in range(_count):
        _ours, _theirs = f"dense.{_stage}.{_layer}", f"features.denseblock{_stage + 1}.denselayer{_layer + 1}"
        _DENSE |= {
            f"{_ours}.bn_a": f"{_theirs}.norm1", f"{_ours}.act": f"{_theirs}.relu1",
            f"{_ours}.bottleneck": f"{_theirs}.conv1", f"{_ours}.bn_b": f"{_theirs}.norm2",
            f"{_ours}.act@1": f"{_theirs}.relu2", f"{_ours}.grow": f"{_theirs}.conv2",
        }  # fmt: skip
        if _layer == _count - 1:
            _DENSE[_ours] = f"features.denseblock{_stage + 1}"

DENSENET = Model(
    "densenet",
    lambda: _of_torchvision(
        lambda models: models.DenseNet(growth_rate=_GROWTH, block_config=_LAYERS, num_init_features=8, num_classes=10),
        INPUT,
    ),
    lambda model: model(INPUT),
    (Port("flat", Dense, _DENSE, has_equal_blocks=False),),
    export=(INPUT,),
)


# -- MLP-Mixer: timm against a short program

_MIXER = 16


class Mixing(nn.Module):
    """Sequentials, as in short programs on the web: tokens are mixed in their own axis."""

    def __init__(self) -> None:
        super().__init__()
        self.patchify = nn.Conv2d(3, _MIXER, 8, 8)
        self.mixers = nn.ModuleList(
            nn.ModuleDict({
                "pre_token": nn.LayerNorm(_MIXER, 1e-6), "token": _two(16, _MIXER // 2),
                "pre_channel": nn.LayerNorm(_MIXER, 1e-6), "channel": _two(_MIXER, 4 * _MIXER),
            })
            for _ in range(3)
        )  # fmt: skip
        self.last, self.classify = nn.LayerNorm(_MIXER, 1e-6), nn.Linear(_MIXER, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.patchify(x).flatten(2).transpose(1, 2)
        for mixer in self.mixers:
            x = x + mixer["token"](mixer["pre_token"](x).transpose(1, 2)).transpose(1, 2)
            x = x + mixer["channel"](mixer["pre_channel"](x))
        return self.classify(self.last(x).mean(1))


def _two(width: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


_MIXING = {"patchify": "stem.proj", "last": "norm", "classify": "head"}
for _name, _norm, _mlp in (("token", "norm1", "mlp_tokens"), ("channel", "norm2", "mlp_channels")):
    _MIXING |= {f"mixers.{{i}}.pre_{_name}": f"blocks.{{i}}.{_norm}", f"mixers.{{i}}.{_name}": f"blocks.{{i}}.{_mlp}"}
    _MIXING |= {f"mixers.{{i}}.{_name}.{place}": f"blocks.{{i}}.{_mlp}.{layer}"
                for place, layer in enumerate(("fc1", "act", "fc2"))}  # fmt: skip

MIXER = Model(
    "mixer",
    lambda: seeded(
        _of_timm(
            lambda timm: timm.models.MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=3, embed_dim=_MIXER)
        )
    ),
    lambda model: model(SMALL),
    (Port("short", Mixing, _MIXING),),
    export=(SMALL,),
)

# -- A U-Net of a diffusion model

_BASE = 8


class Residual(nn.Module):
    """Two convolutions, the time between them; `names` are those of the layers."""

    def __init__(self, inner: int, outer: int, names: tuple[str, str, str, str, str, str]) -> None:
        super().__init__()
        layers = (nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1), nn.Linear(4 * _BASE, outer),
                  nn.GroupNorm(4, outer), nn.Conv2d(outer, outer, 3, padding=1))  # fmt: skip
        for name, layer in zip(names, layers, strict=False):
            self.add_module(name, layer)
        if inner != outer:
            self.add_module(names[5], nn.Conv2d(inner, outer, 1))
        self.names = names

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:  # noqa: D102
        norm1, conv1, timed, norm2, conv2 = (self.get_submodule(name) for name in self.names[:5])
        h = conv1(functional.silu(norm1(x))) + timed(functional.silu(time))[:, :, None, None]
        h = conv2(functional.silu(norm2(h)))
        return h + (self.get_submodule(self.names[5])(x) if hasattr(self, self.names[5]) else x)


class PixelAttention(nn.Module):
    """Attention among pixels."""

    def __init__(self, names: tuple[str, str, str, str, str]) -> None:
        super().__init__()
        self.names = names
        self.add_module(names[0], nn.GroupNorm(4, 2 * _BASE))
        for name in names[1:]:
            self.add_module(name, nn.Conv2d(2 * _BASE, 2 * _BASE, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        norm, *layers, out = (self.get_submodule(name) for name in self.names)
        h = norm(x)
        q, k, v = (layer(h).flatten(2).transpose(1, 2)[:, None] for layer in layers)
        h = functional.scaled_dot_product_attention(q, k, v)[:, 0]
        return x + out(h.transpose(1, 2).unflatten(2, x.shape[2:]))


_FIRST = ("norm1", "conv1", "temb_proj", "norm2", "conv2", "nin_shortcut")
_SECOND = ("norm1", "conv1", "time_emb_proj", "norm2", "conv2", "conv_shortcut")
_PLACES = {
    "down0": (_BASE, _BASE), "down1": (_BASE, 2 * _BASE), "mid1": (2 * _BASE, 2 * _BASE), "mid2": (2 * _BASE,
    2 * _BASE),
    "up1": (4 * _BASE, 2 * _BASE), "up0": (3 * _BASE, _BASE),
}  # fmt: skip
# Place → path in the first program, and in the second.
_DIFFUSION = {
    "down0": ("down.0.block.0", "down_blocks.0.resnets.0"), "down1": ("down.1.block.0", "down_blocks.1.resnets.0"),
    "mid1": ("mid.block_1", "mid_block.resnets.0"), "mid2": ("mid.block_2", "mid_block.resnets.1"),
    "up1": ("up.1.block.0", "up_blocks.0.resnets.0"), "up0": ("up.0.block.0", "up_blocks.1.resnets.0"),
    "attend": ("mid.attn_1", "mid_block.attentions.0"), "in": ("conv_in", "conv_in"),
    "norm": ("norm_out", "conv_norm_out"), "out": ("conv_out", "conv_out"),
    "time0": ("temb.dense.0", "time_embedding.linear_1"), "time1": ("temb.dense.1", "time_embedding.linear_2"),
    "less": ("down.0.downsample.conv", "down_blocks.0.downsamplers.0.conv"),
    "more": ("up.1.upsample.conv", "up_blocks.0.upsamplers.0.conv"),
}  # fmt: skip


class Diffusion(nn.Module):
    """The network of either program: `side` says whose names."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.paths = {place: paths[side] for place, paths in _DIFFUSION.items()}
        names, width = (_FIRST, _SECOND)[side], 2 * _BASE
        attention = (("norm", "q", "k", "v", "proj_out"), ("group_norm", "to_q", "to_k", "to_v", "to_out"))[side]
        layers: dict[str, nn.Module] = {place: Residual(*_PLACES[place], names) for place in _PLACES}
        layers |= {
            "attend": PixelAttention(attention), "in": nn.Conv2d(3, _BASE, 3, padding=1),
            "norm": nn.GroupNorm(4, _BASE), "out": nn.Conv2d(_BASE, 3, 3, padding=1),
            "time0": nn.Linear(_BASE, 4 * _BASE), "time1": nn.Linear(4 * _BASE, 4 * _BASE),
            "less": nn.Conv2d(_BASE, _BASE, 3, 2, 1), "more": nn.Conv2d(width, width, 3, padding=1),
        }  # fmt: skip
        for place, path in self.paths.items():
            parent: nn.Module = self
            *above, name = path.split(".")
            for part in above:
                if part not in parent._modules:
                    parent.add_module(part, nn.Module())
                parent = parent.get_submodule(part)
            parent.add_module(name, layers[place])

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:  # noqa: D102
        at = {place: self.get_submodule(path) for place, path in self.paths.items()}
        t = at["time1"](functional.silu(at["time0"](torch.cat([time.sin(), time.cos()], -1))))
        h = at["in"](x)
        first = at["down0"](h, t)
        second = at["down1"](at["less"](first), t)
        h = at["mid2"](at["attend"](at["mid1"](second, t)), t)
        h = at["up1"](torch.cat([h, second], 1), t)
        h = at["more"](functional.interpolate(h, scale_factor=2.0))
        h = at["up0"](torch.cat([h, first], 1), t)
        return at["out"](functional.silu(at["norm"](h)))


_INNER = {
    "attend": dict(
        zip(("group_norm", "to_q", "to_k", "to_v", "to_out"), ("norm", "q", "k", "v", "proj_out"), strict=True)
    )
}
_INNER |= {place: dict(zip(_SECOND, _FIRST, strict=True)) for place in _PLACES}
_UNET = {theirs: ours for ours, theirs in _DIFFUSION.values()}
for _place, _pairs in _INNER.items():
    _ours, _theirs = _DIFFUSION[_place][1], _DIFFUSION[_place][0]
    _UNET |= {f"{_ours}.{one}": f"{_theirs}.{other}" for one, other in _pairs.items()
              if "shortcut" not in one or _PLACES[_place][0] != _PLACES[_place][1]}  # fmt: skip
_STEPS = images(2, _BASE // 2)


DIFFUSION = Model(
    "diffusion",
    lambda: seeded(Diffusion(0)),
    lambda model: model(SMALL, _STEPS),
    (Port("second", lambda: Diffusion(1), _UNET, has_equal_blocks=False),),
    export=(SMALL, _STEPS),
)
