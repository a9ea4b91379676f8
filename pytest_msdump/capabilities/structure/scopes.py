"""Pairing by structure: a module of one side with the module of the same path on the other.

What is compared of a module is the tensor that leaves it. A recorded module has it as its own output. Where a dump has
the operators inside instead, edges say which tensor crosses the border of the module's scope; without edges it is the
last operator inside, provided that nothing else may be.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from pytest_msdump.capabilities.structure.shared_scopes import most_repeats, paths_of_callers, strays
from pytest_msdump.core.facts.operators import LAST_OPERATORS, VIEW_TYPES
from pytest_msdump.core.matching.kinds import WRAPPERS, is_weight, kind_of, spelling_of_name
from pytest_msdump.core.matching.leaving import Leaving
from pytest_msdump.core.matching.sides import Side, graph_at
from pytest_msdump.core.model.dump import PARAMETER, Dump, OperatorGraph
from pytest_msdump.core.model.tensor import OpKey
from pytest_msdump.core.text import Message, Parameter

# Names of modules from the outermost to the innermost; empty for the model itself.
Path = tuple[str, ...]
Shape = tuple[int, ...]

# What the cells of a training step, and loops of one's own, call the loss.
_LOSSES = frozenset({"lossfn", "criterion", "lossfunction", "losscell"})
_OPTIMIZERS = frozenset({"optimizer", "_optimizer"})
# In names of files a class of cells ends where an underscore stands; no class of MindSpore's has one.
_FILED_CLASS = re.compile(r"(-[A-Za-z][A-Za-z0-9]*)_")
_MINDSPORE = re.compile(r".*-op[0-9]+", re.DOTALL)
_CALL = re.compile(r"(?P<name>.+)_(?P<call>[0-9]{1,9})", re.DOTALL)
_GRADIENT = re.compile(r"(?P<name>.+)/(?P<kind>grad|grad_input|grad_output)", re.DOTALL)
# A path of more modules is no program's.
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the model an operator is."""

    path: Path | None
    calls: tuple[int, ...] = ()
    is_apart: bool = False
    last_class: str = ""


_NOWHERE = Scope(None)
_APART = Scope(None, is_apart=True)


def node_scope(name: str, known: Callable[[Path], bool]) -> Scope:
    """Return the scope of an operator, by its full name of which the last part is the operator itself.

    `known` says whether the other side has a module of a path. It decides whether ``relu_1`` is a module, or the second
    call of ``relu``.

    >>> node_scope("Default/network-Net/layer0-EncLayer/q-Dense/BiasAdd-op0", lambda path: False).path
    ('layer0', 'q')
    >>> node_scope("/layer1/layer1.0/relu_1/Relu", lambda path: False)
    Scope(path=('layer1', '0', 'relu'), calls=(0, 0, 1), is_apart=False, last_class='')
    """
    parts = name.split("/")[:-1]
    if len(parts) > _DEEPEST:
        return _NOWHERE
    if _MINDSPORE.fullmatch(name):
        return _mindspore_scope(parts)
    if name.startswith("/"):
        return _onnx_scope(parts[1:], known)
    return Scope(_unwrapped(tuple(parts)))


def _unfiled(name: str) -> str:
    """Return the name of an operator of MindSpore with the slashes that its file has as underscores.

    >>> _unfiled("Default_layer-CellList_0-EncLayer_fc_1-Dense_MatMul-op4")
    'Default/layer-CellList/0-EncLayer/fc_1-Dense/MatMul-op4'
    """
    if "/" in name or not name.startswith("Default_") or not _MINDSPORE.fullmatch(name):
        return name
    return "Default/" + _FILED_CLASS.sub(r"\1/", name.removeprefix("Default_"))


def _mindspore_scope(parts: Sequence[str]) -> Scope:
    if parts[:1] != ["Default"]:
        return _APART if parts and parts[0] != "Expand" else _NOWHERE
    modules = [part.rpartition("-") if "-" in part else (part, "", "") for part in parts[1:]]
    path = _unwrapped(tuple(name for name, _, _ in modules))
    if path[:1] and path[0] in _OPTIMIZERS:
        return _APART
    return Scope(path, last_class=modules[-1][2] if modules else "")


