"""What capabilities and hooks of users add to a plan and its records: partners, limits, notes. They clear nothing.

A hook is a function with the name that messages have of it; a stage of a capability becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_msdump.core import ports
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.limits.judge import ClearedVerdictError, only_worse, verdict_from
from pytest_msdump.core.limits.policy import Policy, Rule
from pytest_msdump.core.model.comparison import Finding
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.suite.keys import FileName, read_map
from pytest_msdump.core.text import plain_text

if TYPE_CHECKING:
    from pytest_msdump.core.matching.selection import MapEntry
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.model.tensor import Pair, Pairing

# By stage: what a session's users add, each with its name in messages.
Hooks: TypeAlias = Mapping[str, Sequence[tuple[str, Callable[..., Any]]]]
NO_HOOKS: Hooks = {}


def added(stage: str, hooks: Hooks) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield what is to be called at a stage of plans: capabilities first, then hooks, each with its name."""
    yield from ((f"capability {step.capability}", step.function) for step in ports.steps(stage))
    yield from hooks.get(stage, ())


def added_entries(left: Dump, right: Dump, hooks: Hooks) -> tuple[MapEntry, ...]:
    """Return the partners that the stage ``entries`` chooses, as map entries; ConfigError where these are none."""
    found: list[MapEntry] = []
    for name, choose in added("entries", hooks):
        found += read_map(choose(left, right), FileName(name, name, "msdump"), Path.cwd())
    return tuple(found)


def with_added_limits(policy: Policy, pairs: Iterable[Pair], hooks: Hooks) -> Policy:
    """Return the policy with the limits that the stage ``limits`` sets for single pairs; the first one that does wins.

    A project's hooks are asked before the packages that it installed. ConfigError names the hook whose limits are none.
    """
    sources = (*hooks.get("limits", ()), *added("limits", NO_HOOKS))
    if not sources:
        return policy
    rules: dict[object, Rule] = {}
    of_pairs = {}
    for pair in pairs:
        for name, limits_of in sources:
            bounds = limits_of(pair)
            if not bounds:
                continue
            if not isinstance(bounds, Mapping):
                raise ConfigError(
                    f"{name} returned {bounds!r} for {pair.left.key.address}; return e.g. {{'cosine': 0.9}}"
                )
            key = (name, repr(bounds))
            if key not in rules:
                rules[key] = Rule({metric: (bound, None) for metric, bound in bounds.items()}, label=name)
            of_pairs[pair.left.key, pair.right.key] = rules[key]
            break
    return replace(policy, of_pairs=of_pairs) if of_pairs else policy


def with_added_notes(record: Record, pair: Pair, hooks: Hooks) -> Record:
    """Return a record with what the stage ``record`` says of it: a note, or a record that is not better."""
    for name, say_of in hooks.get("record", ()):
        outcome, text = "note", ""
        try:
            said = say_of(pair, record)
            if isinstance(said, Record):
                record = only_worse(record, said, by=name)
            elif said is not None and not isinstance(said, str):
                raise ConfigError(f"{name} returned {type(said).__name__}; return a sentence, a record, or None")
            else:
                text = said or ""
        except MsdumpError as error:
            outcome, text = "error", str(error)
        if text:
            findings = (*record.verdict.findings, Finding(outcome, plain_text(text)))
            record = replace(record, verdict=verdict_from(findings, record.verdict.would_pass))
    return record


# What of a pairing is no addition to a pair.
_MEETING = ("unmatched_left", "unmatched_right", "missing", "right_total", "right_paired", "lost_outputs")


def with_added_to_pairs(
    step: ports.Step, pairing: Pairing, dumps: Mapping[str, Dump]
) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
    """Return what one capability makes of a pairing, and its notes on the dumps, by name."""
    new, said = step.function(pairing, dumps)
    return with_same_pairs(step, pairing, new), said


def with_same_pairs(step: ports.Step, pairing: Pairing, new: Pairing) -> Pairing:
    """Return a pairing that a capability added to; ClearedVerdictError where other tensors meet in it than before."""
    met, meeting = ([(pair.left.key, pair.right.key) for pair in each.pairs] for each in (pairing, new))
    if met != meeting or any(getattr(pairing, name) != getattr(new, name) for name in _MEETING):
        name = f"capability {step.capability}"
        raise ClearedVerdictError(f"{name} changed which tensors meet; a stage may add to pairs alone")
    return new


# What decides the exit code beside the records.
_DECIDING = ("unmatched", "missing", "coverage", "ended")


def with_added_report(report: Report, plan: ports.Planned) -> Report:
    """Return the report with what the stage ``reported`` adds; ClearedVerdictError where one clears."""
    # Two files are no network.
    conditions = set() if plan.left.root.is_file() else {"network"}
    # Options of capabilities are conditions of their own stages.
    for option in ports.rows("OPTIONS"):
        if plan.suite.options.get(option):
            conditions.add(option)
    for step in [step for step in ports.steps("reported") if step.is_met(conditions)]:
        name, new = f"capability {step.capability}", step.function(report, plan)
        changed = [part for part in _DECIDING if getattr(report, part) != getattr(new, part)]
        if changed or len(new.records) != len(report.records):
            what = ", ".join(changed) or "the records"
            raise ClearedVerdictError(f"{name} changed {what} of the report; a stage may add parts and notes there")
        if new.records is not report.records:
            both = zip(report.records, new.records, strict=True)
            new = replace(new, records=tuple(only_worse(one, other, by=name) for one, other in both))
        report = new
    return report


def with_said_of_report(report: Report, hooks: Hooks) -> Report:
    """Return the report with the sentences that the stage ``report`` of users adds."""
    if names := [name for each in hooks.values() for name, _ in each]:
        report = replace(report, notes=(*report.notes, f"ran user code: {', '.join(names)}"))
    for name, say_of in hooks.get("report", ()):
        said = say_of(report) or ()
        if isinstance(said, str) or not all(isinstance(one, str) for one in said):
            raise ConfigError(f"{name} returned {said!r}; return a list of sentences, or None")
        report = replace(report, notes=(*report.notes, *said))
    return report
