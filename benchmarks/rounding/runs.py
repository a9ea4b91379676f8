"""One step of a network in some setting, and every tensor of it: outputs, gradients, updated weights."""

from __future__ import annotations

import copy
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from rounding.networks import Network, loss_of
from rounding.orders import order

__all__ = ["Setting", "Step", "Tensor", "harmless", "perturbed", "random_controls", "run", "tensors_in"]


class Tensor(NamedTuple):
    """A tensor as recorders name it, in float64; gradients are those that `causes` calls so."""

    operator: str
    is_gradient: bool
    values: torch.Tensor


@dataclass(frozen=True)
class Setting:
    """How a step is computed; the default is how the reference is.

    Parameters
    ----------
    threads : int
        Of PyTorch.
    onednn : bool
        Whether convolutions, products and LSTMs go to oneDNN.
    channels_last : bool
        Memory layout of images and weights.
    parts : int
        Parts the batch is computed in, one after the other.
    shuffle : int
        Seed of another order of the samples; 0 for none. Results are brought back to the first order.
    attention : str
        ``"math"`` or ``"flash"``: the kernel of fused attention; ``"eager"``: not fused.
    order : str
        A way of `orders.ORDERS`.
    compiled : str
        Backend of `torch.compile` for each layer.
    dtype : torch.dtype
        Of weights, inputs and what is computed.
    """

    threads: int = 1
    onednn: bool = True
    channels_last: bool = False
    parts: int = 1
    shuffle: int = 0
    attention: str = ""
    order: str = ""
    compiled: str = ""
    dtype: torch.dtype = torch.float32

    @property
    def type_name(self) -> str:
        """The name of its type, e.g. ``"float32"``."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def name(self) -> str:
        """What differs from the reference."""
        told = {
            "threads": f"{self.threads} threads",
            "onednn": "oneDNN off",
            "channels_last": "channels last",
            "parts": f"batch in {self.parts}",
            "shuffle": f"batch permuted {self.shuffle}",
            "attention": f"attention {self.attention}",
            "order": self.order,
            "compiled": self.compiled,
            "dtype": self.type_name,
        }
        plain = Setting()
        return " + ".join(text for key, text in told.items() if getattr(self, key) != getattr(plain, key)) or "again"


@dataclass
class Step:
    """What one training step does besides the model; mistakes change it."""

    rate: float = 0.05
    momentum: float = 0.9
    decay: float = 1e-3
    nesterov: bool = False
    given: Callable[[torch.Tensor], torch.Tensor] = lambda given: given
    loss: Callable[[torch.Tensor], torch.Tensor] = lambda loss: loss
    smoothing: float = 0.0
    gradient: Callable[[str, torch.Tensor], torch.Tensor] = field(default=lambda _, gradient: gradient)


def run(
    network: Network,
    setting: Setting,
    *,
    change: Callable[[nn.Module, Step], Any] | None = None,
    perturb: Callable[[nn.Module, torch.Tensor], torch.Tensor] | None = None,
) -> list[Tensor]:
    """Compute one step, and return its tensors in the order in which they were made.

    Parameters
    ----------
    network : Network
        It stays as it is.
    setting : Setting
        How.
    change : callable, optional
        Makes a mistake in the model or the step.
    perturb : callable, optional
        Changes the weights in place, and returns other inputs.
    """
    model = copy.deepcopy(network.model).to(setting.dtype)
    given, labels, step = network.given, network.labels, Step()
    if given.is_floating_point():
        given = given.to(setting.dtype)
    if perturb:
        given = perturb(model, given)
    if change:
        with torch.no_grad():
            change(model, step)
    given = step.given(given)
    with _set(model, setting):
        rows = torch.arange(len(given))
        if setting.shuffle:
            rows = torch.randperm(len(given), generator=torch.Generator().manual_seed(setting.shuffle))
        parts = []
        for part in rows.chunk(setting.parts):
            x = given[part]
            if setting.channels_last and x.ndim == 4:
                x = x.to(memory_format=torch.channels_last)
            parts.append(_computed(model, x, labels[part], len(given), step))
    found = _joined(parts, rows, len(given))
    return [*found, *_updated(network, model, step, found)]


@contextmanager
def _set(model: nn.Module, setting: Setting) -> Iterator[None]:
    if setting.channels_last:
        model.to(memory_format=torch.channels_last)
    with ExitStack() as stack:
        torch.set_num_threads(setting.threads)
        stack.callback(torch.set_num_threads, 1)
        if not setting.onednn:
            # It warns of a setting for other processors.
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        if setting.attention == "eager":
            for module in model.modules():
                if hasattr(module, "config"):
                    module.config._attn_implementation = "eager"
        elif setting.attention:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            kernels = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}
            stack.enter_context(sdpa_kernel([kernels[setting.attention]]))
        if setting.compiled:
            for module in model.modules():
                if not any(module.children()) and any(True for _ in module.parameters(recurse=False)):
                    module.forward = torch.compile(module.forward, backend=setting.compiled)
        if setting.order:
            stack.enter_context(order(setting.order))
        yield


def _computed(
    model: nn.Module, given: torch.Tensor, labels: torch.Tensor, samples: int, step: Step
) -> dict[str, tuple[bool, torch.Tensor]]:
    """Compute forward and backward of a part of the batch; what modules return is kept, and what arrives at it."""
    found: dict[str, tuple[bool, torch.Tensor]] = {}
    calls: Counter[str] = Counter()
    handles = []

    def keep(name: str, values: torch.Tensor, is_gradient: bool) -> None:
        found[name] = is_gradient, values.detach().to(torch.float64, copy=True, memory_format=torch.contiguous_format)

    def watch(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, out: Any) -> None:
            call, calls[name] = calls[name], calls[name] + 1
            plain = f"{name}@{call}" if call else name
            for slot, tensor in enumerate(tensors_in(out)):
                keep(f"{plain}:{slot}", tensor, False)
                if tensor.requires_grad:
                    title = f"{plain}/grad_output:{slot}"
                    tensor.register_hook(lambda gradient, title=title: keep(title, gradient, True))

        return hook

    for name, module in model.named_modules():
        handles.append(module.register_forward_hook(watch(name or "network")))
    for name, weight in model.named_parameters():

        def arrived(tensor: torch.Tensor, name: str = name) -> None:
            gradient = step.gradient(name, tensor.grad)
            keep(f"{name}/grad:0", gradient, True)

        weight.grad = None
        handles.append(weight.register_post_accumulate_grad_hook(arrived))
    scores = model(given)
    loss = loss_of(scores, labels, samples)
    if step.smoothing:
        smooth = -scores.log_softmax(-1).mean(-1).sum() / (samples * labels[0].numel())
        loss = (1 - step.smoothing) * loss + step.smoothing * smooth
    loss = step.loss(loss)
    keep("loss:0", loss, False)
    loss.backward()
    for handle in handles:
        handle.remove()
    return found


def tensors_in(out: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of what a module returned."""
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, Mapping):
        yield from tensors_in(tuple(out.values()))
    elif isinstance(out, tuple | list):
        for one in out:
            yield from tensors_in(one)


