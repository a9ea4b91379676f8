"""Which cells of a MindSpore network are recorded, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_msdump.capture.torch_choice import chosen
from pytest_msdump.errors import ConfigError

__all__ = ["chosen_cells"]

# Gives back what its last cell gave back: recording both would say everything twice.
_LEFT_OUT = "SequentialCell"


def chosen_cells(
    network: Any,
    modules: str | Sequence[str] | None,
    exclude: str | Sequence[str],
    types: Any,
    depth: int | None,
) -> dict[str, Any]:
    """Return the cells to record, by name; see `capture.torch_choice.chosen`.

    Raises
    ------
    ConfigError
        Nothing is left, or hooks would not be called: graph mode, a compiled ``construct`` around a chosen cell.
    """
    cells = {name: cell for name, cell in network.cells_and_names() if name}
    root = type(network).__name__
    while root in cells:
        root += "_"
    everything = {root: network, **cells}
    offered = {
        name: cell
        for name, cell in everything.items()
        if modules is not None or name == root or type(cell).__name__ != _LEFT_OUT
    }
    watched = chosen(offered, modules, exclude, types, depth)
    _refuse(everything, watched)
    return watched


def _refuse(everything: dict[str, Any], watched: dict[str, Any]) -> None:
    import mindspore

    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise ConfigError(
            "MindSpore runs in graph mode, whose compiled code calls no hooks; set_context(mode=PYNATIVE_MODE), or "
            "give the script or function that runs the network: it runs in a process of its own that dumps"
        )
    root = next(iter(everything))
    for outer, cell in everything.items():
        inside = [name for name in watched if name != outer and (outer == root or name.startswith(f"{outer}."))]
        # What ms.jit leaves on the function that it has wrapped.
        if inside and hasattr(type(cell).construct, "__wrapped__"):
            raise ConfigError(
                f"construct of {outer} is compiled (ms.jit), and cells inside of it, such as {inside[0]}, call no "
                "hooks; give the script or function that runs the network, or leave them out with exclude="
            )
