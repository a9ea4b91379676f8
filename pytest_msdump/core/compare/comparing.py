"""Compare one pair: open both tensors, bring them to one logical shape, measure, judge. Bounded memory.

What capabilities do with a pair are stages of `core.ports`, bound once per plan: nothing is called for tensors that a
capability has nothing to do with, and what is for failing pairs is loaded by the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.compare.align import OpenedPair, UnknownSampleError, align, axis_letters
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.facts.metrics import ULP_METRICS
from pytest_msdump.core.limits.judge import judge, only_worse
from pytest_msdump.core.limits.resolve import (
    coarser_remarks,
    computed_remarks,
    hinted_dtypes,
    limits_of_values,
    refuse_other_limits,
    resolve_pair,
)
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import FAILING, Comparison, CustomResult, Finding, Limits, Verdict
from pytest_msdump.core.model.record import NO_ROOTS, Record, Spread, record_of
from pytest_msdump.core.model.tensor import UNSEEN
from pytest_msdump.core.text import Message, plain_text

if TYPE_CHECKING:
    from pytest_msdump.core.compare.planning import Plan
    from pytest_msdump.core.limits.policy import Policy
    from pytest_msdump.core.model.tensor import Pair, TensorRef, TensorView


class PairStages(NamedTuple):
    """The stages of a plan's pairs; those that only a failing pair may need are not loaded yet."""

    road: tuple[Callable[..., Record | None], ...] = ()
    measured: tuple[Callable[..., Comparison], ...] = ()
    judged: tuple[ports.Step, ...] = ()
    excused: tuple[ports.Step, ...] = ()
    explained: tuple[ports.Step, ...] = ()


