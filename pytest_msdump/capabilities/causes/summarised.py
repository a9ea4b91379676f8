"""Which operators started the errors: causes first, with what inherited from them below; pairs that look wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from pytest_msdump.capabilities.causes.roles import reason_of, region_text, step_text
from pytest_msdump.capabilities.suggest.fingerprint import fit_text
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.describe import number
from pytest_msdump.core.model.record import Check, Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.report.base import Summariser
from pytest_msdump.core.report.coverage import map_entry_lines
from pytest_msdump.core.report.shown import Label, label_of, labeller, operator_of, with_causes_first
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.text import ENGLISH, Phrases

_BY = {
    "graph": "by_graph",
    "graph of the right side": "by_right_graph",
    "fusion": "by_fusion",
    "execution order": "by_order",
}
_MOST_CAUSES = 5
_NUMBER = re.compile(r"\d+")
_MOST_NAMED = 3
_MOST_JUMPS = 3
# Limits from here on let an error grow far behind its origin before it fails.
_LOOSE_DISTANCE, _LOOSE_COSINE = 0.05, 0.99
# Reasons that say how the error grew at this very operator.
_AT_ITSELF = ("first", "passing", "grew", "jump")


class SummarisedCauses(Summariser):
    """What is said of roles, growth and pairs that look wrong."""

    def record_lines(self, record: Record, say: Phrases) -> list[str]:
        """Return its role and why, and what fits better than its partner."""
        return [line for line in (role_line(record, say), suspicious_line(record, say)) if line]

    def place_of(self, record: Record, say: Phrases) -> str:
        """Return the region of a cause with its lines, or the line that made it."""
        region = record.role_why.region if record.role_why is not None else None
        if region is not None and region.module:
            return region_text(region, say)
        source = record.line
        return f"{source.file.rpartition('/')[2]}:{source.line}" if source is not None else ""

    def summary_lines(
        self, report: Report, *, width: int, told: Collection[int], unfolded: bool, say: Phrases
    ) -> list[str]:
        """Return how many operators caused and inherited errors, and which."""
        return role_lines(report, width=width, told=told, unfolded=unfolded, say=say)

    def advice_lines(self, report: Report, *, width: int, unfolded: bool, say: Phrases) -> list[str]:
        """Return which pairs look wrong, and the map entries that would correct them."""
        return suspicious_lines(report, width=width, unfolded=unfolded, say=say)

    def caveats(self, report: Report, say: Phrases) -> list[str]:
        """Return what loose limits leave open."""
        return [text for text in (loose_limits(report.records, say),) if text]


def role_lines(
    report: Report, *, width: int, told: Collection[int] = (), unfolded: bool = False, say: Phrases = ENGLISH
) -> list[str]:
    """Return how many operators caused and inherited errors, and which; `unfolded` lists all of them.

    Of operators in `told` the reason was given before.
    """
    # One record for each failing operator: a cause before others.
    found: dict[int, Record] = {}
    for record in with_causes_first(record for record in report.records if record.role is not None):
        found.setdefault(record.order, record)
    operators = [found[order] for order in sorted(found)]
    lines: list[str] = []
    reasons = {reason_of(record, say) if record.role == "unknown" else "" for record in operators}
    if len(reasons) == 1 and "" not in reasons:
        lines += hanging(say("start_unknown", n=len(operators), reason=reasons.pop()), width)
    elif operators:
        label = labeller(report.records, say)
        first, *others = with_causes_first(operators)
        if first.role == "cause" and first.order in told and all(first.left.address in one.causes for one in others):
            line = "inherited_line" if unfolded else "inherited_count"
            texts = [say("one_cause", operator=label(first)), *_below(line, others, unfolded, say)]
            text = say.joined(texts, "between_clauses")
            by = "" if report.localised_by == "graph" else report.localised_by
            return hanging(terminal_text(_found_by(text, by, say)), width)
        lines += hanging(terminal_text(_headline(operators, report.localised_by, say)), width)
        for role in ("cause", "accumulated"):
            lines += _heads(operators, role, report.left.operators, label, width, told, unfolded, say)
        lines += _unknown(operators, label, width, unfolded, say)
        alone = [record for record in operators if record.role == "inherited" and not record.causes]
        if alone:
            names = say.named((label_of(one, say) for one in alone), len(alone) if unfolded else _MOST_NAMED)
            lines += hanging(terminal_text(say("without_cause", names=names)), width, indent=2)
    lines += _jumps(report.records, width, unfolded, say)
    lines += hanging(terminal_text(text), width) if (text := loose_limits(report.records, say)) else []
    grown = [(record.amplification, record) for record in report.records if record.amplification is not None]
    if unfolded and grown:
        factors = [f"{label_of(record, say)} {number(growth, 3)}x" for growth, record in grown]
        lines += hanging(terminal_text(say("amplifying", names=say.joined(factors, "between_names"))), width)
    return lines


def role_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return a failing record's role with its reason; empty without a role."""
    if record.role is None:
        return ""
    text = say(f"role_{record.role}")
    if record.causes:
        names = say.named((operator_of(one, say) for one in record.causes), _MOST_NAMED)
        text = say("role_from", role=text, names=names)
    because = reason_of(record, say)
    if record.role_why is not None and record.role_why.certainty:
        return say.joined((text, because))
    return say("after_label", label=text, text=because) if because else text


