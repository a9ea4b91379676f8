"""Models of a library with random weights, whose mistakes are made by another expression in its own source.

A patch names a function, an expression in it and what is computed instead; ``at`` decides at each run, so that the
mistake is in one block.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from typing import Any

import torch

from benchmarks.blame.models import Place, Tensor, at

sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]

_LLAMA, _GPT2, _BERT, _SWIN, _NEXT = (
    f"transformers.models.{name}.modeling_{name}" for name in ("llama", "gpt2", "bert", "swin", "convnext")
)
# Module, function, mistake, expression, and what is wrong.
_PATCHES = (
    (_LLAMA, "rotate_half", "rope sign", "(-x2, x1)", "(x2, -x1)"),
    (_LLAMA, "apply_rotary_pos_emb", "rope of q left out", "(q * cos) + (rotate_half(q) * sin)", "q"),
    (
        _LLAMA,
        "apply_rotary_pos_emb",
        "rope of k swapped",
        "(k * cos) + (rotate_half(k) * sin)",
        "(k * sin) + (rotate_half(k) * cos)",
    ),
    (
        _LLAMA,
        "repeat_kv",
        "heads repeated",
        "hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
        "hidden_states.transpose(1, 2).reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
    ),
    (_LLAMA, "eager_attention_forward", "scale", "key_states.transpose(2, 3)", "key_states.transpose(2, 3) * 2"),
    (_LLAMA, "eager_attention_forward", "mask left out", "attn_weights + attention_mask", "attn_weights"),
    (
        _LLAMA,
        "eager_attention_forward",
        "heads not joined",
        "attn_output.transpose(1, 2).contiguous()",
        "attn_output.contiguous()",
    ),
    (
        _LLAMA,
        "LlamaMLP.forward",
        "gate and up",
        "self.act_fn(self.gate_proj(x)) * self.up_proj(x)",
        "self.gate_proj(x) * self.act_fn(self.up_proj(x))",
    ),
    (_LLAMA, "LlamaMLP.forward", "activation left out", "self.act_fn(self.gate_proj(x))", "self.gate_proj(x)"),
    (
        _LLAMA,
        "LlamaRMSNorm.forward",
        "mean of the norm",
        "hidden_states.pow(2).mean(-1, keepdim=True)",
        "hidden_states.pow(2).sum(-1, keepdim=True)",
    ),
    (_LLAMA, "LlamaRotaryEmbedding.forward", "cosine", "emb.cos()", "emb.cos().roll(1, 1)"),
    (
        _LLAMA,
        "LlamaDecoderLayer.forward",
        "residual of the norm",
        "residual = hidden_states\n    hidden_states = self.post_attention_layernorm(hidden_states)",
        "residual = hidden_states = self.post_attention_layernorm(hidden_states)",
    ),
    (
        _GPT2,
        "GPT2Attention.forward",
        "q and k swapped",
        "self.c_attn(hidden_states).split(self.split_size, dim=2)",
        "self.c_attn(hidden_states).roll(self.split_size, 2).split(self.split_size, dim=2)",
    ),
    (
        _GPT2,
        "GPT2Attention.forward",
        "heads split",
        "value_states.view(shape_kv).transpose(1, 2)",
        "value_states.reshape(shape_kv[0], shape_kv[-1], -1, shape_kv[1]).permute(0, 2, 3, 1)",
    ),
    (
        _GPT2,
        "eager_attention_forward",
        "softmax axis",
        "nn.functional.softmax(attn_weights, dim=-1)",
        "nn.functional.softmax(attn_weights, dim=-2)",
    ),
    (
        _GPT2,
        "eager_attention_forward",
        "mask doubled",
        "attn_weights + attention_mask",
        "attn_weights + attention_mask.roll(1, -1)",
    ),
    (_GPT2, "GPT2Block.forward", "residual left out", "attn_output + residual", "attn_output"),
    (
        _GPT2,
        "GPT2Block.forward",
        "residual of the mlp doubled",
        "residual + feed_forward_hidden_states",
        "residual * 2 + feed_forward_hidden_states",
    ),
    (_GPT2, "GPT2MLP.forward", "activation", "self.act(hidden_states)", "torch.relu(hidden_states)"),
    (_GPT2, "GPT2MLP.forward", "hidden state scaled", "self.c_fc(hidden_states)", "self.c_fc(hidden_states) * 1.5"),
    (
        _NEXT,
        "ConvNextLayer.forward",
        "residual left out",
        "residual + self.drop_path(features)",
        "self.drop_path(features)",
    ),
    (_NEXT, "ConvNextLayer.forward", "scale left out", "self.layer_scale_parameter * features", "features"),
    (_NEXT, "ConvNextLayer.forward", "axes permuted", "features.permute(0, 3, 1, 2)", "features.permute(0, 3, 2, 1)"),
    (_NEXT, "ConvNextLayer.forward", "activation", "self.act(features)", "torch.nn.functional.silu(features)"),
    (_NEXT, "ConvNextLayer.forward", "norm before permuted", "self.dwconv(features)", "self.dwconv(features).flip(2)"),
    (
        _NEXT,
        "ConvNextEmbeddings.forward",
        "images flipped",
        "self.patch_embeddings(pixel_values)",
        "self.patch_embeddings(pixel_values.flip(1))",
    ),
    (_BERT, "BertSelfOutput.forward", "residual left out", "hidden_states + input_tensor", "hidden_states"),
    (
        _BERT,
        "BertOutput.forward",
        "norm before the sum",
        "self.LayerNorm(hidden_states + input_tensor)",
        "self.LayerNorm(hidden_states) + input_tensor",
    ),
    (_BERT, "BertPooler.forward", "last token", "hidden_states[:, 0]", "hidden_states[:, -1]"),
    (_BERT, "BertEmbeddings.forward", "places left out", "embeddings + position_embeddings", "embeddings"),
    (
        _BERT,
        "BertEmbeddings.forward",
        "kinds doubled",
        "inputs_embeds + token_type_embeddings",
        "inputs_embeds + 2 * token_type_embeddings",
    ),
    (_BERT, "eager_attention_forward", "scale left out", "key.transpose(2, 3)", "key.transpose(2, 3) / scaling"),
    (
        _BERT,
        "eager_attention_forward",
        "heads not joined",
        "attn_output.transpose(1, 2).contiguous()",
        "attn_output.contiguous()",
    ),
    (
        _BERT,
        "BertIntermediate.forward",
        "gelu by tanh",
        "self.intermediate_act_fn(hidden_states)",
        "nn.functional.silu(hidden_states)",
    ),
    (
        _SWIN,
        "window_reverse",
        "windows not joined",
        "windows.transpose(2, 3).contiguous().view(-1, height, width, num_channels)",
        "windows.reshape(-1, height, width, num_channels)",
    ),
    (
        _SWIN,
        "SwinLayer.cyclic_shift",
        "shift",
        "direction * self.shift_size, direction * self.shift_size",
        "direction * self.shift_size, 0",
    ),
    (
        _SWIN,
        "SwinLayer.forward",
        "residual of the windows",
        "shortcut + self.drop_path(attention_windows)",
        "hidden_states.reshape(shortcut.shape) + self.drop_path(attention_windows)",
    ),
    (
        _SWIN,
        "SwinLayer.forward",
        "residual left out",
        "self.dropout(hidden_states) + residual",
        "self.dropout(hidden_states)",
    ),
    (
        _SWIN,
        "SwinLayer.forward",
        "axes of the image",
        "hidden_states.view(batch_size, height, width, channels)",
        "hidden_states.view(batch_size, height, width, channels).transpose(1, 2)",
    ),
    (_SWIN, "SwinLayer.get_attn_mask", "mask", "-100.0", "-1.0"),
    (_SWIN, "SwinPatchMerging.forward", "norm left out", "self.norm(input_feature)", "input_feature"),
)


def _is_here(name: str) -> bool:
    """Whether the mistake is made in the block that runs; outside of blocks it always is."""
    path = Place.path()
    numbers = "".join(part for part in path.split(".") if part.isdecimal())
    return Place.where in ("", path) and at(name, int(numbers or 300))


def _done(found: Any) -> Any:
    """Note the end of an expression, too: modules may run in it."""
    Place.done()
    return found


def _patch(module: Any, function: str, known: list[tuple[str, str, str]]) -> None:
    owner, _, name = function.rpartition(".")
    holder = getattr(module, owner) if owner else module
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(holder, name))))
    source = source[source.index("def ") :]
    for wrong, old, new in known:
        if old not in source:
            raise LookupError(f"{function} has no longer {old}")
        if "\n" in old:
            first, last = old.split("\n    ")
            source = source.replace(old, f"{last}\n    residual = hidden_states if __at__({wrong!r}) else residual")
            source = source.replace(last, f"{first}\n    {last}", 1)
        else:
            source = source.replace(old, f"(__done__(({new})) if __at__({wrong!r}) else ({old}))", 1)
    space = module.__dict__
    space["__at__"], space["__done__"] = _is_here, _done
    exec(compile(source, inspect.getsourcefile(module) or "", "exec"), space, made := {})
    setattr(holder, name, made[name])


def _model(where: str, model: str, config: str, **words: Any) -> Any:
    module = importlib.import_module(where)
    functions: dict[str, list[tuple[str, str, str]]] = {}
    for at_module, function, *rest in _PATCHES:
        if at_module == where:
            functions.setdefault(function, []).append((rest[0], rest[1], rest[2]))
    if "__at__" not in module.__dict__:
        for function, known in functions.items():
            _patch(module, function, known)
    made = getattr(module, model)(getattr(module, config)(**words))
    for parameter in made.parameters():
        # Their own weights are so small that a layer does almost nothing.
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.2)
    return made


def llama() -> Any:
    """Return a small Llama."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    words = {"vocab_size": 50, "num_key_value_heads": 2, "attn_implementation": "eager", "use_cache": False}
    return _model(_LLAMA, "LlamaForCausalLM", "LlamaConfig", **sizes, **words)


def gpt2() -> Any:
    """Return a small GPT-2."""
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 20, "vocab_size": 50}
    return _model(_GPT2, "GPT2LMHeadModel", "GPT2Config", **sizes, attn_implementation="eager", use_cache=False)


def convnext() -> Any:
    """Return a small ConvNeXt."""
    sizes = {"num_channels": 3, "hidden_sizes": [8, 8, 8, 8], "depths": [2, 2, 1, 1]}
    return _model(_NEXT, "ConvNextForImageClassification", "ConvNextConfig", **sizes, layer_scale_init_value=0.5)


def bert() -> Any:
    """Return a small BERT."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    return _model(_BERT, "BertModel", "BertConfig", **sizes, vocab_size=50, attn_implementation="eager")


def swin() -> Any:
    """Return a small Swin."""
    sizes = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4}
    return _model(_SWIN, "SwinForImageClassification", "SwinConfig", **sizes, attn_implementation="eager")


def images(seed: int) -> Tensor:
    """Return two images."""
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
