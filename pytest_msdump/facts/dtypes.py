"""Data types: what a tensor's elements are, whatever bytes they were saved in.

Names are lower case and the same for every framework. `coarseness` orders the float kinds for judging (INTERFACE 5):
the limits of a pair are those of its coarser side. `maximum` is the largest finite magnitude.

References
----------
MindSpore's spelling in file names (CamelCase on CPU, lower case on Ascend) and its storage of bfloat16, int4 and uint1:
MindSpore "Dump" documentation, releases 1.3 to 2.10. float8 kinds: OCP 8-bit Floating Point Specification, 1.0.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ALIASES", "DTYPES", "DtypeFact"]


class DtypeFact(NamedTuple):
    """One row: `kind` is float, integer, bool or complex; `native` the numpy name its values are computed in."""

    kind: str
    bits: int
    native: str
    coarseness: int | None = None
    maximum: float | None = None
    component: str | None = None


DTYPES: dict[str, DtypeFact] = {
    "bool": DtypeFact("bool", 8, "bool"),
    "int8": DtypeFact("integer", 8, "int8"),
    "int16": DtypeFact("integer", 16, "int16"),
    "int32": DtypeFact("integer", 32, "int32"),
    "int64": DtypeFact("integer", 64, "int64"),
    "uint8": DtypeFact("integer", 8, "uint8"),
    "uint16": DtypeFact("integer", 16, "uint16"),
    "uint32": DtypeFact("integer", 32, "uint32"),
    "uint64": DtypeFact("integer", 64, "uint64"),
    "float64": DtypeFact("float", 64, "float64", 0, 1.7976931348623157e308),
    "float32": DtypeFact("float", 32, "float32", 1, 3.4028234663852886e38),
    "float16": DtypeFact("float", 16, "float16", 2, 65504.0),
    "bfloat16": DtypeFact("float", 16, "float32", 3, 3.3895313892515355e38),
    "complex64": DtypeFact("complex", 64, "complex64", 1, 3.4028234663852886e38, "float32"),
    "complex128": DtypeFact("complex", 128, "complex128", 0, 1.7976931348623157e308, "float64"),
}

# How else the same type is written: in file names, graphs and framework prints. Keys are lower case.
ALIASES: dict[str, str] = {
    "bf16": "bfloat16",
    "double": "float64",
    "float": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
}
