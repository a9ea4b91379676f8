"""Data types: what a tensor's elements are, whatever bytes they were saved in.

Names are lower case and the same for every framework. `coarseness` orders the float kinds for judging (INTERFACE 5):
the limits of a pair are those of its coarser side. `maximum` is the largest finite magnitude, `smallest` the least one
above 0, where there is a 0. How bits become numbers is in `dtypes.decode` and `dtypes.low_precision`.

References
----------
MindSpore's spelling in file names (CamelCase on CPU, lower case on Ascend) and its storage of bfloat16, int4 and uint1:
MindSpore "Dump" documentation, releases 1.3 to 2.10. float8_e4m3fn and float8_e5m2: OCP 8-bit Floating Point
Specification, 1.0. float8_e8m0: OCP Microscaling Formats Specification, 1.0. hifloat8: "Ascend HiFloat8 Format for Deep
Learning", Huawei 2024. The kinds that end in fnuz (no infinity, one zero, NaN where -0 would be): Noune et al., "8-bit
Numerical Formats for Deep Neural Networks", 2022, and the package ml_dtypes, which TensorFlow, JAX and ONNX share.
Names without a numeric meaning: message `DumpData` of Ascend dumps.
"""

from __future__ import annotations

from typing import NamedTuple


class DtypeFact(NamedTuple):
    """One row: `kind` is float, integer, bool, complex or opaque; `native` the numpy name its values are computed in.

    `mantissa` counts the bits behind the leading one, of floats that have as many at all magnitudes.
    `native` is empty where bytes cannot be turned into numbers: for opaque kinds, which hold none, and for floats whose
    packing in dumps is not known.
    """

    kind: str
    bits: int
    native: str
    coarseness: int | None = None
    maximum: float | None = None
    component: str | None = None
    smallest: float | None = None
    mantissa: int | None = None


_OPAQUE = ("dual", "dual_sub_int8", "dual_sub_uint8", "resource", "string", "string_ref", "undefined", "variant")

DTYPES: dict[str, DtypeFact] = {
    "bool": DtypeFact("bool", 8, "bool"),
    **{f"int{bits}": DtypeFact("integer", bits, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": DtypeFact("integer", bits, f"uint{bits}") for bits in (8, 16, 32, 64)},
    "float64": DtypeFact("float", 64, "float64", 0, 1.7976931348623157e308, smallest=2.0**-1074, mantissa=52),
    "float32": DtypeFact("float", 32, "float32", 1, 3.4028234663852886e38, smallest=2.0**-149, mantissa=23),
    "float16": DtypeFact("float", 16, "float16", 2, 65504.0, smallest=2.0**-24, mantissa=10),
    "bfloat16": DtypeFact("float", 16, "float32", 3, 3.3895313892515355e38, smallest=2.0**-133, mantissa=7),
    # Coarser with each significant bit less. HiFloat8 has three of them around 1 and one at its ends.
    "float8_e4m3fn": DtypeFact("float", 8, "float32", 4, 448.0, smallest=2.0**-9, mantissa=3),
    "float8_e4m3fnuz": DtypeFact("float", 8, "float32", 4, 240.0, smallest=2.0**-10, mantissa=3),
    "float8_e4m3b11fnuz": DtypeFact("float", 8, "float32", 4, 30.0, smallest=2.0**-13, mantissa=3),
    "hifloat8": DtypeFact("float", 8, "float32", 5, 32768.0, smallest=2.0**-22),
    "float8_e5m2": DtypeFact("float", 8, "float32", 6, 57344.0, smallest=2.0**-16, mantissa=2),
    "float8_e5m2fnuz": DtypeFact("float", 8, "float32", 6, 57344.0, smallest=2.0**-17, mantissa=2),
    # Nothing public says in which order a dump packs elements of 6 bits, nor which half of a byte comes first for 4.
    "float6_e2m3": DtypeFact("float", 6, "", 7),
    "float6_e3m2": DtypeFact("float", 6, "", 8),
    "float4_e1m2": DtypeFact("float", 4, "", 9),
    "float4_e2m1": DtypeFact("float", 4, "", 10),
    # Powers of two only: the scales of blocks of other types.
    "float8_e8m0": DtypeFact("float", 8, "float32", 11, 1.7014118346046923e38),
    "int4": DtypeFact("integer", 4, "int8"),
    "uint4": DtypeFact("integer", 4, "uint8"),
    "int2": DtypeFact("integer", 2, "int8"),
    "uint2": DtypeFact("integer", 2, "uint8"),
    "uint1": DtypeFact("integer", 1, "uint8"),
    "complex32": DtypeFact("complex", 32, "complex64", 2, 65504.0, "float16"),
    "complex64": DtypeFact("complex", 64, "complex64", 1, 3.4028234663852886e38, "float32"),
    "complex128": DtypeFact("complex", 128, "complex128", 0, 1.7976931348623157e308, "float64"),
    **{name: DtypeFact("opaque", 0, "") for name in _OPAQUE},
}

# What all values of a wider file may be of (see `metrics.coarser`), and what they are then judged as. TF32 has the
# mantissa of float16 and the range of float32, and is the type of no file.
VALUE_KINDS: dict[str, str] = {"bfloat16": "bfloat16", "float16": "float16", "tf32": "float16", "float32": "float32"}

# From 1 to the next number, of the types that models are trained in.
EPSILON: dict[str, float] = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}

# How else the same type is written: in file names, graphs and framework prints. Keys are lower case.
ALIASES: dict[str, str] = {
    "bf16": "bfloat16",
    "complexhalf": "complex32",
    "double": "float64",
    "float": "float32",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
    "float4_e2m1fn": "float4_e2m1",
    "float8e8m0": "float8_e8m0",
    "float8_e8m0fnu": "float8_e8m0",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
    "hif8": "hifloat8",
}
