"""Ports from PyTorch to ONNX Runtime: both exporters of PyTorch, mistakes in the model before or in the graph after."""

from __future__ import annotations

import ast
import copy
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from cases import Case, Mistake, Port, named, pairs_of
from models import TORCHVISION, images, seeded
from onnx_graph import Graph
from onnx_mistakes import MISTAKES, TWO, GraphMistake
from torch import nn
from truth import Cause, Truth

from pytest_msdump.record import Recorder

__all__ = ["onnx_cases"]

# Of both exporters; models whose legacy export is thousands of nodes of shape arithmetic are slow with it.
EXPORTERS = ("dynamo", "legacy")


def onnx_cases() -> Iterator[Case]:
    """Yield a case for each model and exporter."""
    for name in ("resnet18", "mobilenet_v3_small", "vit", "swin", "vit_b_16"):
        for exporter in EXPORTERS:
            yield _case(name, exporter)


def _case(name: str, exporter: str) -> Case:
    family = _Family(name, exporter)
    single = [(mistake,) for mistake in MISTAKES.get(name, ())]
    ports = [family.port(mistakes) for mistakes in ((), *single, *pairs_of(MISTAKES.get(name, ()), TWO))]
    return Case(f"onnx-{name}-{exporter}", family.reference, ports, family.meant)


class _Family:
    """One model, exported by one exporter."""

    def __init__(self, name: str, exporter: str) -> None:
        self.name, self.exporter = name, exporter
        self._model: nn.Module | None = None
        self._good: Any = None
        self._feeders: dict[str, set[str]] = {}

    @property
    def model(self) -> nn.Module:
        """The reference; made once."""
        if self._model is None:
            self._model = seeded(TORCHVISION[self.name])
        return self._model

    @property
    def good(self) -> Any:
        """The correct export; made once."""
        if self._good is None:
            self._good = export(self.model, self.exporter)
        return self._good

    def reference(self, directory: Path, **options: Any) -> None:
        """Record the model, and find out which module feeds which."""
        with torch.no_grad():
            with Recorder(directory.parent).torch(self.model, directory=directory, **options):
                self.model(images())
            self._feeders = feeders(self.model, images())

    def port(self, mistakes: Sequence[Mistake]) -> Port:
        """Return the port with these mistakes."""

        def record(directory: Path, truth: Truth | None) -> tuple[Truth | None, list[Cause]]:
            proto = self._changed_before(mistakes)
            if truth is not None:
                truth = truth.renamed(_names(self.good, proto))
                proto, causes = self._changed_after(proto, mistakes, truth)
            with Recorder(directory.parent).onnx(proto, directory=directory) as recording:
                recording.run(None, {proto.graph.input[0].name: images().numpy()})
            return truth, causes if truth else []

        return Port(*named(mistakes), record)

    def _changed_before(self, mistakes: Sequence[Mistake]) -> Any:
        """Return the export of the model with those mistakes that are made in the model."""
        before = [mistake for mistake in mistakes if not isinstance(mistake, GraphMistake)]
        if not before:
            return self.good
        model = copy.deepcopy(self.model)
        with torch.no_grad():
            for mistake in before:
                mistake.apply(model)
        return export(model, self.exporter)

    def _changed_after(self, before: Any, mistakes: Sequence[Mistake], truth: Truth) -> tuple[Any, list[Cause]]:
        """Return the graph with those mistakes that are made in it, and where all are."""
        proto = copy.deepcopy(before)
        graph, unchanged = Graph(proto), Graph(before)
        causes = []
        for mistake in mistakes:
            nodes = [unchanged.of_address(left).name for left, right in truth.pairs if _module(right) == mistake.at]
            right = [mistake.at] if nodes else []
            if isinstance(mistake, GraphMistake):
                nodes = mistake.apply(graph, nodes[0] if nodes else "", self.scope_of)
            if not nodes:
                raise ValueError(f"{self.name}: {mistake.name}: {mistake.at} has no true pair")
            seen = []
            for name in nodes:
                is_removed = name not in {node.name for node in proto.graph.node}
                seen += unchanged.first_pairs(name, truth, without=is_removed)
                if is_removed:
                    right += [_module(pair[1]) for pair in unchanged.first_pairs(name, truth)]
            causes.append(Cause(mistake.name, nodes, right, seen))
        return proto, causes

    def scope_of(self, node: Any) -> str:
        """Return the path of the module that a node belongs to, as the exporter has written it; empty at the top."""
        if self.exporter == "dynamo":
            scopes = next((one.value for one in node.metadata_props if one.key == "pkg.torch.onnx.name_scopes"), "")
            return str(ast.literal_eval(scopes)[-2]) if scopes else ""
        return self._legacy_scope(node.name)

    def _legacy_scope(self, name: str) -> str:
        """Return ``layer1.0.conv1`` for ``/layer1/layer1.0/conv1/Conv``."""
        known = dict(self.model.named_modules())
        path = ""
        for part in name.split("/")[1:-1]:
            for candidate in (part, re.sub(r"_\d+$", "", part)):
                # Children of a Sequential repeat its own name: `layer1/layer1.0`.
                last = candidate.rpartition(".")[2]
                found = [one for one in (f"{path}.{candidate}", f"{path}.{last}") if one.lstrip(".") in known]
                if found:
                    path = found[0].lstrip(".")
                    break
        return path

    def meant(self, left: str, right: str) -> bool:
        """Whether the exporter says that a node is of a module, or of one that feeds it and holds it after folding."""
        nodes = self._scopes()
        scope, module = nodes.get(left, ""), right.partition("@")[0]
        if module == type(self.model).__name__:
            return True
        inside = scope == module or scope.startswith(f"{module}.")
        return inside or scope in self._feeders.get(module, ()) or bool(scope and module.startswith(f"{scope}."))

    def _scopes(self) -> dict[str, str]:
        if not hasattr(self, "_scope_table"):
            graph = Graph(self.good)
            self._scope_table = {name: self.scope_of(node) for name, node in graph.nodes.items()}
        return self._scope_table


