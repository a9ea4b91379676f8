"""One call of an operator, and what its results are in float64 with the rounding that is allowed to each element."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.graphs.ir import members
from pytest_msdump.core.errors import NotReplayableError
from pytest_msdump.core.model.tensor import TensorSpec
from pytest_msdump.core.text import plain_text

Array = npt.NDArray[Any]

# Rounding units: of a sum in any order (measured: 1.67 at most), and of exp, log and their like, which kernels
# approximate (measured: 17).
_SUM_LIMIT = 4.0
_APPROXIMATION_LIMIT = 64.0
_REQUIRED: Any = object()
_WRITTEN_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Result:
    """What one output should be, and how far a sound kernel may be from it."""

    value: Array
    scale: Array | None = None
    limit: float = _SUM_LIMIT
    widened: Callable[[], Array] | None = None
    absolute: Array | float = 0.0
    is_sum: bool = False


def exact(value: Array) -> Result:
    """Return the result of an operator that chooses, moves or compares values."""
    return Result(value)


def rounded(
    value: Array,
    terms: float = 1,
    size: Array | None = None,
    partial: Callable[[], Array] | None = None,
    *,
    steps: int = 1,
) -> Result:
    """Return a result that is a sum, or a few of them one after the other.

    Parameters
    ----------
    value : array
        The sums, in float64.
    terms : float
        How many numbers each element is the sum of.
    size : array, optional
        The root of the sum of the squares of these numbers, for each element; by default the sum's own size.
    partial : callable, optional
        Gives how far apart partial sums are: numbers that are sorted and cancel pass through large ones.
    steps : int
        How often a kernel may round on the way to the output.
    """
    root, magnitude = np.sqrt(max(terms, 1) * steps), np.abs(value)
    scale = root * (magnitude + (magnitude if size is None else size))
    widened = None if partial is None else lambda: np.maximum(scale, root * (magnitude + partial()))
    return Result(value, scale, widened=widened, is_sum=steps == 1)


def fitting(shape: tuple[int, ...], *arrays: Array) -> None:
    """Refuse arrays that do not broadcast to a shape: of two small files one could make a huge array."""
    if np.broadcast_shapes(shape, *(array.shape for array in arrays)) != shape:
        raise NotReplayableError("replay_shapes", name="input")


def exp_growth(x: Array) -> Array:
    """Return how much more uncertain exp(x) is than exp near 0."""
    return np.asarray(1 + np.abs(x) / 8)


def approximated(value: Array, size: Array | None = None, absolute: Array | float = 0.0) -> Result:
    """Return a result made with exp, log, erf or their like; `size` where an error is not relative to the value."""
    return Result(value, np.abs(value) if size is None else size, _APPROXIMATION_LIMIT, absolute=absolute)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator: its inputs by slot, floats as float64, shaped as the graph says."""

    op_type: str
    inputs: Sequence[Array | None] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[TensorSpec | None] = ()
    missing: Mapping[int, NotReplayableError] = field(default_factory=dict)

    def given(self, slot: int) -> Array:
        """Return an input, or the constant that stands for it in the graph; raises `NotReplayableError`."""
        found = self.inputs[slot] if slot < len(self.inputs) else None
        if found is not None:
            return found
        if slot in self.missing:
            raise self.missing[slot]
        written = self.attributes.get(f"operand {slot}")
        if written is None:
            raise NotReplayableError("replay_no_input", slot=slot)
        return np.asarray(literal(written))

    def has(self, slot: int) -> bool:
        """Whether an input is there, or known as a constant."""
        return (slot < len(self.inputs) and self.inputs[slot] is not None) or f"operand {slot}" in self.attributes

    def attribute(self, names: str, slot: int | None = None, default: Any = _REQUIRED) -> Any:
        """Return an attribute: a dumped input first, then the constant of that slot, then the first of `names`."""
        if slot is not None and self.has(slot):
            value = self.given(slot)
            return tuple(value.tolist()) if value.ndim else value.item()
        for name in names.split():
            if name in self.attributes:
                return literal(self.attributes[name])
        if slot is not None and slot < len(self.inputs):
            # It is an operand, of which nothing is known: not what is usual.
            return self.given(slot)
        if default is _REQUIRED:
            raise NotReplayableError("replay_no_attribute", name=names.split()[0])
        return default

    def shape(self, slot: int = 0) -> tuple[int, ...]:
        """Return the shape of an output; raises `NotReplayableError` where the graph does not have it."""
        spec = self.outputs[slot] if slot < len(self.outputs) else None
        if spec is None or spec.shape is None or min(spec.shape, default=0) < 0:
            raise NotReplayableError("replay_no_shape", slot=slot)
        return spec.shape

    def axes(self, rank: int, names: str, slot: int | None, default: Any = ()) -> tuple[int, ...]:
        """Return axes of a tensor of this rank, counted from its first; all of them where none are named."""
        found = self.attribute(names, slot, default)
        axes = found if isinstance(found, tuple) else (found,)
        return tuple(int(axis) % rank for axis in axes) if axes and rank else tuple(range(rank))


