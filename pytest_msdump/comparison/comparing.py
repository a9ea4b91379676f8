"""Compare one pair: open both tensors, bring them to one logical shape, measure, judge. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.comparison.align_shapes import Met, Sampled, UnknownSampleError, bring_together
from pytest_msdump.comparison.opening import open_view
from pytest_msdump.comparison.user_code import NO_EXTRAS, Extras
from pytest_msdump.diagnosis.diagnose import diagnose, nonfinite_origin
from pytest_msdump.dtypes import coarser
from pytest_msdump.errors import MsdumpError, TensorShapeError
from pytest_msdump.facts.dtypes import VALUE_KINDS
from pytest_msdump.limits.judge import judge, judgements, rows
from pytest_msdump.limits.policy import Policy
from pytest_msdump.limits.resolve import hinted_dtypes, of_pair, resolve
from pytest_msdump.metrics.measure import measure
from pytest_msdump.metrics.spread import spread
from pytest_msdump.model.comparison import (
    FAILING,
    Comparison,
    CustomResult,
    Finding,
    Limits,
    Measurement,
    Nonfinite,
    Verdict,
)
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Check, Diagnosis, Record, Spread, record_of
from pytest_msdump.model.tensor import ForwardingView, TensorView
from pytest_msdump.text import Message, plain_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from pytest_msdump.comparison.planning import Plan

__all__ = [
    "Comparer",
    "FirstElements",
    "compare_pair",
    "compare_views",
    "comparer_of",
]


def opinion_of(
    pair: Pair,
    comparison: Comparison,
    limits: Limits,
    left_dtype: str,
    right_dtype: str,
    remarks: Sequence[Message] = (),
) -> tuple[Verdict, list[Check]]:
    """Judge a pair.

    Parameters
    ----------
    pair : Pair
        What the device's own check says of its operators counts.
    comparison : Comparison
        What was measured.
    limits : Limits
        What it is judged by.
    left_dtype, right_dtype : str
        Names of `facts.dtypes`.
    remarks : sequence of Message
        Of their files.

    Returns
    -------
    verdict, checks
        As a `Record` has them.
    """
    judged = judgements(comparison, limits)
    verdict = judge(
        comparison,
        limits,
        left_dtype=left_dtype,
        right_dtype=right_dtype,
        overflows=[entry.sentence for entry in pair.left.overflows],
        right_overflows=[entry.sentence for entry in pair.right.overflows],
        remarks=remarks,
        judged=judged,
    )
    return verdict, rows(comparison, limits, judged)


# -- Measure two views that have met ---------------------------------------------------------------------------------


class FirstElements(ForwardingView):
    """The first elements of a tensor in C order, at their places in the whole one (a `model.tensor.TensorView`).

    Parameters
    ----------
    view : TensorView
        The whole tensor.
    count : int
        How many elements are to be seen.
    """

    def __init__(self, view: TensorView, count: int) -> None:
        super().__init__(view)
        self._count = count

    @property
    def size(self) -> int:
        """Number of elements that can be read."""
        return min(self._count, self._view.size)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop`, which have to be among the first."""
        return self._view.read(start, min(stop, self.size))

    def permuted(self, axes: tuple[int, ...]) -> FirstElements:
        """Return the first elements of the tensor with its axes in another order."""
        return FirstElements(self._view.permuted(axes), self._count)


def measure_views(
    left: TensorView,
    right: TensorView,
    pair: Pair,
    limits: Limits,
    extras: Extras,
    sampled: Sampled | None = None,
) -> tuple[Comparison, Mapping[str, CustomResult]]:
    """Measure two tensors of one logical shape.

    Parameters
    ----------
    left, right : TensorView
        As `layouts.axes.meet` returns them.
    pair : Pair
        Where they come from.
    limits : Limits
        Its element-wise tolerance is used.
    extras : Extras
        A user's algorithms, and how many elements to look at.
    sampled : Sampled, optional
        That the tensors are samples, and of how many elements.

    Returns
    -------
    comparison, custom
        `Comparison.total_elements` is set when not all elements were looked at.
    """
    total = left.size
    is_part = extras.first is not None and extras.first < total
    if extras.first is not None and is_part:
        left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
    comparison = measure(left, right, rtol=limits.rtol, atol=limits.atol, without=dict(limits.without))
    custom = _custom(left, right, pair, extras)
    if sampled is not None:
        return replace(comparison, total_elements=sampled.total, sampled=True), custom
    return (replace(comparison, total_elements=total) if is_part else comparison), custom


def _custom(left: TensorView, right: TensorView, pair: Pair, extras: Extras) -> Mapping[str, CustomResult]:
    """What a user's own algorithms make of the pair."""
    if not extras.algorithms:
        return {}
    from pytest_msdump.metrics.custom import run_algorithms

    files = (pair.left.source.path, pair.right.source.path)
    return run_algorithms(extras.algorithms, left, right, files=files, arguments=extras.arguments)


