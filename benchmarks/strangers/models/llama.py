"""Llama of transformers with grouped queries; ports with Meta's names, with joined ones, and as serving engines do."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import TOKENS, VOCABULARY, joined, seeded, transformers

WIDTH, HEADS, KEYS, LAYERS, INNER = 32, 4, 2, 3, 56
HEAD = WIDTH // HEADS


def _reference() -> nn.Module:
    package = transformers()
    config = package.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEYS, attn_implementation="eager", use_cache=False,
    )  # fmt: skip
    return seeded(package.LlamaForCausalLM(config))


class RMSNorm(nn.Module):
    """Root mean square normalisation; with a residual it is added first, and returned, too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.eps = 1e-6

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:  # noqa: D102
        if residual is not None:
            x = x + residual
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return out if residual is None else (out, x)


def rotated(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotate heads, ``(..., S, heads, HEAD)``, by their places, halves against each other."""
    angles = places[:, None].float() / 10000 ** (torch.arange(0, HEAD, 2).float() / HEAD)
    cos, sin = (torch.cat([part, part], -1)[:, None, :] for part in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend in ``(B, S, heads * HEAD)``, each key for several queries."""
    places = torch.arange(q.shape[1])
    q, k, v = (x.unflatten(-1, (-1, HEAD)) for x in (q, k, v))
    q, k = rotated(q, places), rotated(k, places)
    q, k, v = (
        x.transpose(1, 2) for x in (q, k.repeat_interleave(HEADS // KEYS, 2), v.repeat_interleave(HEADS // KEYS, 2))
    )
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class MetaAttention(nn.Module):
    """Meta's names."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.wv, self.wo = nn.Linear(WIDTH, KEYS * HEAD, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.wo(attend(self.wq(x), self.wk(x), self.wv(x)))


class MetaFeedForward(nn.Module):
    """w1 gates, w3 goes up, w2 down."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class JoinedAttention(nn.Module):
    """Query, key and value from one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.wqkv = nn.Linear(WIDTH, WIDTH + 2 * KEYS * HEAD, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.wo(attend(*self.wqkv(x).split([WIDTH, KEYS * HEAD, KEYS * HEAD], -1)))


class JoinedFeedForward(nn.Module):
    """Gate and up from one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.w13, self.w2 = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(functional.silu(gate) * up)


class TransformerBlock(nn.Module):
    """A block with Meta's names and layers of either kind."""

    def __init__(self, attention: type[nn.Module], feed_forward: type[nn.Module]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention(), feed_forward()
        self.attention_norm, self.ffn_norm = RMSNorm(), RMSNorm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class MetaLlama(nn.Module):
    """tok_embeddings, layers, norm, output."""

    def __init__(self, attention: type[nn.Module], feed_forward: type[nn.Module]) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(TransformerBlock(attention, feed_forward) for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class SiluAndMul(nn.Module):
    """The activation of a gated layer whose halves stand side by side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up


class AttentionCore(nn.Module):
    """Attention on ``(T, heads * HEAD)``, where T are the tokens of all sequences."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return attend(*(x.unflatten(0, (TOKENS.shape[0], -1)) for x in (q, k, v))).flatten(0, 1)


class ServingAttention(nn.Module):
    """qkv_proj, the core as a module, o_proj."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(WIDTH, WIDTH + 2 * KEYS * HEAD, bias=False)
        self.attn = AttentionCore()
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.o_proj(self.attn(*self.qkv_proj(x).split([WIDTH, KEYS * HEAD, KEYS * HEAD], -1)))


class ServingMLP(nn.Module):
    """gate_up_proj, act_fn, down_proj."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.act_fn = nn.Linear(WIDTH, 2 * INNER, bias=False), SiluAndMul()
        self.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.down_proj(self.act_fn(self.gate_up_proj(x)))


class ServingLayer(nn.Module):
    """A layer that hands the residual on beside the output of its MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = ServingAttention(), ServingMLP()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None) -> Any:  # noqa: D102
        if residual is None:
            x, residual = self.input_layernorm(x), x
        else:
            x, residual = self.input_layernorm(x, residual)
        x, residual = self.post_attention_layernorm(self.self_attn(x), residual)
        return self.mlp(x), residual


class ServingLlama(nn.Module):
    """Hugging Face's names as a serving engine has them: all tokens in one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.model.layers = nn.ModuleList(ServingLayer() for _ in range(LAYERS))
        self.model.norm = RMSNorm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x, residual = self.model.embed_tokens(ids.flatten()), None
        for layer in self.model.layers:
            x, residual = layer(x, residual)
        x, _ = self.model.norm(x, residual)
        return self.lm_head(x)


def _fill_joined(model: Any, reference: Any) -> None:
    for layer, theirs in zip(model.layers, reference.model.layers, strict=True):
        attention, mlp = theirs.self_attn, theirs.mlp
        joined(layer.attention.wqkv, attention.q_proj, attention.k_proj, attention.v_proj)
        joined(layer.feed_forward.w13, mlp.gate_proj, mlp.up_proj)


def _fill_serving(model: Any, reference: Any) -> None:
    for layer, theirs in zip(model.model.layers, reference.model.layers, strict=True):
        attention, mlp = theirs.self_attn, theirs.mlp
        joined(layer.self_attn.qkv_proj, attention.q_proj, attention.k_proj, attention.v_proj)
        joined(layer.mlp.gate_up_proj, mlp.gate_proj, mlp.up_proj)


_HF = "model.layers.{i}"
_QKV = (f"{_HF}.self_attn.q_proj", f"{_HF}.self_attn.k_proj", f"{_HF}.self_attn.v_proj")
_GATE_UP = (f"{_HF}.mlp.gate_proj", f"{_HF}.mlp.up_proj")
_META = {
    "tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head", "layers.{i}": _HF,
    "layers.{i}.attention_norm": f"{_HF}.input_layernorm", "layers.{i}.ffn_norm": f"{_HF}.post_attention_layernorm",
    "layers.{i}.attention.wo": f"{_HF}.self_attn.o_proj", "layers.{i}.attention": f"{_HF}.self_attn",
    "layers.{i}.feed_forward.w2": f"{_HF}.mlp.down_proj", "layers.{i}.feed_forward": f"{_HF}.mlp",
}  # fmt: skip
_SPLIT = _META | {
    "layers.{i}.attention.wq": _QKV[0], "layers.{i}.attention.wk": _QKV[1], "layers.{i}.attention.wv": _QKV[2],
    "layers.{i}.feed_forward.w1": _GATE_UP[0], "layers.{i}.feed_forward.w3": _GATE_UP[1],
}  # fmt: skip
_SERVING = {
    "model.embed_tokens": "model.embed_tokens", "model.norm": "model.norm", "lm_head": "lm_head",
    "model.norm:1": f"model.layers.{LAYERS - 1}", f"{_HF}.input_layernorm": f"{_HF}.input_layernorm",
    f"{_HF}.input_layernorm:1": "model.layers.{i-1}",
    f"{_HF}.post_attention_layernorm": f"{_HF}.post_attention_layernorm",
    f"{_HF}.self_attn.o_proj": f"{_HF}.self_attn.o_proj", f"{_HF}.self_attn": f"{_HF}.self_attn",
    f"{_HF}.mlp.down_proj": f"{_HF}.mlp.down_proj", f"{_HF}.mlp": f"{_HF}.mlp",
}  # fmt: skip

MODEL = Model(
    "llama",
    _reference,
    lambda model: model(TOKENS),
    (
        Port("meta", lambda: MetaLlama(MetaAttention, MetaFeedForward), _SPLIT),
        Port(
            "joined",
            lambda: MetaLlama(JoinedAttention, JoinedFeedForward),
            _META,
            [(("layers.{i}.attention.wqkv",), _QKV), (("layers.{i}.feed_forward.w13",), _GATE_UP)],
            _fill_joined,
        ),
        Port(
            "serving",
            ServingLlama,
            _SERVING,
            [((f"{_HF}.self_attn.qkv_proj",), _QKV), ((f"{_HF}.mlp.gate_up_proj",), _GATE_UP)],
            _fill_serving,
            has_equal_blocks=False,
        ),
    ),
    export=(TOKENS,),
)
