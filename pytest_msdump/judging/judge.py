"""The opinion on one pair, from its numbers and its limits."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.judging.judgement import Judgement, judgements, place_of
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.record import Check
from pytest_msdump.model.verdict import OUTCOMES, Finding, Limits, Verdict
from pytest_msdump.text import Message, Parameter

__all__ = ["judge", "rows"]

# What a reader should meet first. A number beyond its limit tells more than one that could not be computed.
_TOLD = ("error", "fail", "undefined", "warn", "note")

_HINT = "dtype_hint = true"
_ALLOWS_COMPLEX = '[[msdump.rule]] with complex = "allow"'
_WHOLE = ("integer", "bool")
_CLASSES = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right")


def judge(
    comparison: Comparison,
    limits: Limits,
    *,
    left_dtype: str,
    right_dtype: str,
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
    remarks: Sequence[Message] = (),
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
    remarks : sequence of Message
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
    told += [Finding("note", Message("device_overflow_right", {"told": sentence})) for sentence in right_overflows]
    told += [finding for one in judged if (finding := one.finding()) and not (types and _told_by_types(one, limits))]
    told += [Finding("note", note) for note in limits.notes]
    # Then no limit would let it pass.
    hopeless = (types is not None and types.outcome != "note") or (
        limits.dtype_equal and any(remark.code != "coarser_values" for remark in remarks)
    )
    hopeless = hopeless or (limits.repeats_rule != "" and any(limits.uncompared))
    return _verdict(told, judged, hopeless=hopeless)


def _of_file(remark: Message, limits: Limits) -> Finding:
    if remark.code == "coarser_values":
        said: dict[str, Parameter] = {"why": remark, "dtype": limits.judged_as, "entry": _HINT}
        if limits.dtype_hint:
            return Finding("note", Message("judged_by_hint", said))
        return Finding("note", Message("hint_would_help", {**said, "section": "msdump"}))
    if not limits.dtype_equal:
        return Finding("note", remark)
    rule = limits.dtype_rule
    return Finding("fail", Message("file_not_accepted", {"why": remark, "rule": rule}), rule=rule)


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
    both = {"left": left, "right": right}
    if _is_complex(left) != _is_complex(right) and limits.complex != "allow":
        return Finding("error", Message("complex_against_real", {**both, "entry": _ALLOWS_COMPLEX}))
    if limits.dtype_equal:
        rule = limits.dtype_rule
        return Finding("fail", Message("dtypes_must_be_equal", {**both, "rule": rule}), rule=rule)
    if not all(name in DTYPES and DTYPES[name].kind in _WHOLE for name in (left, right)):
        return Finding("note", Message("dtypes_judged_as_coarser", {**both, "dtype": limits.judged_as}))
    if comparison.equal:
        return Finding("note", Message("dtypes_differ_values_equal", both))
    return Finding("fail", Message("dtypes_and_values_differ", {**both, "n": comparison.differing}))


def _is_complex(dtype: str) -> bool:
    return dtype in DTYPES and DTYPES[dtype].kind == "complex"


def _forbidden(comparison: Comparison, limits: Limits) -> Finding:
    """NaN and Inf where none may be, matched or not."""
    classes, count = comparison.nonfinite, comparison.elements - comparison.finite
    said: dict[str, Parameter] = {
        "rule": limits.nan_rule,
        "n": count,
        "elements": comparison.elements,
        **{name: getattr(classes, name) for name in _CLASSES},
        "place": place_of(classes.first_nonfinite),
    }
    return Finding("fail", Message("nonfinite_forbidden", said), value=count, limit=0, rule=limits.nan_rule)


def _overflows(comparison: Comparison, limits: Limits, sentences: Sequence[str]) -> list[Finding]:
    """What the device saw while it computed: its numbers may look harmless, as saturated ones do."""
    bounds = [limit for limit in limits.limits if (limit.metric, limit.level) == ("saturated_count", "fail")]
    rule = bounds[0].rule if bounds and bounds[0].bound < 1 else None
    outcome = "fail" if rule is not None and not comparison.equal else "warn"
    return [Finding(outcome, Message("device_overflow", {"told": sentence}), rule=rule) for sentence in sentences]


def _told_by_types(one: Judgement, limits: Limits) -> bool:
    """Whether this only repeats that the types differ: their bits cannot be compared then."""
    return limits.dtype_equal and one.metric == "bitwise_mismatch" and one.outcome == "undefined"


def _uncompared(limits: Limits) -> list[Finding]:
    """Further occurrences of the tensor that met no partner: what they hold, nothing has looked at."""
    outcome = "fail" if limits.repeats_rule else "warn"
    by = Message("by_rule", {"rule": limits.repeats_rule}) if limits.repeats_rule else None
    return [
        Finding(
            outcome,
            Message("uncompared_occurrences", {"side": side, "n": count, "by": by}),
            rule=limits.repeats_rule or None,
        )
        for side, count in zip(("left", "right"), limits.uncompared, strict=True)
        if count
    ]


def _not_compared(comparison: Comparison, judged: Sequence[Judgement]) -> list[Finding]:
    """Nothing that was not compared, or not looked at, may count as passed."""
    told = []
    if comparison.elements == 0:
        told.append(Finding("warn", Message("nothing_compared_empty")))
    elif not comparison.equal and all(one.outcome == "skipped" for one in judged):
        told.append(Finding("undefined", Message("no_limit_applies")))
    count, total = comparison.elements, comparison.total_elements
    if comparison.sampled and total is None:
        told.append(Finding("warn", Message("sampled_of_unknown", {"n": count})))
    elif total is not None:
        code = "sampled" if comparison.sampled else "only_first_compared"
        told.append(Finding("warn", Message(code, {"n": count, "elements": total})))
    return told
