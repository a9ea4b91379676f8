"""Run a model and keep what its modules return, by hooks such as people write, and which of it is one tensor.

`record` is the ten lines that strangers write into a script of their own. Nothing of our recorder takes part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from .tensors import OUTPUT, Recording, Tensor

__all__ = ["added", "mark_origins", "record", "record_training"]

# A module's attribute: its path in the model without a mistake; empty where that model does not have it.
_ORIGIN = "path_without_mistake"


def mark_origins(model: nn.Module) -> None:
    """Keep every module's path, before a mistake moves modules about."""
    for path, module in model.named_modules():
        setattr(module, _ORIGIN, path)


def added(module: nn.Module) -> nn.Module:
    """Return a module that a mistake adds, marked as one without an origin."""
    for _, inner in module.named_modules():
        setattr(inner, _ORIGIN, "")
    return module


def origin_of(module: nn.Module, path: str) -> str:
    """Return the path of a module in the model without a mistake."""
    return str(getattr(module, _ORIGIN, path))


def record(model: nn.Module, run: Callable[[nn.Module], Any], arm: Callable[[], None] | None = None) -> Recording:
    """Run a model and keep the outputs of its modules; `arm` puts in the mistake that works by a hook of its own."""
    saved: list[Tensor] = []
    alive: list[torch.Tensor] = []  # Memory that is given back would be another tensor's.
    calls: Counter[str] = Counter()

    def saving(path: str) -> Callable[..., None]:
        def save(module: nn.Module, _given: Any, output: Any) -> None:
            origin, call = origin_of(module, path), calls[path]
            for slot, tensor in enumerate(_outputs(output)):
                if isinstance(tensor, torch.Tensor):
                    alive.append(tensor)
                    values = tensor.detach().numpy().copy()
                    saved.append(Tensor(path, values, slot, call, OUTPUT, None, origin, _identity(tensor)))
            calls[path] += 1

        return save

    handles = [module.register_forward_hook(saving(path)) for path, module in model.named_modules() if path]
    if arm is not None:
        arm()
    try:
        run(model)
    finally:
        for handle in handles:
            handle.remove()
    return Recording(tuple(saved))


def record_training(
    model: nn.Module,
    run: Callable[[nn.Module], torch.Tensor],
    optimizer: Callable[[Iterable[Any]], torch.optim.Optimizer],
    steps: int,
    arm: Callable[[], None] | None = None,
) -> Recording:
    """Train a model for some steps; keep what `record` does, then gradients, weights and the optimizer's state.

    Parameters
    ----------
    model : torch.nn.Module
        In training mode.
    run : callable
        Returns the loss.
    optimizer : callable
        Makes the optimizer for the parameters.
    steps : int
        How many.
    arm : callable, optional
        See `record`.
    """
    updates = optimizer(model.parameters())
    saved: list[Tensor] = []
    for step in range(steps):
        losses: list[torch.Tensor] = []
        forward = record(model, lambda model, losses=losses: losses.append(run(model)), arm)  # type: ignore[misc]
        arm = None
        saved += [tensor._replace(step=step, identity=(step, tensor.identity)) for tensor in forward.tensors]
        saved.append(Tensor("loss", losses[0].detach().numpy().copy(), step=step, origin="loss"))
        updates.zero_grad()
        losses[0].backward()
        kept: dict[str, list[Tensor]] = {"gradient": [], "parameter": [], "state": []}
        for path, parameter, origin in _parameters(model):
            kept["gradient"].append(_of_parameter(path, parameter.grad, "gradient", step, origin))
        updates.step()
        for path, parameter, origin in _parameters(model):
            kept["parameter"].append(_of_parameter(path, parameter, "parameter", step, origin))
            for name, value in updates.state[parameter].items():
                if isinstance(value, torch.Tensor) and value.ndim:
                    path_of_state, origin_of_state = f"{path}.{name}", origin and f"{origin}.{name}"
                    kept["state"].append(_of_parameter(path_of_state, value, "state", step, origin_of_state))
        saved += [tensor for tensors in kept.values() for tensor in tensors]
    return Recording(tuple(saved))


def _parameters(model: nn.Module) -> Iterator[tuple[str, Any, str]]:
    """Yield each parameter with its path, and its path in the model without a mistake."""
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            origin = origin_of(module, path)
            yield f"{path}.{name}", parameter, origin and f"{origin}.{name}"


def _of_parameter(path: str, values: Any, kind: str, step: int, origin: str) -> Tensor:
    return Tensor(path, values.detach().numpy().copy(), kind=kind, step=step, origin=origin)


def _outputs(output: Any) -> list[Any]:
    """Return what a module returned, as a flat list."""
    if isinstance(output, Mapping):
        return [part for value in output.values() for part in _outputs(value)]
    if isinstance(output, (tuple, list)):
        return [part for value in output for part in _outputs(value)]
    return [output]


def _identity(tensor: torch.Tensor) -> Any:
    """Return what is equal for two tensors that hold the same bytes in the same order."""
    order = "in order" if tensor.is_contiguous() else (tuple(tensor.shape), tensor.stride())
    return tensor.data_ptr(), tensor.numel(), tensor._version, order
