"""Operators of compiled Ascend models that are special when dumps are compared, and a sentence for each case.

Sources: the vendor's user guide, "Vector Comparison: Restrictions" and "Generating Dump Data" (which operators never
dump); the attributes and names that ATC writes into a model's JSON and AMCT into its rule JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

# What Keras and MindSpore call a layer's weights → what PyTorch does; each name means nothing else anywhere.
NEUTRAL_WEIGHT_NAMES: Mapping[str, str] = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
    "embeddings": "weight",
    "kernel": "weight",
    "depthwise_kernel": "weight",
}

# How names of PyTorch's weights end, after `.` or `_`; those above are these once they are neutral.
WEIGHT_ENDINGS = (
    *("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "weight_g", "weight_v"),
    *("alpha", "scale", "bias_table", "token", "pos_embed"),
)

# What is kept beside each weight in a training step → one word for it: before a name in MindSpore (`moments.fc.bias`),
# behind it in PyTorch (`fc.bias.momentum_buffer`), on either side in hooks of one's own (`grad_fc_bias`).
WEIGHT_STATES: Mapping[str, str] = {
    spelled: state
    for state, spellings in {
        "gradient": "grad grads gradient gradients",
        "momentum": "moments momentum_buffer accum accumulation velocity",
        "first moment": "moment1 adam_m exp_avg",
        "second moment": "moment2 adam_v exp_avg_sq",
        "largest second moment": "vhat max_exp_avg_sq",
        "mean square": "mean_square square_avg",
    }.items()
    for spelled in spellings.split()
}

# No weights: they count batches or seed a generator, and the other side need not have them.
COUNTERS = frozenset({"num_batches_tracked", "seed_generator_state"})

# They pass a tensor on in another data type or memory format; its values are those of what feeds them.
CARRIER_TYPES = frozenset({"Cast", "TransData"})

# Image preprocessing on the device. What goes in is not what the original model was given.
AIPP_TYPES = frozenset({"Aipp"})

# The guide names strided slices as operators around which the compiler changes the structure of the graph.
RESHAPING_TYPES = frozenset({"StridedSlice", "StridedSliceD", "StridedSliceRead", "StridedSliceWrite"})

# Operator type → code of the reason (`core.text`) why no dump is to be expected: not executed on AI Core or AI CPU, or
# without a result.
_WITHOUT_RESULT = (
    "StreamActive StreamSwitch StreamSwitchN StreamMerge Send SendMem Recv RecvMem LabelSet LabelGoto LabelGotoEx "
    "LabelSwitch LabelSwitchByIndex AtomicAddrClean MemSet NoOp NetOutput"
)
UNDUMPED_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("Data", "AippData", "AnnData", "RefData"), "data"),
    **dict.fromkeys(("Const", "Constant", "ConstPlaceHolder", "Variable"), "const"),
    **dict.fromkeys(_WITHOUT_RESULT.split(), "no_result"),
    **dict.fromkeys(("ConcatD", "PhonyConcat", "PhonySplit"), "not_executed"),
}

QUANT_TYPES = frozenset({"AscendQuant", "AscendWeightQuant"})
DEQUANT_TYPES = frozenset({"AscendDequant", "AscendAntiQuant"})

# Parts of operators' names, as AMCT gives them to Caffe, TensorFlow and ONNX models.
QUANT_FRAGMENTS = ("_quant_layer", "/AscendQuant", "/AscendWeightQuant", ".quant", ".weight_quant")
DEQUANT_FRAGMENTS = ("_dequant_layer", "_anti_quant_layer", "/AscendDequant", "/AntiQuant", ".dequant", ".anti_quant")
DEQUANT_ENDINGS = ("_dequant_layer", "AscendDequant", "_dequant")

# The same in names of files. Each is written by AMCT alone; shorter ones (`_quant`) are found in ordinary names too.
_LAYERS = ("_quant_layer", "_anti_quant_layer", "_dequant_layer")
SURE_QUANTISED_FRAGMENTS = (*_LAYERS, "AscendQuant", "AscendWeightQuant", "AscendDequant", "AntiQuant")

QUANTISED_DTYPES = frozenset({"DT_INT8", "DT_UINT8", "DT_INT4"})
FLOAT_DTYPES = frozenset({"DT_FLOAT", "DT_FLOAT16", "DT_BF16"})

# Operators that hand their input on under another shape. MindSpore on CPU writes their outputs with the input's shape.
VIEW_TYPES = frozenset({"ExpandDims", "Flatten", "FlattenGrad", "Reshape", "ReshapeView", "Squeeze", "View"})

# Operators and modules that give out what they were given, in evaluation at least, perhaps under another shape. They
# are compared where both sides have them.
PASSING_TYPES = VIEW_TYPES | frozenset(
    {
        *("Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"),
        *("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "DropPath", "StochasticDepth", "Unflatten"),
        *("InputLayer",),
    }
)

# Classes of MindSpore's cells → the operators that end them. What follows one of these is not in the cell, also where
# its name does not say where it belongs.
_ACTIVATIONS = "ReLU ReLU6 GELU Sigmoid Tanh HSwish HSigmoid SiLU ELU LeakyReLU Softmax LogSoftmax"
LAST_OPERATORS: Mapping[str, frozenset[str]] = {
    "Dense": frozenset({"BiasAdd", "Add", "Reshape"}),
    "Embedding": frozenset({"Gather", "Reshape"}),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), frozenset({"BiasAdd"})),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), frozenset({"BatchNorm"})),
    "LayerNorm": frozenset({"LayerNorm"}),
    "MaxPool2d": frozenset({"MaxPool"}),
    "AvgPool2d": frozenset({"AvgPool"}),
    "Flatten": frozenset({"Flatten"}),
    **{name: frozenset({name}) for name in _ACTIVATIONS.split()},
}

# Inputs that operators write to, by slot. MindSpore on CPU dumps inputs after the operator ran, so that these hold what
# it made of them.
WRITTEN_INPUTS: Mapping[str, frozenset[int]] = {
    **dict.fromkeys(("Assign", "AssignAdd", "AssignSub", "ScatterAdd", "ScatterUpdate"), frozenset({0})),
    "ApplyGradientDescent": frozenset({0}),
    **dict.fromkeys(("ApplyAdagrad", "ApplyMomentum"), frozenset({0, 1})),
    **dict.fromkeys(("Adam", "AdamWeightDecay", "ApplyAdam", "ApplyFtrl", "ApplyRMSProp"), frozenset({0, 1, 2})),
    "SGD": frozenset({0, 3, 5}),
}

# Types of operators that draw random numbers, without what stands before a dot (``aten.rand_like``): a pattern.
RANDOM_TYPES = (
    r"\w*drop_?(out|path)\w*|stochastic_?depth|rand\w*|\w*bernoulli\w*|multinomial\w*|poisson|gamma|rrelu\w*|"
    r"(standard|(parameterized_?)?truncated|log)?_?normal_?|\w*uniform\w*|gaussian_?(noise|dropout)|exponential_"
)

# Operators that take values from other ranks, by parts of their types: MindSpore's, then PyTorch's. What an optimizer
# leaves is made of gradients that ranks have averaged.
COLLECTIVE_FRAGMENTS = (
    *("AllGather", "AllReduce", "AllToAll", "AlltoAll", "Broadcast", "CollectiveGather", "CollectiveScatter"),
    *("NeighborExchange", "Receive", "ReduceScatter"),
    *("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "allgather_", "allreduce_", "alltoall_"),
    *("SyncBatchNorm", "Optimizer"),
)

# Operator types that change weights begin so, in lower case.
OPTIMIZERS = ("apply", "sparseapply", "fusedapply", "adam", "fusedadam", "fusedweightapply", "lamb", "sgd")
