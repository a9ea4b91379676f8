"""Which operator started it: the role of every failing tensor, and how much each operator amplifies its inputs' error.

The definition is ``docs/explanation/localising.md``, and this module has its order: edges, the way up from a
failing operator, without a graph, what cannot be known. Roles and reasons are codes; `causes.reasons` makes sentences.
How the error grows is `causes.growth`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from pytest_msdump.capabilities.causes.edges import BY_ORDER, OperatorRun, PairGroup, after_step, groups
from pytest_msdump.capabilities.causes.growth import (
    JUMP,
    Drift,
    Grown,
    NetworkNode,
    drift_of,
    growth_by_graph,
    growth_by_order,
)
from pytest_msdump.capabilities.causes.iterations import first_iterations, with_first_iteration
from pytest_msdump.capabilities.causes.operator_status import TensorStatus, is_unjoined, operator_nodes
from pytest_msdump.capabilities.causes.regions import Regions
from pytest_msdump.capabilities.causes.roles import (
    MOST_LISTED,
    Role,
    reason_text,
    roles_by_graph,
    roles_by_order,
    roles_by_replay,
    with_shown_names,
)
from pytest_msdump.core import ports
from pytest_msdump.core.compare.comparing import comparer_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.facts.operators import COLLECTIVE_FRAGMENTS, PASSING_TYPES
from pytest_msdump.core.matching import explain
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import ErrorGrowth, Record, Region, RoleReason, Suspect
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, Transform
from pytest_msdump.core.text import Message, say

# Inputs that are compared to know where a mistake is.
_MOST_INPUTS = 64


@dataclass(frozen=True)
class Localised:
    """What localising adds to a report."""

    records: Mapping[int, Record] = field(default_factory=dict)
    by: str = ""
    # Operators that may be causes, and the modules around them.
    doubted: frozenset[OpKey] = frozenset()
    edges: tuple[tuple[int, int], ...] = ()


def with_causes(report: Report, plan: Plan) -> Report:
    """Return the report with roles, how errors grew, pairs that look wrong, and steps counted differently."""
    run = {number: record for number, record in enumerate(report.records) if record.was_run}
    found = localise(plan, run)
    given: dict[TensorKey, Record] = {}
    while more := inputs_of_causes(plan, found.doubted, given):
        given |= more
        found = localise(plan, run, given)
    placed = {**run, **found.records}
    notes: list[Message] = []
    if any(record.fails for record in run.values()):
        # Loaded for what fails alone.
        from pytest_msdump.capabilities.causes.mispaired import mispaired, step_shift

        for explain_together in ports.bound("together"):
            placed |= explain_together(plan, placed)
        placed |= with_first_iteration(placed)
        compare = comparer_of(plan).compare
        notes += step_shift(plan, placed, lambda pair, other: not compare(replace(pair, right=other)).fails)
        # What follows an operator that drew masks cannot agree.
        drawn = {
            one.left.true_name or one.left.name or one.left.address: None
            for one in placed.values()
            if any(remark.code.startswith("random_masks") for remark in one.remarks)
        }
        notes += [Message("random_operators", {"names": explain.listed(drawn)})] if drawn else []
        for number, fits in mispaired(plan, placed).items():
            placed[number] = replace(placed[number], suspicious=fits)
    return replace(
        report,
        records=with_shown_names(
            (placed.get(number, record) for number, record in enumerate(report.records)), report.left.shown
        ),
        notes=(*report.notes, *map(say, notes)),
        localised_by=found.by,
        edges=found.edges,
    )


def inputs_of_causes(plan: Plan, doubted: Set[OpKey], known: Mapping[TensorKey, Record]) -> dict[TensorKey, Record]:
    """Compare what operators that may be causes were given, and modules around them, where both sides saved it."""
    pairs = {pair.left.key.op: pair for pair in plan.pairing.pairs if pair.left.key.io == "output"}
    compared = {pair.left.key for pair in plan.pairing.pairs} | known.keys()
    inputs: list[dict[tuple[OpKey, int], TensorRef]] = [
        {(ref.key.op, ref.key.slot): ref for ref in dump.refs if ref.key.io == "input"} if doubted else {}
        for dump in (plan.left, plan.right)
    ]
    found: dict[TensorKey, Record] = {}
    compare = comparer_of(plan).compare
    first = first_iterations(doubted)
    for (op, slot), ref in inputs[0].items():
        partner = pairs.get(op) if op in first and ref.key not in compared else None
        other = inputs[1].get((partner.right.key.op, slot)) if partner is not None else None
        if partner is not None and other is not None and len(known) + len(found) < _MOST_INPUTS:
            found[ref.key] = compare(replace(partner, left=ref, right=other, transform=Transform()))
    return found


def localise(plan: Plan, records: Mapping[int, Record], given: Mapping[TensorKey, Record] | None = None) -> Localised:
    """Give failing records their roles, and outputs their amplification.

    `records` are by number of the pair; `given` are of inputs that were compared for this alone.
    """
    if not records or plan.left.root.is_file():
        return Localised()
    found = groups(plan.left, plan.rules.base, right=plan.right, pairs=plan.pairing.pairs)
    _link_iterations(found)
    status = TensorStatus(plan.pairing, records, given)
    left_out = _LeftOut(plan)
    parts: dict[Coordinates, _Part] = {}
    for group in found:
        parts[group.at] = _Part(group, status, parts, left_out)
    _take_back_doubtful_causes(list(parts.values()))
    compared = [(number, pair.left.key) for number, pair in enumerate(plan.pairing.pairs) if number in records]
    localised = {}
    for number, key in compared:
        record, part = records[number], parts[key.op.at.part]
        placed = part.with_role(record, key) if record.fails or key.io == "output" else record
        if placed is not record:
            localised[number] = placed
    shown = [part.group for part in parts.values() if part.is_compared]
    edges = tuple(edge for group in shown for edge in group.edges())
    localised |= roles_by_replay({**records, **localised}, edges)
    doubted = frozenset(op for part in parts.values() for op in part.doubted())
    return Localised(localised, " and ".join(dict.fromkeys(group.by for group in shown)), doubted, edges)


def _link_iterations(found: Iterable[PairGroup]) -> None:
    """Fill `before` of each group with what the iteration before left behind, of the same graph if it has that."""
    linked = [group for group in found if group.at.iteration is not None]
    dumped: defaultdict[tuple[object, ...], dict[str, dict[int | None, tuple[PairGroup, OpKey]]]] = defaultdict(dict)
    for group in linked:
        at = group.at
        for name, op in after_step(group.tensors).items():
            dumped[at.rank, at.net, at.iteration].setdefault(name, {})[at.graph] = (group, op)
    for group in linked:
        at = group.at
        for name, graphs in dumped.get((at.rank, at.net, (at.iteration or 0) - 1), {}).items():
            group.before[name] = graphs.get(at.graph) or next(reversed(graphs.values()))


class _LeftOut:
    """Operators of the right side that the left has not, where the right side's graph says what they feed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _groups(self) -> Mapping[Coordinates, PairGroup]:
        return {group.at: group for group in groups(self._plan.right, None)}

    @cached_property
    def _partners(self) -> Mapping[TensorKey, list[OpKey]]:
        found: dict[TensorKey, list[OpKey]] = {}
        for pair in self._plan.pairing.pairs:
            found.setdefault(pair.left.key, []).append(pair.right.key.op)
        return found

    @cached_property
    def _lefts(self) -> Mapping[OpKey, OpKey]:
        return {pair.right.key.op: pair.left.key.op for pair in self._plan.pairing.pairs}

    def feeds(self, key: TensorKey) -> Set[OpKey] | None:
        """Return the partners of what feeds the partner of a left tensor; ``None`` where not all is known."""
        found: set[OpKey] = set()
        for partner in self._partners.get(key, ()):
            group = self._groups.get(partner.at.part)
            if group is None or partner not in group.tensors or (inputs := group.inputs(group.run_of(partner))) is None:
                return None
            for entry in inputs:
                op = group.op_of(entry.producer)
                if op is None or op not in self._lefts:
                    return None
                found.add(self._lefts[op])
        return found

    @cached_property
    def _paired(self) -> Set[OpKey]:
        return {op for ops in self._partners.values() for op in ops}

    @cached_property
    def _places(self) -> Mapping[OpKey, int]:
        return {ref.key.op: ref.place for ref in self._plan.right.refs if ref.place is not None}

    def place(self, key: TensorKey) -> int | None:
        """Return the place of a left tensor's partner in the right run."""
        return next((self._places.get(op) for op in self._partners.get(key, ())), None)

    def beside(self, key: TensorKey) -> dict[str, int]:
        """Return operators without a partner that ran before a left tensor's partner, in the same module; and where."""
        partner, place = next(iter(self._partners.get(key, ())), None), self.place(key)
        if partner is None or place is None:
            return {}
        return {
            op.label: at
            for op, at in self._places.items()
            if at < place and op not in self._paired and op.at == partner.at and _parent(op) == _parent(partner)
        }

    def before(self, key: TensorKey) -> tuple[str, ...]:
        """Return the operators without a partner between the partner of a left tensor and what was paired before it."""
        found: dict[str, None] = {}
        for partner in self._partners.get(key, ()):
            group = self._groups.get(partner.at.part)
            # A tensor that was put together from several files stands under a key of its own.
            if group is None or partner not in group.tensors:
                continue
            seen, waiting = set(), [group.run_of(partner)]
            while waiting and len(found) < MOST_LISTED:
                for entry in group.inputs(waiting.pop()) or ():
                    run, op = entry.producer, group.op_of(entry.producer)
                    if run.kind == "op" and run not in seen and op not in self._paired:
                        seen.add(run)
                        waiting.append(run)
                        if op is not None and (op.op_type or group.type_of(run)) not in PASSING_TYPES:
                            found[op.label] = None
        return tuple(found)


