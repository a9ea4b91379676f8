"""pytest-msdump: the accuracy gate for model migration.

Public names are loaded when they are first used, so that importing this package (as pytest does at every start) costs
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_msdump.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_msdump.pipeline.asserting import assert_close, compare
    from pytest_msdump.pipeline.asserting_dumps import assert_dumps_close
    from pytest_msdump.pipeline.detail import write_detail
    from pytest_msdump.pipeline.one_side import assert_no_overflow
    from pytest_msdump.pipeline.opening import OpenDump, open_dump

__all__ = [
    "OpenDump",
    "assert_close",
    "assert_dumps_close",
    "assert_no_overflow",
    "compare",
    "open_dump",
    "write_detail",
]

_HOMES = {
    "OpenDump": "pipeline.opening",
    "assert_close": "pipeline.asserting",
    "assert_dumps_close": "pipeline.asserting_dumps",
    "assert_no_overflow": "pipeline.one_side",
    "compare": "pipeline.asserting",
    "open_dump": "pipeline.opening",
    "write_detail": "pipeline.detail",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
