"""Ports of attention: tiny models of transformers, fused attention (sdpa) under test against the eager one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from cases import Case, Mistake, Port, causes_at, named, pairs_of
from models import declare_nms, randomise
from module_mistakes import in_module, no_bias, scaled_weight, transposed_weight
from torch import nn
from truth import Cause, Truth

from pytest_msdump.record import Recorder

__all__ = ["transformers_cases"]

_TOKENS = torch.randint(0, 100, (2, 12), generator=torch.Generator().manual_seed(5))


def transformers_cases() -> Iterator[Case]:
    """Yield a case for each model."""
    declare_nms()
    for name, build in (("bert", _bert), ("gpt2", _gpt2), ("llama", _llama)):
        yield _case(name, build)


def _case(name: str, build: Callable[[], nn.Module]) -> Case:
    model = randomise(build())

    def run(directory: Path, implementation: str, mistakes: Sequence[Mistake], **options: Any) -> None:
        wrong = copy.deepcopy(model)
        wrong.set_attn_implementation(implementation)
        with torch.no_grad():
            for mistake in mistakes:
                mistake.apply(wrong)
            with Recorder(directory.parent).torch(wrong, directory=directory, **options):
                wrong(input_ids=_TOKENS, use_cache=False)

    def port(mistakes: Sequence[Mistake]) -> Port:
        def record(directory: Path, truth: Truth | None) -> tuple[Truth | None, list[Cause]]:
            run(directory, "sdpa", mistakes)
            return truth, causes_at(mistakes, truth)

        return Port(*named(mistakes), record)

    several = [(), *((mistake,) for mistake in _MISTAKES[name]), *pairs_of(_MISTAKES[name], _TWO)]
    return Case(
        f"transformers-{name}",
        lambda directory, **options: run(directory, "eager", (), **options),
        [port(mistakes) for mistakes in several],
        lambda left, right: left == right,
    )


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
    return BertModel(BertConfig(vocab_size=100, max_position_embeddings=16, **sizes))


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(vocab_size=100, n_positions=16, n_embd=64, n_layer=3, n_head=4))


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
    return LlamaModel(LlamaConfig(vocab_size=100, max_position_embeddings=16, num_key_value_heads=2, **sizes))


# -- mistakes --------------------------------------------------------------------------------------------------------


def _epsilon(at: str, attribute: str) -> Mistake:
    return in_module("epsilon", at, "epsilon 0.001", lambda module: setattr(module, attribute, 1e-3))


def _activation(name: str, at: str, activation: str, title: str) -> Mistake:
    from transformers.activations import ACT2FN

    return Mistake(name, at, title, lambda model: model.set_submodule(at, ACT2FN[activation]))


def _no_scale(at: str, shows_in: str) -> Mistake:
    return Mistake(
        "attention_scale",
        at,
        "an attention without its scale",
        lambda model: setattr(model.get_submodule(at), "scaling", 1.0),
        (shows_in,),
    )


def _no_residual(at: str) -> Mistake:
    def forward(self: Any, hidden: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return self.LayerNorm(self.dropout(self.dense(hidden)))

    def change(module: Any) -> None:
        module.forward = MethodType(forward, module)

    return Mistake(
        "no_residual",
        at,
        "a missing residual connection",
        lambda model: change(model.get_submodule(at)),
        (f"{at}.LayerNorm",),
    )


def _rolled(at: str) -> Mistake:
    def change(module: Any) -> None:
        module.weight.copy_(torch.roll(module.weight, -1, 0))

    return in_module("positions", at, "positions off by one", change)


def _rotary_off_by_one(at: str) -> Mistake:
    """Positions begin at one; attention, which sees distances only, stays right: only cosines and sines differ."""

    def change(module: Any) -> None:
        plain = module.forward
        module.forward = lambda x, position_ids: plain(x, position_ids + 1)

    return in_module("rotary_off_by_one", at, "rotary positions off by one", change)


def _rotary_base(at: str) -> Mistake:
    def change(module: Any) -> None:
        size = module.inv_freq.numel()
        module.inv_freq.copy_(500000.0 ** -(torch.arange(size) / size))

    return in_module("rotary_base", at, "rotary base 500000 for 10000", change)


def _rotary_order(layer: str, heads: int, key_heads: int) -> Mistake:
    """Return the mistake of queries and keys whose halves are interleaved, as in other programs' checkpoints."""

    def interleave(projection: Any, number: int) -> None:
        rows = projection.weight
        shape = (number, 2, rows.shape[0] // number // 2, rows.shape[1])
        rows.copy_(rows.view(shape).transpose(1, 2).reshape(rows.shape).clone())

    def apply(model: Any) -> None:
        interleave(model.get_submodule(f"{layer}.q_proj"), heads)
        interleave(model.get_submodule(f"{layer}.k_proj"), key_heads)

    return Mistake(
        "rotary_order", f"{layer}.q_proj", "queries and keys interleaved for rotary", apply, (f"{layer}.k_proj",)
    )


_MISTAKES: dict[str, Sequence[Mistake]] = {
    "bert": (
        _epsilon("encoder.layer.1.attention.output.LayerNorm", "eps"),
        _activation("tanh_gelu", "encoder.layer.1.intermediate.intermediate_act_fn", "gelu_new", "tanh GELU for erf"),
        _no_scale("encoder.layer.1.attention.self", "encoder.layer.1.attention.self"),
        _no_residual("encoder.layer.2.output"),
        transposed_weight("encoder.layer.0.attention.self.query"),
        no_bias("encoder.layer.2.attention.output.dense"),
        _rolled("embeddings.position_embeddings"),
    ),
    "gpt2": (
        _epsilon("h.1.ln_1", "eps"),
        _activation("erf_gelu", "h.1.mlp.act", "gelu", "erf GELU for tanh"),
        _no_scale("h.1.attn", "h.1.attn.c_proj"),
        transposed_weight("h.0.attn.c_proj"),
        no_bias("h.2.mlp.c_proj"),
        _rolled("wpe"),
    ),
    "llama": (
        _epsilon("layers.1.input_layernorm", "variance_epsilon"),
        _rotary_off_by_one("rotary_emb"),
        _rotary_base("rotary_emb"),
        _rotary_order("layers.1.self_attn", 4, 2),
        _activation("gelu_for_silu", "layers.1.mlp.act_fn", "gelu", "GELU for SiLU"),
        _no_scale("layers.1.self_attn", "layers.1.self_attn.o_proj"),
        scaled_weight("layers.2.mlp.down_proj"),
        transposed_weight("layers.0.self_attn.q_proj"),
    ),
}
_TWO = (("epsilon", "no_residual"), ("erf_gelu", "no_bias"), ("rotary_off_by_one", "scaled_weight"))
