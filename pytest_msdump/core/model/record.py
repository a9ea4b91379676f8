"""The result of one pair, from measuring to file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.comparison import (
    FAILING,
    Comparison,
    CustomResult,
    Finding,
    Interval,
    Limits,
    Nonfinite,
    StatisticComparison,
    Verdict,
    WorstElement,
)
from pytest_msdump.core.model.dump import ArgumentDifference, KernelArguments
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    Pair,
    SourceFrame,
    TensorKey,
    TensorRef,
    TensorSpec,
    Transform,
)
from pytest_msdump.core.text import Message, in_clauses, plain

__all__ = [
    "NO_ROOTS",
    "AxisErrors",
    "BetterFit",
    "Check",
    "Diagnosis",
    "ErrorGrowth",
    "Histogram",
    "Local",
    "MagnitudeErrors",
    "Record",
    "Region",
    "ReportedTensor",
    "RoleReason",
    "Spread",
    "Suspect",
    "record_of",
    "relative_file",
]

Number = float | int | tuple[float, ...]

# Loose files are named as they were given.
NO_ROOTS = (Path(),) * 4
# Shared by all records, of which there may be very many.
_NOTHING: Mapping[str, Any] = {}
_NO_NONFINITE = Nonfinite()
_NOWHERE = Coordinates()
_UNCHANGED = Transform()


class Check(NamedTuple):
    """One line of the failure table; `outcome` is "ok", "fail", "warn", "undefined" or "skipped"."""

    metric: str
    value: Number | None
    limit: float | None
    level: str | None
    rule: str | None
    outcome: str
    base: float | None = None


class ReportedTensor(NamedTuple):
    """A tensor as reports name it: which one it is, and what its file holds.

    `address` is ``OP:io:slot``, `file` the path below the side's directory, with forward slashes. Names are as in
    `OpKey`, type and shapes as in `TensorSpec`; `logical_shape` only where it differs from `shape`. `device_address` is
    where the tensor was on the device, `overflows` are sentences of the device's own check. `row` is the line of the
    statistics table that was compared in place of the tensor, `source` the line of the user's program that made the
    operator. `has_overflow` says whether a NaN, an Inf or the largest float16 is in it; only filled for the vendor's
    column OverFlow.
    """

    address: str
    file: str
    name: str | None = None
    true_name: str | None = None
    op_type: str | None = None
    at: Coordinates = _NOWHERE
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    memory_format: str | None = None
    logical_shape: tuple[int, ...] | None = None
    device_address: int | None = None
    overflows: tuple[str, ...] = ()
    row: int | None = None
    source: SourceFrame | None = None
    has_overflow: bool | None = None

    @property
    def key(self) -> TensorKey:
        """The tensor's identity."""
        label, io, slot = self.address.rsplit(":", 2)
        name = label if self.name is None else self.name
        return TensorKey(OpKey(name, self.at, self.op_type, self.true_name), io, int(slot))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the drift of a failing tensor looks like; `id` is a key of `facts.diagnoses.DIAGNOSES`.

    `confidence` is ``"high"`` or ``"medium"``; `details` are plain values for programs: factor, axis, index, …
    `unexplained` is the share of the squared differences of the whole tensor that is left open, 0 to 1. Not saved.
    """

    id: str
    confidence: str
    evidence: Message
    details: Mapping[str, Any] = field(default_factory=dict)
    unexplained: float = field(default=0.0, compare=False)


class Histogram(NamedTuple):
    """Elements by the power of ten of ``|l - r|``, from ``10**low``; equal ones are left out."""

    low: int
    counts: tuple[int, ...]


class MagnitudeErrors(NamedTuple):
    """Mean and largest ``|l - r|`` by the power of ten of ``|r|``, from ``10**low``."""

    low: int
    mean: tuple[float, ...]
    largest: tuple[float, ...]


class AxisErrors(NamedTuple):
    """Sums of ``|l - r|`` along an axis, `step` places in one."""

    axis: int
    step: int
    values: tuple[float, ...]


class ValueCounts(NamedTuple):
    """Elements of each side by their value, in parts of equal width from `low` to `high`."""

    low: float
    high: float
    left: tuple[int, ...]
    right: tuple[int, ...]


class Spread(NamedTuple):
    """Where and for which values a pair differs, for drawings; a part that would be empty is ``None``.

    `heat` is the mean ``|l - r|`` over the two longest axes, `heat_axes`; of a vector over its only one.
    """

    histogram: Histogram | None = None
    magnitude: MagnitudeErrors | None = None
    axis: AxisErrors | None = None
    heat: tuple[tuple[float, ...], ...] = ()
    heat_axes: tuple[int, ...] = ()
    values: ValueCounts | None = None


class Suspect(NamedTuple):
    """An operator without a verdict and why; `before` counts operators of a gap in front of it, 0 if not known."""

    operator: str
    state: str
    before: int | None = None


class ErrorGrowth(NamedTuple):
    """How an error grew over some operators, as shares of its limit; `step` is the largest factor of one of them, `at`.

    `start` is that of the first one's inputs; it is 0 and `step` infinite where these are equal.
    """

    start: float
    end: float
    operators: int
    step: float
    at: str


class Region(NamedTuple):
    """Where in a program a mistake lies that was compared at its borders alone.

    It is in `module` (empty: the whole network), behind what `after` names, which passes, and ends at an `io`
    (``"input"`` or ``"output"``) of the operator `end`, which is the first tensor that fails. `operators` lie in it and
    were not compared; `lines` is ``NAME:FIRST-LAST`` of the program's file, where the recording knows that.
    """

    module: str
    after: tuple[str, ...]
    end: str
    io: str
    operators: tuple[str, ...] = ()
    lines: str = ""


class RoleReason(NamedTuple):
    """Why a tensor has its role.

    `why` is the end of a message's id (``why_…``), `given` are weights and inputs that were not compared, `before`
    parameters of which only the value after the step was compared, `left_out` operators of the right side that feed it
    there and have no partner. `region` is where a cause lies whose own operations were not compared one by one. A
    passing tensor without a role has one where its error jumped. `certainty` of a cause is ``"proven"`` (replayed on
    its own inputs), ``"bounded"`` (by what passes before it) or ``"first_seen"`` (only the order is known).
    """

    why: str
    suspects: tuple[Suspect, ...] = ()
    given: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    growth: ErrorGrowth | None = None
    region: Region | None = None
    certainty: str = ""


class Local(NamedTuple):
    """What became of a tensor when the reference computed it from the left's own inputs, see ``replay``.

    `outcome` is ``"pass"``, ``"fail"``, ``"error"`` (the left's tensor is damaged) or ``"not_replayable"``; of the last
    two `why` says why. `measure` says what `score` is: ``"score"``, the left's error over the error of the reference's
    own run; ``"flips"``, the share of elements that are not correctly rounded; ``"element"``, how many rounding units
    one is off; ``"differing"``, how many whole numbers differ; ``"nonfinite"``, how many elements only one side has as
    NaN or infinite. `segment` are modules without a partner that were judged together with this one, since what they
    gave went into it; a wrong one begins `after` these operators of the left. What is wrong inside of a module shows
    `before` these operators: in what they were given.
    """

    outcome: str
    measure: str = ""
    score: float | None = None
    limit: float | None = None
    segment: tuple[str, ...] = ()
    why: Message | None = None
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """The judgement as a sentence, or why there is none."""
        if self.why is not None:
            return Message(f"local_{self.outcome}", {"reason": self.why})
        after = Message("local_after", {"names": self.after}) if self.after else None
        if self.before:
            return in_clauses(Message("local_wrong_before", {"name": self.before[0]}), after)
        share = self.measure == "flips"
        shown = [f"{100 * (one or 0.0):.3g} %" if share else plain(one or 0.0, 3) for one in (self.score, self.limit)]
        numbers = dict(zip(("score", "bound"), shown, strict=True))
        word = "wrong" if self.outcome == "fail" else "right"
        found = Message(f"local_{word}_{self.measure}", numbers)
        segment = Message("local_segment", {"names": self.segment}) if self.segment else None
        return in_clauses(found, segment, after)


class BetterFit(NamedTuple):
    """Another tensor, on `side`, that fits a failing pair far better than the partner it was given.

    `confidence`, `why`, `apart` and `shape` are as of `SuggestedPartner`. `doubt` is why it is ambiguous:
    ``"several"``, ``"values"`` or ``"names"``. `map` is the entry of ``[[msdump.map]]`` that pairs the two; only when
    clear.
    """

    side: str
    address: str
    confidence: str
    why: str
    apart: float
    shape: str
    doubt: str = ""
    map: Mapping[str, Any] | None = None


# Codes of findings on integers that count or name something: they differ, as near ties or not.
CHOICES = frozenset(
    {
        *("near_ties", "same_choices", "choices_differ", "choices_of_failing"),
        *("ties_too_many", "ties_to_one", "ties_not_judged"),
    }
)
OF_IDS = CHOICES | {"integers_differ"}
# What counts ids that differ, and does not say how far these are apart.
COUNTS_IDS = frozenset({"changed_routes", "allclose", "bitwise_mismatch", "nonfinite_mismatch", "saturated_count"})


@dataclass(frozen=True, slots=True)
class Record:
    """The result of one pair: names and numbers, never data.

    Parameters
    ----------
    order : int
        Place of the left operator among all left operators, from 0.
    left, right : ReportedTensor
        Both sides.
    verdict : Verdict
        Its outcome is also ``"not_run"`` of a pair that was planned only.
    how, by, transform, pair_note, uncompared
        As in `Pair`.
    golden, third : str, optional
        Files of the same tensor in these dumps, below their directories.
    judged_as, nan, known_drift, notes
        As in `Limits`.
    checks : tuple of Check
        The limits one by one.
    comparison : Comparison, optional
        ``None`` when nothing could be measured.
    statistics : StatisticComparison, optional
        Set where a tensor was not saved; then there is no `comparison`.
    custom : mapping of str to CustomResult
        What a user's own algorithms returned, by name.
    remarks : tuple of Message
        What the numbers do not show of the files.
    diagnosis : tuple of Diagnosis
        What the drift of a failing pair looks like, the surest first.
    spread : Spread, optional
        Where and for which values it errs.
    kernel_args : mapping of str to KernelArguments
        By side, what the operator of a failing pair was initialised with.
    differing_arguments : tuple of ArgumentDifference
        What the two sides' operators do not share.
    role : str, optional
        ``"cause"``, ``"accumulated"``, ``"inherited"`` or ``"unknown"``, of a failing pair once all pairs are known.
        A passing one may be a cause: its error jumped, and what follows fails.
    causes : tuple of str
        Addresses that an inherited or accumulated failure goes back to.
    suspects : tuple of str
        Operators that were not compared and may have started it.
    role_reason : str
        Why it has its role, in a sentence.
    role_why : RoleReason, optional
        The same in parts.
    amplification : float, optional
        Error out over error in.
    suspicious : tuple of BetterFit
        Tensors that fit far better.
    local : Local, optional
        What a replay of the reference says of this operator by itself.
    parts : mapping of str to object
        What a capability has to say of it, by the capability's name: a frozen dataclass of its own.
    """

    order: int
    left: ReportedTensor
    right: ReportedTensor
    verdict: Verdict
    how: str
    by: str = ""
    transform: Transform = _UNCHANGED
    pair_note: Message | None = None
    uncompared: tuple[int, int] = (0, 0)
    golden: str | None = None
    third: str | None = None
    judged_as: str = "unknown"
    nan: str = "match"
    known_drift: str | None = None
    notes: tuple[Message, ...] = ()
    checks: tuple[Check, ...] = ()
    comparison: Comparison | None = None
    statistics: StatisticComparison | None = None
    custom: Mapping[str, CustomResult] = field(default_factory=lambda: _NOTHING)
    remarks: tuple[Message, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    spread: Spread | None = None
    kernel_args: Mapping[str, KernelArguments] = field(default_factory=lambda: _NOTHING)
    differing_arguments: tuple[ArgumentDifference, ...] = ()
    role: str | None = None
    causes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    role_reason: str = ""
    role_why: RoleReason | None = None
    amplification: float | None = None
    suspicious: tuple[BetterFit, ...] = ()
    local: Local | None = None
    parts: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def __repr__(self) -> str:
        worst = next((f": {one.sentence}" for one in self.verdict.findings if one.outcome == self.verdict.outcome), "")
        return f"<Record {self.verdict.outcome} {terminal_text(self.title)}{terminal_text(worst)}>"

    @property
    def title(self) -> str:
        """The left tensor's address; and the right one's, where this is of a part of the left that it meets."""
        piece = self.transform.piece
        is_part = piece is not None and piece.side == "left"
        return f"{self.left.address} <-> {self.right.address}" if is_part else self.left.address

    @property
    def line(self) -> SourceFrame | None:
        """The line of the program that made the left operator; else the one that made the right's."""
        return self.left.source or self.right.source

    @property
    def fails(self) -> bool:
        """Whether the verdict fails a test item."""
        return self.verdict.outcome in FAILING

    @property
    def is_of_ids(self) -> bool:
        """Whether integers differ that count or name something: how far they are apart says nothing."""
        return not OF_IDS.isdisjoint(finding.message.code for finding in self.verdict.findings)

    @property
    def shown_checks(self) -> tuple[Check, ...]:
        """The limits that a reader sees: of ids none on how far they are apart."""
        return tuple(one for one in self.checks if one.metric in COUNTS_IDS) if self.is_of_ids else self.checks

    @property
    def was_run(self) -> bool:
        """Whether the pair was compared, or at least tried."""
        return self.verdict.outcome != "not_run"

    @property
    def elements(self) -> int | None:
        """How many elements were compared; ``None`` where nothing was measured."""
        return None if self.comparison is None else self.comparison.elements

    @property
    def equal(self) -> bool | None:
        """Whether all values are the same; ``None`` where nothing was measured."""
        return None if self.comparison is None else self.comparison.equal

    @property
    def metrics(self) -> Mapping[str, Number]:
        """The number of each metric that has one; the estimate where sketches were compared."""
        if self.comparison is not None:
            return self.comparison.values
        return {metric: one.value for metric, one in self.estimates.items()}

    def judged_value(self, metric: str) -> Number | None:
        """Return the number that the limits of a metric are held to, see `Comparison.judged`."""
        if self.comparison is None:
            return self.metrics.get(metric)
        found, _ = self.comparison.judged(metric)
        return None if found is None else found.value

    @property
    def estimates(self) -> Mapping[str, Interval]:
        """The metrics that sketches gave, with the interval of each."""
        return _NOTHING if self.statistics is None else self.statistics.intervals

    @property
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """The index of the element that made a metric's number."""
        return _NOTHING if self.comparison is None else self.comparison.places

    @property
    def nonfinite(self) -> Nonfinite:
        """How many elements are NaN or Inf; nought where nothing was measured."""
        return _NO_NONFINITE if self.comparison is None else self.comparison.nonfinite

    @property
    def worst(self) -> Sequence[WorstElement]:
        """The elements that are furthest beyond their tolerance."""
        return () if self.comparison is None else self.comparison.worst

    @property
    def right_zero_mismatch(self) -> int:
        """How many elements the relative errors leave out."""
        return 0 if self.comparison is None else self.comparison.right_zero_mismatch

    def judged(self, verdict: Verdict, limits: Limits, checks: Sequence[Check]) -> Record:
        """Return the same numbers with another opinion."""
        return replace(
            self,
            verdict=verdict,
            checks=tuple(checks),
            judged_as=limits.judged_as,
            nan=limits.nan,
            known_drift=limits.known_drift,
            notes=limits.notes,
        ).with_local(self.local)

    def with_local(self, local: Local | None) -> Record:
        """Return the record with what a replay says; it fails where the operator is wrong by itself, or damaged."""
        if local is None or not self.was_run:
            return self
        verdict = self.verdict
        if local.outcome == "fail" or (local.outcome == "error" and not self.fails):
            findings = (*verdict.findings, Finding(local.outcome, local.message))
            verdict = replace(verdict, outcome=verdict.outcome if self.fails else local.outcome, findings=findings)
        return replace(self, verdict=verdict, local=local)

    def changed(self, **fields: Any) -> Record:
        """Return the record with other fields, as `dataclasses.replace` does, which asks for each field by itself."""
        return Record(**{**dict(zip(Record.__slots__, _fields_of(self), strict=True)), **fields})

    def without_role(self) -> Record:
        """Return the record without its role, where other records fail than when it was made."""
        return replace(self, role=None, causes=(), suspects=(), role_reason="", role_why=None)

    def inherited_from(self, cause: Record) -> Record:
        """Return the record as one that fails by what another one shows."""
        return replace(self.without_role(), role="inherited", causes=(cause.left.address,))


_fields_of = attrgetter(*Record.__slots__)


def record_of(
    pair: Pair,
    verdict: Verdict | None = None,
    limits: Limits | None = None,
    *,
    specs: tuple[TensorSpec, TensorSpec] | None = None,
    roots: tuple[Path, ...] = NO_ROOTS,
    **found: Any,
) -> Record:
    """Return the record of a pair; by default one that was not run, whose data type is what the names claim.

    `specs` are what the files really hold; a field left open there is taken from what the file's name claims. The names
    of files are relative to `roots`, the left, the right, the golden and the third dump. `found` are further fields of
    `Record`.
    """
    left_spec, right_spec = specs or (pair.left.spec, pair.right.spec)
    limits = limits or Limits(judged_as=pair.left.spec.dtype or pair.right.spec.dtype or "unknown")
    return Record(
        order=pair.order,
        left=_reported(pair.left, left_spec, roots[0]),
        right=_reported(pair.right, right_spec, roots[1]),
        verdict=verdict or Verdict("not_run"),
        how=pair.how,
        by=pair.by,
        transform=pair.transform,
        pair_note=pair.note,
        uncompared=pair.uncompared,
        golden=None if pair.golden is None else relative_file(pair.golden.source.location, roots[2]),
        third=None if pair.third is None else relative_file(pair.third.source.location, roots[3]),
        judged_as=limits.judged_as,
        nan=limits.nan,
        known_drift=limits.known_drift,
        notes=limits.notes,
        **found,
    )


def _reported(ref: TensorRef, spec: TensorSpec, root: Path) -> ReportedTensor:
    """One side of a record; `spec` is what its file really holds."""
    key, claimed, line, source = ref.key, ref.spec, ref.line, ref.source
    shape = claimed.shape if spec.shape is None else spec.shape
    logical = claimed.logical_shape if spec.logical_shape is None else spec.logical_shape
    return ReportedTensor(
        address=key.address,
        file=source.name if source.folder is root or source.folder == root else relative_file(source.location, root),
        name=key.op.name,
        true_name=key.op.true_name,
        op_type=key.op.op_type,
        at=key.op.at,
        dtype=spec.dtype or claimed.dtype,
        shape=shape,
        memory_format=spec.memory_format or claimed.memory_format,
        logical_shape=None if logical == shape else logical,
        device_address=source.device_address,
        overflows=tuple([entry.sentence for entry in ref.overflows]),
        source=line if line is None or line.last_line is None else line._replace(last_line=None),
    )


def relative_file(file: Path | str, root: Path) -> str:
    """Return a file's path below `root` with forward slashes; the bare name when `root` is the file itself."""
    text, prefix = str(file), _prefix(root)
    # Nearly every file is below the root: cutting a text costs a tenth of what comparing paths does.
    if os.sep == "/" and prefix and text.startswith(prefix):
        return text[len(prefix) :]
    path = Path(file) if isinstance(file, str) else file
    if path == root:
        return path.name
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


@lru_cache(maxsize=8)
def _prefix(root: Path) -> str:
    """What the names of files below `root` begin with; empty for the current folder and the file system's root."""
    text = str(root)
    return "" if text == "." or text.endswith("/") else text + "/"
