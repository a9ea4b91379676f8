"""Exports of a model, run by ONNX Runtime with every intermediate tensor made an output.

Which tensor is which of the model's: one of the same value, where the exporter says that the node is of the module.
"""

from __future__ import annotations

import ast
import copy
import io
import logging
import re
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import onnx
import torch
from onnxruntime import InferenceSession, SessionOptions
from torch import nn

from .mistakes import NoPlaceError
from .onnx_mistakes import MISTAKES
from .port import Model
from .source import Source
from .tensors import Recording, Tensor
from .truth import Meaning, distance, is_plain

__all__ = ["EXPORTS", "OnnxSource", "QuantisedSource"]

# Model → how it is exported. Legacy exports of other models are thousands of nodes of shape arithmetic, or fail.
EXPORTS = {
    "lenet": ("legacy", "int8"),
    "resnet18": ("dynamo", "legacy", "int8"),
    "mobilenetv3": ("dynamo", "legacy"),
    "unet": ("legacy", "int8"),
    "vit": ("dynamo", "legacy"),
    "swin": ("dynamo",),
    "bert": ("dynamo",),
    "gpt2": ("dynamo",),
    "llama": ("dynamo",),
}
_SAME = 1e-4
# So far 8 bits are from floats behind many layers.
_ROUNDED = 0.5
_DEQUANTISED = "_DequantizeLinear_Output"


