"""Which modules of a PyTorch model are recorded, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["chosen", "named", "plain_name", "refuse", "unwrapped"]

# What wrappers put between the names of a model's own modules.
_WRAPPED = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# Wrappers around a whole model; type → attribute that holds it.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
# A Sequential gives back what its last module gave back: recording both would say everything twice.
_LEFT_OUT = "Sequential"
_MOST_TOLD = 30

Patterns = str | Sequence[str]


def unwrapped(model: Any) -> Any:
    """Return the model itself, without what compiles or distributes it as a whole."""
    while type(model).__name__ in _WRAPPERS and hasattr(model, _WRAPPERS[type(model).__name__]):
        model = getattr(model, _WRAPPERS[type(model).__name__])
    return model


def named(model: Any) -> dict[str, Any]:
    """Return all modules by name, in their order; the model itself comes first, by the name of its type."""
    modules: dict[str, Any] = {}
    for path, module in model.named_modules():
        name = plain_name(path)
        if name:
            # Of what wraps a module and the module itself, the latter.
            modules[name] = module
    root = type(model).__name__
    while root in modules:
        root += "_"
    return {root: model, **modules}


def plain_name(path: str) -> str:
    """Return a name of a module or parameter without the parts that wrappers add."""
    return ".".join(part for part in path.split(".") if part not in _WRAPPED)


def chosen(
    modules: Mapping[str, Any], patterns: Patterns | None, exclude: Patterns, types: Any, depth: int | None
) -> dict[str, Any]:
    """Return the modules to record, by name.

    Parameters
    ----------
    modules : mapping of str to module
        As `named` returns them.
    patterns : str or sequence of str, optional
        Globs on names (``*`` also matches dots); all modules but Sequential ones when nothing is said.
    exclude : str or sequence of str
        Globs on names that are not to be recorded.
    types : type, str or sequence of them
        Only modules of these types; a text is the name of a type. Empty: of all.
    depth : int, optional
        Only modules at most so far below the model, whose own depth is 0: ``conv1`` has depth 1.

    Raises
    ------
    UnknownNameError
        A pattern that no module has.
    ConfigError
        Nothing is left.
    """
    for pattern in (*_listed(patterns), *_listed(exclude)):
        if not any(fnmatchcase(name, pattern) for name in modules):
            raise UnknownNameError(f"no module is called '{pattern}'; {nearest(pattern, [*modules][:_MOST_TOLD])}")
    wanted, unwanted, of_types = _listed(patterns), _listed(exclude), _listed(types)
    root = next(iter(modules), "")
    left = {
        name: module
        for name, module in modules.items()
        if (_any(name, wanted) if wanted else type(module).__name__ != _LEFT_OUT or name == root)
        and not _any(name, unwanted)
        and (not of_types or any(_is_a(module, kind) for kind in of_types))
        and (depth is None or (0 if name == root else name.count(".") + 1) <= depth)
    }
    if not left:
        raise ConfigError(
            f"none of the {len(modules)} modules of {root} is left to record by modules=, exclude=, types= and depth="
        )
    return left


def refuse(model: Any, modules: Mapping[str, Any], watched: Mapping[str, Any], *, compiled: str) -> None:
    """Refuse models whose hooks PyTorch does not call, where a recording would lack tensors without a word.

    Parameters
    ----------
    model : module
        As it was given, with its wrappers.
    modules, watched : mapping of str to module
        All of them, and those to record.
    compiled : str
        ``"eager"`` where compiled modules run uncompiled while they are recorded.

    Raises
    ------
    ConfigError
        Compiled, scripted or replicated modules.
    """
    for module in model.modules():
        name = type(module).__name__
        if compiled != "eager" and (name == "OptimizedModule" or getattr(module, "_compiled_call_impl", None)):
            raise ConfigError(
                f"{_told(module, modules)} is compiled, and compiled code calls no hooks; record it with "
                "compiled='eager', which runs it uncompiled while it is recorded, or record the model that was given "
                "to torch.compile"
            )
        if name == "DataParallel" and len(module.device_ids) > 1:
            raise ConfigError(f"{_told(module, modules)} runs on several devices at once; record its .module on one")
    _refuse_scripted(modules, watched)


def _refuse_scripted(modules: Mapping[str, Any], watched: Mapping[str, Any]) -> None:
    root = next(iter(modules), "")
    for outer, module in modules.items():
        if not _is_a(module, "ScriptModule"):
            continue
        inside = [name for name in watched if name != outer and (outer == root or name.startswith(f"{outer}."))]
        if inside:
            raise ConfigError(
                f"{outer} is scripted (torch.jit), and modules inside of it, such as {inside[0]}, call no hooks; "
                f"record the model that it was made from, or only {outer} itself, by modules= or exclude="
            )


def _told(module: Any, modules: Mapping[str, Any]) -> str:
    inner = unwrapped(module)
    return next((name for name, known in modules.items() if known is inner), type(module).__name__)


def _is_a(module: Any, kind: Any) -> bool:
    if isinstance(kind, type):
        return isinstance(module, kind)
    return any(base.__name__ == kind for base in type(module).__mro__)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(value: Any) -> tuple[Any, ...]:
    """One or several as a tuple."""
    if value is None:
        return ()
    return (value,) if isinstance(value, (str, type)) else tuple(value)