def _headline(operators: Iterable[Record], by: str, say: Phrases) -> str:
    roles = Counter(record.role for record in operators)
    counted = ("cause", "accumulated", "inherited", "unknown")
    return _found_by(say.joined(say(f"count_{role}", n=roles[role]) for role in counted if roles[role]), by, say)


def _found_by(text: str, by: str, say: Phrases) -> str:
    if not by:
        return text
    sources = (say(_BY[part]) if part in _BY else part for part in by.split(" and "))
    return say("found_by", text=text, source=say.joined(sources, "between_sources"))


def _heads(
    operators: Iterable[Record],
    role: str,
    count: int,
    label: Label,
    width: int,
    told: Collection[int],
    unfolded: bool,
    say: Phrases,
) -> Iterator[str]:
    """Yield each operator of a role that no other has caused, and below it what followed from it."""
    entries = list(operators)
    heads = [record for record in entries if record.role == role and not (record.causes and role == "accumulated")]
    # Behind an error that grew by small steps others may have grown on.
    followers = [
        (line, _followers(entries, kind))
        for kind, line in (("accumulated", "accumulated_after"), ("inherited", "inherited_line"))
        if kind in (role, "inherited")
    ]
    alike: dict[str, list[Record]] = {}
    for record in heads:
        alike.setdefault(str(record.order) if unfolded else _kind_of(record, say), []).append(record)
    # The same operator in later iterations.
    again: dict[str, list[Record]] = {}
    for record in entries:
        if record.role == "inherited" and record.left.address in record.causes:
            again.setdefault(record.left.address, []).append(record)
    shown = [*alike.values()] if unfolded else [*alike.values()][:_MOST_CAUSES]
    for record, *others in shown:
        later = [one for head in (record, *others) for one in again.pop(head.left.address, ())]
        place = {"place": record.order + 1, "operators": count}
        head = say(f"{role}_line", operator=label(record), **place)
        reason = "" if record.order in told else reason_of(record, say)
        texts = [say("after_label", label=head, text=reason) if reason else head]
        if others or later:
            names = say.named(map(label, (*others, *later)), _MOST_NAMED)
            texts.append(say("same_in", n=len(others) + len(later), names=names))
        for line, found in followers:
            below = [
                one
                for head in (record, *others, *later)
                for one in found.get((head.left.at.part, head.left.address), [])
            ]
            below = [one for one in below if one.left.address not in one.causes]
            texts += _below(line, list({one.order: one for one in below}.values()), unfolded, say)
        if not reason:
            texts = [say.joined(texts, "between_clauses")]
        for indent, text in zip((2, *[9] * len(texts)), texts, strict=False):
            yield from hanging(terminal_text(text), width, indent=indent)
    if rest := len(heads) - sum(map(len, shown)):
        more = {"cause": "more_causes", "accumulated": "more_accumulated"}[role]
        yield f"  {say(more, n=rest)}"


def _kind_of(record: Record, say: Phrases) -> str:
    """Return what the causes have in common that are one mistake in several blocks, calls or iterations."""
    region = record.role_why.region if record.role_why is not None else None
    where = "" if region is None else region_text(region, say)
    looks = ",".join(one.id for one in record.diagnosis)
    return _NUMBER.sub("#", f"{operator_of(record.left.address, say)} {looks} {where}")


def _followers(entries: Iterable[Record], role: str = "inherited") -> dict[tuple[Coordinates, str], list[Record]]:
    found: dict[tuple[Coordinates, str], list[Record]] = {}
    for record in entries:
        if record.role == role:
            for cause in record.causes:
                found.setdefault((record.left.at.part, cause), []).append(record)
    return found


def _below(line: str, followers: Sequence[Record], unfolded: bool, say: Phrases) -> Iterator[str]:
    if followers:
        names = say.named((label_of(one, say) for one in followers), len(followers) if unfolded else _MOST_NAMED)
        yield say(line, n=len(followers), names=names)


def _unknown(operators: Iterable[Record], label: Label, width: int, unfolded: bool, say: Phrases) -> Iterator[str]:
    """Yield the failures that may be causes, by reason."""
    entries = list(operators)
    by_reason: dict[str, list[Record]] = {}
    for record in entries:
        if record.role == "unknown":
            by_reason.setdefault(reason_of(record, say), []).append(record)
    followers = _followers(entries)
    reasons = list(by_reason.items())
    if len(reasons) == 1 and len(entries) == len(reasons[0][1]):
        # The headline says it.
        return
    for because, members in reasons if unfolded else reasons[:_MOST_CAUSES]:
        names = say.named(map(label, members), len(members) if unfolded else _MOST_NAMED)
        yield from hanging(terminal_text(say("unknown_line", names=names, reason=because)), width, indent=2)
        below = {
            one.order: one
            for record in members
            for one in followers.get((record.left.at.part, record.left.address), [])
        }
        for text in _below("inherited_line", [below[order] for order in sorted(below)], unfolded, say):
            yield from hanging(terminal_text(text), width, indent=9)
    if len(reasons) > _MOST_CAUSES and not unfolded:
        yield f"  {say('more_unknown', n=len(reasons) - _MOST_CAUSES)}"


