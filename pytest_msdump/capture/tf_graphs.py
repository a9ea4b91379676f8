"""Records graphs of ``tf.compat.v1``: every tensor that a run of a session computes."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capture.choice import Patterns, chosen
from pytest_msdump.capture.run_recording import RunRecording
from pytest_msdump.capture.tf_graph_walk import reached, tensors_of
from pytest_msdump.capture.tf_values import version

__all__ = ["TfGraphRecording", "record"]


class Wish(NamedTuple):
    """What of a graph to record; see `record`."""

    operations: Patterns = None
    exclude: Patterns = None
    types: Patterns = None
    iterations: bool = False
    digests: bool = True


def record(session: Any, directory: str | PathLike[str], **wish: Any) -> TfGraphRecording:
    """Record the tensors that a session computes, in the runs of a ``with`` block.

    Files are called as tfdbg's are by the vendor's guide: ``conv1/BiasAdd:0`` is ``conv1_BiasAdd.0.TIME.npy``.

    Parameters
    ----------
    session : tf.compat.v1.Session
        Or anything with ``graph`` and ``run``.
    directory : path
        An empty folder, or one that will be made.
    operations, exclude : str or sequence of str, optional
        Globs on names of operations.
    types : str or sequence of str, optional
        Globs on types of operations, e.g. ``"Conv2D"``.
    iterations : bool
        ``True`` for several runs.
    digests : bool
        Put digests of what is fed into the manifest, by which a comparison sees that both sides had the same.

    Notes
    -----
    Tensors inside of loops, conditions and functions belong to the operation that runs them and are not recorded; nor
    are text and handles. A session that fuses operations fuses fewer when their tensors are asked for, which may change
    the last digits: see ``rewrite_options.disable_meta_optimizer`` of its configuration.
    """
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    return TfGraphRecording(session, Path(directory), Wish(**wish))


class TfGraphRecording(RunRecording):
    """A recording of one session; made by `record`."""

    def __init__(self, session: Any, directory: Path, wish: Wish) -> None:
        super().__init__(directory, iterations=wish.iterations)
        self.session, self.wish = session, wish

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, **options: Any) -> Any:
        """Run the session, record every tensor that this computes, and return what ``Session.run`` would.

        Parameters
        ----------
        fetches
            As ``Session.run`` takes them.
        feed_dict : mapping, optional
            What to feed, by tensor.
        **options
            ``options`` and ``run_metadata`` of ``Session.run``.

        Raises
        ------
        ConfigError
            A second run, where the recording was not made with ``iterations=True``.
        """
        with self.one_run() as iteration:
            operations, early = self._operations(fetches, feed_dict or {})
            graph = self.session.graph
            wanted = {
                (operation, slot): tensor
                for operation in operations
                for slot, tensor in enumerate(tensors_of(graph, operation))
                if tensor is not None
            }
            at_start = self._at_start({place: tensor for place, tensor in wanted.items() if place[0] in early})
            later = {place: tensor for place, tensor in wanted.items() if place[0] not in early}
            result, values = self.session.run((fetches, later), feed_dict, **options)
            values |= at_start
            self._describe(feed_dict or {}, iteration)
            for operation, slot in wanted:
                self._write(operation, slot, values.get((operation, slot)), iteration)
        return result

    def _operations(self, fetches: Any, feeds: Mapping[Any, Any]) -> tuple[list[Any], frozenset[Any]]:
        """What is recorded of a run."""
        import tensorflow as tf

        graph = self.session.graph
        asked = [
            graph.as_graph_element(fetch)
            for fetch in tf.nest.flatten(fetches, expand_composites=True)
            if fetch is not None
        ]
        fed = [graph.as_graph_element(key) for key in tf.nest.flatten(list(feeds), expand_composites=True)]
        found = reached(graph, asked, fed)
        kinds = {operation.name: operation.type for operation in found.operations}
        names = chosen(kinds, self.wish.operations, self.wish.exclude, self.wish.types)
        return [operation for operation in found.operations if operation.name in names], found.early

    def _at_start(self, tensors: dict[Any, Any]) -> dict[Any, Any]:
        """The values of variables before the run; none where one has no value yet."""
        import tensorflow as tf

        try:
            return dict(self.session.run(tensors)) if tensors else {}
        except tf.errors.FailedPreconditionError:
            return {}

    def _write(self, operation: Any, slot: int, value: Any, iteration: int) -> None:
        if isinstance(value, (np.ndarray, np.generic)):
            self.writer.write(operation.name, value, slot=slot, iteration=iteration, op_type=operation.type)

    def _describe(self, feeds: Mapping[Any, Any], iteration: int) -> None:
        if not iteration:
            seed = self.session.graph.seed
            self.writer.describe(
                framework="tensorflow",
                version=version(),
                seeds={} if seed is None else {"graph": seed},
            )
        if self.wish.digests:
            arrays = {getattr(key, "name", str(key)): np.asarray(value) for key, value in feeds.items()}
            self.tell_inputs(
                {name: array for name, array in arrays.items() if array.dtype.kind not in "OSU"}, iteration
            )
