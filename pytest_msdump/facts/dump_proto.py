"""Numbers in the header of an Ascend dump file: fields of its messages, data types, memory formats, tags.

References
----------
Message `DumpData` of the protobuf package `toolkit.dumpdata` (proto3), as the vendor's comparison tools of 2022 to 2026
(msprobe, mindstudio-probe 26.2.0) read it; the numbers 26 to 40 of the data types are those of its newest schema. The
nano container and the numbering of the graph engine's own data types: the same tools.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "DATA_TYPES",
    "DUMP_DATA",
    "GE_DATA_TYPES",
    "MEMORY_FORMATS",
    "NANO_MAGIC",
    "NANO_TAGS",
    "NOT_NUMBERS",
    "OP_ATTR",
    "OP_INPUT",
    "OP_OUTPUT",
    "OP_UNTYPED",
    "SHAPE",
    "TASK_TYPES",
    "DataType",
]

# Fields by number; what is not listed here is skipped.
DUMP_DATA = {1: "version", 2: "dump_time", 3: "output", 4: "input", 5: "buffer", 6: "op_name", 7: "attr", 8: "space"}
OP_OUTPUT = {
    1: "data_type",
    2: "format",
    3: "shape",
    5: "data",
    6: "size",
    7: "original_shape",
    8: "sub_format",
    9: "address",
}
OP_INPUT = {
    1: "data_type",
    2: "format",
    3: "shape",
    4: "data",
    5: "size",
    6: "original_shape",
    7: "sub_format",
    8: "address",
}
# Buffers and workspaces: bytes without a shape.
OP_UNTYPED = {2: "data", 3: "size"}
OP_ATTR = {1: "name", 2: "value"}
SHAPE = {1: "dim"}

NANO_MAGIC = 0x5A5A5A5A
NANO_TAGS = {4: "input", 5: "output"}

# The first of the four numbers behind the timestamp in a file's name.
TASK_TYPES = {0: "AICORE", 1: "AICPU", 2: "DEBUG", 3: "HCCL", 4: "FFTSPLUS"}


class DataType(NamedTuple):
    """The vendor's name, and the name of `facts.dtypes`; quantised integers are the integers they are stored as."""

    label: str
    dtype: str


DATA_TYPES: dict[int, DataType] = {
    0: DataType("UNDEFINED", "undefined"),
    1: DataType("FLOAT", "float32"),
    2: DataType("FLOAT16", "float16"),
    3: DataType("INT8", "int8"),
    4: DataType("UINT8", "uint8"),
    5: DataType("INT16", "int16"),
    6: DataType("UINT16", "uint16"),
    7: DataType("INT32", "int32"),
    8: DataType("INT64", "int64"),
    9: DataType("UINT32", "uint32"),
    10: DataType("UINT64", "uint64"),
    11: DataType("BOOL", "bool"),
    12: DataType("DOUBLE", "float64"),
    13: DataType("STRING", "string"),
    14: DataType("DUAL_SUB_INT8", "dual_sub_int8"),
    15: DataType("DUAL_SUB_UINT8", "dual_sub_uint8"),
    16: DataType("COMPLEX64", "complex64"),
    17: DataType("COMPLEX128", "complex128"),
    18: DataType("QINT8", "int8"),
    19: DataType("QINT16", "int16"),
    20: DataType("QINT32", "int32"),
    21: DataType("QUINT8", "uint8"),
    22: DataType("QUINT16", "uint16"),
    23: DataType("RESOURCE", "resource"),
    24: DataType("STRING_REF", "string_ref"),
    25: DataType("DUAL", "dual"),
    26: DataType("VARIANT", "variant"),
    27: DataType("BF16", "bfloat16"),
    28: DataType("INT4", "int4"),
    29: DataType("UINT1", "uint1"),
    30: DataType("INT2", "int2"),
    31: DataType("UINT2", "uint2"),
    32: DataType("COMPLEX32", "complex32"),
    33: DataType("HIFLOAT8", "hifloat8"),
    34: DataType("FLOAT8_E5M2", "float8_e5m2"),
    35: DataType("FLOAT8_E4M3FN", "float8_e4m3fn"),
    36: DataType("FLOAT8_E8M0", "float8_e8m0"),
    37: DataType("FLOAT6_E3M2", "float6_e3m2"),
    38: DataType("FLOAT6_E2M3", "float6_e2m3"),
    39: DataType("FLOAT4_E2M1", "float4_e2m1"),
    40: DataType("FLOAT4_E1M2", "float4_e1m2"),
}

