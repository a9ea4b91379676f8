"""Graphs of ``tf.compat.v1``: records every tensor that a session computes, or has TensorFlow's debugger save them.

References: Ascend "Accuracy Comparison Tool", "Preparing .npy Data of a TensorFlow Model". TensorFlow 1.x, command
``lt`` (list_tensors) of tfdbg: ``[time] size op_type node:slot``; first releases printed ``[time ms] node:slot``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.record.recording import Patterns, RunRecording, select_operators
from pytest_msdump.capabilities.record.writer import FileNames, safe_name
from pytest_msdump.cli.output import print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.files import read_user_file

# What begins and ends one side of a condition, and the inside of a loop: there, tensors have no value, or many.
_SWITCHES, _MERGES = ("Switch", "RefSwitch"), ("Merge", "RefMerge")
_ENTERS, _EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")
_VARIABLES = ("Variable", "VariableV2")


class TfGraphRecording(RunRecording):
    """Record the tensors that a session computes, in the runs of a ``with`` block.

    Files are called as tfdbg's are by the vendor's guide: ``conv1/BiasAdd:0`` is ``conv1_BiasAdd.0.TIME.npy``.

    Parameters
    ----------
    session : tf.compat.v1.Session
        Or anything with ``graph`` and ``run``.
    operations, exclude : str or sequence of str, optional
        Globs on names of operations.
    types : str or sequence of str, optional
        Globs on types of operations, e.g. ``"Conv2D"``.
    directory, iterations, digests, save, full, distributed
        As of `record.recording.Recording`.

    Notes
    -----
    Tensors inside of loops, conditions and functions belong to the operation that runs them and are not recorded; nor
    are text and handles. A session that fuses operations fuses fewer when their tensors are asked for, which may change
    the last digits: see ``rewrite_options.disable_meta_optimizer`` of its configuration.
    """

    def __init__(
        self,
        session: Any,
        directory: str | PathLike[str],
        *,
        operations: Patterns = None,
        exclude: Patterns = None,
        types: Patterns = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        if self.perturb is not None:
            raise ConfigError("variables of a session cannot be perturbed; leave perturb= out")
        self.session = session
        self._patterns = (operations, exclude, types)

    def array_of(self, tensor: Any) -> Any:
        """Return a value that the session gave out, ``None`` where it is no array of numbers."""
        is_array = isinstance(tensor, (np.ndarray, np.generic))
        return tensor if is_array and tensor.dtype.kind not in "OSU" else None

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, **options: Any) -> Any:
        """Run the session, record every tensor that this computes, and return what ``Session.run`` would."""
        feeds = feed_dict or {}
        with self.one_run() as iteration:
            operations, early = self._reached(fetches, feeds)
            wanted = {
                (operation, slot): tensor
                for operation in operations
                for slot, tensor in enumerate(tensors_of(self.session.graph, operation))
                if tensor is not None
            }
            at_start = self._at_start({place: tensor for place, tensor in wanted.items() if place[0] in early})
            later = {place: tensor for place, tensor in wanted.items() if place[0] not in early}
            result, values = self.session.run((fetches, later), feed_dict, **options)
            values |= at_start
            if not iteration:
                seed = self.session.graph.seed
                self.writer.describe(
                    framework="tensorflow", version=version(), seeds={} if seed is None else {"graph": seed}
                )
            if self.wants_digests:
                self.describe_inputs({getattr(key, "name", str(key)): np.asarray(feeds[key]) for key in feeds})
            for operation, slot in wanted:
                self.write(operation.name, values.get((operation, slot)), slot=slot, op_type=operation.type)
        return result

    def _reached(self, fetches: Any, feeds: Mapping[Any, Any]) -> Reached:
        import tensorflow as tf

        graph = self.session.graph
        fetched = [
            graph.as_graph_element(fetch)
            for fetch in tf.nest.flatten(fetches, expand_composites=True)
            if fetch is not None
        ]
        fed = [graph.as_graph_element(key) for key in tf.nest.flatten(list(feeds), expand_composites=True)]
        found = reached(graph, fetched, fed)
        names = select_operators({operation.name: operation.type for operation in found.operations}, *self._patterns)
        return found._replace(operations=[operation for operation in found.operations if operation.name in names])

    def _at_start(self, tensors: dict[Any, Any]) -> dict[Any, Any]:
        """Return the values of variables before the run; none where one has no value yet."""
        import tensorflow as tf

        try:
            return dict(self.session.run(tensors)) if tensors else {}
        except tf.errors.FailedPreconditionError:
            return {}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or a variable of TensorFlow, in a graph or not, or one that Keras stands in for."""
    import keras
    import tensorflow as tf

    return tf.is_tensor(value) or isinstance(value, (keras.KerasTensor, keras.Variable))


