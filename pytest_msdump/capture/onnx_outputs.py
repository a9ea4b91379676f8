"""Records ONNX models by ONNX Runtime: every tensor that a node gives out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capture.choice import Patterns, chosen
from pytest_msdump.capture.digests import digest
from pytest_msdump.capture.onnx_model import Model, Node, loaded, with_outputs
from pytest_msdump.capture.onnx_values import array_of, given, value_of
from pytest_msdump.capture.recorder import require
from pytest_msdump.capture.run_recording import RunRecording

__all__ = ["OnnxRecording", "record"]

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
