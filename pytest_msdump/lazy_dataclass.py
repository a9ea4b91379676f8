"""The standard library's dataclasses, but a class costs nothing until it is used.

`dataclasses` writes and compiles six methods for each class at import, which takes longer than all else that a
comparison of two files does. Here a class is made as it is read; its ``__init__`` is compiled when it has been used a
few times, and what `dataclasses.fields` and `inspect.signature` ask of it is worked out, by the standard library, when
it is asked for. A type checker sees the standard library's own names, whose rules hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["dataclass", "field", "fields_of", "replace"]

Class = TypeVar("Class", bound=type)

_MISSING = object()
# To compile an ``__init__``, or a named tuple's ``__new__``, takes as long as to do without for some twenty values.
FEW_USES = 8
# Where a class keeps what its decorator found.
_FIELDS = "__lazy_fields__"


class _Field:
    """What is said of a field: as `dataclasses.field` takes it."""

    __slots__ = ("compare", "default", "default_factory", "hash", "init", "repr")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's words
        hash: bool | None = None,  # noqa: A002 - as above
        compare: bool = True,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.hash = compare if hash is None else hash
        self.compare = compare


def _dataclass(
    cls: Class | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Class | Callable[[Class], Class]:
    """As `dataclasses.dataclass`."""
    if cls is None:
        return lambda given: _completed(given, frozen=frozen, slots=slots, eq=eq)
    return _completed(cls, frozen=frozen, slots=slots, eq=eq)


def _completed(cls: Class, *, frozen: bool, slots: bool, eq: bool) -> Class:
    """Give a class its fields and methods; with slots it is made anew, since slots cannot be added to it."""
    fields: dict[str, _Field] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields.update(vars(base).get(_FIELDS, {}))
    own = {name: _field_of(cls, name) for name, kind in _annotations(cls).items() if not kind.startswith("ClassVar")}
    fields.update(own)
    members: dict[str, Any] = {
        _FIELDS: fields,
        "__match_args__": tuple(name for name, one in fields.items() if one.init),
        "__repr__": _repr_of(tuple(name for name, one in fields.items() if one.repr)),
        "__replace__": _replace,
        **(_comparing(fields, frozen=frozen) if eq else {}),
        **({"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting} if frozen else {}),
        **(_state_of(tuple(fields)) if frozen and slots else {}),
    }
    given = vars(cls)
    members = {name: member for name, member in members.items() if name not in given or name == _FIELDS}
    made = _with_slots(cls, own, members) if slots else _with_members(cls, own, members)
    for name in ("__dataclass_fields__", "__dataclass_params__", "__signature__"):
        setattr(made, name, _OfTwin(made, name, frozen=frozen, eq=eq))
    if "__init__" not in given:
        made.__init__ = _init_at_first_use(made, frozen=frozen, slots=slots)  # type: ignore[misc]
    return made


def _annotations(cls: type) -> Mapping[str, str]:
    """The annotations of this class alone, which are text in this package."""
    kinds: Mapping[str, Any] = cls.__annotations__ if "__annotations__" in vars(cls) else {}
    if not all(isinstance(kind, str) for kind in kinds.values()):
        raise TypeError(f"{cls.__module__} lacks `from __future__ import annotations`")
    return kinds


def _field_of(cls: type, name: str) -> _Field:
    default = vars(cls).get(name, _MISSING)
    found = default if isinstance(default, _Field) else _Field(default=default)
    if type(found.default).__hash__ is None:
        raise ValueError(f"mutable default of {cls.__qualname__}.{name}; use default_factory")
    return found


def _with_slots(cls: Class, own: Mapping[str, _Field], members: Mapping[str, Any]) -> Class:
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    gone = {"__dict__", "__weakref__", *own}
    namespace = {name: member for name, member in vars(cls).items() if name not in gone}
    namespace |= {**members, "__slots__": tuple(name for name in own if name not in inherited)}
    made: Class = type(cls)(cls.__name__, cls.__bases__, {**namespace, "__qualname__": cls.__qualname__})
    return made


def _with_members(cls: Class, own: Mapping[str, _Field], members: Mapping[str, Any]) -> Class:
    for name, one in own.items():
        if one.default is not _MISSING:
            setattr(cls, name, one.default)
        elif name in vars(cls):
            delattr(cls, name)
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def _init_at_first_use(cls: type, *, frozen: bool, slots: bool) -> Callable[..., None]:
    fields: Mapping[str, _Field] = vars(cls)[_FIELDS]
    uses = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - takes its place
        nonlocal uses
        uses += 1
        values = _bound(fields, args, kwargs) if uses <= FEW_USES else None
        if values is None:
            init = _init_of(cls, frozen=frozen, slots=slots)
            cls.__init__ = init  # type: ignore[misc]
            init(self, *args, **kwargs)
            return
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _bound(fields: Mapping[str, _Field], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the value of each field; ``None`` of what does not fit, which the compiled ``__init__`` is to refuse."""
    names = [name for name, one in fields.items() if one.init]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(given) < len(args) + len(kwargs) or not given.keys() <= set(names):
        return None
    values: dict[str, Any] = {}
    for name, one in fields.items():
        if name in given:
            values[name] = given[name]
        elif one.default_factory is not _MISSING:
            values[name] = one.default_factory()
        elif one.default is not _MISSING:
            values[name] = one.default
        elif one.init:
            return None
    return values


