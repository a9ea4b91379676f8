"""Numbers in the header of an Ascend dump file: fields of its messages, data types, memory formats, tags.

References
----------
Message `DumpData` of the protobuf package `toolkit.dumpdata` (proto3), as the vendor's comparison tools of 2022 to 2026
(msprobe, mindstudio-probe 26.2.0) read it; the numbers 26 to 40 of the data types are those of its newest schema. The
nano container and the numbering of the graph engine's own data types: the same tools.
"""

from __future__ import annotations

from typing import NamedTuple

# Fields by number; what is not listed here is skipped.
DUMP_DATA = {1: "version", 2: "dump_time", 3: "output", 4: "input", 5: "buffer", 6: "op_name", 7: "attr", 8: "space"}
_OF_TENSORS = {1: "data_type", 2: "format", 3: "shape"}
_BEHIND_SHAPE = ("data", "size", "original_shape", "sub_format", "address")
OP_OUTPUT = {**_OF_TENSORS, **dict(enumerate(_BEHIND_SHAPE, 5))}
OP_INPUT = {**_OF_TENSORS, **dict(enumerate(_BEHIND_SHAPE, 4))}
# Buffers and workspaces: bytes without a shape.
OP_UNTYPED = {2: "data", 3: "size"}
OP_ATTR = {1: "name", 2: "value"}
SHAPE = {1: "dim"}

NANO_MAGIC = 0x5A5A5A5A
NANO_TAGS = {4: "input", 5: "output"}


class DataType(NamedTuple):
    """The vendor's name, and the name of `facts.dtypes`; quantised integers are the integers they are stored as."""

    label: str
    dtype: str


# The tables of labels and formats have ten names to a line where they fit, numbered from 0.
_LABELS = """
    UNDEFINED FLOAT FLOAT16 INT8 UINT8 INT16 UINT16 INT32 INT64 UINT32
    UINT64 BOOL DOUBLE STRING DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 COMPLEX128 QINT8 QINT16
    QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 INT4 UINT1
    INT2 UINT2 COMPLEX32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT6_E3M2 FLOAT6_E2M3 FLOAT4_E2M1
    FLOAT4_E1M2
"""
_OTHERWISE = {"FLOAT": "float32", "DOUBLE": "float64", "BF16": "bfloat16"}
DATA_TYPES: dict[int, DataType] = {
    number: DataType(label, _OTHERWISE.get(label, label.lower().removeprefix("q")))
    for number, label in enumerate(_LABELS.split())
}

_BY_LABEL = {kind.label: kind for kind in DATA_TYPES.values()}

# The graph engine counts differently, from 0 in this order and without a 5; its numbers stand in nano dumps and in
# model JSON.
_GE_LABELS = """
    FLOAT FLOAT16 INT8 INT32 UINT8 - INT16 UINT16 UINT32 INT64
    UINT64 DOUBLE BOOL STRING DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 COMPLEX128 QINT8 QINT16
    QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 UNDEFINED INT4
    UINT1 INT2 UINT2
"""
GE_DATA_TYPES: dict[int, DataType] = {
    number: _BY_LABEL[label] for number, label in enumerate(_GE_LABELS.split()) if label != "-"
}

# Types whose bytes are not numbers, and why.
NOT_NUMBERS = {
    "undefined": "the dump does not say what its bytes are",
    "string": "it holds text",
    "string_ref": "it refers to text",
    "resource": "it is a handle of the runtime, different in every run",
    "variant": "it is an object of the runtime",
    "dual": "it holds two tensors of different types in one",
    "dual_sub_int8": "it is half of a pair of tensors in one",
    "dual_sub_uint8": "it is half of a pair of tensors in one",
}

_FORMATS = """
    NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0
    FRACTAL_DECONV_TRANSPOSE FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN
    FRACTAL_DECONV_SP_STRIDE8_TRANS HWCN NC1KHKWHWC0 BN_WEIGHT FILTER_HWCK
    HASHTABLE_LOOKUP_LOOKUPS HASHTABLE_LOOKUP_KEYS HASHTABLE_LOOKUP_VALUE HASHTABLE_LOOKUP_OUTPUT
    HASHTABLE_LOOKUP_HITS C1HWNCOC0 MD NDHWC FRACTAL_ZZ FRACTAL_NZ
    NCDHW DHWCN NDC1HWC0 FRACTAL_Z_3D CN NC DHWNC FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM FRACTAL_Z_G
    RESERVED ALL NULL ND_RNN_BIAS FRACTAL_ZN_RNN YUV YUV_A NCL FRACTAL_Z_WINO C1HWC0
"""
MEMORY_FORMATS: dict[int, str] = {**dict(enumerate(_FORMATS.split())), 255: "MAX"}
