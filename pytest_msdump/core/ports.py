"""Every place where a capability adds to the core: rows read without loading it, and stages that it takes part in.

``capabilities/NAME/hooks.py`` is literal rows and imports nothing; a folder that is not there is not listed. Other
packages name a module with the same rows in the entry-point group ``pytest_msdump.capabilities``:

    NEEDS = ("graphs",)                      capabilities it imports; they come before it
    AFTER = ("statistics",)                  comes after these where they are there
    COMMANDS = {"convert": ("package.module", "summary")}
    STAGES = {"indexed": "package.module:function", "judged": ("package.module:function", "failing")}

The second entry of a stage says when there is anything to do; what it may be is said at the stage. Nothing that a row
names is loaded before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_msdump.core import registry
from pytest_msdump.core.errors import MsdumpError

if TYPE_CHECKING:
    from pytest_msdump.core.model.comparison import Comparison
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.pairing import Pair, Pairing
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.model.tensor import TensorRef, TensorView

GROUP = "pytest_msdump.capabilities"
_ROWS = "hooks"


class BrokenCapabilityError(MsdumpError, ValueError):
    """Capabilities that need each other in a circle, one that needs what is not there, or a row that two have."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability: its name and the rows of its ``hooks.py``, by kind."""

    name: str
    rows: Mapping[str, Any]


class Step(NamedTuple):
    """What one capability does at a stage, and when; `function` loads it."""

    capability: str
    target: str
    when: str

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        loaded: Callable[..., Any] = load(self.target)
        return loaded


@cache
def capabilities() -> tuple[Capability, ...]:
    """Return all capabilities, each after those that it needs, otherwise by name."""
    rows = {name: registry.literal_rows(module) for name, module in registry.folders_with("capabilities", _ROWS)}
    rows |= {point.name: vars(point.load()) for point in registry.entry_points_of(GROUP)}
    return tuple(Capability(name, rows[name]) for name in ordered(rows))


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
    """Return the rows of one kind, e.g. ``"COMMANDS"``, of all capabilities, by their names."""
    merged: dict[str, Any] = {}
    for capability in capabilities():
        own = capability.rows.get(kind, {})
        if twice := sorted(merged.keys() & own.keys()):
            raise BrokenCapabilityError(f"capability {capability.name}: another one has {kind} {twice[0]!r} as well")
        merged |= own
    return merged


@cache
def values(kind: str) -> Mapping[str, Any]:
    """Return what each capability has of a kind that is not rows by name (``OPTIONS``, ``SENTENCES``)."""
    return {one.name: one.rows[kind] for one in capabilities() if kind in one.rows}


@cache
def steps(stage: str) -> tuple[Step, ...]:
    """Return what capabilities do at a stage, in order; loads none of them."""
    return tuple(
        Step(one.name, *((row, "") if isinstance(row, str) else row))
        for one in capabilities()
        if (row := one.rows.get("STAGES", {}).get(stage)) is not None
    )


def bound(stage: str, conditions: Iterable[str] = ("",)) -> tuple[Callable[..., Any], ...]:
    """Return the functions of a stage that have anything to do under these conditions; done once per plan."""
    met = frozenset(conditions)
    return tuple(step.function for step in steps(stage) if step.when in met)


@cache
def load(target: str) -> Any:
    """Return what ``"module:name"`` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class IndexRequest(NamedTuple):
    """What the caller of `index` gave besides the folder."""

    graph_files: tuple[Path, ...] = ()
    allow_incomplete: bool = False


class Indexed(Protocol):
    """Stage ``indexed``: adds to a dump that a reader has just listed what lies beside its tensors. Reads no tensor.

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


class Opened(Protocol):
    """Stage ``opened``, by the name of a part: opens a tensor that has this part of a `TensorRef` in another way.

    Examples
    --------
    >>> def first_half(ref, part, open_ref):
    ...     return HalfView(open_ref(ref))
    """

    def __call__(self, ref: TensorRef, open_ref: Callable[[TensorRef], TensorView], /) -> TensorView:
        """Return a view in the tensor's logical shape; `open_ref` opens it, or one that it is made of, without this."""


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

    Examples
    --------
    >>> def by_digest(pair, policy, roots):
    ...     return None if pair.left.parts.get("digest") is None else record_of_digests(pair, roots)
    """

    def __call__(self, pair: Pair, policy: Any, roots: tuple[Path, ...], /) -> Record | None:
        """Return the record of the pair, or None where this road does not lead."""


class Judged(Protocol):
    """Stage ``judged``: adds notes and parts to a record, or worsens its verdict; it cannot make it better.

    Its condition is ``"failing"`` (only where the verdict is), or empty.

    Examples
    --------
    >>> from dataclasses import replace
    >>> def noted(pair, comparison, record):
    ...     return replace(record, parts={**record.parts, "owner": Owner("team-attention")})
    """

    def __call__(self, pair: Pair, comparison: Comparison | None, record: Record, /) -> Record:
        """Return the record with what this capability has to say of the pair."""


class Planned(Protocol):
    """What stages see of a plan: the dumps as they were paired, and the pairing."""

    @property
    def left(self) -> Dump:
        """The run under test."""

    @property
    def right(self) -> Dump:
        """The reference."""

    @property
    def pairing(self) -> Pairing:
        """Who meets whom, and what is left."""


class Reported(Protocol):
    """Stage ``reported``: adds parts to a whole report, and says in which order failures are shown.

    Examples
    --------
    >>> def by_owner(report, plan):
    ...     return replace(report, parts={**report.parts, "owners": owners_of(report.records)})
    """

    def __call__(self, report: Report, plan: Planned, /) -> Report:
        """Return the report with what this capability found over all records; verdicts stay as they are."""
