"""What the layers, operations and weights of a Keras model are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_msdump.capture.choice import Patterns, chosen

__all__ = ["layers_of", "recorded", "variables_of"]

# A Sequential gives back what its last layer gave back; an InputLayer is not called.
_LEFT_OUT = ("Sequential", "InputLayer")


def layers_of(model: Any) -> dict[str, Any]:
    """Return layers and operations by name, the model itself first: ``block/conv`` for one inside of another."""
    names: dict[str, Any] = {}
    seen: set[int] = set()
    for name, layer in _walk(model, model.name, ""):
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        number, free = 1, name
        while free in names:
            number += 1
            free = f"{name}_{number}"
        names[free] = layer
    return names


def recorded(layers: Mapping[str, Any], patterns: Patterns, exclude: Patterns, types: Patterns) -> frozenset[str]:
    """Return the names of the layers to record; see `choice.chosen`."""
    root = next(iter(layers))
    kinds = {name: type(layer).__name__ for name, layer in layers.items()}
    if patterns is None and types is None:
        kinds = {name: kind for name, kind in kinds.items() if name == root or kind not in _LEFT_OUT}
    return chosen(kinds, patterns, exclude, types)


def variables_of(layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by name: ``block/conv/kernel``. A weight that several layers share has the first one's."""
    variables: dict[str, Any] = {}
    seen: set[int] = set()
    root = next(iter(layers))
    # Inner layers first: an outer one has the weights of all inside of it.
    for name, layer in sorted(layers.items(), key=lambda item: -_depth(item[0], root)):
        for variable in getattr(layer, "weights", ()):
            if id(variable) in seen:
                continue
            seen.add(id(variable))
            title = free = f"{name}/{variable.name}" if name != root else variable.name
            number = 1
            while free in variables:
                number += 1
                free = f"{title}_{number}"
            variables[free] = variable
    order = {id(variable): place for place, variable in enumerate(layers[root].weights)}
    return dict(sorted(variables.items(), key=lambda item: order.get(id(item[1]), len(order))))


def _walk(layer: Any, name: str, prefix: str) -> Iterator[tuple[str, Any]]:
    yield name, layer
    for inner in _inside(layer):
        path = f"{prefix}{inner.name}"
        yield from _walk(inner, path, f"{path}/")


def _inside(layer: Any) -> list[Any]:
    """Layers directly inside of one, and the operations of a functional model."""
    found = list(layer._flatten_layers(include_self=False, recursive=False)) if _has_layers(layer) else []
    known = {id(inner) for inner in found}
    return found + [inner for inner in getattr(layer, "operations", ()) if id(inner) not in known]


def _has_layers(layer: Any) -> bool:
    return hasattr(layer, "_flatten_layers")


def _depth(name: str, root: str) -> int:
    return -1 if name == root else name.count("/")
