"""The compiled kernel, `metrics/sweep.c`, where there was a compiler, and whether it is used.

Without it numpy gives the same answers: counts, places and extrema exactly, sums to 1e-12 of themselves.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import ModuleType
from typing import NamedTuple

from pytest_msdump.errors import ConfigError

__all__ = ["VARIABLE", "Kernel", "chosen", "kernel_line"]

VARIABLE = "MSDUMP_KERNEL"

_KERNEL = "pytest_msdump.metrics._sweep"
_NAMES = ("compiled", "numpy")
# What sweep.c and this package agree on: a checkout that moves on keeps the extension that was built before.
_FORM = 6


class Kernel(NamedTuple):
    """Its name, the extension module when it is the compiled one, and else why it is not."""

    name: str
    module: ModuleType | None = None
    reason: str = ""


def chosen() -> Kernel:
    """Return the kernel of this process.

    The environment variable ``MSDUMP_KERNEL`` (``compiled`` or ``numpy``) decides when it is set.

    Raises
    ------
    ConfigError
        It names no kernel, or the compiled one, which is not there.
    """
    return _chosen(os.environ.get(VARIABLE, ""))


@cache
def _chosen(wanted: str) -> Kernel:
    if wanted and wanted not in _NAMES:
        raise ConfigError(f"{VARIABLE}: there is no kernel {wanted[:40]!r}; it is one of: {', '.join(_NAMES)}")
    if wanted == "numpy":
        return Kernel("numpy", reason=f"{VARIABLE} says so")
    module, reason = _loaded()
    if module is not None:
        return Kernel("compiled", module)
    if wanted:
        raise ConfigError(f"{VARIABLE}: there is no compiled kernel: {reason}; build it, or unset the variable")
    return Kernel("numpy", reason=reason)


def _loaded() -> tuple[ModuleType | None, str]:
    """Return the extension module, or why there is none."""
    try:
        module = importlib.import_module(_KERNEL)
    except ImportError as error:
        return None, _reason(error)
    if getattr(module, "FORM", None) == _FORM:
        return module, ""
    return None, "it was built from another state of its source"


def _reason(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == _KERNEL:
        return "it was not built when the package was installed, which needs a C compiler and Python's headers"
    return f"it cannot be loaded ({error})"


def kernel_line() -> str:
    """Say which kernel it is, on a line."""
    kernel = chosen()
    return f"kernel: {kernel.name}" + (f" ({kernel.reason})" if kernel.reason else "")
