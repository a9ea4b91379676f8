"""Compare one pair: open both tensors, bring them to one logical shape, measure, judge. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pytest_msdump.dtypes import coarser
from pytest_msdump.errors import MsdumpError, TensorShapeError
from pytest_msdump.facts.dtypes import VALUE_KINDS
from pytest_msdump.judging.policy import Policy
from pytest_msdump.judging.resolve import hinted_dtypes, of_pair, resolve
from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Diagnosis, Record, Spread, record_of
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.model.verdict import FAILING, Finding, Limits, Verdict
from pytest_msdump.pipeline.extras import NO_EXTRAS, Extras
from pytest_msdump.pipeline.measuring import measure_views
from pytest_msdump.pipeline.meeting import Met, bring_together
from pytest_msdump.pipeline.opening import open_view
from pytest_msdump.pipeline.opinion import opinion_of
from pytest_msdump.pipeline.sampling import UnknownSampleError
from pytest_msdump.text import Message, plain_text

__all__ = ["NO_ROOTS", "compare_pair", "compare_views"]

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
            from pytest_msdump.pipeline.unseen import compare_by_statistics

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
    from pytest_msdump.pipeline.diagnosing import diagnosed

    return diagnosed(met.left, met.right, comparison, extras)


def _spread(met: Met, verdict: Verdict, extras: Extras) -> Spread | None:
    from pytest_msdump.pipeline.spreading import spread_of

    return spread_of(met.left, met.right, verdict, extras)


def _message_of(error: MsdumpError) -> Message:
    return error.message if isinstance(error, TensorShapeError) else plain_text(str(error))


def _error(pair: Pair, message: Message, roots: tuple[Path, Path]) -> Record:
    """The record of a pair whose files could not be opened."""
    dtypes = [ref.spec.dtype for ref in (pair.left, pair.right) if ref.spec.dtype]
    limits = Limits(judged_as=coarser(dtypes[0], dtypes[-1]) if dtypes else "unknown")
    return record_of(pair, Verdict("error", (Finding("error", message),)), limits, roots=roots)
