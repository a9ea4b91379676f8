"""What one pytest session knows of its gates: which suites, their plans, the records so far."""

from __future__ import annotations

import glob
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.model.tensor import TensorKey, mangle
from pytest_msdump.plugin.ignore_dumps import DUMPS
from pytest_msdump.plugin.sources import (
    Source,
    absolute,
    argument_paths,
    covered,
    find_source,
    found_files,
    ini_values,
    is_given,
    is_suite_file,
)
from pytest_msdump.settings import given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report
    from pytest_msdump.suite import Suite

__all__ = ["GATE", "NODE_OF_COMMAND_LINE", "Gate", "ItemRecords", "is_suite_file", "sent_with"]

# What the ids of items begin with that no suite file brings.
NODE_OF_COMMAND_LINE = "msdump"


class Gate:
    """The gates of one session. Dormant until two sides are known; heavy modules are imported only then."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options = given(config.option)
        self.ini = ini_values(config)
        self.is_worker = hasattr(config, "workerinput")
        # One word for all processes of a run: with pytest-xdist the controller tells its workers.
        self.run: str = getattr(config, "workerinput", {}).get("msdump_run") or uuid4().hex
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
        self.told: dict[str, Report] = {}
        self.detail_lines: list[str] = []
        # Test cases of JUnit XML, with the plan and the numbers of their pairs.
        self.cases: list[tuple[tuple[str, tuple[int, ...]], Any]] = []
        self.foreign = 0
        self._spoken: str | None = None
        self._own: Source | None = None
        self._announced: set[Source] = set()

    # -- before collection ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find out what this session gates, and check it. Raises MsdumpError for what must be exit code 4."""
        if not self.is_worker and self._language_wanted:
            self._spoken = self._language()
        named = any(self.said(name) is not None for name in ("left", "right", "config"))
        distributed = getattr(self.config.option, "dist", "no") != "no"
        source = find_source(self.config, self.said("config"))
        files = found_files(self.config, self._dumps.suites) if named or distributed else []
        if source is None:
            self._own = Source(None, None) if named and not files else None
        elif not is_given(self.config, source.file) and (named or self._runs_by_default(source)):
            self._own = source
        if self.is_worker:
            self._plan_ahead()
            return
        self.config.pluginmanager.register(_Receiver(self), "msdump-receiver")
        known = [Source(file, None) for file in files if self._own is None or file != self._own.file]
        for planned in [*([self._own] if self._own else []), *known]:
            self.plan(planned)

    def _plan_ahead(self) -> None:
        """Plan what a worker needs in any case before it collects; what is wrong, the collector will tell."""
        if self._own is not None:
            with suppress(MsdumpError):
                self.plan(self._own)

    @property
    def language(self) -> str:
        """In which language this session tells things: workers follow the controller, whose terminal it is."""
        if self._spoken is None:
            self._spoken = self._language()
        return self._spoken

    @property
    def _language_wanted(self) -> str:
        return self.config.option.msdump_lang or self.config.getini("msdump_lang") or ""

    def _language(self) -> str:
        if self.is_worker:
            return str(self.config.workerinput["msdump_language"])  # type: ignore[attr-defined]
        from pytest_msdump.settings.options import language_of

        # sys.stdout is pytest's own by now, and writes anything.
        return language_of(self._language_wanted, os.environ, encoding=getattr(sys.__stdout__, "encoding", None))

    @property
    def plain(self) -> bool:
        """Whether pytest was started without paths, in a project that says where its tests are."""
        if self.is_worker:
            return bool(self.config.workerinput["msdump_plain"])  # type: ignore[attr-defined]
        return self.config.args_source is pytest.Config.ArgsSource.TESTPATHS

    def _runs_by_default(self, source: Source) -> bool:
        """Whether the project's own suite runs although no option speaks of it."""
        reached = covered(self.config, source.file)
        if source.is_suite_file:
            # Where collection comes by, it brings the file; a second set of items must not be made.
            return self.plain and not reached
        if not (reached or self.plain):
            return False
        if not source.names_a_side:
            self._load(source, {"left": ".", "right": "."})
        return source.names_a_side

    def said(self, name: str) -> Any:
        """What the command line, else the ini file, says of an option."""
        typed = self.options.get(name)
        return self.ini.get(name) if typed is None else typed

    def plan(self, source: Source) -> Plan:
        """The plan of one suite, made once in a process."""
        if source not in self.plans:
            from pytest_msdump.comparison.planning import plan

            made = self.plans[source] = plan(self._load(source, {}))
            self._dumps.add([made.left.root, made.right.root])
        return self.plans[source]

    def _load(self, source: Source, more: Mapping[str, str]) -> Suite:
        """The suite, every key of it checked; `more` stands in for options."""
        from pytest_msdump.suite import load_suite

        return load_suite(
            file=source.file,
            table=source.parsed,
            options={**self.options, **more},
            directory=self.config.invocation_params.dir,
            name=source.title(self.config.rootpath),
            ini=self.ini,
            rootdir=self.config.rootpath,
        )

    def plan_of_session(self) -> Plan:
        """The plan that fixtures speak of: the command line's, the configured suite file's, or the only one."""
        source = self._own or find_source(self.config, self.said("config"))
        if source is not None:
            return self.plan(source)
        known = self.known_plan()
        if known is not None:
            return known
        raise ConfigError(
            "these fixtures need two dumps: give --msdump-left and --msdump-right, or write left and right "
            "into msdump.toml, or override the fixtures msdump_left and msdump_right"
        )

    def known_plan(self) -> Plan | None:
        """The one plan made so far; ``None`` when there are none or several."""
        return next(iter(self.plans.values())) if len(self.plans) == 1 else None

    def translate_arguments(self) -> None:
        """Replace ``FILE::X`` by the item names that X means, where X is another name of an operator or tensor."""
        self.config.args[:] = [new for argument in self.config.args for new in self._translated(argument)]

    def _translated(self, argument: str) -> Sequence[str]:
        path, separator, name = argument.partition("::")
        file = absolute(self.config, path)
        if not separator or not is_suite_file(file) or not file.is_file():
            return [argument]

        try:
            meant = item_names(self.plan(Source(file, None)), name)
        except MsdumpError as error:
            self.errors.append(error)
            return [argument]
        return [f"{path}::{item}" for item in meant] or [argument]

    # -- collection ----------------------------------------------------------------------------------------------

    @property
    def own(self) -> Source | None:
        """The suite whose items no collected file brings."""
        return self._own

    def check_collected(self, items: Sequence[pytest.Item]) -> None:
        """Raise what a suite file had to say, and refuse a gate that was asked for but not collected."""
        if self.errors:
            raise self.errors[0]
        if self.plans:
            # From here on tests run, which may change what the locale is.
            self._spoken = self._language()
        named = any(self.said(name) is not None for name in ("left", "right", "config"))
        if named and not any(hasattr(item, "msdump_source") for item in items) and not self._names_given():
            raise ConfigError(
                "dumps or a suite file were named, but no gate was collected; "
                "name the suite file on the command line, or do not ignore it"
            )

    def _names_given(self) -> bool:
        """Whether single tests were asked for, so that collecting no gate is what was wanted."""
        return any("::" in argument for argument in self.config.args)

    # -- running and telling -------------------------------------------------------------------------------------

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
        self._keep_case(message.plan, tuple(message.records), report)

    def _keep_case(self, digest: str, numbers: tuple[int, ...], report: pytest.TestReport) -> None:
        """Keep where JUnit XML will have this item, if there is a role to tell of it later."""
        if report.failed and numbers:
            from pytest_msdump.plugin.junit import case_of

            case = case_of(self.config, report)
            if case is not None:
                self.cases.append(((digest, numbers), case))

    def unannounced(self) -> Iterator[Plan]:
        """Every plan that the header has not told yet."""
        for source, plan in self.plans.items():
            if source not in self._announced and not self.is_worker:
                self._announced.add(source)
                yield plan

    def dumps_to_collect(self) -> set[str | None]:
        """The dumps that the paths given to pytest lie in, and of which nothing is collected all the same."""
        return {self._dumps.dump_of(path) for path in argument_paths(self.config) if not is_suite_file(path)}

    @property
    def has_results(self) -> bool:
        """Whether this process has something to report. Workers hand theirs to the controller."""
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

    def rerun_command(self, source: Source, name: str, select: str) -> list[str]:
        """The words of the shell command that runs just this item again."""
        given = [
            f"--msdump-{option.replace('_', '-')}" + ("" if value is True else f"={value}")
            for option, values in self.options.items()
            for value in (values if isinstance(values, (list, tuple)) else [values])
            if value is not None and option not in ("select", "report", "report_dir", "detail", "jobs", "cache")
        ]
        if source.file is not None and source.is_suite_file and is_suite_file(source.file):
            path = os.path.relpath(source.file, self.config.invocation_params.dir)
            return ["pytest", f"{path}::{name}", *given]
        return ["pytest", *given, f"--msdump-select={glob.escape(select)}"]


