"""Roles where a replay has judged operators by themselves: it sees what the graph can only infer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_msdump.causes.roles import MOST_LISTED
from pytest_msdump.model.record import Record, RoleReason
from pytest_msdump.model.tensor import Coordinates


def roles_by_replay(records: Mapping[int, Record], edges: Iterable[tuple[int, int]]) -> dict[int, Record]:
    """Return the records whose role a replay decides, by number; `edges` are producer and consumer by their `order`.

    An operator that is wrong by itself is a cause. A failure that is right by itself is inherited: from what is wrong
    above it, or from failures there that were not replayed; where there are none, rounding has accumulated. Without
    edges above an operator, what ran before it counts. A failure that was not replayed keeps the role that the graph
    gives it, unless what it was taken to inherit from is right by itself.
    """
    if not any(record.local for record in records.values()):
        return {}
    feeds: defaultdict[int, set[int]] = defaultdict(set)
    for producer, consumer in edges:
        if producer < consumer:
            feeds[consumer].add(producer)
    by_order = sorted(records, key=lambda number: (records[number].order, number))
    decided: dict[int, Record] = {}
    # By operator: the wrong ones, else the failures without a judgement, that what it gives comes from.
    above: dict[int, tuple[str, ...]] = {}
    before: defaultdict[Coordinates, list[str]] = defaultdict(list)
    right = {record.left.address for record in records.values() if _outcome(record) == "pass"}
    for number in by_order:
        record = records[number]
        order, outcome, seen = record.order, _outcome(record), before[_part(record)]
        fed = [one for producer in sorted(feeds[order]) for one in above.get(producer, ())]
        origins = tuple(dict.fromkeys(fed if feeds[order] else seen))[:MOST_LISTED]
        begins = outcome == "fail" or (outcome == "" and record.fails and record.role in ("cause", "unknown"))
        if outcome == "fail":
            decided[number] = _with_role(record, "cause", (), "local")
        elif record.fails and outcome == "pass":
            name = "inherited" if origins else "accumulated"
            decided[number] = _with_role(record, name, origins, f"local_{name}")
        elif record.fails and record.role == "inherited" and right.intersection(record.causes):
            decided[number] = replace(record, causes=origins)
        elif outcome == "pass" and record.role is not None:
            decided[number] = record.without_role()
        if begins:
            seen.append(record.left.address)
        own = (record.left.address,) if begins else tuple(fed) if feeds else origins
        above[order] = tuple(dict.fromkeys((*above.get(order, ()), *own)))[:MOST_LISTED]
    return decided


def _outcome(record: Record) -> str:
    """Return what a replay says; nothing where it has no judgement."""
    return "" if record.local is None or record.local.outcome == "not_replayable" else record.local.outcome


def _part(record: Record) -> Coordinates:
    return replace(record.left.at, occurrence=None)


def _with_role(record: Record, name: str, causes: tuple[str, ...], why: str) -> Record:
    return replace(record, role=name, causes=causes, suspects=(), role_reason="", role_why=RoleReason(why))
