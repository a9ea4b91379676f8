"""pytest's hooks of every session: few, and light. A session with dumps starts a `Gate`, which brings its own hooks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump import hooks
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.settings.options import (
    FIXTURE_OPTIONS,
    GROUPS,
    OPTIONS,
    OUTPUT_OPTIONS,
    argparse_kwargs,
    ini_kwargs,
)
from pytest_msdump.plugin.discovery import is_suite_file
from pytest_msdump.plugin.ignore_dumps import find_dumps
from pytest_msdump.plugin.sources import (
    DUMPS,
    NODE_OF_COMMAND_LINE,
    chosen_language,
    find_own_source,
    has_testpaths_only,
    refuse_lost_files,
    suite_files_ahead,
)

if TYPE_CHECKING:
    from pytest_msdump.plugin.gate_hooks import GateHooks

# The lines of --msdump-generate and --msdump-calibrate.
_MADE = pytest.StashKey[list[str]]()

MARKERS = (
    "msdump(profile=None, **limits): profile and limits that the fixture msdump judges by; items of gates have it, too",
    "msdump_pairs(left=None, right=None, **options): run this test for each pair, which is its argument msdump_pair",
)


def gate_hooks(config: pytest.Config) -> GateHooks:
    """Return the hooks of a session with dumps, registered when they are first needed: their modules load numpy."""
    from pytest_msdump.plugin.gate_hooks import GateHooks

    found: GateHooks | None = config.pluginmanager.get_plugin("msdump-gate")
    if found is None:
        found = GateHooks(config)
        config.pluginmanager.register(found, "msdump-gate")
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option and ini key of the one table."""
    titles = {name: f"msdump, accuracy gate for operator dumps: {name}" for name in GROUPS}
    groups = {name: parser.getgroup(f"msdump {name}", title) for name, title in titles.items()}
    for option in (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS):
        groups[option.group].addoption(*option.flags, **argparse_kwargs(option))
        if option.ini:
            parser.addini(**ini_kwargs(option))


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that projects may have in their conftest.py."""
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Find the dumps before any conftest.py is loaded: one that lies in a dump never runs."""
    try:
        refuse_lost_files(early_config)
        early_config.stash[DUMPS] = find_dumps(early_config)
    except MsdumpError as error:
        raise pytest.UsageError(terminal_lines(str(error))) from None


def pytest_configure(config: pytest.Config) -> None:
    """Report what is wrong with the options before anything is collected, so that it is exit code 4 everywhere."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    try:
        chosen_language(config)
        # A gate may name the limits file that is being made.
        if not config.option.msdump_calibrate and (find_own_source(config) is not None or suite_files_ahead(config)):
            gate_hooks(config).gate.prepare()
    except MsdumpError as error:
        raise pytest.UsageError(terminal_lines(str(error))) from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send pytest-xdist's workers what they cannot see: the terminal, and whether paths were given."""
    config = node.config
    node.workerinput["msdump_columns"] = config.get_terminal_writer().fullwidth
    node.workerinput["msdump_plain"] = has_testpaths_only(config)
    node.workerinput["msdump_language"] = chosen_language(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let people type the names they know: the mangled one, the reference's, a full address."""
    config = session.config
    typed = (argument.partition("::")[0] for argument in config.args if "::" in argument)
    if any(path == NODE_OF_COMMAND_LINE or is_suite_file(Path(path)) for path in typed):
        try:
            gate_hooks(config).gate.translate_arguments()
        except MsdumpError as error:
            raise pytest.UsageError(terminal_lines(str(error))) from None


class _LeftOut(pytest.File):
    """A suite file without items."""

    def collect(self) -> list[pytest.Item]:
        return []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect suite files like test files."""
    if not is_suite_file(file_path):
        return None
    if parent.config.option.msdump_calibrate:
        return _LeftOut.from_parent(parent, path=file_path)
    return gate_hooks(parent.config).collector_of_file(file_path, parent)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look which references and limits were made, before pytest removes the session's temporary folder."""
    option = session.config.option
    if option.msdump_generate or option.msdump_calibrate:
        from pytest_msdump.plugin.fixture_values import made_lines

        session.config.stash[_MADE] = list(made_lines(session.config))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Print our summary behind everything else."""
    yield
    for line in terminalreporter.config.stash.get(_MADE, ()):
        terminalreporter.line(line)
    gate: GateHooks | None = terminalreporter.config.pluginmanager.get_plugin("msdump-gate")
    if gate is not None:
        gate.end_terminal_summary(terminalreporter)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test by pair where the marker `msdump_pairs` asks for it."""
    if "msdump_pair" in metafunc.fixturenames:
        gate_hooks(metafunc.config).parametrize(metafunc)
