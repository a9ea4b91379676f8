"""pytest's hooks. Each says in a few lines what happens; the session's `Gate` knows how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump.errors import MsdumpError
from pytest_msdump.escape import terminal_lines
from pytest_msdump.plugin.ignore_dumps import DUMPS, find_dumps
from pytest_msdump.plugin.session import GATE, Gate, is_suite_file
from pytest_msdump.plugin.sources import refuse_lost_files
from pytest_msdump.settings import FIXTURE_OPTIONS, OPTIONS, TELLING_OPTIONS, argparse_kwargs, ini_kwargs

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MARKERS = (
    "msdump(profile=None, **limits): compares dumps; on an ordinary test, the profile and limits its helpers judge by",
    "msdump_pairs(left=None, right=None, **options): run this test once for each pair, as the argument msdump_pair",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option and ini key of the one table."""
    group = parser.getgroup("msdump", "accuracy gate for operator dumps")
    for option in (*OPTIONS, *FIXTURE_OPTIONS, *TELLING_OPTIONS):
        group.addoption(*option.flags, **argparse_kwargs(option))
        if option.ini:
            parser.addini(**ini_kwargs(option))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Find the dumps before any conftest.py is loaded: one that lies in a dump never runs."""
    try:
        refuse_lost_files(early_config)
        early_config.stash[DUMPS] = find_dumps(early_config)
    except MsdumpError as error:
        raise pytest.UsageError(terminal_lines(str(error))) from None


def pytest_configure(config: pytest.Config) -> None:
    """Answer what is wrong with the options before anything is collected, so that it is exit code 4 everywhere."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[GATE] = Gate(config)
    try:
        config.stash[GATE].prepare()
    except MsdumpError as error:
        raise pytest.UsageError(terminal_lines(str(error))) from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell pytest-xdist's workers what they cannot see: the terminal, and whether paths were given."""
    node.workerinput["msdump_columns"] = node.config.get_terminal_writer().fullwidth
    node.workerinput["msdump_run"] = node.config.stash[GATE].run
    node.workerinput["msdump_plain"] = node.config.stash[GATE].plain
    node.workerinput["msdump_language"] = node.config.stash[GATE].language


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let people type the names they know: the mangled one, the reference's, a full address."""
    session.config.stash[GATE].translate_arguments()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect suite files like test files."""
    own = parent.config.stash[GATE].own
    if not is_suite_file(file_path) or (own is not None and own.file == file_path):
        return None
    from pytest_msdump.plugin.collect import SuiteFile

    collector: pytest.Collector = SuiteFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Add the items that have no file of their own to what the session collects."""
    report = yield
    source = collector.config.stash[GATE].own
    if source is not None and isinstance(collector, pytest.Session) and report.passed:
        from pytest_msdump.plugin.collect import collector_of

        report.result = [*(report.result or ()), collector_of(source, collector)]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Answer what was wrong with a collected suite file with exit code 4."""
    try:
        config.stash[GATE].check_collected(items)
    except MsdumpError as error:
        raise pytest.UsageError(terminal_lines(str(error))) from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Take away what an earlier run reported; with pytest-xdist, the controller has no items and does it below."""
    gate = session.config.stash[GATE]
    if gate.plans and not gate.is_worker:
        from pytest_msdump.plugin.output import start_reports

        start_reports(gate, [item.msdump_source for item in session.items if hasattr(item, "msdump_source")])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Do the same as soon as a worker says what it will run."""
    gate = node.config.stash[GATE]
    if gate.plans:
        from pytest_msdump.plugin.output import start_reports

        start_reports(gate, gate.sources_of(ids))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let an item's records travel with its report, also between processes."""
    report = yield
    payload = getattr(item, "msdump_payload", None)
    if payload is not None and report.when == "call":
        report.msdump = payload  # type: ignore[attr-defined]
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test by pair where the marker `msdump_pairs` asks for it."""
    if "msdump_pair" in metafunc.fixturenames:
        from pytest_msdump.plugin.parametrize import parametrize_by_pair

        parametrize_by_pair(metafunc)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which directory is which side."""
    gate = config.stash[GATE]
    if not gate.plans:
        return []
    from pytest_msdump.plugin.output import header

    return header(gate)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say it for the suite files that only collecting has found; with -q the summary says it."""
    return pytest_report_header(config) if config.get_verbosity() >= 0 else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the reports, in the process that has all records."""
    gate = session.config.stash[GATE]
    if gate.plans:
        from pytest_msdump.plugin.measuring import stop_measuring

        stop_measuring(session.config)
    if gate.has_results:
        from pytest_msdump.plugin.junit import add_roles
        from pytest_msdump.plugin.output import close_details, fold_failures, write_reports

        write_reports(gate)
        add_roles(gate)
        gate.detail_lines.extend(close_details(gate))
        fold_failures(gate, session.config.pluginmanager.getplugin("terminalreporter"))
        if (gate.unwritten or gate.foreign) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell the outcome in a few lines."""
    gate = config.stash[GATE]
    if gate.has_results:
        from pytest_msdump.plugin.output import print_summary

        print_summary(gate, terminalreporter)
