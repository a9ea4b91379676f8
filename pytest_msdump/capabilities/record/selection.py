"""Which layers or operators of a model are recorded: globs on names, types, depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest

Patterns = str | Sequence[str] | None

_MOST_SHOWN = 30
# Containers give back what their last module gave back: recording both would say everything twice.
_CONTAINERS = frozenset({"Sequential", "SequentialCell"})


def select_operators(
    operators: Mapping[str, str], patterns: Patterns, exclude: Patterns, types: Patterns
) -> frozenset[str]:
    """Return the names to record, of `operators`, which are types by name.

    `patterns` are globs on names that are recorded (all by default), `exclude` on those that are not, `types` on types.
    UnknownNameError for a glob that matches nothing, ConfigError where nothing is left.

    >>> sorted(select_operators({"conv1": "Conv", "conv2": "Conv", "fc": "Gemm"}, "*", "conv2", None))
    ['conv1', 'fc']
    """
    _refuse_unknown((*_as_tuple(patterns), *_as_tuple(exclude)), operators, "operator is called")
    _refuse_unknown(_as_tuple(types), operators.values(), "operator is of type")
    selected = frozenset(
        name
        for name, kind in operators.items()
        if _matches(name, _as_tuple(patterns) or ("*",))
        and not _matches(name, _as_tuple(exclude))
        and _matches(kind, _as_tuple(types) or ("*",))
    )
    if not selected:
        raise ConfigError(f"none of {len(operators)} operators is left to record")
    return selected


def name_modules(model: Any, inner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modules of a model by name: first the model itself, by the name of its type, then the inner ones."""
    root = type(model).__name__
    while root in inner:
        root += "_"
    return {root: model, **inner}


def select_modules(
    modules: Mapping[str, Any], patterns: Patterns, exclude: Patterns, types: Any, depth: int | None
) -> dict[str, Any]:
    """Return the modules to record, by name, of those that `name_modules` returns."""
    wanted, unwanted, of_types = _as_tuple(patterns), _as_tuple(exclude), _as_tuple(types)
    _refuse_unknown((*wanted, *unwanted), modules, "module is called")
    root = next(iter(modules), "")
    selected = {
        name: module
        for name, module in modules.items()
        if (_matches(name, wanted) if wanted else name == root or type(module).__name__ not in _CONTAINERS)
        and not _matches(name, unwanted)
        and (not of_types or any(is_a(module, kind) for kind in of_types))
        and (depth is None or (0 if name == root else name.count(".") + 1) <= depth)
    }
    if not selected:
        raise ConfigError(
            f"none of the {len(modules)} modules of {root} is left to record by modules=, exclude=, types= and depth="
        )
    return selected


def names_inside(outer: str, names: Iterable[str], root: str) -> list[str]:
    """Return the names of modules that are inside of `outer`."""
    return [name for name in names if name != outer and (outer == root or name.startswith(f"{outer}."))]


def is_a(module: Any, kind: type | str) -> bool:
    """Whether a module is of a type, or of one with such a name."""
    if isinstance(kind, type):
        return isinstance(module, kind)
    return any(base.__name__ == kind for base in type(module).__mro__)


def _refuse_unknown(patterns: Iterable[str], known: Iterable[str], title: str) -> None:
    names = list(dict.fromkeys(known))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(f"no {title} '{pattern}'; {nearest(pattern, names[:_MOST_SHOWN])}")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (str, type)) else tuple(value)
