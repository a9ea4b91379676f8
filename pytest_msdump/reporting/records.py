"""One pair's record as results.json has it: the entry of `tensors`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.report import CheckRow, Record
from pytest_msdump.model.verdict import Limits, Verdict
from pytest_msdump.reporting.opinion_text import opinion_text
from pytest_msdump.reporting.record_text import record_text, relative_file
from pytest_msdump.reporting.written import WrittenRecord

__all__ = ["not_run", "relative_file", "to_json", "with_verdict", "written"]


def to_json(record: Record, *, left_root: Path, right_root: Path) -> dict[str, Any]:
    """Return a pair's record as results.json holds it: numbers and names, never data.

    Parameters
    ----------
    record : Record
        A measured pair, or one with the verdict `error` or `not_run`.
    left_root, right_root : Path
        The two dumps; file names are written relative to them.

    Returns
    -------
    dict
        Only dict, list, str, int, float, bool and None; NaN and Inf are strings.
    """
    entry: dict[str, Any] = json.loads(written(record, left_root=left_root, right_root=right_root).line)
    return entry


def written(record: Record, *, left_root: Path, right_root: Path) -> WrittenRecord:
    """Return the same record as text that is parsed when somebody looks into it."""
    return record_text(record, left_root=left_root, right_root=right_root)


def with_verdict(
    entry: Mapping[str, Any], verdict: Verdict, limits: Limits, checks: Sequence[CheckRow]
) -> dict[str, Any]:
    """Return `entry` with another opinion about the same numbers, as `msdump check` forms it."""
    opinion = json.loads(f"{{{', '.join(opinion_text(verdict, limits, checks))}}}")
    return {**entry, "verdict": verdict.outcome, **opinion}


def not_run(pair: Pair, *, left_root: Path, right_root: Path) -> dict[str, Any]:
    """Return the record of a pair that was planned and never run. It counts as nothing but `not_run`."""
    claimed = pair.left.spec.dtype or pair.right.spec.dtype or "unknown"
    record = Record(pair, pair.left.spec, pair.right.spec, Verdict("not_run"), Limits(judged_as=claimed))
    return to_json(record, left_root=left_root, right_root=right_root)
