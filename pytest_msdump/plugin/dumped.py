"""Files of tensors are no tests: collection need not look into each of a dump that lies below the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_msdump.model.dump import Dump
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["DumpedFiles"]


class DumpedFiles:
    """A plugin object that passes over what the plans of a session know to be tensors, and nothing else.

    A folder is passed over as a whole where every name in it is a tensor's: a conftest.py, a suite file or a test
    beside tensors is collected as anywhere. What was given to pytest by its path is never asked for.
    """

    def __init__(self) -> None:
        self._unread: list[Dump] = []
        self._roots: tuple[str, ...] = ()
        self._names: dict[str, set[str]] = {}

    def add(self, plan: Plan) -> None:
        """Remember the tensors of a plan; looks at them only when collection comes by."""
        self._unread += [plan.left, plan.right]
        self._roots = (*self._roots, str(plan.left.root), str(plan.right.root))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Pass over a tensor, or a folder of nothing else."""
        path = str(collection_path)
        if not path.startswith(self._roots):
            return None
        self._read()
        folder, name = os.path.split(path)
        return name in self._names.get(folder, ()) or self._holds_only_tensors(path) or None

    def _holds_only_tensors(self, folder: str) -> bool:
        names = self._names.get(folder)
        try:
            return names is not None and names.issuperset(os.listdir(folder))  # noqa: PTH208 - no Path for each
        except OSError:
            return False

    def _read(self) -> None:
        while self._unread:
            for file in _files(self._unread.pop()):
                folder, name = os.path.split(file)
                self._names.setdefault(folder, set()).add(name)


def _files(dump: Dump) -> Iterator[str]:
    for ref in (*dump.refs, *dump.older):
        yield str(ref.source.path)
        yield from map(str, ref.source.pieces)