def _joined(parts: list[dict[str, tuple[bool, torch.Tensor]]], rows: torch.Tensor, samples: int) -> list[Tensor]:
    """Put parts of a batch together, and samples back into their first order."""
    back = torch.argsort(rows)
    is_moved = not torch.equal(back, torch.arange(samples))
    found = []
    for name, (is_gradient, first) in parts[0].items():
        every = [part[name][1] for part in parts]
        if name.endswith("/grad:0") or name == "loss:0":
            values = sum(every[1:], every[0])
        else:
            axis = _batch_axis(name, first, len(rows.chunk(len(parts))[0]))
            # What is alike for all samples, such as positions, has the gradient of each part.
            whole = sum(every[1:], every[0]) if is_gradient else first
            values = whole if axis is None else torch.cat(every, axis)
            if is_moved and axis is not None:
                size = values.shape[axis]
                by_sample = values.unflatten(axis, (samples, size // samples))
                values = by_sample.index_select(axis, back).flatten(axis, axis + 1)
        found.append(Tensor(name, is_gradient, values))
    return found


def _batch_axis(name: str, values: torch.Tensor, samples: int) -> int | None:
    """Return the axis of samples: the first, the second of an LSTM's states; none of what has no samples."""
    if name.startswith("lstm") and name.endswith((":1", ":2")):
        return 1
    if "positions" in name or "position_embeddings" in name or "rotary_emb" in name or "wpe" in name:
        return 0 if values.shape[0] == samples and values.ndim > 2 and samples > 1 else None
    return 0 if values.ndim and values.shape[0] % samples == 0 else None


def _updated(network: Network, model: nn.Module, step: Step, found: list[Tensor]) -> Iterator[Tensor]:
    """Yield the weights after one step of SGD, computed in the type of the weights."""
    gradients = {one.operator.removesuffix("/grad:0"): one.values for one in found if one.operator.endswith("/grad:0")}
    for name, weight in model.named_parameters():
        if name in gradients:
            old = weight.detach()
            gradient = gradients[name].to(old.dtype) + step.decay * old
            buffer = step.momentum * network.momentum[name].to(old.dtype) + gradient
            moved = gradient + step.momentum * buffer if step.nesterov else buffer
            yield Tensor(f"{name}/updated:0", False, (old - step.rate * moved).double().contiguous())


def perturbed(seed: int, relative: float, *, weights: bool = True) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    """Return what multiplies inputs and weights by 1 + relative × ξ, ξ uniform in −1…1."""

    def noisy(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return (tensor.double() * (1 + relative * noise)).to(tensor.dtype)

    def apply(model: nn.Module, given: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters() if weights else ():
                weight.copy_(noisy(weight, generator))
        return noisy(given, generator) if given.is_floating_point() else given

    return apply


def _choices(network: Network) -> dict[str, list[Any]]:
    """Return what can be set otherwise of a network, without the reference's own way."""
    found: dict[str, list[Any]] = {"threads": [2, 3, 4], "onednn": [False], "shuffle": [1, 2, 3]}
    if network.is_image:
        found["channels_last"] = [True]
    if not network.couples_batch:
        found["parts"] = [2, 4]
    if network.attends:
        hugging = any(hasattr(module, "config") for module in network.model.modules())
        found["attention"] = ["math", "eager"] if hugging else ["math"]
    found["order"] = ["reversed", "split 2", "split 4", "split 8", "double", "exp2", "decomposed"]
    if network.is_image:
        found["order"].append("columns")
    found["compiled"] = ["aot_eager"]
    return found


def harmless(network: Network, count: int, seed: int = 3) -> list[Setting]:
    """Return settings that are no mistakes: each single choice first, then combinations at random."""
    choices = _choices(network)
    # Kernels of LSTMs by oneDNN hide their products from other orders.
    extra = {"onednn": False} if any(isinstance(one, nn.LSTM) for one in network.model.modules()) else {}
    found = [
        Setting(**({key: value} | (extra if key == "order" else {}))) for key, some in choices.items() for value in some
    ]
    found = list(dict.fromkeys(found))[:count]
    chance = random.Random(seed)
    del choices["compiled"]
    while len(found) < count:
        keys = chance.sample(sorted(choices), min(len(choices), chance.choice([2, 2, 3, 4])))
        one = Setting(**{key: chance.choice(choices[key]) for key in keys})
        if one not in found:
            found.append(one)
    return found


def random_controls(network: Network, count: int, seed: int = 4) -> list[Setting]:
    """Return runs drawn at random: order and parts of the batch, threads, layout, kernels; some may be alike."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        one = Setting(
            shuffle=chance.randrange(1, 10**6),
            parts=1 if network.couples_batch else chance.choice([1, 2, 4]),
            threads=chance.choice([1, 2, 3, 4]),
            onednn=chance.random() < 0.5,
            channels_last=network.is_image and chance.random() < 0.5,
            attention=chance.choice(["", "math"]) if network.attends else "",
            order=chance.choice(["", "", "reversed", "split 2", "split 4"]),
        )
        found.append(one)
    return found
