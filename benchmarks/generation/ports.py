"""The same models written by hand, without a cache: all tokens in each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

from benchmarks.generation.decoders import CHOSEN, HEADS, KEYS, Decoder


def _attended(q: Any, k: Any, v: Any, seen: Any) -> Any:
    length = seen.shape[1]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1) | ~seen[:, None, None, :]
    scores = (q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5
    return (scores.masked_fill(hidden, -1e30).softmax(-1) @ v).transpose(1, 2).flatten(2)


def _rms(x: Any, weight: Any, eps: float) -> Any:
    return weight * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def _rotated(x: Any, places: Any, theta: float) -> Any:
    size = x.shape[-1]
    angles = places[:, None, :, None] * theta ** -(torch.arange(0, size, 2) / size)
    one, other = x.chunk(2, -1)
    return torch.cat([one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()], -1)


def _experts(w: Any, h: Any) -> Any:
    shares = (h @ w["mlp.gate.weight"].T).softmax(-1)
    largest, which = shares.topk(CHOSEN, -1)
    largest = largest / largest.sum(-1, keepdim=True)
    out = torch.zeros_like(h)
    for number, (wide, narrow) in enumerate(
        zip(w["mlp.experts.gate_up_proj"], w["mlp.experts.down_proj"], strict=True)
    ):
        gate, up = (h @ wide.T).chunk(2, -1)
        share = (largest * (which == number)).sum(-1, keepdim=True)
        out = out + share * ((functional.silu(gate) * up) @ narrow.T)
    return out


def _llama(weights: Any, ids: Any, seen: Any, places: Any, config: Any) -> Any:
    theta, eps = config.rope_parameters["rope_theta"], config.rms_norm_eps
    x = weights["model.embed_tokens.weight"][ids]
    number = 0
    while f"model.layers.{number}.input_layernorm.weight" in weights:
        start = f"model.layers.{number}."
        w = {name.removeprefix(start): value for name, value in weights.items() if name.startswith(start)}
        h = _rms(x, w["input_layernorm.weight"], eps)
        q, k, v = (
            (h @ w[f"self_attn.{one}_proj.weight"].T).unflatten(-1, (count, -1))
            for one, count in (("q", HEADS), ("k", KEYS), ("v", KEYS))
        )
        if "self_attn.q_norm.weight" in w:
            q, k = (_rms(one, w[f"self_attn.{name}_norm.weight"], eps) for one, name in ((q, "q"), (k, "k")))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        q, k = _rotated(q, places, theta), _rotated(k, places, theta)
        k, v = (one.repeat_interleave(HEADS // KEYS, 1) for one in (k, v))
        x = x + _attended(q, k, v, seen) @ w["self_attn.o_proj.weight"].T
        h = _rms(x, w["post_attention_layernorm.weight"], eps)
        if "mlp.gate.weight" in w:
            x = x + _experts(w, h)
        else:
            gate, up = (h @ w[f"mlp.{one}_proj.weight"].T for one in ("gate", "up"))
            x = x + (functional.silu(gate) * up) @ w["mlp.down_proj.weight"].T
        number += 1
    return _rms(x[:, -1], weights["model.norm.weight"], eps) @ weights["lm_head.weight"].T


def _gpt2(weights: Any, ids: Any, seen: Any, places: Any, config: Any) -> Any:
    eps = config.layer_norm_epsilon

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps)

    def dense(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][places]
    number = 0
    while f"transformer.h.{number}.ln_1.weight" in weights:
        start = f"transformer.h.{number}"
        q, k, v = dense(norm(x, f"{start}.ln_1"), f"{start}.attn.c_attn").chunk(3, -1)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (q, k, v))
        x = x + dense(_attended(q, k, v, seen), f"{start}.attn.c_proj")
        h = dense(norm(x, f"{start}.ln_2"), f"{start}.mlp.c_fc")
        x = x + dense(functional.gelu(h, approximate="tanh"), f"{start}.mlp.c_proj")
        number += 1
    return norm(x[:, -1], "transformer.ln_f") @ weights["lm_head.weight"].T


def port(model: Any) -> Decoder:
    """Return a decoder that has nothing of a model but its weights."""
    weights = model.state_dict()
    run = _gpt2 if hasattr(model, "transformer") else _llama

    @torch.no_grad()
    def decode(ids: Any, mask: Any) -> Iterator[Any]:
        tokens, seen = torch.from_numpy(ids), torch.from_numpy(mask)
        while True:
            chosen = yield run(weights, tokens, seen, (seen.cumsum(-1) - 1).clamp(min=0), model.config)
            step = torch.from_numpy(chosen)[:, None]
            tokens = torch.cat([tokens, step], -1)
            seen = torch.cat([seen, torch.ones_like(step, dtype=torch.bool)], -1)

    return decode
