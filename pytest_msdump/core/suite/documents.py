"""TOML and JSON files that people write: what cannot be read is one line that begins with the place."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.files import read_user_file, unique_keys

# A suite file of this size would hold a hundred thousand map entries; beyond it, it is some other file.
MOST_BYTES = 16 * 1024 * 1024

# A parser of TOML takes minutes for a key of some ten thousand parts; the deepest of ours has four. The expression
# starts at the beginning of a part, so that its time is linear.
_MOST_PARTS = 100
_DEEP_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_MOST_PARTS}}}""", re.ASCII)
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def path_in_messages(path: Path, start: Path | None = None) -> str:
    """Return a file's path for messages: relative to `start` (default: the working directory) when it is below."""
    start = Path.cwd() if start is None else start
    return path.relative_to(start).as_posix() if path.is_relative_to(start) else str(path)


def read_toml(path: Path, *, name: str | None = None) -> Mapping[str, Any]:
    """Read a TOML file; ConfigError, with its `name`, unless it is a regular one of 16 MiB at most, UTF-8 and TOML."""
    name = name or path_in_messages(path)
    return parse_toml(_read(path, name), name)


def parse_toml(raw: bytes, name: str) -> Mapping[str, Any]:
    """Return what `read_toml` does, of the content of a file."""
    text = _decoded(raw, name)
    deep = _DEEP_KEY.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError(f"{name} line {line}: a key of more than {_MOST_PARTS} parts; is it the right file?")
    try:
        # By name, since a type checker set to 3.10 would require tomli on every Python.
        toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        document: Mapping[str, Any] = toml.loads(text)
    except RecursionError:
        raise ConfigError(f"{name}: arrays or tables are nested too deeply") from None
    except ValueError as error:
        # Not only TOMLDecodeError: an integer of too many digits, or a date that does not exist, is a bare ValueError.
        raise ConfigError(_toml_sentence(str(error), text, name)) from None
    return document


def _toml_sentence(message: str, text: str, name: str) -> str:
    """Move the place that tomllib puts last to the front, where editors look for it."""
    matched = _TOML_PLACE.search(message)
    if matched is None:
        return f"{name}: {' '.join(message.split())}"
    what = " ".join(message[: matched.start()].split())
    lines = text.split("\n")
    line, column = matched[1] or len(lines), matched[2] or len(lines[-1]) + 1
    return f"{name} line {line} column {column}: {what}"


def read_json(path: Path, *, name: str | None = None, most_bytes: int = MOST_BYTES) -> Any:
    """Read a JSON file of at most so many bytes, as `read_toml` reads TOML."""
    name = name or path_in_messages(path)
    text = _decoded(_read(path, name, most_bytes), name)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} line {error.lineno} column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{name}: not valid JSON: {error}") from None


def _read(path: Path, name: str, most_bytes: int = MOST_BYTES) -> bytes:
    return read_user_file(path, most_bytes, name=name, want="check which file was named")


def _decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{name} line {line} column {column}: not UTF-8 (byte 0x{raw[error.start]:02x})") from None
