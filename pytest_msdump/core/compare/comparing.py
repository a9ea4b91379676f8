"""Compare one pair: open both tensors, bring them to one logical shape, measure, judge. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.capabilities.diagnosis.diagnose import diagnose, nonfinite_origin
from pytest_msdump.capabilities.noise_floor.limits import rounding_alone
from pytest_msdump.capabilities.three_way.judging import is_measured, with_ratios
from pytest_msdump.comparison.compare_statistics import compare_by_statistics, with_digests_checked
from pytest_msdump.comparison.random_masks import masks_message
from pytest_msdump.comparison.sharding import with_copies_judged
from pytest_msdump.core.compare.align import AlignedViews, UnknownSampleError, align, axis_letters
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES, VALUE_KINDS
from pytest_msdump.core.facts.metrics import ULP_METRICS
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.limits.resolve import computed_dtype, hinted_dtypes, refuse_other_limits, resolve_pair
from pytest_msdump.core.metrics.custom import run_algorithms
from pytest_msdump.core.metrics.dominated import Bounds, others_of
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.metrics.spread import spread
from pytest_msdump.core.model.comparison import FAILING, Comparison, CustomResult, Finding, Limits, Verdict
from pytest_msdump.core.model.pairing import Pair
from pytest_msdump.core.model.record import NO_ROOTS, Diagnosis, Record, Spread, record_of
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message, plain_text

if TYPE_CHECKING:
    from pytest_msdump.core.compare.planning import Plan

# If a smaller share of the pairs is finite, NaN and Inf are all there is to say.
_FINITE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares pairs of one plan, in any process that sees the files; holds all that a record depends on.

    Names of files in records are relative to `roots`, see `record_of`. Can be pickled if `extras` holds no code of a
    user.
    """

    policy: Policy
    extras: Extras
    roots: tuple[Path, ...]

    def compare(self, pair: Pair) -> Record:
        """Return the record of a pair, without what only the plan knows."""
        return compare_pair(pair, self.policy, self.extras, self.roots)

    def error(self, pair: Pair, sentence: str) -> Record:
        """Return the record of a pair that could not be compared."""
        return _error(pair, plain_text(sentence), self.roots)


def comparer_of(plan: Plan) -> Comparer:
    """Return the comparer for the pairs of a plan."""
    extras = replace(plan.extras, spread=plan.suite.options["spread"])
    return Comparer(plan.suite.policy, extras, roots_of(plan))


def roots_of(plan: Plan) -> tuple[Path, ...]:
    """Return the directories of all four dumps as `record_of` takes them; that of a missing one is of no use."""
    return tuple(dump.root if dump else Path() for dump in (plan.left, plan.right, plan.golden, plan.third))


def compare_pair(pair: Pair, policy: Policy, extras: Extras = NO_EXTRAS, roots: tuple[Path, ...] = NO_ROOTS) -> Record:
    """Measure and judge one pair. Whatever is wrong with its files becomes the verdict `error` of this pair alone.

    Both sides are opened here, read in blocks, and closed again; the record names files relative to `roots`. Its
    `comparison` is ``None`` if nothing could be measured, and if a tensor was not saved: then the pair is compared by
    statistics, which `statistics` holds.
    """
    try:
        if pair.left.is_unseen or pair.right.is_unseen:
            return compare_by_statistics(pair, policy, roots)
        with closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
            record = with_digests_checked(compare_views(pair, left, right, policy, extras, roots), pair)
        plain = replace(NO_EXTRAS, first=extras.first)
        return with_copies_judged(record, pair, lambda copies: compare_pair(copies, policy, plain))
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
    roots: tuple[Path, ...] = NO_ROOTS,
) -> Record:
    """Align, measure and judge two opened tensors of a pair; what cannot be aligned or read is an `error`."""
    dtypes = left.dtype, right.dtype
    computed = tuple(_computed_in(pair, dtypes))
    judged_as = hinted_dtypes(policy, *dtypes, computed)
    limits = resolve_pair(policy, pair, judged_as)
    try:
        aligned = align(pair, left, right, extras.converters)
        if policy.limits is not None:
            refuse_other_limits(policy.limits, pair, aligned.right_logical.size)
        letters = axis_letters(left, aligned.left.shape, aligned.transform)
        measured = _measure(aligned, limits, extras, letters)
        remarks = (*aligned.remarks, *computed, *_coarser_values(measured, judged_as))
        shape = aligned.right_logical.shape if pair.golden and is_measured(pair) else None
        note = Message("golden_not_judged") if (pair.golden or pair.third) and not is_measured(pair) else None
        hinted_as = hinted_dtypes(policy, *dtypes, remarks)
        hinted, computed_as = limits, computed_dtype(*dtypes, remarks) if policy.limits is not None else None
        is_coarser = computed_as not in (None, coarser(*judged_as))
        if hinted_as != judged_as or shape is not None or note is not None or is_coarser:
            hinted = resolve_pair(policy, pair, hinted_as, note, golden=shape, computed=computed_as)
        if _measured_by(hinted) != _measured_by(limits):
            measured = _measure(aligned, hinted, extras, letters)
        limits = hinted
        is_noise = partial(_noise, pair, aligned, limits, extras)
        measured = with_ratios(measured, pair, left, right, limits, extras, is_noise=lambda: is_noise() is not None)
        custom = _custom(aligned, pair, extras)
    except MsdumpError as error:
        outcome = "undefined" if isinstance(error, UnknownSampleError) else "error"
        verdict = Verdict(outcome, (Finding(outcome, _message_of(error)),))
        return record_of(pair, verdict, limits, specs=(left.spec, right.spec), roots=roots)
    judged = partial(
        judge,
        measured,
        limits,
        left_dtype=dtypes[0],
        right_dtype=dtypes[1],
        overflows=[entry.sentence for entry in pair.left.overflows],
        right_overflows=[entry.sentence for entry in pair.right.overflows],
    )
    verdict, checks = judged(remarks=remarks)
    noise = _noise(pair, aligned, limits, extras) if verdict.outcome in FAILING else None
    if noise is not None:
        remarks = (*remarks, noise)
        verdict, checks = judged(remarks=remarks)
    specs = aligned.left_logical.spec, aligned.right_logical.spec
    return record_of(
        pair,
        verdict,
        limits,
        specs=specs,
        roots=roots,
        checks=checks,
        comparison=measured,
        custom=custom,
        diagnosis=_diagnosis(pair, aligned, measured, extras) if verdict.outcome in FAILING else (),
        remarks=remarks,
        spread=_spread(aligned, verdict, extras),
    )


