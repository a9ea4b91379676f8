"""A task for worker processes. In a module of its own: they import it by its name, which a module of tests has not."""

from __future__ import annotations

import os
import signal

from pytest_msdump.capabilities.convert.one_file import Outcome
from pytest_msdump.capabilities.convert.sources import SourceFile


def deadly(source: SourceFile, **_: object) -> Outcome:
    """End as the system ends a process that takes too much memory, for one of its files."""
    if source.name == "3":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(source.path, written=[source.path])
