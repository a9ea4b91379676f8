"""Whether each left tensor holds an overflow, for the vendor's column OverFlow. Reads all of them once more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from pytest_msdump.errors import MsdumpError
from pytest_msdump.memory_formats.stored import Converters, logical, target
from pytest_msdump.metrics.overflow import scan
from pytest_msdump.model.pairing import Transform
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
        ``overflow`` of a float16 left tensor is whether a NaN, an Inf or 65504 of either sign is in it. Where it cannot
        be read, or its padding not told apart, the key is missing.
    """
    converters = plan.extras.converters
    alone = iter(plan.pairing.unmatched_left)
    return replace(
        report,
        records=tuple(
            {**record, "left": {**record["left"], **_mark(pair.left, pair.transform, converters)}}
            for record, pair in zip(report.records, plan.pairing.pairs, strict=True)
        ),
        unmatched=tuple(
            {**entry, **_mark(next(alone).ref, Transform(), converters)} if entry["side"] == "left" else entry
            for entry in report.unmatched
        ),
    )


def _mark(ref: TensorRef, transform: Transform, converters: Converters) -> Mapping[str, Any]:
    if ref.spec.dtype not in (_DTYPE, None):
        return {}
    try:
        with closing(open_view(ref)) as view:
            if view.dtype != _DTYPE:
                return {}
            shape, axes = target(
                view.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape
            )
            found = scan(logical(view, logical_shape=shape, logical_format=axes, converters=converters))
    except (MsdumpError, OSError):
        # Why it cannot be read is told by its record.
        return {}
    return {"overflow": bool(found.nan or found.inf or found.saturated)}
