"""What one pytest session knows of its gates: which suites, their plans, the records so far."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.model.record import Local, Record
from pytest_msdump.core.model.report import ReplayShare, Report
from pytest_msdump.core.model.spellings import as_filed, typed_addresses
from pytest_msdump.core.ports import offered
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.record_json import LOCAL, from_json, to_json
from pytest_msdump.core.report.shown import with_causes_first
from pytest_msdump.core.settings.options import option_values, option_words
from pytest_msdump.hooks import hooks_of
from pytest_msdump.plugin.discovery import is_suite_file
from pytest_msdump.plugin.junit import case_of
from pytest_msdump.plugin.sources import (
    DUMPS,
    NODE_OF_COMMAND_LINE,
    OWN_NODE,
    Source,
    absolute,
    argument_paths,
    chosen_language,
    find_own_source,
    find_source,
    is_gate_named,
    is_own_id,
    load_source,
    option_value,
    suite_files_ahead,
)

if TYPE_CHECKING:
    from pytest_msdump.capabilities.replay.reference_model import Reference


GATE: pytest.StashKey[Gate] = pytest.StashKey()


class Gate:
    """The gates of one session."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        # One word for all processes of a run: pytest-xdist's controller sends it to its workers.
        self.run: str = getattr(config, "workerinput", {}).get("msdump_run") or uuid4().hex
        # The suite whose items no collected file brings.
        self.own: Source | None = None
        self.plans: dict[Source, Plan] = {}
        self._dumps = config.stash[DUMPS]
        self.records: dict[str, dict[int, Record]] = {}
        # Keys in the cache by number of the pair, and the pairs that came from there; by plan.
        self.keys: dict[str, dict[int, str]] = {}
        self.reused: dict[str, set[int]] = {}
        self.errors: list[MsdumpError] = []
        self.unwritten: list[MsdumpError] = []
        # Where each suite that has items reports to.
        self.directories: dict[Source, Path] = {}
        self.reports: list[tuple[Report, list[Path]]] = []
        self.report_of: dict[str, Report] = {}
        self.detail_lines: list[str] = []
        # Failing operators that the terminal shows on a line each, how many more are no part of a cause's count, and
        # the ids of all that it only counts.
        self.shown_lines: list[str] = []
        self.more = 0
        self.hidden: set[str] = set()
        # Digest of the plan and number of each pair that is told in full.
        self.told: set[tuple[str, int]] = set()
        # Test cases of JUnit XML, with the plan and the numbers of their pairs.
        self.cases: list[tuple[tuple[str, tuple[int, ...]], Any]] = []
        self.foreign = 0
        # What a replay of the reference says of each pair, by the digest of the plan.
        self._references: dict[str, Reference] = {}
        # The controller replays it for all workers.
        sent = json.loads(getattr(config, "workerinput", {}).get("msdump_local", "{}"))
        self._local: dict[str, Mapping[int, Local]] = {
            digest: {int(number): LOCAL.read(one, "") for number, one in local.items()}
            for digest, local in sent.items()
        }
        self._language: str | None = None
        # Names of items of the own suite that were typed as ids.
        self._typed: list[str] = []
        self._announced: set[Source] = set()

    def prepare(self) -> None:
        """Plan what this session gates as far as it is known. Raises MsdumpError for what must be exit code 4."""
        self.own = find_own_source(self.config)
        if self.is_worker:
            if self.own is not None:
                # What is wrong with it, the collector reports.
                with suppress(MsdumpError):
                    self.plan(self.own)
            return
        own_file = None if self.own is None else self.own.file
        files = [Source(file) for file in suite_files_ahead(self.config) if file != own_file]
        for source in [*([self.own] if self.own else []), *files]:
            self.local(self.plan(source))

    @property
    def language(self) -> str:
        """The language of this session."""
        return self._language or chosen_language(self.config)

    def plan(self, source: Source) -> Plan:
        """Return the plan of one suite, made once in a process."""
        if source not in self.plans:
            with _uncaptured(self.config), progress_of(self.config).step("indexing and pairing"):
                made = self.plans[source] = plan(load_source(self.config, source), hooks=hooks_of(self.config))
            if self.config.option.msdump_limits_update:
                offered("calibration").limits_file_to_lower(made.suite)
            self._dumps.add(made.roots)
        return self.plans[source]

    def local(self, plan: Plan) -> Mapping[int, Local]:
        """Return what a replay of the reference says of each pair, where one was asked for; it runs once."""
        if plan.suite.options["replay"] is None or self.config.option.collectonly:
            return {}
        if plan.digest not in self._local:
            with _uncaptured(self.config), progress_of(self.config).step("replaying the reference"):
                reference = self.reference(plan)
                self._local[plan.digest] = (
                    {} if reference is None else offered("reference").replay_plan(plan, reference)
                )
        return self._local[plan.digest]

    def replay_share(self, plan: Plan) -> ReplayShare | None:
        """Return how much a replay of the reference judged, where one was asked for."""
        local = self.local(plan)
        if not local:
            return None
        share: ReplayShare = offered("reference").share_of(plan, local)
        return share

    def reference(self, plan: Plan) -> Reference | None:
        """Return the reference that is to be replayed, where one was asked for; its file runs once."""
        typed = plan.suite.options["replay"]
        if typed is not None and typed not in self._references:
            self._references[typed] = offered("reference").load_reference(typed)
        return self._references.get(typed)

    @property
    def local_text(self) -> str:
        """What `local` has found so far, as text for pytest-xdist's workers."""
        found = {
            digest: {number: LOCAL.write(one) for number, one in local.items()} for digest, local in self._local.items()
        }
        return json.dumps(found, allow_nan=False)

    def plan_of_session(self) -> Plan:
        """Return the plan that fixtures mean: the command line's, the configured suite file's, or the only one."""
        source = self.own or find_source(self.config, option_value(self.config, "config"))
        if source is not None:
            return self.plan(source)
        known = self.known_plan()
        if known is not None:
            return known
        raise ConfigError(
            "these fixtures need two dumps: give --msdump-left and --msdump-right, set left and right "
            "in msdump.toml, or override the fixtures msdump_left and msdump_right"
        )

    def known_plan(self) -> Plan | None:
        """Return the one plan made so far; ``None`` when there are none or several."""
        return next(iter(self.plans.values())) if len(self.plans) == 1 else None

    def translate_arguments(self) -> None:
        """Replace ``FILE::X`` by the item names that X means, where X is another name of an operator or tensor."""
        typed = [argument for argument in self.config.args if is_own_id(self.config, argument)]
        self._typed = [argument.removeprefix(OWN_NODE) for argument in typed]
        rest = [argument for argument in self.config.args if argument not in typed]
        self.config.args[:] = [new for argument in rest for new in self._translated(argument)]

    def pick(self, items: list[pytest.Item]) -> None:
        """Keep those of the own suite's items whose ids were typed, if any were."""
        if not self._typed or self.own is None:
            return
        meant: set[str] = set()
        for name in self._typed:
            names = _item_names(self.plan(self.own), name)
            if not names:
                known = [group.name for group in self.plan(self.own).groups]
                raise UnknownNameError(f"{OWN_NODE}{name}: there is no such operator; {nearest(name, known)}")
            meant.update(names)
        kept, dropped = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            is_own = getattr(item, "msdump_source", None) == self.own
            (dropped if is_own and item.name not in meant else kept).append(item)
        items[:] = kept
        self.config.hook.pytest_deselected(items=dropped)

    def _translated(self, argument: str) -> Sequence[str]:
        path, separator, name = argument.partition("::")
        file = absolute(self.config, path)
        if not separator or not is_suite_file(file) or not file.is_file():
            return [argument]
        try:
            made = self.plan(Source(file))
        except MsdumpError as error:
            self.errors.append(error)
            return [argument]
        return [f"{path}::{item}" for item in _item_names(made, name)] or [argument]

    def check_collected(self, items: Sequence[pytest.Item]) -> None:
        """Raise the error of a suite file, and refuse a gate that was asked for but not collected."""
        if self.errors:
            raise self.errors[0]
        if self.plans:
            # From here on tests run, which may change the locale.
            self._language = chosen_language(self.config)
        single_tests = any("::" in argument for argument in self.config.args)
        collected = any(hasattr(item, "msdump_source") for item in items)
        if is_gate_named(self.config) and not collected and not single_tests:
            raise ConfigError(
                "dumps or a suite file were named, but no test of them was collected; "
                "name the suite file on the command line, or do not ignore it"
            )

    def receive(self, report: pytest.TestReport) -> None:
        """Keep the records that came with an item's report."""
        message = sent_with(report)
        if message is None:
            return
        if message.plan not in {plan.digest for plan in self.plans.values()}:
            self.foreign += 1
            return
        self.records.setdefault(message.plan, {}).update(message.records)
        self.keys.setdefault(message.plan, {}).update(message.keys)
        self.reused.setdefault(message.plan, set()).update(message.reused)
        if report.failed and message.records and (case := case_of(self.config, report)) is not None:
            # Its role is known at the end.
            self.cases.append(((message.plan, tuple(message.records)), case))

    def unannounced(self) -> Iterator[Plan]:
        """Yield every plan that the header has not shown yet."""
        for source, made in self.plans.items():
            if source not in self._announced and not self.is_worker:
                self._announced.add(source)
                yield made

    def dumps_to_collect(self) -> set[str | None]:
        """Return the dumps that the paths given to pytest lie in, and of which nothing is collected all the same."""
        return {self._dumps.dump_of(path) for path in argument_paths(self.config) if not is_suite_file(path)}

    @property
    def has_results(self) -> bool:
        """Whether this process has something to report. Workers send theirs to the controller."""
        return not self.is_worker and not self.config.option.collectonly and bool(self.records or self.foreign)

    def sources_of(self, node_ids: Iterable[str]) -> list[Source]:
        """Return the suites whose items have these ids."""
        places = {node_id.partition("::")[0] for node_id in node_ids}
        files = {absolute(self.config, str(self.config.rootpath / place)) for place in places}
        return [
            source
            for source in self.plans
            if (source.file in files if source.is_suite_file else NODE_OF_COMMAND_LINE in places)
        ]

    def next_command(self, report: Report) -> list[str]:
        """Return the words of the command that runs the first cause again, or else the first failure."""
        first = next(iter(with_causes_first(record for record in report.records if record.fails)), None)
        if first is None:
            return []
        found = ((source, plan) for source, plan in self.plans.items() if self.report_of.get(plan.digest) is report)
        source, plan = next(found)
        return self.command_of(source, plan, report.records.index(first))

    def command_of(self, source: Source, plan: Plan, number: int) -> list[str]:
        """Return the words of the command that runs the item of a pair again."""
        name = next(group.name for group in plan.groups if number in group.pairs)
        return self.rerun_command(source, name, plan.pairing.pairs[number].left.key.op.label)

    def rerun_command(self, source: Source, name: str, select: str) -> list[str]:
        """Return the words of the shell command that runs just this item again."""
        option = self.config.option
        # Where else pytest takes values of ours from, and what it counts paths from.
        files = [f"{flag}={file}" for flag, file in (("-c", option.inifilename), ("--rootdir", option.rootdir)) if file]
        keys = [f"--override-ini={key}" for key in option.override_ini or () if key.startswith("msdump_")]
        typed = [*files, *keys, *option_words(option_values(option), for_pytest=True)]
        if source.file is not None and source.is_suite_file and is_suite_file(source.file):
            path = os.path.relpath(source.file, self.config.invocation_params.dir)
            return ["pytest", f"{path}::{name}", *typed]
        return ["pytest", *typed, f"--msdump-select={glob.escape(select)}"]


