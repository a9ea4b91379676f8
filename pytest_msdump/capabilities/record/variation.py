"""Runs of a reference that differ from it on purpose: perturbed by what rounding does, or in a way that is harmless."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.arrays.encode import encode
from pytest_msdump.capabilities.statistics.hashing import drawn, noisy_copy
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.arrays import RawArray, array_to_save
from pytest_msdump.core.dtypes.decode import storage_of, to_double
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON

Array = npt.NDArray[Any]

_WHAT = ("input+weights", "input")
_CONTROLS = ("threads=N", "channels_last", "batch_split", "onednn=off", "sdpa=math")
_BLOCK = 2**15
# Of bfloat16: bits of the significand, and the exponent, as `frexp` has it, below which there are fewer.
_BFLOAT16_BITS, _BFLOAT16_LOWEST = 8, -125


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Noise of the size of a rounding, for the inputs and weights of a run: each x becomes x·(1 + u·ξ), ξ in (−1, 1).

    ξ is drawn anew for each element, by the seed and the name of the tensor, so the order of tensors makes no
    difference. The product is rounded once, to the tensor's type. Types other than float64, float32, float16, bfloat16
    and complex numbers of them stay as they are; so do zeros, NaN, infinite numbers and those that would become so.

    Parameters
    ----------
    seed : int
        Not negative.
    u : float, optional
        Between 0 and 1; by default the rounding unit of each tensor's type: float64 2⁻⁵³, float32 2⁻²⁴, float16 2⁻¹¹,
        bfloat16 2⁻⁸.
    what : str
        ``"input+weights"`` or ``"input"``.

    Examples
    --------
    >>> made = Perturbation(1)("x", np.ones(1000, "float32"))
    >>> bool((np.abs(made - 1) <= 2**-24).all()), made.dtype.name
    (True, 'float32')
    """

    seed: int
    u: float | None = None
    what: str = _WHAT[0]

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise ConfigError(f"the seed of a perturbation is a whole number from 0 on, not {self.seed!r:.40}")
        if self.u is not None and not (isinstance(self.u, float) and 0 < self.u < 1):
            raise ConfigError(f"u of a perturbation is a number between 0 and 1, e.g. 2**-24, not {self.u!r:.40}")
        if self.what not in _WHAT:
            raise UnknownNameError(f"a perturbation of {self.what!r:.40}; {nearest(str(self.what), _WHAT)}")

    @property
    def has_weights(self) -> bool:
        """Whether weights are perturbed, too."""
        return self.what == _WHAT[0]

    def unit(self, dtype: str) -> float | None:
        """Return u for a data type; ``None`` where such tensors stay as they are."""
        # numpy computes nothing in the halves of complex32.
        fact = DTYPES.get(dtype)
        if fact is None or dtype == "complex32" or (fact.component or dtype) not in EPSILON:
            return None
        return self.u or rounding_unit(dtype)

    def __call__(self, name: str, array: Any) -> Any:
        """Return a tensor, which is as `record.DumpWriter.write` takes it, perturbed; itself where it stays."""
        values, logical = array_to_save(array)
        kind = logical or values.dtype.name
        u = self.unit(kind)
        if u is None:
            return array
        title = f"{self.seed}\0".encode() + name.encode("utf-8", "surrogatepass")
        key = int.from_bytes(hashlib.sha256(title).digest()[:8], "little")
        flat = values.reshape(-1)
        made = noisy_copy(flat, key, 2 * u) if logical is None else None
        if made is None:
            made, storage = np.empty_like(flat), storage_of(values.dtype.str, logical, where=name)
            for start in range(0, flat.size, _BLOCK):
                block = storage.decode(flat[start : start + _BLOCK])
                made[start : start + _BLOCK] = _perturbed(block, kind, u, key, start).view(values.dtype)
        shaped = made.reshape(values.shape)
        if isinstance(array, np.ndarray):
            return shaped.view(array.dtype)
        return shaped if logical is None else RawArray(shaped, values.shape, logical)


def _perturbed(values: Array, kind: str, u: float, key: int, start: int) -> Array:
    """Return the bytes of perturbed values of a type, the first of which has the number `start`."""
    component = DTYPES[kind].component or kind
    plain = values.view(component) if values.dtype.kind == "c" else values
    exact = to_double(plain)
    with np.errstate(all="ignore"):
        # Not x·(1 + u·ξ): of float64, the factor would itself be rounded to 1.
        noisy = drawn(key, start * (exact.size // values.size), exact.size)
        noisy -= 0.5
        noisy *= 2 * u
        noisy *= exact
        noisy += exact
        if component == "bfloat16":
            quantum = np.maximum(np.frexp(noisy)[1], _BFLOAT16_LOWEST) - _BFLOAT16_BITS
            noisy = np.ldexp(np.rint(np.ldexp(noisy, -quantum)), quantum)
        rounded = noisy.astype(plain.dtype)
    # A zero keeps its sign.
    if not (moves := np.isfinite(rounded) & (exact != 0)).all():
        rounded = np.where(moves, rounded, plain)
    return encode(rounded.view(values.dtype), kind)


@dataclass(frozen=True, slots=True)
class Control:
    """A harmless variation of a run of PyTorch, by name.

    ``"threads=1"`` (any number of threads), ``"channels_last"`` (weights and inputs of four axes in that memory
    format), ``"batch_split"`` (each half of the batch by itself, and what is recorded joined along axis 0),
    ``"onednn=off"``, ``"sdpa=math"`` (attention by its formula). UnknownNameError for another one.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in _CONTROLS[1:] and not self.threads:
            raise UnknownNameError(f"no control is called {self.name!r:.40}; {nearest(str(self.name), _CONTROLS)}")

    @property
    def note(self) -> str:
        """What the manifest of such a run notes."""
        return f"a control run: {self.name}"

    @property
    def threads(self) -> int:
        """The number of threads that it sets; 0 for another control."""
        kind, _, count = str(self.name).partition("=")
        return int(count) if kind == "threads" and count.isdecimal() and len(count) <= 4 else 0
