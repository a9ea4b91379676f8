"""Every place where a capability adds to the core: rows read without loading it, and stages that it takes part in.

``capabilities/NAME/hooks.py`` is literal rows and imports nothing; a folder that is not there is not listed. Other
packages name a module with the same rows in the entry-point group ``pytest_msdump.capabilities``:

    NEEDS = ("graphs",)                      capabilities it imports; they come before it
    AFTER = ("statistics",)                  comes after these where they are there
    COMMANDS = {"convert": ("package.module", "summary", "calibrate")}
    STAGES = {"indexed": "package.module:function", "judged": ("package.module:function", "failing")}

Further entries of a stage say when there is anything to do; what they may be is said at the stage. A list has several
steps. Nothing that a row
names is loaded before it is used. The last entry of a command, and ``"after"`` of an option or a report, name the one
that stands before it in the help. ``core/hooks.py`` has the core's own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_msdump.core import registry
from pytest_msdump.core.errors import ConfigError

if TYPE_CHECKING:
    from pytest_msdump.core.compare.align import OpenedPair
    from pytest_msdump.core.limits.policy import Policy
    from pytest_msdump.core.model.comparison import Comparison, Limits
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.model.tensor import Pair, Pairing, TensorRef, TensorView
    from pytest_msdump.core.text import Message

GROUP = "pytest_msdump.capabilities"
_ROWS = "hooks"
# What is measured and judged, and what clears: of this package alone.
_OWN_STAGES = frozenset({"ruled", "road", "measured", "estimated", "excused"})


class BrokenCapabilityError(ConfigError):
    """Capabilities that need each other in a circle, one that needs what is not there, or a row that two have."""


class Capability(NamedTuple):
    """One capability: its name and the rows of its ``hooks.py``, by kind."""

    name: str
    rows: Mapping[str, Any]


class Step(NamedTuple):
    """What one capability does at a stage, and when; `function` loads it."""

    capability: str
    target: str
    when: str

    def is_met(self, conditions: Container[str]) -> bool:
        """Whether there is anything to do: always, or under one of the conditions that `when` names."""
        return not self.when or any(one in conditions for one in self.when.split())

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        loaded: Callable[..., Any] = load(self.target)
        return loaded


@cache
def capabilities() -> tuple[Capability, ...]:
    """Return all capabilities, each after those that it needs, otherwise by name."""
    rows = dict(registry.rows_in_folders(GROUP, _ROWS))
    rows |= {point.name: vars(point.load()) for point in registry.entry_points_of(GROUP)}
    return tuple(Capability(name, rows[name]) for name in ordered(rows))


def sources_elsewhere() -> Iterator[tuple[str, Path]]:
    """Yield the modules that capabilities of other packages name, and their files: records depend on these, too."""
    for point in registry.entry_points_of(GROUP):
        stages = vars(point.load()).get("STAGES", {})
        targets = [point.value, *(target for row in stages.values() for target, *_ in _rows_of(row))]
        for module in sorted({target.partition(":")[0] for target in targets}):
            spec = find_spec(module)
            if spec is not None and spec.origin is not None:
                yield module, Path(spec.origin)


def ordered(rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Order capabilities by ``NEEDS`` and ``AFTER``, then by name.

    Raises BrokenCapabilityError for a circle, and for one that needs what is not there.

    Examples
    --------
    >>> ordered({"causes": {"NEEDS": ("graphs",)}, "graphs": {"AFTER": ("statistics",)}, "ci": {}})
    ('ci', 'graphs', 'causes')
    """
    before: dict[str, set[str]] = {}
    for name, own in rows.items():
        needs = set(own.get("NEEDS", ()))
        if lacking := sorted(needs - rows.keys()):
            raise BrokenCapabilityError(f"capability {name} needs {', '.join(lacking)}, which is not there; add it")
        before[name] = needs | (set(own.get("AFTER", ())) & rows.keys())
    placed: list[str] = []
    while len(placed) < len(before):
        ready = [name for name in sorted(before) if name not in placed and before[name] <= set(placed)]
        if not ready:
            rest = ", ".join(sorted(before.keys() - set(placed)))
            raise BrokenCapabilityError(f"capabilities {rest}: each waits for another one (NEEDS, AFTER); remove one")
        placed.append(ready[0])
    return tuple(placed)


