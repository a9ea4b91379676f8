"""ONNX models: what their nodes are called, and a copy in memory that gives out every tensor."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.dtypes.arrays import RawArray, stored
from pytest_msdump.errors import ConfigError
from pytest_msdump.record.manifest import digest
from pytest_msdump.record.names import Patterns, chosen
from pytest_msdump.record.recorder import RunRecording, require
from pytest_msdump.storage.files import read_user_file

# A message of protobuf holds no more; larger models keep their weights beside them.
_MOST_BYTES = 2**31


class Node(NamedTuple):
    """A node: the names of its tensors by slot; empty where an optional one is left out."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Model(NamedTuple):
    """A model and the folder of its external data."""

    proto: Any
    folder: Path | None

    @property
    def nodes(self) -> list[Node]:
        """Its nodes in their order, which is an order of execution; each has a name, no two the same."""
        return list(_named(self.proto.graph))

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Yield the initializers by name, read from the file or from beside it."""
        from onnx import numpy_helper

        for initializer in self.proto.graph.initializer:
            yield initializer.name, numpy_helper.to_array(initializer, base_dir=str(self.folder or ""))

    @property
    def has_external_data(self) -> bool:
        """Whether weights lie in files beside the model."""
        return any(initializer.data_location for initializer in self.proto.graph.initializer)


def loaded(model: Any) -> Model:
    """Return a model of a path, of the bytes of a file, or of a ``ModelProto``, which stays as it is.

    Raises
    ------
    DumpNotFoundError
        No such file.
    ConfigError
        It is no ONNX model.
    """
    import onnx

    if isinstance(model, onnx.ModelProto):
        return Model(model, None)
    if isinstance(model, bytes):
        return Model(_parsed(model, "the bytes"), None)
    if not isinstance(model, (str, PathLike)):
        raise ConfigError(f"a {type(model).__name__} is no ONNX model; give a path, bytes or a ModelProto")
    path = Path(model)
    content = read_user_file(path, _MOST_BYTES, want="give an ONNX model")
    return Model(_parsed(content, str(path)), path.absolute().parent)


def with_outputs(model: Model, tensors: Iterable[str]) -> bytes:
    """Return the file of a model that also gives out these tensors.

    Types are left to ONNX Runtime, which infers them.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto)
    known = {output.name for output in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(tensors) if name not in known)
    serialized: bytes = copy.SerializeToString()
    return serialized


def _parsed(content: bytes, where: str) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ConfigError(f"{where}: no ONNX model ({error})") from error
    if not proto.graph.node:
        raise ConfigError(f"{where}: no ONNX model, or one without nodes")
    return proto


def _named(graph: Any) -> Iterator[Node]:
    """A node without a name is called as its first output. ONNX Runtime takes no two nodes of one name."""
    taken = {node.name for node in graph.node}
    for node in graph.node:
        name = node.name or next(filter(None, node.output), "") or node.op_type
        while not node.name and name in taken:
            name += "_"
        taken.add(name)
        yield Node(name, node.op_type, tuple(node.input), tuple(node.output))


# -- Values of ONNX Runtime as arrays, bit for bit, and arrays as values ---------------------------------------------


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
_STRING = 8