def is_symbolic(tensor: Any) -> bool:
    """Whether a tensor has no numbers yet: it belongs to a graph, or Keras stands in for it."""
    import tensorflow as tf

    parts = tf.nest.flatten(_plain(tensor), expand_composites=True)
    return any(not hasattr(part, "numpy") for part in parts)


def array_of(tensor: Any) -> Any:
    """Return an array, ``None`` where there are no numbers: text, handles, tensors whose rows differ in length."""
    import tensorflow as tf

    tensor = _plain(tensor)
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.sparse.to_dense(tf.sparse.reorder(tensor))
    elif isinstance(tensor, tf.IndexedSlices):
        tensor = tf.convert_to_tensor(tensor)
    elif isinstance(tensor, tf.RaggedTensor) or not hasattr(tensor, "dtype"):
        return None
    return tensor.numpy() if has_numbers(tensor.dtype) else None


def has_numbers(dtype: Any) -> bool:
    """Whether tensors of this type can be recorded."""
    return dtype.base_dtype.name not in ("string", "resource", "variant")


def version() -> str:
    """Return TensorFlow's version."""
    import tensorflow as tf

    return str(tf.__version__)


def _plain(tensor: Any) -> Any:
    """Return the tensor in a variable of Keras; others as they are."""
    import keras

    return tensor.value if isinstance(tensor, keras.Variable) else tensor


class Reached(NamedTuple):
    """Operations that a run computes and that have tensors to give out, in the graph's order."""

    operations: list[Any]
    early: frozenset[Any]


def reached(graph: Any, fetches: Iterable[Any], fed: Iterable[Any]) -> Reached:
    """Return what computing the tensors and operations `fetches` needs, when the tensors `fed` are given."""
    given = {tensor.ref() for tensor in fed}
    found: set[Any] = set()
    waiting = list(fetches)
    while waiting:
        item = waiting.pop()
        if hasattr(item, "ref") and item.ref() in given:
            found.add(item.op)
            continue
        operation = getattr(item, "op", item)
        if operation not in found:
            found.add(operation)
            waiting += [*operation.inputs, *operation.control_inputs]
    in_order = [operation for operation in graph.get_operations() if operation in found]
    uncertain = _uncertain(in_order)
    operations = [
        operation
        for operation in in_order
        if operation not in uncertain and any(tensor is not None for tensor in tensors_of(graph, operation))
    ]
    return Reached(operations, _early(in_order, operations))


def tensors_of(graph: Any, operation: Any) -> list[Any]:
    """Return the outputs of an operation by slot; ``None`` where a session gives out none, or one without numbers."""
    return [
        tensor if graph.is_fetchable(tensor) and has_numbers(tensor.dtype) else None for tensor in operation.outputs
    ]


def _uncertain(operations: Iterable[Any]) -> set[Any]:
    """Return the operations inside of loops, and on one side of a condition, which may have no value."""
    depths: dict[Any, tuple[int, int]] = {}
    for operation in operations:
        before = {*(tensor.op for tensor in operation.inputs), *operation.control_inputs}
        # What a loop brings back is made later, and no deeper than what enters it.
        known = [depths[one] for one in before if one in depths]
        conditions, loops = (max((depth[side] for depth in known), default=0) for side in (0, 1))
        begins_loop = any(one.type in _ENTERS for one in before)
        conditions += (operation.type in _SWITCHES) - (operation.type in _EXITS)
        conditions -= operation.type in _MERGES and not begins_loop
        loops += (operation.type in _ENTERS) - (operation.type in _EXITS)
        depths[operation] = (conditions, loops)
    return {operation for operation, depth in depths.items() if max(depth) > 0}


def _early(computed: Iterable[Any], recorded: Iterable[Any]) -> frozenset[Any]:
    """Return variables without a handle that are written to, and what reads them at the start of the run."""
    written = {
        tensor.op
        for operation in computed
        for tensor in operation.inputs
        if tensor.dtype._is_ref_dtype and any(output.dtype._is_ref_dtype for output in operation.outputs)
    }
    return frozenset(
        operation
        for operation in recorded
        if operation in written
        or (operation.type == "Identity" and operation.inputs[0].op in written and not operation.control_inputs)
        if operation.type in (*_VARIABLES, "Identity")
    )


