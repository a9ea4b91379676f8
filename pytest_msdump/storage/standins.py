"""Where the stand-ins of remote files are on this machine: empty files in a private folder, and the sizes they mean."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["Standins", "standins"]


@dataclass(frozen=True)
class Standins:
    """The stand-ins of this process.

    Parameters
    ----------
    folder : str
        Private to this process, and removed with it.
    sizes : dict of str to int
        Bytes of the remote file, by the stand-in's path. The stand-ins themselves are empty, so that whoever reads one
        by mistake meets a damaged file and never zeros that look like a tensor.
    """

    folder: str
    sizes: dict[str, int] = field(default_factory=dict)


@lru_cache(maxsize=1)
def standins() -> Standins:
    """Return this process's stand-ins; the folder is made at the first call."""
    import atexit
    import tempfile

    folder = tempfile.mkdtemp(prefix="msdump-")
    atexit.register(_remove, folder, os.getpid())
    return Standins(folder)


def _remove(folder: str, owner: int) -> None:
    import shutil

    # A forked process inherits what is to be done at the end, but not the folder.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