# The graph engine counts differently; its numbers stand in nano dumps and in model JSON.
GE_DATA_TYPES: dict[int, DataType] = {
    0: DataType("FLOAT", "float32"),
    1: DataType("FLOAT16", "float16"),
    2: DataType("INT8", "int8"),
    3: DataType("INT32", "int32"),
    4: DataType("UINT8", "uint8"),
    6: DataType("INT16", "int16"),
    7: DataType("UINT16", "uint16"),
    8: DataType("UINT32", "uint32"),
    9: DataType("INT64", "int64"),
    10: DataType("UINT64", "uint64"),
    11: DataType("DOUBLE", "float64"),
    12: DataType("BOOL", "bool"),
    13: DataType("STRING", "string"),
    14: DataType("DUAL_SUB_INT8", "dual_sub_int8"),
    15: DataType("DUAL_SUB_UINT8", "dual_sub_uint8"),
    16: DataType("COMPLEX64", "complex64"),
    17: DataType("COMPLEX128", "complex128"),
    18: DataType("QINT8", "int8"),
    19: DataType("QINT16", "int16"),
    20: DataType("QINT32", "int32"),
    21: DataType("QUINT8", "uint8"),
    22: DataType("QUINT16", "uint16"),
    23: DataType("RESOURCE", "resource"),
    24: DataType("STRING_REF", "string_ref"),
    25: DataType("DUAL", "dual"),
    26: DataType("VARIANT", "variant"),
    27: DataType("BF16", "bfloat16"),
    28: DataType("UNDEFINED", "undefined"),
    29: DataType("INT4", "int4"),
    30: DataType("UINT1", "uint1"),
    31: DataType("INT2", "int2"),
    32: DataType("UINT2", "uint2"),
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

MEMORY_FORMATS: dict[int, str] = {
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    5: "NC1C0HWPAD",
    6: "NHWC1C0",
    7: "FSR_NCHW",
    8: "FRACTAL_DECONV",
    9: "C1HWNC0",
    10: "FRACTAL_DECONV_TRANSPOSE",
    11: "FRACTAL_DECONV_SP_STRIDE_TRANS",
    12: "NC1HWC0_C04",
    13: "FRACTAL_Z_C04",
    14: "CHWN",
    15: "FRACTAL_DECONV_SP_STRIDE8_TRANS",
    16: "HWCN",
    17: "NC1KHKWHWC0",
    18: "BN_WEIGHT",
    19: "FILTER_HWCK",
    20: "HASHTABLE_LOOKUP_LOOKUPS",
    21: "HASHTABLE_LOOKUP_KEYS",
    22: "HASHTABLE_LOOKUP_VALUE",
    23: "HASHTABLE_LOOKUP_OUTPUT",
    24: "HASHTABLE_LOOKUP_HITS",
    25: "C1HWNCOC0",
    26: "MD",
    27: "NDHWC",
    28: "FRACTAL_ZZ",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    31: "DHWCN",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
    34: "CN",
    35: "NC",
    36: "DHWNC",
    37: "FRACTAL_Z_3D_TRANSPOSE",
    38: "FRACTAL_ZN_LSTM",
    39: "FRACTAL_Z_G",
    40: "RESERVED",
    41: "ALL",
    42: "NULL",
    43: "ND_RNN_BIAS",
    44: "FRACTAL_ZN_RNN",
    45: "YUV",
    46: "YUV_A",
    47: "NCL",
    48: "FRACTAL_Z_WINO",
    49: "C1HWC0",
    255: "MAX",
}
