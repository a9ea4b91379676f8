"""Where a mistake lies that is not an operator's own: between the last tensors that pass and the first that fails.

A recording of modules has nothing of what a model computes between them: rotary positions, masks, residuals. Such code
belongs to the module around it, so that this one is the cause, and not the next layer, which is given a wrong tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from pytest_msdump.capabilities.causes.edges import OperatorRun, PairGroup
from pytest_msdump.capabilities.causes.growth import NetworkNode
from pytest_msdump.capabilities.causes.roles import MOST_LISTED, Role
from pytest_msdump.core.model.record import Region

Nodes = Mapping[OperatorRun, NetworkNode[OperatorRun]]
# Operators that give the right output of no other input; a norm does.
_SHOWS_INPUT = re.compile("Linear|Dense|Conv|Embedding|MatMul")
# What makes a failure unknown that lies between what passes and what fails.
_BETWEEN = ("unseen", "shared")


class _Way(NamedTuple):
    """What leads to a tensor: the nearest operators that were compared, and those between that were not."""

    start: tuple[OperatorRun, ...]
    between: tuple[OperatorRun, ...]


class Regions:
    """Gives the causes of a recording to the modules that they lie in; ``regions`` are by operator."""

    def __init__(
        self,
        group: PairGroup,
        nodes: Nodes,
        roles: dict[OperatorRun, Role[OperatorRun]],
        label: Callable[[OperatorRun], str],
        *,
        is_reported: Callable[[OperatorRun], bool],
        is_fed_otherwise: Callable[[OperatorRun], bool],
        is_chosen: Callable[[OperatorRun], bool],
    ) -> None:
        self.regions: dict[OperatorRun, Region] = {}
        self._group, self._nodes, self._roles = group, nodes, roles
        self._label, self._is_reported, self._is_fed_otherwise, self._is_chosen = (
            label,
            is_reported,
            is_fed_otherwise,
            is_chosen,
        )
        self._known: list[tuple[OperatorRun, OperatorRun, OperatorRun | None, _Way]] = []
        for run in nodes:
            if run in roles and self._begins(run):
                self._place(run)

    def _begins(self, run: OperatorRun) -> bool:
        role = self._roles[run]
        is_doubtful = role.name == "unknown" and role.why in _BETWEEN
        return run.kind in ("op", "input") and (is_doubtful or (role.name == "cause" and role.why in ("", "grew")))

    def _place(self, run: OperatorRun) -> None:
        """Say where a failure begins, and let the module around it, or an earlier one of the region, have the role."""
        role, way = self._roles[run], self._way(run)
        if self._group.is_trained(run):
            return
        # What is wrong before one call of a module is wrong before each.
        known = (owner for end, owner, *_ in self._known if end._replace(occurrence=run.occurrence) == run)
        if (owner := next(known, None)) is not None:
            self._inherit(run, owner)
            return
        if way is None or not all(map(self._is_chosen, way.between)):
            if run.kind == "input" and not self._is_reported(run):
                # What has no record can say nothing of itself.
                self._give(run, run._replace(kind="op", slot=0), role)
            return
        is_fed_otherwise = self._is_fed_otherwise(run)
        module = self._module(run, way if is_fed_otherwise or not self._is_operation(run) else way._replace(start=()))
        for _, owner, other, earlier in self._known:
            # What is wrong in the code of a module is wrong in each call of it, and may be so at several of its ends.
            is_same = module is not None and other is not None and module.name == other.name
            # What a cache or a state keeps is wrong wherever it is read.
            is_kept = not set(earlier.start).isdisjoint(way.start) and self._is_within(other, module)
            if set(earlier.between) & set(way.between) or is_kept or (is_same and self._is_code(run)):
                self._inherit(run, owner)
                return
        is_exact = run.kind == "op" and not way.between and not is_fed_otherwise and self._is_known(run)
        owner = self._owner(run, module)
        self._known.append((run, owner, module, way))
        if not is_exact:
            name = "" if module is None else self._label(module)
            shown = [one for one in way.start if one.kind != "gap" and (module is None or not _is_of(one, module))]
            after = [self._name(one) for one in shown]
            between = [self._label(one) for one in way.between if one.kind == "op"]
            lines = self._group.lines(way.start, run)
            self.regions[owner] = Region(name, tuple(after), self._label(run), _io(run), tuple(between), lines)
        self._give(run, owner, replace(role, name="cause", why=role.why if role.name == "cause" else "", jump=run))

    def _give(self, run: OperatorRun, owner: OperatorRun, role: Role[OperatorRun]) -> None:
        """Let another operator have a role."""
        if owner != run:
            self._inherit(run, owner)
        self._roles[owner] = role

    def _is_within(self, inner: OperatorRun | None, outer: OperatorRun | None) -> bool:
        return inner is not None and (outer in (None, inner) or outer in self._around(inner))

    def _name(self, run: OperatorRun) -> str:
        return f"{self._label(run)}:input:{run.slot}" if run.kind == "input" else self._label(run)

    def _is_known(self, run: OperatorRun) -> bool:
        """Whether all that an operator was given is known, so that what it gives is its own."""
        if self._group.calls_inside.get(run):
            return False
        producers = [feed.producer for feed in self._nodes[run].feeds or ()]
        if self._is_operation(run):
            # What views made of the network's input is no operation.
            return not self._group.begins(run)
        return {one.kind if one else "" for one in producers} in ({"input"}, {"input", "parameter"})

    def _is_code(self, run: OperatorRun) -> bool:
        """Whether it is no module but an operation in one, or what happens between two."""
        return run.kind == "input" or self._is_operation(run)

    def _is_operation(self, run: OperatorRun) -> bool:
        return run.kind == "op" and "/" in run.name

    def _inherit(self, run: OperatorRun, owner: OperatorRun) -> None:
        self._roles[run] = Role("inherited", causes=(owner,))
        for one, role in self._roles.items():
            if run in role.causes and one != owner:
                causes = dict.fromkeys(owner if cause == run else cause for cause in role.causes)
                self._roles[one] = replace(role, causes=tuple(causes))

    def _owner(self, run: OperatorRun, module: OperatorRun | None) -> OperatorRun:
        """Return what stands for the code before an input: a module around it that fails, else the operator."""
        if run.kind != "input":
            return run
        outer = [one for one in self._around(run) if one in self._nodes and self._nodes[one].is_compared]
        if module in outer:
            outer = outer[outer.index(module) :]
        if outer and self._nodes[outer[0]].status == "fails":
            return outer[0]
        return run if self._is_reported(run) else run._replace(kind="op", slot=0)

    def _around(self, run: OperatorRun) -> Iterator[OperatorRun]:
        """Yield the modules around an operator, innermost first; operations alone are recorded with their paths."""
        around = self._group.around(run)
        path = run.name.rpartition("/")[0] if around is None and run.kind == "op" else ""
        while around is not None:
            yield around
            around = self._group.around(around)
        while path:
            yield OperatorRun("module", path)
            path, _, last = path.rpartition(".")
            # A list of modules is called by nothing.
            path = path.rpartition(".")[0] if last.isdecimal() else path

    def _module(self, run: OperatorRun, way: _Way) -> OperatorRun | None:
        """Return the innermost module around a failure and all that leads to it."""
        if run.kind == "op" and self._group.calls_inside.get(run) and self._is_inside(way, run, run):
            return run
        if self._is_operation(run) and self._group.begins(run):
            return None
        return next((outer for outer in self._around(run) if self._is_inside(way, outer, run)), None)

    def _is_inside(self, way: _Way, outer: OperatorRun, run: OperatorRun) -> bool:
        """Whether all that leads to a failure ran inside of a module, or was given to it and is right there."""
        given = {entry.producer.kind for entry in self._group.inputs(outer) or ()}
        return all(
            "gap" not in given
            if one.kind == "gap"
            else self._ran_inside(one, outer, run) or _is_of(one, outer) or self._was_given(outer, one)
            for one in (*way.start, *way.between)
            if one.kind in ("op", "input", "gap")
        )

    def _ran_inside(self, one: OperatorRun, outer: OperatorRun, run: OperatorRun) -> bool:
        """Whether an operator ran inside of the call of a module in which another one did.

        Where operations alone were recorded, a call is what ran without anything else between.
        """
        if outer not in self._around(one):
            return False
        inside = (f"{outer.name}/", f"{outer.name}.")
        return outer.kind != "module" or all(
            between.name.startswith(inside) for between in self._group.between(one, run)
        )

    def _was_given(self, outer: OperatorRun, start: OperatorRun) -> bool:
        """Whether a call inside of a module passes that took what the module was given, or another such module."""
        # What a layer goes on from is its first input; a state or a cache is another one.
        are_first = {entry.slot == 0 for entry in self._group.inputs(outer) or () if entry.producer == start}
        if not are_first:
            return False
        kind = self._group.type_of(outer)
        # The call that made it gives it, and was not given it.
        made = {start, *self._around(start)}
        passing = ((run, node) for run, node in self._nodes.items() if node.status == "passes" and run not in made)
        return any(
            any(one.producer == start and (one.slot == 0) in are_first for one in self._group.inputs(run) or ())
            if kind and self._group.type_of(run) == kind
            else outer in self._around(run)
            and start in {one.producer for one in node.feeds or ()}
            and (_SHOWS_INPUT.search(self._group.type_of(run)) or self._adds_nothing(node, start))
            for run, node in passing
        )

    def _adds_nothing(self, node: NetworkNode[OperatorRun], start: OperatorRun) -> bool:
        """Whether an operator's error is not larger than its input's: a norm of a tensor times 4 is nearly the same."""
        fed = self._nodes[start].drift
        return node.drift is not None and fed is not None and node.drift.error <= fed.error

    def _way(self, run: OperatorRun) -> _Way | None:
        """Return what leads to a failure; ``None`` if a way up ends where nothing is known."""
        start: dict[OperatorRun, None] = {}
        between: dict[OperatorRun, None] = {}
        waiting = [run]
        while waiting:
            feeds = self._nodes[waiting.pop(0)].feeds
            if feeds is None or any(feed.producer is None and feed.status is None for feed in feeds):
                return None
            for producer in dict.fromkeys(feed.producer for feed in feeds if feed.producer):
                node = self._nodes.get(producer)
                if node is None or producer.kind == "update" or (producer.kind == "gap" and node.status != "passes"):
                    return None
                if node.is_compared or producer.kind == "parameter":
                    start[producer] = None
                elif producer not in between and node.status != "given":
                    between[producer] = None
                    waiting.append(producer)
        shown = [one for one in start if one.kind in ("op", "input", "rest", "gap")][:MOST_LISTED]
        return _Way(tuple(shown), tuple(between))


def _is_of(given: OperatorRun, module: OperatorRun) -> bool:
    """Whether it is what a module was given."""
    return given.kind == "input" and (given.name, given.occurrence) == (module.name, module.occurrence)


def _io(run: OperatorRun) -> str:
    return "input" if run.kind == "input" else "output"
