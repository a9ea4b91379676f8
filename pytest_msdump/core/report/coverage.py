"""The item `coverage`: how much was matched, what was not and why, what to do; counts for all reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import Any

from pytest_msdump.core import ports
from pytest_msdump.core.escape import terminal_text, toml_value
from pytest_msdump.core.model.comparison import OUTCOMES
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import LEAST_COVERAGE, Report, SideInfo, Uncompared, UnmatchedTensor
from pytest_msdump.core.model.tensor import BY_STRUCTURE
from pytest_msdump.core.report.tables import hanging, labelled, table
from pytest_msdump.core.storage.locations import shown_path
from pytest_msdump.core.text import ENGLISH, Phrases

# Outcomes of pairs in the order in which they are told.
COUNTED = (*OUTCOMES, "not_run")


def counts(report: Report) -> dict[str, int]:
    """Return how many tensors came to which verdict, and how many found no partner, by side."""
    found = dict.fromkeys((*COUNTED, "unmatched_left", "unmatched_right"), 0)
    found.update(Counter(record.verdict.outcome for record in report.records))
    for entry in report.unmatched:
        found[f"unmatched_{entry.side}"] += 1
    return found


def first_failing(records: Iterable[Record]) -> Record | None:
    """Return the first record in execution order whose verdict fails, if any does."""
    return next((record for record in records if record.fails), None)


def sides_are_identical(records: Iterable[Record]) -> bool:
    """Whether every pair was run and is bit-equal. False of no pairs at all."""
    entries = list(records)
    return bool(entries) and all(_bit_equal(record) for record in entries)


def sentence_on_unseen(records: Iterable[Record], say: Phrases = ENGLISH) -> str:
    """Return how many pairs were judged by statistics, as a sentence; empty for none."""
    entries = list(records)
    unseen = sum(record.statistics is not None for record in entries)
    return say("by_statistics", unseen=unseen, n=len(entries)) if unseen else ""


def sentence_on_uncompared(records: Iterable[Record], say: Phrases = ENGLISH) -> str:
    """Return how many compared tensors have further occurrences without a partner, as a sentence; empty for none."""
    found = [sum(record.uncompared) for record in records if any(record.uncompared)]
    return say("uncompared", n=len(found), k=sum(found)) if found else ""


def coverage_problems(report: Report, say: Phrases = ENGLISH) -> tuple[str, ...]:
    """Return why the item `coverage` fails, a sentence each; empty when it passes (INTERFACE 3)."""
    if not report.ended:
        return (say("not_ended"),)
    coverage, problems = report.coverage, []
    if not coverage.right_paired or not report.records:
        is_chosen = report.unmatched or report.missing or not (report.left.tensors and report.right.tensors)
        problems.append(say("nothing_compared" if is_chosen else "nothing_selected"))
    if report.missing:
        problems.append(say("missing_fused" if report.network else "missing_mapped", n=len(report.missing)))
    if coverage.outputs:
        names = say.named(map(terminal_text, coverage.outputs), _SHOWN_TENSORS)
        problems.append(say("outputs_not_compared", names=names))
    wanted = LEAST_COVERAGE if coverage.min_coverage is None else coverage.min_coverage
    # With nothing compared at all, only a limit that was set is a reason more.
    if coverage.value < wanted and (coverage.right_paired or coverage.min_coverage is not None):
        code = "coverage_below_half" if coverage.min_coverage is None else "coverage_below"
        about = {"paired": coverage.right_paired, "total": coverage.right_total}
        text = say(code, share=percent(coverage.value), wanted=percent(wanted), **about)
        problems.append(say("of_these_partly", text=text, n=coverage.partly) if coverage.partly else text)
    replay = coverage.replay
    if replay is not None and coverage.right_paired and not replay.is_enough:
        problems.append(say("replayed_below", k=replay.judged, total=replay.total, wanted=percent(replay.least)))
    return tuple(problems)


def sentences_on_uncompared_tensors(report: Report, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield which right tensors were not compared, the first five of them, and which do not count."""
    coverage = report.coverage
    named = [_uncompared(one, say) for one in coverage.uncompared]
    if (count := coverage.right_total - coverage.right_paired + coverage.partly) and named:
        names = say.joined(named, "between_names")
        more = count - len(named)
        yield say("not_compared", names=say("names_and_more", names=names, n=more) if more > 0 else names)
    if coverage.unlisted:
        yield say("unlisted", n=coverage.unlisted)


