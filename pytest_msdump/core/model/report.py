"""The result of one suite."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_msdump.core.model.record import Record, ReportedTensor
from pytest_msdump.core.model.tensor import Missing
from pytest_msdump.core.text import Message, say


class SuggestedPartner(NamedTuple):
    """A tensor that may be the partner of one that has none: its address on the other side, and what speaks for it.

    `confidence` is ``"clear"`` or ``"ambiguous"``, `apart` the difference over the norm, `shape` ``"same"``,
    ``"transposed"`` or ``"reshaped"``. `by` is as of `causes.reasons.fit_text`; empty where values decide.
    """

    address: str
    confidence: str
    why: str
    apart: float | None = None
    shape: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class UnmatchedTensor:
    """A tensor without a partner, why it has none, and the nearest names on the other side.

    `order` is the place of its operator as in records, of left tensors only. `suggestions` is ``None`` unless
    requested.
    """

    side: str
    tensor: ReportedTensor
    why: Message
    candidates: tuple[str, ...] = ()
    order: int | None = None
    suggestions: tuple[SuggestedPartner, ...] | None = None

    @property
    def reason(self) -> str:
        """Why, in English."""
        return say(self.why)


class ReplayShare(NamedTuple):
    """How many of the reference's operators a replay judged, of those that it can; `least` is the share required.

    `not_judged` has the names of the others.
    """

    judged: int
    total: int
    least: float
    not_judged: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Whether at least one operator was judged, and the share that is required."""
        return 0 < self.judged >= self.least * self.total


class Uncompared(NamedTuple):
    """A tensor of which a share at most was compared: the right's name, or the left's where that alone is known."""

    name: str
    share: float = 0.0
    side: str = "right"


# The least coverage where nothing else sets one (INTERFACE 3).
LEAST_COVERAGE = 0.5


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the right side was compared; `value` is the mean of the shares of its tensors that were.

    `right_total` counts right tensors, `right_paired` those with a partner, `partly` those of which only a part was
    compared, `unlisted` those that do not count, since the left was configured to dump listed operators alone.
    `min_coverage` is the least share, if one was set; `incomplete` are sides that are a recording that was broken off.
    `uncompared` are the first tensors that were not compared as a whole, `outputs` the outputs of the model itself that
    were not compared at all.
    `replay` says how much of it a replay judged, where there was one. `next_entry` is what the next map entry may name,
    left and right; empty where none is in sight.
    """

    right_total: int = 0
    right_paired: int = 0
    value: float = 0.0
    min_coverage: float | None = None
    incomplete: tuple[str, ...] = ()
    replay: ReplayShare | None = None
    partly: int = 0
    unlisted: int = 0
    uncompared: tuple[Uncompared, ...] = ()
    outputs: tuple[str, ...] = ()
    next_entry: tuple[()] | tuple[str, str] = ()


class NetworkOperator(NamedTuple):
    """An operator of a compiled model.

    `index` is the number of its group, by first appearance, `sequence` its own in the model. `left` and `right` name
    the whole group, and its originals (``("*",)`` without any); `relation` is how these belong together.
    """

    # Hides the method of tuples.
    index: int  # type: ignore[assignment]
    sequence: int
    name: str
    op_type: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    relation: str


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side of the report: directory, reader, what is known of the run, and sentences for the header.

    `operators` and `tensors` count what the side holds, compared or not. `partial_run` says how many of the `tensors`
    are `newer`, where a later run into the same directory wrote some of them only; else it is empty. `by_name` says
    that operators are ordered by their names, since nothing gives the order in which they ran. `shown` has by its own
    name under which an operator is shown, where that is another one.
    """

    directory: str
    reader: str
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    operators: int = 0
    tensors: int = 0
    partial_run: Mapping[str, int] = field(default_factory=dict)
    by_name: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)


_NOT_COVERED = Coverage()


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result of one suite.

    `network` has an entry for each operator of the left side's compiled model, where a rule file describes one (see
    `matching.rules`). `notes` are sentences on the run as a whole: which code of a user ran, how much was looked at.
    `rerun` is what follows ``msdump compare`` to do it again. `run` says when and how this one was made (see
    `report.files.run_facts`).
    `localised_by` names the source of the edges, and `edges` are producer and consumer by their records' `order`.
    `golden` and `third` are further runs of the reference, where they were given.
    `parts` are what capabilities have to say of the whole, by name: frozen dataclasses of their own.
    `ended` is false of what stands in results.json from the start of a run until its end; it has no records.
    """

    left: SideInfo
    right: SideInfo
    profile: str
    limits: Mapping[str, Any]
    records: tuple[Record, ...] = ()
    unmatched: tuple[UnmatchedTensor, ...] = ()
    missing: tuple[Missing, ...] = ()
    coverage: Coverage = _NOT_COVERED
    network: tuple[NetworkOperator, ...] = ()
    notes: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    run: Mapping[str, str] = field(default_factory=dict)
    localised_by: str = ""
    edges: tuple[tuple[int, int], ...] = ()
    ended: bool = True
    golden: SideInfo | None = None
    third: SideInfo | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = Counter(record.verdict.outcome for record in self.records)
        counted = ", ".join(f"{n} {outcome}" for outcome, n in found.items()) or "no tensors"
        return f"<Report {counted}, coverage {self.coverage.value:.3f}, profile {self.profile}>"

    @property
    def further(self) -> dict[str, SideInfo]:
        """Golden and third by name, where they were given."""
        return {name: side for name, side in (("golden", self.golden), ("third", self.third)) if side is not None}

    @property
    def complete(self) -> bool:
        """Whether every pair was run."""
        return self.ended and all(record.was_run for record in self.records)

    def again(self, label: str) -> list[str]:
        """Return the words of the command that compares one left operator again; the page has the same."""
        return ["msdump", "compare", *self.rerun, f"--select={glob.escape(label)}"]
