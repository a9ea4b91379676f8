"""Finds what is in a room by looking into its folder, at call time. Nothing is registered by hand.

A dump format, metric, converter or report is one file; entry points of the same names let other packages add theirs.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

__all__ = ["load"]


def load(room: str, base: str) -> dict[str, Any]:
    """Return one instance of every concrete subclass of ``pytest_msdump.<room>.base.<base>``, by its `name`.

    Parameters
    ----------
    room : str
        A folder of this package, e.g. ``"readers"``; also the entry-point group ``pytest_msdump.<room>``.
    base : str
        Name of the abstract class in the room's ``base`` module.

    Returns
    -------
    dict
        `name` → instance: the room's own in alphabetical order of their modules, then those of other packages.
    """
    package = import_module(f"pytest_msdump.{room}")
    parent: type = getattr(import_module(f"pytest_msdump.{room}.base"), base)
    found: dict[str, Any] = {}
    for module_info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        module = import_module(f"pytest_msdump.{room}.{module_info.name}")
        for member in vars(module).values():
            if _is_leaf(member, parent) and member.__module__ == module.__name__:
                found[member.name] = member()
    for entry_point in entry_points(group=f"pytest_msdump.{room}"):
        member = entry_point.load()
        if _is_leaf(member, parent):
            found[member.name] = member()
    return found


def _is_leaf(member: object, parent: type) -> bool:
    """Whether this is a concrete class of the wanted kind."""
    # Python 3.10 calls `dict[str, int]` a class, but cannot ask whose subclass it is.
    return parent in getattr(member, "__mro__", ()) and not inspect.isabstract(member)
