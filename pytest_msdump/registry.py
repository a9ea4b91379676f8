"""Finds what is in a room by looking into its folder, at call time. Nothing is registered by hand.

A dump format, metric, converter or report is one file; entry points of the same names let other packages add theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["find", "load"]


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
    from pkgutil import iter_modules

    package = import_module(f"pytest_msdump.{room}")
    parent: type = getattr(import_module(f"pytest_msdump.{room}.base"), base)
    found: dict[str, Any] = {}
    for module_info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        module = import_module(f"pytest_msdump.{room}.{module_info.name}")
        for member in vars(module).values():
            if _is_leaf(member, parent) and member.__module__ == module.__name__:
                found[member.name] = member()
    for entry_point in _entry_points(f"pytest_msdump.{room}"):
        member = entry_point.load()
        if _is_leaf(member, parent):
            found[member.name] = member()
    return found


def find(room: str, base: str, name: str) -> Any:
    """Return the instance that `load` has by this name.

    Parameters
    ----------
    room, base : str
        As for `load`.
    name : str
        Whose module, of the same name but for dashes, is the only one that is loaded, where the room has it.

    Raises
    ------
    KeyError
        Nobody is called so.
    """
    from pkgutil import iter_modules

    package = import_module(f"pytest_msdump.{room}")
    own = name.replace("-", "_")
    if any(module_info.name == own for module_info in iter_modules(package.__path__)):
        parent: type = getattr(import_module(f"pytest_msdump.{room}.base"), base)
        module = import_module(f"pytest_msdump.{room}.{own}")
        for member in vars(module).values():
            if _is_leaf(member, parent) and member.__module__ == module.__name__ and member.name == name:
                return member()
    return load(room, base)[name]


def _entry_points(group: str) -> Iterable[EntryPoint]:
    # Takes longer to import than all that a comparison of two files needs of this package.
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _is_leaf(member: object, parent: type) -> bool:
    """Whether this is a concrete class of the wanted kind."""
    # Python 3.10 calls `dict[str, int]` a class, but cannot ask whose subclass it is.
    return parent in getattr(member, "__mro__", ()) and not inspect.isabstract(member)
