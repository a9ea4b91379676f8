"""pytest-msdump: the accuracy gate for model migration.

Public names are loaded when they are first used, so that importing this package (as pytest does at every start) costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "OpenDump": "opening",
    "assert_close": "asserting",
    "assert_dumps_close": "asserting_dumps",
    "assert_no_overflow": "one_side",
    "compare": "asserting",
    "open_dump": "opening",
    "write_detail": "detail",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pytest_msdump.pipeline.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
