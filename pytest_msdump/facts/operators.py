"""Operators of compiled Ascend models that are special when dumps are compared, and a sentence for each case.

Sources: the vendor's user guide, "Vector Comparison: Restrictions" and "Generating Dump Data" (which operators never
dump); the attributes and names that ATC writes into a model's JSON and AMCT into its rule JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "AIPP_TYPES",
    "CARRIER_TYPES",
    "COLLECTIVE_FRAGMENTS",
    "DEQUANT_ENDINGS",
    "DEQUANT_FRAGMENTS",
    "DEQUANT_TYPES",
    "FLOAT_DTYPES",
    "QUANTISED_DTYPES",
    "QUANT_FRAGMENTS",
    "QUANT_TYPES",
    "REASONS",
    "RESHAPING_TYPES",
    "SURE_QUANTISED_FRAGMENTS",
    "UNDUMPED_TYPES",
    "VIEW_TYPES",
    "WRITTEN_INPUTS",
]

# They carry a tensor on in another data type or memory format: who wants the values looks at what feeds them.
CARRIER_TYPES = frozenset({"Cast", "TransData"})

# Image preprocessing on the device. What goes in is not what the original model was given.
AIPP_TYPES = frozenset({"Aipp"})

# The guide names strided slices as operators around which the compiler changes the structure of the graph.
RESHAPING_TYPES = frozenset({"StridedSlice", "StridedSliceD", "StridedSliceRead", "StridedSliceWrite"})

# Operator type → key of REASONS. Not executed on AI Core or AI CPU, or without a result: no dump is to be expected.
UNDUMPED_TYPES: Mapping[str, str] = {
    "Data": "data",
    "AippData": "data",
    "AnnData": "data",
    "RefData": "data",
    "Const": "const",
    "Constant": "const",
    "ConstPlaceHolder": "const",
    "Variable": "const",
    "StreamActive": "no_result",
    "StreamSwitch": "no_result",
    "StreamSwitchN": "no_result",
    "StreamMerge": "no_result",
    "Send": "no_result",
    "SendMem": "no_result",
    "Recv": "no_result",
    "RecvMem": "no_result",
    "LabelSet": "no_result",
    "LabelGoto": "no_result",
    "LabelGotoEx": "no_result",
    "LabelSwitch": "no_result",
    "LabelSwitchByIndex": "no_result",
    "AtomicAddrClean": "no_result",
    "MemSet": "no_result",
    "NoOp": "no_result",
    "NetOutput": "no_result",
    "ConcatD": "not_executed",
    "PhonyConcat": "not_executed",
    "PhonySplit": "not_executed",
}

QUANT_TYPES = frozenset({"AscendQuant", "AscendWeightQuant"})
DEQUANT_TYPES = frozenset({"AscendDequant", "AscendAntiQuant"})

# Parts of operators' names, as AMCT gives them to Caffe, TensorFlow and ONNX models.
QUANT_FRAGMENTS = ("_quant_layer", "/AscendQuant", "/AscendWeightQuant", ".quant", ".weight_quant")
DEQUANT_FRAGMENTS = ("_dequant_layer", "_anti_quant_layer", "/AscendDequant", "/AntiQuant", ".dequant", ".anti_quant")
DEQUANT_ENDINGS = ("_dequant_layer", "AscendDequant", "_dequant")

# The same in names of files. Each is written by AMCT alone; shorter ones (`_quant`) are found in ordinary names too.
SURE_QUANTISED_FRAGMENTS = (
    "_quant_layer",
    "_anti_quant_layer",
    "_dequant_layer",
    "AscendQuant",
    "AscendWeightQuant",
    "AscendDequant",
    "AntiQuant",
)

QUANTISED_DTYPES = frozenset({"DT_INT8", "DT_UINT8", "DT_INT4"})
FLOAT_DTYPES = frozenset({"DT_FLOAT", "DT_FLOAT16", "DT_BF16"})

# `{op}` is an operator, `{rule}` the file that says so, `{slot}` a number, `{group}` the id of a fusion group.
REASONS: Mapping[str, str] = {
    "inserted": "inserted by the compiler: no counterpart in the original model",
    "inner": "inner node of a many-to-many fusion",
    "fused": "fused into {op}: its own output no longer exists in the compiled model",
    "no_origin": "{rule} names no tensor of the original model for this output of {op}",
    "no_slot": "{rule} lists no {io} {slot} of {op}",
    "unconnected": "{rule} says that nothing feeds input {slot} of {op}",
    "unknown_producer": "{rule} has no operator {op}, which is to feed this input",
    "circle": "{rule} leads in a circle of Cast and TransData operators at {op}",
    "strided_slice": "the compiler changed the graph around this strided slice: no counterpart in the original model",
    "l1_fusion": "L1 fusion group {group} works on slices of tensors: only its first and last operator are compared",
    "l2_fusion": "L2 fusion group {group} changed the structure of the graph: no counterpart in the original model",
    "aipp": "AIPP changes the input on the device, so {op} does not hold what the original model was given",
    "quant_output": "output of a quantisation: its numbers are comparable only after they are dequantised",
    "quantised": "between quantisation and dequantisation: its numbers are comparable only after they are dequantised",
    "quantised_input": "fed by a quantised output: its numbers are comparable only after they are dequantised",
    "dequant_input": "input of a dequantisation: its numbers are comparable only after they are dequantised",
    "data": "Data operators are not executed, so they do not dump",
    "const": "constants are not executed, so they do not dump",
    "no_result": "operators of this type write no result, so they do not dump",
    "not_executed": "operators of this type are not executed on AI Core or AI CPU, so they do not dump",
    "right_input": "a rule file pairs inputs of the left side with the outputs that feed them",
}

# Operators that hand their input on under another shape. MindSpore on CPU writes their outputs with the input's shape.
VIEW_TYPES = frozenset({"ExpandDims", "Flatten", "FlattenGrad", "Reshape", "ReshapeView", "Squeeze", "View"})

# Inputs that operators write to, by slot. MindSpore on CPU dumps inputs after the operator ran, so that these hold what
# it made of them.
WRITTEN_INPUTS: Mapping[str, frozenset[int]] = {
    "Adam": frozenset({0, 1, 2}),
    "AdamWeightDecay": frozenset({0, 1, 2}),
    "ApplyAdagrad": frozenset({0, 1}),
    "ApplyAdam": frozenset({0, 1, 2}),
    "ApplyFtrl": frozenset({0, 1, 2}),
    "ApplyGradientDescent": frozenset({0}),
    "ApplyMomentum": frozenset({0, 1}),
    "ApplyRMSProp": frozenset({0, 1, 2}),
    "Assign": frozenset({0}),
    "AssignAdd": frozenset({0}),
    "AssignSub": frozenset({0}),
    "SGD": frozenset({0, 3, 5}),
    "ScatterAdd": frozenset({0}),
    "ScatterUpdate": frozenset({0}),
}

# Operators that take values from other ranks, by parts of their types.
COLLECTIVE_FRAGMENTS = (
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AlltoAll",
    "Broadcast",
    "CollectiveGather",
    "CollectiveScatter",
    "NeighborExchange",
    "Receive",
    "ReduceScatter",
)