def array_of(value: Any) -> Any:
    """Return an array, a `RawArray` where numpy lacks the type, ``None`` for text, sequences and maps.

    Parameters
    ----------
    value : onnxruntime.OrtValue
        In the memory of the CPU.
    """
    if not value.has_value() or not value.is_tensor() or value.element_type() == _STRING:
        return None
    if value.element_type() not in _FOREIGN:
        return value.numpy()
    name, bits = _FOREIGN[value.element_type()]
    shape = tuple(value.shape())
    count = math.prod(shape)
    data = ctypes.string_at(value.data_ptr(), -(-count * bits // 8)) if count else b""
    return RawArray(data if bits >= 8 else _apart(data, bits, count, signed=name in _SIGNED), shape, name)


def _apart(data: bytes, bits: int, count: int, *, signed: bool) -> bytes:
    """A byte for each element of those packed into bytes, the first in the lowest bits."""
    packed = np.frombuffer(data, np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((packed[:, None] >> shifts) & np.uint8(2**bits - 1)).reshape(-1)[:count]
    if signed:
        codes = np.where(codes >= 2 ** (bits - 1), codes.astype(np.int16) - 2**bits, codes).astype(np.int8)
    apart: bytes = codes.tobytes()
    return apart


def value_of(array: Any) -> Any:
    """Return the value to feed: arrays of numpy and of libraries that extend it, lists, values of ONNX Runtime."""
    import onnxruntime

    if isinstance(array, onnxruntime.OrtValue):
        return array
    values = np.asarray(array)
    if values.dtype.kind not in "V":
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values).reshape(values.shape))
    bits, name = stored(values)
    number = next((number for number, (known, _) in _FOREIGN.items() if known == name), 0)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


def given(value: Any) -> Any:
    """Return what ``InferenceSession.run`` gives back: an array where there is one, else the value itself."""
    try:
        return value.numpy()
    except RuntimeError:
        return value


# -- Records ONNX models by ONNX Runtime -----------------------------------------------------------------------------


_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"


class Wish(NamedTuple):
    """What of a model to record, and how to run it; see `record`."""

    inputs: bool = False
    parameters: bool = False
    iterations: bool = False
    digests: bool = True
    session_options: Any = None
    providers: Sequence[Any] = ("CPUExecutionProvider",)


def record(
    model: Any,
    directory: str | PathLike[str],
    *,
    nodes: Patterns = None,
    exclude: Patterns = None,
    types: Patterns = None,
    **wish: Any,
) -> OnnxRecording:
    """Record what the nodes of a model give out, in the runs of a ``with`` block.

    The model is copied in memory; its file stays as it is.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        Weights in files beside the model are read from there.
    directory : path
        An empty folder, or one that will be made.
    nodes, exclude : str or sequence of str, optional
        Globs on names of nodes. A node without a name is called as its first output.
    types : str or sequence of str, optional
        Globs on operators, e.g. ``"Conv"``.
    inputs : bool
        Record also what nodes are given, weights left out.
    parameters : bool
        Record initializers, as operators of type Parameter.
    iterations : bool
        ``True`` for several runs.
    digests : bool
        Put digests of inputs and weights into the manifest, by which a comparison sees that both sides had the same.
    session_options : onnxruntime.SessionOptions, optional
        Default: no optimization of the graph, so that each node is computed as the model says. With optimization, what
        is recorded is not fused, since it is asked for; the rest may be.
    providers : sequence
        Of ONNX Runtime, CPU by default.

    Raises
    ------
    ConfigError
        No model; nothing left to record.
    """
    require("onnx")
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    source = loaded(model)
    names = chosen({node.name: node.op_type for node in source.nodes}, nodes, exclude, types)
    return OnnxRecording(source, Path(directory), names, Wish(**wish))


class OnnxRecording(RunRecording):
    """A recording of one model; made by `record`.

    Attributes
    ----------
    session : onnxruntime.InferenceSession
        Of the copy that gives out every tensor.
    """

    session: Any

    def __init__(self, model: Model, directory: Path, names: frozenset[str], wish: Wish) -> None:
        super().__init__(directory, iterations=wish.iterations)
        self.model, self.wish = model, wish
        self._outputs = [output.name for output in model.proto.graph.output]
        self._nodes = [node for node in model.nodes if node.name in names]

    def prepare(self) -> None:
        """Make the session."""
        import onnxruntime

        options = self.wish.session_options
        if options is None:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if self.model.has_external_data and self.model.folder:
            options.add_session_config_entry(_EXTERNAL_FOLDER, str(self.model.folder))
        wanted = [name for node in self._nodes for name in self._tensors_of(node)]
        content = with_outputs(self.model, wanted)
        self.session = onnxruntime.InferenceSession(content, options, providers=list(self.wish.providers))

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """Run the model, record it, and return what ``onnxruntime.InferenceSession.run`` would.

        Parameters
        ----------
        output_names : sequence of str, optional
            Outputs to return; all of the model's by default.
        input_feed : mapping of str to array
            The model's inputs by name.
        run_options : onnxruntime.RunOptions, optional
            For this run.

        Raises
        ------
        ConfigError
            A second run, where the recording was not made with ``iterations=True``.
        """
        with self.one_run() as iteration:
            feeds = {name: value_of(array) for name, array in input_feed.items()}
            names = [output.name for output in self.session.get_outputs()]
            values = dict(zip(names, self.session.run_with_ort_values(names, feeds, run_options), strict=True))
            self._describe(feeds, iteration)
            for node in self._nodes:
                self._write(node, {**feeds, **values}, iteration)
        return [given(values[name]) for name in (self._outputs if output_names is None else output_names)]

    def _tensors_of(self, node: Node) -> list[str]:
        """The names of the tensors of a node that the session is asked for."""
        fed = {entry.name for entry in self.model.proto.graph.input}
        held = {initializer.name for initializer in self.model.proto.graph.initializer}
        inputs = [name for name in node.inputs if name not in fed | held] if self.wish.inputs else []
        return [name for name in (*inputs, *node.outputs) if name]

    def _write(self, node: Node, values: Mapping[str, Any], iteration: int) -> None:
        sides = (("input", node.inputs), ("output", node.outputs)) if self.wish.inputs else (("output", node.outputs),)
        for io, names in sides:
            for slot, name in enumerate(names):
                array = array_of(values[name]) if name in values else None
                if array is not None:
                    self.writer.write(node.name, array, slot=slot, io=io, iteration=iteration, op_type=node.op_type)

    def _describe(self, feeds: Mapping[str, Any], iteration: int) -> None:
        import onnxruntime

        if self.wish.digests:
            arrays = {name: array_of(value) for name, value in feeds.items()}
            self.tell_inputs({name: array for name, array in arrays.items() if array is not None}, iteration)
        if iteration:
            return
        providers = self.session.get_providers()
        self.writer.describe(framework="onnxruntime", version=onnxruntime.__version__, device=", ".join(providers))
        for name, array in self.model.weights():
            if array.dtype.kind in "OSU":
                continue
            if self.wish.digests:
                self.writer.describe(weights={name: digest(array)})
            if self.wish.parameters:
                self.writer.write(name, array, op_type="Parameter")
