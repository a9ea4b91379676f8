"""Two steps of training, for mistakes that no forward pass shows; the port differs in its memory format."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from cases import Case, Mistake, Port, causes_at, named
from models import images, randomise
from torch import nn
from truth import Cause, Truth

from pytest_msdump.record import Recorder

__all__ = ["optimizer_of", "training_cases"]

_LABELS = torch.tensor([1, 3, 0, 2])


class Net(nn.Module):
    """Convolutions with a bias before BatchNorm, whose gradient is zero in exact arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24)
        self.relu, self.pool = nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        self.fc1, self.fc2 = nn.Linear(96, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of sixteen classes."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.pool(torch.tanh(self.bn2(self.conv2(x))))
        return self.fc2(torch.sigmoid(self.fc1(x.flatten(1))))


def training_cases() -> Iterator[Case]:
    """Yield the case."""
    model = randomise(Net(), images((4, 3, 16, 16)))

    def port(mistakes: Sequence[Mistake]) -> Port:
        def record(directory: Path, truth: Truth | None) -> tuple[Truth | None, list[Cause]]:
            train(model, directory, mistakes, torch.channels_last)
            return truth, causes_at(mistakes, truth)

        return Port(*named(mistakes), record)

    def reference(directory: Path, **options: Any) -> None:
        train(model, directory, (), torch.contiguous_format, **options)

    ports = [port(mistakes) for mistakes in ((), *((one,) for one in _MISTAKES))]
    yield Case("training-sgd", reference, ports, lambda left, right: left == right)


def optimizer_of(model: nn.Module) -> Any:
    """Return the optimizer of the case: biases do not decay."""
    biases = [one for name, one in model.named_parameters() if name.endswith("bias")]
    weights = [one for name, one in model.named_parameters() if not name.endswith("bias")]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": biases, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.5, momentum=0.9)


def train(model: nn.Module, directory: Path, mistakes: Sequence[Mistake], memory: Any, **more: Any) -> None:
    """Record two steps."""
    model = copy.deepcopy(model).train().to(memory_format=memory)
    optimizer = optimizer_of(model)
    for mistake in mistakes:
        mistake.apply(model, optimizer)
    options = {"gradients": True, "parameters": True, "optimizer": optimizer, "iterations": True, **more}
    given = images((4, 3, 16, 16)).to(memory_format=memory)
    with Recorder(directory.parent).torch(model, directory=directory, **options) as recording:
        for _ in range(2):
            with recording.iteration():
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(given), _LABELS).backward()
                optimizer.step()


Change = Callable[[nn.Module, Any], None]


def _norm_momentum(model: Any, _: Any) -> None:
    model.bn1.momentum = 0.9


def _step_momentum(_: Any, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["momentum"] = 0.5


def _decay_on_bias(model: Any, optimizer: Any) -> None:
    kept = [one for one in optimizer.param_groups[1]["params"] if one is not model.fc2.bias]
    optimizer.param_groups[1]["params"] = kept
    optimizer.add_param_group({"params": [model.fc2.bias], "weight_decay": 0.1})


def _learning_rate(_: Any, optimizer: Any) -> None:
    optimizer.param_groups[1]["lr"] = 0.25


_ALL = [name for name, _ in Net().named_parameters()]
_UPDATES = tuple(f"{name}/{what}" for name in _ALL for what in ("updated", "momentum_buffer"))
_MISTAKES: Sequence[Mistake] = (
    Mistake("norm_momentum", "bn1.running_mean", "momentum 0.9 for 0.1", _norm_momentum, ("bn1.running_var", "bn1")),
    Mistake("step_momentum", "fc2.weight/updated", "momentum 0.5 for 0.9", _step_momentum, _UPDATES),
    Mistake(
        "decay_on_bias",
        "fc2.bias/updated",
        "weight decay on a bias",
        _decay_on_bias,
        ("fc2.bias/momentum_buffer", "fc2.bias"),
    ),
    Mistake(
        "learning_rate",
        "fc2.bias/updated",
        "half the learning rate of biases",
        _learning_rate,
        tuple(name for name in _UPDATES if "bias/updated" in name),
    ),
)
