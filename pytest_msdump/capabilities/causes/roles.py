"""Roles of failing operators: from the status of each, what feeds it, and how the error grew. See ``localising.md``.

Operators may be any hashable values. Nothing here recurses, so a network may be as deep as it likes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from pytest_msdump.capabilities.causes.growth import (
    Grown,
    NetworkNode,
    components,
    growth_by_graph,
    growth_by_order,
    numbered,
)
from pytest_msdump.core import ports
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.describe import number
from pytest_msdump.core.model.record import ErrorGrowth, Record, Region, RoleReason, Suspect
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.text import ENGLISH, Phrases

_MOST_NAMED = 4
_DIGITS = 3
# Reasons that stand alone; others say what else may be behind it.
_OF_CAUSES = ("first", "passing", "grew", "jump")


def reason_of(record: Record, say: Phrases) -> str:
    """Return why a failing record has its role; a record of another version may only have the English sentence."""
    why = record.role_why
    for one in record.diagnosis:
        if any(one.id in names for names in ports.values("TOGETHER").values()):
            return terminal_text(say.of(one.evidence))
    if why is None or not say.knows(f"why_{why.why}") or (say.is_english and record.role_reason):
        return terminal_text(record.role_reason)
    return terminal_text(reason_text(why, record.left.key.op.label, say))


def reason_text(why: RoleReason, operator: str, say: Phrases = ENGLISH) -> str:
    """Return why an operator has its role, as a sentence.

    >>> reason_text(RoleReason("unseen", (Suspect("conv3", "not dumped"),)), "bn2")
    'not all of its inputs were compared: conv3 (not dumped)'
    >>> reason_text(RoleReason("grew", growth=ErrorGrowth(0.25, 10.5, 1, 42.0, "bn2")), "bn2")
    'an input of it, or an operator before it, fails, too; its error grew × 42, from 0.25 to 10.5 of its limit'
    """
    text = _reason_alone(why, operator, say)
    return say(f"certainty_{why.certainty}", text=text) if why.certainty else text


def with_shown_names(records: Iterable[Record], shown: Mapping[str, str]) -> tuple[Record, ...]:
    """Return records whose reasons have the names under which operators are shown."""
    say = ENGLISH.calling(shown)
    named = []
    for record in records:
        why, operator = record.role_why, record.left.key.op.label
        is_ours = shown and why is not None and record.role_reason == reason_text(why, operator)
        named.append(replace(record, role_reason=reason_text(why, operator, say)) if is_ours and why else record)
    return tuple(named)


def _reason_alone(why: RoleReason, operator: str, say: Phrases) -> str:
    suspects = say.named((_suspect_text(one, say) for one in why.suspects), _MOST_NAMED)
    grown = _numbers(why.growth, say)
    parts = [say(f"why_{why.why}", suspects=suspects, **grown)]
    if why.region is not None:
        text = region_text(why.region, say)
        parts = [say("region_first", text=text) if why.why == "first" else text]
    if why.why in _OF_CAUSES and why.growth is not None:
        if why.growth.start > 0:
            parts.append(say("grown", **grown))
        elif why.why != "passing":
            parts.append(say("grown_from_equal", **grown))
    parts += [say("left_out", names=say.named(why.left_out, _MOST_NAMED))] if why.left_out else []
    if why.why not in _OF_CAUSES:
        return say.joined(parts, "between_clauses")
    # Where they are between two tensors that were compared, the region names them.
    if why.suspects and not (why.region is not None and why.region.operators):
        names = [_counted(one, say) for one in why.suspects[:_MOST_NAMED]]
        text, more = say.joined(names, "between_choices"), len(why.suspects) - len(names)
        text = say("names_and_more", names=text, n=more) if more else text
        parts.append(say("or_before", operator=say.name(operator), suspects=text))
    parts += [say("given_unseen", names=say.named(why.given, _MOST_NAMED))] if why.given else []
    parts += [say("given_before", names=say.named(why.before, _MOST_NAMED))] if why.before else []
    return say.joined(parts, "between_clauses")


def region_text(region: Region, say: Phrases = ENGLISH) -> str:
    """Return where a mistake is.

    >>> region_text(Region("layers.0", ("layers.0.qkv",), "layers.0.o", "input"))
    'in layers.0, after qkv, before the input of o'
    """
    module = say.name(region.module)
    inside = f"{module}."
    after = say.named((say.name(one).removeprefix(inside) for one in region.after), _MOST_NAMED)
    text = say(f"region_{region.io}", end=say.name(region.end).removeprefix(inside))
    text = say("region_after", after=after, text=text) if after else text
    text = say("region_in", module=module, text=text) if module else text
    names = say.named((say.name(one).removeprefix(inside) for one in region.operators), _MOST_NAMED)
    text = say("region_operators", text=text, names=names) if names else text
    return say("region_lines", text=text, lines=region.lines) if region.lines else text


def _numbers(growth: ErrorGrowth | None, say: Phrases) -> dict[str, Any]:
    if growth is None:
        return {"start": "?", "end": "?", "step": "?", "at": "?", "n": 0}
    shown = {name: number(getattr(growth, name), _DIGITS) for name in ("start", "end")}
    return {**shown, "step": step_text(growth.step, say), "at": say.name(growth.at), "n": growth.operators}


def step_text(factor: float, say: Phrases = ENGLISH) -> str:
    """Return by how much an error grew, with three digits.

    >>> step_text(28.3018), step_text(290237.0), step_text(float("inf"))
    ('× 28.3', '× 290000', 'from 0')
    """
    if factor == inf:
        return say("step_from_equal")
    short = float(f"{factor:.{_DIGITS}g}")
    return say("step_times", factor=number(int(short) if 100 <= short < 1e6 else factor, _DIGITS))


def _suspect_text(suspect: Suspect, say: Phrases) -> str:
    code = f"state_{suspect.state.replace(' ', '_')}"
    return say("in_brackets", text=_counted(suspect, say), aside=say(code) if say.knows(code) else suspect.state)


def _counted(suspect: Suspect, say: Phrases) -> str:
    """Return the name of an operator, or how many operators before it are meant."""
    operator, before = say.name(suspect.operator), suspect.before
    if before is None:
        return operator
    return say("operators_before" if before else "operations_before", n=before, operator=operator)


MOST_LISTED = 8

Op = TypeVar("Op", bound=Hashable)

# Not compared, and not the end of a path: the search goes on to what feeds them.
_WALKED = ("part", "forwards")


@dataclass(frozen=True, slots=True)
class Role(Generic[Op]):
    """The role of a failing operator, or of a passing one that is the cause of failures.

    `name` is ``"cause"``, ``"accumulated"``, ``"inherited"`` or ``"unknown"``. `causes` are where an inherited or
    accumulated failure begins: causes, unknown failures, and accumulated ones if there is nothing else; the first eight
    in the order of the nodes. `suspects` are operators that were not compared, one of which may be the cause; `given`
    weights and inputs of the network that feed it and were not compared.

    `why` says why it is unknown: ``"unseen"`` (some of `suspects`), ``"shared"`` (`suspects` feed several that fail),
    ``"circle"`` (it and `suspects` feed one another), ``"order"``, ``"order_jump"`` (the error jumped at `jump`
    before), ``"feeds"`` (its inputs are unknown), or a code of the caller's. Of a cause: ``"jump"`` if it passes,
    ``"grew"`` if what feeds it fails, too, ``"given"`` if it is the first and was given what is wrong. Of an inherited
    failure: ``"within"`` if the error jumped at `jump`, a cause that passes.
    """

    name: str
    causes: tuple[Op, ...] = ()
    suspects: tuple[Op, ...] = ()
    given: tuple[Op, ...] = ()
    why: str = ""
    jump: Op | None = None


def roles_by_graph(
    nodes: Mapping[Op, NetworkNode[Op]], grown: Mapping[Op, Grown[Op]] | None = None
) -> dict[Op, Role[Op]]:
    """Return the role of every failing operator, and of passing ones that are the cause of failures.

    `nodes` are in execution order; a producer that is not among them counts as unseen. Operators that were not compared
    are walked through, up to the nearest that were. How the error grew decides where it is known (`grown`, by default
    `growth_by_graph`); else a failure is a cause if everything that feeds it passes, and one below a failing operator
    is inherited though it may be wrong as well: only its own inputs, compared and passing, can show it.
    """
    return _Frontier(nodes, growth_by_graph(nodes) if grown is None else grown).roles()


def roles_by_order(
    nodes: Mapping[Op, NetworkNode[Op]], grown: Mapping[Op, Grown[Op]] | None = None
) -> dict[Op, Role[Op]]:
    """Return the role of every failing operator where only their order is known.

    The first to fail is the cause unless an operator before it was not seen, or the error was nearly as large before;
    so is a later one whose error is far larger than all before it. Others are unknown: one that passes clears nothing.
    An operator's own inputs, where they were compared, decide before its place does, and a module inherits from what
    fails inside of it. Where all that fails inside was given it there, the module made it itself.
    """
    roles: dict[Op, Role[Op]] = {}
    grown = growth_by_order(nodes) if grown is None else grown
    unseen: list[Op] = []
    parts: list[Op] = []
    jump: Op | None = None
    for op, node in nodes.items():
        inputs = {feed.status for feed in node.feeds or () if not feed.is_inside}
        inside = [one for feed in node.feeds or () if feed.is_inside and (one := feed.producer) in roles]
        begun = _begun_inside(inside, roles)
        given = [one for one in inside if roles[one].why == "given"]
        is_given_inside = (
            bool(inside) and not begun and all(roles[one].name == "inherited" or one in given for one in inside)
        )
        factor = grown[op].factor if op in grown else None
        is_small, is_large = (op in grown and grown[op].is_small), (op in grown and grown[op].is_large)
        if node.status == "unseen":
            unseen.append(op)
        elif node.status == "part":
            parts.append(op)
        elif node.status == "passes":
            # An operator between two compared ones is part of the later one.
            parts.clear()
        elif node.status == "fails":
            is_first = all(role.name == "accumulated" for role in roles.values())
            if begun and (factor is None or is_small):
                role: Role[Op] = Role("inherited", causes=begun)
            elif "fails" in inputs:
                # What made its input is not among what was compared.
                is_given = is_first and not unseen and not is_large
                role = Role("cause", why="given" if is_given else "grew") if is_large or is_given else Role("inherited")
            elif inputs == {"passes"} and (is_given_inside or not is_small):
                role = Role("cause")
                # What made the input of one inside is the module's own.
                roles |= dict.fromkeys(given, Role("inherited", causes=(op,)))
            elif is_first and is_small and jump is None:
                role = Role("accumulated", causes=tuple(roles)[:1])
            elif is_first and is_small:
                role = Role("unknown", why="order_jump", jump=jump)
            elif roles and not is_first and not is_large:
                role = Role("unknown", why="order")
            elif unseen:
                role = Role("unknown", suspects=tuple(unseen[-MOST_LISTED:]), why="unseen")
            else:
                role = Role("cause", suspects=tuple(parts[-MOST_LISTED:]), why="grew" if roles else "")
            roles[op] = role
            parts.clear()
        if op in grown and grown[op].is_jump and (jump is None or (factor or 0) > (grown[jump].factor or 0)):
            jump = op
    return roles


def _begun_inside(inside: Iterable[Op | None], roles: Mapping[Op, Role[Op]]) -> tuple[Op, ...]:
    """Return where the failures inside of a module begin; none of those that accumulated, or of an unknown input."""
    found: dict[Op, None] = {}
    for one in inside:
        if one is not None and roles[one].name != "accumulated" and roles[one].why != "given":
            found |= dict.fromkeys(roles[one].causes if roles[one].name == "inherited" else (one,))
    return tuple(found)[:MOST_LISTED]


@dataclass(slots=True)
class _Above:
    """What lies above an operator, up to the nearest that were compared, by number."""

    roots: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    fails: bool = False
    # Failures that begin below; whether there are two is all that matters.
    heads: set[int] = field(default_factory=set)
    shared: tuple[int, ...] = ()


class _Frontier(Generic[Op]):
    """Operators by number, so that "the first eight" means the first in execution order."""

    def __init__(self, nodes: Mapping[Op, NetworkNode[Op]], grown: Mapping[Op, Grown[Op]]) -> None:
        known = numbered(nodes)
        self._grown = [grown.get(name) or Grown() for name in known]
        self._names = list(known)
        self._nodes = list(known.values())
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._producers = [list(dict.fromkeys(self._followed(node))) for node in self._nodes]
        self._above = [_Above() for _ in self._nodes]
        self._roles: dict[int, Role[Op]] = {}

    def roles(self) -> dict[Op, Role[Op]]:
        """Go from producers to consumers, then back to count what several share, then down again."""
        circles = list(components(self._producers))
        for circle in circles:
            self._judge(circle)
        for circle in reversed(circles):
            self._count_heads(circle)
        for circle in circles:
            self._doubt_shared(circle)
        return {self._names[number]: self._roles[number] for number in sorted(self._roles)}

    def _followed(self, node: NetworkNode[Op]) -> Iterator[int]:
        """Yield the producers that a failure may have come through."""
        if node.status not in ("passes", "given"):
            for feed in node.feeds or ():
                if feed.status != "passes" and feed.producer is not None:
                    number = self._numbers[feed.producer]
                    if self._nodes[number].status != "passes":
                        yield number

    def _judge(self, circle: Sequence[int]) -> None:
        """Gather what lies above operators that feed one another (usually one alone), and give their roles."""
        outside = [self._above[number] for member in circle for number in self._producers[member]]
        above = _Above(
            roots=_first(number for one in outside for number in one.roots),
            parts=_last(number for one in outside for number in one.parts),
            unseen=_first(number for one in outside for number in one.unseen),
            given=_first(number for one in outside for number in one.given),
            fails=any(one.fails for one in outside),
        )
        for member in circle:
            self._add_evidence(above, member)
        for member in circle:
            node = self._nodes[member]
            if node.status == "part":
                above.parts = _last((*above.parts, member))
            elif node.status == "given":
                above.given = _first((*above.given, member))
            if node.status == "unseen" or (node.status in _WALKED and node.feeds is None):
                above.unseen = _first((*above.unseen, member))
        failing = [member for member in circle if self._nodes[member].status == "fails"]
        if failing:
            is_known = all(self._nodes[member].feeds is not None for member in circle)
            self._give_roles(failing, above, is_known=is_known)
            role = self._roles[failing[0]]
            has_roots = role.name == "inherited" or (role.name == "accumulated" and role.causes)
            roots = (self._numbers[one] for one in role.causes) if has_roots else failing
            above = _Above(roots=_first(roots), parts=above.parts, fails=True)
        for member in circle:
            self._above[member] = above

    def _add_evidence(self, above: _Above, member: int) -> None:
        """Let an input that fails show that its producer does, even if the producer was not compared."""
        for feed in self._nodes[member].feeds or ():
            if feed.status != "fails":
                continue
            number = None if feed.producer is None else self._numbers[feed.producer]
            status = "" if number is None else self._nodes[number].status
            # A producer that fails is followed anyway, unless this very operator feeds it.
            above.fails |= status != "fails"
            if number is not None and status == "passes":
                above.unseen = _first((*above.unseen, number))

    def _give_roles(self, failing: Sequence[int], above: _Above, *, is_known: bool) -> None:
        name, why, suspects, roots = "unknown", "unseen", above.unseen, above.roots
        grown: Grown[Op] = self._grown[failing[0]] if len(failing) == 1 else Grown()
        begun = tuple(number for number in roots if self._name_of(number) != "accumulated")
        if grown.is_large and above.fails and not above.unseen:
            # It inherits, too, but far more than that is its own.
            name, why, suspects, roots = "cause", "grew", above.parts, ()
        elif above.fails and begun:
            name, suspects, roots = "inherited", (), begun
        elif grown.is_small and grown.origins:
            name, why, suspects, roots = "inherited", "within", (), _first(self._numbers[op] for op in grown.origins)
            for number in roots:
                self._roles.setdefault(number, Role("cause", why="jump"))
        elif grown.is_small and (above.roots or not above.fails):
            name, suspects = "accumulated", ()
        elif above.fails:
            name, suspects = "inherited", () if above.roots else (above.unseen or above.parts)
        elif len(failing) > 1:
            why, suspects = "circle", tuple(failing[:MOST_LISTED])
        elif not above.unseen and not is_known:
            why = "feeds"
        elif not above.unseen:
            name, suspects = "cause", above.parts
        for member in failing:
            self._roles[member] = Role(
                name,
                causes=self._named(roots),
                suspects=self._named(number for number in suspects if number != member),
                given=() if name in ("inherited", "accumulated") else self._named(above.given),
                why=why if name == "unknown" or why in ("grew", "within") else "",
                jump=grown.origins[0] if why == "within" else None,
            )

    def _name_of(self, number: int) -> str:
        return self._roles[number].name if number in self._roles else ""

    def _count_heads(self, circle: Sequence[int]) -> None:
        """Pass up to operators that were not compared which failures begin below them, at most two each."""
        heads = {member for member in circle if self._name_of(member) in ("cause", "unknown")}
        for member in circle:
            heads |= self._above[member].heads
        two = sorted(heads)[:2]
        for member in circle:
            for producer in self._producers[member]:
                if self._nodes[producer].status != "fails" and len(self._above[producer].heads) < 2:
                    self._above[producer].heads.update(two)
            if self._nodes[member].status != "fails":
                self._above[member].heads.update(two)

    def _doubt_shared(self, circle: Sequence[int]) -> None:
        """Take back a cause that has a part above it in common with another failure."""
        shared: tuple[int, ...] = ()
        for member in circle:
            for producer in self._producers[member]:
                if self._nodes[producer].status != "fails":
                    shared = _first((*shared, *self._above[producer].shared))
            if self._nodes[member].status == "part" and len(self._above[member].heads) > 1:
                shared = _first((*shared, member))
        for member in circle:
            self._above[member].shared = shared
            role = self._roles.get(member)
            if shared and role is not None and role.name == "cause":
                self._roles[member] = Role("unknown", suspects=self._named(shared), given=role.given, why="shared")

    def _named(self, numbers: Iterable[int]) -> tuple[Op, ...]:
        return tuple(self._names[number] for number in numbers)


def _first(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[:MOST_LISTED])


def _last(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[-MOST_LISTED:])


def roles_by_replay(records: Mapping[int, Record], edges: Iterable[tuple[int, int]]) -> dict[int, Record]:
    """Return the records whose role a replay decides, by number; `edges` are producer and consumer by their `order`."""
    if not any(record.local for record in records.values()):
        return {}
    feeds: defaultdict[int, set[int]] = defaultdict(set)
    for producer, consumer in edges:
        if producer < consumer:
            feeds[consumer].add(producer)
    by_order: defaultdict[int, list[int]] = defaultdict(list)
    # What a mistake inside of a module went into comes from it, though the module ends later.
    reached: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for place, record in records.items():
        by_order[record.order].append(place)
        for name in record.local.before if record.local else ():
            reached[name][record.left.address] = None
    decided: dict[int, Record] = {}
    # By operator; those without a record hand on what they were given.
    above: dict[int, _Sources] = {}
    before: defaultdict[Coordinates, _Sources] = defaultdict(_Sources)
    right = {record.left.address for record in records.values() if _outcome(record) == "pass"}
    for order in sorted({*by_order, *feeds, *(one for producers in feeds.values() for one in producers)}):
        fed = _joined(above[producer] for producer in sorted(feeds[order]) if producer in above)
        made = [] if order in by_order else [fed]
        for place in sorted(by_order[order]):
            record = records[place]
            outcome, seen = _outcome(record), before[record.left.at.part]
            own = _Sources(
                tuple(reached[record.left.key.op.label]), () if _is_judged(record) else (record.left.address,)
            )
            came = _joined((own, fed if feeds[order] else seen))
            if outcome == "fail":
                decided[place] = _wrong_by_itself(record)
            elif record.fails and outcome == "pass":
                decided[place] = _right_by_itself(record, came)
            elif record.fails and record.role == "inherited" and right.intersection(record.causes):
                decided[place] = replace(record, causes=came.wrong)
            elif outcome == "pass" and record.role is not None:
                decided[place] = record.without_role()
            if outcome == "fail" or (outcome == "" and record.fails and record.role in ("cause", "unknown")):
                own = _Sources((record.left.address,))
                made.append(own)
            else:
                made.append(_joined((own, fed)) if feeds else came)
            before[record.left.at.part] = _joined((seen, own))
        above[order] = _joined(made)
    return decided


class _Sources(NamedTuple):
    """What something comes from: addresses where failures begin, and of what was not judged."""

    wrong: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


def _joined(several: Iterable[_Sources]) -> _Sources:
    kinds = zip(*several, strict=True)
    return _Sources(*(tuple(dict.fromkeys(one for some in kind for one in some))[:MOST_LISTED] for kind in kinds))


def _is_judged(record: Record) -> bool:
    """Whether a replay judged it, or it is nothing that was computed."""
    why = None if record.local is None else record.local.why
    return bool(_outcome(record)) or (why is not None and why.code in ("local_input", "local_weight"))


def _wrong_by_itself(record: Record) -> Record:
    local, region, label = record.local, None, record.left.key.op.label
    if local is not None and local.before:
        # Without a module around it that has a partner, it is said of what it was given to.
        module = label.rpartition("/")[0] if label == local.before[0] else label
        region = Region(module, local.after, local.before[0], "input")
    elif local is not None and local.after:
        region = Region("", local.after, label, "output")
    return _with_role(record, "cause", (), RoleReason("local", region=region, certainty="proven"))


def _right_by_itself(record: Record, came: _Sources) -> Record:
    if came.wrong:
        return _with_role(record, "inherited", came.wrong, RoleReason("local_inherited"))
    if came.unjudged:
        suspects = tuple(Suspect(one, "not replayed") for one in came.unjudged)
        return _with_role(record, "unknown", (), RoleReason("local_unjudged", suspects))
    return _with_role(record, "accumulated", (), RoleReason("local_accumulated"))


def _outcome(record: Record) -> str:
    """Return what a replay says; nothing where it has no judgement."""
    return "" if record.local is None or record.local.why is not None else record.local.outcome


def _with_role(record: Record, name: str, causes: tuple[str, ...], why: RoleReason) -> Record:
    suspects = tuple(one.operator for one in why.suspects)
    reason = reason_text(why, record.left.key.op.label)
    return replace(record, role=name, causes=causes, suspects=suspects, role_reason=reason, role_why=why)
