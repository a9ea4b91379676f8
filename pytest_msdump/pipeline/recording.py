"""Opens what a program dumped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.pipeline.opening import OpenDump, open_dump

if TYPE_CHECKING:
    from pytest_msdump.capture.process import Ran

__all__ = ["opened"]


def opened(ran: Ran | Path) -> OpenDump:
    """Open what a program that ended well has dumped, or what was written to a folder.

    Raises
    ------
    ProgramError
        It dumped nothing, or what is no dump; the text has the end of what it printed.
    """
    if isinstance(ran, Path):
        return open_dump(ran)
    try:
        dump = open_dump(ran.directory)
    except DumpNotFoundError:
        ran.failed(f"ended well and has removed {ran.directory}, which it was to dump to")
    except UnknownDumpFormatError as error:
        ran.failed(f"ended well, and what it left is no dump: {error}")
    if not dump.refs:
        ran.failed(f"ended well after {ran.seconds:.1f} s and dumped nothing to {ran.directory}: {ran.question}")
    return dump
