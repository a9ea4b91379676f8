"""Names of MindSpore 1.2 and 1.3, which alone say what the raw bytes in their files are.

References
----------
MindSpore "Dump" documentation, release 1.3, synchronous dump: ``{op}_{input|output}_{i}_shape_{d0}_{d1}…_{dtype}_
{format}.bin`` with ``--`` for each ``/`` of the operator's name. A short-lived form for CPU ends behind the number and
is an npy file.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import TensorSpec, mangle

__all__ = ["FlatName", "parse_flat", "parse_flat_npy"]

_TENSOR = r"(?P<op>.+)_(?P<io>input|output)_(?P<slot>[0-9]{1,9})"
# Memory formats hold underscores (FRACTAL_NZ), data types do not.
_FLAT = re.compile(
    _TENSOR + r"_shape(?P<dims>(?:_[0-9]{1,19})*)_+(?P<dtype>[A-Za-z][A-Za-z0-9]*)_(?P<format>[A-Za-z]\w*)\.bin",
    re.DOTALL | re.ASCII,
)
_SUFFIX = ".bin"
_FLAT_NPY = re.compile(_TENSOR + r"\.npy", re.DOTALL)
_KERNEL = re.compile(r"(?P<op_type>.+)-op[0-9]+", re.DOTALL)
_SCOPE = "--"


class FlatName(NamedTuple):
    """What a file name says. `op` is spelled as later releases do it, so that both meet; `dtype` as in the file."""

    op: str
    op_type: str | None
    io: str
    slot: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    memory_format: str | None = None

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor. A dtype that `facts.dtypes` does not know is left out."""
        return TensorSpec(canonical(self.dtype or ""), self.shape, self.memory_format)


def parse_flat(name: str) -> FlatName | None:
    """Read the name of a ``.bin`` file, from the right.

    Parameters
    ----------
    name : str
        A file name without its directory.

    Returns
    -------
    FlatName or None
        ``None`` when the name has another form. `op_type` is the last part of the operator's name; what is not
        numbered as kernels are is a Parameter.

    Examples
    --------
    >>> parsed = parse_flat("Default--Add-op1_input_0_shape_1_3_3_4_Float32_DefaultFormat.bin")
    >>> parsed.op, parsed.op_type, parsed.io, parsed.slot
    ('Default_Add-op1', 'Add', 'input', 0)
    >>> parsed.shape, parsed.dtype, parsed.memory_format
    ((1, 3, 3, 4), 'Float32', 'DefaultFormat')
    """
    # Nearly all other names are told by their end alone.
    match = _FLAT.fullmatch(name) if name.endswith(_SUFFIX) else None
    if match is None:
        return None
    shape = tuple(int(length) for length in match["dims"].split("_")[1:])
    return _named(match)._replace(shape=shape, dtype=match["dtype"], memory_format=match["format"])


def parse_flat_npy(name: str) -> FlatName | None:
    """Read the name of an npy file of the short-lived form, which is too plain to be looked for everywhere.

    Examples
    --------
    >>> parse_flat_npy("Default--Add-op1_output_0.npy")[:4]
    ('Default_Add-op1', 'Add', 'output', 0)
    """
    match = _FLAT_NPY.fullmatch(name)
    return _named(match) if match else None


def _named(match: re.Match[str]) -> FlatName:
    scoped = match["op"]
    op = mangle(scoped.replace(_SCOPE, "/"))
    return FlatName(op, _op_type(scoped), match["io"], int(match["slot"]))


def _op_type(scoped: str) -> str | None:
    last = scoped.rpartition(_SCOPE)[2]
    kernel = _KERNEL.fullmatch(last)
    if kernel is None:
        return PARAMETER
    # A scope that was written with underscores cannot be told from the type.
    return None if "_" in last and _SCOPE not in scoped else kernel["op_type"]
