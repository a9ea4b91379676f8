"""Which kernel a test is about."""

from __future__ import annotations

import os

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.metrics import kernel

__all__ = ["EACH", "needs_kernel"]


def _is_built() -> bool:
    try:
        return kernel._kernel("compiled").library is not None
    except ConfigError:
        return False


# Where the compiled kernel is asked for, its absence is a failure.
needs_kernel = pytest.mark.skipif(
    not _is_built() and os.environ.get(kernel.VARIABLE) != "compiled", reason="the compiled kernel was not built here"
)

# Values of `MSDUMP_KERNEL`.
EACH = (pytest.param("compiled", marks=needs_kernel), "numpy")
