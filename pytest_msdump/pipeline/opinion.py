"""What is thought of a pair, by all that is known of it beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_msdump.judging.judge import judge, rows
from pytest_msdump.judging.judgement import judgements
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Check
from pytest_msdump.model.verdict import Limits, Verdict
from pytest_msdump.text import Message

__all__ = ["opinion_of"]


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
