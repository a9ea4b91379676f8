"""The runner that compares pairs for the items of a session, ahead of them if ``--msdump-jobs`` asks for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_msdump.core.ports import offered
from pytest_msdump.core.scheduling import Cache, Runner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_msdump.core.compare.planning import OperatorGroup, Plan
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.plugin.session import Gate
    from pytest_msdump.plugin.sources import Source


class MeasuredItem(Protocol):
    """An item that compares pairs of its suite's plan."""

    config: pytest.Config
    session: pytest.Session
    plan: Plan
    group: OperatorGroup
    msdump_source: Source

    @property
    def nodeid(self) -> str:
        """The item's id."""


class _Measuring:
    """The runner of now, and its items: those of one suite that follow each other without another test between."""

    def __init__(self) -> None:
        self.items: frozenset[str] = frozenset()
        self.runner: Runner | None = None
        self.places: dict[str, int] = {}
        self.caches: dict[str, Cache | None] = {}


_MEASURING: pytest.StashKey[_Measuring] = pytest.StashKey()


def runner_of(item: MeasuredItem) -> Runner:
    """Return the runner for `item`; the same one for items that follow each other."""
    now = item.config.stash.get(_MEASURING, None) or item.config.stash.setdefault(_MEASURING, _Measuring())
    if now.runner is None or item.nodeid not in now.items:
        if now.runner is not None:
            now.runner.close()
        items = _following(item, now)
        now.items = frozenset(one.nodeid for one in items)
        numbers = [number for one in items for number in one.group.pairs]
        jobs = 1 if hasattr(item.config, "workerinput") else item.plan.suite.options["jobs"]
        digest = item.plan.digest
        if digest not in now.caches:
            now.caches[digest] = _opened(item.plan, item.config)
        now.runner = Runner(item.plan, numbers, jobs=jobs, cache=now.caches[digest], explains=True)
    return now.runner


def cached(runner: Runner, records: Mapping[int, Record]) -> tuple[dict[int, str], tuple[int, ...]]:
    """Return what the controller needs to know to keep records: their keys, and which came from earlier runs."""
    keys = {number: runner.keys[number] for number in records if number in runner.keys}
    return keys, tuple(sorted(runner.reused & records.keys()))


def keep_records(gate: Gate, plan: Plan) -> tuple[str, ...]:
    """Keep what a suite has measured; return what reports say of it. The controller alone writes."""
    cache = _opened(plan, gate.config)
    if cache is None:
        return ()
    records = gate.records[plan.digest]
    keys = gate.keys.get(plan.digest, {})
    reused = gate.reused.get(plan.digest, set())
    return cache.keep(records, keys, reused)


def _opened(plan: Plan, config: pytest.Config) -> Cache | None:
    """The cache that a plan's suite asks for. Where it asks for none, pytest's folder is not even made."""
    if plan.suite.options.get("cache", "off") == "off":
        return None
    found: Cache | None = offered("cache").open_cache(plan, _folder(config), explains=True)
    return found


def _folder(config: pytest.Config) -> Path:
    """Below pytest's own cache, which people know how to clear; our own folder where there is none, or can be none."""
    own = getattr(config, "cache", None)
    if own is not None:
        with suppress(OSError):
            return Path(own.mkdir("msdump"))
    # If nothing can be written here either, `keep_records` says so.
    folder: Path = offered("cache").cache_folder(config.rootpath)
    return folder


def stop_measuring(config: pytest.Config) -> None:
    """End worker processes, at the end of a session."""
    now = config.stash.get(_MEASURING, None)
    if now is not None and now.runner is not None:
        now.runner.close()


def _following(item: MeasuredItem, now: _Measuring) -> Sequence[MeasuredItem]:
    """The item, and those of its suite right behind it."""
    if not now.places:
        now.places = {one.nodeid: place for place, one in enumerate(item.session.items)}
    place = now.places.get(item.nodeid)
    if place is None or hasattr(item.config, "workerinput"):
        return [item]
    found: list[MeasuredItem] = []
    for one in item.session.items[place:]:
        if not isinstance(one, type(item)) or one.msdump_source != item.msdump_source:
            break
        found.append(one)
    return found
