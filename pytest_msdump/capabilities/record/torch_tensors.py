"""Tensors of PyTorch as arrays, a model's weights, and the state of its optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from pytest_msdump.capabilities.record.sketching import decoded_blocks
from pytest_msdump.capabilities.statistics.count_sketch import (
    BUCKETS,
    ROWS,
    SEEDS,
    TURNS,
    add_rows,
    chunk_turn,
    sketch_blocks,
    tables,
)
from pytest_msdump.capabilities.statistics.tensor_statistics import Tally
from pytest_msdump.core.dtypes.arrays import RawArray, array_to_save
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.c_kernel import SketchTables
from pytest_msdump.core.metrics.slices import Grid, SliceSums, norms_of, sketched_grid
from pytest_msdump.core.metrics.sums import Moments, Sum, scale_exponent
from pytest_msdump.core.model.tensor import Sketch, Statistic

# What wrappers put between the names of a model's own modules.
_WRAPPER_PARTS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# Bytes of an element → the type its bits are taken in.
_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of PyTorch."""
    import torch

    return isinstance(value, torch.Tensor)


def is_backward() -> bool:
    """Whether a backward pass is running in this thread."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


def is_elsewhere(tensor: Any) -> bool:
    """Whether a tensor is on another device than the CPU."""
    return not tensor.is_cpu


def is_transformed(tensor: Any) -> bool:
    """Whether `torch.vmap` or another transformation put this tensor in the place of the one that has the numbers."""
    import torch

    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def array_of(tensor: Any) -> Any:
    """Return a numpy array, or a `RawArray` for types that numpy lacks; refuse a tensor without numbers of its own."""
    import torch

    try:
        plain = plain_numbers(tensor).cpu().contiguous()
        name = str(plain.dtype).removeprefix("torch.")
        if name in DTYPES and DTYPES[name].native == name:
            return plain.numpy()
        bits = plain.view(getattr(torch, _BITS[plain.element_size()]))
        return RawArray(bits.numpy(), tuple(plain.shape), name)
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"a {type(tensor).__name__} of {tensor.dtype} on {tensor.device} cannot be recorded ({reason}); "
            "leave it out with exclude="
        ) from error


def plain_numbers(tensor: Any) -> Any:
    """Return a tensor outside of its graph, dense, and without lazy changes, on its device."""
    import torch

    # Of a distributed tensor, what this process holds.
    dense = (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    if dense.is_quantized:
        dense = dense.dequantize()
    return dense.resolve_conj().resolve_neg()


def plain_name(path: str) -> str:
    """Return a name of a module or parameter without the parts that wrappers add."""
    return ".".join(part for part in path.split(".") if part not in _WRAPPER_PARTS)


def weights(model: Any) -> dict[str, Any]:
    """Return parameters and buffers by name; those without a shape before the first call are refused."""
    from torch.nn.parameter import is_lazy

    found = {plain_name(name): tensor for name, tensor in _named_tensors(model)}
    lazy = next((name for name, tensor in found.items() if is_lazy(tensor)), None)
    if lazy is not None:
        raise ConfigError(f"{lazy} has no shape before the model is first called; call it once before recording it")
    return found


def optimizer_tensors(optimizer: Any, names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    """Yield each parameter as ``NAME/updated`` and its state (``NAME/exp_avg``); `names` are by its ``id``."""
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            name = names.get(id(parameter), f"group{number}.{place}")
            yield f"{name}/updated", parameter
            for key, value in optimizer.state.get(parameter, {}).items():
                if is_tensor(value):
                    yield f"{name}/{key}", value


def run_facts(model: Any) -> dict[str, Any]:
    """Return what the manifest says of the framework, the device and the seed."""
    import torch

    return {
        "framework": "torch",
        "version": torch.__version__.partition("+")[0],
        "device": device(model),
        "seeds": {"torch": int(torch.initial_seed())},
    }


def settings() -> dict[str, str]:
    """Return what changes numbers for the whole process."""
    import torch

    found = {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "mkldnn": torch.backends.mkldnn.is_available(),
    }
    return {name: str(one) for name, one in found.items()}


def dtype_policy(kind: str) -> str:
    """Return e.g. ``"autocast bfloat16"`` while such a context is open on this kind of device, else an empty text."""
    import torch

    try:
        if torch.is_autocast_enabled(kind):
            return f"autocast {str(torch.get_autocast_dtype(kind)).removeprefix('torch.')}"
    except RuntimeError:
        # Not every device has it.
        pass
    return ""


def _named_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def device(model: Any) -> str:
    """Return where the model is, by its first tensor: ``"cpu"``, ``"cuda:0"``."""
    return next((str(tensor.device) for _, tensor in _named_tensors(model)), "cpu")


def sketch_of_tensor(
    tensor: Any, *, buckets: int = BUCKETS, digests: Sequence[str] = ()
) -> tuple[dict[str, Statistic], Sketch]:
    """Return what `metrics.count_sketch.sketch_blocks` does of a tensor."""
    if is_elsewhere(tensor) and str(tensor.dtype) != "torch.uint64":
        try:
            return sketch_by_torch(tensor, buckets=buckets)
        except (NotImplementedError, RuntimeError, TypeError):
            pass
    values, logical = array_to_save(array_of(tensor))
    blocks, dtype = decoded_blocks(values, logical)
    return sketch_blocks(blocks, dtype, values.shape, buckets=buckets, digests=digests)


def sketch_by_torch(tensor: Any, *, buckets: int = BUCKETS) -> tuple[dict[str, Statistic], Sketch]:
    """Return the same by operations of PyTorch, on the tensor's device."""
    import torch

    plain = plain_numbers(tensor)
    flat = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1)
    signed = _tables(flat.device, buckets)
    sums, tally, length = flat.new_zeros(buckets, dtype=torch.float64), Tally(), ROWS * buckets
    grid = sketched_grid(tuple(plain.shape), str(plain.dtype).removeprefix("torch."))
    slices = SliceSums(np.zeros(0), np.zeros(grid.groups if grid else 0))
    # Signs begin anew after `TURNS` chunks; those of a step are 8 MiB of float64.
    step = TURNS * ROWS * min(SEEDS)
    for start in range(0, flat.numel(), step):
        piece = flat[start : start + step]
        first, chunks = start // length, -(-piece.numel() // length)
        values = flat.new_zeros(chunks * length, dtype=torch.float64)
        exponent = _describe(values[: piece.numel()].copy_(piece), piece, tally)
        if grid is not None:
            slices = slices.merge(_slices(values[: piece.numel()], start, grid, exponent))
        made = flat.new_zeros((chunks, 2 * buckets), dtype=torch.float64)
        add_rows(values.view(chunks, ROWS, buckets), signed, first, made)
        drawn = [chunk_turn(signed.chunks, number, buckets) for number in range(first, first + chunks)]
        turns, signs = torch.tensor(drawn, dtype=torch.float64).to(flat.device).split(1, 1)
        places = (torch.arange(buckets, device=flat.device) - turns.long()) % buckets
        sums += ((made[:, :buckets] + made[:, buckets:]).gather(1, places) * signs).sum(0)
    found = tally.values(plain.numel())
    names = {"count"} if plain.is_complex() else found.keys() - {"negative_count", "positive_count"}
    is_known = grid is not None and tally.finite.elements == flat.numel()
    norms = norms_of(grid, slices.right, slices.exponents[1]) if grid and is_known else None
    return {name: found[name] for name in found if name in names}, Sketch(sums.cpu().numpy(), tally.finite_norm, norms)


