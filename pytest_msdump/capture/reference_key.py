"""What a kept reference depends on, as one digest. The same on every machine and with every release of Python."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pytest_msdump.capture.digests import digest
from pytest_msdump.errors import ConfigError
from pytest_msdump.storage.regular import open_regular

__all__ = ["key_digest"]

# A bool is an int; what is told of a number or text is the builtin's, whatever type extends it.
_PLAIN: tuple[Any, ...] = (str, bytes, bool, int, float, complex, type(None))
_READ_BYTES = 2**20
_CODE = (FunctionType, MethodType, ModuleType, type)


def key_digest(*values: Any) -> str:
    """Return the digest of everything that a reference depends on.

    Parameters
    ----------
    *values : object
        Texts, numbers, arrays of any framework; paths (the content of the file, or of all files of the folder);
        functions, classes and modules (their code without comments and empty lines, and without the values of
        names that it uses from outside); and lists, tuples, sets, mappings and dataclasses of these.

    Raises
    ------
    ConfigError
        Something whose content cannot be told.

    Examples
    --------
    >>> key_digest({"a": 1, "b": [2.5]}) == key_digest({"b": [2.5], "a": 1}), key_digest(1) == key_digest("1")
    (True, False)
    """
    return hashlib.sha256(_told(values).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _told(value: Any) -> str:
    """A text that differs wherever the value does."""
    for kind in _PLAIN:
        if isinstance(value, kind):
            return f"{kind.__name__} {kind.__repr__(value)}"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_told(name)}:{_told(item)}" for name, item in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_told, value))) + ">"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_told, value)) + "]"
    if isinstance(value, Path):
        return f"path {_content(value)}"
    if isinstance(value, _CODE):
        return f"code {_code(value)}"
    if isinstance(value, partial):
        return f"partial {_told([value.func, value.args, value.keywords])}"
    if is_dataclass(value):
        return f"{_name(type(value))} {_told({field.name: getattr(value, field.name) for field in fields(value)})}"
    try:
        return f"array {digest(value)}"
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the key of a reference holds a {type(value).__name__}, whose content cannot be told; "
            "give what it is made of: texts, numbers, arrays, functions, paths"
        ) from error


def _content(path: Path) -> str:
    """Digest of a file, or of all files below a folder with their names."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "".join(f"{file.relative_to(path).as_posix()}\0{_content(file)}\0" for file in files)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise ConfigError(f"the key of a reference names {path}, which cannot be read: {error.strerror}") from error


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _code(value: Any) -> str:
    """A function's code, dedented, without empty lines and those that hold a comment alone."""
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the key of a reference holds {_name(value)}, whose code cannot be found; "
            "give a text that names its version"
        ) from error
    lines = (line.rstrip() for line in dedent(source).splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))
