"""pytest's hooks of a session with dumps. Each says in a few lines what happens; the `Gate` knows how."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.suite import load_suite
from pytest_msdump.hooks import hooks_of
from pytest_msdump.plugin.collect import SuiteFile, collector_of
from pytest_msdump.plugin.failures import hide_lines, print_others, shorten_failures
from pytest_msdump.plugin.junit import add_roles
from pytest_msdump.plugin.measuring import stop_measuring
from pytest_msdump.plugin.output import close_details, header, print_summary, start_reports, write_reports
from pytest_msdump.plugin.session import GATE, Gate


class GateHooks:
    """A plugin object with a session's `gate`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.gate = config.stash[GATE] = Gate(config)
        # All failures, while some of them are kept out of pytest's short summary.
        self.failed: list[pytest.TestReport] = []

    def collector_of_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Return the collector of a suite file, but of the one whose items the session brings."""
        own = self.gate.own
        if own is not None and own.file == file_path:
            return None
        return SuiteFile.from_parent(parent, path=file_path)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add the items that have no file of their own to what the session collects."""
        report = yield
        if self.gate.own is not None and isinstance(collector, pytest.Session) and report.passed:
            report.result = [*(report.result or ()), collector_of(self.gate.own, collector)]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what was typed; answer what was wrong with it, or with a collected suite file, with exit code 4."""
        try:
            self.gate.check_collected(items)
            self.gate.pick(items)
        except MsdumpError as error:
            raise pytest.UsageError(terminal_lines(str(error))) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Remove what an earlier run reported; with pytest-xdist, the controller has no items and does it below."""
        if self.gate.plans and not self.gate.is_worker:
            sources = [item.msdump_source for item in session.items if hasattr(item, "msdump_source")]
            start_reports(self.gate, sources)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send pytest-xdist's workers the name of the run, and what the replay says of each pair."""
        node.workerinput["msdump_run"] = self.gate.run
        node.workerinput["msdump_local"] = self.gate.local_text

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Do the same as soon as a worker says what it will run."""
        if self.gate.plans:
            start_reports(self.gate, self.gate.sources_of(ids))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let an item's records travel with its report, also between processes."""
        report = yield
        payload = getattr(item, "msdump_payload", None)
        if payload is not None and report.when == "call":
            report.msdump = payload  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the records of a report, in the process that has all."""
        if not self.gate.is_worker and hasattr(report, "msdump"):
            self.gate.receive(report)

    def pytest_report_header(self) -> list[str]:
        """Say which directory is which side."""
        return header(self.gate)

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say it for the suite files that only collecting has found; with -q the summary says it."""
        return header(self.gate) if self.config.get_verbosity() >= 0 else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports, in the process that has all records."""
        gate = self.gate
        stop_measuring(self.config)
        if gate.has_results:
            write_reports(gate)
            add_roles(gate.cases, gate.report_of)
            gate.detail_lines.extend(close_details(gate))
            shorten_failures(gate, self.config.pluginmanager.getplugin("terminalreporter"))
            if (gate.unwritten or gate.foreign) and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Between pytest's failures and its short summary: the failures that get a line each."""
        if self.gate.has_results:
            print_others(self.gate, terminalreporter)
        yield
        self.failed = hide_lines(self.gate, terminalreporter)

    def end_terminal_summary(self, terminal: pytest.TerminalReporter) -> None:
        """Behind pytest's short summary: the outcome in a few lines."""
        if self.gate.has_results:
            # To pytest a list of failures that is empty is a failure, too.
            if self.failed:
                terminal.stats["failed"] = self.failed
            print_summary(self.gate, terminal)

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Give the test's argument ``msdump_pair`` every pair of the marker's dumps, or of the session's suite."""
        marker = metafunc.definition.get_closest_marker("msdump_pairs")
        if marker is None:
            return
        try:
            pairs = self._plan_of_marker(metafunc, marker).pairing.pairs
        except MsdumpError as error:
            pytest.fail(f"marker msdump_pairs: {error}", pytrace=False)
        if not pairs:
            # An empty parameter set would be skipped, and a gate that skips passes.
            pytest.fail("marker msdump_pairs: nothing was paired; see `msdump compare LEFT RIGHT`", pytrace=False)
        metafunc.parametrize("msdump_pair", pairs, ids=[pair.left.key.address for pair in pairs])

    def _plan_of_marker(self, metafunc: pytest.Metafunc, marker: pytest.Mark) -> Plan:
        """Return the plan of the marker's own dumps, whose paths start from the test's file; else the session's."""
        if not marker.kwargs:
            return self.gate.plan_of_session()
        folder = Path(metafunc.definition.path).parent
        table: dict[str, Any] = {
            key: str(folder / value) if key in ("left", "right") else value for key, value in marker.kwargs.items()
        }
        suite = load_suite(file=None, table=table, options={}, directory=folder, name="marker msdump_pairs")
        return plan(suite, hooks=hooks_of(self.config))