def _uncompared(one: Uncompared, say: Phrases) -> str:
    name = say("partner_of", name=one.name) if one.side == "left" else one.name
    aside = say("compared_share", share=percent(one.share)) if one.share else ""
    return terminal_text(say("in_brackets", text=name, aside=aside) if aside else name)


def incomplete_sides(report: Report, say: Phrases = ENGLISH) -> tuple[str, ...]:
    """Return a sentence for each side that is an incomplete recording."""
    return tuple(say(f"incomplete_{side}") for side in report.coverage.incomplete)


def partial_runs(report: Report, say: Phrases = ENGLISH) -> list[str]:
    """Return a sentence for each side whose directory holds a partial second run."""
    sides = (("left", report.left.partial_run), ("right", report.right.partial_run))
    return [say("partial_run", side=say(name), newer=run["newer"], n=run["tensors"]) for name, run in sides if run]


def percent(share: float) -> str:
    """Return a share of 1 as a percentage, cut and not rounded: only all is 100 %.

    >>> percent(0.99999), percent(1.0)
    ('99.9 %', '100 %')
    """
    tenths = floor(share * 1000 + 1e-9)
    return f"{tenths / 10:g} %"


def _bit_equal(record: Record) -> bool:
    """Whether both sides, with all copies of them, hold the same bits and dtype; tensors without elements do."""
    comparison = record.comparison
    if comparison is None or not comparison.equal or comparison.values.get("bitwise_mismatch", 0) != 0:
        return False
    if any(finding.message.code == "replica" for finding in record.verdict.findings):
        return False
    is_whole = comparison.total_elements is None and not comparison.sampled
    return is_whole and record.left.dtype == record.right.dtype


_SHOWN_REASONS = 8
_SHOWN_TENSORS = 5


def coverage_text(report: Report, *, width: int = 80, say: Phrases = ENGLISH) -> str:
    """Return the match report: problems, counts, reasons and nearest names; the report needs no records."""
    problems = coverage_problems(report, say)
    lines = [
        line for problem in problems for line in hanging(terminal_text(say("coverage_fails", problem=problem)), width)
    ]
    lines += [line for sentence in incomplete_sides(report, say) for line in hanging(terminal_text(sentence), width)]
    lines += _totals(report, width, say)
    if report.missing:
        lines += ["", *_missing(report, width, say)]
    for side in ("left", "right"):
        alone = [one for one in report.unmatched if one.side == side]
        if alone:
            lines += ["", *_alone(side, alone, width, say)]
    next_step = next_step_lines(report, width=width, say=say)
    return "\n".join([*lines, "", *next_step] if next_step else lines)


