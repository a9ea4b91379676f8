"""Finds what is in a room by looking into its folder, at call time. Nothing is registered by hand.

A dump format, metric, converter or report is one file; entry points of the same names let other packages add theirs.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.machinery import PathFinder, all_suffixes
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint
    from types import ModuleType

_SUFFIXES = tuple(all_suffixes())

# How names of directories of an installed package end, in any case.
_INSTALLED = (".dist-info", "egg-info")


def load(room: str, base: str) -> dict[str, Any]:
    """Return one instance of every concrete subclass of ``<room>.base.<base>`` of the core, by its `name`.

    This package's own come in alphabetical order of their modules, then those of other packages, from the entry-point
    group ``pytest_msdump.<room>``.
    """
    parent = _parent(room, base)
    found: dict[str, Any] = {}
    for name, package in sorted((name, place) for place in _packages(room) for name in _modules_with(place, base)):
        found |= {member.name: member() for member in _leaves(f"{package}.{name}", parent)}
    for entry_point in entry_points_of(f"pytest_msdump.{room}"):
        member = entry_point.load()
        if _is_leaf(member, parent):
            found[member.name] = member()
    return found


def find(room: str, base: str, name: str) -> Any:
    """Return the instance that `load` has by this name; KeyError where there is none.

    Only the module of that name, but for dashes, is loaded, where there is one.
    """
    own = name.replace("-", "_")
    for package in _packages(room):
        if own in _modules_of(import_module(package)):
            for member in _leaves(f"{package}.{own}", _parent(room, base)):
                if member.name == name:
                    return member()
    return load(room, base)[name]


def _packages(room: str) -> tuple[str, str]:
    """Return where modules of a room lie: in the core, and beside it where a capability has no folder yet."""
    return f"pytest_msdump.core.{room}", f"pytest_msdump.{room}"


def _parent(room: str, base: str) -> type:
    return cast("type", getattr(import_module(f"pytest_msdump.core.{room}.base"), base))


def _leaves(module: str, parent: type) -> Iterator[Any]:
    """Name the concrete classes of the wanted kind that a module defines."""
    loaded = import_module(module)
    return (item for item in vars(loaded).values() if _is_leaf(item, parent) and item.__module__ == loaded.__name__)


def _modules_with(package: str, base: str) -> Iterator[str]:
    """Name the modules of a room that may have a class whose base is called so, or ends so, as `AscendReader` does.

    Many others are there to open what these list, and load numpy. Of a module without a text nothing is known.
    """
    naming = re.compile(rf"^class \w+\([^:]*{base}\b".encode(), re.MULTILINE)
    for name, place in _modules_of(import_module(package)).items():
        text = _content(os.path.join(place, f"{name}.py"))  # noqa: PTH118 - of a text, and there are many
        if text is None or naming.search(text):
            yield name


def _modules_of(package: ModuleType) -> dict[str, str]:
    """Name the modules and packages in a package, each with the directory it is in, as `pkgutil.iter_modules` does.

    That loads `inspect`, which takes longer than all that a comparison of two files needs of this package.
    """
    found: dict[str, str] = {}
    for place in package.__path__:
        try:
            names = sorted(os.listdir(place))  # noqa: PTH208 - an entry of a path is a text
        except (NotADirectoryError, FileNotFoundError):
            # An archive, or a directory in one; Windows says of that that it is not there.
            from pkgutil import iter_modules

            found |= {info.name: place for info in iter_modules([place]) if info.name not in found}
            continue
        except OSError:
            continue
        for name in names:
            stem, dot, suffix = name.partition(".")
            is_module = dot + suffix in _SUFFIXES if dot else _is_package(os.path.join(place, name))  # noqa: PTH118
            if is_module and stem != "__init__":
                found.setdefault(stem, place)
    return found


def folders_with(package: str, module: str) -> Iterator[tuple[str, str]]:
    """Name the folders of a package that have such a module, each with the module's dotted name."""
    for name, place in sorted(_modules_of(import_module(package)).items()):
        if _spec(f"{package}.{name}.{module}", os.path.join(place, name)) is not None:  # noqa: PTH118
            yield name, f"{package}.{name}.{module}"


def literal_rows(module: str) -> dict[str, Any]:
    """Return the literals that a module assigns, by name, without loading it or the package that it is in.

    Raises ValueError for anything else than a literal.
    """
    parent, _, _ = module.rpartition(".")
    room, _, folder = parent.rpartition(".")
    spec = next(spec for place in import_module(room).__path__ if (spec := _spec(module, os.path.join(place, folder))))  # noqa: PTH118
    text = cast("Any", spec.loader).get_source(module)
    return {
        cast("ast.Name", node.targets[0]).id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
    }


def _spec(module: str, place: str) -> ModuleSpec | None:
    return PathFinder.find_spec(module, [place])


def _is_package(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, f"__init__{suffix}")) for suffix in _SUFFIXES)  # noqa: PTH110, PTH118


def entries(room: str) -> dict[str, Any]:
    """Return what the entry points of other packages name in the group of a room, by their names."""
    return {point.name: point.load() for point in entry_points_of(f"pytest_msdump.{room}")}


def entry_points_of(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group; loads `importlib.metadata` only where a package names it."""
    # Takes longer to import than all that a comparison of two files needs of this package.
    if "importlib.metadata" not in sys.modules and not _may_be_named(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_be_named(group: str) -> bool:
    """Whether what `importlib.metadata` reads names the group anywhere, or would be found in other ways than here."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - an entry of sys.path is a text, and there are many names
        except FileNotFoundError:
            continue
        except OSError:
            return True
        for name in names:
            if name.lower().endswith(_INSTALLED):
                text = _content(os.path.join(place, name, "entry_points.txt"))  # noqa: PTH118 - as above
                if text is not None and group.encode() in text:
                    return True
    return False


def installed_version(name: str) -> str:
    """Return the version of an installed package, or nothing; `importlib.metadata` is asked where no folder says it."""
    start = f"{name.replace('-', '_')}-"
    for place in sys.path:
        try:
            names = [one for one in os.listdir(place or ".") if one.lower().startswith(start)]  # noqa: PTH208 - as above
        except OSError:
            continue
        for found in names:
            text = _content(os.path.join(place, found, "METADATA")) if found.endswith(".dist-info") else None  # noqa: PTH118
            if text is not None and (match := re.search(rb"^Version: *(.+?)\r?$", text, re.MULTILINE)):
                return match[1].decode("utf-8", "replace")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return None


def _is_leaf(member: object, parent: type) -> bool:
    """Whether this is a concrete class of the wanted kind."""
    # Python 3.10 calls `dict[str, int]` a class, but cannot ask whose subclass it is.
    return parent in getattr(member, "__mro__", ()) and not getattr(member, "__abstractmethods__", ())
