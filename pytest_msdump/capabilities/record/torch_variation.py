"""What a recording of PyTorch changes of its run, and puts back: weights, inputs, settings, how a batch is run."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial, wraps
from typing import Any

from pytest_msdump.capabilities.record.calls import bound_arguments, named_leaves, with_leaves
from pytest_msdump.capabilities.record.recording import is_a
from pytest_msdump.capabilities.record.torch_tensors import array_of, is_tensor, is_transformed, plain_name, weights
from pytest_msdump.capabilities.record.variation import Control
from pytest_msdump.core.dtypes.arrays import RawArray
from pytest_msdump.core.errors import ConfigError

# Takes the name and the tensor, and returns another, or the same one.
Change = Callable[[str, Any], Any]


@contextmanager
def changed_weights(model: Any, change: Change) -> Iterator[None]:
    """Have a model compute with changed parameters and buffers; those from before are there again after the block."""
    buffers = [(module._buffers, dict(module._buffers)) for module in model.modules()]
    before = {name: (tensor, tensor.data) for name, tensor in weights(model).items()}
    try:
        for name, (tensor, data) in before.items():
            changed = change(name, data)
            tensor.data = data.clone() if changed is data else changed
        yield
    finally:
        for tensor, data in before.values():
            tensor.data = data
        for own, kept in buffers:
            own.update(kept)


def perturbed(name: str, tensor: Any, perturb: Change) -> Any:
    """Return a tensor with what `perturb` makes of it as an array, in the same memory format; itself where it stays."""
    import torch

    if hasattr(tensor, "to_local"):
        raise ConfigError(f"{name} is distributed over processes, and cannot be perturbed; leave perturb= out")
    if tensor.layout is not torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    array = array_of(tensor)
    made = perturb(name, array)
    if made is array:
        return tensor
    bits = torch.from_numpy(made.data if isinstance(made, RawArray) else made)
    changed = bits.view(tensor.dtype).reshape(tensor.shape)
    return changed if tensor.is_contiguous() else torch.empty_like(tensor.detach()).copy_(changed)


def with_channels_last(_: str, tensor: Any) -> Any:
    """Return a tensor in the memory format ``torch.channels_last``; itself where it has not four axes."""
    import torch

    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def varied_inputs(name: str, args: Any, kwargs: Any, change: Change) -> tuple[Any, Any]:
    """Return the arguments of a call with changed tensors, which pass gradients on to those that were given."""

    def changed(path: str, tensor: Any) -> Any:
        import torch

        if is_transformed(tensor):
            return tensor
        made = change(f"{name}/{path}", tensor)
        if made is tensor or made.requires_grad or not tensor.requires_grad:
            return made
        # Exact: numbers that are so near have their difference in the type. Infinite ones have none.
        return tensor + torch.where(made == tensor, 0, made - tensor).detach()

    return with_leaves("", args, is_tensor, changed), with_leaves("", kwargs, is_tensor, changed)


def setting(control: Control) -> AbstractContextManager[Any]:
    """Return a context in which PyTorch computes by this control; it changes nothing for one of tensors."""
    import torch
    from torch.backends import mkldnn

    if control.threads:
        return _set(torch.set_num_threads, torch.get_num_threads(), control.threads)
    if control.name == "onednn=off":
        # Not `flags` of the same module, which resets the others, and warns of some.
        return _set(partial(setattr, mkldnn, "enabled"), mkldnn.enabled, False)
    if control.name == "sdpa=math":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        math: AbstractContextManager[None] = sdpa_kernel(SDPBackend.MATH)
        return math
    return nullcontext()


@contextmanager
def _set(put: Callable[[Any], object], before: Any, value: Any) -> Iterator[None]:
    put(value)
    try:
        yield
    finally:
        put(before)


class BatchHalves:
    """Runs each half of a batch by itself, and joins what is recorded meanwhile, and what the model gives back."""

    def __init__(self, model: Any) -> None:
        for path, module in model.named_modules():
            if module.training and (is_a(module, "_BatchNorm") or (is_a(module, "_DropoutNd") and module.p)):
                raise ConfigError(
                    f"{plain_name(path) or type(model).__name__} is in training mode, where halves of a batch are not "
                    "the batch; call .eval() of the model, or take another control than batch_split"
                )
        self.model, self.has_run = model, False
        # While the model runs: the samples of each half, and which of them it is.
        self._samples: tuple[int, int] | None = None
        self._is_second = False
        self._first: defaultdict[tuple[Any, ...], deque[Any]] = defaultdict(deque)

    def watch(self, stack: ExitStack) -> None:
        """Put a function of its own in the place of the model's ``forward``, until the stack is closed."""
        own = vars(self.model).get("forward")
        forward = self.model.forward
        self.model.forward = wraps(forward)(partial(self._run, forward))
        stack.callback(partial(setattr, self.model, "forward", own) if own else partial(delattr, self.model, "forward"))

    def joined(self, name: str, tensor: Any, about: Mapping[str, Any]) -> Any:
        """Return the tensor to record: ``None`` in the first half, and both halves in the second."""
        if self._samples is None:
            return tensor
        waiting = self._first[name, about.get("io"), about.get("slot")]
        if not self._is_second:
            waiting.append(tensor.detach().clone())
            return None
        if not waiting:
            raise _other_calls(name)
        return self._join(name, waiting.popleft(), tensor)

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        count = _batch(dict(named_leaves("", bound_arguments(forward, args, kwargs), is_tensor)))
        half, results = count // 2, []
        self.has_run, self._samples = True, (half, count - half)
        try:
            for part in (slice(half), slice(half, None)):
                self._is_second = part.start is not None

                def taken(_: str, tensor: Any, part: slice = part) -> Any:
                    return tensor[part]

                mine = (with_leaves("", values, is_tensor, taken) for values in (args, kwargs))
                results.append(forward(*next(mine), **next(mine)))
            if left := [name for (name, *_), waiting in self._first.items() if waiting]:
                raise _other_calls(left[0])
            second = dict(named_leaves("", results[1], is_tensor))
            title = type(self.model).__name__
            return with_leaves("", results[0], is_tensor, lambda path, one: self._join(title, one, second.get(path)))
        finally:
            self._samples = None
            self._first.clear()

    def _join(self, name: str, first: Any, second: Any) -> Any:
        import torch

        if second is None:
            raise _other_calls(name)
        samples = self._samples or (1, 1)
        if first.dim() and second.dim() and first.shape[1:] == second.shape[1:]:
            (times, rest), (other, too) = (divmod(len(one), n) for one, n in zip((first, second), samples, strict=True))
            if times == other and times and not (rest or too):
                return torch.cat((first, second))
        if first.shape == second.shape and torch.equal(first, second):
            return first
        raise ConfigError(
            f"{name} has a tensor of shape {tuple(first.shape)} for {samples[0]} samples, so its axis 0 is not the "
            "batch; leave it out with exclude=, or take another control than batch_split"
        )


def _batch(given: Mapping[str, Any]) -> int:
    """Return how many samples all inputs have."""
    sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in given.items()}
    if len({*sizes.values()}) != 1 or min(sizes.values()) < 2:
        found = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in given.items())
        raise ConfigError(
            f"batch_split takes inputs that have the batch, of 2 samples or more, along axis 0; these are "
            f"{found or 'none'}; take another control"
        )
    return next(iter(sizes.values()))


def _other_calls(name: str) -> ConfigError:
    return ConfigError(f"the halves of the batch call {name} differently; take another control than batch_split")