def _totals(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """Yield what both sides hold, and the share that was paired."""
    for name, side in (("left", report.left), ("right", report.right)):
        yield from labelled(say(name), _holds(side, say), width=width, column=7)
    coverage = report.coverage
    share = percent(coverage.value)
    text = say("met_of", paired=coverage.right_paired, total=coverage.right_total, share=share)
    yield from labelled(say("met"), text, width=width, column=7)
    for sentence in partial_runs(report, say):
        yield from hanging(terminal_text(sentence), width)


def _holds(side: SideInfo, say: Phrases) -> str:
    directory = terminal_text(shown_path(side.directory))
    if side.reader == "empty":
        return say("holds_nothing", directory=directory)
    return say("holds", directory=directory, n=side.tensors, reader=side.reader)


def _missing(report: Report, width: int, say: Phrases) -> Iterator[str]:
    missing = report.missing
    yield f"  {say('missing_title_fused' if report.network else 'missing_title_mapped', n=len(missing))}"
    for one in missing[:_SHOWN_TENSORS]:
        nearest = _nearest(one.candidates, say)
        yield from hanging(terminal_text(f"{one.left} <-> {one.right}: {say.of(one.why)}{nearest}"), width, indent=4)
    yield from _rest(len(missing) - _SHOWN_TENSORS, "more_tensors", say)


def _alone(side: str, alone: Sequence[UnmatchedTensor], width: int, say: Phrases) -> Iterator[str]:
    """Yield one side's tensors without a partner: counts by reason, and the first tensors."""
    yield f"  {say(f'alone_{side}', n=len(alone))}"
    reasons = Counter(terminal_text(say.of(one.why)) for one in alone).most_common()
    rows = [(reason, str(count)) for reason, count in reasons[:_SHOWN_REASONS]]
    yield from table(
        (say("reason"), say("tensors")), rows, width=width, right=(1,), flexible=0, indent=4, same=say("same")
    )
    yield from _rest(len(reasons) - _SHOWN_REASONS, "rest_reasons", say)
    yield f"    {say('first_of_them')}"
    for one in alone[:_SHOWN_TENSORS]:
        yield from hanging(terminal_text(f"{one.tensor.address}{_nearest(one.candidates, say)}"), width, indent=4)
    yield from _rest(len(alone) - _SHOWN_TENSORS, "more_tensors", say)


def _nearest(candidates: Sequence[str], say: Phrases) -> str:
    return say("nearest", names=say.joined(candidates, "between_names")) if candidates else ""


def next_step_lines(report: Report, *, width: int = 80, say: Phrases = ENGLISH) -> list[str]:
    """Return what to type where pairs are missing; nothing where enough pair, or no partner is in sight."""
    if not report.coverage.right_paired:
        return list(_where_nothing_pairs(report, width, say))
    problems = coverage_problems(report)
    if not lacks_entries(report):
        return []
    lines = hanging(say("partners", how=say("do_suggest")), width)
    if not report.coverage.next_entry:
        return lines if problems else []
    lines += [say("next_entry"), *_entry_to_type(*report.coverage.next_entry)]
    if any(record.how in BY_STRUCTURE for record in report.records):
        ways = [way for way in ports.rows("WAYS") if way != "file"]
        lines += [*hanging(say("keep_scopes"), width), f"    pair_by = {toml_value(ways)}"]
    return lines


def _where_nothing_pairs(report: Report, width: int, say: Phrases) -> Iterator[str]:
    if "empty" in (report.left.reader, report.right.reader):
        yield from hanging(say("do_check_dump"), width)
        return
    if not report.unmatched and not report.missing:
        yield from hanging(say("do_check_selection"), width)
        return
    yield from hanging(say("do_map"), width)
    names = report.coverage.next_entry or (say("the_left_operator"), say("the_right_operator"))
    yield from _entry_to_type(*names)
    yield from hanging(say("do_suggest"), width, indent=2)


def _entry_to_type(left: str, right: str) -> Iterator[str]:
    yield from (f"    {line}" for line in map_entry_lines({"left": left, "right": right}))


def lacks_entries(report: Report) -> bool:
    """Whether pairs are missing that entries may make."""
    is_enough = report.coverage.min_coverage is not None and not coverage_problems(report)
    return not is_enough and {one.side for one in report.unmatched} == {"left", "right"}


def _rest(count: int, message: str, say: Phrases) -> Iterator[str]:
    if count > 0:
        yield f"    {say(message, n=count)}"


def map_entry_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the lines of an entry of ``[[msdump.map]]`` as a suite file has it, its keys in the given order.

    >>> map_entry_lines({"left": "conv1", "right": "c", "transpose": [0, 3, 1, 2], "reshape": True})[1:]
    ['left = "conv1"', 'right = "c"', 'transpose = [0, 3, 1, 2]', 'reshape = true']
    """
    return ["[[msdump.map]]", *(f"{name} = {toml_value(value)}" for name, value in entry.items())]