def _jumps(records: Iterable[Record], width: int, unfolded: bool, say: Phrases) -> Iterator[str]:
    """Yield where errors grew most within their limits, without being the cause of a failure."""
    jumps = [(why.growth, record) for record in records if record.role is None and (why := record.role_why)]
    grown = [(growth.step, record) for growth, record in jumps if growth is not None]
    # Among equals the first in execution order.
    grown.sort(key=lambda one: (-one[0], one[1].order))
    for step, record in grown if unfolded else grown[:_MOST_JUMPS]:
        text = say("grew_within", step=step_text(step, say), operator=label_of(record, say))
        yield from hanging(terminal_text(text), width)


def loose_limits(records: Iterable[Record], say: Phrases = ENGLISH) -> str:
    """Return what loose limits leave open, where something fails by them; else nothing."""
    listed = list(records)
    if not any(_is_loose(check) for record in listed if record.fails for check in record.checks):
        return ""
    text = say("loose_limits")
    reasons = [(record.role_why, record) for record in listed]
    grown = [(why.growth.step, record) for why, record in reasons if why and why.growth and why.why in _AT_ITSELF]
    if not grown:
        return text
    step, record = max(grown, key=lambda one: (one[0], -one[1].order))
    largest = say("largest_growth", step=step_text(step, say), operator=label_of(record, say))
    return say.joined((text, largest), "between_clauses")


def _is_loose(check: Check) -> bool:
    """Whether a limit lets an error grow far behind its origin before it fails."""
    if check.limit is None or check.level != "fail":
        return False
    if check.metric == "cosine_similarity":
        return check.limit <= _LOOSE_COSINE
    return check.metric == "relative_euclidean_distance" and check.limit >= _LOOSE_DISTANCE


_MOST_PAIRS = 5


def suspicious_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return what fits better than a failing record's partner; empty where nothing does."""
    found = record.suspicious if record.fails else ()
    if not found:
        return ""
    names = [terminal_text(one.address) for one in found]
    first = found[0]
    fields = {"names": say.joined(names, "between_names"), "why": fit_text(first.apart, first.shape, say=say)}
    text = say(f"better_{first.side}", **fields)
    return say("with_doubt", text=text, doubt=say(f"doubt_{first.doubt}")) if first.doubt else text


def suspicious_lines(report: Report, *, width: int, unfolded: bool = False, say: Phrases = ENGLISH) -> list[str]:
    """Return which pairs look wrong, and the map entries that would correct them; such an entry is never wrapped."""
    found = [record for record in report.records if suspicious_line(record)]
    if not found:
        return []
    shown = found if unfolded else found[:_MOST_PAIRS]
    lines = [say("suspicious", n=len(found))]
    for record in shown:
        pair = f"{record.left.address} <-> {record.right.address}"
        lines += hanging(
            terminal_text(say("after_label", label=pair, text=suspicious_line(record, say))), width, indent=2
        )
    if len(found) > len(shown):
        lines.append(f"  {say('more_suspicious', n=len(found) - len(shown))}")
    entries = list(_entries(shown, report.records, say))
    return [*lines, *(hanging(terminal_text(say("do_map_instead")), width, indent=2) if entries else []), *entries]


def _entries(shown: Sequence[Record], records: Sequence[Record], say: Phrases) -> Iterator[str]:
    """Yield each map entry once, as two swapped tensors give the same one twice; none that another entry contradicts.

    A left tensor that an entry names, which stays, cannot be named by a second one.
    """
    proposed: dict[tuple[str, ...], tuple[Record, str]] = {}
    for record in shown:
        for one in record.suspicious:
            if one.map is not None:
                left = one.address if one.side == "left" else record.left.address
                lines = tuple(map_entry_lines(one.map))
                if lines not in proposed or record.left.address == left:
                    proposed[lines] = (record, left)
    is_settled = False
    while not is_settled:
        replaced = {id(record) for record, _ in proposed.values()}
        held = {one.left.address for one in records if one.how == "mapped" and id(one) not in replaced}
        possible = {lines: found for lines, found in proposed.items() if found[1] not in held}
        is_settled, proposed = len(possible) == len(proposed), possible
    for lines, (record, _) in proposed.items():
        if record.how == "mapped" and record.by:
            yield f"    # {say('in_place_of', entry=terminal_text(record.by))}"
        yield from (f"    {line}" for line in lines)