# -- Compare one pair ------------------------------------------------------------------------------------------------


# Loose files are named as they were given.
NO_ROOTS = (Path(), Path())


def compare_pair(pair: Pair, policy: Policy, extras: Extras = NO_EXTRAS, roots: tuple[Path, Path] = NO_ROOTS) -> Record:
    """Measure and judge one pair. Whatever is wrong with its files becomes the verdict `error` of this pair alone.

    Parameters
    ----------
    pair : Pair
        Both sides are opened here, read in blocks, and closed again.
    policy : Policy
        What it is judged by.
    extras : Extras
        A user's own code, and how much of each tensor to look at.
    roots : tuple of Path
        The two dumps, which the record names files relative to.

    Returns
    -------
    Record
        With `comparison` ``None`` when nothing could be measured, and when a tensor was not saved: then the pair is
        compared by statistics, which `statistics` holds.
    """
    try:
        if pair.left.is_unseen or pair.right.is_unseen:
            from pytest_msdump.comparison.compare_statistics import compare_by_statistics

            return compare_by_statistics(pair, policy, roots)
        left = open_view(pair.left)
        try:
            right = open_view(pair.right)
            try:
                return compare_views(pair, left, right, policy, extras, roots)
            finally:
                right.close()
        finally:
            left.close()
    except MsdumpError as error:
        return _error(pair, _message_of(error), roots)
    except OSError as error:
        where = error.filename or pair.left.source.path
        why = error.strerror or error
        text = f"{where}: cannot be read ({why}); check the file and its permissions"
        return _error(pair, plain_text(text), roots)


def compare_views(
    pair: Pair,
    left: TensorView,
    right: TensorView,
    policy: Policy,
    extras: Extras = NO_EXTRAS,
    roots: tuple[Path, Path] = NO_ROOTS,
) -> Record:
    """Measure and judge two opened tensors; `pair` says who they are and how the right is brought to the left.

    Raises
    ------
    TensorShapeError
        The shapes cannot be brought together.
    TensorFileError
        A file turned out unreadable on the way.
    """
    dtypes = left.dtype, right.dtype
    limits = _limits(pair, policy, dtypes)
    try:
        met = bring_together(pair, left, right, extras.converters)
        comparison, custom = measure_views(met.left, met.right, pair, limits, extras, met.sampled)
        remarks = (*met.remarks, *_coarser_values(comparison, dtypes))
        hinted = _limits(pair, policy, hinted_dtypes(policy, *dtypes, remarks))
        if (hinted.rtol, hinted.atol) != (limits.rtol, limits.atol):
            # What is told element by element depends on it.
            comparison, custom = measure_views(met.left, met.right, pair, hinted, extras, met.sampled)
        limits = hinted
    except MsdumpError as error:
        outcome = "undefined" if isinstance(error, UnknownSampleError) else "error"
        verdict = Verdict(outcome, (Finding(outcome, _message_of(error)),))
        return record_of(pair, verdict, limits, specs=(left.spec, right.spec), roots=roots)
    verdict, checks = opinion_of(pair, comparison, limits, *dtypes, remarks)
    specs = met.left_logical.spec, met.right_logical.spec
    record = record_of(pair, verdict, limits, specs=specs, roots=roots)
    return replace(
        record,
        checks=tuple(checks),
        comparison=_with_shared_parts(comparison),
        custom=custom or record.custom,
        diagnosis=_diagnosis(met, comparison, extras) if verdict.outcome in FAILING else (),
        remarks=remarks,
        spread=None if extras.spread == "none" else _spread(met, verdict, extras),
    )


def _with_shared_parts(comparison: Comparison) -> Comparison:
    """Return the same numbers; parts that very many pairs have alike are one object, since reports hold all pairs."""
    measurements = {
        name: one if type(one.value) in (float, tuple) or one.where else _measurement(*one)
        for name, one in comparison.measurements.items()
    }
    return replace(comparison, measurements=measurements, nonfinite=_counts(*comparison.nonfinite))


# 0, 0.0 and False are equal, and written otherwise.
_measurement = lru_cache(maxsize=1024, typed=True)(Measurement)
_counts = lru_cache(maxsize=1024)(Nonfinite)


def _limits(pair: Pair, policy: Policy, dtypes: tuple[str, str]) -> Limits:
    limits = resolve(policy, left=pair.left.key, right=pair.right.key, left_dtype=dtypes[0], right_dtype=dtypes[1])
    return of_pair(limits, pair.note, pair.uncompared)


