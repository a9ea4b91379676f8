"""How people name the files that their hooks write: a table of functions from a saved tensor to a file's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["STYLES", "Style", "Words"]


class Words(NamedTuple):
    """What a hook has to make a name of.

    `path` has dots, `kind` is ``"output"``, ``"gradient"``, ``"parameter"`` or ``"state"``; `order` counts the files of
    a folder from 0, `time` is in µs since 1970, `dtype` as numpy has it.
    """

    path: str
    slot: int
    call: int
    kind: str
    order: int
    time: int
    dtype: str


class Style(NamedTuple):
    """One way of naming.

    Parameters
    ----------
    name : str
        Key of `STYLES`.
    file_of : callable
        Words to a file's name, with ``/`` for folders; or to the key in the one `archive`.
    gradient : str
        How gradients are called, ``{}`` for the parameter's name.
    archive : str
        The one file that holds everything; empty where each tensor has its file.
    share : int
        How often it is drawn, beside the others.
    """

    name: str
    file_of: Callable[[Words], str]
    gradient: str = "grad_{}"
    archive: str = ""
    share: int = 2

    @property
    def is_torch(self) -> bool:
        """Whether torch.save writes it."""
        return (self.archive or self.file_of(Words("a", 0, 0, "output", 0, 0, "f4"))).endswith(".pt")

    def file(self, words: Words) -> str:
        """Return the name of a tensor's file, or its key in the archive."""
        return self.file_of(words._replace(path=self._called(words)))

    def _called(self, words: Words) -> str:
        return self.gradient.format(words.path) if words.kind == "gradient" else words.path


def _stamped(change: Callable[[str], str]) -> Callable[[Words], str]:
    """Name files ``NAME.SLOT.TIME.npy``."""
    return lambda words: f"{change(words.path)}.{words.slot}.{words.time}.npy"


def _plain(change: Callable[[str], str], suffix: str = ".npy") -> Callable[[Words], str]:
    """Name files ``NAME.npy``, later outputs and calls with a number behind the name."""
    return lambda words: f"{change(words.path)}{_further(words)}{suffix}"


def _counted(form: str, change: Callable[[str], str]) -> Callable[[Words], str]:
    """Name files by a counter and the name; `form` has both."""
    return lambda words: form.format(words.order, change(words.path) + (f"_{words.slot}" if words.slot else ""))


def _further(words: Words) -> str:
    return (f"_{words.call}" if words.call else "") + (f".{words.slot}" if words.slot else "")


def _same(path: str) -> str:
    return path


def _underscored(path: str) -> str:
    return path.replace(".", "_")


def _camel(path: str) -> str:
    """``layer1.down_sample`` to ``layer1.downSample``."""
    return re.sub(r"(?<=[a-z0-9])_([a-z])", lambda match: match[1].upper(), path)


def _pascal(path: str) -> str:
    """``layers.0.self_attn`` to ``Layers0SelfAttn``."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[._]", path))


def _singular(path: str) -> str:
    """``layers.0.fc`` to ``layer0_fc``."""
    return _underscored(re.sub(r"([a-z]+?)s?\.(\d+)", r"\1\2", path))


def _plural(path: str) -> str:
    """``layer1.0.conv`` to ``layers1.0.conv``, ``block.0`` to ``blocks.0``."""
    return re.sub(r"\b(layer|block|stage|expert|head|encoder)(?=\d*\b)", r"\1s", path)


def _last_two(path: str) -> str:
    """``model.layers.0.self_attn.q_proj`` to ``self_attn_q_proj``: the counter says the rest."""
    return "_".join(path.split(".")[-2:])


# A word of a path to another that people use for the same thing.
_SYNONYMS = {
    "ln1": "norm1", "ln2": "norm2", "ln_1": "ln1", "ln_2": "ln2", "norm1": "ln1", "norm2": "ln2",
    "input_layernorm": "norm1", "post_attention_layernorm": "norm2", "attention_norm": "ln1", "ffn_norm": "ln2",
    "fc": "dense", "fc1": "linear1", "fc2": "linear2", "dense": "fc", "proj": "out", "classifier": "head",
    "attn": "attention", "attention": "attn", "self_attn": "attention", "self": "self_attn",
    "o_proj": "wo", "wo": "out_proj", "out_proj": "o_proj", "q_proj": "wq", "k_proj": "wk", "v_proj": "wv",
    "wq": "q_proj", "wk": "k_proj", "wv": "v_proj", "query": "q", "key": "k", "value": "v",
    "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2", "w1": "gate", "w2": "down", "w3": "up", "w13": "gate_up",
    "act": "gelu", "act_fn": "silu", "relu": "act", "bn": "BatchNorm", "bn1": "BatchNorm1", "bn2": "BatchNorm2",
    "embed_tokens": "embed", "wte": "tok_embeddings", "wpe": "pos_embed", "tok_embeddings": "embed", "ln_f": "norm",
    "lm_head": "output", "output": "lm_head", "head": "lm_head", "downsample": "shortcut", "h": "layers",
    "layers": "blocks", "blocks": "layers", "mlp": "ffn", "feed_forward": "mlp", "c_fc": "fc1", "c_proj": "proj",
}  # fmt: skip


def _synonyms(path: str) -> str:
    return ".".join(_SYNONYMS.get(word, word) for word in path.split("."))


_TABLE = (
    # NAME.SLOT.TIME.npy
    Style("dots", _stamped(_same), "{}.grad", share=4),
    Style("underscored", _stamped(_underscored), share=6),
    Style("model_dots", _stamped("model.{}".format), "{}.grad"),
    Style("module_dots", _stamped("module.{}".format), "d_{}"),
    Style("network", _stamped(lambda path: f"network_{_underscored(path)}")),
    Style("default", _stamped(lambda path: f"Default_{_underscored(path)}")),
    Style("camel", _stamped(_camel), "{}Grad"),
    Style("singular", _stamped(_singular), "d_{}", share=3),
    Style("plural", _stamped(_plural), "{}.grad"),
    Style("synonyms", _stamped(lambda path: _underscored(_synonyms(path))), share=3),
    # NAME.npy
    Style("bare", _plain(_same), "{}.grad", share=3),
    Style("bare_underscored", _plain(_underscored)),
    Style("dashes", _plain(lambda path: path.replace(".", "-")), "grad-{}"),
    Style("pascal", _plain(_pascal), "Grad.{}"),
    Style("output", _plain(_same, "_output.npy"), "{}_grad"),
    Style("folders", _plain(lambda path: path.replace(".", "/")), "{}.grad"),
    # Counters
    Style("counter", _counted("{:03}_{}.npy", _same), "{}.grad", share=3),
    Style("tag", _counted("{:05}__{}.npy", _underscored)),
    Style("counter_last", _counted("{:04}_{}.npy", _last_two)),
    Style("tensordump", lambda words: f"{_underscored(words.path)}_{words.dtype}_{words.order}.npy"),
    # torch.save, numpy.savez
    Style("pt", _plain(_same, ".pt"), "{}.grad"),
    Style("pt_counter", _counted("{:03}_{}.pt", _underscored)),
    Style("pt_dict", _plain(_same, ""), "{}.grad", archive="activations.pt", share=1),
    Style("npz", _plain(_underscored, ""), archive="activations.npz", share=1),
)
STYLES = {style.name: style for style in _TABLE}
