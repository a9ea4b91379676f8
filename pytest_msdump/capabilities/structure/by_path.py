"""Modules of one path, of which the tensor that leaves them is compared (`scopes`), and weights of one name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.capabilities.structure.candidates import Candidates
from pytest_msdump.capabilities.structure.scopes import Path, ScopeRun, dotted, spelling_of
from pytest_msdump.core.facts.operators import OPTIMIZERS
from pytest_msdump.core.matching.kinds import WeightName, is_weight, kind_of, spelling_of_name, weight_name
from pytest_msdump.core.matching.leaving import Leaving
from pytest_msdump.core.matching.pairing_state import PairingRequest, PairingState
from pytest_msdump.core.model.dump import Edge, OperatorGraph
from pytest_msdump.core.text import Message, Parameter, say

_NUMBER = re.compile(r"[0-9]{1,9}")
# By what stands before them, numbers in paths with what stands behind.
_Numbers = defaultdict[str, defaultdict[int, set[str]]]


def pair_by_path(state: PairingState, request: PairingRequest, runs: Iterable[tuple[ScopeRun, ScopeRun]]) -> None:
    """Pair what leaves modules of one path, where calls, slots and shapes agree and nothing else may be meant."""
    meeting = _Meeting(state, request)
    for ours, theirs in runs:
        meeting.meet_all(ours.read_with(theirs), theirs.read_with(ours))
    meeting.candidates.add()


def _meetings(
    left: ScopeRun, right: ScopeRun, lefts: frozenset[Path], rights: frozenset[Path]
) -> Iterator[tuple[Path, Path]]:
    """Yield paths of one module among these: the same ones, then one name in two spellings that is no other's."""
    doubtful = _counted_otherwise(left, right)
    lefts = frozenset(path for path in lefts if doubtful.isdisjoint(before for before, _, _ in _numbers(path)))
    same = lefts & rights
    yield from ((path, path) for path in sorted(same))
    for path in sorted(lefts - same):
        ours, theirs = left.by_key[spelling_of(path)], right.by_key.get(spelling_of(path), [])
        if len(ours) == len(theirs) == 1 and theirs[0] in rights:
            yield path, theirs[0]


def _counted_otherwise(left: ScopeRun, right: ScopeRun) -> frozenset[str]:
    """Return what stands before the numbers of blocks that one side may count from 0 and the other from 1.

    So it may be where one side has other numbers, unless only some of its operators were dumped. Sizes and order say
    then which block is which, or nothing does.
    """
    inside: tuple[_Numbers, _Numbers] = (defaultdict(lambda: defaultdict(set)), defaultdict(lambda: defaultdict(set)))
    for run, found in zip((left, right), inside, strict=True):
        for path in run.by_key:
            for before, number, behind in _numbers(path):
                found[before][number].add(behind)
    return frozenset(
        before
        for before in inside[0].keys() & inside[1].keys()
        for ours, theirs in [(inside[0][before], inside[1][before])]
        # Parts of a list that have no parts themselves are no blocks.
        if any(sum(len(parts - {""}) > 1 for parts in side.values()) > 1 for side in (ours, theirs))
        and ours.keys() != theirs.keys()
        and (left.is_whole or not ours.keys() < theirs.keys())
        and (right.is_whole or not theirs.keys() < ours.keys())
    )