def _init_of(cls: Any, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """Compile the ``__init__`` of a class."""
    fields: Mapping[str, _Field] = vars(cls)[_FIELDS]
    known: dict[str, Any] = {"_missing": _MISSING, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for name, one in fields.items():
        value = name
        if one.default_factory is not _MISSING:
            known[f"_new_{name}"] = one.default_factory
            value = f"_new_{name}() if {name} is _missing else {name}" if one.init else f"_new_{name}()"
            parameters += [f"{name}=_missing"] if one.init else []
        elif one.default is not _MISSING:
            known[f"_usual_{name}"] = one.default
            value = name if one.init else f"_usual_{name}"
            parameters += [f"{name}=_usual_{name}"] if one.init else []
        elif one.init:
            parameters.append(name)
        else:
            continue
        if frozen and slots:
            # Two thirds of the time that `object.__setattr__` takes.
            known[f"_set_{name}"] = getattr(cls, name).__set__
        lines.append(_assignment(name, value, frozen=frozen, slots=slots))
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)  # noqa: S102 - made of the names of a class's own fields
    init: Callable[..., None] = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _assignment(name: str, value: str, *, frozen: bool, slots: bool) -> str:
    if not frozen:
        return f"self.{name} = {value}"
    return f"_set_{name}(self, {value})" if slots else f"_set(self, {name!r}, {value})"


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes these attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807 - is one
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _comparing(fields: Mapping[str, _Field], *, frozen: bool) -> dict[str, Any]:
    compared = _values_of(tuple(name for name, one in fields.items() if one.compare))
    hashed = _values_of(tuple(name for name, one in fields.items() if one.hash))

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - is one
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: object) -> int:  # noqa: N807 - is one
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _state_of(names: tuple[str, ...]) -> dict[str, Any]:
    """What `pickle` and `copy` use, which could set no attribute of a frozen value."""
    values = _values_of(names)

    def __setstate__(self: object, state: tuple[Any, ...]) -> None:  # noqa: N807 - is one
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": lambda self: values(self), "__setstate__": __setstate__}


def _refuse_setting(self: object, name: str, _value: object) -> NoReturn:  # noqa: ARG001 - takes the place of a method
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:  # noqa: ARG001 - as above
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


class _OfTwin:
    """An attribute that is the standard library's of the same dataclass, made when somebody asks."""

    def __init__(self, cls: Any, name: str, *, frozen: bool, eq: bool) -> None:
        self._cls, self._name, self._frozen, self._eq = cls, name, frozen, eq

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses
        from inspect import signature

        if self._name == "__signature__" and (instance is not None or owner is not self._cls):
            raise AttributeError(self._name)
        fields: Mapping[str, _Field] = vars(self._cls)[_FIELDS]
        said = {
            name: dataclasses.field(
                **{word: found for word in _Field.__slots__ if (found := getattr(one, word)) is not _MISSING}
            )
            for name, one in fields.items()
        }
        kinds = {name: kind for base in self._cls.__mro__[::-1] for name, kind in _annotations(base).items()}
        twin = type(self._cls.__name__, (), {"__annotations__": {name: kinds[name] for name in fields}, **said})
        made: Any = dataclasses.dataclass(frozen=self._frozen, eq=self._eq)(twin)
        return signature(made) if self._name == "__signature__" else getattr(made, self._name)


def _replace(one: Any, /, **changes: Any) -> Any:
    """As `dataclasses.replace`, for dataclasses of either kind."""
    fields: Mapping[str, _Field] | None = getattr(one, _FIELDS, None)
    if fields is None:
        from dataclasses import replace

        return replace(one, **changes)
    for name, said in fields.items():
        if said.init:
            changes.setdefault(name, getattr(one, name))
        elif name in changes:
            # The standard library's since Python 3.13, and before.
            kind = TypeError if sys.version_info >= (3, 13) else ValueError
            raise kind(f"field {name} is not one that can be given")
    return type(one)(**changes)


def fields_of(one: Any) -> dict[str, Any]:
    """Return the values of a dataclass by name, as they are: `dataclasses.asdict` copies them, and takes far longer."""
    return {name: getattr(one, name) for name in getattr(one, _FIELDS)}


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _Field, _replace
