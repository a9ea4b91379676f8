"""What comes of doing something, refusals among it: for two ways that are to agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def outcome(act: Callable[[], Any]) -> Any:
    """What comes of it, or the kind of the refusal."""
    try:
        return act()
    except (AttributeError, TypeError, ValueError) as error:
        return type(error)


def without_run(written: bytes) -> bytes:
    """A results.json or page without what differs from run to run: date and command."""
    return re.sub(rb'"run": ?\{[^}]*\},\n?', b"", written)