@dataclass(frozen=True, slots=True)
class ItemRecords:
    """What travels with an item's report.

    Parameters
    ----------
    plan : str
        Digest of the item's plan.
    records : mapping of int to Record
        By numbers of the pairs.
    keys : mapping of int to str
        Under which key each record may be kept in the cache.
    reused : tuple of int
        The pairs whose records came from the cache.
    """

    plan: str
    records: Mapping[int, Record]
    keys: Mapping[int, str] = field(default_factory=dict)
    reused: tuple[int, ...] = ()

    def as_text(self) -> str:
        """Return it as text, which pytest-xdist can send: numbers of any length, and no more than JSON."""
        from pytest_msdump.report.record_json import to_json

        records = {number: to_json(record) for number, record in self.records.items()}
        values = {"plan": self.plan, "records": records, "keys": dict(self.keys), "reused": list(self.reused)}
        return json.dumps(values, allow_nan=False)


def sent_with(report: pytest.TestReport) -> ItemRecords | None:
    """Return what came with an item's report; from another process it comes as text."""
    payload: ItemRecords | str | None = getattr(report, "msdump", None)
    if not isinstance(payload, str):
        return payload
    from pytest_msdump.report.record_json import from_json

    values = json.loads(payload)
    return ItemRecords(
        values["plan"],
        {int(number): from_json(entry) for number, entry in values["records"].items()},
        {int(number): key for number, key in values["keys"].items()},
        tuple(values["reused"]),
    )