def _numbers(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield each number of a path, with what stands before it and behind it.

    >>> list(_numbers(("layer2", "0", "fc")))
    [('layer', 2, '_0fc'), ('layer2_', 0, 'fc')]
    """
    text = spelling_of_name("_".join(path))
    for match in _NUMBER.finditer(text):
        yield text[: match.start()], int(match[0]), text[match.end() :]


class _Folded(NamedTuple):
    """A recorded normalisation that the other side's convolution, at the path `inner`, has as a part.

    `norm` is the module that gives out the normalised values, if one does.
    """

    norm: Path | None
    convolution: Path
    inner: Path


def _folded_norms(modules: ScopeRun, nodes: ScopeRun) -> Iterator[_Folded]:
    """Yield the recorded normalisations that the other side has as a part of the convolution before."""
    if nodes.style != "nodes" or not nodes.members:
        return
    digests = frozenset(nodes.weights.values())
    has_norms = any(kind_of(step.op_type) == "batch norm" for step in nodes.steps)
    for first, norm, theirs in _norms(modules, nodes):
        fed = modules.before(first)
        if fed is None or modules.kind(fed) not in ("convolution", "linear") or "batch norm" in theirs:
            continue
        weight = modules.weights.get(".".join((*fed, "weight")))
        is_unchanged = weight in digests if weight is not None and digests else has_norms
        if len(convolutions := nodes.by_key.get(spelling_of(fed), [])) == 1 and not is_unchanged:
            yield _Folded(norm, fed, convolutions[0])


def _norms(modules: ScopeRun, nodes: ScopeRun) -> Iterator[tuple[Path, Path | None, frozenset[str]]]:
    """Yield of each normalisation its first module, the one that gives out its values, and the kinds of its nodes.

    timm's has an activation as a part, and in front of that one that passes the values on.
    """
    for path, (number, *_) in list(modules.modules.items()):
        own = nodes.by_key.get(spelling_of(path), [])
        if modules.kind(path) == "batch norm":
            yield path, path, frozenset({"batch norm"} if own else ())
        elif modules.kind(path) == "container" and "batchnorm" in (modules.side.ops[number].key.op_type or "").lower():
            first = min((one for one in modules.modules if one[: len(path)] == path), key=modules.modules.__getitem__)
            kinds = frozenset(kind_of(nodes.steps[step].op_type) for one in own for step in nodes.members.get(one, ()))
            yield first, first if modules.kind(first) == "passing" else None, kinds


class _Meeting:
    """What is found while modules meet."""

    def __init__(self, state: PairingState, request: PairingRequest) -> None:
        self._state = state
        self.candidates = Candidates(state, request)

    def meet_all(self, left: ScopeRun, right: ScopeRun) -> None:
        """Let every module of two runs meet the one of its path, normalisations those that they were folded into."""
        taken: dict[str, set[Path]] = {"left": set(), "right": set()}
        for one in _folded_norms(right, left):
            if one.norm is not None:
                self.meet(left, one.inner, right, one.norm)
            self._leave_out("right", right, one)
            taken["left"].add(one.inner)
            taken["right"].update((one.norm or one.convolution, one.convolution))
        for one in _folded_norms(left, right):
            if one.norm is not None:
                self.meet(left, one.norm, right, one.inner)
            self._leave_out("left", left, one)
            taken["left"].update((one.norm or one.convolution, one.convolution))
            taken["right"].add(one.inner)
        self.meet_weights(left, right)
        for ours, theirs in _meetings(left, right, left.clear - taken["left"], right.clear - taken["right"]):
            self.meet(left, ours, right, theirs)

    def _leave_out(self, side: str, modules: ScopeRun, one: _Folded) -> None:
        """Say that a convolution's own output does not exist on the other side."""
        why = Message("norm_folded", {"side": "left" if side == "right" else "right"})
        self.candidates.say_why(
            side, (ref for op in modules.modules[one.convolution] for ref in modules.side.outputs(op).values()), why
        )

    def meet_weights(self, left: ScopeRun, right: ScopeRun) -> None:
        """Take weights, gradients and an optimizer's state as candidates, of the names that both sides' mean."""
        ours, theirs = _states(left), _states(right)
        for name in ours.keys() & theirs.keys():
            called = self._state.right.op_with(theirs[name]).key.label
            self.candidates.take(Leaving({0: ours[name]}), Leaving({0: theirs[name]}), f"weight {called}", name=called)

    def meet(self, left: ScopeRun, left_path: Path, right: ScopeRun, right_path: Path) -> None:
        """Take what leaves one module as candidates, or say why it cannot be paired."""
        both = (left, left_path), (right, right_path)
        count = left.count(left_path) or right.count(right_path) or 1
        found = [run.calls(path, count) for run, path in both]
        why = next((one for one in found if isinstance(one, Message)), None)
        calls = [one if not isinstance(one, Message) else [] for one in found]
        if why is None and all(calls):
            why = self._difference(both, *calls)
        for side, run, path, leaving in zip(
            ("left", "right"), (left, right), (left_path, right_path), calls, strict=True
        ):
            own = {ref for call in leaving for ref in call.tensors.values()}
            if why is not None:
                self.candidates.say_why(side, own, why)
            elif path and all(calls):
                self.candidates.say_why(
                    side, (ref for ref in run.inner(path) if ref not in own), Message("inside_scope")
                )
        if why is None and all(calls):
            name = dotted(left_path)
            by = say(Message("same_scope", {"scope": name}))
            for one, other in zip(*calls, strict=True):
                self.candidates.take(one, other, by, name=name)

    @staticmethod
    def _difference(
        both: Iterable[tuple[ScopeRun, Path]], ours: Sequence[Leaving], theirs: Sequence[Leaving]
    ) -> Message | None:
        (left, path), (right, right_path) = both
        kinds = left.kind(path), right.kind(right_path)
        kinds = kinds if path == right_path or spelling_of(path) == spelling_of(right_path) else ("", "")
        scope: dict[str, Parameter] = {"scope": dotted(path)}
        if kinds[0] != kinds[1] and all(kinds) and "passing" not in kinds:
            return Message("scope_kinds_differ", {**scope, "ours": kinds[0], "theirs": kinds[1]})
        if len(ours) != len(theirs):
            return Message("scope_calls_differ", {**scope, "ours": len(ours), "theirs": len(theirs)})
        if any(one.tensors.keys() != other.tensors.keys() for one, other in zip(ours, theirs, strict=True)):
            return Message("scope_slots_differ", scope)
        return None


def _states(run: ScopeRun) -> Mapping[WeightName, int]:
    """Return weights, and what is kept beside each: its gradient, momentum and moments, as positions in `Side.refs`.

    MindSpore calls a gradient after the operator that made it; its graph says to which weight an optimizer applies it.
    """
    labels: dict[str, int] = {}
    named: defaultdict[WeightName, dict[tuple[int, int], None]] = defaultdict(dict)
    for number in run.numbers:
        key = run.side.ops[number].key
        labels[key.label] = number
        if is_weight(key) and (name := weight_name(key.label)) is not None:
            named[name][number, 0] = None
    for parameter, source in _gradients(run.graph) if run.graph is not None and not run.graph.is_recorded else ():
        if (name := weight_name(parameter)) is not None and source.producer in labels:
            named[name._replace(state="gradient")][labels[source.producer], source.slot] = None
    places = ((name, *places) for name, (places, *more) in ((name, [*own]) for name, own in named.items()) if not more)
    tensors = {name: run.side.ops[number].tensors.get(("output", slot)) for name, number, slot in places}
    return {name: ref for name, ref in tensors.items() if ref is not None}


def _gradients(graph: OperatorGraph) -> Iterator[tuple[str, Edge]]:
    """Yield each weight that an optimizer writes with the one tensor from outside of the optimizer that it takes."""
    operators = {operator.name: operator for operator in graph.operators}
    for operator in graph.operators:
        weight = operator.inputs[0] if operator.inputs else None
        if weight is None or not weight.is_parameter or not operator.op_type.lower().startswith(OPTIMIZERS):
            continue
        outside: dict[tuple[str, int], Edge] = {}
        waiting: list[Sequence[Edge | None]] = [operator.inputs]
        seen: set[str] = set()
        while waiting:
            for edge in waiting.pop():
                if edge is None or edge.is_parameter or edge.producer in seen:
                    continue
                if "/optimizer" in edge.producer and edge.producer in operators:
                    seen.add(edge.producer)
                    waiting.append(operators[edge.producer].inputs)
                else:
                    outside[edge.producer, edge.slot] = edge
        if len(outside) == 1:
            yield weight.producer, next(iter(outside.values()))
