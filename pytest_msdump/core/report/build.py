"""From a plan to its report: compare the pairs, put the records together, write the files."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_msdump.causes.localise import localise
from pytest_msdump.causes.steps import entry_by_structure
from pytest_msdump.comparison.graph_operators import arguments_of_pair
from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.compare.comparing import comparer_of, roots_of
from pytest_msdump.core.compare.coverage import coverage_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import MsdumpError, nearest
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.facts.operators import PASSING_TYPES
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.matching import explain
from pytest_msdump.core.matching.kinds import is_weight
from pytest_msdump.core.matching.leaving import Modules
from pytest_msdump.core.matching.rules import combined, network_of
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.record import Record, record_of
from pytest_msdump.core.model.report import ReplayShare, Report
from pytest_msdump.core.report.base import file_kinds, remove_reports, write_kind
from pytest_msdump.core.report.coverage import lacks_entries
from pytest_msdump.core.report.json_report import write_json
from pytest_msdump.core.storage.files import open_regular
from pytest_msdump.core.text import Message, message_of_note, say
from pytest_msdump.report.causes import with_causes_first

# SHA-1 or SHA-256.
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# More than is printed in full or on a line.
MOST_EXPLAINED = 32
_MOST_GIT_BYTES = 1 << 22
# Reasons that an entry answers. With any other, the tensor is not to be compared, or an entry would not help.
_NO_NAMESAKE = ("no_operator_of_that_name", "scope_")


def compare_plan(plan: Plan) -> dict[int, Record]:
    """Compare all pairs of the plan in this process; return their records by number."""
    compare = comparer_of(plan).compare
    return {number: with_arguments(plan, number, compare(pair)) for number, pair in enumerate(plan.pairing.pairs)}


def with_arguments(plan: Plan, number: int, record: Record) -> Record:
    """Return the record of pair `number`; if it fails, with the arguments of its operators, which the plan knows."""
    if not record.fails:
        return record
    pair = plan.pairing.pairs[number]
    saved, differing = arguments_of_pair(pair, plan.left, plan.right, plan.argument_books)
    return replace(record, kernel_args=saved, differing_arguments=differing)


def build_report(
    plan: Plan,
    records: Mapping[int, Record],
    replay: ReplayShare | None = None,
    *,
    most_explained: int | None = MOST_EXPLAINED,
) -> Report:
    """Return the report of the records, by number of the pair; a pair without a record is `not_run`.

    `replay` says how much a replay judged, where there was one. Of what fails, the first `most_explained` are
    explained, causes first: a second look at their elements costs more than the comparison.
    """
    roots = roots_of(plan)
    found = [records.get(number) or record_of(pair, roots=roots) for number, pair in enumerate(plan.pairing.pairs)]
    report = _assembled(plan, found, replay)
    run = {number: record for number, record in enumerate(report.records) if record.was_run}
    # Two files are no network.
    if not run:
        return report
    if plan.left.root.is_file():
        return replace(report, records=_explained(plan, report.records, most_explained))
    causes = localise(plan, run)
    placed = {**run, **causes.records}
    if any(record.fails for record in run.values()):
        # Loaded for what fails alone.
        from pytest_msdump.causes.mispaired import mispaired
        from pytest_msdump.causes.step_shift import step_shift

        compare = comparer_of(plan).compare
        shifts = step_shift(plan, placed, lambda pair, other: not compare(replace(pair, right=other)).fails)
        # What follows an operator that drew masks cannot agree.
        drawn = {
            one.left.true_name or one.left.name or one.left.address: None
            for one in placed.values()
            if any(remark.code.startswith("random_masks") for remark in one.remarks)
        }
        random = [Message("random_operators", {"names": explain.listed(drawn)})] if drawn else []
        report = replace(report, notes=(*report.notes, *map(say, (*shifts, *random))))
        suspicious = mispaired(plan, placed)
        placed |= {number: replace(placed[number], suspicious=fits) for number, fits in suspicious.items()}
    whole = tuple(placed.get(number, record) for number, record in enumerate(report.records))
    whole = _explained(plan, whole, most_explained)
    return replace(report, records=whole, localised_by=causes.by, edges=causes.edges)


def _explained(plan: Plan, records: Sequence[Record], most: int | None) -> tuple[Record, ...]:
    comparer, pairs = comparer_of(plan, explains=True), plan.pairing.pairs
    failing = with_causes_first([record for record in records if record.fails])[:most]
    chosen = set(map(id, failing))
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
            *_selected_nothing(plan),
            # Said in the header, which -q leaves out, and a pass must not hide it.
            *(note for note in plan.pairing.notes if message_of_note(note).code == "goes_on"),
            *([f"ran user code: {replayed}"] if replayed and not replayed.endswith(".onnx") else ()),
        ),
        rerun=rerun_arguments(plan),
    )
    report = replace(report, coverage=replace(report.coverage, replay=replay))
    return replace(report, coverage=replace(report.coverage, next_entry=_next_entry(plan, report)))


def _next_entry(plan: Plan, report: Report) -> tuple[()] | tuple[str, str]:
    """Return the names of the next map entry: of the pair that structure speaks for most, else of the nearest names."""
    if not lacks_entries(report):
        return ()
    lefts, rights = (
        [one for one in alone if one.why.code.startswith(_NO_NAMESAKE)]
        for alone in (plan.pairing.unmatched_left, plan.pairing.unmatched_right)
    )
    free = {one.ref.key.address: one.ref for one in reversed(rights)}
    near = (
        (one.ref, free[one.candidates[0]])
        for one in lefts
        if one.candidates
        and one.candidates[0] in free
        and one.ref.key.op.op_type not in PASSING_TYPES
        and is_weight(one.ref.key.op) == is_weight(free[one.candidates[0]].key.op)
    )
    pair = entry_by_structure([one.ref for one in lefts], [one.ref for one in rights]) or next(near, None)
    if pair is None:
        return ()
    left, right = (
        f"{key.op.label}@{key.op.at.occurrence}:{key.io}:{key.slot}" if key.op.at.occurrence else key.address
        for key in (ref.key for ref in pair)
    )
    module = Modules("left", plan.left).in_entry(*pair)
    return (left, right) if module is None else (module, right.removesuffix(":output:0"))


def _selected_nothing(plan: Plan) -> Iterator[str]:
    """Yield which globs matched no operator, where these alone left nothing to compare."""
    chosen, pairing = plan.suite.selection, plan.pairing
    others = (chosen.deselect, chosen.iteration, chosen.rank, chosen.graph)
    if not chosen.select or any(others) or pairing.pairs or pairing.right_total or pairing.unmatched_left:
        return
    keys = {ref.key for dump in (plan.left, plan.right) for ref in dump.refs}
    known = {name for key in keys for name in (key.op.label, key.op.name, key.address)}
    for typed in chosen.select:
        if keys and not any(fnmatchcase(name, typed) for name in known):
            hint = nearest(typed, known)
            some = hint if hint.startswith("did") else f"there are {listed(sorted({key.op.label for key in keys}))}"
            yield say(Message("selected_nothing", {"glob": typed, "hint": some}))


def policy_entry(policy: Policy) -> dict[str, Any]:
    """Return what results.json keeps of the policy: where limits come from; the limits themselves stand in records."""
    return {
        "nan": policy.nan,
        "threshold": dict(policy.thresholds),
        "rules": [rule.label for rule in policy.rules],
        "known_drift": [drift.label for drift in policy.known_drift],
        **({"limits_file": policy.limits.name} if policy.limits else {}),
    }


def rerun_arguments(plan: Plan) -> tuple[str, ...]:
    """Return the arguments with which ``msdump compare`` compares the same two dumps by the same rules."""
    suite, files = plan.suite, plan.extras.files
    start = ("--config", suite.file) if suite.file else (suite.left.path, suite.right.path)
    # FOLDER/format_convert/FILE or FOLDER/algorithm/FILE
    code = [f"--user-code={files[0].absolute().parents[1]}"] if files else []
    return (*map(str, start), *suite.typed, *code)


def run_facts() -> dict[str, str]:
    """Return what is known of this run for results.json: date, release, commit of the working directory, command."""
    program = Path(sys.argv[0])
    words = ["python", "-m", program.parent.name] if program.name == "__main__.py" else [program.name]
    try:
        release = importlib.metadata.version("pytest-msdump")
    except importlib.metadata.PackageNotFoundError:
        release = ""
    found = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "version": release,
        "commit": _commit(),
        "command": shell_line([*words, *sys.argv[1:]]),
    }
    return {key: value for key, value in found.items() if value}


def _commit() -> str:
    """Return the commit that Git has checked out here, as its files say; empty where there is no repository."""
    here = Path.cwd()
    found = next((folder / ".git" for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if found is None:
        return ""
    # In a worktree or a submodule it is a file that names the folder; branches are then in a common one.
    git = found.parent / _first_line(found).removeprefix("gitdir: ") if found.is_file() else found
    common = git / (_first_line(git / "commondir") or ".")
    head = _first_line(git / "HEAD")
    branch = head.removeprefix("ref: ")
    if branch == head:
        commit = head
    elif not (commit := _first_line(git / branch) or _first_line(common / branch)):
        packed = (line.partition(" ") for line in _lines(common / "packed-refs"))
        commit = next((one for one, _, name in packed if name == branch), "")
    return commit if _COMMIT.fullmatch(commit) else ""


def _first_line(file: Path) -> str:
    return next(iter(_lines(file)), "")


def _lines(file: Path) -> list[str]:
    """Return the lines of a small text; none where it cannot be read."""
    try:
        with open_regular(file) as stream:
            return stream.read(_MOST_GIT_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def start_report(plan: Plan, directory: Path) -> None:
    """Replace the reports of an earlier run: results.json says that this one has not ended, other files are removed.

    A suite that writes no files touches none. What cannot be written now is an error at the end, when the report is
    written.
    """
    kinds = file_kinds(plan.suite.options["report"])
    if not kinds:
        return
    try:
        keep = write_json(_not_ended(plan), directory).name if "json" in kinds else ""
    except MsdumpError:
        keep = ""
    remove_reports(directory, kinds, keep=keep)


def _not_ended(plan: Plan) -> Report:
    left, right = plan.sides
    return Report(
        left=left,
        right=right,
        profile=plan.suite.policy.profile,
        limits=policy_entry(plan.suite.policy),
        coverage=coverage_of(plan.pairing, plan.left, plan.right, min_coverage=plan.suite.options["min_coverage"]),
        rerun=rerun_arguments(plan),
        ended=False,
        golden=plan.further.get("golden"),
        third=plan.further.get("third"),
    )


def write_report(report: Report, kinds: tuple[str, ...], directory: Path, *, root: Path | None = None) -> list[Path]:
    """Write some kinds of report into `directory` and return the files.

    `root` is the project's folder, where the paths in reports for CI services begin. MsdumpError names a file that
    cannot be written.
    """
    return [file for kind in kinds for file in write_kind(kind, [report], directory, root)]
