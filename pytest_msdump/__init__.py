"""pytest-msdump: the accuracy gate for model migration.

Public names are loaded when they are first used, so that importing this package (as pytest does at every start) costs
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump import former_names
from pytest_msdump.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.assertions import assert_close, assert_dumps_close, assert_replay, compare
    from pytest_msdump.capabilities.elements.write_pair import write_detail
    from pytest_msdump.capabilities.overflow.device import assert_no_overflow
    from pytest_msdump.core.compare.opening import OpenDump, open_dump

__all__ = [
    "OpenDump",
    "assert_close",
    "assert_dumps_close",
    "assert_no_overflow",
    "assert_replay",
    "compare",
    "open_dump",
    "write_detail",
]

_HOMES = {
    "OpenDump": "pytest_msdump.core.compare.opening",
    "assert_close": "pytest_msdump.assertions",
    "assert_dumps_close": "pytest_msdump.assertions",
    "assert_no_overflow": "pytest_msdump.capabilities.overflow.device",
    "assert_replay": "pytest_msdump.assertions",
    "compare": "pytest_msdump.assertions",
    "open_dump": "pytest_msdump.core.compare.opening",
    "write_detail": "pytest_msdump.capabilities.elements.write_pair",
}

former_names.install()
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