class _Part:
    """One rank, net, graph and iteration of the run: its operators, and the roles of those that fail."""

    def __init__(
        self, group: PairGroup, status: TensorStatus, parts: Mapping[Coordinates, _Part], left_out: _LeftOut
    ) -> None:
        self.group = group
        self.roles: dict[OperatorRun, Role[OperatorRun]] = {}
        self._regions: Mapping[OperatorRun, Region] = {}
        self._status = status
        self._parts = parts
        self._left_out = left_out
        self._nodes = operator_nodes(group, status)
        self.is_compared = any(node.is_compared and run.kind != "given" for run, node in self._nodes.items())
        # Parameters of the iteration before that fail do so there.
        failing = [run for run, node in self._nodes.items() if node.status == "fails" and run.kind != "given"]
        self.fails = bool(failing)
        if group.by == BY_ORDER:
            nodes = dict(self._in_order())
            self._grown = growth_by_order(nodes)
            self.roles = roles_by_order(nodes, self._grown) if failing else {}
            self._regions = dict(self._regions_in_order(nodes)) if failing else {}
        else:
            self._grown = growth_by_graph(self._nodes)
            self.roles = roles_by_graph(self._nodes, self._grown) if failing else {}
        if group.knows_calls and failing:
            self._regions = Regions(
                group,
                self._nodes,
                self.roles,
                self._label,
                is_reported=self._is_reported,
                is_fed_otherwise=self._is_fed_otherwise,
                is_chosen=self._is_chosen,
            ).regions
        self._first_failing_pass = min((run.occurrence for run in failing if run.kind == "op"), default=0)

    def _in_order(self) -> Iterator[tuple[OperatorRun, NetworkNode[OperatorRun]]]:
        """Yield operators as they ran, without a graph, then parameters."""
        placed: list[tuple[int, int, OperatorRun]] = []
        parameters: list[OperatorRun] = []
        for run, (op, refs) in zip(self.group.runs, self.group.tensors.items(), strict=True):
            place = refs[0].place
            if op.op_type == PARAMETER:
                parameters.append(run)
            elif place is not None:
                placed.append((run.occurrence, place, run))
            elif self._nodes[run].status != "passes":
                yield run, replace(self._nodes[run], status="unseen")
        if self.group.has_place_per_call:
            placed = [(0, place, run) for _, place, run in placed]
        expected = 0
        for occurrence, place, run in sorted(placed):
            if occurrence == 0 and place > expected:
                yield OperatorRun("gap", run.name, place - expected), NetworkNode("unseen", None)
            expected = max(expected, place + 1)
            yield run, self._nodes[run]
        yield from ((run, self._nodes[run]) for run in parameters)

    def doubted(self) -> Iterator[OpKey]:
        """Yield the operators that may be causes, and the modules around them."""
        for head in [run for run, role in self.roles.items() if role.name in ("cause", "unknown")]:
            run: OperatorRun | None = head
            while run is not None:
                if (op := self.group.op_of(run)) is not None:
                    yield op
                run = self.group.around(run)

    def _is_reported(self, run: OperatorRun) -> bool:
        return any(self._status.is_reported(ref.key) for ref in self.group.refs_of(run))

    def _is_chosen(self, run: OperatorRun) -> bool:
        """Whether an operator that was not compared was left out by no selection."""
        return self._status.state(self.group, run) not in ("not run", "not selected")

    def _is_fed_otherwise(self, run: OperatorRun) -> bool:
        """Whether the right's graph has the partner fed by others, or by something that the left lacks."""
        feeds = {op for entry in self.group.inputs(run) or () if (op := self.group.op_of(entry.producer)) is not None}
        keys = [ref.key for ref in self.group.refs_of(run) if ref.key.io == "output"]
        return any(self._left_out.before(key) or self._left_out.feeds(key) not in (None, feeds) for key in keys)

    def _regions_in_order(self, nodes: Iterable[OperatorRun]) -> Iterator[tuple[OperatorRun, Region]]:
        """Yield where the first failure lies: behind the last operator that passes, up to it or to its input."""
        passing: list[OperatorRun] = []
        waiting = iter(nodes)
        for run in waiting:
            role = self.roles.get(run)
            if role is not None and role.name != "accumulated":
                if role.name == "cause" and role.why in ("", "given") and self.inputs_of(run) != {"passes"}:
                    # What the right runs before, and the left does not, may be what is wrong.
                    missed = self._beside(run)
                    behind = min(missed.values(), default=inf)
                    after = [one for one in passing if (self._place(one) or 0) < behind][-1:]
                    # What ends later, and begins the names of both, is around both.
                    outer = [
                        one for one in (run, *waiting) if all(_is_in(inner.name, one.name) for inner in (*after, run))
                    ]
                    module = self._label(outer[0]) if outer and after else ""
                    # A module is wrong anywhere between what it calls, which passes.
                    after = [one for one in after if not (outer and outer[0] == run)]
                    io, lines = "input" if role.why == "given" else "output", self.group.lines(after, run)
                    self.roles[run] = replace(role, why="")
                    yield run, Region(module, tuple(map(self._label, after)), self._label(run), io, (*missed,), lines)
                return
            if run in self._nodes and self._nodes[run].status == "passes":
                passing.append(run)

    def _place(self, run: OperatorRun) -> int | None:
        return next(
            (place for ref in self.group.refs_of(run) if (place := self._left_out.place(ref.key)) is not None), None
        )

    def _beside(self, run: OperatorRun) -> dict[str, int]:
        return next((found for ref in self.group.refs_of(run) if (found := self._left_out.beside(ref.key))), {})

    def inputs_of(self, run: OperatorRun) -> set[str | None]:
        """Return the statuses of an operator's own inputs; exactly ``"passes"`` is evidence against it."""
        return {self._status.of(ref.key) for ref in self.group.refs_of(run) if ref.key.io == "input"}

    def may_inherit_from_before(self, run: OperatorRun) -> bool:
        """Whether an operator takes something that an earlier part of the run left behind and that was not compared."""
        # What writes to a parameter in this step is known, and what it read is among what was given.
        is_read = run.kind == "parameter" and run.name not in self.group.writers
        return bool(self.roles[run].given) or is_read or self.group.by == BY_ORDER

    def follows_failing_pass(self, run: OperatorRun) -> bool:
        """Whether an earlier pass of a loop fails, and no edge shows what it carries on."""
        is_call = self.group.knows_calls or self.group.has_place_per_call
        return run.occurrence > self._first_failing_pass and not is_call

    def reads_other_ranks(self, run: OperatorRun) -> bool:
        """Whether an operator is a collective that takes values of other ranks."""
        op = self.group.op_of(run)
        op_type = self.group.type_of(run) or (op.op_type if op is not None else None) or ""
        return any(fragment in op_type for fragment in COLLECTIVE_FRAGMENTS)

    def not_compared_inside(self, run: OperatorRun) -> tuple[OperatorRun, ...]:
        """Return what ran inside of a module, where nothing was compared that feeds it or ran inside of it."""
        compared = [one for one, node in self._nodes.items() if node.is_compared]
        feeds = {feed.producer for feed in self._nodes[run].feeds or ()}
        if self._grown[run].factor is not None or any(
            one in feeds or self.group.is_inside(one, run) for one in compared
        ):
            return ()
        return tuple(self.group.calls_inside.get(run, ())[-MOST_LISTED:])

    def with_role(self, record: Record, key: TensorKey) -> Record:
        run = self.group.run_of(key.op)
        grown = self._grown.get(run) or Grown()
        if key.io == "output" and grown.amplification is not None and key.op not in self.group.namesakes:
            record = record.changed(amplification=grown.amplification)
        if record.fails:
            if is_unjoined(record):
                return record
            role = self._role_of(run, key, drift_of(record))
        elif grown.is_jump and drift_of(record) == grown.drift:
            role = self.roles.get(run) or Role("", why="jump")
        else:
            return record
        why = self._reason(role, run, key)
        return replace(
            record,
            role=role.name or None,
            causes=self._addresses(role.causes),
            suspects=tuple(map(self._label, role.suspects)),
            role_reason=reason_text(why, key.op.label) if role.name and why is not None else "",
            role_why=why,
        )

    def _role_of(self, run: OperatorRun, key: TensorKey, drift: Drift | None) -> Role[OperatorRun]:
        """Return the operator's role; what its producer makes it for an input of one that has none, or is a cause."""
        role = self.roles.get(run)
        # Of code before an input, the error grew there.
        grown = self._grown.get(run if role is None or role.jump is None else role.jump) or Grown()
        if key.io == "input" and (given := self.roles.get(run._replace(kind="input", slot=key.slot))) is not None:
            return given
        is_explained = False
        if role is not None and role.why == "grew" and drift and grown.drift and grown.factor and key.io == "output":
            is_explained = (drift.share or inf) * grown.factor < JUMP * (grown.drift.share or 0)
        if role is not None and (role.name != "cause" or (key.io == "output" and not is_explained)):
            return role
        feeds = self.group.sources(run, key.slot)
        if is_explained:
            feeds = [feed.producer for feed in self._nodes[run].feeds or () if feed.producer]
        if not feeds or (key.io == "output" and not is_explained):
            if self.group.by != BY_ORDER:
                return Role("unknown", why="feeds")
            if key.io == "input":
                # Made by what ran before.
                return Role("inherited")
            return Role("unknown", why="no_order" if role is None else "order")
        failing = next((one for one in feeds if one in self.roles), None)
        if failing is None:
            return Role("unknown", suspects=(feeds[0],), why="input")
        above = self.roles[failing]
        if above.name == "inherited":
            return Role("inherited", causes=above.causes)
        name = "accumulated" if above.name == "accumulated" else "inherited"
        return Role(name, causes=above.causes if name == "accumulated" and above.causes else (failing,))

    def _reason(self, role: Role[OperatorRun], run: OperatorRun, key: TensorKey) -> RoleReason | None:
        """Return why it has its role; ``None`` for an inherited failure whose causes say it."""
        why, suspects = role.why, role.suspects
        is_first = self.group.by == BY_ORDER and self.inputs_of(run) != {"passes"}
        if role.name == "cause":
            is_weight = run.kind == "parameter" and run.name not in self.group.writers
            why = why or ("weight" if is_weight else "first" if is_first else "passing")
        elif role.name == "accumulated":
            why = "accumulated"
        elif role.name == "inherited" and not why:
            why = "before" if suspects else "step"
            suspects = suspects or tuple(one for one in role.causes if one.kind == "given")
            if not suspects:
                return None
        # A parameter that was compared has its verdict for the value after the step.
        before = [one for one in role.given if any(self._status.of(ref.key) for ref in self.group.refs_of(one))]
        left_out = self._left_out.before(key) if role.name in ("cause", "unknown") else ()
        at = run._replace(kind=key.io, slot=key.slot) if key.io == "input" else run
        region = self._regions.get(at) if role.name == "cause" else None
        if region is not None:
            region, left_out = region._replace(operators=(*region.operators, *left_out)), ()
        return RoleReason(
            why,
            suspects=tuple(map(self._suspect, suspects)),
            given=tuple(self._label(one) for one in role.given if one not in before),
            before=tuple(map(self._label, before)),
            left_out=left_out,
            growth=self._growth(role, run if role.jump is None else role.jump),
            region=region,
            certainty="" if role.name != "cause" else "first_seen" if is_first else "bounded",
        )

    def _growth(self, role: Role[OperatorRun], run: OperatorRun) -> ErrorGrowth | None:
        """Return how the error grew: at the operator, or on all its path if it accumulated; ``None`` if unknown."""
        grown = self._grown.get(run) or Grown()
        if grown.factor is None or grown.drift is None or (role.name == "unknown" and role.jump is None):
            return None
        end = grown.drift.share or 0.0
        if role.name == "accumulated" and grown.at is not None:
            return ErrorGrowth(grown.start, end, grown.steps, grown.step, self._label(grown.at))
        return ErrorGrowth(end / (grown.factor or 1.0), end, 1, grown.factor, self._label(run))

    def _suspect(self, run: OperatorRun) -> Suspect:
        if run.kind == "gap":
            return Suspect(run.name, "not dumped", run.occurrence)
        node = self._nodes.get(run)
        is_judged = node is not None and node.status in ("fails", "passes")
        return Suspect(self._label(run), node.status if node and is_judged else self._status.state(self.group, run))

    def _addresses(self, runs: Iterable[OperatorRun]) -> tuple[str, ...]:
        """Return the tensors that stand for operators, the first output of each that fails."""
        found: dict[str, None] = {}
        for run in runs:
            found |= dict.fromkeys(self._left_behind(run.name) if run.kind == "given" else (self._address(run),))
        return tuple(found)[:MOST_LISTED]

    def _left_behind(self, parameter: str) -> tuple[str, ...]:
        """Return the causes of a parameter that fails in the iteration before; if it has none there, itself."""
        group, op = self.group.before[parameter]
        earlier, run = self._parts[group.at], group.run_of(op)
        role = earlier.roles.get(run)
        if role is not None and role.name == "inherited" and role.causes:
            return earlier._addresses(role.causes)
        return (earlier._address(run),)

    def _address(self, run: OperatorRun) -> str:
        keys = [ref.key for ref in self.group.refs_of(run) if ref.key.io == "output"]
        failing = [key for key in keys if self._status.of(key) == "fails"]
        # A cause that passes: the output that jumped.
        drift = self._status.drift_of_outputs(self.group, run)
        jumped = [key for key in keys if drift is not None and self._status.drift_of(key) == drift]
        return next((key.address for key in (*failing, *jumped)), self._label(run))

    def _label(self, run: OperatorRun) -> str:
        if run.kind == "gap":
            before = "operators_before" if run.occurrence else "operations_before"
            return say(Message(before, {"n": run.occurrence, "operator": run.name}))
        op = self.group.op_of(run)
        return op.label if op is not None else run.name


