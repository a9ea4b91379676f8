"""What is compiled where there was a compiler, and whether it is used; without it everything works as well.

`metrics/sweep.c` is the compiled kernel: with numpy's, the answers are the same (counts, places and extrema exactly,
sums to 1e-12 of themselves). `reporting/form.c` writes numbers, with the same characters as Python, and
`readers/start.c` reads small files.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import ModuleType

from pytest_msdump.errors import ConfigError
from pytest_msdump.lazy_tuple import NamedTuple

__all__ = ["VARIABLE", "Kernel", "chosen", "file_reader", "kernel_line", "number_writer"]

VARIABLE = "MSDUMP_KERNEL"

_KERNEL = "pytest_msdump.metrics._sweep"
_NUMBER_WRITER = "pytest_msdump.reporting._form"
_FILE_READER = "pytest_msdump.readers._start"
_NAMES = ("compiled", "numpy")
# What each extension and this package agree on: a checkout that moves on keeps the extension that was built before.
_FORMS = {_KERNEL: 4, _NUMBER_WRITER: 1, _FILE_READER: 1}


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
    module, reason = _loaded(_KERNEL)
    if module is not None:
        return Kernel("compiled", module)
    if wanted:
        raise ConfigError(f"{VARIABLE}: there is no compiled kernel: {reason}; build it, or unset the variable")
    return Kernel("numpy", reason=reason)


def _loaded(extension: str) -> tuple[ModuleType | None, str]:
    """Return an extension module, or why there is none."""
    try:
        module = importlib.import_module(extension)
    except ImportError as error:
        return None, _reason(error, extension)
    if getattr(module, "FORM", None) == _FORMS[extension]:
        return module, ""
    return None, "it was built from another state of its source"


def _reason(error: ImportError, extension: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == extension:
        return "it was not built when the package was installed, which needs a C compiler and Python's headers"
    return f"it cannot be loaded ({error})"


def kernel_line() -> str:
    """Say which kernel it is, on a line."""
    kernel = chosen()
    return f"kernel: {kernel.name}" + (f" ({kernel.reason})" if kernel.reason else "")


def number_writer() -> ModuleType | None:
    """Return the extension that writes numbers; ``None`` where it was not built, or nothing compiled is wanted."""
    return _wanted(_NUMBER_WRITER)


def file_reader() -> ModuleType | None:
    """Return the extension that reads small files; ``None`` where it was not built, or nothing compiled is wanted."""
    return _wanted(_FILE_READER)


def _wanted(extension: str) -> ModuleType | None:
    return None if os.environ.get(VARIABLE) == "numpy" else _loaded(extension)[0]
