"""Ports from torchvision and timm to mindcv on MindSpore: another project's port, weights carried over by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mindcv
import mindspore as ms
import torch
from cases import Case, Mistake, Port, causes_at, named, pairs_of
from mindcv.models.vit import VisionTransformer
from mindcv_mistakes import CORRECTIONS, MISTAKES, TWO
from models import TIMM, TORCHVISION, images, seeded
from truth import Cause, Truth

from pytest_msdump.record import Recorder

__all__ = ["mindcv_cases"]


@dataclass(frozen=True)
class _Network:
    """A network of mindcv and what it is a port of.

    Parameters
    ----------
    build : callable
        The network, as published.
    reference : callable
        The PyTorch model.
    names : sequence of (pattern, replacement)
        From names of cells to names of modules, by `re.sub`, the first that fits the whole name.
    mistakes : str
        Which corrections and mistakes are for it.
    """

    build: Callable[[], Any]
    reference: Callable[[], Any]
    names: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]]
    mistakes: str
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Any:
        """The PyTorch model; made once."""
        if "model" not in self.kept:
            self.kept["model"] = seeded(self.reference)
        return self.kept["model"]

    def module_of(self, cell: str) -> str:
        """Return the name of the module that a cell stands for; the same where no pattern fits.

        The networks themselves are called by their types, and hold the values of their last modules.
        """
        for pattern, replacement in self.names:
            if re.fullmatch(pattern, cell):
                return re.sub(pattern, replacement, cell)
        return cell


def mindcv_cases() -> Iterator[Case]:
    """Yield a case for each network."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for name, network in _NETWORKS.items():
        yield _case(name, network)


def _case(name: str, network: _Network) -> Case:
    def reference(directory: Path, **options: Any) -> None:
        with Recorder(directory.parent).torch(network.model, directory=directory, **options), torch.no_grad():
            network.model(images())

    def port(mistakes: Sequence[Mistake], corrected: bool = True) -> Port:
        def record(directory: Path, truth: Truth | None) -> tuple[Truth | None, list[Cause]]:
            cells = network.build().set_train(False)
            carry_over(network.model, cells, network.module_of)
            if corrected:
                for correction in CORRECTIONS[network.mistakes]:
                    correction.apply(cells)
            for mistake in mistakes if corrected else ():
                mistake.apply(cells)
            with Recorder(directory.parent).mindspore(cells, directory=directory):
                cells(ms.Tensor(images().numpy()))
            return truth, causes_at(mistakes, truth)

        title = named(mistakes)
        return Port(*title, record) if corrected else Port("published", f"as published: {title[1]}", record)

    mistakes = MISTAKES[network.mistakes]
    ports = [port(())]
    if CORRECTIONS[network.mistakes]:
        ports.append(port(CORRECTIONS[network.mistakes], corrected=False))
    ports += [port((mistake,)) for mistake in mistakes]
    ports += [port(two) for two in pairs_of(mistakes, TWO)]

    def meant(left: str, right: str) -> bool:
        return network.module_of(left.partition("@")[0]) == right.partition("@")[0]

    return Case(f"mindcv-{name}", reference, ports, meant)


_PARAMETERS = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def carry_over(model: torch.nn.Module, cells: Any, module_of: Callable[[str], str]) -> None:
    """Give each parameter of the network the values of the PyTorch model, by name.

    Raises
    ------
    KeyError
        The model has no such weight.
    """
    values = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for path, cell in cells.cells_and_names():
        for name, parameter in cell.parameters_and_names(expand=False):
            own = _PARAMETERS.get(name.rpartition(".")[2], name.rpartition(".")[2])
            theirs = values[f"{module_of(path)}.{own}".lstrip(".")].detach().numpy()
            parameter.set_data(ms.Tensor(theirs.reshape(parameter.shape)))


def _resnet18() -> Any:
    return mindcv.create_model("resnet18", num_classes=10)


def _mobilenet_v2() -> Any:
    return mindcv.create_model("mobilenet_v2_100", num_classes=10)


def _vit() -> Any:
    return VisionTransformer(image_size=64, patch_size=16, embed_dim=64, depth=3, num_heads=4, num_classes=10)


def _inverted_residual(match: re.Match[str]) -> str:
    """Return ``features.2.conv.1.0`` for ``features.4.layers.3``: mindcv's blocks are flat, and begin two later."""
    block, place = int(match[1]) - 2, int(match[2])
    # The first block has no expansion, and so one group of three less.
    groups = 1 if block == 1 else 2
    inside = f"{place // 3}.{place % 3}" if place < 3 * groups else f"{groups + place - 3 * groups}"
    return f"features.{block}.conv.{inside}"


def _block(match: re.Match[str]) -> str:
    return f"features.{int(match[1]) - 2}" + (".conv" if match[2] else "")


_TORCHVISION_RESNET = [
    ("max_pool", "maxpool"),
    ("pool", "avgpool"),
    ("classifier", "fc"),
    (r"(.*)down_sample(.*)", r"\1downsample\2"),
]
_NETWORKS = {
    "resnet18": _Network(_resnet18, TORCHVISION["resnet18"], _TORCHVISION_RESNET, "resnet18"),
    "resnet18-timm": _Network(
        _resnet18,
        TIMM["resnet18"],
        [
            ("relu", "act1"),
            ("max_pool", "maxpool"),
            ("pool", "global_pool"),
            ("classifier", "fc"),
            (r"(layer.*)\.relu", r"\1.act1"),
            (r"(.*)down_sample(.*)", r"\1downsample\2"),
        ],
        "resnet18-timm",
    ),
    "mobilenet_v2": _Network(
        _mobilenet_v2,
        TORCHVISION["mobilenet_v2"],
        [
            (r"features\.([012])", r"features.0.\1"),
            (r"features\.20", "features.18.0"),
            (r"features\.21", "features.18.1"),
            (r"features\.22", "features.18.2"),
            (r"features\.(\d+)\.layers\.(\d+)", _inverted_residual),
            (r"features\.(\d+)(\.layers)?", _block),
        ],
        "mobilenet_v2",
    ),
    "vit": _Network(_vit, TIMM["vit"], [], "vit"),
}
