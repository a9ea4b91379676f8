"""Models with random seeded weights, small enough for seconds on two cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["IMAGES", "TIMM", "TORCHVISION", "declare_nms", "images", "randomise", "seeded"]

IMAGES = (2, 3, 64, 64)


def declare_nms() -> None:
    """Declare two operators that the vision package has in a library for CUDA only, so that it can be imported."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)


# A library takes its operators along when it is collected.
_LIBRARIES: list[Any] = []


def images(shape: tuple[int, ...] = IMAGES) -> torch.Tensor:
    """Return seeded noise that varies slowly enough for pooling and padding to matter."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def randomise(model: nn.Module, given: Any = None, seed: int = 1) -> nn.Module:
    """Give every weight and every statistic its own random value, and return the model in evaluation mode.

    What a fresh model has alike (ones, zeros) would make different tensors equal. Running statistics are near those of
    `given`, as in a trained model, and small enough for an epsilon to be seen.
    """
    generator = torch.Generator().manual_seed(seed)
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                spread = (0.1 if norms else 1.0) / max(parameter[0].numel(), 1)
                parameter.normal_(0, spread**0.5, generator=generator)
            elif name.endswith("weight"):
                parameter.uniform_(0.5, 1.5, generator=generator)
            else:
                parameter.normal_(0, 0.2, generator=generator)
        if norms:
            _measure(model, norms, images() if given is None else given)
        for norm in norms:
            size = norm.running_var.shape
            norm.running_mean.add_(norm.running_var.sqrt() * torch.randn(size, generator=generator) * 0.2)
            norm.running_var.mul_(torch.rand(size, generator=generator) + 0.5)
    return model.eval()


def _measure(model: nn.Module, norms: list[Any], given: Any) -> None:
    """Set running statistics to those of a batch."""
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    # In one thread, so that every machine gets the same bits.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model.train()(given)
    torch.set_num_threads(threads)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a model, and randomise it."""
    torch.manual_seed(0)
    return randomise(build())


def _resnet18() -> nn.Module:
    declare_nms()
    from torchvision.models import resnet18

    return resnet18(num_classes=10)


def _mobilenet_v2() -> nn.Module:
    declare_nms()
    from torchvision.models import mobilenet_v2

    return mobilenet_v2(num_classes=10)


def _mobilenet_v3_small() -> nn.Module:
    declare_nms()
    from torchvision.models import mobilenet_v3_small

    return mobilenet_v3_small(num_classes=10)


def _vit() -> nn.Module:
    declare_nms()
    from torchvision.models import VisionTransformer

    sizes = {"image_size": 64, "patch_size": 16, "hidden_dim": 64, "mlp_dim": 128}
    return VisionTransformer(num_layers=4, num_heads=4, num_classes=10, **sizes)


def _vit_b_16() -> nn.Module:
    declare_nms()
    from torchvision.models import vit_b_16

    return vit_b_16(num_classes=10, image_size=64)


def _swin() -> nn.Module:
    declare_nms()
    from torchvision.models import SwinTransformer

    sizes = {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
    return SwinTransformer(num_classes=10, stochastic_depth_prob=0.0, **sizes)


# Name → what builds it.
TORCHVISION: dict[str, Callable[[], nn.Module]] = {
    "resnet18": _resnet18,
    "mobilenet_v2": _mobilenet_v2,
    "mobilenet_v3_small": _mobilenet_v3_small,
    "vit": _vit,
    "vit_b_16": _vit_b_16,
    "swin": _swin,
}


def _timm_resnet18() -> nn.Module:
    declare_nms()
    from timm import create_model

    return create_model("resnet18", num_classes=10)


def _timm_vit() -> nn.Module:
    declare_nms()
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(img_size=64, patch_size=16, embed_dim=64, depth=3, num_heads=4, num_classes=10)


TIMM: dict[str, Callable[[], nn.Module]] = {"resnet18": _timm_resnet18, "vit": _timm_vit}