@cache
def rows(kind: str) -> Mapping[str, Any]:
    """Return the rows of one kind, e.g. ``"COMMANDS"``, of the core and of all capabilities, by their names."""
    merged: dict[str, Any] = dict(getattr(import_module("pytest_msdump.core.hooks"), kind, {}))
    for capability in capabilities():
        own = capability.rows.get(kind, {})
        if twice := sorted(merged.keys() & own.keys()):
            raise BrokenCapabilityError(f"capability {capability.name}: another one has {kind} {twice[0]!r} as well")
        merged |= own
    after = {name: row.get("after") for name, row in merged.items() if isinstance(row, Mapping)}
    after |= {name: row[2] for name, row in merged.items() if isinstance(row, tuple) and len(row) > 2}
    return {name: merged[name] for name in placed(dict.fromkeys(merged) | after)}


def placed(after: Mapping[str, str | None]) -> list[str]:
    """Return names in their order, each that names another one behind that, where it is there.

    Examples
    --------
    >>> placed({"json": None, "md": None, "html": "csv", "csv": "json", "lines": "xml"})
    ['json', 'csv', 'html', 'md', 'lines']
    """
    following: dict[str | None, list[str]] = {}
    for name, before in after.items():
        following.setdefault(before if before in after else None, []).append(name)

    def behind(name: str | None) -> list[str]:
        return [one for follower in following.get(name, ()) for one in (follower, *behind(follower))]

    if lost := sorted(after.keys() - set(order := behind(None))):
        raise BrokenCapabilityError(f"{', '.join(lost)}: each stands after another of these; leave one out")
    return order


@cache
def values(kind: str) -> Mapping[str, Any]:
    """Return what each capability has of a kind that is not rows by name (``OPTIONS``, ``SENTENCES``)."""
    return {one.name: one.rows[kind] for one in capabilities() if kind in one.rows}


@cache
def steps(stage: str) -> tuple[Step, ...]:
    """Return what capabilities do at a stage, in order; loads none of them."""
    listed = ((one.name, row) for one in capabilities() for row in _rows_of(one.rows.get("STAGES", {}).get(stage, [])))
    found = tuple(Step(name, target, " ".join(conditions)) for name, (target, *conditions) in listed)
    if stage in _OWN_STAGES:
        elsewhere = {point.name for point in registry.entry_points_of(GROUP)}
        for step in found:
            if step.capability in elsewhere:
                raise BrokenCapabilityError(
                    f"capability {step.capability}: stage {stage} judges, and only the core clears a verdict; "
                    "take the stage judged, which may worsen one, or the stage limits"
                )
    return found


def _rows_of(row: Any) -> list[tuple[str, ...]]:
    """Return what a capability does at a stage: a target, one with conditions, or a list of these."""
    return [(one,) if isinstance(one, str) else one for one in (row if isinstance(row, list) else [row])]


def bound(stage: str, conditions: Iterable[str] = ("",)) -> tuple[Callable[..., Any], ...]:
    """Return the functions of a stage that have anything to do under these conditions; done once per plan."""
    met = frozenset(conditions)
    return tuple(step.function for step in steps(stage) if step.is_met(met))


@cache
def load(target: str) -> Any:
    """Return what ``"module:name"`` names, or a module."""
    module, _, name = target.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded


def offered(name: str) -> Any:
    """Return the module that a capability offers to drivers by this name in ``OFFERS``; ConfigError where none does."""
    target = rows("OFFERS").get(name)
    if target is None:
        raise ConfigError(f"{name.replace('_', ' ')}: there is no capability here that does this")
    return load(target)


class IndexRequest(NamedTuple):
    """What the caller of `index` gave besides the folder."""

    graph_files: tuple[Path, ...] = ()
    allow_incomplete: bool = False


