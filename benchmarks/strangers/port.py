"""What a stranger's port is: a model with other module names, and a table that says which module is which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Model", "Port", "copy_weights", "expanded"]

Template = str
Joined = tuple[tuple[Template, ...], tuple[Template, ...]]


@dataclass(frozen=True)
class Port:
    """A hand-written port of a model.

    Parameters
    ----------
    name : str
        E.g. ``"serving"``.
    build : callable
        Makes the model, without the reference's weights.
    same : mapping of str to str
        Module path of the port to that of the reference, both without slot, or both ``PATH:slot``. ``{i}`` is a number,
        ``{i+1}`` the number behind it.
    parts : sequence of (left paths, right paths)
        Joined projections: one side has one path, the other several whose outputs stand side by side in it.
    fill : callable
        Copies what modules of one name do not share, given the port and the reference: joined weights.
    run : callable, optional
        Calls the port; without it is called as the reference is.
    left_is_nhwc : bool
        Whether its images have channels last.
    has_equal_blocks : bool
        Whether a block may be left out or added without changing what the others' outputs mean.
    """

    name: str
    build: Callable[[], nn.Module]
    same: Mapping[Template, Template]
    parts: Sequence[Joined] = ()
    fill: Callable[[nn.Module, nn.Module], None] | None = None
    run: Callable[[nn.Module], Any] | None = None
    left_is_nhwc: bool = False
    has_equal_blocks: bool = True

    def made(self, reference: nn.Module) -> nn.Module:
        """Return the port with the reference's weights."""
        model = self.build().eval()
        copy_weights(model, reference, self.same)
        if self.fill is not None:
            self.fill(model, reference)
        return model


@dataclass(frozen=True)
class Model:
    """A model: its reference, how it is called, and ports of it.

    Parameters
    ----------
    name : str
        E.g. ``"llama"``.
    build : callable
        Makes the reference, with random weights.
    run : callable
        Calls a model.
    ports : sequence of Port
        Hand-written ports.
    export : tuple, optional
        Arguments with which it is exported to ONNX.
    optimizer : callable, optional
        Makes an optimizer: training is recorded, and `run` returns the loss.
    steps : int
        Of the training.
    inputs : tuple
        What a port in another framework is given.
    """

    name: str
    build: Callable[[], nn.Module]
    run: Callable[[nn.Module], Any]
    ports: Sequence[Port] = field(default_factory=tuple)
    export: tuple[Any, ...] | None = None
    optimizer: Callable[[Iterable[Any]], Any] | None = None
    steps: int = 2
    inputs: tuple[Any, ...] = ()


def expanded(template: Template, other: Template, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths that fit a template, each with what the other template is for it.

    >>> list(expanded("h.{i}.fc", "layer{i+1}", ["h.0.fc", "h.0.fc.x", "h.1.fc"]))
    [('h.0.fc', 'layer1'), ('h.1.fc', 'layer2')]
    """
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        pattern = rf"(?P={name})" if name in seen else rf"(?P<{name}>\d+)"
        seen.add(name)
        return pattern

    pattern = re.compile(re.sub(r"\\\{(\w)\\\}", group, re.escape(template)))
    for path in paths:
        if match := pattern.fullmatch(path):
            numbers = {name: int(text) for name, text in match.groupdict().items()}
            yield path, _filled(other, numbers)


def _filled(template: Template, numbers: Mapping[str, int]) -> str:
    def number(match: re.Match[str]) -> str:
        return str(numbers[match[1]] + int(match[2] or 0))

    return re.sub(r"\{(\w)([+-]\d+)?\}", number, template)


def copy_weights(model: nn.Module, reference: nn.Module, same: Mapping[Template, Template]) -> None:
    """Copy the weights and statistics that modules themselves hold, where both sides have them in one shape."""
    lefts, rights = dict(model.named_modules()), dict(reference.named_modules())
    for template, other in same.items():
        for path, right_path in expanded(template, other, lefts):
            if right_path not in rights:
                continue
            values = _own(rights[right_path])
            for name, tensor in _own(lefts[path]).items():
                if name in values and values[name].shape == tensor.shape:
                    tensor.data.copy_(values[name].data)


def _own(module: nn.Module) -> dict[str, Any]:
    return {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
