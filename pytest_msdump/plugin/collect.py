"""Collectors and items: one item for each left operator (or tensor) with a partner, and the item `coverage`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback

from pytest_msdump.core.compare.additions import with_added_notes
from pytest_msdump.core.compare.planning import OperatorGroup, Plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import terminal_lines, terminal_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.plugin.junit import properties
from pytest_msdump.plugin.measuring import cached, runner_of
from pytest_msdump.plugin.output import coverage, detail_text, failure
from pytest_msdump.plugin.session import GATE, ItemRecords
from pytest_msdump.plugin.sources import NODE_OF_COMMAND_LINE, Source


class SuiteFile(pytest.File):
    """A suite file, collected like a test file."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each operator, in execution order, then `coverage`."""
        yield from _items(self, Source(self.path))

    @property
    def place(self) -> Path:
        """Where pytest says its items are."""
        return self.path


class SuiteRun(pytest.Collector):
    """The gate of the command line (or of pyproject.toml), which has no file of its own."""

    def __init__(self, *, source: Source, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.place = self.config.rootpath / "msdump"

    def collect(self) -> Iterator[pytest.Item]:
        """As `SuiteFile.collect`."""
        yield from _items(self, self.source)


def collector_of(source: Source, session: pytest.Session) -> pytest.Collector:
    """Return the collector of a suite that no collected file brings."""
    node = NODE_OF_COMMAND_LINE
    collector: pytest.Collector = (
        SuiteFile.from_parent(session, path=source.file)
        if source.is_suite_file
        else SuiteRun.from_parent(session, name=node, nodeid=node, source=source)
    )
    return collector


def _items(parent: SuiteFile | SuiteRun, source: Source) -> Iterator[pytest.Item]:
    """Yield the items of one suite. Its error is kept for `Gate.check_collected`, which can exit with 4."""
    gate = parent.config.stash[GATE]
    try:
        plan = gate.plan(source)
    except MsdumpError as error:
        gate.errors.append(error)
        return
    shared = {"source": source, "plan": plan, "place": parent.place}
    for group in plan.groups:
        yield OperatorItem.from_parent(parent, name=group.name, group=group, **shared)
    yield CoverageItem.from_parent(parent, name="coverage", **shared)


class _GateItem(pytest.Item):
    """What both kinds of items share: where they come from and how they show a failure."""

    def __init__(self, *, source: Source, plan: Plan, place: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.msdump_place = place
        self.msdump_source = source
        self.msdump_payload: str | ItemRecords | None = None
        self.plan = plan
        self.add_marker("msdump")

    @property
    def columns(self) -> int:
        """Width of the terminal the text will be read in; under xdist the controller's."""
        workerinput = getattr(self.config, "workerinput", {})
        return int(workerinput.get("msdump_columns", 0)) or self.config.get_terminal_writer().fullwidth

    def send(self, sent: ItemRecords) -> None:
        """Let records travel with the item's report."""
        self.msdump_payload = sent.as_text() if hasattr(self.config, "workerinput") else sent

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Where pytest says the item is: its suite file, or the word of its node; and its heading where it fails.

        In an id that ends with that, -v writes a point as two colons: the id could not be typed. So this never is.
        """
        return self.msdump_place, 0, f" {self.name}" if "." in self.name else self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a drift, without a traceback; anything else as pytest shows it."""
        if not isinstance(excinfo.value, _GateFailureError):
            return super().repr_failure(excinfo, style)
        path = self.msdump_place if self.msdump_place.exists() else excinfo.value.file
        place = ReprFileLocation(str(path), 1, excinfo.value.line)
        # --tb=line prints the place, which holds the line, after the text: so there must be none.
        shown = [] if self.config.option.tbstyle == "line" else [excinfo.value.text + "\n"]
        text = ReprTraceback([ReprEntryNative(shown)], None, "native")
        return ExceptionChainRepr([(text, place, None)])


class _GateFailureError(Exception):
    """A failed item: the full text, the one line that summaries show, and a file that it is about."""

    def __init__(self, text: str, line: str, file: Path | str) -> None:
        super().__init__(line)
        self.text = terminal_lines(text)
        self.line = terminal_text(line)
        self.file = file


class OperatorItem(_GateItem):
    """Compares the selected tensors of one left operator."""

    def __init__(self, *, group: OperatorGroup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group
        if self.config.option.keyword:
            pairs = self.plan.pairing.pairs
            self.extra_keyword_matches.update(
                name for number in group.pairs for name in self.plan.names.keywords(pairs[number])
            )

    def runtest(self) -> None:
        """Measure and judge every pair of this item; fail when one of them does."""
        runner = runner_of(self)
        local = self.config.stash[GATE].local(self.plan)
        hooks, pairs = self.plan.hooks, self.plan.pairing.pairs
        records = {
            number: with_added_notes(runner.record(number).with_local(local.get(number)), pairs[number], hooks)
            for number in self.group.pairs
        }
        # What a replay or a hook says is of this run alone: no later run may take it from the cache.
        is_of_run = bool(local or hooks.get("record"))
        self.send(ItemRecords(self.plan.digest, records, *(({}, ()) if is_of_run else cached(runner, records))))
        self.user_properties.extend(properties(records.values()))
        if any(record.verdict.outcome not in ("pass", "warn") for record in records.values()):
            raise self._failure(records)

    def _failure(self, records: Mapping[int, Record]) -> _GateFailureError:
        first = self.plan.pairing.pairs[self.group.pairs[0]]
        gate = self.config.stash[GATE]
        command = gate.rerun_command(self.msdump_source, self.name, first.left.key.op.label)
        is_brief = self.config.option.tbstyle == "short"
        shown, source = list(records.values()), self.msdump_source
        text, line, file = failure(gate, self.plan, shown, command, self.columns, is_brief=is_brief)
        text += detail_text(gate, source, self.plan, records)
        return _GateFailureError(text, line, file)


class CoverageItem(_GateItem):
    """Reports what was not matched; fails when nothing was, a mapped tensor is missing, or below `min_coverage`."""

    def runtest(self) -> None:
        """Judge the pairing; reads no tensor."""
        self.send(ItemRecords(self.plan.digest, {}))
        problem, text = coverage(self.config.stash[GATE], self.plan, self.columns)
        if problem:
            raise _GateFailureError(text, problem, self.plan.left.root)
        self.add_report_section("call", "msdump", text)
