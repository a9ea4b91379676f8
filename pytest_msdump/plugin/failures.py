"""Which failures of a session the terminal shows in full, on a line each, or only counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TypeGuard

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback
from _pytest._io import TerminalWriter

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.report.base import summarisers
from pytest_msdump.core.report.shown import choose_shown, short_reason
from pytest_msdump.core.report.tables import filled
from pytest_msdump.core.text import Phrases
from pytest_msdump.plugin.session import Gate, sent_with
from pytest_msdump.plugin.sources import OWN_NODE

_RED, _GREEN = {"red": True, "bold": True}, {"green": True}


# What pytest's short summary lists when -r says nothing.
_USUAL_REPORTCHARS = "fE"


def shorten_failures(gate: Gate, terminal: pytest.TerminalReporter | None) -> None:
    """Choose which failures the terminal shows in full, and put their roles above them; the others get a line each."""
    if terminal is None:
        return
    plain, failing, place_of = Phrases(gate.language), dict[str, list[Record]](), dict[str, pytest.TestReport]()
    says: dict[str, Phrases] = {}
    for report in terminal.stats.get("failed", []):
        records = [record for record in _records(gate, report) if record.fails]
        if records and _is_ours(report.longrepr):
            failing[report.nodeid], place_of[report.nodeid] = records, report
            says[report.nodeid] = plain.calling(_shown(gate, report))
    whole, lines = choose_shown(failing, gate.config.option.msdump_show or "causes")
    for name in lines:
        say = says[name]
        text = say("after_label", label=name.removeprefix(OWN_NODE), text=short_reason(failing[name], say))
        # Where its details were written to is worth a line in any case.
        starts = tuple(say("details_of", name=record.left.address, file="") for record in failing[name])
        written = [line for line in str(place_of[name].longrepr).splitlines() if line.startswith(starts)]
        gate.shown_lines += [text, *(f"  {line}" for line in written)]
    gate.hidden = set(failing) - {*whole, *lines}
    for name, report in place_of.items():
        if name not in whole:
            # pytest passes over those that a debugger has shown already.
            report._pdbshown = True  # type: ignore[attr-defined]
        report.longrepr = _with_role(report.longrepr, failing[name], terminal._tw, says[name])  # type: ignore[arg-type]


def _records(gate: Gate, report: pytest.TestReport) -> Sequence[Record]:
    """The records of an item, as the report of its suite has them now."""
    message = sent_with(report)
    if message is None:
        return []
    whole = gate.report_of.get(message.plan)
    return [] if whole is None else [whole.records[number] for number in message.records]


def _shown(gate: Gate, report: pytest.TestReport) -> Mapping[str, str]:
    """Under which names operators of an item's run are shown."""
    message = sent_with(report)
    whole = None if message is None else gate.report_of.get(message.plan)
    return {} if whole is None else whole.left.shown


def _is_ours(longrepr: object) -> TypeGuard[ExceptionChainRepr]:
    """Whether it is the failure of a gate, as `collect` writes it: one piece of text at most, and no traceback."""
    if not isinstance(longrepr, ExceptionChainRepr):
        return False
    entries = longrepr.chain[-1][0].reprentries
    return len(entries) == 1 and isinstance(entries[0], ReprEntryNative) and len(entries[0].lines) <= 1


def _with_role(
    longrepr: ExceptionChainRepr, failing: Sequence[Record], writer: TerminalWriter, say: Phrases
) -> ExceptionChainRepr:
    """Return a failure with its role; a style of traceback that shows no text stays without."""
    traceback, place, _ = longrepr.chain[-1]
    lines = [line for entry in traceback.reprentries for line in entry.lines]
    if place is not None:
        place = ReprFileLocation(place.path, place.lineno, short_reason(failing, say))
    if lines:
        # First lines of all records, then second ones; each line once.
        lines_of = (teller.record_lines(record, say) for record in failing for teller in summarisers())
        above = dict.fromkeys(line for row in zip_longest(*lines_of) for line in row if line)
        text = "".join([*(f"{line}\n" for one in above for line in filled(one, writer.fullwidth)), *lines])
        lines = [_coloured(text, writer, say)]
    return ExceptionChainRepr([(ReprTraceback([ReprEntryNative(lines)], None, "native"), place, None)])


def _coloured(text: str, writer: TerminalWriter, say: Phrases) -> str:
    """Colour the verdict at the beginning of a line, and in the last cell of a table."""
    for words, marks in ((("FAIL", "ERROR", "UNDEFINED", "is_fail", "is_undefined"), _RED), (("is_ok",), _GREEN)):
        for word in words:
            start, end = ("", "$") if word.startswith("is_") else ("^", "(?=  )")
            found = re.compile(rf"{start}(?<!\S){re.escape(say(word))}{end}", re.MULTILINE)
            text = found.sub(writer.markup(say(word), **marks), text)
    return text


def print_others(gate: Gate, terminal: pytest.TerminalReporter) -> None:
    """Print the failures that get a line each, below those that are shown in full."""
    if gate.shown_lines and gate.config.option.tbstyle != "no" and not terminal.no_summary:
        say = Phrases(gate.language)
        terminal.line("")
        terminal.line(say("also_failing"))
        for line in gate.shown_lines:
            terminal.line(f"  {terminal_text(line)}")
        if gate.hidden:
            terminal.line(f"  {say('more_failing', n=len(gate.hidden))}")


def shortens(terminal: pytest.TerminalReporter) -> bool:
    """Whether pytest's short summary lists failures without being asked for all of them."""
    return bool(terminal.config.option.reportchars == _USUAL_REPORTCHARS)


def hide_lines(gate: Gate, terminal: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """Take most failures out of pytest's short summary, where nothing asks for all; return them all."""
    failed = terminal.stats.get("failed", [])
    if gate.hidden and shortens(terminal):
        terminal.stats["failed"] = [report for report in failed if report.nodeid not in gate.hidden]
    return failed
