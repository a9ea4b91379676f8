"""Tiny transformers with random weights, run in sound other ways, and with mistakes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 256
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "attn_implementation": "eager",
}


def models(seed: int) -> dict[str, Any]:
    """Return one model of each kind; larger weights than those of training, so that logits are not all alike."""
    made: dict[str, Any] = {
        "llama": partial(LlamaForCausalLM, LlamaConfig(**_SIZES)),
        "qwen3": partial(Qwen3ForCausalLM, Qwen3Config(**_SIZES, head_dim=8)),
        "mixtral": partial(MixtralForCausalLM, MixtralConfig(**_SIZES, num_local_experts=4)),
        "gpt2": partial(
            GPT2LMHeadModel,
            GPT2Config(
                vocab_size=VOCABULARY, n_embd=64, n_layer=4, n_head=8, n_positions=256, attn_implementation="eager"
            ),
        ),
    }
    found = {}
    for name, make in made.items():
        torch.manual_seed(seed)
        model = make().eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.ndim > 1:
                    parameter.mul_(4.0 if "head" not in key else 8.0)
        found[name] = model
    return found


def decoder(model: Any, *, cached: bool = True, positions: bool = True, shift: int = 0) -> Callable[..., Iterator[Any]]:
    """Return a decoder of a model: with a cache, or with all tokens in each step."""

    @torch.no_grad()
    def decode(ids: Any, mask: Any) -> Iterator[Any]:
        tokens, seen = torch.from_numpy(ids), torch.from_numpy(mask).long()
        cache = None
        new = tokens
        while True:
            places = (seen.cumsum(-1) - 1).clamp(min=0) + (shift if cache is not None else 0)
            given = {"position_ids": places[:, -new.shape[1] :]} if positions else {}
            out = model(input_ids=new, attention_mask=seen, past_key_values=cache, use_cache=cached, **given)
            chosen = yield out.logits[:, -1]
            step = torch.from_numpy(chosen)[:, None]
            tokens, seen = torch.cat([tokens, step], -1), torch.cat([seen, torch.ones_like(step)], -1)
            cache, new = (out.past_key_values, step) if cached else (None, tokens)

    return decode


def sound(model: Any) -> dict[str, Callable[..., Iterator[Any]]]:
    """Return the same model in other ways."""
    fast = copy.deepcopy(model)
    fast.config._attn_implementation = "sdpa"
    # Experts are not multiplied in float64.
    double = {} if hasattr(model.config, "num_local_experts") else {"float64": decoder(copy.deepcopy(model).double())}
    return {
        "itself": decoder(model),
        "sdpa": decoder(fast),
        "no cache": decoder(model, cached=False),
        **double,
        "bfloat16": decoder(copy.deepcopy(model).bfloat16()),
        "bfloat16 sdpa": decoder(copy.deepcopy(fast).bfloat16()),
    }


def _changed(model: Any, change: Callable[[Any], object]) -> Any:
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def mistakes(model: Any) -> dict[str, Callable[..., Iterator[Any]]]:
    """Return the model with one mistake each, as far as it has what is changed."""
    head = model.lm_head.weight

    def layers(other: Any) -> Any:
        return other.transformer.h if hasattr(other, "transformer") else other.model.layers

    def norm(other: Any) -> Any:
        return other.transformer.ln_f if hasattr(other, "transformer") else other.model.norm

    def roll(other: Any) -> None:
        other.lm_head.weight = torch.nn.Parameter(head.roll(1, 0))

    def row(other: Any) -> None:
        weight = head.clone()
        weight[7] *= 1.3
        other.lm_head.weight = torch.nn.Parameter(weight)

    changes: dict[str, Callable[[Any], object]] = {
        "vocabulary shifted by one": roll,
        "one row of the vocabulary too large": row,
        "norm at the end scaled": lambda other: norm(other).weight.mul_(1.05),
        "a layer left out": lambda other: layers(other).__delitem__(2),
        "layers exchanged": lambda other: other.load_state_dict(_exchanged(other.state_dict())),
    }
    if not hasattr(model, "transformer"):
        attention = "self_attn"

        def heads(other: Any) -> None:
            weight = getattr(layers(other)[1], attention).k_proj.weight
            weight.copy_(weight.reshape(2, -1, weight.shape[1]).flip(0).reshape(weight.shape))

        def half(other: Any) -> None:
            for layer in layers(other):
                weight = layer.self_attn.q_proj.weight
                weight.copy_(weight.reshape(8, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape))

        changes |= {
            "key heads exchanged": heads,
            "rotary halves interleaved": half,
            "theta": lambda other: _theta(other, 1.5),
            "attention scale": lambda other: [setattr(one.self_attn, "scaling", 0.3) for one in layers(other)],
        }
    if hasattr(model.config, "num_local_experts"):
        changes["experts exchanged"] = lambda other: _experts(layers(other)[0].mlp)
    found = {name: decoder(_changed(model, change)) for name, change in changes.items()}
    found["cache: positions one too far"] = decoder(model, shift=1)
    return found


def _theta(other: Any, factor: float) -> None:
    rotary = other.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq**factor


def _experts(mlp: Any) -> None:
    for name, parameter in mlp.experts.named_parameters():
        if parameter.ndim == 3:
            parameter.copy_(parameter[[1, 0, *range(2, len(parameter))]])
            del name


def _exchanged(state: dict[str, Any]) -> dict[str, Any]:
    def other(key: str) -> str:
        for one, two in ((".1.", ".2."), (".2.", ".1.")):
            if f"layers{one}" in key or f".h{one}" in key:
                return key.replace(f"layers{one}", f"layers{two}").replace(f".h{one}", f".h{two}")
        return key

    return {key: state[other(key)].clone() for key in state}
