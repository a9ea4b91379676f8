"""Models and operations of PyTorch in float64, whatever they ask for, and what rounding would make of results."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.record.calls import leaves, with_leaves
from pytest_msdump.capabilities.record.torch_tensors import is_tensor
from pytest_msdump.capabilities.replay.forcing import EXP_FAMILY, Marks, Ties, nudged

# Operations that make a float whole, and that may stand between it and its cast.
TO_WHOLE = frozenset({"round", "floor", "ceil", "trunc"})
BESIDE_WHOLE = frozenset({"add", "sub", "clamp", "clamp_min", "clamp_max", "minimum", "maximum", "_to_copy"})


@dataclass(frozen=True)
class Calling:
    """A run that calls a model with arguments, for which no gradients are kept; it writes to no weight."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, model: Any) -> Any:
        """Call a model."""
        import torch

        with torch.no_grad():
            return model(*self.args, **self.kwargs)


def copied(model: Any, dtype: Any, *, rounded_to: Any = None, is_shared: bool = False) -> Any:
    """Return a copy on the CPU in a precision, its weights rounded first to another one.

    One that is shared has the memory of the model's weights, in their own precision.
    """
    import torch

    keeps = dtype is not torch.float64 and any(one.dtype in half_types() for one in model.parameters())
    known: dict[int, Any] = {}
    # Each is copied and cast in one step: together they are as large as the model.
    for one in (*model.parameters(), *model.buffers()):
        value = one.detach()
        if rounded_to is not None and value.is_floating_point():
            value = value.to(rounded_to)
        is_same = is_shared and isinstance(one, torch.nn.Parameter)
        kept = value.dtype if keeps or is_same or not value.is_floating_point() else dtype
        value = value.to("cpu", kept, copy=not is_same)
        known[id(one)] = type(one)(value, one.requires_grad) if isinstance(one, torch.nn.Parameter) else value
    return copy.deepcopy(model, known)


def in_double(func: Any, args: Any, kwargs: Any) -> tuple[Any, Marks]:
    """Run an operation in float64 also where the model asks for less; in float32 where it has no other kernel."""
    import torch

    lower = (torch.float32, torch.float16, torch.bfloat16)
    if kwargs.get("dtype") in lower:
        kwargs = {**kwargs, "dtype": torch.float64}
    operation = described(func)
    given = leaves((args, kwargs), is_tensor)
    if operation.is_functional and any(one.dtype in lower for one in given):
        args, kwargs = _cast_from(lower, torch.float64, (args, kwargs))
    # Fused attention draws random numbers for dropout only.
    is_random = operation.may_be_random and ("scaled_dot_product" not in operation.name or kwargs.get("dropout_p"))
    marks = Marks(has_exp=operation.has_exp, random=operation.name if is_random else "")
    try:
        return func(*args, **kwargs), marks
    except (NotImplementedError, RuntimeError):
        if not operation.is_functional or not any(one.dtype is torch.float64 for one in given):
            raise
    args, kwargs = _cast_from((torch.float64,), torch.float32, (args, kwargs))
    result = _cast_from((torch.float32,), torch.float64, func(*args, **kwargs))
    return result, marks | Marks(single=operation.name)


def _cast_from(dtypes: tuple[Any, ...], dtype: Any, value: Any) -> Any:
    return with_leaves("", value, is_tensor, lambda _, one: one.to(dtype) if one.dtype in dtypes else one)


def rounded(func: Any, result: Any, dtype: Any) -> Any:
    """Round what an operation gave, where it wrote it, to a 16-bit type."""
    if described(func).is_functional:
        return floats_through(result, dtype)
    for tensor in leaves(result, is_tensor):
        if tensor.is_floating_point():
            tensor.copy_(through(tensor, dtype))
    return result


def floats_through(value: Any, dtype: Any) -> Any:
    """Return a value with its floats rounded to a type."""
    return with_leaves("", value, is_tensor, lambda _, one: through(one, dtype) if one.is_floating_point() else one)


@cache
def half_types() -> tuple[Any, ...]:
    """Return the types of 16 bits."""
    import torch

    return torch.float16, torch.bfloat16


def through(tensor: Any, dtype: Any) -> Any:
    """Return a tensor rounded to a type."""
    return tensor.to(dtype).to(tensor.dtype)


class _Operation(NamedTuple):
    """An operation; `is_functional` says that it writes to none of its arguments, and gives back no view of one."""

    name: str
    has_exp: bool
    is_functional: bool
    may_be_random: bool


@cache
def described(func: Any) -> _Operation:
    """Return what an operation is."""
    import torch

    schema = getattr(func, "_schema", None)
    name = str(func) if schema is None else str(schema.name).partition("::")[2]
    is_functional = schema is not None and all(one.alias_info is None for one in (*schema.arguments, *schema.returns))
    may_be_random = torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
    return _Operation(name, EXP_FAMILY.search(name) is not None, is_functional, may_be_random)


def at_ties(func: Any, given: Any, source: Any, slot: int, moved: Ties | float) -> Iterator[Any]:
    """Yield a result of an operation where rounding, by this unit or as known, moves one tensor that it was given."""
    import torch

    def put(_: str, one: Any) -> Any:
        return tensor if one is source else one

    for values in moved() if callable(moved) else nudged(source.double().numpy(), moved):
        tensor = torch.from_numpy(np.ascontiguousarray(values, np.float64)).reshape(source.shape)
        args, kwargs = with_leaves("", given, is_tensor, put)
        yield leaves(in_double(func, args, kwargs)[0], is_tensor)[slot].numpy()