# -- commands for the debugger -----------------------------------------------------------------------------------------

_LINE = re.compile(r"\s*\[\s*([0-9.]+)(?: ms)?\]\s+(?:\S+\s+\S+\s+)?([^\s:]+):([0-9]{1,9})\s*")
_COUNT = re.compile(r"(?<![0-9])([0-9]{1,18}) dumped tensor\(s\)")
_LONGEST_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Listed:
    """One dumped tensor of a list: when, of what node and slot, and which of several dumps of the same tensor."""

    milliseconds: float
    node: str
    slot: int
    number: int = 0


def read_listing(text: str, *, source: str) -> list[Listed]:
    """Read the tensors that ``lt > FILE`` saved, by time; ConfigError, naming `source`, where there are too few."""
    found = [match for match in map(_LINE.fullmatch, text.splitlines()) if match]
    count = _COUNT.search(text)
    if not found or (count and int(count[1]) != len(found)):
        claim = f" of the {count[1]} that its first line announces" if count and found else ""
        raise ConfigError(
            f"{source}: {len(found)} tensors are listed{claim}; save the whole list in tfdbg with: lt > tensor_name"
        )
    # The list may have been sorted by name or size; tensors of one time are listed in the order in which they ran.
    listed = sorted(((_time(match[1], source), match[2], int(match[3])) for match in found), key=itemgetter(0))
    seen: Counter[tuple[str, int]] = Counter()
    tensors = []
    for time, node, slot in listed:
        tensors.append(Listed(time, node, slot, seen[node, slot]))
        seen[node, slot] += 1
    return tensors


def _time(text: str, source: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{source}: '[{text}]' is not a time in ms; save the list with: lt > tensor_name") from None


def print_commands(listed: list[Listed], *, first: int | None = None, folder: str = "") -> Iterator[str]:
    """Yield a ``pt`` command for each tensor: ``/`` of its name becomes ``_``, ``:`` a dot, and times rise."""
    names = FileNames(first)
    prefix = f"{folder.rstrip('/') or '/'}/".replace("//", "/") if folder else ""
    for tensor in listed:
        name = names.name(tensor.node, "output", tensor.slot)
        if len(name) > _LONGEST_NAME_BYTES:
            raise ConfigError(
                f"{safe_name(tensor.node)[:60]}…: its file name would have {len(name)} bytes, and file systems take "
                f"{_LONGEST_NAME_BYTES}; take this line out of the list, or shorten the name of its scope"
            )
        yield f"pt {tensor.node}:{tensor.slot} -n {tensor.number} -w {prefix}{name}"


DESCRIPTION = (
    "Read the list that 'lt > tensor_name' saved inside of TensorFlow's debugger, and print the pt commands that save "
    "each tensor as OP.SLOT.TIME.npy. Paste them at its prompt; if that does not work, type 'mouse off' there first."
)
EXAMPLES = ("msdump tfdbg tensor_names.txt --folder saved",)

_LARGEST_BYTES = 256 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the list."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FILE",
        help="what 'lt > FILE' saved; '-' for standard input (tensor_name FILE, too)",
    )
    parser.add_argument(
        "--folder", default="", metavar="DIR", help="folder that tfdbg saves to (default: where it runs)"
    )
    parser.add_argument("--time", metavar="µs", help="time of the first file, 16 digits (default: now)")


def run(parsed: argparse.Namespace) -> int:
    """Print the commands for a list; return the exit code."""
    name = _file(parsed.words)
    if any(letter.isspace() for letter in parsed.folder):
        raise ConfigError(f"--folder '{parsed.folder}': tfdbg takes no path with blanks; give another folder")
    commands = print_commands(read_listing(_text(name), source=name), first=_first(parsed.time), folder=parsed.folder)
    # First all of them: half a list would be taken for the whole.
    print_lines(list(commands))
    return 0


def _file(words: list[str]) -> str:
    if len(words) == 2 and words[0] == "tensor_name":
        return words[1]
    if len(words) > 1:
        raise ConfigError("give one file: msdump tfdbg FILE")
    return words[0]


def _first(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) == 16 and text[0] != "0"):
        raise ConfigError(f"--time {text}: give 16 digits, microseconds since 1970")
    return int(text)


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read(_LARGEST_BYTES)
    content = read_user_file(Path(name), _LARGEST_BYTES, want="save a list inside of tfdbg with: lt > tensor_name")
    return content.decode("utf-8", errors="replace")
