"""Records ONNX models by ONNX Runtime: a copy of the model in memory gives out every tensor."""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.record.given import given_of_trial, keep_model, rewired, trial_folder
from pytest_msdump.capabilities.record.recording import Patterns, RunRecording, select_operators
from pytest_msdump.core.dtypes.arrays import RawArray, array_to_save
from pytest_msdump.core.dtypes.decode import stored_as
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Edge, ModelOutput, Operator
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.text import ENGLISH

_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
# A message of protobuf holds no more; larger models keep their weights beside them.
_MOST_BYTES = 2**31
# Element types that numpy lacks, by number in onnx.proto's TensorProto.DataType: their name, and the bits of one.
_FOREIGN = {
    16: ("bfloat16", 16),
    17: ("float8_e4m3fn", 8),
    18: ("float8_e4m3fnuz", 8),
    19: ("float8_e5m2", 8),
    20: ("float8_e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4_e2m1", 4),
    24: ("float8_e8m0", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
}
_SIGNED = {"int4", "int2"}
_STRING, _TEXT = 8, "tensor(string)"
_MOST_NAMED = 20
# Types of outputs that numpy lacks, as ONNX Runtime writes them.
_FOREIGN_OUTPUT = re.compile(r"tensor\((bfloat16|float[48].*|u?int[24])\)")
# Operators whose constants say what to compute: another exponent of a negative number has no result, another scale
# another shape.
_TAKE_SETTINGS = frozenset({"Pow", "Range", "Resize", "RoiAlign", "Upsample"})
# Where operators of whole numbers are given the scale of what they give out, and its zero point behind it.
_GRIDS = {"QuantizeLinear": 1, "QLinearConv": 6, "QLinearMatMul": 6, "QLinearAdd": 6, "QLinearMul": 6, "QGemm": 7,
          "QLinearConcat": 0}  # fmt: skip
# What PyTorch's exporter writes beside each node: the modules around it, then the operation.
_SCOPES = "pkg.torch.onnx.name_scopes"
_QUOTED = re.compile("'([^']*)'")
# The calls that led to it, outermost first.
_STACK = "pkg.torch.onnx.stack_trace"
_FRAME = re.compile(r'File "([^"]+)", line ([0-9]{1,9})')
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


class OnnxRecording(RunRecording):
    """Record what the nodes of a model give out, in the runs of a ``with`` block.

    The model is copied in memory; its file stays as it is.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        Weights in files beside the model are read from there.
    nodes, exclude : str or sequence of str, optional
        Globs on names of nodes. A node without a name is called as its first output.
    types : str or sequence of str, optional
        Globs on operators, e.g. ``"Conv"``.
    inputs : bool
        Record also what nodes are given, weights left out.
    parameters : bool
        Record initializers, as operators of type Parameter.
    session_options : onnxruntime.SessionOptions, optional
        Default: no optimization of the graph, so that each node is computed as the model says. With optimization, what
        is recorded is not fused, since it is asked for; the rest may be.
    providers : sequence
        Of ONNX Runtime, CPU by default.
    directory, iterations, digests, save, full, buckets, perturb, distributed
        As of `record.recording.Recording`.

    Attributes
    ----------
    session : onnxruntime.InferenceSession
        Of the copy that gives out every tensor.

    Raises
    ------
    ConfigError
        No model; nothing left to record.
    """

    session: Any

    def __init__(
        self,
        model: Any,
        directory: str | PathLike[str],
        *,
        nodes: Patterns = None,
        exclude: Patterns = None,
        types: Patterns = None,
        inputs: bool = False,
        parameters: bool = False,
        session_options: Any = None,
        providers: Sequence[Any] = ("CPUExecutionProvider",),
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        # One that is tried is replayed, from what it was fed.
        self.given = given_of_trial()
        is_tried = trial_folder() is not None and self.given is None
        self.wants_inputs, self.wants_parameters = inputs or is_tried, parameters
        self.model = load_model(model)
        self.session_options, self.providers = session_options, providers
        every = self.model.nodes
        names = select_operators({node.name: node.op_type for node in every}, nodes, exclude, types)
        self._nodes = [node for node in every if node.name in names]
        # Names of what has no numbers, in their order.
        self._left_out: dict[str, None] = {}
        self._given_inputs: list[tuple[str, str, int]] = []

    def array_of(self, tensor: Any) -> Any:
        """Return a value of ONNX Runtime, or a weight of the model, as an array; ``None`` where it has no numbers."""
        if isinstance(tensor, (np.ndarray, np.generic)):
            return None if tensor.dtype.kind in "OSU" else np.asarray(tensor)
        return None if tensor is None or isinstance(tensor, (list, tuple, dict, str)) else array_of(tensor)

    def prepare(self) -> None:
        """Make the session."""
        import onnxruntime

        options = self.session_options
        if options is None:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        graph = self.model.proto.graph
        if self.model.folder and any(initializer.data_location for initializer in graph.initializer):
            options.add_session_config_entry(_EXTERNAL_FOLDER, str(self.model.folder))
        at_hand = {entry.name for entry in (*graph.input, *graph.initializer)}
        wanted = [
            name
            for node in self._nodes
            for io, names in self._tensors_of(node)
            for name in names
            if name and (io == "output" or name not in at_hand)
        ]
        model = self.model
        if self.given is not None:
            proto, self._given_inputs = rewired(self.model, self.given)
            model = self.model._replace(proto=proto)
        keep_model(self.model.proto, self.model.folder)
        content = with_outputs(model, wanted, self._perturbed_weights())
        self._settings = settings_of(options)
        self.session = onnxruntime.InferenceSession(content, options, providers=list(self.providers))

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """Run the model, record it, and return what ``onnxruntime.InferenceSession.run`` would, which takes the same.

        ConfigError for a second run, where the recording was not made with ``iterations=True``.
        """
        import onnxruntime

        kinds = {one.name: one.type for one in self.session.get_inputs()}
        with self.one_run() as iteration:
            feeds = {name: value_of(array, kinds.get(name, "")) for name, array in input_feed.items()}
            fed = {name: self._perturbed_feed(f"{iteration}/{name}", value) for name, value in feeds.items()}
            if self.given is not None:
                for name, op, slot in self._given_inputs:
                    fed[name] = value_of(self.given.look(op, slot, iteration))
            outputs = {output.name: output.type for output in self.session.get_outputs()}
            names = list(outputs)
            # Only the other function takes and gives text, sequences and what is optional; not what numpy lacks.
            are_values = all(isinstance(one, onnxruntime.OrtValue) for one in fed.values())
            are_tensors = all(one.startswith("tensor") for one in outputs.values())
            if are_values and (are_tensors or any(map(_FOREIGN_OUTPUT.fullmatch, outputs.values()))):
                found = self.session.run_with_ort_values(names, fed, run_options)
            else:
                found = self.session.run(names, fed, run_options)
            values = dict(zip(names, found, strict=True))
            self.writer.given = self.given
            if self.wants_digests:
                self.describe_inputs(feeds)
            if not iteration:
                self._describe()
            known = {**fed, **values}
            for node in self._nodes:
                for io, tensors in self._tensors_of(node):
                    for slot, name in enumerate(tensors):
                        if name in known:
                            self.write(node.name, known[name], slot=slot, io=io, op_type=node.op_type, line=node.line)
                            if self.array_of(known[name]) is None:
                                self._left_out.setdefault(name)
            if self._left_out:
                listed = ENGLISH.named(self._left_out, _MOST_NAMED)
                self.writer.describe(notes=[f"left out, since they are no tensors of numbers: {listed}"])
        if output_names is None:
            output_names = [output.name for output in self.model.proto.graph.output]
        return [_returned(values[name]) for name in output_names]

    def _tensors_of(self, node: OnnxNode) -> list[tuple[str, tuple[str, ...]]]:
        inputs = [("input", node.inputs)] if self.wants_inputs else []
        return [*inputs, ("output", node.outputs)]

    def _describe(self) -> None:
        import onnxruntime

        providers = self.session.get_providers()
        about = {"version": onnxruntime.__version__, "device": ", ".join(providers), "settings": self._settings}
        self.writer.describe(framework="onnxruntime", **about)
        grids = self.model.grids()
        for call in graph_of(self.model.nodes):
            self.writer.add_call(replace(call, attributes=grids.get(call.name, "")))
        makers = makers_of(self.model.nodes)
        made = ((one.name, makers.get(one.name, Edge("", 0))) for one in self.model.proto.graph.output)
        self.writer.describe(outputs=tuple(ModelOutput(name, edge.producer, edge.slot) for name, edge in made))
        if self.wants_digests:
            self.describe_weights(self.model.weights())
        if self.wants_parameters:
            perturbed = self._perturbed_weights()
            self.write_parameters((name, perturbed.get(name, array)) for name, array in self.model.weights())

    def _perturbed_feed(self, name: str, value: Any) -> Any:
        array = None if self.perturb is None else self.array_of(value)
        made = None if array is None else self.perturbed(name, array)
        if made is array:
            return value
        if not isinstance(made, RawArray):
            return value_of(made)
        return _foreign_value(np.asarray(made.data).reshape(made.shape), made.dtype)

    def _perturbed_weights(self) -> Mapping[str, Any]:
        """Return the initializers that this run has perturbed; not those that are settings of their operators."""
        if self.perturb is None or not self.perturb.has_weights:
            return {}
        settings = {name for node in self.model.nodes if node.op_type in _TAKE_SETTINGS for name in node.inputs}
        weights = {name: array for name, array in self.model.weights() if name not in settings}
        made = {name: self.perturbed(name, array) for name, array in weights.items()}
        return {name: array for name, array in made.items() if array is not weights[name]}


class OnnxNode(NamedTuple):
    """A node: the names of its tensors by slot; empty where an optional one is left out.

    `read` are tensors that graphs inside of it, of loops and branches, take from outside. `scope` is the path of the
    module that it was exported from, and `line` the ``path:line`` of that, where the exporter says it.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    read: tuple[str, ...] = ()
    scope: str = ""
    line: str | None = None


class Model(NamedTuple):
    """A model and the folder of its external data."""

    proto: Any
    folder: Path | None

    @property
    def nodes(self) -> list[OnnxNode]:
        """The nodes in their order, which is an order of execution; each has a name, no two the same."""
        return list(_named(self.proto.graph))

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Yield the initializers by name, read from the file or from beside it."""
        from onnx import numpy_helper

        for initializer in self.proto.graph.initializer:
            yield initializer.name, numpy_helper.to_array(initializer, base_dir=str(self.folder or ""))

    def grids(self) -> Mapping[str, str]:
        """Return scale and zero point of the whole numbers that nodes give out, where a tensor has one of each."""
        from onnx import numpy_helper

        known = {one.name: one for one in self.proto.graph.initializer if math.prod(one.dims) == 1}
        found = {}
        for node in self.nodes:
            at = _GRIDS.get(node.op_type, 3 if node.op_type.startswith("QLinear") else None)
            names = node.inputs[at : at + 2] if at is not None else ()
            if len(names) == 2 and all(name in known for name in names):
                values = (numpy_helper.to_array(known[name]).item() for name in names)
                found[node.name] = "scale: {!r}, zero_point: {!r}".format(*map(float, values))
        return found


def load_model(model: Any) -> Model:
    """Load a model from a path or the bytes of a file; a ``ModelProto`` stays as it is."""
    import onnx

    if isinstance(model, onnx.ModelProto):
        return Model(model, None)
    if isinstance(model, bytes):
        return Model(_parse(model, "the bytes"), None)
    if not isinstance(model, (str, PathLike)):
        raise ConfigError(f"a {type(model).__name__} is not an ONNX model; give a path, bytes or a ModelProto")
    path = Path(model)
    content = read_user_file(path, _MOST_BYTES, want="give an ONNX model")
    return Model(_parse(content, str(path)), path.absolute().parent)


def with_outputs(model: Model, tensors: Iterable[str], weights: Mapping[str, Any]) -> bytes:
    """Return the bytes of a model with these weights that also gives out these tensors, whose types are inferred."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto)
    known = {output.name for output in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(tensors) if name not in known)
    for initializer in copy.graph.initializer:
        if initializer.name in weights:
            shape, kind = initializer.dims[:], initializer.data_type
            bits = weights[initializer.name].tobytes()
            initializer.CopyFrom(onnx.TensorProto(name=initializer.name, dims=shape, data_type=kind, raw_data=bits))
    if weights and copy.ByteSize() >= _MOST_BYTES:
        raise ConfigError("weights of 2 GiB and more cannot be perturbed; give Perturbation(…, what='input')")
    serialized: bytes = copy.SerializeToString()
    return serialized


def _parse(content: bytes, where: str) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ConfigError(f"{where}: no ONNX model ({error})") from error
    if not proto.graph.node:
        raise ConfigError(f"{where}: no ONNX model, or one without nodes")
    return proto


def _named(graph: Any) -> Iterator[OnnxNode]:
    """Name nodes: one without a name is called as its first output. ONNX Runtime takes no two nodes of one name."""
    taken = {node.name for node in graph.node}
    for node in graph.node:
        name = node.name or next(filter(None, node.output), "") or node.op_type
        while not node.name and name in taken:
            name += "_"
        taken.add(name)
        # onnx before 1.16 has no metadata of nodes.
        said = {entry.key: entry.value for entry in getattr(node, "metadata_props", ())}
        scope, line = _scope(said.get(_SCOPES, "")), _line(said.get(_STACK, ""))
        tensors = tuple(node.input), tuple(node.output), tuple(_read_inside(node))
        yield OnnxNode(name, node.op_type, *tensors, scope, line)


def _scope(text: str) -> str:
    """Return the innermost module of ``['', 'layer1', 'layer1.0', 'relu']``, whose last part is the operation."""
    *modules, _ = ["", *_QUOTED.findall(text)]
    return modules[-1] if modules else ""


def _line(text: str) -> str | None:
    """Return the innermost line of a program's own; its file as it lies below this folder, else by its name alone."""
    own = [frame for frame in _FRAME.findall(text) if not _INSTALLED.search(frame[0])]
    if not own:
        return None
    file, line = own[-1]
    below = file.removeprefix(f"{Path.cwd()}{os.sep}")
    return f"{below if below != file else PureWindowsPath(file).name}:{line}"


def _read_inside(node: Any) -> Iterator[str]:
    """Yield the names of tensors that nodes of inner graphs take; those made inside have names of their own."""
    waiting = [node]
    while waiting:
        for attribute in waiting.pop().attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                for inner in graph.node:
                    yield from inner.input
                    waiting.append(inner)
                yield from (output.name for output in graph.output)


def makers_of(nodes: Sequence[OnnxNode]) -> dict[str, Edge]:
    """Return by name of a tensor the node that makes it, and as which output."""
    return {name: Edge(node.name, slot) for node in nodes for slot, name in enumerate(node.outputs) if name}


def graph_of(nodes: Sequence[OnnxNode]) -> Iterator[Operator]:
    """Yield the nodes with what feeds them: edges are names of tensors, each of which one node makes."""
    makers = makers_of(nodes)
    for node in nodes:
        inner = dict.fromkeys(edge for name in node.read if (edge := makers.get(name)) is not None)
        inputs = (*map(makers.get, node.inputs), *inner)
        yield Operator(node.name, node.op_type, inputs=inputs, scope=node.scope)


def settings_of(options: Any) -> dict[str, str]:
    """Return the settings of a session by which its numbers may change."""
    names = ("execution_mode", "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads")
    return {name: str(getattr(options, name)).rpartition(".")[2] for name in names}


def array_of(value: Any) -> Any:
    """Return an ``OrtValue`` on the CPU as an array or a `RawArray`; ``None`` for text, sequences and maps."""
    if not value.has_value() or not value.is_tensor() or value.element_type() == _STRING:
        return None
    if value.element_type() not in _FOREIGN:
        return value.numpy()
    name, bits = _FOREIGN[value.element_type()]
    shape = tuple(value.shape())
    count = math.prod(shape)
    data = ctypes.string_at(value.data_ptr(), -(-count * bits // 8)) if count else b""
    if bits < 8:
        # A byte for each code.
        codes = stored_as(name if name in _SIGNED else f"uint{bits}")
        data = codes.decode(np.frombuffer(data, codes.stored))[:count].tobytes()
    return RawArray(data, shape, name)


def value_of(array: Any, kind: str = "tensor") -> Any:
    """Return the value to feed: arrays of numpy and of libraries that extend it, lists, values of ONNX Runtime.

    `kind` is the type of the input, as ONNX Runtime writes it. What is no tensor of numbers stays as it is.
    """
    import onnxruntime

    if isinstance(array, onnxruntime.OrtValue) or kind == _TEXT or (kind and not kind.startswith("tensor")):
        return array
    values = np.asarray(array)
    if values.dtype.kind not in "V":
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values).reshape(values.shape))
    return _foreign_value(*array_to_save(values))


def _foreign_value(bits: Any, name: str | None) -> Any:
    import onnxruntime

    number = next((number for number, (known, _) in _FOREIGN.items() if known == name), 0)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


def _returned(value: Any) -> Any:
    """Return what ``InferenceSession.run`` gives back: an array where there is one, else the value itself."""
    if not hasattr(value, "numpy"):
        return value
    try:
        return value.numpy()
    except RuntimeError:
        return value
