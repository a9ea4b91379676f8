"""What a model is run as: in sound other ways, and with one mistake each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from benchmarks.generation.decoders import HEADS, KEYS, VOCABULARY, Decoder, Routes, changed, decoder, perturbed
from benchmarks.generation.ports import port


class Sound(NamedTuple):
    """A way to run a model that is no mistake; `routes` are its experts where it computes in 16 bits.

    Not `in_batch`: transformers itself makes NaN of padding in float64.
    """

    run: Decoder
    dtype: str = "float32"
    routes: Routes | None = None
    in_batch: bool = True


def sound(model: Any, seed: int) -> dict[str, Sound]:
    """Return the same model in other ways."""
    fast = copy.deepcopy(model)
    fast.config._attn_implementation = "sdpa"
    found = {
        "itself": Sound(decoder(model)),
        "sdpa": Sound(decoder(fast)),
        "full pass": Sound(decoder(model, cached=False)),
        "full pass, sdpa": Sound(decoder(fast, cached=False)),
        "weights rounded otherwise": Sound(decoder(perturbed(model, 2.0**-24, seed + 100))),
        "hand-written port": Sound(port(model)),
    }
    if not hasattr(model.config, "num_local_experts"):
        # Experts are not multiplied in float64.
        found["float64"] = Sound(decoder(copy.deepcopy(model).double()), in_batch=False)
    halves = {
        "bfloat16": (model, {}),
        "bfloat16, sdpa": (fast, {}),
        "bfloat16, full pass": (model, {"cached": False}),
    }
    for name, (one, how) in halves.items():
        half = copy.deepcopy(one).bfloat16()
        run = decoder(half, **how)
        has_routes = hasattr(model.config, "num_local_experts") and not how
        routes = Routes(half, run) if has_routes else None
        found[name] = Sound(routes.decode if routes else run, "bfloat16", routes)
    if hasattr(model.config, "num_local_experts"):
        # Its routes are those of all tokens in each step; the other two show what flips.
        del found["bfloat16, full pass"]
    return found


def _layers(model: Any) -> Any:
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def _norm(model: Any) -> Any:
    return model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm


def _embeddings(model: Any) -> Any:
    return model.transformer.wte if hasattr(model, "transformer") else model.model.embed_tokens


def _with_head(make: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.lm_head.weight = torch.nn.Parameter(make(model, model.lm_head.weight.clone()))

    return change


def _one_row(_: Any, weight: Any) -> Any:
    weight[VOCABULARY // 3] *= 1.3
    return weight


def _exchange_layers(model: Any) -> None:
    layers = _layers(model)
    one, other = (copy.deepcopy(layers[number].state_dict()) for number in (1, 2))
    layers[1].load_state_dict(other)
    layers[2].load_state_dict(one)


def _interleave(model: Any) -> None:
    for layer in _layers(model):
        for projection, count in ((layer.self_attn.q_proj, HEADS), (layer.self_attn.k_proj, KEYS)):
            weight = projection.weight
            weight.copy_(weight.reshape(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape))


def _exchange_key_heads(model: Any) -> None:
    weight = _layers(model)[1].self_attn.k_proj.weight
    weight.copy_(weight.reshape(KEYS, -1, weight.shape[1]).flip(0).reshape(weight.shape))


def _tile_queries(model: Any) -> None:
    """Let query heads meet key heads in turn instead of in groups, in all layers."""
    for layer in _layers(model):
        for name, axis in (("q_proj", 0), ("o_proj", 1)):
            weight = getattr(layer.self_attn, name).weight
            heads = weight.movedim(axis, 0).reshape(KEYS, HEADS // KEYS, -1, weight.shape[1 - axis]).transpose(0, 1)
            weight.copy_(heads.reshape(weight.shape[axis], -1).movedim(0, axis))


def _exact_gelu(model: Any) -> None:
    for layer in _layers(model):
        layer.mlp.act = torch.nn.GELU()


def _theta(model: Any) -> None:
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq**1.1


def _eps(model: Any) -> None:
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 3e-5


def _exchange_experts(model: Any) -> None:
    for parameter in _layers(model)[0].mlp.experts.parameters():
        parameter.copy_(parameter[[1, 0, *range(2, len(parameter))]])


def _routers_off(size: float) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        random = torch.Generator().manual_seed(7)
        for layer in _layers(model):
            weight = layer.mlp.gate.weight
            weight.mul_(1 + size * (2 * torch.rand(weight.shape, generator=random) - 1))

    return change


def _exchange_routes(model: Any) -> None:
    weight = _layers(model)[0].mlp.gate.weight
    weight.copy_(weight[[1, 0, *range(2, len(weight))]])


def _unnormalised(model: Any) -> None:
    """Let shares of experts be those of all experts, which do not sum to 1."""
    for layer in _layers(model):

        def as_they_are(_router: Any, _given: Any, out: Any) -> Any:
            values, _, which = out
            return values, values.float().softmax(-1).gather(-1, which), which

        layer.mlp.gate.register_forward_hook(as_they_are)


def _best_expert_alone(model: Any) -> None:
    for layer in _layers(model):
        layer.mlp.gate.top_k = 1


def mistakes(model: Any) -> dict[str, Decoder]:
    """Return the model with one mistake each, as far as it has what is changed."""
    changes: dict[str, Callable[[Any], object]] = {
        "vocabulary shifted by one": _with_head(lambda _, weight: weight.roll(1, 0)),
        "one row of the vocabulary 30 % too large": _with_head(_one_row),
        "norm at the end 2 % too large": lambda one: _norm(one).weight.mul_(1.02),
        "layers exchanged": _exchange_layers,
    }
    if hasattr(model, "transformer"):
        changes |= {
            "exact gelu instead of tanh": _exact_gelu,
            "places of the embedding one too far": lambda one: one.transformer.wpe.weight.copy_(
                one.transformer.wpe.weight.roll(-1, 0)
            ),
            "bias of a projection": lambda one: one.transformer.h[1].mlp.c_fc.bias.add_(0.05),
        }
    else:
        changes |= {
            "head tied to the embedding": _with_head(lambda one, _: _embeddings(one).weight.clone()),
            "key heads exchanged": _exchange_key_heads,
            "rotary halves interleaved": _interleave,
            "rotary frequencies": _theta,
            "eps of norms": _eps,
        }
    if hasattr(model.config, "head_dim") and hasattr(_layers(model)[0], "self_attn"):
        changes["query heads in turn"] = _tile_queries
    if hasattr(model.config, "num_local_experts"):
        changes |= {
            "experts exchanged": _exchange_experts,
            "shares of experts not normalised": _unnormalised,
            "one expert instead of two": _best_expert_alone,
            "rows of a router exchanged": _exchange_routes,
            **{f"weights of routers off by {size:.2%}": _routers_off(size) for size in (0.0001, 0.01, 0.3)},
        }
    return {
        **{name: decoder(changed(model, change)) for name, change in changes.items()},
        "cache: places one too far": decoder(model, shift=1),
        "cache: first key lost": decoder(model, spoils_cache=True),
        "mask: a window of 8 tokens": decoder(model, cached=False, window=8),
        "mask: padding is read": decoder(model, reads_padding=True),
        "another first token": decoder(model, first=1),
    }
