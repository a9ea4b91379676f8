"""Compare one pair: open both tensors, bring them to one logical shape, measure, judge. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_msdump.dtypes import coarser
from pytest_msdump.errors import MsdumpError
from pytest_msdump.facts.dtypes import VALUE_KINDS
from pytest_msdump.judging.policy import Policy
from pytest_msdump.judging.resolve import hinted_dtypes, of_pair, resolve
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.report import Record
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.model.verdict import FAILING, FileRemark, Finding, Limits, Verdict
from pytest_msdump.pipeline.extras import NO_EXTRAS, Extras
from pytest_msdump.pipeline.measuring import measure_views
from pytest_msdump.pipeline.meeting import Met, bring_together
from pytest_msdump.pipeline.opening import open_view
from pytest_msdump.pipeline.opinion import opinion_of
from pytest_msdump.pipeline.sampling import UnknownSampleError

__all__ = ["compare_pair", "compare_views"]


def compare_pair(pair: Pair, policy: Policy, extras: Extras = NO_EXTRAS) -> Record:
    """Measure and judge one pair. Whatever is wrong with its files becomes the verdict `error` of this pair alone.

    Parameters
    ----------
    pair : Pair
        Both sides are opened here, read in blocks, and closed again.
    policy : Policy
        What it is judged by.
    extras : Extras
        A user's own code, and how much of each tensor to look at.

    Returns
    -------
    Record
        With `comparison` ``None`` when nothing could be measured, and when a tensor was not saved: then the pair is
        compared by statistics, which `statistics` holds.
    """
    try:
        if pair.left.is_unseen or pair.right.is_unseen:
            from pytest_msdump.pipeline.unseen import compare_by_statistics

            return compare_by_statistics(pair, policy)
        left = open_view(pair.left)
        try:
            right = open_view(pair.right)
            try:
                return compare_views(pair, left, right, policy, extras)
            finally:
                right.close()
        finally:
            left.close()
    except MsdumpError as error:
        return _error(pair, str(error))
    except OSError as error:
        where = error.filename or pair.left.source.path
        return _error(pair, f"{where}: cannot be read ({error.strerror or error}); check the file and its permissions")


def compare_views(
    pair: Pair, left: TensorView, right: TensorView, policy: Policy, extras: Extras = NO_EXTRAS
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
    except UnknownSampleError as error:
        return replace(_error(pair, str(error), limits, "undefined"), left_spec=left.spec, right_spec=right.spec)
    except MsdumpError as error:
        return replace(_error(pair, str(error), limits), left_spec=left.spec, right_spec=right.spec)
    verdict, checks = opinion_of(pair, comparison, limits, *dtypes, remarks)
    return Record(
        pair=pair,
        verdict=verdict,
        limits=limits,
        checks=checks,
        comparison=comparison,
        left_spec=met.left_logical.spec,
        right_spec=met.right_logical.spec,
        custom=custom,
        diagnosis=_diagnosis(met, comparison, extras) if verdict.outcome in FAILING else (),
        remarks=remarks,
        spread={} if extras.spread == "none" else _spread(met, verdict, extras),
    )


def _limits(pair: Pair, policy: Policy, dtypes: tuple[str, str]) -> Limits:
    limits = resolve(policy, left=pair.left.key, right=pair.right.key, left_dtype=dtypes[0], right_dtype=dtypes[1])
    return of_pair(limits, pair.note, pair.uncompared)


def _coarser_values(comparison: Comparison, dtypes: tuple[str, str]) -> Iterator[FileRemark]:
    """Yield the sides whose values are all of a coarser type, where that would make a difference to their limits."""
    kinds = [VALUE_KINDS.get(values or "", dtype) for values, dtype in zip(comparison.coarser, dtypes, strict=True)]
    if coarser(*kinds) == coarser(*dtypes):
        return
    for side, dtype, values in zip(("left", "right"), dtypes, comparison.coarser, strict=True):
        if values is not None:
            yield FileRemark("coarser_values", {"side": side, "dtype": dtype, "values": values})


# What only some pairs need is loaded with the first of them: a pair of files that agree is told of at once.


def _diagnosis(met: Met, comparison: Comparison, extras: Extras) -> tuple[dict[str, Any], ...]:
    from pytest_msdump.pipeline.diagnosing import diagnosed

    return diagnosed(met.left, met.right, comparison, extras)


def _spread(met: Met, verdict: Verdict, extras: Extras) -> Mapping[str, Any]:
    from pytest_msdump.pipeline.spreading import spread_of

    return spread_of(met.left, met.right, verdict, extras)


def _error(pair: Pair, sentence: str, limits: Limits | None = None, outcome: str = "error") -> Record:
    """The record of a pair that could not be measured."""
    dtypes = [ref.spec.dtype for ref in (pair.left, pair.right) if ref.spec.dtype]
    judged_as = coarser(dtypes[0], dtypes[-1]) if dtypes else "unknown"
    return Record(
        pair=pair,
        verdict=Verdict(outcome, (Finding(outcome, sentence),)),
        limits=limits or Limits(judged_as=judged_as),
        checks=(),
        comparison=None,
        left_spec=pair.left.spec,
        right_spec=pair.right.spec,
    )
