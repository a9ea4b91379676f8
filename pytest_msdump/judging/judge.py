"""The opinion on one pair, from its numbers and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.judging.judgement import Judgement, judgements
from pytest_msdump.judging.wording import position, remark_text
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.record import Check
from pytest_msdump.model.verdict import OUTCOMES, FileRemark, Finding, Limits, Verdict

__all__ = ["judge", "rows"]

# What a reader should meet first. A number beyond its limit tells more than one that could not be computed.
_TOLD = ("error", "fail", "undefined", "warn", "note")

_HINT = "dtype_hint = true"
_ALLOWS_COMPLEX = '[[msdump.rule]] with complex = "allow"'
_WHOLE = ("integer", "bool")


def judge(
    comparison: Comparison,
    limits: Limits,
    *,
    left_dtype: str,
    right_dtype: str,
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
    remarks: Sequence[FileRemark] = (),
    judged: Sequence[Judgement] | None = None,
) -> Verdict:
    """Hold the numbers of one pair against its limits.

    A pair that is equal at every position meets every limit, but for what looks at more than values: forbidden NaN,
    equal data types, differing bits. A value exactly on its limit is within it.

    Parameters
    ----------
    comparison : Comparison
        What was measured.
    limits : Limits
        From `judging.resolve.resolve`, for the same pair.
    left_dtype, right_dtype : str
        Names of `facts.dtypes`.
    overflows, right_overflows : sequence of str
        What the device's own check says of the operator of either side: an overflow of the left fails where the limit
        of `saturated_count` is 0 and the sides differ.
    remarks : sequence of FileRemark
        Of their files: notes, which fail where the files have to agree bit by bit.
    judged : sequence of Judgement, optional
        What `judgements` makes of both, where the caller has it already.

    Returns
    -------
    Verdict
        The worst outcome of its findings. Findings hold what is not plainly passing, the failing ones first, and notes.

    Notes
    -----
    An undefined metric that has a limit, of either level, fails the pair: what was not computed was not compared.
    """
    judged = judgements(comparison, limits) if judged is None else judged
    types = None if left_dtype == right_dtype else _types(comparison, limits, left_dtype, right_dtype)
    told = [] if types is None else [types]
    if comparison.finite != comparison.elements and limits.nan == "forbid":
        told.append(_forbidden(comparison, limits))
    told += _not_compared(comparison, judged)
    told += _uncompared(limits)
    if overflows:
        told += _overflows(comparison, limits, overflows)
    told += [_of_file(remark, limits) for remark in remarks]
    told += [Finding("note", f"the device's check of the right side: {sentence}") for sentence in right_overflows]
    told += [
        finding
        for one in judged
        if one.sentence and (finding := one.finding()) and not (types and _told_by_types(one, limits))
    ]
    told += [Finding("note", sentence) for sentence in limits.notes]
    # Then no limit would let it pass.
    hopeless = (types is not None and types.outcome != "note") or (
        limits.dtype_equal and any(remark.code != "coarser_values" for remark in remarks)
    )
    hopeless = hopeless or (limits.repeats_rule != "" and any(limits.uncompared))
    return _verdict(told, judged, hopeless=hopeless)


def _of_file(remark: FileRemark, limits: Limits) -> Finding:
    if remark.code == "coarser_values":
        if limits.dtype_hint:
            return Finding("note", f"{remark_text(remark)}; judged as {limits.judged_as}, by {_HINT}")
        return Finding(
            "note",
            f"{remark_text(remark)}, but it was judged as {limits.judged_as}; if it was computed so, add "
            f"{_HINT} under [msdump]",
        )
    if not limits.dtype_equal:
        return Finding("note", remark_text(remark))
    return Finding("fail", f"{remark_text(remark)}; not accepted ({limits.dtype_rule})", rule=limits.dtype_rule)


def _verdict(told: list[Finding], judged: Sequence[Judgement], *, hopeless: bool) -> Verdict:
    findings = tuple(sorted(told, key=_told_when)) if len(told) > 1 else tuple(told)
    opinions = [finding.outcome for finding in findings if finding.outcome != "note"]
    if not opinions:
        return Verdict("pass", findings)
    from pytest_msdump.judging.would_pass import would_pass

    return Verdict(max(opinions, key=OUTCOMES.index), findings, {} if hopeless else would_pass(judged))


def rows(comparison: Comparison, limits: Limits, judged: Sequence[Judgement] | None = None) -> list[Check]:
    """Return the failure table: every metric that has a limit, in the order of `facts.metrics`.

    Parameters
    ----------
    comparison, limits, judged
        As for `judge`.

    Returns
    -------
    list of Check
        `outcome` is "ok", "fail", "warn", "undefined" or "skipped".
    """
    judged, made = judgements(comparison, limits) if judged is None else judged, tuple.__new__
    return [
        # A third of the time of the class's own constructor.
        made(Check, (metric, value, limit.bound, limit.level, limit.rule, outcome))
        for metric, value, limit, outcome, _, _ in judged
    ]


def _told_when(finding: Finding) -> int:
    return _TOLD.index(finding.outcome)


def _types(comparison: Comparison, limits: Limits, left: str, right: str) -> Finding:
    """What is to be said of data types that differ."""
    if _is_complex(left) != _is_complex(right) and limits.complex != "allow":
        return Finding(
            "error",
            f"{_differ(left, right)}; a real tensor is not compared with a complex one; where that is meant, "
            f"add {_ALLOWS_COMPLEX}",
        )
    if limits.dtype_equal:
        rule = limits.dtype_rule
        return Finding("fail", f"{_differ(left, right)}, but must be equal ({rule})", rule=rule)
    if (note := _judged_as(left, right, limits.judged_as)) is not None:
        return note
    if comparison.equal:
        return Finding("note", f"{_differ(left, right)}; all values are equal")
    count = comparison.differing
    return Finding(
        "fail", f"{_differ(left, right)}; that is accepted only where all values are equal, and {count} are not"
    )


def _is_complex(dtype: str) -> bool:
    return dtype in DTYPES and DTYPES[dtype].kind == "complex"


def _differ(left: str, right: str) -> str:
    return f"dtypes differ: left {left}, right {right}"


# A network has many pairs and few types.
@lru_cache(maxsize=256)
def _judged_as(left: str, right: str, judged_as: str) -> Finding | None:
    """Tell what types that differ are judged as; ``None`` of whole numbers, which have to be equal."""
    if all(name in DTYPES and DTYPES[name].kind in _WHOLE for name in (left, right)):
        return None
    return Finding("note", f"{_differ(left, right)}; judged as {judged_as}, the coarser side")


def _forbidden(comparison: Comparison, limits: Limits) -> Finding:
    """NaN and Inf where none may be, matched or not."""
    classes, count = comparison.nonfinite, comparison.elements - comparison.finite
    return Finding(
        "fail",
        f"NaN and Inf are forbidden ({limits.nan_rule}) but stand at {count} of {comparison.elements} positions: "
        f"NaN matched {classes.nan_both}, else left {classes.nan_left}, right {classes.nan_right}; "
        f"Inf matched {classes.inf_both}, else left {classes.inf_left}, right {classes.inf_right}; "
        f"first at {position(classes.first_nonfinite)}",
        value=count,
        limit=0,
        rule=limits.nan_rule,
    )


def _overflows(comparison: Comparison, limits: Limits, sentences: Sequence[str]) -> list[Finding]:
    """What the device saw while it computed: its numbers may look harmless, as saturated ones do."""
    bounds = [limit for limit in limits.limits if (limit.metric, limit.level) == ("saturated_count", "fail")]
    rule = bounds[0].rule if bounds and bounds[0].bound < 1 else None
    outcome = "fail" if rule is not None and not comparison.equal else "warn"
    return [
        Finding(outcome, f"the device's own check found an overflow: {sentence}", rule=rule) for sentence in sentences
    ]


def _told_by_types(one: Judgement, limits: Limits) -> bool:
    """Whether this only repeats that the types differ: their bits cannot be compared then."""
    return limits.dtype_equal and one.metric == "bitwise_mismatch" and one.outcome == "undefined"


def _uncompared(limits: Limits) -> list[Finding]:
    """Further occurrences of the tensor that met no partner: what they hold, nothing has looked at."""
    outcome = "fail" if limits.repeats_rule else "warn"
    by = f" ({limits.repeats_rule})" if limits.repeats_rule else ""
    return [
        Finding(
            outcome,
            f"further occurrences of this tensor on the {side} side that met no partner and were not compared: "
            f"{count}{by}",
            rule=limits.repeats_rule or None,
            code="uncompared_occurrences",
        )
        for side, count in zip(("left", "right"), limits.uncompared, strict=True)
        if count
    ]


def _not_compared(comparison: Comparison, judged: Sequence[Judgement]) -> list[Finding]:
    """Nothing that was not compared, or not looked at, may count as passed."""
    told = []
    if comparison.elements == 0:
        told.append(Finding("warn", "nothing was compared: both sides are empty"))
    elif not comparison.equal and all(one.outcome == "skipped" for one in judged):
        sentence = "the sides differ, but no limit applies to them; give one, e.g. max_absolute_error"
        told.append(Finding("undefined", sentence))
    count, total = comparison.elements, comparison.total_elements
    if comparison.sampled:
        whole = f"{total} elements" if total is not None else "an unknown number of elements"
        told.append(Finding("warn", f"sampled {count} of {whole}: the run saved no more of them"))
    elif total is not None:
        told.append(Finding("warn", f"only the first {count} of {total} elements were compared"))
    return told
