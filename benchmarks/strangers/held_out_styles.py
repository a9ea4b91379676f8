"""More ways of naming, which nothing is tuned on: other schools, other languages, other things in a file's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from .styles import Style, Words

__all__ = ["HELD_OUT_STYLES"]

Change = Callable[[str], str]

_GERMAN = {
    "layers": "schichten", "layer": "schicht", "blocks": "bloecke", "block": "block", "encoder": "kodierer",
    "decoder": "dekodierer", "attention": "aufmerksamkeit", "attn": "aufmerksamkeit", "self": "selbst",
    "query": "abfrage",
    "q": "abfrage", "key": "schluessel", "k": "schluessel", "value": "wert", "v": "wert", "conv": "faltung",
    "norm": "normierung", "ln": "normierung", "bn": "normierung", "fc": "dicht", "linear": "linear", "dense": "dicht",
    "out": "ausgang", "output": "ausgang", "proj": "projektion", "embedding": "einbettung", "embed": "einbettung",
    "act": "aktivierung", "head": "kopf", "down": "runter", "up": "hoch", "pool": "buendelung", "features": "merkmale",
    "classifier": "klassifikator", "mlp": "netz", "cross": "kreuz", "stages": "stufen", "expand": "ausdehnen",
}  # fmt: skip
_PINYIN = {
    "layers": "ceng", "layer": "ceng", "blocks": "kuai", "block": "kuai", "encoder": "bianmaqi", "decoder": "jiemaqi",
    "attention": "zhuyili", "attn": "zhuyili", "self": "zi", "query": "chaxun", "q": "chaxun", "key": "jian",
    "k": "jian",
    "value": "zhi", "v": "zhi", "conv": "juanji", "norm": "guiyi", "ln": "guiyi", "bn": "guiyi", "fc": "quanlianjie",
    "linear": "quanlianjie", "dense": "quanlianjie", "out": "shuchu", "output": "shuchu", "proj": "touying",
    "embedding": "qianru", "embed": "qianru", "act": "jihuo", "head": "tou", "down": "xia", "up": "shang",
    "pool": "chihua", "features": "tezheng", "classifier": "fenlei", "mlp": "qiankui", "cross": "jiaocha",
}  # fmt: skip
_GGUF = {
    "layers": "blk", "layer": "blk", "blocks": "blk", "block": "blk", "h": "blk", "attention": "attn",
    "self_attn": "attn",
    "q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "output", "query": "q", "key": "k", "value": "v", "wq": "q",
    "wk": "k", "wv": "v", "wo": "output", "mlp": "ffn", "feed_forward": "ffn", "gate_proj": "gate", "up_proj": "up",
    "down_proj": "down", "fc1": "up", "fc2": "down", "norm1": "attn_norm", "norm2": "ffn_norm",
    "embed_tokens": "token_embd",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "lm_head": "output",
    "embedding": "token_embd",
}  # fmt: skip
_MEGATRON = {
    "attention": "self_attention", "attn": "self_attention", "self_attn": "self_attention", "blocks": "layers",
    "block": "layers", "h": "layers", "fc1": "dense_h_to_4h", "fc2": "dense_4h_to_h", "up_proj": "dense_h_to_4h",
    "down_proj": "dense_4h_to_h", "o_proj": "dense", "out_proj": "dense", "norm1": "input_layernorm",
    "qkv": "query_key_value",
    "norm2": "post_attention_layernorm", "ln_1": "input_layernorm", "ln_2": "post_attention_layernorm",
}  # fmt: skip


def _in_words(table: Mapping[str, str], path: str) -> str:
    """Write each word of a path in another language; numbers behind a word stay."""
    return re.sub(r"[A-Za-z]+", lambda match: table.get(match[0].lower(), match[0]), path)


def _by_part(table: Mapping[str, str], path: str) -> str:
    return ".".join(table.get(part, part) for part in path.split("."))


def _short(path: str) -> str:
    """Leave out the vowels of long words: ``encdr``, ``lyrs``, ``attntn``."""
    return re.sub(r"[A-Za-z]{4,}", lambda match: match[0][0] + re.sub("[aeiou]", "", match[0][1:]), path)


def _first_letters(path: str) -> str:
    """``layers.0.self_attn`` to ``lay0_sel_att``."""
    return re.sub(r"[._](?=\d)", "", re.sub(r"[A-Za-z]+", lambda match: match[0][:3], path)).replace(".", "_")


def _hungarian(path: str) -> str:
    return "m_p" + "".join(part[:1].upper() + part[1:] for part in re.split(r"[._]", path))


def _from_one(path: str) -> str:
    """Count from 1: ``layers.0`` to ``layer_1``."""
    return re.sub(r"s?\.(\d+)", lambda match: f"_{int(match[1]) + 1}", path).replace(".", "/")


def _tf(path: str) -> str:
    return re.sub(r"(?:s|)\.(\d+)", r"_\1", path).replace(".", "/")


def _padded(path: str) -> str:
    return re.sub(r"\d+", lambda match: f"{int(match[0]):02}", path).replace(".", "_")


def _gguf(path: str) -> str:
    """``layers.0.self_attn.q_proj`` to ``blk.0.attn_q``."""
    return re.sub(r"(?<=\w)\.(?=[a-z])", "_", _by_part(_GGUF, path)).replace("blk_", "blk.")


def _file(form: str, change: Change = lambda path: path) -> Callable[[Words], str]:
    """Return what writes a name; ``further`` of the form is the number of a later call or output."""

    def file_of(words: Words) -> str:
        further = (f"_{words.call}" if words.call else "") + (f"_out{words.slot}" if words.slot else "")
        return form.format(change(words.path), further=further, **words._asdict())

    return file_of


_TABLE = (
    Style("hungarian", _file("{}{further}.npy", _hungarian)),
    Style("vowels", _file("{}{further}.npy", lambda path: _short(path).replace(".", "_"))),
    Style("letters", _file("{}{further}.npy", _first_letters)),
    Style("gguf", _file("{}{further}.npy", _gguf)),
    Style("tf", _file("{}{further}.npy", _tf), "gradients/{}"),
    Style("from_one", _file("{}{further}.npy", _from_one)),
    Style("megatron", _file("language_model.{}{further}.npy", partial(_by_part, _MEGATRON))),
    Style("german", _file("{}{further}.npy", lambda path: _in_words(_GERMAN, path).replace(".", "_"))),
    Style("pinyin", _file("{}{further}.npy", lambda path: _in_words(_PINYIN, path).replace(".", "_"))),
    Style("padded", _file("{}{further}.npy", _padded)),
    Style("numbered", _file("{order:03}-{}.npy")),
    Style("forward", _file("forward_{}_output{slot}_call{call}.npy")),
    Style("hook", _file("hook_{}{further}.pt", lambda path: path.replace(".", "_"))),
    Style("step", _file("iter0_rank0_{order}_{}.npy")),
    Style("dated", _file("20260114-093012_{}{further}.npy")),
    Style("upper", _file("{}{further}.npy", lambda path: path.replace(".", "_").upper())),
    Style("typed", _file("{}.{dtype}{further}.npy")),
    Style("together", _file("{order:04}{}.npy", lambda path: re.sub(r"[._]", "", path)), share=1),
    Style("archive", _file("{}{further}", lambda path: path.replace(".", "/")), archive="acts.npz", share=1),
)
HELD_OUT_STYLES = {style.name: style for style in _TABLE}
