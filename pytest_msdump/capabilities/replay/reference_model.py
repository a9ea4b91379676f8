"""The reference model that a command line names as ``FILE:FUNCTION``, and the replay of a plan with it.

Code of a user runs only where its file is typed, never from a suite file or an ini key (INTERFACE 8).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump.capabilities.frameworks.onnx import Model, OnnxRecording, load_model
from pytest_msdump.capabilities.programs.functions import load_function, running
from pytest_msdump.capabilities.record.manifest import has_digest
from pytest_msdump.capabilities.replay.forcing import GRADIENTS, OPTIMIZER, Forcing
from pytest_msdump.capabilities.replay.keras_forcing import KerasModel, force_layers, keras_model
from pytest_msdump.capabilities.replay.onnx_forcing import force_nodes, inputs_of
from pytest_msdump.capabilities.replay.torch_double import Calling
from pytest_msdump.capabilities.replay.torch_forcing import force, names_of, raised_by_the_model, weights_read
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.planning import plan as make_plan
from pytest_msdump.core.errors import ConfigError, require_packages
from pytest_msdump.core.gate import Replayed
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.model.report import ReplayShare
from pytest_msdump.core.text.phrases import ENGLISH

# Why a tensor is none that a replay can judge, as codes of messages.
_BY_NATURE = frozenset(
    f"local_{code}"
    for code in (
        *("input", "weight", "optimizer", "before_step", "no_state", "forward_only", "inside"),
        *("random", "single", "unsteady", "empty", "behind"),
    )
)
_USAGE = (
    "return the model; or (model, inputs): a tensor, a tuple of arguments or a dict of keywords; or (model, run): "
    "a function of the model that runs what was recorded, with its backward pass"
)


@dataclass(frozen=True)
class Reference:
    """A reference model; `run` gets a copy and runs what was recorded, ``None`` to take recorded inputs."""

    model: Any
    run: Callable[[Any], Any] | None
    source: str

    @property
    def is_torch(self) -> bool:
        """Whether it is a model of PyTorch."""
        return not isinstance(self.model, (Model, KerasModel))

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Yield the weights that a run reads, by the names that recordings give them, as arrays."""
        if isinstance(self.model, (Model, KerasModel)):
            yield from self.model.weights()
        else:
            yield from weights_read(self.model)

    def runner(self, *dumps: Dump) -> Callable[[Any], Any]:
        """Return `run`, or a function that calls a model with the inputs that the first of the dumps has of it."""
        if self.run is not None:
            return self.run
        import torch

        inputs = self._recorded(next(iter(names_of(self.model))), *dumps)
        return Calling(tuple(torch.from_numpy(np.array(array)) for array in inputs))

    def fed(self, *dumps: Dump) -> KerasModel:
        """Return the model of Keras with its inputs, if need be those that the first of the dumps has of it."""
        fed: KerasModel = self.model
        if fed.given is not None:
            return fed
        inputs = self._recorded(fed.model.name, *dumps)
        return fed._replace(given=inputs[0] if len(inputs) == 1 else inputs)

    def _recorded(self, name: str, *dumps: Dump) -> list[Any]:
        for dump in dumps:
            inputs = list(_inputs(dump, name))
            if inputs:
                return inputs
        raise ConfigError(
            f"{self.source} returned a model without inputs, and neither dump has those of {name} (a recording with "
            f"inputs=True has); {_USAGE}"
        )


def load_reference(text: str) -> Reference:
    """Run FILE and call FUNCTION, of a typed ``FILE:FUNCTION``, or load a ``MODEL.onnx``; else a ConfigError."""
    if text.endswith(".onnx"):
        require_packages("onnx", need=text)
        return Reference(load_model(text), None, text)
    function = load_function(text, example="reference.py:build")
    name, _, wanted = text.rpartition(":")
    file = Path(name)
    with running(file, f"{file}: {wanted}"):
        returned = function()
    model, given = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    return reference_of(model, given, source=f"{file}:{wanted}")


def reference_of(model: Any, given: Any = None, *, source: str = "the reference") -> Reference:
    """Return the reference of a model and its inputs, or of a function that runs it; ConfigError for other models."""
    if not hasattr(model, "named_modules"):
        keras = keras_model(model, given, source)
        if keras is not None:
            return Reference(keras, None, source)
        raise ConfigError(
            f"{source} returned a {type(model).__name__}; only models of PyTorch (torch.nn.Module) and Keras are "
            f"replayed: {_USAGE}"
        )
    if given is None or (callable(given) and not hasattr(given, "shape") and not isinstance(given, Mapping)):
        return Reference(model, given, source)
    if isinstance(given, Mapping):
        return Reference(model, Calling((), given), source)
    return Reference(model, Calling(tuple(given) if isinstance(given, (tuple, list)) else (given,)), source)


