"""Every operation that a PyTorch model runs, below its modules: what ``F.relu`` and ``x + y`` call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_msdump.capture.nested import leaves
from pytest_msdump.capture.torch_tensors import is_tensor

__all__ = ["op_mode", "op_name"]

# Memory that nobody has written yet: its bits differ from run to run.
_UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

Write = Callable[[str, list[Any], str], None]


def op_mode(tell: Write) -> Any:
    """Return a context manager under which every operation is told.

    Parameters
    ----------
    tell : callable
        Called twice with the operation's name: with its input tensors and ``"input"`` before it runs, with its output
        tensors and ``"output"`` after. What it does itself is not told.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Ops(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            name, kwargs = op_name(func), kwargs or {}
            if name is None:
                return func(*args, **kwargs)
            tell(name, leaves((args, kwargs), is_tensor), "input")
            result = func(*args, **kwargs)
            tell(name, leaves(result, is_tensor), "output")
            return result

    return Ops()


def op_name(func: Any) -> str | None:
    """Return the name of an operation such as ``aten.add``, ``None`` for those that compute nothing.

    Views of a tensor hold its own numbers. What works in place has its own name (``aten.relu_``) and is told.
    """
    namespace, _, name = str(func._schema.name).partition("::")
    aliases = [result.alias_info for result in func._schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    return None if is_view or name in _UNWRITTEN else f"{namespace}.{name}"
