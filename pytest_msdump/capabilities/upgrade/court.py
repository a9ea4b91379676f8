"""Which operators differ between two environments, and why: one verdict for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.frameworks.onnx import load_model
from pytest_msdump.capabilities.graphs.ir import parse_attributes
from pytest_msdump.capabilities.replay.reference_model import Reference
from pytest_msdump.capabilities.upgrade.environments import Environment
from pytest_msdump.capabilities.upgrade.replaying import Judged, judged
from pytest_msdump.capabilities.upgrade.running import Program, Run
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ProgramError
from pytest_msdump.core.gate import report_of
from pytest_msdump.core.model.dump import PARAMETER, Dump, Operator
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.scheduling import records_of
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import Message

# Verdicts, the worst first.
VERDICTS = ("wrong", "code", "not judged", "nondeterministic", "setting", "kernel", "inherited")
_DISTANCE = "relative_euclidean_distance"
_OLDER = "older_run"
_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Side:
    """An environment and what the program made there: twice, but of a dump that was there before."""

    name: str
    environment: Environment | None
    runs: tuple[Run, ...]

    @property
    def run(self) -> Run:
        """The run that is compared."""
        return self.runs[0]


@dataclass(frozen=True)
class Change:
    """An operator that an upgrade changes, the verdict, and why; `distance` is relative, of new from old."""

    operator: str
    op_type: str
    verdict: str
    why: Message
    distance: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What an upgrade does to a program; `beyond` are operators that are not within limits."""

    old: str
    new: str
    tensors: int
    differing: int
    changes: tuple[Change, ...] = ()
    beyond: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    is_forced: bool = False

    def code(self, allowed: frozenset[str] = frozenset()) -> int:
        """Return the exit code: 1 for what matters, 125 for what could not be judged."""
        found = {change.verdict for change in self.changes} - allowed
        if self.beyond or not found.isdisjoint(("wrong", "code")):
            return 1
        return 125 if self.given or "not judged" in found or not self.tensors else 0


@dataclass(frozen=True)
class Court:
    """Judges pairs of environments by runs of one program, under named limits."""

    program: Program
    profile: str = "default"
    limits: Path | None = None
    reference: Reference | None = None

    def side(self, environment: Environment, name: str) -> Side:
        """Run the program twice in an environment; ProgramError where it fails."""
        return Side(environment.name, environment, tuple(self.program.run(environment, f"{name}_{n}") for n in (1, 2)))

    def judge(self, old: Side, new: Side) -> Judgement:
        """Say which operators differ, and why."""
        bits = self.compare(new.run.dump, old.run.dump)
        judgement = Judgement(
            old.name, new.name, len(bits.records), sum(record.fails for record in bits.records), **_facts(old, new)
        )
        unsteady = self._unsteady(old) | self._unsteady(new)
        coded = dict(_coded(bits, old.run, new.run))
        # First what is cheap: an upgrade that changes no bit needs no further run.
        if not (judgement.differing or coded or unsteady):
            return judgement
        forced = self._forced(old, new, unsteady)
        replays = [judged(one.run, other.run, self.reference) for one, other in ((old, new), (new, old))]
        trial = _Trial(judgement.settings, forced, unsteady, coded, replays[0], replays[1])
        limits = self.compare(new.run.dump, old.run.dump, profile=self.profile, limits=self.limits)
        return Judgement(
            **vars(judgement)
            | {
                "changes": tuple(_changes(trial, bits)),
                "beyond": tuple(dict.fromkeys(r.left.key.op.label for r in limits.records if _counts(r) and r.fails)),
                "is_forced": forced is not None,
            }
        )

    def compare(self, left: Dump, right: Dump, *, profile: str = "bitwise", limits: Path | None = None) -> Report:
        """Compare two dumps of the program: outputs, and what operators were given."""
        sides = {"left": str(left.root), "right": str(right.root), "profile": profile, "io": "all"}
        options = {"limits": str(limits)} if limits is not None else {}
        planned = plan(load_suite(file=None, table=sides, options=options, directory=left.root))
        records, _ = records_of(planned, lambda items, _what, _total=None: iter(items))
        return report_of(planned, records, most_explained=0)

    def _unsteady(self, side: Side) -> frozenset[str]:
        if len(side.runs) < len(("first", "again")):
            return frozenset()
        report = self.compare(side.runs[1].dump, side.runs[0].dump)
        return frozenset(record.left.key.op.label for record in report.records if record.fails)

    def _forced(self, old: Side, new: Side, unsteady: frozenset[str]) -> _Forced | None:
        """Run both environments with the new side's own inputs of each operator; ``None`` where that is not possible.

        The new one is the control: what does not come out as before is not steady by itself, or was not tried.
        """
        if old.environment is None or new.environment is None:
            return None
        given = new.run.dump
        try:
            tried, control = (
                self.program.run(side.environment, f"forced_{name}", given)
                for name, side in (("old", old), ("new", new))
                if side.environment is not None
            )
        except ProgramError:
            # It runs by itself, and not with tensors of the other.
            return None
        if tried.kept is None:
            return None
        changed, moved = _failing(self.compare(control.dump, tried.dump)), _failing(self.compare(given, control.dump))
        # Behind what was not handed on, nothing is known.
        behind = {label for label, role in changed.items() if role == "inherited"} if tried.kept else set()
        # A graph is cut at each operator: one that was fused with others, or laid out otherwise, was not tried.
        behind |= ({*tried.kept} | (moved.keys() - unsteady)) - changed.keys()
        return _Forced(frozenset(changed.keys() - behind), frozenset(moved.keys() & unsteady), frozenset(behind))


