"""The header before a run and the few lines after it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import STALE
from pytest_msdump.core.limits.permissions import least_base, linear, permission_sentences
from pytest_msdump.core.model.record import Record, RoleReason
from pytest_msdump.core.model.report import Report, SideInfo
from pytest_msdump.core.report.base import summarisers
from pytest_msdump.core.report.coverage import (
    COUNTED,
    counts,
    coverage_problems,
    first_failing,
    incomplete_sides,
    next_step_lines,
    partial_runs,
    percent,
    sentence_on_uncompared,
    sentence_on_unseen,
    sentences_on_uncompared_tensors,
    sides_are_identical,
)
from pytest_msdump.core.report.failure import one_line
from pytest_msdump.core.report.shown import label_of
from pytest_msdump.core.report.tables import command, hanging
from pytest_msdump.core.storage.locations import shown_path
from pytest_msdump.core.text import ENGLISH, Message, Phrases, message_of_note

# The reason of a tensor that a later run into the same directory replaced (INTERFACE 2).
_OLDER_RUN = "older_run"

_SHOWN_REASONS = 3
_SHOWN_WRONG = 10
_SHOWN_WARNINGS = 3
_SHOWN_FILES = 3
_MOST_LED = 2

# How a label of a dump is shown; others are shown as "name value".
_LABELS = {"ms_version": "MindSpore {value}", "framework": "{value}", "device_target": "{value}"}

# Readers whose dumps come from a run under test; a reference folder on the left of one looks swapped.
_RUN_READERS = ("mindspore", "ascend", "converted")
_REFERENCE_READER = "npy-folder"

# What tokens are judged by; two decoders are asked about rounding in other words.
_OF_TOKENS = "softmax_kl"

# A larger relative distance is not asked about, nor one that is so many times its limit.
_MOST_ROUNDING, _MOST_TIMES_ROUNDING = 0.08, 100


def header_lines(
    left: SideInfo,
    right: SideInfo,
    *,
    pairs: int,
    profile: str,
    unseen: int = 0,
    kernel: str = "",
    further: Mapping[str, SideInfo] = MappingProxyType({}),
    say: Phrases = ENGLISH,
) -> list[str]:
    """Return the lines before a run; `unseen` pairs are compared by statistics, `kernel` is why none was compiled."""
    counted = [say("header_pairs", n=pairs, profile=profile)]
    counted += [say("header_kernel", kernel=kernel)] if kernel else []
    lines = [
        say("header_left", side=_side(left, say)),
        say("header_right", side=_side(right, say)),
        *(say(f"header_{name}", side=_side(side, say)) for name, side in further.items()),
        f"        {say.joined(counted, 'between_clauses')}",
    ]
    if unseen:
        lines.append(f"        {say('by_statistics', unseen=unseen, n=pairs)}")
    if left.reader == _REFERENCE_READER and right.reader in _RUN_READERS:
        lines.append(f"        {say('sides_look_swapped', reader=right.reader)}")
    for name, side in (("left", left), ("right", right), *further.items()):
        notes = [terminal_text(say.of(message_of_note(note))) for note in side.notes]
        if side.unexplained:
            names = say.named(map(terminal_text, side.unexplained), _SHOWN_FILES)
            notes.append(say("not_understood", n=len(side.unexplained), names=names))
        lines += [f"        {say('after_label', label=say(name), text=text)}" for text in notes]
    return lines


def summary_lines(
    report: Report,
    *,
    width: int = 80,
    files: Sequence[str] = (),
    rerun: Sequence[str] = (),
    told: Collection[int] = (),
    unfolded: bool = False,
    say: Phrases = ENGLISH,
) -> list[str]:
    """Return the lines after a run.

    `rerun` are the words of the command that runs the first cause again, `told` the places of the operators that were
    told in full before: what was said of them is not said again.
    """
    say = say.calling(report.left.shown)
    problems, found, first = coverage_problems(report, say), counts(report), first_failing(report.records)
    # If the item `coverage` fails, its own text has all reasons.
    lines = [
        *_replay_lines(report, width=width, unfolded=unfolded, say=say),
        *(_matched(report, found, width, say) if first is None else ()),
        *(line for sentence in partial_runs(report, say) for line in hanging(sentence, width)),
        *(_reasons(report, width, say) if first is None and not problems else ()),
        *_outcomes(report, found, width, say),
    ]
    for sentence in permission_sentences(report, say):
        lines += hanging(terminal_text(sentence), width)
    for sentence in (sentence_on_unseen(report.records, say), sentence_on_uncompared(report.records, say)):
        lines += hanging(sentence, width) if sentence else []
    if first is not None and may_be_rounding(first) and _OF_TOKENS not in first.metrics:
        lines += hanging(say("calibrate_hint"), width)
    about: Mapping[str, Any] = {"width": width, "unfolded": unfolded, "say": say}
    tellers = summarisers(is_notable=first is not None or bool(report.localised_by or report.parts))
    roles = [line for teller in tellers for line in teller.summary_lines(report, told=told, **about)]
    place: list[str] = []
    if first is not None and first.order not in told:
        text = say("first_failing", place=first.order + 1, operators=report.left.operators, line=one_line(first, say))
        place = hanging(text, width)
    # What started it leads, where that is not what fails first.
    cause = next((record for record in report.records if record.role == "cause"), first)
    lines += [*place, *roles] if cause is first else [*roles, *place]
    if first is not None:
        lines += [line for teller in tellers for line in teller.advice_lines(report, **about)]
    lines += _warnings(report, width, say) if found["warn"] else []
    if first is None and (stale := sum(map(_is_stale, report.records))):
        lines += hanging(say("limits_stale", n=stale, times=STALE), width)
    if sides_are_identical(report.records):
        alone = any(one.why.code != _OLDER_RUN for one in report.unmatched)
        lines += hanging(say("pairs_equal" if alone else "sides_identical"), width)
    for problem in problems:
        lines += hanging(say("coverage_is", problem=problem) if report.ended else problem, width)
    for sentence in incomplete_sides(report, say):
        lines += hanging(sentence, width)
    for note in report.notes:
        lines += hanging(terminal_text(say.of(message_of_note(note))), width)
    if files:
        lines += hanging(say("reports", files=say.joined(files, "between_names")), width)
    if first is not None and not problems:
        lines += next_step_lines(report, width=width, say=say)
    if rerun:
        lines += command(rerun, width=width, label=say("rerun"))
    return lines


def lead(report: Report, say: Phrases = ENGLISH) -> str:
    """Return on one line how many tensors fail and what started it; else why coverage fails; empty where all is well.

    A message that begins with it tells the outcome where only its first line is shown: in pytest's short summary, in
    JUnit XML, beside a line of code.
    """
    say = say.calling(report.left.shown)
    failing = [record for record in report.records if record.fails]
    problems = coverage_problems(report, say)
    if not failing:
        return say.joined(problems, "between_clauses")
    causes = [record for record in report.records if record.role == "cause"]
    names = dict.fromkeys(_both_names(record, say) for record in causes or failing[:1])
    started = say("lead_cause" if causes else "lead_first", names=say.named(map(terminal_text, names), _MOST_LED))
    places = [place for teller in summarisers() for one in causes[:1] if (place := teller.place_of(one, say))]
    started = say("after_label", label=started, text=terminal_text(places[0])) if places else started
    return say.joined(
        [say("of_total_fail", n=len(failing), total=len(report.records)), started, *problems], "between_clauses"
    )


def _both_names(record: Record, say: Phrases) -> str:
    """Return the left operator, and what it, or else the right, calls it where that is another name."""
    left, right = record.left.key.op.label, record.right.key.op.label
    shown = say.name(left)
    other = left if shown == right else right
    return shown if other == shown else f"{shown} ({other})"


def may_be_rounding(record: Record) -> bool:
    """Whether a failure is small enough for the question, and nothing is known that answers it."""
    distance = record.judged_value("relative_euclidean_distance")
    checks = (check for check in record.checks if check.metric == "relative_euclidean_distance")
    limits = [check.limit for check in checks if check.limit is not None]
    is_small = (
        isinstance(distance, float)
        and distance < min([_MOST_ROUNDING, *(_MOST_TIMES_ROUNDING * one for one in limits)])
        and not (record.equal or record.is_of_ids)
    )
    has_file = any(note.code.startswith("limits_") for note in record.notes)
    is_judged = (
        record.local is not None
        or has_file
        or any(one.confidence == "high" for one in record.diagnosis)
        or (record.role_why is not None and _grew_at_once(record.role_why))
        or any(check.base is not None or METRICS[check.metric].golden for check in record.checks)
    )
    return is_small and not is_judged


def _grew_at_once(why: RoleReason) -> bool:
    """Whether one operator made an error so much larger that rounding is no explanation."""
    return why.growth is not None and why.growth.start > 0 and why.growth.step > _MOST_TIMES_ROUNDING


def _is_stale(record: Record) -> bool:
    """Whether a limit of a limits file is so far above what was measured that it would hide a regression."""
    unit = rounding_unit(record.judged_as) or math.inf
    return record.equal is False and any(
        isinstance(check.value, float)
        and check.base >= STALE * max(linear(check.metric, check.value), least_base(check.metric, unit))
        for check in record.checks
        if check.base is not None
    )


def _side(side: SideInfo, say: Phrases) -> str:
    names = [*(name for name in _LABELS if name in side.labels), *(name for name in side.labels if name not in _LABELS)]
    known = [_LABELS.get(name, "{name} {value}").format(name=name, value=side.labels[name]) for name in names]
    reader = say("reader", reader=side.reader)
    about = say.joined((part for part in (say.joined(known), reader) if part), "between_clauses")
    return terminal_text(say("side", directory=shown_path(side.directory), about=about))


def _matched(report: Report, found: Mapping[str, int], width: int, say: Phrases) -> list[str]:
    coverage = report.coverage
    text = say("matched", paired=coverage.right_paired, total=coverage.right_total)
    alone = {side: found[f"unmatched_{side}"] for side in ("left", "right") if found[f"unmatched_{side}"]}
    if alone:
        sides = say.joined(say(f"count_of_{side}", n=count) for side, count in alone.items())
        text = say("without_partner", text=text, sides=sides)
    return hanging(text, width)


def _reasons(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """Yield why tensors have no partner, the commonest reasons first."""
    counted = Counter((one.side, one.why) for one in report.unmatched).most_common()
    for (side, why), count in counted[:_SHOWN_REASONS]:
        text = say("after_label", label=say(f"count_of_{side}", n=count), text=terminal_text(say.of(why)))
        yield from hanging(text, width, indent=2)
    rest = counted[_SHOWN_REASONS:]
    if rest:
        yield f"  {say('more_reasons', n=len(rest), tensors=sum(count for _, count in rest))}"


def _outcomes(report: Report, found: Mapping[str, int], width: int, say: Phrases) -> list[str]:
    """Return how many tensors came to which verdict, how much was compared, and what was not."""
    parts = [say(f"count_{key}", n=found[key]) for key in COUNTED if found[key]]
    # Where some pairs were not compared it would say too much.
    if parts and report.ended and not found["not_run"] and not found["error"]:
        parts.append(say("share_compared", share=percent(report.coverage.value)))
    counted = [say("outcomes", n=len(report.records), counts=say.joined(parts))] if parts else []
    told = [*counted, *sentences_on_uncompared_tensors(report, say)]
    return hanging(say.joined(told, "between_clauses"), width) if told else []


def _warnings(report: Report, width: int, say: Phrases) -> Iterator[str]:
    warned = [record for record in report.records if record.verdict.outcome == "warn"]
    for record in warned[:_SHOWN_WARNINGS]:
        yield from hanging(one_line(record, say), width)
    if len(warned) > _SHOWN_WARNINGS:
        yield say("more_warnings", n=len(warned) - _SHOWN_WARNINGS)


def _replay_lines(report: Report, *, width: int, unfolded: bool, say: Phrases) -> list[str]:
    """Return how many operators are wrong by themselves, and which; then why tensors were not replayed."""
    known = [(record.local, record) for record in report.records if record.local is not None]
    if not known:
        return []
    failing = [record for local, record in known if local.outcome == "fail"]
    # What is rounded on purpose differs from floats; a capability that knows it takes the cause back.
    explained = [label_of(one, say) for one in failing if one.role in ("accumulated", "inherited")]
    wrong = [label_of(one, say) for one in failing if one.role not in ("accumulated", "inherited")]
    damaged: defaultdict[Message, list[str]] = defaultdict(list)
    rest: defaultdict[Message, list[str]] = defaultdict(list)
    for local, record in known:
        if local.why is not None:
            (damaged if local.outcome == "error" else rest)[local.why].append(say.name(record.left.key.op.label))
    counted = {"wrong": len(wrong), "rest": sum(map(len, (*rest.values(), *damaged.values())))}
    right = len(known) - sum(counted.values()) - len(explained)
    lines = hanging(say("replayed", right=right, **counted), width)

    def named(names: Sequence[str]) -> str:
        return say.named(names, len(names) if unfolded else _SHOWN_WRONG)

    if wrong:
        lines += hanging(say("replay_wrong", names=named(wrong)), width, indent=2)
    if explained:
        lines += hanging(say("replay_explained", n=len(explained), names=named(explained)), width, indent=2)
    for code, reasons in (("replay_damaged", damaged), ("replay_rest", rest)):
        by_number = sorted(reasons.items(), key=lambda row: -len(row[1]))
        # What is damaged fails, so each reason is told.
        for why, names in by_number if unfolded or reasons is damaged else by_number[:_SHOWN_REASONS]:
            text = say(code, n=len(names), reason=say.of(why), names=named(names))
            lines += hanging(terminal_text(text), width, indent=2)
    share = report.coverage.replay
    if share is not None and share.not_judged:
        text = say("replay_not_judged", n=len(share.not_judged), names=named(share.not_judged))
        lines += hanging(terminal_text(text), width, indent=2)
    return lines
