"""Mixtral of transformers, experts stacked in one parameter; a port with a module for each expert."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .llama import HEADS, KEYS, LAYERS, WIDTH, MetaAttention, RMSNorm
from .weights import TOKENS, VOCABULARY, seeded, transformers

EXPERTS, CHOSEN, INNER = 4, 2, 24


def _reference() -> nn.Module:
    package = transformers()
    config = package.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEYS, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN,
        rms_norm_eps=1e-6, attn_implementation="eager", use_cache=False, max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, experts_implementation="eager",
    )  # fmt: skip
    model = seeded(package.MixtralForCausalLM(config))
    for layer in model.model.layers:
        # Three axes: what gives other weights their size makes these too small to matter.
        layer.mlp.experts.gate_up_proj.data.mul_(7.0)
        layer.mlp.experts.down_proj.data.mul_(7.0)
    return model


class Expert(nn.Module):
    """w1 gates, w3 goes up, w2 down."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.w2, self.act = nn.Linear(INNER, WIDTH, bias=False), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.w2(self.act(self.w1(x)) * self.w3(x))


class MoE(nn.Module):
    """A gate, and experts that see the tokens that chose them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        flat = x.flatten(0, 1)
        weights, chosen = functional.softmax(self.gate(flat), -1).topk(CHOSEN)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            places, tokens = torch.where(number == chosen.T)
            out.index_add_(0, tokens, expert(flat[tokens]) * weights[tokens, places, None])
        return out.view_as(x)


class Block(nn.Module):
    """Attention with Meta's names, and experts."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = MetaAttention(), MoE()
        self.attention_norm, self.ffn_norm = RMSNorm(), RMSNorm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class MistralMoE(nn.Module):
    """tok_embeddings, layers, norm, output."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.output = RMSNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def _fill(model: Any, reference: Any) -> None:
    for layer, theirs in zip(model.layers, reference.model.layers, strict=True):
        stacked = theirs.mlp.experts
        for number, expert in enumerate(layer.feed_forward.experts):
            gate, up = stacked.gate_up_proj.data[number].chunk(2)
            expert.w1.weight.data.copy_(gate)
            expert.w3.weight.data.copy_(up)
            expert.w2.weight.data.copy_(stacked.down_proj.data[number])


_HF = "model.layers.{i}"
_TABLE = {
    "tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head", "layers.{i}": _HF,
    "layers.{i}.attention_norm": f"{_HF}.input_layernorm", "layers.{i}.ffn_norm": f"{_HF}.post_attention_layernorm",
    "layers.{i}.attention.wq": f"{_HF}.self_attn.q_proj", "layers.{i}.attention.wk": f"{_HF}.self_attn.k_proj",
    "layers.{i}.attention.wv": f"{_HF}.self_attn.v_proj", "layers.{i}.attention.wo": f"{_HF}.self_attn.o_proj",
    "layers.{i}.attention": f"{_HF}.self_attn", "layers.{i}.feed_forward.gate": f"{_HF}.mlp.gate",
    "layers.{i}.feed_forward": f"{_HF}.mlp",
    # The reference has one activation, which it calls for each expert in turn.
    "layers.{i}.feed_forward.experts.0.act": f"{_HF}.mlp.experts.act_fn",
    **{f"layers.{{i}}.feed_forward.experts.{number}.act": f"{_HF}.mlp.experts.act_fn@{number}"
       for number in range(1, EXPERTS)},
}  # fmt: skip

MODEL = Model(
    "mixtral",
    _reference,
    lambda model: model(TOKENS),
    (Port("experts", MistralMoE, _TABLE, fill=_fill),),
)