@dataclass(frozen=True)
class _Forced:
    """What each operator did with the same inputs: changed; unsteady by itself; not known."""

    changed: frozenset[str]
    unsteady: frozenset[str]
    unknown: frozenset[str]


def _failing(report: Report) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for record in report.records:
        if record.fails and _counts(record):
            found.setdefault(record.left.key.op.label, record.role)
    return found


def _counts(record: Record) -> bool:
    """Whether an operator made a tensor: not its inputs, and no weights."""
    return record.left.key.io == "output" and record.left.op_type != PARAMETER


@dataclass(frozen=True)
class _Trial:
    settings: Mapping[str, tuple[str, str]]
    forced: _Forced | None
    unsteady: frozenset[str]
    coded: Mapping[str, Message]
    old: Mapping[str, Judged]
    new: Mapping[str, Judged]

    def verdict(self, label: str, op_type: str, role: str | None, *, has_changed: bool) -> tuple[str, Message]:
        """Return the verdict on an operator, and why."""
        nothing = Judged(None)
        sides = {"old": self.old.get(label, nothing), "new": self.new.get(label, nothing)}
        wrong = [side for side, one in sides.items() if one.is_right is False]
        is_cause, is_known = self._is_cause(label, role)
        settings = tuple(f"{name} {old or '-'} > {new or '-'}" for name, (old, new) in self.settings.items())
        if label in self.coded:
            if wrong and has_changed:
                return "wrong", _wrong(wrong, sides)
            return "code", self.coded[label]
        if not is_cause and is_known:
            return "inherited", Message("upgrade_inherited")
        if wrong:
            own = {"old": [old for old, _ in self.settings.values()], "new": [new for _, new in self.settings.values()]}
            if all(sides[side].is_of(own[side], op_type) for side in wrong):
                return "setting", Message("upgrade_setting", {"names": settings})
            return "wrong", _wrong(wrong, sides)
        unjudged = [one.why or Message("upgrade_no_replay") for one in sides.values() if one.is_right is None]
        if unjudged:
            return "not judged", Message("upgrade_not_judged", {"why": unjudged[0]})
        if not is_cause:
            return "inherited", Message("upgrade_inherited_right")
        if label in (self.unsteady if self.forced is None else self.forced.unsteady):
            return "nondeterministic", Message("upgrade_unsteady")
        if settings:
            return "setting", Message("upgrade_setting", {"names": settings})
        return "kernel", Message("upgrade_kernel")

    def _is_cause(self, label: str, role: str | None) -> tuple[bool, bool]:
        """Return whether an operator differs by itself, and whether that was tried."""
        if self.forced is not None and label not in self.forced.unknown:
            return label in self.forced.changed | self.forced.unsteady, True
        return label in self.unsteady or role != "inherited", False