def _error(pair: Pair, message: Message, roots: tuple[Path, ...]) -> Record:
    dtypes = [ref.spec.dtype for ref in (pair.left, pair.right) if ref.spec.dtype]
    limits = Limits(judged_as=coarser(dtypes[0], dtypes[-1]) if dtypes else "unknown")
    return record_of(pair, Verdict("error", (Finding("error", message),)), limits, roots=roots)


def _message_of(error: MsdumpError) -> Message:
    return error.message if isinstance(error, TensorShapeError) else plain_text(str(error))


def _measure(aligned: AlignedViews, limits: Limits, extras: Extras, letters: str | None) -> Comparison:
    """Measure two aligned tensors, whose axes have these letters if something states them."""
    left, right = aligned.first(extras.first)
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


def _custom(aligned: AlignedViews, pair: Pair, extras: Extras) -> Mapping[str, CustomResult]:
    if not extras.algorithms:
        return {}
    files = (pair.left.source.path, pair.right.source.path)
    return run_algorithms(extras.algorithms, *aligned.first(extras.first), files=files, arguments=extras.arguments)


def _computed_in(pair: Pair, dtypes: tuple[str, str]) -> Iterator[Message]:
    """Yield the sides that hold floats of mixed precision in a finer type."""
    for side, ref, dtype in zip(("left", "right"), (pair.left, pair.right), dtypes, strict=True):
        if ref.computed and DTYPES[dtype].kind == "float" and coarser(dtype, ref.computed) != dtype:
            yield Message("computed_in", {"side": side, "dtype": dtype, "values": ref.computed})


def _coarser_values(measured: Comparison, dtypes: tuple[str, str]) -> Iterator[Message]:
    """Yield the sides whose values are all of a coarser type, if that would make a difference to their limits."""
    kinds = [VALUE_KINDS.get(values or "", dtype) for values, dtype in zip(measured.coarser, dtypes, strict=True)]
    if coarser(*kinds) == coarser(*dtypes):
        return
    for side, dtype, values in zip(("left", "right"), dtypes, measured.coarser, strict=True):
        if values is not None:
            yield Message("coarser_values", {"side": side, "dtype": dtype, "values": values})


def _diagnosis(pair: Pair, aligned: AlignedViews, measured: Comparison, extras: Extras) -> tuple[Diagnosis, ...]:
    """Say what the drift of a failing pair looks like, the surest first; details are plain JSON values."""
    origin = nonfinite_origin(measured.nonfinite, elements=measured.elements)
    found = [] if origin is None else [origin]
    if measured.elements and measured.finite >= _FINITE_SHARE * measured.elements:
        # The numbers stand; a file that went away since then only costs the hint.
        with suppress(MsdumpError):
            views = aligned.first(extras.first)
            apart = [one.above for one in measured.dominated if one.measurements]
            keys = [ref.key.op for ref in (pair.left, pair.right)]
            operator = " ".join(f"{key.op_type or ''} {key.label}" for key in keys)
            found += diagnose(*(others_of(*views, Bounds(*apart[-1])) if apart else views), operator=operator)
    return tuple(replace(one, details=_plain(one.details)) for one in found)


def _plain(value: Any) -> Any:
    """JSON has no tuples; NumPy's numbers become Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") else value


def _noise(pair: Pair, aligned: AlignedViews, limits: Limits, extras: Extras) -> Message | None:
    """Return the remark that the pair is zero in exact arithmetic, or Dropout, if all of it was looked at."""
    if extras.first is None and aligned.sampled is None:
        # The numbers stand; where a file cannot be read, they fail.
        with suppress(MsdumpError, OSError):
            return rounding_alone(pair, aligned, limits.judged_as) or masks_message(pair, aligned, limits)
    return None


def _spread(aligned: AlignedViews, verdict: Verdict, extras: Extras) -> Spread | None:
    """Return how the errors are spread over the tensor, if that is wanted of this pair."""
    if extras.spread == "none" or (extras.spread == "failing" and verdict.outcome not in FAILING):
        return None
    # The numbers stand; a file that went away since then only costs the drawing.
    with suppress(MsdumpError):
        return spread(*aligned.first(extras.first))
    return None