def _coarser_values(comparison: Comparison, dtypes: tuple[str, str]) -> Iterator[Message]:
    """Yield the sides whose values are all of a coarser type, where that would make a difference to their limits."""
    kinds = [VALUE_KINDS.get(values or "", dtype) for values, dtype in zip(comparison.coarser, dtypes, strict=True)]
    if coarser(*kinds) == coarser(*dtypes):
        return
    for side, dtype, values in zip(("left", "right"), dtypes, comparison.coarser, strict=True):
        if values is not None:
            yield Message("coarser_values", {"side": side, "dtype": dtype, "values": values})


# What only some pairs need is loaded with the first of them: a pair of files that agree is told of at once.


def _diagnosis(met: Met, comparison: Comparison, extras: Extras) -> tuple[Diagnosis, ...]:

    return diagnosed(met.left, met.right, comparison, extras)


def _spread(met: Met, verdict: Verdict, extras: Extras) -> Spread | None:

    return spread_of(met.left, met.right, verdict, extras)


def _message_of(error: MsdumpError) -> Message:
    return error.message if isinstance(error, TensorShapeError) else plain_text(str(error))


def _error(pair: Pair, message: Message, roots: tuple[Path, Path]) -> Record:
    """The record of a pair whose files could not be opened."""
    dtypes = [ref.spec.dtype for ref in (pair.left, pair.right) if ref.spec.dtype]
    limits = Limits(judged_as=coarser(dtypes[0], dtypes[-1]) if dtypes else "unknown")
    return record_of(pair, Verdict("error", (Finding("error", message),)), limits, roots=roots)


# -- The stage behind judging that keeps how errors are spread, where somebody asked for it --------------------------


def spread_of(left: TensorView, right: TensorView, verdict: Verdict, extras: Extras) -> Spread | None:
    """Return the small arrays of a pair; ``None`` when they are not wanted of it.

    Parameters
    ----------
    left, right : TensorView
        As they were measured.
    verdict : Verdict
        What came of it.
    extras : Extras
        Which pairs are wanted, and how much of each is looked at.
    """
    if extras.spread == "none" or (extras.spread == "failing" and verdict.outcome not in FAILING):
        return None
    if extras.first is not None and extras.first < left.size:
        left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
    # The numbers stand; a file that went away since then only costs the drawing.
    with suppress(MsdumpError):
        return spread(left, right)
    return None


# -- The stage behind judging ----------------------------------------------------------------------------------------


# With less than this share of finite pairs, NaN and Inf are all there is to say.
_FINITE_SHARE = 0.5


def diagnosed(left: TensorView, right: TensorView, comparison: Comparison, extras: Extras) -> tuple[Diagnosis, ...]:
    """Say what the drift of a failing pair looks like.

    Parameters
    ----------
    left, right : TensorView
        As they were measured.
    comparison : Comparison
        Their numbers.
    extras : Extras
        Of a tensor of which only the first elements were to be looked at, no more is looked at here.

    Returns
    -------
    tuple of Diagnosis
        The surest first; their details are plain JSON values.
    """
    origin = nonfinite_origin(comparison.nonfinite, elements=comparison.elements)
    found = [] if origin is None else [origin]
    if comparison.elements and comparison.finite >= _FINITE_SHARE * comparison.elements:
        if extras.first is not None and extras.first < left.size:
            left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
        # The numbers stand; a file that went away since then only costs the hint.
        with suppress(MsdumpError):
            found += diagnose(left, right)
    return tuple(replace(one, details=_plain(one.details)) for one in found)


def _plain(value: Any) -> Any:
    """JSON has no tuples; NumPy's numbers become Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") else value


# -- The pairs of a plan ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares pairs of one plan, in any process that sees the files; all that a record depends on beside its pair.

    Can be pickled if `extras` holds no code of a user.

    Parameters
    ----------
    policy : Policy
        What pairs are judged by.
    extras : Extras
        A user's own code, how much of each tensor to look at, and what to keep of it.
    left_root, right_root : Path
        The names of files in records are relative to these.
    """

    policy: Policy
    extras: Extras
    left_root: Path
    right_root: Path

    def compare(self, pair: Pair) -> Record:
        """Return the record of a pair, without what only the plan knows."""
        return compare_pair(pair, self.policy, self.extras, (self.left_root, self.right_root))

    def error(self, pair: Pair, sentence: str) -> Record:
        """Return the record of a pair that could not be compared."""
        return _error(pair, plain_text(sentence), (self.left_root, self.right_root))


def comparer_of(plan: Plan) -> Comparer:
    """Return the comparer for the pairs of a plan."""
    extras = replace(plan.extras, spread=plan.suite.spread)
    return Comparer(plan.suite.policy, extras, plan.left.root, plan.right.root)
