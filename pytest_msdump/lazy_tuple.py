"""The standard library's named tuples, but a class costs nothing until it is used.

`typing.NamedTuple` compiles each annotation and a ``__new__`` for each class at import. Here annotations stay text, and
``__new__`` is compiled when it has been used a few times. A type checker sees the standard library's own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pytest_msdump.lazy_dataclass import FEW_USES

# What `collections.namedtuple` reads fields by, in C.
try:
    from collections import _tuplegetter  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover - another Python than CPython
    from operator import itemgetter

    def _tuplegetter(index: int, doc: str) -> Any:
        return property(itemgetter(index), doc=doc)


__all__ = ["NamedTuple"]


class _Making(type):
    """Makes of a class with annotations a plain subclass of `tuple`."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, namespace)
        fields = tuple(namespace.get("__annotations__", ()))
        if any(field.startswith("_") for field in fields):
            raise ValueError(f"fields of {name} cannot start with an underscore")
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"fields of {name} without a default follow fields with one")
        members: dict[str, Any] = {
            "__slots__": (),
            "__match_args__": fields,
            "_fields": fields,
            "_field_defaults": defaults,
            "__repr__": _repr,
            "__getnewargs__": _as_tuple,
            "_asdict": _as_dict,
            "_replace": _replace,
            "__replace__": _replace,
            "_make": classmethod(_make),
            **{field: _tuplegetter(index, "") for index, field in enumerate(fields)},
        }
        made = type(name, (tuple, *bases[1:]), {**members, **namespace})
        made.__new__ = _new_at_first_use(made)  # type: ignore[method-assign]
        return made


def _new_at_first_use(cls: Any) -> Callable[..., Any]:
    uses = 0

    def __new__(_cls: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - takes its place
        nonlocal uses
        uses += 1
        given = {**cls._field_defaults, **dict(zip(cls._fields, args, strict=False)), **kwargs}
        # What does not fit is for the compiled one to refuse.
        fits = len(given) == len(cls._fields) >= len(args) and given.keys() == set(cls._fields)
        if uses <= FEW_USES and fits and not kwargs.keys() & set(cls._fields[: len(args)]):
            return tuple.__new__(_cls, map(given.__getitem__, cls._fields))
        new = _new_of(cls)
        cls.__new__ = new
        return new(_cls, *args, **kwargs)

    return __new__


def _new_of(cls: Any) -> Callable[..., Any]:
    """Compile the ``__new__`` of a class."""
    names = ", ".join(cls._fields)
    whole = f"({names}{',' if len(cls._fields) == 1 else ''})"
    known: dict[str, Any] = {"_new": tuple.__new__, "__builtins__": {}}
    exec(f"def __new__(_cls, {names}): return _new(_cls, {whole})", known)  # noqa: S102 - names of a class's own fields
    new: Any = known["__new__"]
    new.__defaults__ = tuple(cls._field_defaults.values())
    new.__qualname__, new.__module__ = f"{cls.__qualname__}.__new__", cls.__module__
    made: Callable[..., Any] = new
    return made


def _make(cls: Any, iterable: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, iterable)
    if len(made) != len(cls._fields):
        raise TypeError(f"expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise TypeError(f"got unexpected field names: {list(changes)!r}")
    return made


def _as_tuple(self: Any) -> tuple[Any, ...]:
    return tuple(self)


def _as_dict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in _as_dict(self).items()])})"


if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class NamedTuple(metaclass=_Making):
        """As `typing.NamedTuple`."""