def _onnx_scope(parts: Sequence[str], known: Callable[[Path], bool]) -> Scope:
    """Read the scopes of PyTorch's older exporter: a child of a list repeats its parent's name, as ``layer1.0``."""
    path: list[str] = []
    calls: list[int] = []
    parent = ""
    for part in parts:
        base, call = part, 0
        again = _CALL.fullmatch(part)
        if again and not known((*path, *_child(part, parent))):
            base, call = again["name"], int(again["call"])
        names = _child(base, parent)
        path += names
        calls += [0] * (len(names) - 1) + [call]
        parent = base
    return Scope(_unwrapped(tuple(path)), tuple(calls))


def _child(part: str, parent: str) -> Sequence[str]:
    return [part[len(parent) + 1 :]] if parent and part.startswith(f"{parent}.") else part.split(".")


def _unwrapped(path: Path) -> Path:
    start = 0
    while start < len(path) and path[start] in WRAPPERS:
        start += 1
    return path[start:]


def _module_path(name: str) -> Path | None:
    """Return the path of a recorded module, by its name; its gradients are a module of their own beside it."""
    gradient = _GRADIENT.fullmatch(name)
    parts = re.split(r"[./]", gradient["name"] if gradient else name)
    if len(parts) > _DEEPEST:
        return None
    path = _unwrapped(tuple(parts)) or tuple(parts)
    return (*path, f"/{gradient['kind']}") if gradient else path


def typed_path(text: str) -> Path | None:
    """Read the path of a module as it is typed: with dots, or as MindSpore and ONNX begin the names of operators.

    >>> typed_path("layer0.act"), typed_path("Default/network-Net/layer0-EncLayer/act-GELU")
    (('layer0', 'act'), ('layer0', 'act'))
    """
    parts = text.split("/")
    if len(parts) > _DEEPEST or not text.strip("./"):
        return None
    if parts[0] == "Default":
        return _mindspore_scope(parts).path
    return _onnx_scope(parts[1:], lambda _: True).path if text.startswith("/") else _module_path(text)


def spelling_of(path: Path) -> Path:
    """Write a path so that the spellings of one name in different frameworks agree: ``down_sample``, ``downsample``."""
    spelled = tuple(map(spelling_of_name, path))
    return ("loss",) if len(spelled) == 1 and spelled[0] in _LOSSES else spelled


def dotted(path: Path) -> str:
    """Return a path as messages show it."""
    return ".".join(path)


@dataclass(slots=True)
class _ScopeStep:
    """One operator inside of modules, dumped or not; `ops` are its numbers in `Side.ops`, by occurrence."""

    name: str
    op_type: str
    scope: Scope
    ops: list[int] = field(default_factory=list)
    place: int | None = None
    inputs: tuple[tuple[int, int], ...] = ()
    shapes: tuple[Shape | None, ...] = ()


