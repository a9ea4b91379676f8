"""Failures that are inherited become a line, once all are known: workers tell them before anybody knows the cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback

from pytest_msdump.model.record import Record
from pytest_msdump.plugin.detailing import DETAILS
from pytest_msdump.plugin.session import sent_with
from pytest_msdump.reporting.roles import folded_line, role_line
from pytest_msdump.reporting.suspicious import suspicious_line
from pytest_msdump.reporting.tables import filled
from pytest_msdump.text import Phrases

if TYPE_CHECKING:
    import pytest

    from pytest_msdump.plugin.session import Gate

__all__ = ["fold_failures"]


def fold_failures(gate: Gate, terminal: pytest.TerminalReporter | None) -> None:
    """Shorten what the terminal is going to tell of inherited failures, and put the role above the others.

    Parameters
    ----------
    gate : Gate
        With its reports.
    terminal : TerminalReporter, optional
        Where failures wait to be told. They stay failures.
    """
    if terminal is None:
        return
    unfolded, say = gate.config.option.msdump_all, Phrases(gate.language)
    for report in terminal.stats.get("failed", []):
        records = _records(gate, report)
        if records and isinstance(report.longrepr, ExceptionChainRepr):
            report.longrepr = _told(report.longrepr, records, terminal._tw.fullwidth, unfolded=unfolded, say=say)


def _records(gate: Gate, report: pytest.TestReport) -> Sequence[Record]:
    """The records of an item, as the report of its suite has them now."""
    message = sent_with(report)
    if message is None:
        return []
    whole = gate.told.get(message.plan)
    return [] if whole is None else [whole.records[number] for number in message.records]


def _told(
    longrepr: ExceptionChainRepr, records: Sequence[Record], width: int, *, unfolded: bool, say: Phrases
) -> ExceptionChainRepr:
    """The failure as it is told now; a style of traceback that shows no text stays without."""
    traceback, place, _ = longrepr.chain[-1]
    lines = [line for entry in traceback.reprentries for line in entry.lines]
    failing = [record for record in records if record.fails]
    suspicious = [f"{line}\n" for one in _once(suspicious_line, failing, say) for line in filled(one, width)]
    folded = None if unfolded else folded_line(records, say)
    if folded is not None and place is not None:
        place = ReprFileLocation(place.path, place.lineno, say.joined((folded, place.message), "between_clauses"))
        # Where its details were written to is worth a line in any case.
        kept = [f"{line}\n" for text in lines for line in text.splitlines() if line.startswith(DETAILS)]
        lines = ["".join([say("shown_whole", text=folded) + "\n", *suspicious, *kept])] if lines else []
    elif lines:
        told = [f"{line}\n" for role in _once(role_line, failing, say) for line in filled(role, width)]
        lines = ["".join([*told, *suspicious, lines[0]]), *lines[1:]]
    return ExceptionChainRepr([(ReprTraceback([ReprEntryNative(lines)], None, "native"), place, None)])


def _once(line_of: Callable[[Record, Phrases], str], records: Sequence[Record], say: Phrases) -> list[str]:
    """What is said of several records, each sentence once."""
    return [line for line in dict.fromkeys(line_of(record, say) for record in records) if line]
