"""The table of a pair that was judged by statistics."""

from __future__ import annotations

from pytest_msdump.facts.statistics import STATISTICS
from pytest_msdump.model.record import Record
from pytest_msdump.model.statistics import Statistic
from pytest_msdump.reporting.numbers import number, plain
from pytest_msdump.reporting.tables import table
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["statistics_table"]

_DIGEST_SHOWN = 12


def statistics_table(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the statistics that both sides have, side by side."""
    told = record.statistics
    if told is None or not told.compared:
        return []
    rows = [
        (
            STATISTICS[name].columns[0].removesuffix(" value"),
            *_texts(told.left.values[name], told.right.values[name], say),
        )
        for name in told.compared
        if name in STATISTICS
    ]
    return table((say("statistic"), say("left"), say("right"), "|l - r|"), rows, width=width, right=(1, 2, 3))


def _texts(left: Statistic, right: Statistic, say: Phrases) -> tuple[str, str, str]:
    """Two values and how far they are apart; of digests the beginning."""
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        same = say("equal" if left == right else "differ")
        return str(left)[:_DIGEST_SHOWN], str(right)[:_DIGEST_SHOWN], same
    apart = abs(left - right)
    return plain(left), plain(right), "-" if apart != apart else number(apart, 3)
