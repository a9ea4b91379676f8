"""numpy without the threads of its linear algebra, for commands that are alone in their process."""

from __future__ import annotations

import os
import sys

__all__ = ["load_numpy"]

_VARIABLE = "OPENBLAS_NUM_THREADS"
_THEIR_OWN = (_VARIABLE, "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")


def load_numpy() -> None:
    """Import numpy such that its library makes no threads, unless the environment says how many.

    Notes
    -----
    Nothing here multiplies matrices, and threads that wait for work turn in circles: a third of what importing numpy
    costs. The environment is left as it was, for whoever starts other programs.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _THEIR_OWN):
        return
    os.environ[_VARIABLE] = "1"
    try:
        import numpy  # noqa: F401 - loaded for whoever imports it next
    finally:
        del os.environ[_VARIABLE]
