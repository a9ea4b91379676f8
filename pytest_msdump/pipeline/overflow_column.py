"""Whether each left tensor holds an overflow, for the vendor's column OverFlow. Reads all of them once more."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from pytest_msdump.errors import MsdumpError
from pytest_msdump.memory_formats.stored import Converters, logical, target
from pytest_msdump.metrics.overflow import scan
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.opening import open_view
from pytest_msdump.pipeline.planning import Plan

__all__ = ["with_overflow"]

# The vendor's column says nothing of other data types, so they are not read.
_DTYPE = "float16"


def with_overflow(plan: Plan, report: Report) -> Report:
    """Mark each left tensor of a report, compared or not, that may have overflowed.

    Parameters
    ----------
    plan : Plan
        What `report` was made of.
    report : Report
        Its records are in the order of the plan's pairs.

    Returns
    -------
    Report
        `has_overflow` of a float16 left tensor is whether a NaN, an Inf or 65504 of either sign is in it; ``None``
        where it cannot be read, or its padding cannot be told from its values.
    """
    converters = plan.extras.converters
    alone = iter(plan.pairing.unmatched_left)
    return replace(
        report,
        records=tuple(
            _marked(record, _has_overflow(pair.left, pair.transform, converters))
            for record, pair in zip(report.records, plan.pairing.pairs, strict=True)
        ),
        unmatched=tuple(
            replace(
                one,
                tensor=replace(one.tensor, has_overflow=_has_overflow(next(alone).ref, Transform(), converters)),
            )
            if one.side == "left"
            else one
            for one in report.unmatched
        ),
    )


def _marked(record: Record, has_overflow: bool | None) -> Record:
    return replace(record, left=replace(record.left, has_overflow=has_overflow))


def _has_overflow(ref: TensorRef, transform: Transform, converters: Converters) -> bool | None:
    if ref.spec.dtype not in (_DTYPE, None):
        return None
    try:
        with closing(open_view(ref)) as view:
            if view.dtype != _DTYPE:
                return None
            shape, axes = target(
                view.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape
            )
            found = scan(logical(view, logical_shape=shape, logical_format=axes, converters=converters))
    except (MsdumpError, OSError):
        # Why it cannot be read is told by its record.
        return None
    return bool(found.nan or found.inf or found.saturated)