def replay_plan(plan: Plan, reference: Reference) -> dict[int, Local]:
    """Return what a replay says of each pair of a plan, by number; see `torch_forcing.force` and its neighbours."""
    policy = dict(plan.left.labels).get("dtype_policy", "")
    whole, pairs = Selection(io=plan.suite.selection.io), plan.pairing.pairs
    if plan.suite.selection != whole:
        # What is not selected is put in all the same.
        pairs = make_plan(replace(plan.suite, selection=whole)).pairing.pairs
    with tempfile.TemporaryDirectory(prefix="msdump-replay-") as folder:
        forcing = Forcing(pairs, Path(folder), plan.left.refs)
        with raised_by_the_model():
            _refuse_other_weights(reference, plan.right)
        if isinstance(reference.model, Model):
            feeds = inputs_of(reference.model, reference.source, (plan.left, plan.right))
            with raised_by_the_model():
                found = force_nodes(reference.model, feeds, forcing)
        elif isinstance(reference.model, KerasModel):
            found = force_layers(reference.fed(plan.left, plan.right), forcing)
        else:
            found = force(reference.model, reference.runner(plan.left, plan.right), forcing, policy=policy)
    numbers = {(pair.left.key, pair.right.key): number for number, pair in enumerate(plan.pairing.pairs)}
    known = (
        (numbers.get((pair.left.key, pair.right.key)), found[one]) for one, pair in enumerate(pairs) if one in found
    )
    return {number: local for number, local in known if number is not None}


def replayed(plan: Plan, reference: Reference) -> Replayed:
    """Return what a replay says of each pair of a plan, and how much it judged."""
    local = replay_plan(plan, reference)
    return Replayed(local, share_of(plan, local))


def share_of(plan: Plan, local: Mapping[int, Local]) -> ReplayShare:
    """Return how many of the reference's operators were judged, of those that can be; `local` is of `replay_plan`."""
    labels = {ref.key.op.label for ref in plan.right.refs}
    outer = {label[:place] for label in labels for place, sign in enumerate(label) if sign == "."}
    # Functions that a recording has beside their module: what they gave is judged with what it went into.
    functions = {label for label in labels if label.rpartition("/")[0] in labels}
    judged: set[str] = set()
    wanted: dict[str, None] = {}
    for number, pair in enumerate(plan.pairing.pairs):
        one, label = local.get(number), pair.right.key.op.label
        if one is not None and one.why is None:
            judged |= {label, *one.segment}
        code = "" if one is None or one.why is None else one.why.code
        if code not in _BY_NATURE and not (code == "local_not_called" and label in functions):
            wanted[label] = None
    # Of a module around others each of these counts.
    passed_over = functions | (outer - judged)
    for alone in plan.pairing.unmatched_right:
        key = alone.ref.key
        is_computed = key.io == "output" and key.op.op_type not in (PARAMETER, OPTIMIZER)
        if is_computed and not key.op.label.endswith(GRADIENTS) and key.op.label not in passed_over:
            wanted[key.op.label] = None
    rest = tuple(label for label in wanted if label not in judged)
    return ReplayShare(len(wanted) - len(rest), len(wanted), plan.suite.options["min_replayed"], rest)


def _refuse_other_weights(reference: Reference, right: Dump) -> None:
    """Refuse a model that is not the one that the right side was recorded of: its own modules would be accused."""
    known = {} if right.manifest is None else right.manifest.weights
    other = [name for name, array in reference.weights() if name in known and not has_digest(array, known[name])]
    if other:
        raise ConfigError(
            f"{reference.source} has other weights than the model that the right side was recorded of: "
            f"{ENGLISH.named(other, 4)}; load the same weights, or record the right side again"
        )


def record_reference(reference: Reference, left: Dump, directory: Path) -> None:
    """Record the reference as it is into `directory`, for a left side that has no recording of it to pair with."""
    if isinstance(reference.model, Model):
        require_packages("onnxruntime", need=f"recording {reference.source}")
        with raised_by_the_model(), OnnxRecording(reference.source, directory) as nodes:
            nodes.run(None, inputs_of(reference.model, reference.source, (left,)))
        return
    if isinstance(reference.model, KerasModel):
        require_packages("tensorflow", need=f"recording {reference.source}")
        reference.fed(left).record(directory)
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from pytest_msdump.capabilities.record.torch import TorchRecording

    has_gradients = any(ref.key.op.label.endswith(("/grad_output", "/grad")) for ref in left.refs)
    run = reference.runner(left)
    # What runs may train it.
    model = copy.deepcopy(reference.model)
    operators = [ref.key.op for ref in left.refs if ref.key.op.op_type != OPTIMIZER]
    functions = {op.label for op in operators if "/" in op.label and not op.label.endswith(GRADIENTS)}
    is_beside = any("/" not in op.label and op.op_type != PARAMETER for op in operators)
    level = "module" if not functions else "both" if is_beside else "operation"
    recording = TorchRecording(model, directory, gradients=has_gradients, level=level)
    with ExitStack() as stack:
        if any(ref.key.op.op_type == OPTIMIZER for ref in left.refs):
            # The optimizer is made while the reference runs.
            stack.callback(register_optimizer_step_post_hook(recording.stepped).remove)
        stack.enter_context(recording)
        stack.enter_context(raised_by_the_model())
        run(model)


def _inputs(dump: Dump, name: str) -> Iterable[Any]:
    """Return what the outermost module was given when it was first called, as a dump has it."""
    refs = [ref for ref in dump.refs if ref.key.op.label == name and ref.key.io == "input" and not ref.is_unseen]
    first = [ref for ref in refs if ref.key.op.at == refs[0].key.op.at]
    for ref in sorted(first, key=lambda one: one.key.slot):
        with closing(open_view(ref)) as view:
            yield view.read(0, view.size).reshape(view.shape).copy()