class Indexed(Protocol):
    """Stage ``indexed``: adds to a dump that a reader has just listed what lies beside its tensors. Reads no tensor.

    Its condition is the name of a reader. A single npy file has nothing beside it, and does not pass here.

    Examples
    --------
    >>> from dataclasses import replace
    >>> def with_ticket(dump, request):
    ...     return replace(dump, labels=(*dump.labels, ("ticket", "ACC-412")))
    """

    def __call__(self, dump: Dump, request: IndexRequest, /) -> Dump:
        """Return the dump with what this capability knows of it; the same one where that is nothing."""


class Runs(Protocol):
    """Stage ``runs``: sees all dumps of a suite, with all ranks of each, before they are paired.

    Their names are ``left``, ``right`` and, where they are given, ``golden`` and ``third``.

    Examples
    --------
    >>> def without_warm_up(dumps, suite):
    ...     return {name: first_iteration_left_out(dump) for name, dump in dumps.items()}
    """

    def __call__(self, dumps: Mapping[str, Dump], suite: Any, /) -> Mapping[str, Dump]:
        """Return the same names with dumps to compare instead."""


class Opener(Protocol):
    """Row of ``OPENERS``, by the name of a part: opens a tensor that has this part of a `TensorRef` in another way.

    Examples
    --------
    >>> OPENERS = {"halves": "package.module:first_half"}
    >>> def first_half(ref):
    ...     return HalfView(open_whole(ref))
    """

    def __call__(self, ref: TensorRef, /) -> TensorView:
        """Return a view in the tensor's logical shape."""


class Entries(Protocol):
    """Stage ``entries``: chooses partners that no file and no name gives. They count as entries of the map.

    Examples
    --------
    >>> def renamed(left, right):
    ...     ours, theirs = ({ref.key.op.label for ref in dump.refs} for dump in (left, right))
    ...     return {name: f"model.{name}" for name in sorted(ours) if f"model.{name}" in theirs}
    """

    def __call__(self, left: Dump, right: Dump, /) -> object:
        """Return left address → right address, or tables as ``[[msdump.map]]`` has them."""


class Paired(Protocol):
    """Stage ``paired``: adds to pairs what belongs to them, as tensors of further runs.

    Its condition is ``"golden"`` (there is a golden or a third run), ``"several"`` (more than two tensors), or empty.

    Examples
    --------
    >>> def with_ticket(pairing, dumps):
    ...     return replace(pairing, notes=(*pairing.notes, "ACC-412")), {}
    """

    def __call__(self, pairing: Pairing, dumps: Mapping[str, Dump], /) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
        """Return the pairing, in which the same tensors meet, and notes on further runs, by name."""


class Ruled(Protocol):
    """Stage ``ruled``: adds to pairs what keys of rules say of them; its condition is such a key (``RULE_KEYS``).

    Examples
    --------
    >>> def with_owner(pairing, policy):
    ...     return replace(pairing, pairs=tuple(owned(pair, marks_of(policy, pair, "owner")) for pair in pairing.pairs))
    """

    def __call__(self, pairing: Pairing, policy: Policy, /) -> Pairing:
        """Return the pairing, in which the same tensors meet."""


class LimitSource(Protocol):
    """Stage ``limits``: limits that stand between the rules of a suite and its profile. Asked once per pair, at plan.

    Examples
    --------
    >>> def of_embeddings(pair):
    ...     return {"max_absolute_error": 1e-6} if "embed" in pair.left.key.op.label else {}
    """

    def __call__(self, pair: Pair, /) -> Mapping[str, float]:
        """Return the most (for similarities, the least) that each metric may be; empty to leave the profile's."""


class Road(Protocol):
    """Stage ``road``: compares a pair without its elements. The first result wins; None leaves it to the next.

    Its condition is ``"unseen"``: a tensor of the plan was not saved. Of this package alone, as it judges.

    Examples
    --------
    >>> def by_digest(pair, policy, roots):
    ...     return None if pair.left.parts.get("digest") is None else record_of_digests(pair, roots)
    """

    def __call__(self, pair: Pair, policy: Policy, roots: tuple[Path, ...], /) -> Record | None:
        """Return the record of the pair, or None where this road does not lead."""


