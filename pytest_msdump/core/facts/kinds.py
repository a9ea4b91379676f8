"""What operators and modules compute, in a word that all frameworks share; to find the same step of two runs.

The names are those of PyTorch's and Keras' modules, MindSpore's cells and primitives, ONNX and GE operators.
"""

from __future__ import annotations

from collections.abc import Mapping

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

# A word of a name → the one that frameworks and papers have for the same, beside it.
NAME_WORDS: Mapping[str, str] = {
    alias: word
    for word, aliases in {
        "q": "query queries wq qproj",
        "k": "key keys wk kproj",
        "v": "value values wv vproj",
        "o": "wo oproj",
        "gate": "w1",
        "up": "w3",
        "down": "w2",
        "gamma": "scale",
        "beta": "shift",
        "mean": "mu",
        "var": "variance sigma2",
        "real": "re",
        "imag": "im imaginary",
        "hidden": "h hn hid",
        "cell": "c cn",
        "start": "begin",
        "end": "stop",
        "logit": "logits",
        "attention": "attn att",
        "encoder": "enc",
        "decoder": "dec",
        "embedding": "emb embed embeddings",
        "norm": "layernorm ln rmsnorm batchnorm bn",
        "box": "bbox boxes bboxes",
        "class": "cls classes",
    }.items()
    for alias in aliases.split()
}
