"""What kind of operator, or which weight, a type or a name speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pytest_msdump.core.facts.operators import NEUTRAL_WEIGHT_NAMES, WEIGHT_ENDINGS, WEIGHT_STATES
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.tensor import OpKey

# What operators and modules compute, in a word that all frameworks share; to find the same step of two runs.
#
# The names are those of PyTorch's and Keras' modules, MindSpore's cells and primitives, ONNX and GE operators.

# Kind → types, lower case, without dimensions and versions (`Conv2d`, `BatchNormV2`).
KINDS: Mapping[str, str] = {
    name: kind
    for kind, names in {
        "convolution": "conv convolution depthwiseconv depthwiseconvnative separableconv fusedconv quantconv",
        "transposed convolution": "convtranspose conv_transpose deconvolution conv1dtranspose conv2dtranspose "
        "conv3dtranspose",
        "bias": "biasadd",
        "linear": "linear dense gemm matmul batchmatmul addmm fullyconnection fullyconnected innerproduct fc",
        "batch norm": "batchnorm batchnormalization syncbatchnorm fusedbatchnorm batchnorminfer bninfer bn",
        "layer norm": "layernorm layernormalization rmsnorm rmsnormalization llamarmsnorm ln",
        "group norm": "groupnorm groupnormalization instancenorm instancenormalization",
        "pooling": "maxpool avgpool averagepool adaptiveavgpool adaptivemaxpool globalaveragepool globalmaxpool "
        "globalavgpooling maxpooling averagepooling globalaveragepooling globalmaxpooling reducemean mean pool pooling",
        "activation": "relu leakyrelu prelu elu selu celu gelu fastgelu newgelu newgeluactivation quickgelu silu swish "
        "mish hardswish hswish hardsigmoid hsigmoid sigmoid tanh softplus softsign clip activation act",
        "softmax": "softmax logsoftmax",
        "embedding": "embedding embeddinglookup",
        "attention": "multiheadattention attention scaleddotproductattention flashattentionscore",
        "recurrent": "lstm gru rnn dynamicrnn",
        "add": "add addn tensoradd addv",
        "multiply": "mul multiply",
        "concatenation": "concat concatd concatenate cat",
        "loss": "softmaxcrossentropywithlogits sparsesoftmaxcrossentropywithlogits crossentropyloss mseloss loss",
        # What they give out was there before, perhaps under another shape.
        "passing": "identity dropout alphadropout spatialdropout droppath stochasticdepth flatten reshape view "
        "reshapeview squeeze unsqueeze expanddims unflatten inputlayer cast transdata",
        "moving": "transpose permute",
        "padding": "pad zeropad zeropadding constantpad reflectionpad replicationpad",
        "resizing": "upsample upsampling resize interpolate resizebilinear resizenearestneighbor",
        "constant": "constant const data parameter constantofshape shape range",
    }.items()
    for name in names.split()
}

# Kind → the kind of an operator behind it that belongs to it, since other frameworks do both in one.
FINISHED_BY: Mapping[str, str] = {"convolution": "bias", "transposed convolution": "bias", "linear": "bias"}
# Kind → the kind of an operator behind it that an export or a compiler may have folded into its weights.
FOLDED_INTO: Mapping[str, str] = {"convolution": "batch norm", "transposed convolution": "batch norm"}

_WORDS = re.compile(r"[a-z]+")
# Dimensions and versions: `Conv2d`, `BatchNormV2`.
_SIZE_OR_VERSION = re.compile(r"(?:[1-5]d|v\d{1,2}|\d{1,3})$")
# Types that say nothing as a part of a name.
_NO_NAMES = frozenset({"data", "shape", "range", "mean"})

# Keras' own: their axes are in another order, which the shape of a square one does not show.
_OTHER_AXES = frozenset({"kernel", "depthwise_kernel", "embeddings"})
_NEUTRAL = {own: name for own, name in NEUTRAL_WEIGHT_NAMES.items() if own not in _OTHER_AXES}
_ANY_STATE = "|".join(sorted(WEIGHT_STATES, key=len, reverse=True))
_STATE_BEFORE = re.compile(rf"(?:state_)?(?:(?P<state>{_ANY_STATE})_)?(?P<name>.+)", re.DOTALL)
_STATE_BEHIND = re.compile(rf"(?:state_)?(?P<name>.+?)(?:_state)?_(?P<state>{_ANY_STATE})", re.DOTALL)
_ENDING = re.compile(rf"(?P<stem>|.*_)(?P<ending>{'|'.join((*NEUTRAL_WEIGHT_NAMES, *WEIGHT_ENDINGS))})", re.DOTALL)
# Modules around the model that frameworks add: cells of training, parallel and compiled modules.
WRAPPERS = frozenset({"network", "_network", "_backbone", "_net", "module", "_orig_mod"})
_WRAPPED = re.compile(rf"(?:(?:{'|'.join(sorted(WRAPPERS))})[./])+")
# Between digits an underscore separates numbers: layer1_0 is not layer10.
_LINKING = re.compile(r"(?<![0-9])_|_(?![0-9])")


def kind_of(op_type: str | None, name: str = "") -> str:
    """Return the kind of an operator type, or without one of a name; empty for what is not known.

    >>> kind_of("Conv2d"), kind_of("AdaptiveAvgPool2d"), kind_of("BasicBlock"), kind_of(None, "relu1")
    ('convolution', 'pooling', '', 'activation')
    """
    if not op_type:
        return kind_of_name(name)
    word = op_type.lower()
    while word not in KINDS:
        shorter = _SIZE_OR_VERSION.sub("", word)
        if shorter == word:
            return ""
        word = shorter
    return KINDS[word]


def kind_of_name(name: str) -> str:
    """Return the kind that the last part of a name speaks of; empty where it does not.

    >>> kind_of_name("block.relu1"), kind_of_name("fc2"), kind_of_name("layer1.0")
    ('activation', 'linear', '')
    """
    words = _WORDS.findall(re.split(r"[./]", name)[-1].lower())
    return next((KINDS[word] for word in reversed(words) if word in KINDS and word not in _NO_NAMES), "")


def spelling_of_name(name: str) -> str:
    """Write a name so that its spellings in different frameworks agree: ``down_sample``, ``downsample``."""
    return _LINKING.sub("", name.lower()) or name


class WeightName(NamedTuple):
    """What a tensor of a training step is called in every framework: the weight's name, and what of it this is."""

    weight: str
    state: str


