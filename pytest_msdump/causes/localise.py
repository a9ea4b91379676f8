"""Which operator started it: roles of failing records, and how much operators make an error grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_msdump.causes.amplification import Amplified
from pytest_msdump.causes.edges import BY_ORDER, Group, Run, groups, link_iterations
from pytest_msdump.causes.frontier import MOST_LISTED, Node, Role, by_order, frontier
from pytest_msdump.causes.operator_status import Standings, nodes_of
from pytest_msdump.causes.role_reasons import reason_text
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.facts.operators import COLLECTIVE_FRAGMENTS
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.pairing import Pairing
from pytest_msdump.model.record import Record, RoleReason, Suspect
from pytest_msdump.model.tensor import Coordinates, TensorKey
from pytest_msdump.text import Message, say

__all__ = ["Localised", "localised"]

# Rank, net, graph and iteration.
_Where = tuple[int | None, str | None, int | None, int | None]


def _where(at: Coordinates) -> _Where:
    return (at.rank, at.net, at.graph, at.iteration)


@dataclass(frozen=True)
class Localised:
    """What localising adds to a report.

    Parameters
    ----------
    records : mapping of int to Record
        By number of the pair: those that got a role or an amplification.
    by : str
        What told who feeds whom; several are joined by ``" and "``. Empty where nothing was compared.
    edges : tuple of (int, int)
        Producer and consumer, as records' `order` counts operators; of operators that were dumped.
    """

    records: Mapping[int, Record] = field(default_factory=dict)
    by: str = ""
    edges: tuple[tuple[int, int], ...] = ()


def localised(plan: Plan, records: Mapping[int, Record]) -> Localised:
    """Give every failing record its role, and every record whose error can be followed its amplification.

    Parameters
    ----------
    plan : Plan
        Who was to be compared, and the graphs.
    records : mapping of int to Record
        What was compared, by number of the pair.
    """
    if not records or plan.left.root.is_file():
        return Localised()
    fails = any(record.fails for record in records.values())
    # Where nothing does, nobody asks what is known of each operator.
    standings = Standings(plan.pairing, records) if fails else Standings(Pairing(), {})
    divided = groups(plan.left, plan.rules.base)
    if fails:
        link_iterations(divided)
    by_place: dict[_Where, _Found] = {}
    for group in divided:
        by_place[_where(group.at)] = _Found(group, standings, by_place)
    found = list(by_place.values())
    _doubt(found)
    return Localised(
        _localised_records(plan, records, by_place),
        " and ".join(dict.fromkeys(one.group.by for one in found if one.amplified.is_compared)),
        tuple(edge for one in found if one.amplified.is_compared for edge in one.group.edges()),
    )


def _localised_records(
    plan: Plan, records: Mapping[int, Record], by_place: Mapping[_Where, _Found]
) -> Mapping[int, Record]:
    asked: list[tuple[Record, int, _Found, TensorKey, Run]] = []
    last: _Where | None = None
    for number, pair in enumerate(plan.pairing.pairs):
        record = records.get(number)
        if record is None:
            continue
        key = pair.left.key
        at = key.op.at
        where = _where(at)
        # Neighbours mostly are of one group.
        if where != last:
            one, last = by_place[where], where
        run = one.group.run_of(key.op)
        if key.io == "output" or record.fails:
            asked.append((record, number, one, key, run))
        if record.was_run:
            one.amplified.add(key, run, record)
    # Only when all are known, one can be told by another.
    found: dict[int, Record] = {}
    for record, number, one, key, run in asked:
        if record.fails:
            record = one.with_role(record, key, run)
        growth = one.amplified.of(run) if key.io == "output" else None
        if record.fails or growth is not None:
            found[number] = replace(record, amplification=growth)
    return found


class _Found:
    """Roles of one group's operators."""

    def __init__(self, group: Group, standings: Standings, earlier: Mapping[_Where, _Found]) -> None:
        self.group = group
        self.standings = standings
        self._earlier = earlier
        self.amplified = Amplified(group)
        self.nodes = nodes_of(group, standings) if standings.fails else {}
        # What the iteration before left behind failed there.
        self.fails = any(node.standing == "fails" and run.kind != "given" for run, node in self.nodes.items())
        if not self.fails:
            self.roles: dict[Run, Role[Run]] = {}
        elif group.by == BY_ORDER:
            self.roles = by_order(dict(self._in_order()))
        else:
            self.roles = frontier(self.nodes)
        # The earliest pass of a loop that fails.
        self._first_pass = min((run.occurrence for run in self.roles if run.kind == "op"), default=0)

    def _in_order(self) -> Iterator[tuple[Run, Node[Run]]]:
        """As they ran: passes of loops one after another, gaps as what they are, parameters after the step.

        What has no known place comes before all.
        """
        placed: list[tuple[int, int, Run]] = []
        parameters: list[tuple[Run, Node[Run]]] = []
        for op, refs in self.group.tensors.items():
            run = self.group.run_of(op)
            if op.op_type == PARAMETER:
                parameters.append((run, self.nodes[run]))
                continue
            if refs[0].place is not None:
                placed.append((run.occurrence, refs[0].place, run))
            elif self.nodes[run].standing != "passes":
                yield run, replace(self.nodes[run], standing="unseen")
        expected = 0
        for occurrence, place, run in sorted(placed):
            if occurrence == 0 and place > expected:
                # Whoever ran in between left nothing, not even a name.
                yield Run("gap", run.name, place - expected), Node("unseen", None)
            expected = max(expected, place + 1)
            yield run, self.nodes[run]
        yield from parameters

    def has_own_evidence(self, run: Run) -> bool:
        """Whether all that the operator was given was compared and passes."""
        op = self.group.op_of(run)
        refs = self.group.tensors[op] if op is not None else ()
        inputs = [self.standings.of(ref.key) for ref in refs if ref.key.io == "input"]
        return bool(inputs) and set(inputs) == {"passes"}

    def has_earlier(self, run: Run) -> bool:
        """Whether an earlier pass of a loop fails."""
        return run.occurrence > self._first_pass

    def with_role(self, record: Record, key: TensorKey, run: Run) -> Record:
        """Return the record of a failing tensor with its role; `run` is its operator."""
        role = self._role(run, key)
        why = self._why(role, run)
        return replace(
            record,
            role=role.name,
            causes=self._addresses(role.causes),
            suspects=tuple(self._label(one) for one in role.suspects),
            role_reason="" if why is None else reason_text(why),
            role_why=why,
        )

    def _why(self, role: Role[Run], run: Run) -> RoleReason | None:
        """Why it has its role, for a sentence in any language; an inherited failure mostly needs none."""
        by_order = self.group.by == BY_ORDER and not self.has_own_evidence(run)
        why = {"unknown": role.why, "cause": "first" if by_order else "passing", "inherited": "before"}[role.name]
        suspects = role.suspects
        if role.name == "inherited" and not suspects:
            why, suspects = "step", tuple(one for one in role.causes if one.kind == "given")
            if not suspects:
                return None
        # A parameter that was compared was so after the step.
        before = [one for one in role.given if self._is_compared(one)]
        return RoleReason(
            why,
            suspects=tuple(self._described(one) for one in suspects),
            given=tuple(self._label(one) for one in role.given if one not in before),
            before=tuple(self._label(one) for one in before),
        )

    def _is_compared(self, run: Run) -> bool:
        op = self.group.op_of(run)
        return op is not None and any(self.standings.of(ref.key) for ref in self.group.tensors[op])

    def _role(self, run: Run, key: TensorKey) -> Role[Run]:
        """The operator's role; that of its source, where an input fails and the outputs tell no role."""
        if run in self.roles and (key.io == "output" or self.roles[run].name != "cause"):
            return self.roles[run]
        feeds = [entry.producer for entry in self.group.inputs(run) or () if entry.slot == key.slot]
        if key.io == "output" or not feeds:
            return Role("unknown", why="order" if self.group.by == BY_ORDER else "feeds")
        above = self.roles.get(feeds[0])
        if above is None:
            return Role("unknown", suspects=(feeds[0],), why="input")
        return Role("inherited", causes=above.causes if above.name == "inherited" else (feeds[0],))

    def _addresses(self, runs: Iterable[Run]) -> tuple[str, ...]:
        """The tensors that stand for operators: of each the first output that fails."""
        found: dict[str, None] = {}
        for run in runs:
            found |= dict.fromkeys(self._left_behind(run.name) if run.kind == "given" else (self._address(run),))
        return tuple(found)[:MOST_LISTED]

    def _left_behind(self, parameter: str) -> tuple[str, ...]:
        """What a parameter goes back to that fails in the iteration before: its own causes there, else itself."""
        group, op = self.group.before[parameter]
        earlier = self._earlier[_where(group.at)]
        run = group.run_of(op)
        role = earlier.roles.get(run)
        if role is not None and role.name == "inherited" and role.causes:
            return earlier._addresses(role.causes)
        return (earlier._address(run),)

    def _address(self, run: Run) -> str:
        op = self.group.op_of(run)
        keys = [ref.key for ref in self.group.tensors[op]] if op is not None else []
        failing = [key for key in keys if key.io == "output" and self.standings.of(key) == "fails"]
        return failing[0].address if failing else self._label(run)

    def _label(self, run: Run) -> str:
        if run.kind == "gap":
            return say(Message("operators_before", {"n": run.occurrence, "operator": run.name}))
        op = self.group.op_of(run)
        return op.label if op is not None else run.name

    def _described(self, run: Run) -> Suspect:
        """An operator without a verdict that counts; of a gap how many there are before whom."""
        if run.kind == "gap":
            return Suspect(run.name, "not dumped", run.occurrence)
        node = self.nodes.get(run)
        is_judged = node is not None and node.standing in ("fails", "passes")
        state = node.standing if node is not None and is_judged else self.standings.state(self.group, run)
        return Suspect(self._label(run), state)


def _doubt(found: Sequence[_Found]) -> None:
    """Take back a cause where what it was given may come from a part of the run that fails as well."""
    failing_before: set[int | None] = set()
    failing_ranks = {one.group.at.rank for one in found if one.fails}
    for one in found:
        rank = one.group.at.rank
        for run, role in list(one.roles.items()):
            if role.name != "cause" or one.has_own_evidence(run):
                continue
            # What writes to a parameter in this step is known, and what it read is among what was given.
            is_read = run.kind == "parameter" and run.name not in one.group.writers
            is_given = bool(role.given) or is_read or one.group.by == BY_ORDER
            if (rank in failing_before and is_given) or one.has_earlier(run):
                one.roles[run] = Role("unknown", why="earlier")
            elif failing_ranks - {rank} and _gathers(one, run):
                one.roles[run] = Role("unknown", why="ranks")
        if one.fails:
            failing_before.add(rank)


def _gathers(one: _Found, run: Run) -> bool:
    """Whether an operator takes values of other ranks."""
    op = one.group.op_of(run)
    op_type = one.group.type_of(run) or (op.op_type if op is not None else None) or ""
    return any(fragment in op_type for fragment in COLLECTIVE_FRAGMENTS)
