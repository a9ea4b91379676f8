"""Sequence models and a recommender that nothing is tuned on, each with a port by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import TOKENS, VOCABULARY, images, seeded, transformers

WIDTH, HEADS, INNER, LAYERS = 32, 4, 48, 2
HEAD = WIDTH // HEADS
SOUND = images(2, 8, 24)


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    """Attend in ``(B, S, WIDTH)``."""
    out = functional.scaled_dot_product_attention(_heads(q), _heads(k), _heads(v), **options)
    return out.transpose(1, 2).flatten(2)


# -- T5: transformers against Mesh's names -----------------------------------------------------------------------------


class RMS(nn.Module):
    """Root mean square normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.eps = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class T5Attention(nn.Module):
    """q, k, v, o without biases; `bias` is added to the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:  # noqa: D102
        return self.output(_attended(self.query(x), self.key(memory), self.value(memory), attn_mask=bias, scale=1.0))


class T5Block(nn.Module):
    """Flat names, one for each layer of the block."""

    def __init__(self, *, is_decoder: bool) -> None:
        super().__init__()
        self.pre_attention_norm, self.attention = RMS(), T5Attention()
        if is_decoder:
            self.pre_cross_norm, self.cross_attention = RMS(), T5Attention()
        self.pre_mlp_norm = RMS()
        self.mlp_wi, self.mlp_wo = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, bias: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:  # noqa: D102
        h = self.pre_attention_norm(x)
        x = x + self.attention(h, h, bias)
        if memory is not None:
            x = x + self.cross_attention(self.pre_cross_norm(x), memory, None)
        return x + self.mlp_wo(self.mlp_wi(self.pre_mlp_norm(x)).relu())


class MeshT5(nn.Module):
    """encoder_block, decoder_block, relative attention beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embedder = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder_relpos, self.decoder_relpos = nn.Embedding(32, HEADS), nn.Embedding(32, HEADS)
        self.encoder_block = nn.ModuleList(T5Block(is_decoder=False) for _ in range(LAYERS))
        self.decoder_block = nn.ModuleList(T5Block(is_decoder=True) for _ in range(LAYERS))
        self.encoder_final_norm, self.decoder_final_norm = RMS(), RMS()
        self.logits_dense = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        places = torch.arange(ids.shape[1])
        apart = places[None, :] - places[:, None]
        near = apart.abs()
        both = self.encoder_relpos(_bucket(near, 16) + 16 * (apart > 0)).permute(2, 0, 1)[None]
        past = self.decoder_relpos(_bucket((-apart).clamp(min=0), 32)).permute(2, 0, 1)[None]
        past = past.masked_fill(apart > 0, float("-inf"))
        memory = self.token_embedder(ids)
        for block in self.encoder_block:
            memory = block(memory, both)
        memory = self.encoder_final_norm(memory)
        x = self.token_embedder(ids.flip(1))
        for block in self.decoder_block:
            x = block(x, past, memory)
        return self.logits_dense(self.decoder_final_norm(x))


def _bucket(near: torch.Tensor, buckets: int) -> torch.Tensor:
    exact = buckets // 2
    far = exact + (torch.log(near.clamp(min=1).float() / exact) / torch.log(torch.tensor(128 / exact)) * exact).long()
    return torch.where(near < exact, near, far.clamp(max=buckets - 1))


def _t5() -> nn.Module:
    package = transformers()
    config = package.T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=HEAD, d_ff=INNER, num_layers=LAYERS, num_heads=HEADS,
        tie_word_embeddings=False, decoder_start_token_id=0, use_cache=False,
    )  # fmt: skip
    model = seeded(package.T5ForConditionalGeneration(config))
    with torch.no_grad():
        # Attention of T5 is not scaled: smaller keys are.
        for name, value in model.named_parameters():
            if name.endswith((".k.weight", "relative_attention_bias.weight")):
                value.mul_(0.3)
    return model


_T5 = {
    "token_embedder": "encoder.embed_tokens", "encoder_final_norm": "encoder.final_layer_norm",
    "logits_dense": "lm_head",
    "decoder_final_norm": "decoder.final_layer_norm", "token_embedder@1": "decoder.embed_tokens",
    "encoder_relpos": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    "decoder_relpos": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
}  # fmt: skip
for _side, _layers in (("encoder", ("attention", "mlp")), ("decoder", ("attention", "cross", "mlp"))):
    for _place, _layer in enumerate(_layers):
        _ours, _theirs = f"{_side}_block.{{i}}", f"{_side}.block.{{i}}.layer.{_place}"
        _T5[f"{_ours}.pre_{_layer}_norm"] = f"{_theirs}.layer_norm"
        if _layer == "mlp":
            _T5 |= {f"{_ours}.mlp_wi": f"{_theirs}.DenseReluDense.wi",
            f"{_ours}.mlp_wo": f"{_theirs}.DenseReluDense.wo",
                    _ours: _theirs}  # fmt: skip
            continue
        _name = "cross_attention" if _layer == "cross" else "attention"
        _inner = "EncDecAttention" if _layer == "cross" else "SelfAttention"
        for _one, _other in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            _T5[f"{_ours}.{_name}.{_one}"] = f"{_theirs}.{_inner}.{_other}"


