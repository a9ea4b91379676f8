"""What is said of a quantised run that fails: roles by the error that each quantisation adds, and these in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_msdump.capabilities.quantised.errors import Own, own_errors
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.record import Diagnosis, Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import Summariser
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.text import ENGLISH, Message, Phrases, say

_NAME = "quantised"
_MOST_ROWS, _MOST_SAVED = 5, 200
_MOST_HEADS = 32
# So many ranges that are too small were measured on other values.
_MANY = 3
# A cause whose error grew so is another mistake.
_GROWN = 5.0
_OF_LAYERS = ("weights", "weights_factor", "bias", "coarse_weights")
_NUMBERS = ("own", "scale", "zero_point", "clipped", "reaches", "times", "levels", "of_levels")


@dataclass(frozen=True)
class Ordered:
    """The operators that quantise, those first that add most; each a row of plain values."""

    rows: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        """Refuse what another program may have written; TypeError."""
        for row in self.rows if isinstance(self.rows, (list, tuple)) else [None]:
            known = row if isinstance(row, dict) else {"own": ""}
            are_numbers = all(isinstance(known.get(name, 0), (int, float, type(None))) for name in _NUMBERS)
            are_texts = all(isinstance(known.get(name), str) for name in ("name", "why"))
            if not (are_numbers and are_texts and isinstance(known.get("own"), (int, float))):
                raise TypeError("rows are no figures of quantised operators")


def with_quantised(report: Report, plan: Plan) -> Report:
    """Return the report with roles by what each quantisation adds, where the left run is quantised and fails."""
    failing = [number for number, record in enumerate(report.records) if record.fails]
    found = own_errors(plan) if failing else None
    if not found:
        return report
    rows = tuple(_row(one) for one in found[:_MOST_SAVED])
    report = replace(report, parts={**report.parts, _NAME: Ordered(rows)})
    behind = _behind(plan)
    heads = _heads(found, {number: report.records[number] for number in failing}, behind)
    if not heads and any(_is_another_mistake(report.records[number]) for number in failing):
        return report
    records = list(report.records)
    by_head = {number: behind(one.name) for number, (one, _) in heads.items()}
    ordered = sorted(failing, key=lambda number: (records[number].order, number))
    for number in ordered:
        record = records[number]
        label = record.left.key.op.label
        above = [one for one, reached in by_head.items() if label in reached and one != number]
        if number in heads:
            one, message = heads[number]
            records[number] = _placed(record, "cause", (), Diagnosis(_NAME, "high", message, {"operator": one.name}))
        elif above:
            records[number] = _placed(record, "inherited", tuple(records[one].left.address for one in above))
        else:
            first = next(one for one in ordered if one not in heads and not any(
                records[one].left.key.op.label in reached for reached in by_head.values()))  # fmt: skip
            why = (
                Diagnosis(_NAME, "high", Message("quant_before" if heads else "quant_only", {"n": len(found)}))
                if first == number
                else None
            )
            causes = () if first == number else (records[first].left.address,)
            records[number] = _placed(record, "accumulated", causes, why)
    return replace(report, records=tuple(records))


def _heads(found: Sequence[Own], failing: Mapping[int, Record], behind: Any) -> dict[int, tuple[Own, Message]]:
    """Return by number of the failing record that shows it each quantisation that is wrong, and what is said of it."""
    wrong = [one for one in found if one.figures.is_wrong][:_MOST_HEADS]
    narrow = [one for one in wrong if one.figures.why in ("clipped", "saturated", "misplaced")]
    if len(narrow) >= _MANY:
        wrong = [one for one in wrong if one is narrow[0] or one not in narrow]
    heads: dict[int, tuple[Own, Message]] = {}
    by_order = sorted(failing, key=lambda number: (failing[number].order, number))
    for one in wrong:
        own = {one.name, *one.nodes}
        reached = behind(one.name)
        labels = [(failing[number].left.key.op.label, number) for number in by_order]
        shown = next((number for label, number in labels if label in own), None)
        shown = shown if shown is not None else next((number for label, number in labels if label in reached), None)
        if shown is not None and shown not in heads:
            message = _said(_row(one))
            if one in narrow and len(narrow) >= _MANY:
                message = Message("quant_narrow", {"n": len(narrow), "text": message})
            heads[shown] = one, message
    return heads


def _behind(plan: Plan) -> Any:
    """Return what says which operators a node leads to."""
    takers: defaultdict[str, list[str]] = defaultdict(list)
    for call in plan.left.graphs[0][1].operators:
        for edge in call.inputs:
            if edge is not None:
                takers[edge.producer].append(call.name)

    def behind(name: str) -> Collection[str]:
        seen, waiting = {name}, [name]
        while waiting:
            fresh = [one for one in takers[waiting.pop()] if one not in seen]
            seen.update(fresh)
            waiting += fresh
        return seen

    return behind


def _is_another_mistake(record: Record) -> bool:
    growth = record.role_why.growth if record.role_why is not None else None
    return record.role == "cause" and growth is not None and growth.start > 0 and growth.step >= _GROWN


def _placed(record: Record, role: str, causes: tuple[str, ...], why: Diagnosis | None = None) -> Record:
    reason = "" if why is None else say(why.evidence)
    found = record.diagnosis if why is None else (why, *record.diagnosis)
    known = {"role": role, "causes": causes, "suspects": (), "role_why": None}
    return replace(record, **known, role_reason=reason, diagnosis=found)  # type: ignore[arg-type]


def _row(one: Own) -> dict[str, Any]:
    return {"name": one.name, "nodes": list(one.nodes), **one.figures._asdict()}


def _said(row: Mapping[str, Any]) -> Message:
    """Return what is said of an operator."""
    shown = {name: "?" if row.get(name) is None else f"{row[name]:.3g}" for name in _NUMBERS}
    shown["clipped"] = f"{100 * (row.get('clipped') or 0):.2g} %"
    message = Message(f"quant_{row['why']}", {"name": row["name"], **shown})
    inputs = row.get("nodes") if str(row["why"]) in _OF_LAYERS else ()
    if isinstance(inputs, list) and inputs:
        return Message("quant_or_input", {"text": message, "input": str(inputs[0])})
    return message


class SummarisedQuantised(Summariser):
    """The operators that quantise, in order."""

    def summary_lines(self, report: Report, *, width: int, unfolded: bool, say: Phrases, **_: object) -> list[str]:
        """Return the operators whose own quantisation adds most."""
        rows = report.parts[_NAME].rows if isinstance(report.parts.get(_NAME), Ordered) else ()
        return [*_lines(rows, width, len(rows) if unfolded else _MOST_ROWS, say)]


def _lines(rows: Sequence[Mapping[str, Any]], width: int, most: int, say: Phrases = ENGLISH) -> Iterator[str]:
    if rows:
        yield say("quant_title", n=len(rows))
    for row in rows[:most]:
        message = _said(row)
        if say.knows(message.code):
            text = say.of(Message("quant_row", {"own": f"{row['own']:.2g}", "text": message}))
            yield from hanging(terminal_text(text), width, indent=2)
