"""From a plan to its report: compare the pairs, put the records together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_msdump.core import ports
from pytest_msdump.core.compare.additions import with_added_report
from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.compare.comparing import comparer_of, roots_of
from pytest_msdump.core.compare.planning import Plan, in_all_ways
from pytest_msdump.core.matching.rules import combined, network_of, next_entry, selected_nothing
from pytest_msdump.core.model.record import Record, record_of
from pytest_msdump.core.model.report import ReplayShare, Report
from pytest_msdump.core.report.coverage import lacks_entries
from pytest_msdump.core.report.files import policy_entry, rerun_arguments
from pytest_msdump.core.report.shown import with_causes_first
from pytest_msdump.core.text import message_of_note

# More than is printed in full or on a line.
MOST_EXPLAINED = 32


def compare_plan(plan: Plan) -> dict[int, Record]:
    """Compare all pairs of the plan in this process; return their records by number."""
    compare = comparer_of(plan).compare
    return {number: with_arguments(plan, number, compare(pair)) for number, pair in enumerate(plan.pairing.pairs)}


def with_arguments(plan: Plan, number: int, record: Record) -> Record:
    """Return the record of pair `number`; if it fails, with the arguments of its operators, which the plan knows."""
    target = ports.rows("GRAPHS").get("differences") if record.fails else None
    if target is None:
        return record
    pair = plan.pairing.pairs[number]
    saved, differing = ports.load(target)(pair, plan.left, plan.right, plan.argument_books)
    return replace(record, kernel_args=saved, differing_arguments=differing)


def build_report(
    plan: Plan,
    records: Mapping[int, Record],
    replay: ReplayShare | None = None,
    *,
    most_explained: int | None = MOST_EXPLAINED,
) -> Report:
    """Return the report of the records, by number of the pair; a pair without a record is `not_run`."""
    roots = roots_of(plan)
    found = [records.get(number) or record_of(pair, roots=roots) for number, pair in enumerate(plan.pairing.pairs)]
    report = _assembled(plan, found, replay)
    if not any(record.was_run for record in report.records):
        return report
    report = with_added_report(report, plan)
    return replace(report, records=_explained(plan, report.records, most_explained))


def _explained(plan: Plan, records: Sequence[Record], most: int | None) -> tuple[Record, ...]:
    failing = [record for record in records if record.fails]
    if not failing:
        return tuple(records)
    comparer, pairs = comparer_of(plan, explains=True), plan.pairing.pairs
    chosen = set(map(id, with_causes_first(failing)[:most]))
    return tuple(
        comparer.explained(pair, record) if id(record) in chosen else record
        for pair, record in zip(pairs, records, strict=True)
    )


def pairing_report(plan: Plan, replay: ReplayShare | None = None) -> Report:
    """Return what names alone show: the pairs and what is unmatched. It has one record at most, which is `not_run`."""
    return _assembled(plan, [record_of(pair) for pair in plan.pairing.pairs[:1]], replay)


def _assembled(plan: Plan, records: Iterable[Record], replay: ReplayShare | None) -> Report:
    replayed = plan.suite.options["replay"]
    report = assemble(
        plan.left,
        plan.right,
        plan.pairing,
        records,
        profile=plan.suite.policy.profile,
        sides=plan.sides,
        further=plan.further,
        limits=policy_entry(plan.suite.policy),
        min_coverage=plan.suite.options["min_coverage"],
        first=plan.extras.first,
        network=network_of(combined(plan.rules)) if plan.rules.base else (),
        notes=(
            *plan.extras.sentences,
            *selected_nothing(plan.suite.selection, plan.pairing, (plan.left, plan.right)),
            # Said in the header, which -q leaves out, and a pass must not hide it.
            *(note for note in plan.pairing.notes if message_of_note(note).code == "goes_on"),
            *([f"ran user code: {replayed}"] if replayed and not replayed.endswith(".onnx") else ()),
        ),
        rerun=rerun_arguments(plan),
    )
    report = replace(report, coverage=replace(report.coverage, replay=replay))
    if not lacks_entries(report):
        return report
    others = in_all_ways(plan).pairing.pairs if plan.suite.options["pair_by"] or plan.suite.entries else ()
    found = next_entry(plan.pairing, plan.left, others)
    return replace(report, coverage=replace(report.coverage, next_entry=found))
