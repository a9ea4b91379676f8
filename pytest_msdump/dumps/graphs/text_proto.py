"""Protobuf's text format, as far as a schema asks for it; what it does not ask for is stepped over, not kept.

References
----------
Protocol Buffers documentation, "Text Format Language Specification".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pytest_msdump.errors import ConfigError

__all__ = ["Schema", "parse_text", "refuse", "tokens", "unescaped"]

_TOKEN = re.compile(
    r"(?P<space>[\s,;]+|#[^\n]*)"
    r"|(?P<name>[A-Za-z_][\w.]*|\[[\w./]+\](?=\s*[:{]))"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<number>[-+]?[0-9.][\w.+-]*|-\s*[A-Za-z]+)"
    r"|(?P<sign>[{}<>:\[\]])"
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")
_WORDS: Mapping[str, bool] = {"true": True, "false": False}


@dataclass(slots=True)
class Schema:
    """The fields of a message that are kept.

    Parameters
    ----------
    fields : dict
        By name: the schema of a message, or ``None`` for a single value.
    repeated : frozenset of str
        Those that may be there more than once; they become lists.
    is_wanted : callable, optional
        Asked when a message is complete; what it does not want is dropped.
    """

    fields: dict[str, Schema | None]
    repeated: frozenset[str] = frozenset()
    is_wanted: Callable[[Mapping[str, Any]], bool] | None = field(default=None, repr=False)


class _Open:
    """A message that has begun: what is kept of it, or `None`, and the name of the field it is."""

    def __init__(self, schema: Schema | None, name: str = "", end: str = "") -> None:
        self.schema = schema
        self.name = name
        self.end = end
        self.kept: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Keep a value, where the schema asks for it."""
        if self.schema is None or name not in self.schema.fields:
            return
        if name in self.schema.repeated:
            self.kept.setdefault(name, []).append(value)
        else:
            self.kept[name] = value


def parse_text(text: str, schema: Schema, *, source: str) -> dict[str, Any]:
    """Read a message in text format.

    Parameters
    ----------
    text : str
        The whole text.
    schema : Schema
        What to keep of it.
    source : str
        What messages call the text.

    Returns
    -------
    dict
        Fields as Python values: texts, whole numbers, true and false; names of enumerations as texts.

    Raises
    ------
    ConfigError
        It is not in text format, or cut off.
    """
    return _Parser(text, schema, source).parsed()


class _Parser:
    def __init__(self, text: str, schema: Schema, source: str) -> None:
        self._text = text
        self._source = source
        self._open = [_Open(schema)]
        self._field = ""
        self._in_list = False

    def parsed(self) -> dict[str, Any]:
        """Go through the tokens; messages that are open wait on a stack."""
        for kind, word, start in tokens(self._text, source=self._source):
            if kind == "sign":
                self._sign(word, start)
            elif kind == "name" and not self._field:
                self._field = word
            elif not self._field:
                self._fail(start)
            else:
                self._add(self._value(kind, word))
        if len(self._open) > 1 or self._field:
            self._fail(len(self._text))
        return self._open[0].kept

    def _sign(self, word: str, start: int) -> None:
        top = self._open[-1]
        if word in "{<" and self._field:
            of_field = top.schema.fields.get(self._field) if top.schema else None
            self._open.append(_Open(of_field, self._field, "}" if word == "{" else ">"))
            self._field, self._in_list = "", False
        elif word == top.end and not self._field:
            self._open.pop()
            is_wanted = top.schema.is_wanted if top.schema else None
            if top.schema is not None and (is_wanted is None or is_wanted(top.kept)):
                self._open[-1].add(top.name, top.kept)
        elif word == "[" and self._field:
            self._in_list = True
        elif word == "]" and self._in_list:
            self._field, self._in_list = "", False
        elif word != ":" or not self._field:
            self._fail(start)

    def _add(self, value: Any) -> None:
        top = self._open[-1]
        if top.schema is not None and top.schema.fields.get(self._field, top.schema) is None:
            top.add(self._field, value)
        if not self._in_list:
            self._field = ""

    def _value(self, kind: str, word: str) -> Any:
        schema = self._open[-1].schema
        if schema is None or self._field not in schema.fields:
            return None
        if kind == "text":
            return unescaped(word[1:-1])
        if kind == "number":
            return int(word) if _WHOLE.fullmatch(word) else word
        return _WORDS.get(word, word)

    def _fail(self, position: int) -> NoReturn:
        refuse(self._text, position, source=self._source)


def tokens(text: str, *, source: str) -> Iterator[tuple[str, str, int]]:
    """Yield the words of a text: their kind (``name``, ``text``, ``number``, ``sign``), as written, and where.

    Raises
    ------
    ConfigError
        Something that is no word of the text format.
    """
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            refuse(text, position, source=source)
        if match.lastgroup != "space":
            yield match.lastgroup, match[0], position
        position = match.end()


def refuse(text: str, position: int, *, source: str) -> NoReturn:
    """Say where a text is not in text format; its end is where it was cut off.

    Raises
    ------
    ConfigError
        Always.
    """
    line = text.count("\n", 0, position) + 1
    if position >= len(text):
        raise ConfigError(f"{source}: cut off, it ends within a message")
    raise ConfigError(f"{source}: not Protobuf text, line {line}: {text[position : position + 20]!r}")


def unescaped(text: str) -> str:
    r"""Return what stands between quotes, its escapes undone.

    Examples
    --------
    >>> unescaped(r"a\tb\x63")
    'a\tbc'
    """
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_letter, text.encode("utf-8", errors="replace")).decode("utf-8", errors="replace")


def _letter(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
    return _LETTERS.get(letter, letter)
