"""Models to be trained a few steps, their inputs, and sums in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_CLASSES, _WORDS, _LENGTH = 7, 40, 6


class Perceptron(nn.Module):
    """Linear layers with norms between them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm1 = nn.Linear(12, 24), nn.LayerNorm(24)
        self.fc2, self.norm2 = nn.Linear(24, 24), nn.LayerNorm(24)
        self.head = nn.Linear(24, _CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = torch.tanh(self.norm1(self.fc1(x)))
        return self.head(x + functional.gelu(self.norm2(self.fc2(x))))


class Convolutions(nn.Module):
    """Convolutions without a bias before BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.relu, self.head = nn.ReLU(), nn.Linear(12, _CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.relu(self.bn1(self.conv1(x)))
        return self.head(torch.sigmoid(self.bn2(self.conv2(x))).mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        weights = (self.q(h) @ self.k(h).transpose(1, 2) / h.shape[-1] ** 0.5).softmax(-1)
        x = x + self.o(weights @ self.v(h))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Attention(nn.Module):
    """Two blocks of attention, and a score for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(_WORDS, 16), nn.ModuleList(_Block(16) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, _CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Gated(nn.Module):
    """A recurrent cell written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gate, self.new = nn.Embedding(_WORDS, 12), nn.Linear(32, 20), nn.Linear(32, 20)
        self.head = nn.Linear(20, _CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.embed(ids)
        given = torch.cat([x.mean(1), x[:, -1], x[:, 0, :8]], dim=1)
        gate = torch.sigmoid(self.gate(given))
        return self.head(gate * torch.tanh(self.new(given)))


class Tied(nn.Module):
    """Words are scored by the weights that embed them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.norm = nn.Embedding(_WORDS, 16), nn.Linear(16, 16), nn.LayerNorm(16)
        self.head = nn.Linear(16, _WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.embed(ids)
        return self.head(self.norm(x + torch.tanh(self.mix(x.cumsum(1)))))


BUILDS: Mapping[str, Callable[[], nn.Module]] = {
    "perceptron": Perceptron,
    "convolutions": Convolutions,
    "attention": Attention,
    "gated": Gated,
    "tied": Tied,
}


def inputs_of(name: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch and its labels."""
    draw = torch.Generator().manual_seed(seed)
    rows = 12
    size = (rows, _LENGTH) if name in ("attention", "tied") else (rows,)
    labels = torch.randint(0, _WORDS if name == "tied" else _CLASSES, size, generator=draw)
    if name in ("attention", "gated", "tied"):
        return torch.randint(0, _WORDS, (rows, _LENGTH), generator=draw), labels
    shape = (rows, 12) if name == "perceptron" else (rows, 3, 8, 8)
    return torch.randn(*shape, generator=draw), labels


class ExactSums(TorchFunctionMode):
    """Linear layers and convolutions that add up in float64, and round once."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function."""
        if func in (functional.linear, torch.conv2d, functional.conv2d):
            doubles = [one.double() if isinstance(one, torch.Tensor) else one for one in args]
            return func(*doubles, **(kwargs or {})).float()
        return func(*args, **(kwargs or {}))


class OwnAdam(torch.optim.Optimizer):
    """Adam as other frameworks have it: epsilon inside of the root or before the correction, or no correction."""

    def __init__(self, groups: Any, *, betas: Any, eps: float, decoupled: bool, **flags: bool) -> None:
        super().__init__(groups, {"lr": 1e-3, "weight_decay": 0.0})
        self._betas, self._eps, self._decoupled = betas, eps, decoupled
        self._flags, self._step = flags, 0

    @torch.no_grad()
    def step(self, _: Any = None) -> None:
        """Update all parameters."""
        self._step += 1
        first, second = self._betas
        for group in self.param_groups:
            for one in (one for one in group["params"] if one.grad is not None):
                state, gradient, decay = self.state[one], one.grad, group["weight_decay"]
                if self._decoupled:
                    one.mul_(1 - group["lr"] * decay)
                else:
                    gradient = gradient + decay * one
                state.setdefault("exp_avg", torch.zeros_like(one)).lerp_(gradient, 1 - first)
                state.setdefault("exp_avg_sq", torch.zeros_like(one)).mul_(second).addcmul_(
                    gradient, gradient, value=1 - second
                )
                scales = [1.0 if self._flags["uncorrected"] else 1 - beta**self._step for beta in (first, second)]
                mean, square = state["exp_avg"] / scales[0], state["exp_avg_sq"] / scales[1]
                epsilon = self._eps / scales[1] ** 0.5 if self._flags["early"] else self._eps
                root = (square + epsilon).sqrt() if self._flags["inside"] else square.sqrt() + epsilon
                one.sub_(group["lr"] * mean / root)