class OnnxSource(Source):
    """One export of a model."""

    # Slashes of names become underscores; numbers that exporters give out come in order anyway.
    styles = ("dots", "underscored", "bare", "bare_underscored", "counter", "tag", "output", "tensordump", "pt", "npz")

    def __init__(self, model: Model, reference: Callable[[], nn.Module], right: Recording, exporter: str) -> None:
        super().__init__(model.name, f"onnx-{exporter}", right)
        self._model, self._reference, self._exporter = model, reference, exporter

    @cached_property
    def _float(self) -> Any:
        exporter = "legacy" if self._exporter == "int8" else self._exporter
        return exported(self._reference(), self._model.export, exporter)

    @cached_property
    def _proto(self) -> Any:
        return quantised(self._float, self._feeds) if self._exporter == "int8" else self._float

    @property
    def _feeds(self) -> dict[str, Any]:
        given = (tensor.numpy() for tensor in self._model.export or ())
        return {one.name: values for one, values in zip(self._float.graph.input, given, strict=False)}

    @cached_property
    def good(self) -> Recording:  # type: ignore[override]
        """What the export computes."""
        return ran(self._proto, self._feeds)

    def wrong(self, mistake: str, draw: Random) -> Recording:
        """Return what it computes with a mistake in the graph."""
        if mistake not in MISTAKES or self._exporter == "int8":
            raise NoPlaceError
        proto = copy.deepcopy(self._proto)
        MISTAKES[mistake](proto.graph, draw)
        return ran(proto, self._feeds)

    @cached_property
    def meaning(self) -> Meaning:  # type: ignore[override]
        """What its tensors mean."""
        rights: dict[str, frozenset[str]] = {}
        members: dict[str, list[Tensor]] = {}
        for group in self.right.groups():
            quantity = group[0].label
            members[quantity] = group
            rights.update((tensor.label, frozenset({quantity})) for tensor in group)
        is_said = self._confirmed()
        lefts: dict[str, frozenset[str]] = {}
        unjudged: set[str] = set()
        recording = ran(self._float, self._feeds)
        for tensor in recording.tensors:
            same = [] if is_plain(tensor.values) else list(_equal(tensor, members))
            said = [one for one in same if is_said(tensor.label, [other.path for other in members[one]])]
            lefts[tensor.label] = frozenset(said or {f"left {tensor.label}"})
            if is_plain(tensor.values) or (same and not said):
                unjudged.add(tensor.label)
        if self._exporter == "int8":
            lefts.update([*self._dequantised(lefts, members)])
        return Meaning(lefts, rights, unjudged=frozenset(unjudged))

    def _dequantised(
        self, floats: Mapping[str, frozenset[str]], members: Mapping[str, list[Tensor]]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield what the tensors of the quantised graph mean: what they stand for, or the activation behind that."""
        behind: defaultdict[str, list[str]] = defaultdict(list)
        for output, given in _activated(self._float).items():
            behind[given].append(output)
        activated = _activated(self._float) if not _activated(self._proto) else {}
        for tensor in self.good.tensors:
            if not tensor.label.endswith(_DEQUANTISED):
                # Under the name of an activation that was folded away is what went into it.
                name = activated.get(tensor.label, tensor.label)
                yield tensor.label, floats.get(name, frozenset({f"left {tensor.label}"}))
                continue
            stands_for = tensor.label.removesuffix(_DEQUANTISED)
            quantities = {
                one for label in (stands_for, *behind[stands_for]) for one in floats.get(label, ()) if one in members
            }
            near = {one: distance(tensor.values, members[one][0].values) or 0.0 for one in quantities}
            yield tensor.label, frozenset({min(near, key=near.__getitem__)} if near else {f"left {tensor.label}"})

    def _confirmed(self) -> Callable[[str, list[str]], bool]:
        """Return what says whether the exporter has a tensor's node in one of some modules."""
        reference = self._reference()
        known = dict(reference.named_modules())
        feeders = feeders_of(reference, self._model.run)
        scopes = {
            spelled(output): _scope(node, known, self._exporter)
            for node in self._float.graph.node
            for output in node.output
        }

        def is_said(label: str, modules: list[str]) -> bool:
            scope = scopes.get(label, "")
            return any(
                scope == module
                or scope.startswith(f"{module}.")
                or scope in feeders[module]
                or bool(scope and module.startswith(f"{scope}."))
                for module in modules
            )

        return is_said


class QuantisedSource(Source):
    """A model of ONNX in 8 bits, of which the reference is the same one in floats; names say what is what."""

    styles = OnnxSource.styles

    def __init__(self, model: Model, reference: Callable[[], nn.Module]) -> None:
        exact = exported(reference(), model.export, "legacy")
        given = (tensor.numpy() for tensor in model.export or ())
        feeds = {one.name: values for one, values in zip(exact.graph.input, given, strict=False)}
        super().__init__(model.name, "onnx-int8-to-float", ran(exact, feeds))
        made = quantised(exact, feeds)
        self.good = ran(made, feeds)
        rights = {tensor.label: frozenset({tensor.label}) for tensor in self.right.tensors}
        activated = {} if _activated(made) else _activated(exact)
        lefts: dict[str, frozenset[str]] = {}
        for tensor in self.good.tensors:
            name = tensor.label.removesuffix(_DEQUANTISED)
            name = activated.get(name, name) if name == tensor.label else name
            lefts[tensor.label] = rights.get(name, frozenset({f"left {tensor.label}"}))
        self.meaning = Meaning(lefts, rights)

    def wrong(self, mistake: str, draw: Random) -> Recording:  # noqa: ARG002
        """Raise: in 8 bits there are none."""
        raise NoPlaceError

    def wrong_rows(self) -> list[str]:
        """Return dequantised tensors that are another quantity by value, those of 8 bits in a deep model apart."""
        exact = {one.label: one.values for one in self.right.tensors}
        found = []
        for one in self.good.tensors:
            for other in self.meaning.left[one.label] & exact.keys():
                apart = distance(one.values, exact[other])
                if apart is None or apart > _ROUNDED:
                    found.append(f"int8: {one.label} should be {other}, and is {apart} from it")
        return found


def _activated(proto: Any) -> dict[str, str]:
    """Return, of what each ReLU puts out, what it is given."""
    return {spelled(node.output[0]): spelled(node.input[0]) for node in proto.graph.node if node.op_type == "Relu"}


def _equal(tensor: Tensor, members: Mapping[str, list[Tensor]]) -> Iterator[str]:
    for quantity, group in members.items():
        apart = distance(tensor.values, group[0].values)
        if apart is not None and apart < _SAME:
            yield quantity


def spelled(name: str) -> str:
    """Write a tensor's name so that it can be a file's."""
    return re.sub(r"[/:]", "_", name)


def ran(proto: Any, feeds: Mapping[str, Any]) -> Recording:
    """Run a model with every intermediate tensor made an output; those of constants are left out."""
    proto = copy.deepcopy(proto)
    names = [name for node in proto.graph.node if node.op_type != "Constant" for name in node.output if name]
    declared = {one.name for one in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in declared)
    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(names, dict(feeds))
    pairs = zip((spelled(name) for name in names), values, strict=True)
    return Recording(tuple(Tensor(name, array, origin=name) for name, array in pairs))


def exported(model: nn.Module, given: Any, exporter: str) -> Any:
    """Return the ONNX model of one of PyTorch's exporters."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            return torch.onnx.export(model, given, dynamo=True, verbose=False).model_proto
        buffer = io.BytesIO()
        torch.onnx.export(model, given, buffer, dynamo=False)
    return onnx.load_model_from_string(buffer.getvalue())


def quantised(proto: Any, feeds: dict[str, Any]) -> Any:
    """Return a model with weights and activations in 8 bits, calibrated with one batch."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Once(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [feeds]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(proto, file)
        quantize_static(file, made, Once(), quant_format=QuantFormat.QDQ)
        return onnx.load(made)


def feeders_of(model: nn.Module, run: Callable[[nn.Module], Any]) -> defaultdict[str, set[str]]:
    """Return, for each module, the modules whose output is its input, by the tensors themselves."""
    made: dict[int, str] = {}
    fed: defaultdict[str, set[str]] = defaultdict(set)
    kept: list[Any] = []

    def after(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: Any, result: Any) -> None:
            fed[name].update(made[id(one)] for one in given if id(one) in made)
            if isinstance(result, torch.Tensor):
                kept.append(result)
                made.setdefault(id(result), name)

        return hook

    handles = [module.register_forward_hook(after(name)) for name, module in model.named_modules() if name]
    with torch.no_grad():
        run(model)
    for handle in handles:
        handle.remove()
    return fed


def _scope(node: Any, known: Mapping[str, Any], exporter: str) -> str:
    """Return the path of the module that a node belongs to, as the exporter has written it; empty at the top."""
    if exporter == "dynamo":
        scopes = next((one.value for one in node.metadata_props if one.key == "pkg.torch.onnx.name_scopes"), "")
        return str(ast.literal_eval(scopes)[-2]) if scopes else ""
    path = ""
    for part in node.name.split("/")[1:-1]:
        for candidate in (part, re.sub(r"_\d+$", "", part)):
            # Children of a Sequential repeat its own name: `layer1/layer1.0`.
            last = candidate.rpartition(".")[2]
            found = [one for one in (f"{path}.{candidate}", f"{path}.{last}") if one.lstrip(".") in known]
            if found:
                path = found[0].lstrip(".")
                break
    return path
