"""What feeds gradients, an optimizer's state and weights after its step, by the names that recorders give to these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_msdump.core.model.dump import PARAMETER, Edge, Operator
from pytest_msdump.core.model.tensor import OpKey, TensorRef, mangle

# By name: the calls of a module, by occurrence.
Calls = Mapping[str, Mapping[int, Operator]]

# What is behind such an edge is not known.
_UNKNOWN = Edge("", 0)


def after_step(ops: Collection[OpKey]) -> dict[str, OpKey]:
    """Return what the next iteration starts from, by mangled names of weights and of the optimizer's state."""
    named = {op.label: op for op in ops if op.op_type != PARAMETER}
    found = {mangle(op.label): op for op in ops if op.op_type == PARAMETER}
    for weight, states in _states(named).items():
        found |= {mangle(label): named[label] for label in states}
        found[mangle(weight)] = named[f"{weight}/updated"]
    return found


def with_training(calls: Calls, tensors: Mapping[OpKey, Sequence[TensorRef]], *, is_first: bool) -> Calls:
    """Return the calls of a recorded model with the weights that they read, and what was recorded of its training."""
    return {**calls, **dict(_Training(calls, tensors, is_first=is_first).calls())}


class _Training:
    def __init__(self, calls: Calls, tensors: Mapping[OpKey, Sequence[TensorRef]], *, is_first: bool) -> None:
        self._calls = calls
        self._is_first = is_first
        self._weights: defaultdict[str, list[Edge]] = defaultdict(list)
        self._outputs: defaultdict[str, list[Edge]] = defaultdict(list)
        self._readers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._inside: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for op, refs in tensors.items():
            if op.op_type != PARAMETER:
                at = op.at.occurrence or 0
                found = [Edge(op.label, ref.key.slot, occurrence=at) for ref in refs if ref.key.io == "output"]
                self._outputs[op.label] += found
        self._states = _states(self._outputs)
        dumped = (op.label for op in tensors if op.op_type == PARAMETER)
        for weight in dict.fromkeys([*dumped, *self._states]):
            self._weights[_owner(weight)].append(Edge(weight, 0, is_parameter=True))
        for name, known in calls.items():
            for call in known.values():
                self._inside[call.inside][name] = None
                for edge in call.inputs:
                    if edge is not None:
                        self._readers[edge.producer][name] = None

    def calls(self) -> Iterator[tuple[str, Mapping[int, Operator]]]:
        """Yield modules with the weights that they read, and gradients, states and updated weights."""
        for name, read in self._weights.items():
            if name in self._calls:
                known = self._calls[name].items()
                yield name, {at: replace(call, inputs=(*call.inputs, *read)) for at, call in known}
        for label, outputs in self._outputs.items():
            feeds = () if label in self._calls else dict.fromkeys(self._feeds(label))
            if feeds:
                yield label, {edge.occurrence or 0: Operator(label, "", inputs=tuple(feeds)) for edge in outputs}

    def _feeds(self, label: str) -> Iterator[Edge | None]:
        """Yield what feeds ``NAME/KIND``; nothing if that is nothing of a training, or not known."""
        name, _, kind = label.rpartition("/")
        is_called_once = len(self._calls.get(name, ())) == 1
        owner = _owner(name)
        if kind == "grad_output" and is_called_once:
            yield from self._of_output(name)
        elif kind == "grad_input" and is_called_once:
            yield from self._of_input(name)
        elif kind == "grad" and owner in self._calls:
            yield from self._known(f"{owner}/grad_output")
            yield from self._given(owner)
        elif label in self._states.get(name, ()) or (kind == "updated" and name in self._states):
            yield from self._known(f"{name}/grad")
            yield Edge(name, 0, is_parameter=True)
            for state in self._states[name] if kind == "updated" else ():
                yield from self._outputs[state]
            if kind != "updated" and not self._is_first:
                yield Edge(label, 0, is_parameter=True)

    def _of_output(self, name: str) -> Iterator[Edge]:
        readers = self._readers.get(name, ())
        for reader in readers:
            kind = "grad_output" if self._is_inside(name, reader) else "grad_input"
            yield from self._known(f"{reader}/{kind}") if len(self._calls[reader]) == 1 else [_UNKNOWN]
        if not readers:
            yield from self._known(name)
        if "" in self._readers:
            # What reads something unknown may read this.
            yield _UNKNOWN

    def _of_input(self, name: str) -> Iterator[Edge | None]:
        yield from self._known(f"{name}/grad_output")
        yield from self._given(name)
        yield from self._weights.get(name, ())
        for inner in self._inside.get(name, ()):
            yield from self._outputs.get(f"{inner}/grad_input", ())
        # Some recorders write the gradient of the whole tensor, in which others that read it have a part.
        for producer in dict.fromkeys(edge.producer for edge in self._given(name) if edge is not None):
            for reader in self._readers[producer] if producer else ():
                if not self._is_inside(name, reader):
                    yield from self._outputs.get(f"{reader}/grad_output", ())

    def _given(self, name: str) -> list[Edge | None]:
        return [edge for call in self._calls[name].values() for edge in call.inputs]

    def _known(self, label: str) -> Sequence[Edge]:
        return self._outputs.get(label) or [_UNKNOWN]

    def _is_inside(self, name: str, outer: str) -> bool:
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            name = next((call.inside for call in self._calls.get(name, {}).values()), "")
            if name == outer:
                return True
        return False


def _states(labels: Collection[str]) -> dict[str, list[str]]:
    """Return by weight that was recorded after the step what was recorded of the optimizer's state of it."""
    found: dict[str, list[str]] = {one.removesuffix("/updated"): [] for one in labels if one.endswith("/updated")}
    for label in labels:
        name, _, kind = label.rpartition("/")
        if name in found and kind not in ("grad", "updated"):
            found[name].append(label)
    return found


def _owner(weight: str) -> str:
    return weight[: max(weight.rfind("."), weight.rfind("/"), 0)]