class Measured(Protocol):
    """Stage ``measured``: adds numbers to what the kernel measured, while both tensors are open.

    Its condition is ``"golden"`` (there is a golden or a third run) or a key that a capability adds to rules. Of this
    package alone, as limits hold for them.

    Examples
    --------
    >>> def with_ratios(opened, comparison, limits, excuse):
    ...     return replace(comparison, measurements={**comparison.measurements, **ratios_of(opened)})
    """

    def __call__(
        self, opened: OpenedPair, comparison: Comparison, limits: Limits, excuse: Callable[..., Message | None], /
    ) -> Comparison:
        """Return the numbers with further ones; `excuse` says why the pair cannot agree, or None."""


class Excused(Protocol):
    """Stage ``excused``: says of a failing pair why no two runs agree about it, before it is judged again.

    What clears is `core.limits.judge`, by the codes that it knows. Of this package alone.

    Examples
    --------
    >>> def rounding_alone(opened, limits, again):
    ...     return Message("zero_in_exact_arithmetic", {...}) if is_rounding(opened) else None
    """

    def __call__(self, opened: OpenedPair, limits: Limits, again: Callable[[Pair], Record], /) -> Message | None:
        """Return the reason, or None where nothing shows one; `again` compares another pair by the same limits."""


class Explained(Protocol):
    """Stage ``explained``: adds parts to the record of a failing pair, while both tensors are open.

    It costs a second look at the elements, so that it is for the failures that are told in full.

    Examples
    --------
    >>> def with_largest(opened, record):
    ...     left, right = opened.seen
    ...     return replace(record, parts={**record.parts, "largest": Largest(largest_of(left), largest_of(right))})
    """

    def __call__(self, opened: OpenedPair, record: Record, /) -> Record:
        """Return the record with what the elements show."""


class Judged(Protocol):
    """Stage ``judged``: adds notes and parts to a record, or worsens its verdict; it cannot make it better.

    Its condition is ``"failing"`` (only where the verdict is), ``"statistics"`` or ``"shards"`` (a tensor of the plan
    has them), or empty. `again` measures and judges another pair by the same limits.

    Examples
    --------
    >>> from dataclasses import replace
    >>> def noted(pair, record, again):
    ...     return replace(record, parts={**record.parts, "owner": Owner("team-attention")})
    """

    def __call__(self, pair: Pair, record: Record, again: Callable[[Pair], Record], /) -> Record:
        """Return the record with what this capability has to say of the pair."""


class Planned(Protocol):
    """What stages see of a plan: its suite, the dumps as they were paired, and the pairing."""

    @property
    def suite(self) -> Any:
        """What was asked for."""

    @property
    def left(self) -> Dump:
        """The run under test."""

    @property
    def right(self) -> Dump:
        """The reference."""

    @property
    def pairing(self) -> Pairing:
        """Who meets whom, and what is left."""


class Together(Protocol):
    """Stage ``together``: finds one mistake behind failures that each have their role. Called where something fails.

    Its diagnosis stands in place of a reason where the row ``TOGETHER`` has its name.

    Examples
    --------
    >>> def with_one_seed(plan, records):
    ...     first, *rest = [number for number, record in records.items() if record.fails]
    ...     return {number: records[number].inherited_from(records[first]) for number in rest}
    """

    def __call__(self, plan: Planned, records: Mapping[int, Record], /) -> Mapping[int, Record]:
        """Return the records whose roles and diagnoses change, by the number of their pair."""


class Reported(Protocol):
    """Stage ``reported``: adds roles and parts to a whole report.

    Its condition is ``"network"`` (two dumps, not two files), the name of an option of a capability (it is given), or
    empty. What it says is printed by a class of the stage ``summarised``, a `core.report.base.Summariser`; its
    condition is ``"notable"`` (something fails or was localised, or the report has parts).

    Examples
    --------
    >>> def by_owner(report, plan):
    ...     return replace(report, parts={**report.parts, "owners": owners_of(report.records)})
    """

    def __call__(self, report: Report, plan: Planned, /) -> Report:
        """Return the report with what this capability found over all records; verdicts stay as they are."""
