"""Modules that other packages import by the names they had before the core and the capabilities had folders."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, cast

PACKAGE = __name__.partition(".")[0]
# What is not under the core's folder with its old name.
ELSEWHERE = {"comparison": "core.compare", "compat": "capabilities.compat", "dumps.npy_file": "core.dumps.npy"}


class FormerNames:
    """Finds the module that now has another name, once nothing is found under the old one."""

    def find_spec(self, fullname: str, *_more: object) -> ModuleSpec | None:
        """Return where the same module is loaded from, or None: not ours, or never was."""
        package, _, rest = fullname.partition(".")
        room, _, inner = rest.partition(".")
        if package != PACKAGE or room in ("", "core", "capabilities"):
            return None
        from importlib.util import find_spec

        moved = ELSEWHERE.get(rest) or f"{ELSEWHERE.get(room, f'core.{room}')}{inner and '.'}{inner}"
        now = f"{PACKAGE}.{moved}"
        try:
            spec = find_spec(now)
        except ModuleNotFoundError:
            return None
        if spec is None:
            return None
        return ModuleSpec(
            fullname, cast("Any", _SameModule(spec)), is_package=spec.submodule_search_locations is not None
        )


class _SameModule:
    """Gives the module that another spec describes, not a second one; ``python -m`` asks for its code."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        return import_module(self._spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002
        loader: Any = self._spec.loader
        code: CodeType | None = loader.get_code(self._spec.name)
        return code


def install() -> None:
    """Let old names be found; once is enough."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.append(FormerNames())