def _wrong(wrong: list[str], sides: Mapping[str, Judged]) -> Message:
    side = "both" if len(wrong) > 1 else wrong[0]
    worst = max((sides[one] for one in wrong), key=lambda one: one.score)
    return Message(f"upgrade_wrong_{side}", {"score": worst.score, "bound": worst.limit})


def _changes(trial: _Trial, bits: Report) -> Iterator[Change]:
    """Yield operators in execution order, those that one side lacks last."""
    places: dict[str, Record] = {}
    differing: dict[str, Record] = {}
    for record in filter(_counts, bits.records):
        label = record.left.key.op.label
        places.setdefault(label, record)
        if record.fails:
            differing.setdefault(label, record)
    alone = [label for label in trial.coded if label not in places]
    changed = trial.forced.changed if trial.forced is not None else frozenset()
    for label, first in places.items():
        record = differing.get(label, first)
        if label in differing or label in trial.coded or label in changed:
            op_type = record.left.op_type or ""
            verdict, why = trial.verdict(label, op_type, record.role, has_changed=label in differing)
            yield Change(label, op_type, verdict, why, _distance(record))
    for label in alone:
        yield Change(label, "", "code", trial.coded[label])


def _distance(record: Record) -> float | None:
    found = record.comparison.measurements.get(_DISTANCE) if record.comparison is not None else None
    value = found.value if found is not None else None
    return value if isinstance(value, float) else None


def _coded(bits: Report, old: Run, new: Run) -> Iterator[tuple[str, Message]]:
    """Yield what the program, or the framework's own code above kernels, does otherwise."""
    for one in bits.unmatched:
        if one.tensor.key.io == "output" and one.why.code != _OLDER and one.tensor.op_type != PARAMETER:
            side = "new" if one.side == "left" else "old"
            yield one.tensor.key.op.label, Message(f"upgrade_only_{side}")
    for record in filter(_counts, bits.records):
        left, right = record.left, record.right
        if left.op_type and right.op_type and left.op_type != right.op_type:
            yield left.key.op.label, _was("type", right.op_type, left.op_type)
        elif (left.dtype, left.shape) != (right.dtype, right.shape):
            yield left.key.op.label, _was("shape", f"{right.dtype} {right.shape}", f"{left.dtype} {left.shape}")
    # Releases of a compiler write attributes that others do not: those of both count.
    before, after = (_operators(run) for run in (old, new))
    for label in before.keys() & after.keys():
        for what in before[label].keys() & after[label].keys():
            if before[label][what] != after[label][what]:
                yield label, _was(what, before[label][what], after[label][what])


def _was(what: str, old: str, new: str) -> Message:
    return Message("upgrade_code", {"what": what, "was": old, "now": new})


def _operators(run: Run) -> dict[str, dict[str, str]]:
    """Return what graph and model say of each operator: its attributes, and what feeds it."""

    def described(one: Operator) -> dict[str, str]:
        edges = [edge and f"{edge.producer}:{edge.slot}" for edge in one.inputs]
        return {**parse_attributes(one.attributes), "inputs": ", ".join(edge or "-" for edge in edges)}

    found = {one.name: described(one) for _, graph in run.dump.graphs for one in graph.operators}
    if run.model is not None:
        model = load_model(run.model)
        for node, proto in zip(model.nodes, model.proto.graph.node, strict=True):
            written = {one.name: str(one).replace("\n", " ")[:_MOST_CHARACTERS] for one in proto.attribute}
            found.setdefault(node.name, {}).update(written)
    return found


def _facts(old: Side, new: Side) -> dict[str, Any]:
    """Return what else differs between the sides: what was given, settings, packages."""
    before, after = (side.run.dump.manifest for side in (old, new))
    facts: dict[str, Any] = {}
    if before is not None and after is not None:
        facts["given"] = tuple(
            f"{what} {name}"
            for what in ("inputs", "weights", "seeds")
            for name, value in getattr(after, what).items()
            if getattr(before, what).get(name, value) != value
        )
        settings = [{**one.settings, "device": one.device, "dtype_policy": one.dtype_policy} for one in (before, after)]
        facts["settings"] = {
            name: (settings[0].get(name, ""), settings[1].get(name, ""))
            for name in {**settings[0], **settings[1]}
            if settings[0].get(name, "") != settings[1].get(name, "")
        }
    if old.environment is not None and new.environment is not None:
        facts["packages"] = old.environment.differences(new.environment)
    return facts
