"""Finds folders of a package that have a module of a name, and what other packages name as entry points."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.machinery import PathFinder, all_suffixes
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

_SUFFIXES = tuple(all_suffixes())

# How names of directories of an installed package end, in any case.
_INSTALLED = (".dist-info", "egg-info")


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


def rows_in_folders(package: str, module: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what such a module in each folder of a package assigns, by the folder's name; loads neither of the two.

    It is literal, so that running its compiled code takes a fifth of what parsing its text would.
    """
    for name, place in sorted(_modules_of(import_module(package)).items()):
        full = f"{package}.{name}.{module}"
        spec = PathFinder.find_spec(full, [os.path.join(place, name)])  # noqa: PTH118 - an entry of a path is a text
        if spec is not None:
            rows = module_from_spec(spec)
            cast("Any", spec.loader).exec_module(rows)
            yield name, vars(rows)


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