@dataclass(frozen=True, slots=True)
class ItemRecords:
    """The records that travel with an item's report, by number of the pair."""

    plan: str
    records: Mapping[int, Record]
    keys: Mapping[int, str] = field(default_factory=dict)
    reused: tuple[int, ...] = ()

    def as_text(self) -> str:
        """Return it as text, which pytest-xdist can send: numbers of any length, and no more than JSON."""
        records = {number: to_json(record) for number, record in self.records.items()}
        values = {"plan": self.plan, "records": records, "keys": dict(self.keys), "reused": list(self.reused)}
        return json.dumps(values, allow_nan=False)


def sent_with(report: pytest.TestReport) -> ItemRecords | None:
    """Return the records that came with an item's report; from another process they come as text."""
    payload: ItemRecords | str | None = getattr(report, "msdump", None)
    if not isinstance(payload, str):
        return payload
    values = json.loads(payload)
    return ItemRecords(
        values["plan"],
        {int(number): from_json(entry) for number, entry in values["records"].items()},
        {int(number): key for number, key in values["keys"].items()},
        tuple(values["reused"]),
    )


def _item_names(plan: Plan, typed: str) -> list[str]:
    """Return the items that a typed name means, with any coordinates where it has none; empty where none is meant."""
    if typed == "coverage" or any(typed in (group.name, group.name.split("[")[0]) for group in plan.groups):
        return [typed]
    for names in plan.names.readings(typed.replace(":_:", "::")):
        found: list[str] = []
        for group in plan.groups:
            pairs = [plan.pairing.pairs[number] for number in group.pairs]
            if any(not names.isdisjoint(typed_addresses(ref.key)) for pair in pairs for ref in (pair.left, pair.right)):
                found.append(group.name)
        if found:
            return found
    # With coordinates behind it, a name is the item's.
    return [group.name for group in plan.groups if as_filed(group.name) == as_filed(typed)]


def progress_of(config: pytest.Config) -> Progress:
    """Return what shows how far work is: nothing with ``-q``, and in a worker of pytest-xdist."""
    quiet = config.get_verbosity() < 0 or hasattr(config, "workerinput")
    return Progress("msdump", quiet=quiet, begin=lambda: _end_line(config))


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Return a context in which standard error is the real one; pytest captures it while it collects a file."""
    capture = config.pluginmanager.getplugin("capturemanager")
    found: AbstractContextManager[None] = nullcontext() if capture is None else capture.global_and_fixture_disabled()
    return found


def _end_line(config: pytest.Config) -> None:
    """End pytest's line of results, which a bar would draw over."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