def _module(address: str) -> str:
    """Return the operator of an address with its occurrence."""
    return address.rsplit(":", 2)[0]


def _names(good: Any, wrong: Any) -> dict[str, str]:
    """Return the names that nodes of the correct graph have in another export of the same network.

    The numbers in names count constants too, so that they move with an epsilon of another value.
    """
    ours, theirs = (list(proto.graph.node) for proto in (good, wrong))
    if [(node.op_type, *node.output) for node in ours] != [(node.op_type, *node.output) for node in theirs]:
        raise ValueError("the mistake changes the graph, so that nothing tells which node is which")
    return {one.name: other.name for one, other in zip(ours, theirs, strict=True) if one.name != other.name}


def export(model: nn.Module, exporter: str) -> Any:
    """Return the ONNX model of one of PyTorch's exporters."""
    import onnx

    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            return torch.onnx.export(model, (images(),), dynamo=True, verbose=False).model_proto
        buffer = io.BytesIO()
        torch.onnx.export(model, (images(),), buffer, dynamo=False)
    return onnx.load_model_from_string(buffer.getvalue())


def feeders(model: nn.Module, given: torch.Tensor) -> dict[str, set[str]]:
    """Return, for each module, the modules whose output is its input: by the tensors themselves."""
    made: dict[int, str] = {}
    fed: dict[str, set[str]] = {}
    kept: list[Any] = []

    def before(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            fed.setdefault(name, set()).update(made[id(one)] for one in args if id(one) in made)

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, result: Any) -> None:
            if isinstance(result, torch.Tensor):
                kept.append(result)
                made.setdefault(id(result), name)

        return hook

    handles = []
    for name, module in model.named_modules():
        if name:
            handles += [module.register_forward_pre_hook(before(name)), module.register_forward_hook(after(name))]
    model(given)
    for handle in handles:
        handle.remove()
    return fed