class _Receiver:
    """Hears every report of the session. A plugin object of its own: the hook is not told the configuration."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Nearly all reports of a session without a gate, and two of three of one with it, bring nothing.
        if hasattr(report, "msdump"):
            self._gate.receive(report)


GATE: pytest.StashKey[Gate] = pytest.StashKey()


# -- Which items a typed name means ----------------------------------------------------------------------------------


def item_names(plan: Plan, typed: str) -> list[str]:
    """Return the names of the items that `typed` means; empty when it is no name of any.

    An item's own name means itself, and its name without the coordinates all of them, as pytest has it.
    """
    groups = plan.groups
    own = [group.name for group in groups if typed in (group.name, group.name.split("[")[0])]
    if own or typed == "coverage":
        return [typed]
    wanted = typed.replace(":_:", "::")
    return [
        group.name for group in groups if any(wanted in _names(plan.pairing.pairs[number]) for number in group.pairs)
    ]


def _names(pair: Pair) -> set[str]:
    """Every way to write a pair: true and mangled name and address of either side."""
    return {*_of_side(pair.left.key), *_of_side(pair.right.key)}


def _of_side(key: TensorKey) -> Iterator[str]:
    for name in (key.op.label, key.op.name, mangle(key.op.label)):
        yield name
        yield f"{name}:{key.io}:{key.slot}"
        if key.op.op_type:
            yield f"{key.op.op_type}.{name}"