@lru_cache(maxsize=2**14)
def weight_name(name: str) -> WeightName | None:
    """Return what weight a name speaks of, and what of it; ``None`` where it does not end as names of weights do.

    >>> weight_name("moments.bn1.gamma") == weight_name("bn1.weight.momentum_buffer")
    True
    >>> weight_name("bn1_moving_mean"), weight_name("layer1.0.fc1")
    (WeightName(weight='bn1runningmean', state=''), None)
    """
    plain = re.sub(r"[./]", "_", name[match.end() :] if (match := _WRAPPED.match(name)) else name)
    state = ""
    for pattern in (_STATE_BEHIND, _STATE_BEFORE):
        if (match := pattern.fullmatch(plain)) is not None and not state:
            plain, state = match["name"], WEIGHT_STATES.get(match["state"] or "", "")
    match = _ENDING.fullmatch(plain)
    if match is None:
        return None
    whole = match["stem"] + _NEUTRAL.get(match["ending"], match["ending"])
    return WeightName(spelling_of_name(whole), state)


def is_weight(key: OpKey) -> bool:
    """Whether a tensor is a weight, or its gradient or state: no module, so that none is around it.

    >>> is_weight(OpKey("fc.bias")), is_weight(OpKey("fc.0")), is_weight(OpKey("fc.bias", op_type="Linear"))
    (True, False, False)
    """
    return key.op_type == PARAMETER or (not key.op_type and weight_name(key.label) is not None)