@cache
def _tables(device: Any, buckets: int) -> SketchTables:
    """Return the tables with the signs on a device."""
    import torch

    found = tables(buckets)
    return found._replace(signs=torch.from_numpy(found.signs).to(device))


def _slices(values: Any, start: int, grid: Grid, exponent: int) -> SliceSums:
    """Return the sums of squares of slices, of elements from `start` on, of which a power of two is taken out."""
    import torch

    places = torch.arange(start, start + values.numel(), device=values.device).remainder_(grid.row)
    groups = places.div_(grid.unit, rounding_mode="floor").clamp_(max=grid.groups - 1)
    squares = (values * math.ldexp(1.0, -exponent)).square_()
    found = values.new_zeros(grid.groups).index_add_(0, groups, squares).cpu().numpy()
    return SliceSums(np.zeros(0), found, (0, 2 * exponent))


def _describe(values: Any, piece: Any, tally: Tally) -> int:
    """Add elements, given as float64, to the statistics, and put zeros where they are not finite."""
    import torch

    finite, low, high = values, *(number.item() for number in values.aminmax())
    if not math.isfinite(low + high):
        tally.nan += int(values.isnan().sum())
        tally.negative_inf += int(values.isneginf().sum())
        tally.positive_inf += int(values.isposinf().sum())
        finite = values[values.isfinite()]
        values.nan_to_num_(0.0, 0.0, 0.0)
        if not finite.numel():
            return 0
        low, high = (number.item() for number in finite.aminmax())
    elif not piece.dtype.is_floating_point:
        low, high = (int(number) for number in (piece if piece.dtype == torch.int64 else values).aminmax())
    tally.zero += finite.numel() - int(finite.count_nonzero())
    exponent = scale_exponent(float(max(-low, high)))
    if exponent:
        finite = finite * math.ldexp(1.0, -exponent)
    total, squares = float(finite.sum()), float(finite.dot(finite))
    deviations = max(squares - total / finite.numel() * total, 0.0)
    sums = Sum(total, 0.0, exponent), Sum(deviations, 0.0, 2 * exponent)
    tally.add_part(low, high, Moments(finite.numel(), *sums, float(low), float(high)))
    return exponent
