"""What is told of pairs that were judged by statistics: their entry in results.json, their table, their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.facts.statistics import STATISTICS
from pytest_msdump.model.statistics import Statistic, StatisticComparison, Statistics
from pytest_msdump.reporting.numbers import number, plain
from pytest_msdump.reporting.phrases import ENGLISH, Phrases
from pytest_msdump.reporting.tables import table
from pytest_msdump.reporting.values import decode, encode

__all__ = ["statistics_entry", "statistics_of_entry", "statistics_table"]

Entry = Mapping[str, Any]

_SIDES = ("left", "right")
_DIGEST_SHOWN = 12


def statistics_entry(compared: StatisticComparison) -> dict[str, Any]:
    """Return the key ``statistics`` of a record: both sides' numbers as far as each has them, and what they tell."""
    sides = {"left": compared.left, "right": compared.right}
    return {
        "unseen": list(compared.unseen),
        "compared": list(compared.compared),
        "elements": compared.elements,
        **{side: {name: _encode(value) for name, value in one.values.items()} for side, one in sides.items()},
        "digits": {side: one.digits for side, one in sides.items()},
        "at_least": {metric: encode(value) for metric, value in compared.at_least.items()},
        "equal_bits": compared.equal_bits,
        "note": compared.note,
    }


def statistics_of_entry(entry: Mapping[str, Any]) -> StatisticComparison:
    """Read what `statistics_entry` wrote and `reporting.entries` has checked, for judging it again."""
    left, right = (
        Statistics({name: _decode(name, value) for name, value in entry[side].items()}, entry["digits"][side])
        for side in _SIDES
    )
    unseen = tuple(side for side in _SIDES if side in entry["unseen"])
    return StatisticComparison(left, right, unseen, elements=entry["elements"], note=entry.get("note") or "")


def statistics_table(record: Entry, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the statistics that both sides have, side by side."""
    told = record.get("statistics")
    if not told or not told["compared"]:
        return []
    rows = [
        (STATISTICS[name].columns[0].removesuffix(" value"), *_texts(told["left"][name], told["right"][name], say))
        for name in told["compared"]
        if name in STATISTICS
    ]
    return table((say("statistic"), say("left"), say("right"), "|l - r|"), rows, width=width, right=(1, 2, 3))


def _texts(left: Any, right: Any, say: Phrases) -> tuple[str, str, str]:
    """Two values and how far they are apart; of digests the beginning."""
    try:
        one, other = decode(left), decode(right)
    except ValueError:
        same = say("equal" if left == right else "differ")
        return str(left)[:_DIGEST_SHOWN], str(right)[:_DIGEST_SHOWN], same
    apart = abs(one - other)
    return plain(one), plain(other), "-" if apart != apart else number(apart, 3)


def _encode(value: Statistic) -> Any:
    return value if isinstance(value, str) else encode(value)


def _decode(name: str, value: Any) -> Any:
    return value if value is None or STATISTICS[name].kind == "digest" else decode(value)
