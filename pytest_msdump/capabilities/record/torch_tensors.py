"""Tensors of PyTorch as arrays, a model's weights, and the state of its optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_msdump.core.dtypes.arrays import RawArray
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES

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