class ScopeRun:
    """The operators of one side at one place, without occurrences, in execution order."""

    def __init__(
        self,
        side: Side,
        dump: Dump,
        numbers: Sequence[int],
        is_known: Callable[[Path], bool] = lambda _: True,
        joined: Mapping[Path, Path] = MappingProxyType({}),
    ) -> None:
        self.side, self._dump, self.numbers = side, dump, numbers
        self.modules: defaultdict[Path, list[int]] = defaultdict(list)
        self.steps: list[_ScopeStep] = []
        self.members: defaultdict[Path, list[int]] = defaultdict(list)
        self.has_edges, self._strays = False, set[int]()
        self.is_whole = not (dump.run and any(one.kernels for one in dump.run.configurations))
        keys = [side.ops[number].key for number in numbers]
        manifest = dump.manifest_of(keys[0].at.rank)
        self.weights = manifest.weights if manifest else {}
        self.style = _style(dump, keys)
        self.graph = graph = graph_at(dump, keys[0].at)
        scopes = {one.name: one.scope for one in graph.operators if one.scope} if graph else {}
        inner: dict[str, list[int]] = {}
        for number, key in zip(numbers, keys, strict=True):
            if key.op_type == PARAMETER or not side.outputs(number):
                continue
            is_node = self.style == "nodes" or _MINDSPORE.fullmatch(key.label) or key.label.startswith("/")
            if key.label in scopes or is_node:
                inner.setdefault(key.label, []).append(number)
            elif (own := _module_path(key.label)) is not None:
                self.modules[joined.get(own, own)].append(number)
        self._name_root(keys)
        self._add_steps(inner, scopes, graph, is_known)
        self._name_callers()
        for number, step in enumerate(self.steps):
            if (path := step.scope.path) is not None:
                for depth in range(len(path) + 1):
                    self.members[path[:depth]].append(number)

    def read_with(self, other: ScopeRun) -> ScopeRun:
        """Return this run as its names are read beside another."""
        joined = self._joined(other)
        if not joined and not any(step.name.startswith("/") and _CALL.search(step.name) for step in self.steps):
            return self
        keys = {key[:depth] for key in other.by_key for depth in range(len(key) + 1)}
        return ScopeRun(self.side, self._dump, self.numbers, lambda path: spelling_of(path) in keys, joined)

    def _joined(self, other: ScopeRun) -> Mapping[Path, Path]:
        """Return the paths of the other side that modules of this one are named after, with underscores for dots."""
        written: defaultdict[str, set[Path]] = defaultdict(set)
        for path in (*other.modules, *other.members):
            written[spelling_of_name("_".join(path))].add(path)
        names = [path for path in self.modules if len(path) == 1 and "_" in path[0]]
        found = ((path, [*written[spelling_of_name(path[0])]]) for path in names)
        return {path: own[0] for path, own in found if len(own) == 1 < len(own[0]) and own[0] not in self.modules}

    @cached_property
    def by_key(self) -> Mapping[Path, list[Path]]:
        """Every module, by its path in a spelling that frameworks share."""
        found: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in dict.fromkeys((*self.modules, *self.members)):
            found[spelling_of(path)].append(path)
        return found

    @cached_property
    def clear(self) -> frozenset[Path]:
        """The modules that no two names of this side stand for."""
        names: defaultdict[Path, set[tuple[str, str | None]]] = defaultdict(set)
        for path, numbers in self.modules.items():
            names[path].update((key.label, key.op_type) for key in (self.side.ops[number].key for number in numbers))
        return frozenset(path for paths in self.by_key.values() for path in paths if len(names[path]) <= 1)

    def _name_root(self, keys: Sequence[OpKey]) -> None:
        """The model itself is the last module, by the name of its type; behind it may be gradients and a loss."""
        own = (key for key in reversed(keys) if key.op_type != PARAMETER and "/" not in key.label)
        last = next(own, None)
        if last is None or not last.op_type or (last.label,) not in self.modules:
            return
        if re.sub(r"_[0-9]*$", "", last.label).lower() == last.op_type.lower():
            self.modules[()] = self.modules.pop((last.label,))

    def _add_steps(
        self,
        inner: Mapping[str, list[int]],
        scopes: Mapping[str, str],
        graph: OperatorGraph | None,
        is_known: Callable[[Path], bool],
    ) -> None:
        def scope_of(name: str) -> Scope:
            if scopes:
                # An operator without modules around it, of a graph that has scopes, is the model's own.
                parts = tuple(filter(None, scopes.get(name, "").split(".")))
                return Scope(_unwrapped(parts)) if len(parts) <= _DEEPEST else _NOWHERE
            return node_scope(name, is_known) if "/" in name else _NOWHERE

        if graph is None or not inner.keys() <= set(graph.names):
            for filed, numbers in inner.items():
                name = _unfiled(filed)
                op_type = self.side.ops[numbers[0]].key.op_type or ""
                place = self.side.refs[next(iter(self.side.ops[numbers[0]].tensors.values()))].place
                self.steps.append(_ScopeStep(name, op_type, scope_of(name), numbers, place))
            return
        self.has_edges = True
        position = {operator.name: number for number, operator in enumerate(graph.operators)}
        for number, operator in enumerate(graph.operators):
            feeds = tuple(
                (position[edge.producer], edge.slot)
                for edge in operator.inputs
                if edge is not None and not edge.is_parameter and position.get(edge.producer, number) != number
            )
            shapes = tuple(spec.shape if spec else None for spec in operator.host_outputs)
            own = inner.get(operator.name, [])
            self.steps.append(
                _ScopeStep(operator.name, operator.op_type, scope_of(operator.name), own, inputs=feeds, shapes=shapes)
            )

    def _name_callers(self) -> None:
        """Give operators that MindSpore named after another cell their own one's scope, or none."""
        named = [step for step in self.steps if _MINDSPORE.fullmatch(step.name) and not step.scope.is_apart]
        if self.style == "nodes" and named:
            names, types, paths = zip(*((one.name, one.op_type, one.scope.path) for one in named), strict=True)
            for number, path in paths_of_callers(names, types, paths).items():
                named[number].scope = replace(named[number].scope, path=path)
            steps = [(one.scope.path, one.op_type, [feeder for feeder, _ in one.inputs]) for one in self.steps]
            self._strays = strays(*zip(*steps, strict=True)) if self.has_edges else set()
            for number in self._strays:
                self.steps[number].scope = _NOWHERE

    def count(self, path: Path) -> int | None:
        """Return how often a module was called; ``None`` where only the other side can show it."""
        if path in self.modules:
            return len(self.modules[path])
        numbered = {self.steps[number].scope.calls[: len(path)] for number in self.members.get(path, ())}
        return None if numbered <= {()} else len(numbered)

    def leaving(self, path: Path, call: int | None = None) -> list[Leaving] | Message:
        """Return what leaves a module in each call, or in one of them, by this side alone; or why it is not known."""
        count = self.count(path)
        if count is None and self.has_edges:
            # Parts of which each takes what the one before gave out, and that do the same, are calls.
            parts = self._parts(self.members[path])
            kinds = {tuple((self.steps[one].scope.path, self.steps[one].op_type) for one in part) for part in parts}
            follow = len(kinds) == 1 and all(self._feeds(one, other) for one, other in pairwise(parts))
            count = len(parts) if follow else 1
        calls = self.calls(path, count or 1)
        if isinstance(calls, Message) or (call is None and (path in self.modules or not count or count == 1)):
            return calls
        if path in self.modules:
            ops = (self.side.ops[number].key for number in self.modules[path])
            return [one for one, key in zip(calls, ops, strict=True) if (key.at.occurrence or 0) == call]
        if call is None or call >= len(calls):
            return Message("scope_called", {"scope": dotted(path), "side": self.side.name, "n": count or 1})
        return [calls[call]]

    def kind(self, path: Path) -> str:
        """Return what kind of module it is, as `core.matching.kinds.KINDS` has it; empty for any other."""
        if path not in self.modules:
            last = self.steps[self.members[path][-1]].scope
            return kind_of(last.last_class) if last.path == path else ""
        key = self.side.ops[self.modules[path][0]].key
        return "container" if path in self._containers else kind_of(key.op_type)

    @cached_property
    def _containers(self) -> frozenset[Path]:
        """Paths that recorded modules are inside of."""
        keys = {path: [self.side.ops[number].key for number in numbers] for path, numbers in self.modules.items()}
        inner = (path for path, own in keys.items() if not all(map(is_weight, own)))
        return frozenset(path[:depth] for path in inner for depth in range(len(path)))

    def calls(self, path: Path, count: int) -> list[Leaving] | Message:
        """Return what leaves each of `count` calls of a module, as far as it was dumped, or why it is not known."""
        if path in self.modules:
            return [Leaving(self.side.outputs(number)) for number in self.modules[path]]
        members = self.members[path]
        said: dict[str, Parameter] = {"scope": dotted(path), "side": self.side.name}
        chunks = self._chunks(path, members, count)
        if chunks is None:
            return Message("scope_calls_unknown", {**said, "n": count})
        found: list[Leaving] = []
        for chunk in chunks:
            leaving = self._leaving(frozenset(chunk), path) if self.has_edges else self._last(chunk, path)
            if isinstance(leaving, str):
                return Message(leaving, said)
            found += self._dumped(leaving)
        return found

    def _chunks(self, path: Path, members: Sequence[int], count: int) -> list[list[int]] | None:
        """Divide the operators of a module by its calls; ``None`` where that is unknown."""
        calls: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number in members:
            calls[self.steps[number].scope.calls[: len(path)]].append(number)
        if calls.keys() != {()}:
            return list(calls.values())
        kinds = [(self.steps[number].scope.path, self.steps[number].op_type) for number in members]
        repeats = most_repeats(kinds)
        if count > 1 and self.has_edges and len(parts := self._parts(members)) == count:
            # What left a module and came back has left one call and entered another.
            return parts if all(self._feeds(one, other) for one, other in pairwise(parts)) else None
        if repeats == 1:
            return [list(members)]
        if repeats % count or count == 1 or not self.has_edges:
            return None
        size = len(members) // count
        chunks = [list(members[start : start + size]) for start in range(0, len(members), size)]
        # Calls that do not depend on each other may run in any order.
        follow = all(self._feeds(one, other) for one, other in pairwise(chunks))
        return chunks if follow else None

    def _parts(self, members: Sequence[int]) -> list[list[int]]:
        """Divide operators into those that are connected with each other, in execution order."""
        part_of: dict[int, list[int]] = {}
        for number in members:
            joined = {id(part_of[one]): part_of[one] for one, _ in self.steps[number].inputs if one in part_of}
            part = [*(one for other in joined.values() for one in other), number]
            part_of |= dict.fromkeys(part, part)
        return sorted(({id(part): sorted(part) for part in part_of.values()}).values())

    def _feeds(self, ones: Iterable[int], others: Iterable[int]) -> bool:
        """Whether operators take anything, at last, from others."""
        goal, waiting, seen = set(ones), list(others), set(others)
        while waiting:
            for feeder, _ in self.steps[waiting.pop()].inputs:
                if feeder in goal:
                    return True
                if feeder not in seen:
                    seen.add(feeder)
                    waiting.append(feeder)
        return False

    @cached_property
    def _consumers(self) -> Mapping[tuple[int, int], list[int]]:
        found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for number, step in enumerate(self.steps):
            if not step.scope.is_apart:
                for source in step.inputs:
                    found[source].append(number)
        return found

    @cached_property
    def _slots(self) -> Mapping[int, list[int]]:
        """The outputs of each operator that others of the model take."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for number, slot in sorted(self._consumers):
            found[number].append(slot)
        return found

    def _leaving(self, members: frozenset[int], path: Path) -> list[tuple[int, int]] | str:
        """Return the tensors that cross the border of a module, or the code of the reason why that is not known."""
        members = self._with_enclosed(members, path)
        crossing: list[tuple[int, int]] = []
        for number in sorted(members):
            if kind_of(self.steps[number].op_type) == "constant":
                # Exporters share them between modules, or leave them behind unused.
                continue
            taken = self._slots.get(number, ())
            if not taken:
                crossing += [(number, slot) for slot in self._own_slots(number)]
            for slot in taken:
                outside = [one for one in self._consumers[number, slot] if one not in members]
                if any(self.steps[one].scope.path is None for one in outside) and not self._ends_itself(number, path):
                    return "scope_end_unknown"
                crossing += [(number, slot)] if outside else []
        if len({number for number, _ in crossing}) > 1:
            # Modules share what they make of one input: the Reshape in front of a Dense is nothing that it gives out.
            own = [one for one in crossing if not self._shows_input(one[0], members)]
            if len({number for number, _ in own}) != 1 or not self._ends_itself(own[0][0], path):
                return "scope_several_leave" if path else "root_several_leave"
            crossing = own
        return crossing

    def _shows_input(self, number: int, members: frozenset[int]) -> bool:
        """Whether an operator only shows in another shape what a module takes."""
        step = self.steps[number]
        return step.op_type in VIEW_TYPES and members.isdisjoint(feeder for feeder, _ in step.inputs)

    def untaken(self) -> Iterator[tuple[int, ...]]:
        """Yield what no operator takes, by occurrence: outputs of the model, or what is left behind."""
        for number, step in enumerate(self.steps if self.has_edges else ()):
            if not step.scope.is_apart and not self._slots.get(number) and kind_of(step.op_type) != "constant":
                for slot in self._own_slots(number):
                    tensors = (self.side.ops[op].tensors for op in step.ops)
                    yield tuple(own["output", slot] for own in tensors if ("output", slot) in own)

    def ends(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Yield by name each operator, no view, that none takes: its outputs, and those of what feeds it."""
        for number, step in enumerate(self.steps if self.has_edges else ()):
            if step.ops and not step.scope.is_apart and not self._slots.get(number) and step.op_type not in VIEW_TYPES:
                feeds = [
                    ref
                    for one, _ in step.inputs
                    for op in self.steps[one].ops
                    for ref in self.side.outputs(op).values()
                ]
                yield step.name, [ref for op in step.ops for ref in self.side.outputs(op).values()], feeds

    def _with_enclosed(self, members: frozenset[int], path: Path) -> frozenset[int]:
        """Add operators without a scope, or of a module around, that are fed by the module and lead nowhere else."""
        around = {None, *(path[:depth] for depth in range(len(path)))}
        # What has another module's name, and joins several tensors of this one, is its own.
        feeds = {one: {feeder for feeder, _ in self.steps[one].inputs} for one in self._strays}
        members |= {one for one, feeders in feeds.items() if len(feeders) > 1 and feeders <= members}
        more: set[int] = set()
        waiting = list(members)
        while waiting:
            takers = {one for one in self._takers(waiting.pop()) if self.steps[one].scope.path in around}
            takers -= members | more
            more |= takers
            waiting += takers
        inside = members | more
        waiting = [one for one in more if not self._slots.get(one) or not inside.issuperset(self._takers(one))]
        while waiting:
            if (one := waiting.pop()) in more:
                more.remove(one)
                waiting += (feeder for feeder, _ in self.steps[one].inputs if feeder in more)
        return members | more

    def _takers(self, number: int) -> Iterator[int]:
        return (taker for slot in self._slots.get(number, ()) for taker in self._consumers[number, slot])

    def _own_slots(self, number: int) -> list[int]:
        ops = self.steps[number].ops
        slots = sorted(slot for io, slot in self.side.ops[ops[0]].tensors if io == "output") if ops else []
        return slots or [0]

    def _ends_itself(self, number: int, path: Path) -> bool:
        """Whether an operator surely is the last of a module, whatever follows: a class that is known to end so."""
        step = self.steps[number]
        return step.scope.path == path and step.op_type in LAST_OPERATORS.get(step.scope.last_class, ())

    def _last(self, members: Sequence[int], path: Path) -> list[tuple[int, int]] | str:
        """Return the last operator inside, where no other can be what leaves the module."""
        first, last = members[0], members[-1]
        inside = set(members)
        own = [number for number in range(first, last + 2) if number < len(self.steps)]
        if not self.is_whole or any(
            self.steps[number].scope.path is None and not self.steps[number].scope.is_apart for number in own[:-1]
        ):
            return "scope_end_unknown"
        if any(number not in inside and self.steps[number].scope.path is not None for number in range(first, last)):
            return "scope_calls_mixed"
        after = next((step for step in self.steps[last + 1 :] if not step.scope.is_apart), None)
        is_open = after is not None and after.scope.path is None
        if (is_open or self._has_gap(first, last)) and not self._ends_itself(last, path):
            return "scope_end_unknown"
        return [(last, slot) for slot in self._own_slots(last)]

    def _has_gap(self, first: int, last: int) -> bool:
        """Whether the execution order has operators among or right behind these that were not dumped."""
        places = [step.place for step in self.steps[first : last + 2]]
        if None in places or last + 1 >= len(self.steps):
            return False
        return any(other != one + 1 for one, other in pairwise(places) if one is not None)

    def _dumped(self, leaving: Sequence[tuple[int, int]]) -> list[Leaving]:
        """Return the tensors of what leaves, one for each occurrence; behind views the tensor that they show."""
        if not leaving:
            return []
        shape = None
        if len(leaving) == 1:
            (number, slot), seen = leaving[0], {leaving[0][0]}
            while not self.steps[number].ops and self.steps[number].op_type in VIEW_TYPES and self.steps[number].inputs:
                shapes = self.steps[number].shapes
                shape = shape or (shapes[slot] if slot < len(shapes) else None)
                number, slot = self.steps[number].inputs[0]
                if number in seen:
                    return []
                seen.add(number)
            if number != leaving[0][0] and shape is None:
                return []
            leaving = [(number, slot)]
        ports = [("output", slot) for _, slot in leaving]
        found = []
        for op in self.steps[leaving[0][0]].ops:
            tensors = self.side.ops[op].tensors
            if all(port in tensors for port in ports):
                found.append(Leaving(dict(enumerate(tensors[port] for port in ports)), shape))
        return found

    def before(self, path: Path) -> Path | None:
        """Return the recorded module whose call ended right before the first one of this."""
        order = sorted((numbers[0], other) for other, numbers in self.modules.items())
        place = order.index((self.modules[path][0], path))
        return order[place - 1][1] if place else None

    def inner(self, path: Path) -> Iterator[int]:
        """Yield the outputs of operators inside of a module."""
        for number in self.members.get(path, ()):
            for op in self.steps[number].ops:
                yield from self.side.outputs(op).values()


def _style(dump: Dump, keys: Sequence[OpKey]) -> str:
    """Return ``"nodes"`` where names are paths of modules with an operator at their end, else ``"modules"``."""
    framework = dump.manifest.framework if dump.manifest else ""
    if framework.startswith("onnx") or dump.reader in ("mindspore", "ascend", "converted"):
        return "nodes"
    nested = [key for key in keys if "/" in key.label and key.op_type and key.op_type != PARAMETER]
    named = [key for key in nested if (key.label.rpartition("/")[2]).rstrip("_0123456789") == (key.op_type or "")]
    return "nodes" if framework.startswith("tensorflow") and len(named) * 2 > len(nested) else "modules"