def stages_of(refs: Iterable[TensorRef], *, has_golden: bool, marks: Iterable[str] = ()) -> PairStages:
    """Bind the stages that have anything to do for pairs of these tensors."""
    conditions = {"", "failing", *marks, *(["golden"] if has_golden else ())}
    for ref in refs:
        if ref.reader == UNSEEN:
            conditions.add("unseen")
        if ref.statistics is not None:
            conditions.add("statistics")
        if ref.parts:
            conditions.update(ref.parts)
    judged = tuple(step for step in ports.steps("judged") if step.is_met(conditions))
    road, measured = (ports.bound(stage, conditions) for stage in ("road", "measured"))
    return PairStages(road, measured, judged, ports.steps("excused"), ports.steps("explained"))


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares pairs of one plan, in any process that sees the files; holds all that a record depends on."""

    policy: Policy
    extras: Extras
    roots: tuple[Path, ...]
    stages: PairStages

    def compare(self, pair: Pair) -> Record:
        """Return the record of a pair, without what only the plan knows."""
        try:
            for road in self.stages.road:
                if (record := road(pair, self.policy, self.roots)) is not None:
                    return record
            with closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
                record = self.compare_views(pair, left, right)
            for step in self.stages.judged:
                if step.when != "failing" or record.fails:
                    record = only_worse(record, step.function(pair, record, self._again), by=step.capability)
            return record
        except MsdumpError as error:
            return self._error(pair, _message_of(error))
        except OSError as error:
            where = error.filename or pair.left.source.path
            why = error.strerror or error
            return self.error(pair, f"{where}: cannot be read ({why}); check the file and its permissions")

    def explained(self, pair: Pair, record: Record) -> Record:
        """Return a failing record with what only a second look at its elements shows."""
        if pair.left.is_unseen or pair.right.is_unseen:
            return record
        plain = replace(self, extras=replace(self.extras, algorithms={}, spread="none"))
        # The numbers stand; a file that went away since then only costs the hint.
        with (
            suppress(MsdumpError, OSError),
            closing(open_view(pair.left)) as left,
            closing(open_view(pair.right)) as right,
        ):
            again = plain.compare_views(pair, left, right)
            found = (*record.diagnosis, *again.diagnosis)
            return replace(record, diagnosis=found, parts={**again.parts, **record.parts})
        return record

    def error(self, pair: Pair, sentence: str) -> Record:
        """Return the record of a pair that could not be compared."""
        return self._error(pair, plain_text(sentence))

    def _error(self, pair: Pair, message: Message) -> Record:
        dtypes = [ref.spec.dtype for ref in (pair.left, pair.right) if ref.spec.dtype]
        limits = Limits(judged_as=coarser(dtypes[0], dtypes[-1]) if dtypes else "unknown")
        return record_of(pair, Verdict("error", (Finding("error", message),)), limits, roots=self.roots)

    def _again(self, pair: Pair) -> Record:
        """Compare another pair by the same limits, without code of a user."""
        return compare_pair(pair, self.policy, replace(NO_EXTRAS, first=self.extras.first))

    def compare_views(self, pair: Pair, left: TensorView, right: TensorView) -> Record:
        """Align, measure and judge two opened tensors of a pair; what cannot be aligned or read is an `error`."""
        policy, extras, dtypes = self.policy, self.extras, (left.dtype, right.dtype)
        computed = computed_remarks(pair, dtypes)
        judged_as = hinted_dtypes(policy, *dtypes, computed) if computed else dtypes
        limits: Limits | None = None
        try:
            aligned = align(pair, left, right, extras.converters)
            if policy.limits is not None:
                refuse_other_limits(policy.limits, pair, aligned.right_logical.size)
            limits = limits_of_values(policy, pair, dtypes, computed, golden=aligned.right_logical.shape)
            if aligned.transform.reshape and not pair.transform.reshape:
                # Merged or split axes: the record says so.
                pair = replace(pair, transform=replace(pair.transform, reshape=True))
            opened = OpenedPair(pair, left, right, aligned, extras)
            letters = axis_letters(left, aligned.left.shape, aligned.transform)
            measured = _measure(opened, limits, letters)
            remarks = (*aligned.remarks, *computed, *coarser_remarks(measured.coarser, judged_as))
            if measured.coarser != (None, None) and (policy.dtype_hint or policy.limits is not None):
                # What the values are of shows only now.
                first, limits = (
                    limits,
                    limits_of_values(policy, pair, dtypes, remarks, golden=aligned.right_logical.shape),
                )
                if _measured_by(first) != _measured_by(limits):
                    measured = _measure(opened, limits, letters)
            for add_to in self.stages.measured:
                measured = add_to(opened, measured, limits, self._excuse)
            custom = _custom(opened) if extras.algorithms else {}
        except MsdumpError as error:
            outcome = "undefined" if isinstance(error, UnknownSampleError) else "error"
            verdict = Verdict(outcome, (Finding(outcome, _message_of(error)),))
            limits = limits or resolve_pair(policy, pair, judged_as)
            return record_of(pair, verdict, limits, specs=(left.spec, right.spec), roots=self.roots)
        sides: dict[str, Any] = {
            "left_dtype": dtypes[0],
            "right_dtype": dtypes[1],
            "overflows": [entry.sentence for entry in pair.left.overflows],
            "right_overflows": [entry.sentence for entry in pair.right.overflows],
        }
        verdict, checks = judge(measured, limits, remarks=remarks, **sides)
        is_failing = verdict.outcome in FAILING
        if is_failing and (excuse := self._excuse(opened, limits)) is not None:
            remarks = (*remarks, excuse)
            verdict, checks = judge(measured, limits, remarks=remarks, **sides)
            is_failing = verdict.outcome in FAILING
        record = record_of(
            pair,
            verdict,
            limits,
            specs=(aligned.left_logical.spec, aligned.right_logical.spec),
            roots=self.roots,
            checks=checks,
            comparison=measured,
            custom=custom,
            remarks=remarks,
            spread=_spread(opened) if extras.spread == "all" or (extras.spread == "failing" and is_failing) else None,
        )
        for step in self.stages.explained if is_failing else ():
            record = only_worse(record, step.function(opened, record), by=step.capability)
        return record

    def _excuse(self, opened: OpenedPair, limits: Limits) -> Message | None:
        """Return the remark why a pair that fails cannot agree, if all of it was looked at."""
        if opened.extras.first is None and opened.aligned.sampled is None:
            # The numbers stand; where a file cannot be read, they fail.
            with suppress(MsdumpError, OSError):
                for step in self.stages.excused:
                    remark: Message | None = step.function(opened, limits, self._again)
                    if remark is not None:
                        return remark
        return None


def comparer_of(plan: Plan, *, explains: bool = False) -> Comparer:
    """Return the comparer for the pairs of a plan; that it `explains` what fails costs more than to compare it."""
    refs = (ref for dump in plan.dumps for ref in dump.refs)
    has_golden = plan.golden is not None or plan.third is not None
    stages = stages_of(refs, has_golden=has_golden, marks=plan.suite.policy.marks)
    stages = stages if explains else stages._replace(explained=())
    return Comparer(
        plan.suite.policy, replace(plan.extras, spread=plan.suite.options["spread"]), roots_of(plan), stages
    )


def roots_of(plan: Plan) -> tuple[Path, ...]:
    """Return the directories of all four dumps as `record_of` takes them; that of a missing one is of no use."""
    return tuple(dump.root if dump else Path() for dump in (plan.left, plan.right, plan.golden, plan.third))


def compare_pair(pair: Pair, policy: Policy, extras: Extras = NO_EXTRAS, roots: tuple[Path, ...] = NO_ROOTS) -> Record:
    """Measure and judge one pair that is of no plan; see `Comparer.compare`."""
    return _comparer_of_pair(pair, policy, extras, roots).compare(pair)


def compare_views(
    pair: Pair, left: TensorView, right: TensorView, policy: Policy, extras: Extras = NO_EXTRAS
) -> Record:
    """Measure and judge two opened tensors; see `Comparer.compare_views`."""
    return _comparer_of_pair(pair, policy, extras, NO_ROOTS).compare_views(pair, left, right)


def _comparer_of_pair(pair: Pair, policy: Policy, extras: Extras, roots: tuple[Path, ...]) -> Comparer:
    further = [ref for ref in (pair.golden, pair.third) if ref is not None]
    stages = stages_of((pair.left, pair.right, *further), has_golden=bool(further), marks=policy.marks)
    return Comparer(policy, extras, roots, stages)


def _message_of(error: MsdumpError) -> Message:
    return error.message if isinstance(error, TensorShapeError) else plain_text(str(error))


def _measure(opened: OpenedPair, limits: Limits, letters: str | None) -> Comparison:
    """Measure two aligned tensors, whose axes have these letters if something states them."""
    aligned = opened.aligned
    left, right = aligned.first(opened.extras.first)
    rtol, atol, axis, units = _measured_by(limits)
    if axis is None and letters is not None and "C" in letters:
        axis = letters.index("C")
    without = dict(limits.without)
    measured = measure(left, right, rtol=rtol, atol=atol, without=without, slice_axis=axis, units=units)
    if aligned.sampled is not None:
        return replace(measured, total_elements=aligned.sampled.total, sampled=True)
    return measured if left is aligned.left else replace(measured, total_elements=aligned.left.size)


def _measured_by(limits: Limits) -> tuple[float, float, int | None, bool]:
    """Return what measuring depends on: the worst elements on the tolerance, and what else is asked for."""
    return limits.rtol, limits.atol, limits.slice_axis, not ULP_METRICS.isdisjoint(limits.by_metric)


def _custom(opened: OpenedPair) -> Mapping[str, CustomResult]:
    pair, extras = opened.pair, opened.extras
    files = (pair.left.source.path, pair.right.source.path)
    ran: Mapping[str, CustomResult] = ports.offered("user_code").run_algorithms(
        extras.algorithms, *opened.seen, files=files, arguments=extras.arguments
    )
    return ran


def _spread(opened: OpenedPair) -> Spread | None:
    """Return how the errors are spread over the tensor."""
    # The numbers stand; a file that went away since then only costs the drawing.
    with suppress(MsdumpError):
        spread: Spread | None = ports.offered("spread").spread(*opened.seen)
        return spread
    return None
