"""Who measures for the items of a session, and what follows an item ahead of it where ``--msdump-jobs`` asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_msdump.scheduling.running import Runner
from pytest_msdump.scheduling.threads import Workers

if TYPE_CHECKING:
    from pytest_msdump.plugin.collect import OperatorItem

__all__ = ["runner_of", "stop_measuring"]


class _Measuring:
    """Who measures now, and for which items: those of one suite that follow each other without another test between."""

    def __init__(self) -> None:
        self.items: frozenset[str] = frozenset()
        self.runner: Runner | None = None
        self.workers: Workers | None = None
        self.places: dict[str, int] = {}

    def close(self) -> None:
        """Give runner and threads back. Waits for none."""
        for one in (self.runner, self.workers):
            if one is not None:
                one.close()


_MEASURING: pytest.StashKey[_Measuring] = pytest.StashKey()


def runner_of(item: OperatorItem) -> Runner:
    """Return who measures for `item`; the same one for items that follow each other.

    Notes
    -----
    Nothing is measured across another test, which may write the files that come next. A worker of pytest-xdist does
    not know which items will be its own, so it measures the pairs of one item side by side and no further.
    """
    now = item.config.stash.setdefault(_MEASURING, _Measuring())
    if now.runner is None or item.nodeid not in now.items:
        if now.runner is not None:
            now.runner.close()
        items = _following(item, now)
        now.items = frozenset(one.nodeid for one in items)
        now.runner = Runner(item.plan, [number for one in items for number in one.group.pairs], _workers(item, now))
    return now.runner


def stop_measuring(config: pytest.Config) -> None:
    """Give the threads back, at the end of a session."""
    now = config.stash.get(_MEASURING, None)
    if now is not None:
        now.close()


def _workers(item: OperatorItem, now: _Measuring) -> Workers | None:
    """The threads of this suite, if it is to have any."""
    jobs = item.plan.suite.jobs
    if now.workers is not None and now.workers.jobs != jobs:
        now.workers.close()
        now.workers = None
    if now.workers is None and jobs > 1:
        now.workers = Workers(jobs)
    return now.workers


def _following(item: OperatorItem, now: _Measuring) -> Sequence[OperatorItem]:
    """The item, and those of its suite right behind it."""
    if not now.places:
        now.places = {one.nodeid: place for place, one in enumerate(item.session.items)}
    place = now.places.get(item.nodeid)
    if place is None or hasattr(item.config, "workerinput"):
        return [item]
    found: list[OperatorItem] = []
    for one in item.session.items[place:]:
        if not isinstance(one, type(item)) or one.msdump_source != item.msdump_source:
            break
        found.append(one)
    return found
