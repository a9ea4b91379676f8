"""Mistakes that ports have, each put into one place of a network, or into the step around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from rounding.networks import Mixture, Network, StandardConv
from rounding.runs import Step

__all__ = ["Mistake", "mistakes_of"]

Change = Callable[[nn.Module], Any]
Finder = Callable[[nn.Module], bool]


@dataclass(frozen=True)
class Mistake:
    """One mistake in one place.

    Parameters
    ----------
    kind : str
        Its class, e.g. ``"batch norm: eps 1e-3"``.
    at : str
        The module; ``"*/updated"`` for any updated weight; ``""`` where nothing that is recorded belongs to it alone.
    change : callable
        Makes it, in a model and a step that may be changed.
    """

    kind: str
    at: str
    change: Callable[[nn.Module, Step], Any]


def mistakes_of(network: Network, places: int = 2) -> list[Mistake]:
    """Return every mistake that fits a network, each in so many places."""
    found = []
    named = [(name, module) for name, module in network.model.named_modules() if name]
    for kind, fits, change in _ROWS:
        fitting = [name for name, module in named if fits(module)]
        found += [Mistake(kind, name, partial(_in_module, name, change)) for name in _spread(fitting, places)]
    return [*found, *_first_layer(network, named), *_around(network, named)]


def _spread(names: Sequence[str], places: int) -> list[str]:
    """Return so many names, spread over all."""
    if len(names) <= places:
        return list(names)
    return [names[(2 * number + 1) * len(names) // (2 * places)] for number in range(places)]


def _in_module(name: str, change: Change, model: nn.Module, _: Step) -> None:
    change(model.get_submodule(name))


def _is(*types: type, **wanted: Any) -> Finder:
    def fits(module: nn.Module) -> bool:
        return isinstance(module, types) and all(getattr(module, key, None) == value for key, value in wanted.items())

    return fits


def _called(*names: str) -> Finder:
    return lambda module: type(module).__name__ in names


def _either(*finders: Finder) -> Finder:
    return lambda module: any(fits(module) for fits in finders)


# -- values of weights ---------------------------------------------------------------------------------------------


def _to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda values: values.to(dtype).to(values.dtype)


def _tf32(values: torch.Tensor) -> torch.Tensor:
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp((mantissa * 2**11).round() / 2**11, exponent)


def _text(values: torch.Tensor) -> torch.Tensor:
    """Return weights that went through a text file of six decimals."""
    return (values * 1e6).round() / 1e6


def _typical(values: torch.Tensor) -> torch.Tensor:
    """Return the number of the element whose size is the median."""
    flat = values.abs().flatten()
    return flat.argsort()[len(flat) // 2]


def _one_times(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(values: torch.Tensor) -> torch.Tensor:
        flat = values.flatten().clone()
        flat[_typical(values)] *= factor
        return flat.view_as(values)

    return change


def _swapped(values: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(len(values))
    rows[[0, 1]] = rows[[1, 0]]
    return values[rows]


def _weight(values: Callable[[torch.Tensor], torch.Tensor], name: str = "weight") -> Change:
    def change(module: nn.Module) -> None:
        one = getattr(module, name)
        one.copy_(values(one))

    return change


def _rows(module: nn.Module) -> None:
    for one in (module.weight, module.bias):
        if one is not None:
            one.copy_(_swapped(one))


def _gates(module: nn.Module) -> None:
    """Put the gates of an LSTM in another framework's order: input, cell, forget, output."""
    for one in (module.weight_ih_l0, module.weight_hh_l0, module.bias_ih_l0, module.bias_hh_l0):
        gates = one.chunk(4)
        one.copy_(torch.cat([gates[0], gates[2], gates[1], gates[3]]))


def _forget(value: float) -> Change:
    def change(module: nn.Module) -> None:
        size = module.hidden_size
        module.bias_ih_l0[size : 2 * size] += value

    return change


