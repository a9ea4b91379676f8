"""Steps of PyTorch's optimizers, each taken again from what the left had before it."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.replay.forcing import GRADIENTS, OPTIMIZER, damaged, in_order_of, judge, not_replayable
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.profiles import SCORE_LIMITS
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.model.tensor import Pair

Array = npt.NDArray[Any]
# What the parameter itself is called after a step, beside its state; a counter that starts at 0.
_UPDATED, _COUNTER = "updated", "step"
# These change how a step is computed, not what.
_WAYS = ("foreach", "fused", "capturable", "differentiable")


class Steps:
    """The steps of a reference's optimizers, as its run takes them; the left's are judged by them."""

    def __init__(self, pairs: Mapping[int, Pair]) -> None:
        # By name and iteration: what stands there.
        self._pairs = pairs
        self._known: dict[tuple[str, int], Pair | None] = {}
        self._wanted: defaultdict[tuple[str, int], dict[int, str]] = defaultdict(dict)
        iterations = sorted({one.left.key.op.at.iteration or 0 for one in pairs.values() if _is_state(one)})
        for number, pair in pairs.items():
            key = pair.right.key
            iteration = pair.left.key.op.at.iteration or 0
            if iteration in iterations and (_is_state(pair) or key.op.label.endswith(GRADIENTS[2])):
                place = key.op.label, iterations.index(iteration)
                self._known[place] = None if place in self._known else pair
                if _is_state(pair):
                    name, _, what = key.op.label.rpartition("/")
                    self._wanted[name, place[1]][number] = what
        # By parameter: the optimizer and its settings, once for each step; whether it had taken steps before.
        self._taken: defaultdict[str, list[tuple[Any, dict[str, Any]]]] = defaultdict(list)
        self._begun: set[str] = set()

    @contextmanager
    def seen(self, model: Any) -> Iterator[None]:
        """Watch the steps that are taken while this is open."""
        from torch.optim import optimizer

        names = {id(one): name for name, one in model.named_parameters()}

        def begins(one: Any, *_: Any) -> None:
            for group in one.param_groups:
                settings = {name: value for name, value in group.items() if name != "params"}
                for parameter in group["params"]:
                    name = names.get(id(parameter), "")
                    if not self._taken[name] and one.state.get(parameter):
                        self._begun.add(name)
                    self._taken[name].append((type(one), copy.deepcopy(settings)))

        handle = optimizer.register_optimizer_step_pre_hook(begins) if self._wanted else None
        try:
            yield
        finally:
            if handle is not None:
                handle.remove()

    def judged(self, model: Any) -> dict[int, Local]:
        """Return what each pair after a step is; `model` has the weights before the first one."""
        weights = dict(model.named_parameters())
        found: dict[int, Local] = {}
        for (name, step), wanted in self._wanted.items():
            found |= self._judged(name, step, wanted, weights)
        return found

    def _judged(self, name: str, step: int, wanted: Mapping[int, str], weights: Mapping[str, Any]) -> dict[int, Local]:
        try:
            made = self._again(name, step, weights)
            if isinstance(made, Local):
                return dict.fromkeys(wanted, made)
            return {number: self._compared(self._pairs[number], what, made) for number, what in wanted.items()}
        except (MsdumpError, OSError) as error:
            return dict.fromkeys(wanted, damaged("unreadable", reason=str(error)))
        except Exception as error:
            reason = f"{type(error).__name__}: {error!s:.300}"
            return dict.fromkeys(wanted, not_replayable("raised", reason=reason))

    @staticmethod
    def _compared(pair: Pair, what: str, made: Mapping[str, tuple[Array, Array]]) -> Local:
        if what not in made:
            return not_replayable("no_state", name=what)
        left, dtype = in_order_of(pair, made[what][0].shape)
        return judge(left, dtype, *made[what], limit=SCORE_LIMITS["plain"])

    def _again(self, name: str, number: int, weights: Mapping[str, Any]) -> Local | dict[str, tuple[Array, Array]]:
        """Take a step again in float64 and in float32; return what each gives, or why there is nothing."""
        taken = self._taken.get(name, [])
        if name not in weights or number >= len(taken):
            return not_replayable("optimizer", step=number)
        if name in self._begun or self._known.get((f"{name}/{_UPDATED}", number)) is None:
            return not_replayable("before_step", name=name)
        weight = weights[name].detach().cpu()
        gradient = self._left(f"{name}{GRADIENTS[2]}", number, weight.shape)
        before = self._left(f"{name}/{_UPDATED}", number - 1, weight.shape) if number else weight
        if gradient is None or before is None:
            return not_replayable("before_step", name=f"{name}{GRADIENTS[2]}" if gradient is None else name)
        kind, settings = taken[number]
        state: dict[str, Array] = {}
        # A first step shows what there is besides the parameter.
        for what, value in _step(kind, settings, weight, gradient, {}, "float64").items() if number else ():
            known = self._left(f"{name}/{what}", number - 1, value.shape)
            if known is None and what != _COUNTER:
                return not_replayable("before_step", name=f"{name}/{what}")
            state[what] = np.float32(number) if known is None else known
        exact, own = (_step(kind, settings, before, gradient, state, dtype) for dtype in ("float64", "float32"))
        return {what: (value, own[what]) for what, value in exact.items()}

    def _left(self, label: str, number: int, shape: tuple[int, ...]) -> Array | None:
        """Return what the left has of this name in an iteration; ``None`` where it was not recorded."""
        pair = self._known.get((label, number))
        return None if pair is None else in_order_of(pair, tuple(shape))[0]


def _is_state(pair: Pair) -> bool:
    return pair.right.key.op.op_type == OPTIMIZER and not pair.left.is_unseen


def _step(
    kind: Any, settings: Mapping[str, Any], before: Any, gradient: Array, state: Mapping[str, Array], dtype: str
) -> dict[str, Array]:
    """Return the parameter and its state after a step, by name."""
    import torch

    parameter = torch.nn.Parameter(_tensor(before).to(getattr(torch, dtype), copy=True))
    parameter.grad = _tensor(gradient).to(parameter.dtype, copy=True)
    try:
        optimizer = kind([parameter])
    except TypeError:
        optimizer = kind([parameter], lr=settings["lr"])
    group = optimizer.param_groups[0]
    group.update(settings, **{name: False for name in _WAYS if name in settings})
    if state:
        # A counter stays what it is: float32 holds it.
        optimizer.state[parameter].update(
            {
                name: _tensor(one).to(torch.float32 if name == _COUNTER else parameter.dtype, copy=True)
                for name, one in state.items()
                if name != _UPDATED
            }
        )
    optimizer.step()
    found = {name: one for name, one in optimizer.state[parameter].items() if isinstance(one, torch.Tensor)}
    return {name: one.detach().numpy() for name, one in {**found, _UPDATED: parameter}.items()}


def _tensor(values: Any) -> Any:
    import torch

    return values if isinstance(values, torch.Tensor) else torch.from_numpy(np.array(values))
