"""Which failures of a session the terminal shows in full, on a line each, or only counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback
from _pytest._io import TerminalWriter

from pytest_msdump.core.escape import terminal_lines, terminal_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.report.shown import choose_shown, short_reason
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.text import Phrases
from pytest_msdump.plugin.output import failure
from pytest_msdump.plugin.session import Gate, sent_with
from pytest_msdump.plugin.sources import OWN_NODE

_RED, _GREEN = {"red": True, "bold": True}, {"green": True}


# What pytest's short summary lists when -r says nothing.
_USUAL_REPORTCHARS = "fE"


def shorten_failures(gate: Gate, terminal: pytest.TerminalReporter | None) -> None:
    """Choose which failures the terminal shows in full, now that their roles are known; others get a line each."""
    if terminal is None:
        return
    plain, failing, place_of = Phrases(gate.language), dict[str, list[Record]](), dict[str, pytest.TestReport]()
    says: dict[str, Phrases] = {}
    for report in terminal.stats.get("failed", []):
        records = [record for record in _records(gate, report).values() if record.fails]
        if records and _is_ours(report.longrepr):
            failing[report.nodeid], place_of[report.nodeid] = records, report
            says[report.nodeid] = plain.calling(_shown(gate, report))
    whole, lines, gate.more = choose_shown(failing, gate.config.option.msdump_show or "causes")
    gate.hidden = set(failing) - {*whole, *lines}
    # The summary, which is printed last, ends with these.
    last = [gate.next_command(report) for report, _ in gate.reports]
    for name, report in place_of.items():
        say = says[name]
        # Where its details were written to is worth a line in any case.
        starts = tuple(say("details_of", name=record.left.address, file="") for record in failing[name])
        written = [line for line in str(report.longrepr).splitlines() if line.startswith(starts)]
        texts = []
        if name in whole:
            texts = [_told_again(gate, report, last, terminal._tw), *written]
        else:
            # pytest passes over those that a debugger has shown already.
            report._pdbshown = True  # type: ignore[attr-defined]
        if name in lines:
            text = say("after_label", label=name.removeprefix(OWN_NODE), text=short_reason(failing[name], say))
            gate.shown_lines += [text, *(f"  {line}" for line in written)]
        _put(report, short_reason(failing[name], say), texts)


def _records(gate: Gate, report: pytest.TestReport) -> Mapping[int, Record]:
    """The records of an item by number, as the report of its suite has them now."""
    message = sent_with(report)
    whole = None if message is None else gate.report_of.get(message.plan)
    return {} if message is None or whole is None else {one: whole.records[one] for one in message.records}


def _told_again(gate: Gate, report: pytest.TestReport, last: Sequence[list[str]], writer: TerminalWriter) -> str:
    """Return the text of a failure with its role, and with no command that the summary ends with."""
    records, say = _records(gate, report), Phrases(gate.language)
    digest = sent_with(report).plan  # type: ignore[union-attr]
    source, plan = next((source, plan) for source, plan in gate.plans.items() if plan.digest == digest)
    gate.told |= {(digest, number) for number in records}
    command = gate.command_of(source, plan, next(iter(records)))
    rerun, is_brief = [] if command in last else command, gate.config.option.tbstyle == "short"
    text, *_ = failure(gate, plan, [*records.values()], rerun, writer.fullwidth, is_brief=is_brief)
    return _coloured(terminal_lines(text) + "\n", writer, say)


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


def _put(report: pytest.TestReport, reason: str, texts: Sequence[str]) -> None:
    """Let a failure say why it fails, and these texts; a style of traceback that shows no text stays without."""
    traceback, place, _ = report.longrepr.chain[-1]  # type: ignore[union-attr]
    if place is not None:
        place = ReprFileLocation(place.path, place.lineno, reason)
    lines = ["\n".join(texts)] if texts and any(entry.lines for entry in traceback.reprentries) else []
    report.longrepr = ExceptionChainRepr([(ReprTraceback([ReprEntryNative(lines)], None, "native"), place, None)])


def _coloured(text: str, writer: TerminalWriter, say: Phrases) -> str:
    """Colour the verdict at the beginning of a line, and in the last cell of a table."""
    for words, marks in (
        (("FAIL", "NO_DRIFT", "ERROR", "UNDEFINED", "is_fail", "is_undefined"), _RED),
        (("is_ok",), _GREEN),
    ):
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
            # The name of a file stays whole.
            width = terminal._tw.fullwidth if not line.startswith(" ") else len(line) + 4
            for part in hanging(terminal_text(line), width, indent=2):
                terminal.line(part)
        if gate.more:
            terminal.line(f"  {say('more_failing', n=gate.more)}")


def hide_lines(gate: Gate, terminal: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """Take most failures out of pytest's short summary, where nothing asks for all; return them all."""
    failed = terminal.stats.get("failed", [])
    if gate.hidden and terminal.config.option.reportchars == _USUAL_REPORTCHARS:
        terminal.stats["failed"] = [report for report in failed if report.nodeid not in gate.hidden]
    return failed