# -- what a layer computes -----------------------------------------------------------------------------------------


def _set(name: str, value: Any) -> Change:
    def change(module: nn.Module) -> None:
        setattr(module, name, value(getattr(module, name)) if callable(value) else value)

    return change


def _forward(function: Callable[..., Any]) -> Change:
    def change(module: nn.Module) -> None:
        module.forward = partial(function, module)

    return change


def _around_forward(before: Callable[[Any], Any] | None, after: Callable[[Any], Any] | None) -> Change:
    def change(module: nn.Module) -> None:
        old = module.forward

        def forward(x: torch.Tensor, *rest: Any, **options: Any) -> Any:
            out = old(before(x) if before else x, *rest, **options)
            return after(out) if after else out

        module.forward = forward

    return change


class _Rounded(torch.autograd.Function):
    """Round to a coarser type on the way forward, as a cast does; gradients pass."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype).to(x.dtype)

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None


def _rounded(x: torch.Tensor) -> torch.Tensor:
    return _Rounded.apply(x, torch.bfloat16)


def _operands_rounded(module: nn.Module) -> None:
    _weight(_to(torch.bfloat16))(module)
    _around_forward(_rounded, None)(module)


def _unbiased_layer_norm(module: Any, x: torch.Tensor) -> torch.Tensor:
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=1)
    return (x - mean) * torch.rsqrt(variance + module.eps) * module.weight + module.bias


def _unbiased_batch_norm(module: Any, x: torch.Tensor) -> torch.Tensor:
    variance, mean = torch.var_mean(x, dim=(0, 2, 3), keepdim=True, correction=1)
    out = (x - mean) * torch.rsqrt(variance + module.eps)
    return out * module.weight.view(1, -1, 1, 1) + module.bias.view(1, -1, 1, 1)


def _same_padding(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Pad as TensorFlow does: with stride 2 more behind than before."""
    sides = zip(x.shape[2:], module.kernel_size, module.stride, strict=True)
    total = [max((-(-side // stride) - 1) * stride + size - side, 0) for side, size, stride in sides]
    x = functional.pad(x, (total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2))
    return functional.conv2d(x, module.weight, module.bias, module.stride, 0, module.dilation, module.groups)


def _edge_padding(module: Any, x: torch.Tensor) -> torch.Tensor:
    rows, columns = module.padding
    x = functional.pad(x, (columns, columns, rows, rows), mode="replicate")
    return functional.conv2d(x, module.weight, module.bias, module.stride, 0, module.dilation, module.groups)


def _average(module: Any, x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(x, module.kernel_size, module.stride, module.padding)


def _nearest(_: Any, x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2, mode="nearest")


def _pads(module: nn.Module) -> bool:
    return type(module) is nn.Conv2d and module.padding not in ((0, 0), 0) and module.groups == 1


def _has_stride(module: nn.Module) -> bool:
    return _pads(module) and module.stride == (2, 2) and module.kernel_size == (3, 3)


def _has_kernel(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and module.kernel_size != (1, 1)


def _has_bias(module: nn.Module) -> bool:
    return (isinstance(module, nn.Linear | nn.Conv2d) or _called("Conv1D")(module)) and module.bias is not None


def _is_square(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.in_features == module.out_features


def _relu(_: Any, x: torch.Tensor) -> torch.Tensor:
    return functional.relu(x)


_LAYERS = _either(_is(nn.Linear, nn.Conv2d, nn.ConvTranspose2d), _called("Conv1D"))
_GELU = _either(_is(nn.GELU, approximate="none"), _called("GELUActivation"))
_SMOOTH = _either(_is(nn.GELU, nn.SiLU, nn.Hardswish), _called("GELUActivation", "NewGELUActivation", "SiLUActivation"))
_BATCH = _is(nn.BatchNorm2d)
_LAYER = _is(nn.LayerNorm)
_BERT, _HUGGING = _called("BertSelfAttention"), _called("BertSelfAttention", "GPT2Attention", "LlamaAttention")
_FUSED = _either(_HUGGING, _called("_Attention"))


def _scale(factor: Callable[[float], float]) -> Change:
    def change(module: nn.Module) -> None:
        name = "scaling" if hasattr(module, "scaling") else "scale"
        setattr(module, name, factor(getattr(module, name)))

    return change


def _query(factor: float) -> Change:
    """Scale what makes the queries, which are the first third of a packed projection."""

    def change(module: nn.Module) -> None:
        weight, bias = (
            (module.in_proj_weight, module.in_proj_bias)
            if isinstance(module, nn.MultiheadAttention)
            else (module.qkv.weight, module.qkv.bias)
        )
        for one in (weight, bias):
            one[: len(one) // 3] *= factor

    return change


def _heads_swapped(module: nn.Module) -> None:
    """Join heads in another order: what the projection behind them reads is exchanged."""
    name = next(name for name in ("out_proj", "proj", "o_proj", "c_proj") if hasattr(module, name))
    weight = getattr(module, name).weight
    axis = 0 if type(getattr(module, name)).__name__ == "Conv1D" else 1
    heads = weight.chunk(4, axis)
    weight.copy_(torch.cat([heads[1], heads[0], *heads[2:]], axis))


_PACKED = _either(_is(nn.MultiheadAttention), _called("ShiftedWindowAttention"))
_PROJECTS = _either(_PACKED, _called("_Attention", "GPT2Attention", "LlamaAttention"))

# Its class, where it can be, and what it does there.
_ROWS: Sequence[tuple[str, Finder, Change]] = (
    ("bias missing", _has_bias, _weight(torch.zeros_like, "bias")),
    ("one bias missing", _has_bias, _weight(_one_times(0), "bias")),
    ("one weight +1 %", _LAYERS, _weight(_one_times(1.01))),
    ("one weight +0.01 %", _LAYERS, _weight(_one_times(1.0001))),
    ("one weight missing", _LAYERS, _weight(_one_times(0))),
    ("weight in bfloat16", _LAYERS, _weight(_to(torch.bfloat16))),
    ("weight in float16", _LAYERS, _weight(_to(torch.float16))),
    ("weight in TF32", _LAYERS, _weight(_tf32)),
    ("weight of 6 decimals", _LAYERS, _weight(_text)),
    ("weight × 1.001", _LAYERS, _weight(lambda values: values * 1.001)),
    ("weight × 0.9", _LAYERS, _weight(lambda values: values * 0.9)),
    ("two rows swapped", _is(nn.Linear, nn.Conv2d), _rows),
    ("weight transposed", _is_square, _weight(lambda values: values.T.clone())),
    ("operands in bfloat16", _LAYERS, _operands_rounded),
    ("output in bfloat16", _LAYERS, _around_forward(None, _rounded)),
    ("output in float16", _LAYERS, _around_forward(None, lambda out: _Rounded.apply(out, torch.float16))),
    ("kernel turned", _has_kernel, _weight(lambda values: values.flip(-1, -2))),
    ("padding as TensorFlow's", _has_stride, _forward(_same_padding)),
    ("padding by edges", _pads, _forward(_edge_padding)),
    ("batch norm: eps 1e-3", _BATCH, _set("eps", lambda eps: 1e-3 if eps != 1e-3 else 1e-5)),
    ("batch norm: eps + 10 %", _BATCH, _set("eps", lambda eps: eps * 1.1)),
    ("batch norm: eval for train", _is(nn.BatchNorm2d, training=True), lambda module: module.eval()),
    ("batch norm: train for eval", _is(nn.BatchNorm2d, training=False), lambda module: module.train()),
    ("batch norm: unbiased variance", _is(nn.BatchNorm2d, training=True), _forward(_unbiased_batch_norm)),
    ("batch norm: offset missing", _BATCH, _weight(torch.zeros_like, "bias")),
    ("layer norm: eps 1e-3", _LAYER, _set("eps", 1e-3)),
    ("layer norm: eps 1e-7", _LAYER, _set("eps", 1e-7)),
    ("layer norm: eps + 10 %", _LAYER, _set("eps", lambda eps: eps * 1.1)),
    ("layer norm: unbiased variance", _LAYER, _forward(_unbiased_layer_norm)),
    ("layer norm: gain missing", _LAYER, _weight(torch.ones_like)),
    ("RMS norm: eps 1e-5", _is(nn.RMSNorm), _set("eps", 1e-5)),
    ("RMS norm: gain missing", _is(nn.RMSNorm), _weight(torch.ones_like)),
    ("GELU by tanh", _GELU, _forward(lambda _, x: functional.gelu(x, approximate="tanh"))),
    ("GELU by erf", _called("NewGELUActivation"), _forward(lambda _, x: functional.gelu(x))),
    ("GELU by sigmoid", _either(_GELU, _called("NewGELUActivation")), _forward(lambda _, x: x * (1.702 * x).sigmoid())),
    ("ReLU for a smooth one", _SMOOTH, _forward(_relu)),
    ("swish for hard swish", _is(nn.Hardswish), _forward(lambda _, x: functional.silu(x))),
    ("leaky ReLU", _is(nn.ReLU), _forward(lambda _, x: functional.leaky_relu(x, 0.01))),
    ("ReLU6 for ReLU", _is(nn.ReLU), _forward(lambda _, x: functional.relu6(x))),
    ("average for max pooling", _is(nn.MaxPool2d), _forward(_average)),
    ("corners aligned", _is(nn.Upsample), _set("align_corners", True)),
    (
        "nearest for bilinear",
        _is(nn.Upsample),
        _forward(_nearest),
    ),
    ("attention scale + 0.1 %", _FUSED, _scale(lambda scale: scale * 1.001)),
    ("attention scale missing", _FUSED, _scale(lambda _: 1.0)),
    ("attention scale + 0.1 %", _PACKED, _query(1.001)),
    ("attention scale missing", _PACKED, _query(12**0.5)),
    ("heads swapped", _PROJECTS, _heads_swapped),
    ("mask off by one", _called("_Attention"), _set("diagonal", -1)),
    ("one more word seen", _called("_Attention"), _set("diagonal", 1)),
    ("LSTM: gates swapped", _is(nn.LSTM), _gates),
    ("LSTM: forget bias + 0.001", _is(nn.LSTM), _forget(1e-3)),
    ("LSTM: forget bias + 1", _is(nn.LSTM), _forget(1.0)),
    ("LSTM: bias missing", _is(nn.LSTM), _weight(torch.zeros_like, "bias_hh_l1")),
    ("experts: one for two", _is(Mixture), _set("best", 1)),
    ("experts: not normalised", _is(Mixture), _set("renormalises", False)),
    ("standardised weights: eps", _is(StandardConv), _set("eps", 10.0)),
    ("branch × 1.01", _called("_FreeBlock"), _set("alpha", lambda alpha: alpha * 1.01)),
    ("residual × 0.999", _called("_MixtureBlock"), _set("skip", 0.999)),
    ("residual missing", _called("_MixtureBlock"), _set("skip", 0.0)),
    ("dropout's scale missing", _is(nn.Dropout, nn.Identity), _around_forward(None, lambda out: out * 0.9)),
    ("embedding: rows swapped", _is(nn.Embedding), _weight(_swapped)),
)


def _first_layer(network: Network, named: Sequence[tuple[str, nn.Module]]) -> Iterator[Mistake]:
    """Yield mistakes in what the network is given, and in its first layer."""
    first = next(name for name, module in named if isinstance(module, nn.Conv2d | nn.Embedding))

    def given(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module, Step], None]:
        return lambda _, step: setattr(step, "given", function)

    if network.is_image:
        yield Mistake("BGR for RGB", first, given(lambda x: x.flip(1)))
        yield Mistake("input × 1.001", first, given(lambda x: x * 1.001))
        yield Mistake("input of 8 bits", first, given(lambda x: (x * 32).round() / 32))
        yield Mistake("input shifted by a pixel", first, given(lambda x: x.roll(1, -1)))
    else:
        yield Mistake("words shifted by one", first, given(lambda x: x.roll(1, 1)))
    if any(hasattr(module, "config") for _, module in named):
        # Positions have a table, or a rotation; where there are pads, it is their mask.
        where = next((name for name, _ in named if name.endswith(("wpe", "rotary_emb"))), "")
        where = where or next(name for name, module in named if _BERT(module))
        kind = "padding mask off by one" if _has_pads(network) else "positions shifted by one"
        yield Mistake(kind, where, lambda model, _: setattr(model, "shift", 1))
    for name, module in named:
        if type(module).__name__ == "LlamaRotaryEmbedding":
            yield Mistake("rotation base + 1 %", name, partial(_in_module, name, _rotate))


def _rotate(module: Any) -> None:
    module.inv_freq *= 1.01 ** -torch.linspace(0, 1, len(module.inv_freq))


def _has_pads(network: Network) -> bool:
    return bool(getattr(network.model, "pads", False))


def _around(network: Network, named: Sequence[tuple[str, nn.Module]]) -> Iterator[Mistake]:
    """Yield mistakes in the loss, in gradients and in the optimizer."""

    def step_with(**values: Any) -> Callable[[nn.Module, Step], None]:
        return lambda _, step: [setattr(step, name, value) for name, value in values.items()]

    size = len(network.labels)
    yield Mistake("loss: sum for mean", "loss", step_with(loss=lambda loss: loss * size))
    yield Mistake("loss × 1.001", "loss", step_with(loss=lambda loss: loss * 1.001))
    yield Mistake("loss: labels smoothed by 0.01", "loss", step_with(smoothing=0.01))
    layers = [name for name, module in named if isinstance(module, nn.Linear | nn.Conv2d)]
    for name in _spread(layers, 2):
        weight = f"{name}.weight"
        for kind, factor in (("gradient × 1.01", 1.01), ("gradient missing", 0.0)):
            yield Mistake(f"weight's {kind}", name, partial(_weight_gradient, weight, factor))
        yield Mistake("gradient × 1.01 on its way", "", partial(_in_module, name, _backward(1.01)))
        yield Mistake("gradient in bfloat16 on its way", "", partial(_in_module, name, _backward(None)))
    yield Mistake("SGD: no step", "*/updated", step_with(rate=0.0))
    yield Mistake("SGD: rate + 1 %", "*/updated", step_with(rate=0.05 * 1.01))
    yield Mistake("SGD: momentum 0.8", "*/updated", step_with(momentum=0.8))
    yield Mistake("SGD: momentum missing", "*/updated", step_with(momentum=0.0))
    yield Mistake("SGD: Nesterov", "*/updated", step_with(nesterov=True))
    yield Mistake("SGD: no weight decay", "*/updated", step_with(decay=0.0))


def _weight_gradient(weight: str, factor: float, _: nn.Module, step: Step) -> None:
    step.gradient = lambda name, gradient: gradient * factor if name == weight else gradient


class _Turned(torch.autograd.Function):
    """The identity with another backward."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, factor: float | None) -> torch.Tensor:
        context.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        rounded = gradient.to(torch.bfloat16).to(gradient.dtype)
        return (rounded if context.factor is None else gradient * context.factor), None


def _backward(factor: float | None) -> Change:
    """Change the gradient that goes on from a layer's input to what is before it."""
    return _around_forward(lambda x: _Turned.apply(x, factor), None)
