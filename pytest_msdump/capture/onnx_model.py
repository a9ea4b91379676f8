"""ONNX models: what their nodes are called, and a copy in memory that gives out every tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.errors import ConfigError
from pytest_msdump.storage.regular import read_given

__all__ = ["Model", "Node", "loaded", "with_outputs"]


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
    content = read_given(path, _MOST_BYTES, want="give an ONNX model")
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