# Takes a call; returns the result of each output slot, ``None`` for one that is not judged.
Definition: TypeAlias = Callable[[Call], "Result | Sequence[Result | None]"]

# What a definition raises where the attributes do not belong to the inputs.
_WRONG_ATTRIBUTES = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


def computed(definition: Definition, call: Call) -> list[Result | None]:
    """Return what a call should have made, by output; raises `NotReplayableError`, and nothing else."""
    try:
        with np.errstate(all="ignore"):
            found = definition(call)
    except NotReplayableError:
        raise
    except _WRONG_ATTRIBUTES as error:
        raise NotReplayableError("replay_failed", why=plain_text(str(error))) from error
    return [found] if isinstance(found, Result) else list(found)


def broadcasting(definition: Definition, shape: Callable[[Call], tuple[int, ...]]) -> Definition:
    """Return a definition that refuses inputs which do not broadcast to a shape; see `fitting`."""

    def of(call: Call) -> Result | Sequence[Result | None]:
        fitting(shape(call), *(given for given in call.inputs if given is not None))
        return definition(call)

    return of


_TYPED = re.compile(r"(?P<type>[A-Za-z]\w*)\((?P<inner>.*)\)", re.DOTALL)
_TENSOR = re.compile(r"shape=\[(?P<shape>[0-9, ]*)\], dtype=(?P<type>\w+), value=(?P<value>.*)", re.DOTALL)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "None": None}


def literal(text: str) -> Any:
    """Return the value of an attribute, as any release writes it: a number, truth value, text, or tuple of these.

    >>> literal("(I64(2), I64(-1))"), literal("[1, 1]"), literal('"VALID"'), literal("Bool(1)"), literal("F32(0.5)")
    ((2, -1), (1, 1), 'VALID', True, 0.5)
    >>> literal("Tensor(shape=[2], dtype=Int64, value=[4 1])")
    (4, 1)
    """
    text = text.strip()
    tensor = _TENSOR.fullmatch(text[7:-1]) if text.startswith("Tensor(") else None
    if tensor:
        values = [_typed(tensor["type"], one) for one in tensor["value"].strip("[] \n").split()]
        sizes = [int(size) for size in tensor["shape"].split(",") if size.strip()]
        if len(values) != prod(sizes) or len(sizes) > 1:
            raise NotReplayableError("replay_constant", text=text[:40])
        return tuple(values) if sizes else values[0]
    if text[:1] in ("(", "["):
        return tuple(literal(part) for part in members(text[1:-1]))
    typed = _TYPED.fullmatch(text)
    return _typed(typed["type"], typed["inner"]) if typed else _typed("", text)


def _typed(kind: str, text: str) -> Any:
    if text.startswith('"'):
        return text.strip('"')
    if text in _WORDS:
        return _WORDS[text]
    try:
        number = int(text)
    except ValueError:
        return _float(kind, text)
    return bool(number) if kind == "Bool" else float(number) if kind.startswith(("F", "B")) else number


def _float(kind: str, text: str) -> Any:
    try:
        number = float(np.float32(text)) if kind in ("F32", "Float32") else float(text)
    except ValueError:
        return text
    # It may have had more digits than a graph writes.
    if len(text.lower().partition("e")[0].replace(".", "").lstrip("-0")) == _WRITTEN_DIGITS:
        raise NotReplayableError("replay_constant_digits", text=text)
    return number
