"""Which line of the user's program is running."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

__all__ = ["calling_line"]

_OURS = f"{Path(__file__).parent}{os.sep}"


def calling_line(*frameworks: str) -> str | None:
    """Return ``path:line`` of the innermost caller that is neither this package nor below a framework's folder."""
    frame: FrameType | None = sys._getframe(1)
    # Names in angle brackets are of code that has no file.
    skipped = (_OURS, "<", *_folders(frameworks))
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(skipped):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _folders(frameworks: Iterable[str]) -> Iterable[str]:
    for name in frameworks:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path:
            yield f"{Path(path).parent}{os.sep}"
