"""numpy without the threads of its linear algebra, for commands that are alone in their process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

__all__ = ["keep_numpy_alone"]

_NUMPY = "numpy"
_VARIABLE = "OPENBLAS_NUM_THREADS"
_THEIR_OWN = (_VARIABLE, "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")


def keep_numpy_alone() -> None:
    """Whoever imports numpy first gets one whose library makes no threads, unless the environment says how many.

    Notes
    -----
    Nothing here multiplies matrices, and threads that wait for work turn in circles: a third of what importing numpy
    costs. The environment is left as it was, for whoever starts other programs. It is only for a process that is the
    command's own: what another program does with numpy is not our business.
    """
    if _NUMPY not in sys.modules:
        sys.meta_path.insert(0, _Finder())


# Neither extends its abstract class: to import these takes longer than all else that happens here.


class _Finder:
    """Finds numpy as all others do, and has it loaded by `_Loader`."""

    def __init__(self) -> None:
        self._asks = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what loads numpy; nothing of any other module."""
        # One of the others may ask all of them, this one included.
        if fullname != _NUMPY or self._asks or any(name in os.environ for name in _THEIR_OWN):
            return None
        self._asks = True
        try:
            found = (one.find_spec(fullname, path, target) for one in [*sys.meta_path] if one is not self)
            spec = next(filter(None, found), None)
        finally:
            self._asks = False
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Loader(spec.loader))
        return spec


class _Loader:
    """Loads a module as another loader does, while a variable says that there is one thread."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Let the other one do it, which is the module's loader for whoever asks."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        os.environ[_VARIABLE] = "1"
        try:
            self._loader.exec_module(module)
        finally:
            del os.environ[_VARIABLE]
