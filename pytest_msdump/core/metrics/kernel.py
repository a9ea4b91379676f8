"""Which kernel measures: the compiled one, `kernel.c`, where there was a compiler, else numpy. Needs no numpy.

Without it numpy gives the same answers: counts, places and extrema exactly, sums to 1e-12 of themselves.
"""

from __future__ import annotations

import hashlib
import os
from ctypes import CDLL, c_char, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.errors import ConfigError

VARIABLE = "MSDUMP_KERNEL"

_NAMES = ("compiled", "numpy")
_FOLDER = Path(__file__).parent
_SOURCE, _LIBRARY = _FOLDER / "kernel.c", _FOLDER / "_kernel.native.so"


class Kernel(NamedTuple):
    """What measures pairs: the library of `kernel.c`, whose digest is `source`, or numpy because of `reason`."""

    name: str
    library: CDLL | None = None
    source: str = ""
    reason: str = ""

    @property
    def shortcoming(self) -> str:
        """The name, and why it is not the compiled one; empty where it is."""
        return f"{self.name} ({self.reason})" if self.reason else ""


def choose_kernel() -> Kernel:
    """Return the kernel of this process."""
    return _kernel(os.environ.get(VARIABLE, ""))


@cache
def _kernel(wanted: str) -> Kernel:
    if wanted and wanted not in _NAMES:
        raise ConfigError(f"{VARIABLE}: there is no kernel {wanted[:40]!r}; it is one of: {', '.join(_NAMES)}")
    if wanted == "numpy":
        return Kernel("numpy", reason=f"{VARIABLE} says so")
    kernel = _load(_LIBRARY, _SOURCE)
    if wanted and kernel.library is None:
        raise ConfigError(f"{VARIABLE}: there is no compiled kernel: {kernel.reason}; build it, or unset the variable")
    return kernel


def _load(library: Path, source: Path) -> Kernel:
    """Return the compiled kernel, or numpy and why it is not the compiled one."""
    if not library.exists():
        return Kernel("numpy", reason="it was not built when the package was installed, which needs a C compiler")
    try:
        loaded, digest = CDLL(str(library)), hashlib.sha256(source.read_bytes()).hexdigest()
        built_from = (c_char * (len(digest) + 1)).in_dll(loaded, "msdump_source").value
    except (OSError, ValueError) as error:
        return Kernel("numpy", reason=f"it cannot be loaded ({error})")
    # Its structs may be laid out in another way than `metrics.c_kernel` declares them.
    if built_from != digest.encode():
        return Kernel("numpy", reason="it was built from another state of its source")
    loaded.msdump_begin.argtypes = [c_void_p]
    loaded.msdump_begin.restype = None
    loaded.msdump_add.argtypes = [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p]
    loaded.msdump_add.restype = c_int32
    loaded.msdump_add_divergence.argtypes = [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]
    loaded.msdump_add_divergence.restype = None
    loaded.msdump_sketch.argtypes = [c_void_p, c_void_p, c_int64, c_int64, c_void_p]
    loaded.msdump_sketch.restype = None
    loaded.msdump_xxh64.argtypes = [c_void_p, c_void_p, c_int64]
    loaded.msdump_xxh64.restype = None
    loaded.msdump_order_free.argtypes = [c_void_p, c_int64, c_int64, c_void_p]
    loaded.msdump_order_free.restype = None
    loaded.msdump_noise.argtypes = [c_void_p, c_int64, c_int64, c_int64, c_uint64, c_double, c_void_p]
    loaded.msdump_noise.restype = None
    return Kernel("compiled", loaded, digest)


def kernel_line() -> str:
    """Say which kernel it is, on a line."""
    kernel = choose_kernel()
    return f"kernel: {kernel.shortcoming or kernel.name}"