def _parent(op: OpKey) -> str:
    return op.label.rpartition("." if "." in op.label else "_")[0]


def _is_in(inner: str, outer: str) -> bool:
    """Whether a name is that of a module or of something inside of it, as people write paths."""
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}_", f"{outer}/"))


def _take_back_doubtful_causes(parts: Iterable[_Part]) -> None:
    """Make a cause unknown if an earlier part of the run, another rank, or all that ran inside of it may be the one."""
    parts = list(parts)
    failing_ranks = {part.group.at.rank for part in parts if part.fails}
    failing_before: set[int | None] = set()
    for part in parts:
        rank = part.group.at.rank
        failing = [run for run, role in part.roles.items() if role.name == "cause" and role.why != "jump"]
        for run in failing:
            if part.inputs_of(run) == {"passes"}:
                # A collective's other inputs are those of the other ranks.
                peers = (other for other in parts if other.group.at._replace(rank=rank) == part.group.at)
                if part.reads_other_ranks(run) and any("fails" in other.inputs_of(run) for other in peers):
                    part.roles[run] = Role("unknown", why="ranks")
            elif part.follows_failing_pass(run) or (rank in failing_before and part.may_inherit_from_before(run)):
                part.roles[run] = Role("unknown", why="earlier")
            elif failing_ranks - {rank} and part.reads_other_ranks(run):
                part.roles[run] = Role("unknown", why="ranks")
            elif inside := part.not_compared_inside(run):
                part.roles[run] = Role("unknown", suspects=inside, why="unseen")
        if part.fails:
            failing_before.add(rank)
