"""Tiny transformers with random weights, and decoders of them: with a cache or without, and what these do wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
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

Decoder = Callable[..., Iterator[Any]]

VOCABULARY, HEADS, KEYS, EXPERTS, CHOSEN = 256, 8, 2, 4, 2
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEYS,
    "max_position_embeddings": 256,
    "attn_implementation": "eager",
}


def models(seed: int) -> dict[str, Any]:
    """Return one model of each kind; larger weights than those of training, so that logits are not all alike."""
    made: dict[str, Any] = {
        "llama": partial(LlamaForCausalLM, LlamaConfig(**_SIZES)),
        "qwen3": partial(Qwen3ForCausalLM, Qwen3Config(**_SIZES, head_dim=8)),
        "mixtral": partial(MixtralForCausalLM, MixtralConfig(**_SIZES, num_local_experts=EXPERTS)),
        "gpt2": partial(
            GPT2LMHeadModel,
            GPT2Config(
                vocab_size=VOCABULARY,
                n_embd=64,
                n_layer=4,
                n_head=HEADS,
                n_positions=256,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation="eager",
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


def changed(model: Any, change: Callable[[Any], object]) -> Any:
    """Return a copy of a model that was changed."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def perturbed(model: Any, u: float, seed: int = 1) -> Any:
    """Return the model with each weight times 1 + u · ξ, ξ uniform between -1 and 1."""
    random = torch.Generator().manual_seed(seed)

    def perturb(other: Any) -> None:
        for parameter in other.parameters():
            parameter.mul_(1 + u * (2 * torch.rand(parameter.shape, generator=random) - 1))

    return changed(model, perturb)


def decoder(
    model: Any,
    *,
    cached: bool = True,
    shift: int = 0,
    spoils_cache: bool = False,
    window: int | None = None,
    reads_padding: bool = False,
    first: int = 0,
) -> Decoder:
    """Return a decoder of a model: with a cache, or with all tokens in each step.

    Mistakes: places that are `shift` too far once there is a cache; the first key of a cache that is gone; a `window`
    of tokens instead of all; padding that is read; a `first` token whose id is so much larger.
    """

    @torch.no_grad()
    def decode(ids: Any, mask: Any) -> Iterator[Any]:
        tokens, seen = torch.from_numpy(ids), torch.from_numpy(mask).long()
        if first:
            rows, starts = np.arange(len(ids)), mask.argmax(-1)
            tokens[rows, starts] = (tokens[rows, starts] + first) % VOCABULARY
        cache = None
        new = tokens
        while True:
            places = (seen.cumsum(-1) - 1).clamp(min=0) + (shift if cache is not None else 0)
            read = torch.ones_like(seen) if reads_padding else seen
            if window:
                new, read = tokens[:, -window:], read[:, -window:]
            places = places[:, -new.shape[1] :]
            given = {"attention_mask": read, "position_ids": places, "past_key_values": cache, "use_cache": cached}
            if hasattr(model.config, "num_local_experts"):
                # With routers the whole model also computes a loss of them, which fails with a cache and a mask.
                out = model.model(input_ids=new, output_router_logits=True, **given)
                logits = model.lm_head(out.last_hidden_state[:, -1])
                chosen = yield {"logits": logits, "routers": out.router_logits, "experts": CHOSEN}
            else:
                out = model(input_ids=new, **given)
                chosen = yield out.logits[:, -1]
            step = torch.from_numpy(chosen)[:, None]
            tokens, seen = torch.cat([tokens, step], -1), torch.cat([seen, torch.ones_like(step)], -1)
            cache, new = (out.past_key_values, step) if cached else (None, tokens)
            if spoils_cache:
                for layer in cache.layers:
                    layer.keys[torch.arange(len(ids)), :, torch.from_numpy(mask.argmax(-1))] = 0.0

    return decode


class Routes:
    """The experts that each real token of each prompt goes to, as a model's routers choose them."""

    def __init__(self, model: Any, run: Decoder) -> None:
        # By prompt, and how many ran at once.
        self.found: dict[tuple[tuple[int, ...], int], list[Any]] = {}
        self._run, self._now = run, []
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(lambda _module, _given, out: self._now.append(out[2].sort(-1)[0].numpy()))

    def decode(self, ids: Any, mask: Any) -> Iterator[Any]:
        """Decode, and note which experts were chosen."""
        running, chosen, real = self._run(ids, mask), None, mask
        prompts = [tuple(row[kept].tolist()) for row, kept in zip(ids, mask, strict=True)]
        own: list[list[Any]] = [self.found.setdefault((prompt, len(ids)), []) for prompt in prompts]
        while True:
            self._now.clear()
            logits = next(running) if chosen is None else running.send(chosen)
            if self._now:
                layers = np.stack([one.reshape(len(ids), -1, CHOSEN) for one in self._now])
                for row, found in enumerate(own):
                    found.append(layers[:, row, real[row, -layers.shape[2] :]])
            chosen = yield logits
            real = np.ones((len(ids), 1), bool)

    def differ_from(self, other: Routes) -> bool:
        """Whether a token goes to another expert than in another run of the same prompts."""
        others = {prompt: np.concatenate(found, 1) for (prompt, _), found in other.found.items() if found}
        return any((np.concatenate(found, 1) != others[key[0]]).any() for key, found in self.found.items() if found)
