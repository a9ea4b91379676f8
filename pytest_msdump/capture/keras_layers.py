"""Records Keras models on TensorFlow: what layers give back, and gradients, while a ``with`` block runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_msdump.capture.choice import Patterns
from pytest_msdump.capture.keras_names import layers_of, recorded
from pytest_msdump.capture.keras_run import KerasRun, Wish
from pytest_msdump.capture.recorder import require
from pytest_msdump.capture.writer import DumpWriter
from pytest_msdump.errors import ConfigError

__all__ = ["KerasRecording", "record"]

_COMPILED = ("refuse", "eager")
_EAGER_DATA = r"Even though the `tf\.config\.experimental_run_functions_eagerly`"
_OTHER_BACKENDS = {
    "torch": "record it with msdump_recorder.torch: its layers are modules of PyTorch",
    "jax": "set KERAS_BACKEND=tensorflow before Keras is imported",
}


def record(
    model: Any,
    directory: str | PathLike[str],
    *,
    layers: Patterns = None,
    exclude: Patterns = None,
    types: Patterns = None,
    **wish: Any,
) -> KerasRecording:
    """Record what the layers of a model give back while a ``with`` block runs.

    Parameters
    ----------
    model : keras.Model or keras.layers.Layer
        Keras 3 on TensorFlow: functional, sequential or a class of one's own.
    directory : path
        An empty folder, or one that will be made.
    layers, exclude : str or sequence of str, optional
        Globs on names: a layer's own, after those of the layers around it (``block/conv``); the model by its own.
        Default: all but ``Sequential`` ones, which give back what their last layer gave back.
    types : str or sequence of str, optional
        Globs on names of types, e.g. ``"Conv*"``.
    inputs : bool
        Record also what layers are given.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of layers, and ``NAME/WEIGHT/grad`` of weights, whenever a
        ``tf.GradientTape`` is asked for gradients inside of the block. What is recorded is the gradient of the tensor,
        summed over all that it was used for.
    parameters : bool
        Record weights as they are before the model is first called in each iteration.
    iterations : bool
        ``True`` for several: see `KerasRecording.step`.
    compiled : str
        ``"refuse"`` layers that run inside of a ``tf.function`` (``predict``, ``fit`` and the like compile one);
        ``"eager"`` runs such functions uncompiled while they are recorded.
    digests : bool
        Put digests of inputs and weights into the manifest, by which a comparison sees that both sides had the same.

    Raises
    ------
    ConfigError
        Nothing to record; Keras on another backend.
    """
    require("tensorflow")
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    wished = Wish(**wish)
    if wished.compiled not in _COMPILED:
        raise ConfigError(f"compiled={wished.compiled!r} is none of {', '.join(map(repr, _COMPILED))}")
    _check(model)
    everything = layers_of(model)
    return KerasRecording(model, Path(directory), everything, recorded(everything, layers, exclude, types), wished)


def _check(model: Any) -> None:
    import keras

    backend = keras.config.backend()
    if backend != "tensorflow":
        raise ConfigError(f"Keras runs on {backend} here; {_OTHER_BACKENDS.get(backend, _OTHER_BACKENDS['jax'])}")
    if not isinstance(model, keras.layers.Layer):
        raise ConfigError(f"a {type(model).__module__}.{type(model).__name__} is no layer or model of Keras 3")


class KerasRecording(KerasRun):
    """A recording of one model; made by `record`. Layers are watched inside of its ``with`` block only.

    Attributes
    ----------
    directory : Path
        The dump; complete once the block has ended.
    """

    def __enter__(self) -> KerasRecording:
        if self.wish.parameters and not self.model.built:
            raise ConfigError(f"{self.model.name} has no weights yet; build it, or call it once before it is recorded")
        with ExitStack() as stack:
            self.writer = stack.enter_context(DumpWriter(self.directory, iterations=self.wish.iterations))
            self.describe()
            self._watch(stack)
            stack.callback(self.stop)
            self.cleanup = stack.pop_all()
        self.is_on = True
        return self

    def _watch(self, stack: ExitStack) -> None:
        import tensorflow as tf

        if self.wish.compiled == "eager":
            stack.callback(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())
            tf.config.run_functions_eagerly(True)
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _EAGER_DATA)
        # Layers have no hooks: what runs when one is called is an attribute of its class, or of a class before it.
        owners = {next(kind for kind in type(layer).__mro__ if "__call__" in vars(kind)) for layer in self.layers}
        for owner in owners:
            _replace(stack, owner, "__call__", self.called)
        if self.wish.gradients:
            _replace(stack, tf.GradientTape, "gradient", self.differentiated)


def _replace(stack: ExitStack, owner: type, name: str, around: Callable[..., Any]) -> None:
    """Have calls of a method go through `around`, which is given the method first, until the stack is closed."""
    method = vars(owner)[name]

    def through(*args: Any, **kwargs: Any) -> Any:
        return around(method, *args, **kwargs)

    setattr(owner, name, through)
    stack.callback(setattr, owner, name, method)