def _relative(model: nn.Module, reference: nn.Module) -> None:
    for side in ("encoder", "decoder"):
        bias = reference.get_submodule(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias")
        model.get_submodule(f"{side}_relpos").weight.data.copy_(bias.weight.data)


T5 = Model(
    "t5",
    _t5,
    lambda model: model(input_ids=TOKENS, decoder_input_ids=TOKENS.flip(1)),
    (Port("mesh", MeshT5, _T5, fill=_relative, run=lambda model: model(TOKENS)),),
)

# -- Whisper: transformers against OpenAI's names ----------------------------------------------------------------------


class WhisperAttention(nn.Module):
    """query, key (without a bias), value, out."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, *, is_causal: bool = False) -> torch.Tensor:  # noqa: D102
        return self.out(_attended(self.query(x), self.key(memory), self.value(memory), is_causal=is_causal))


class WhisperBlock(nn.Module):
    """attn, cross_attn, mlp, each with its norm behind it in the list of modules."""

    def __init__(self, *, is_decoder: bool) -> None:
        super().__init__()
        self.attn, self.attn_ln = WhisperAttention(), nn.LayerNorm(WIDTH)
        if is_decoder:
            self.cross_attn, self.cross_attn_ln = WhisperAttention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))
        self.mlp_ln = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:  # noqa: D102
        h = self.attn_ln(x)
        x = x + self.attn(h, h, is_causal=memory is not None)
        if memory is not None:
            x = x + self.cross_attn(self.cross_attn_ln(x), memory)
        return x + self.mlp(self.mlp_ln(x))


class OpenWhisper(nn.Module):
    """encoder.blocks, decoder.blocks; scores from the embedding itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.conv1, self.encoder.conv2 = nn.Conv1d(8, WIDTH, 3, 1, 1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.encoder.blocks = nn.ModuleList(WhisperBlock(is_decoder=False) for _ in range(LAYERS))
        self.encoder.ln_post, self.decoder.ln = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.decoder.token_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.decoder.blocks = nn.ModuleList(WhisperBlock(is_decoder=True) for _ in range(LAYERS))
        self.places, self.token_places = (nn.Parameter(torch.empty(n, WIDTH)) for n in (12, 16))

    def forward(self, sound: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = functional.gelu(self.encoder.conv2(functional.gelu(self.encoder.conv1(sound))))
        x = x.transpose(1, 2) + self.places
        for block in self.encoder.blocks:
            x = block(x)
        memory = self.encoder.ln_post(x)
        x = self.decoder.token_embedding(ids) + self.token_places[: ids.shape[1]]
        for block in self.decoder.blocks:
            x = block(x, memory)
        return self.decoder.ln(x) @ self.decoder.token_embedding.weight.T


def _whisper() -> nn.Module:
    package = transformers()
    config = package.WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER,
        max_source_positions=12, max_target_positions=16, use_cache=False, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    return seeded(package.WhisperForConditionalGeneration(config))


def _places(model: nn.Module, reference: nn.Module) -> None:
    both = reference.get_submodule("model")
    model.places.data.copy_(both.encoder.embed_positions.weight.data)
    model.token_places.data.copy_(both.decoder.embed_positions.weight.data)


_WHISPER = {f"encoder.{one}": f"model.encoder.{one}" for one in ("conv1", "conv2")}
_WHISPER |= {
    "encoder.ln_post": "model.encoder.layer_norm", "decoder.ln": "model.decoder.layer_norm",
    "decoder.token_embedding": "model.decoder.embed_tokens",
}  # fmt: skip
for _side in ("encoder", "decoder"):
    _ours, _theirs = f"{_side}.blocks.{{i}}", f"model.{_side}.layers.{{i}}"
    _WHISPER |= {_ours: _theirs, f"{_ours}.mlp_ln": f"{_theirs}.final_layer_norm"}
    _WHISPER |= {f"{_ours}.mlp.{place}": f"{_theirs}.{name}"
                 for place, name in enumerate(("fc1", "activation_fn", "fc2"))}  # fmt: skip
    for _one, _other in (("attn", "self_attn"), ("cross_attn", "encoder_attn"))[: 1 + (_side == "decoder")]:
        _WHISPER[f"{_ours}.{_one}_ln"] = f"{_theirs}.{_other}_layer_norm"
        _WHISPER |= {f"{_ours}.{_one}.{mine}": f"{_theirs}.{_other}.{yours}" for mine, yours in (
            ("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "out_proj"))}  # fmt: skip

WHISPER = Model(
    "whisper",
    _whisper,
    lambda model: model(input_features=SOUND, decoder_input_ids=TOKENS),
    (Port("openai", OpenWhisper, _WHISPER, fill=_places, run=lambda model: model(SOUND, TOKENS)),),
)

# -- A sequence to sequence network of GRUs ----------------------------------------------------------------------------


class Seq2Seq(nn.Module):
    """The reference, as in the tutorial: an encoder, attention, a decoder called for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.embedding, self.encoder.gru = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.GRU(WIDTH, WIDTH, batch_first=True),
        )
        self.decoder.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.decoder.Wa, self.decoder.Ua, self.decoder.Va = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 1),
        )
        self.decoder.gru = nn.GRUCell(2 * WIDTH, WIDTH)
        self.decoder.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        outputs, state = self.encoder.gru(self.encoder.embedding(ids))
        state, found = state.squeeze(0), []
        for step in range(3):
            scores = self.decoder.Va(torch.tanh(self.decoder.Wa(state)[:, None] + self.decoder.Ua(outputs)))
            context = (functional.softmax(scores, 1) * outputs).sum(1)
            state = self.decoder.gru(torch.cat([self.decoder.embedding(ids[:, step]), context], -1), state)
            found.append(self.decoder.out(state))
        return torch.stack(found, 1)


class Translator(nn.Module):
    """The port: flat names."""

    def __init__(self) -> None:
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.enc_rnn, self.dec_cell = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.GRUCell(2 * WIDTH, WIDTH)
        self.att_query, self.att_keys, self.att_score = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 1),
        )
        self.generator = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        outputs, state = self.enc_rnn(self.src_emb(ids))
        state, found = state[0], []
        for step in range(3):
            scores = self.att_score(torch.tanh(self.att_query(state)[:, None] + self.att_keys(outputs)))
            context = (functional.softmax(scores, 1) * outputs).sum(1)
            state = self.dec_cell(torch.cat([self.tgt_emb(ids[:, step]), context], -1), state)
            found.append(self.generator(state))
        return torch.stack(found, 1)


_SEQ2SEQ = {"src_emb": "encoder.embedding", "enc_rnn": "encoder.gru", "enc_rnn:1": "encoder.gru:1"}
for _call in ("", "@1", "@2"):
    _SEQ2SEQ |= {f"{one}{_call}": f"decoder.{other}{_call}" for one, other in (
        ("tgt_emb", "embedding"), ("att_query", "Wa"), ("att_keys", "Ua"), ("att_score", "Va"), ("dec_cell", "gru"),
        ("generator", "out"))}  # fmt: skip

SEQ2SEQ = Model(
    "seq2seq",
    lambda: seeded(Seq2Seq()),
    lambda model: model(TOKENS),
    (Port("flat", Translator, _SEQ2SEQ, has_equal_blocks=False),),
)

# -- DLRM --------------------------------------------------------------------------------------------------------------

_BAGS, _DENSE = 3, images(2, 13)


class DLRM(nn.Module):
    """The reference: emb_l, bot_l, top_l."""

    def __init__(self) -> None:
        super().__init__()
        self.emb_l = nn.ModuleList(nn.Embedding(VOCABULARY, 8) for _ in range(_BAGS))
        self.bot_l = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top_l = nn.Sequential(
            nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid()
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        bottom = self.bot_l(dense)
        return self.top_l(_interacting(bottom, [bag(ids[:, place]) for place, bag in enumerate(self.emb_l)]))


def _interacting(bottom: torch.Tensor, bags: list[torch.Tensor]) -> torch.Tensor:
    every = torch.stack([bottom, *bags], 1)
    rows, columns = torch.tril_indices(every.shape[1], every.shape[1], -1)
    return torch.cat([bottom, (every @ every.transpose(1, 2))[:, rows, columns]], 1)


class Recommender(nn.Module):
    """The port: deep_layer, cat_tables, over_layer, activations as one module."""

    def __init__(self) -> None:
        super().__init__()
        self.dense_fc1, self.dense_fc2 = nn.Linear(13, 16), nn.Linear(16, 8)
        self.table_0, self.table_1, self.table_2 = (nn.Embedding(VOCABULARY, 8) for _ in range(_BAGS))
        self.over_fc1, self.over_fc2, self.over_fc3 = nn.Linear(14, 16), nn.Linear(16, 16), nn.Linear(16, 1)
        self.relu, self.prob = nn.ReLU(), nn.Sigmoid()

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        bags = [self.get_submodule(f"table_{place}")(ids[:, place]) for place in range(_BAGS)]
        x = _interacting(self.relu(self.dense_fc2(self.relu(self.dense_fc1(dense)))), bags)
        return self.prob(self.over_fc3(self.relu(self.over_fc2(self.relu(self.over_fc1(x))))))


_DLRM = {
    "table_{i}": "emb_l.{i}", "dense_fc1": "bot_l.0", "relu": "bot_l.1", "dense_fc2": "bot_l.2", "relu@1": "bot_l.3",
    "over_fc1": "top_l.0", "relu@2": "top_l.1", "over_fc2": "top_l.2", "relu@3": "top_l.3", "over_fc3": "top_l.4",
    "prob": "top_l.5",
}  # fmt: skip

DLRM_MODEL = Model(
    "dlrm",
    lambda: seeded(DLRM()),
    lambda model: model(_DENSE, TOKENS[:, :_BAGS]),
    (Port("flat", Recommender, _DLRM, has_equal_blocks=False),),
    export=(_DENSE, TOKENS[:, :_BAGS]),
)
