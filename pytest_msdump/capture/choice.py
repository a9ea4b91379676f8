"""Which of a graph's operators are recorded: globs on their names, and their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["Patterns", "chosen"]

Patterns = str | Sequence[str] | None
_MOST_TOLD = 30


def chosen(operators: Mapping[str, str], patterns: Patterns, exclude: Patterns, types: Patterns) -> frozenset[str]:
    """Return the names to record.

    Parameters
    ----------
    operators : mapping of str to str
        Type by name.
    patterns, exclude : str or sequence of str, optional
        Globs on names that are recorded (all when nothing is said), and on those that are not.
    types : str or sequence of str, optional
        Globs on types that are recorded.

    Raises
    ------
    UnknownNameError
        A glob that nothing is called by.
    ConfigError
        Nothing is left.

    Examples
    --------
    >>> sorted(chosen({"conv1": "Conv", "conv2": "Conv", "fc": "Gemm"}, "*", "conv2", None))
    ['conv1', 'fc']
    """
    for pattern in (*_listed(patterns), *_listed(exclude)):
        _check(pattern, operators, "operator is called")
    for pattern in _listed(types):
        _check(pattern, operators.values(), "operator is of type")
    left = frozenset(
        name
        for name, kind in operators.items()
        if _fits(name, _listed(patterns) or ("*",))
        and not _fits(name, _listed(exclude))
        and _fits(kind, _listed(types) or ("*",))
    )
    if not left:
        raise ConfigError(f"none of {len(operators)} operators is left to record")
    return left


def _check(pattern: str, known: Iterable[str], what: str) -> None:
    names = list(dict.fromkeys(known))
    if not any(fnmatchcase(name, pattern) for name in names):
        raise UnknownNameError(f"no {what} '{pattern}'; {nearest(pattern, names[:_MOST_TOLD])}")


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(value: Patterns) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())
