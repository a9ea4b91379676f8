"""Protobuf's text format: only what a schema asks for is kept.

References: Protocol Buffers documentation, "Text Format Language Specification".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pytest_msdump.core.errors import ConfigError

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
    """The fields of a message that are kept: the schema of a message, or ``None`` for a single value."""

    fields: dict[str, Schema | None]
    repeated: frozenset[str] = frozenset()
    is_wanted: Callable[[Mapping[str, Any]], bool] | None = field(default=None, repr=False)


def parse_text(text: str, schema: Schema, *, source: str) -> dict[str, Any]:
    """Read a message as Python values: texts, whole numbers, true and false; names of enumerations as texts."""
    # Messages that have begun: schema, or None where they are not kept; what is kept; the name of the field.
    waiting: list[tuple[Schema | None, dict[str, Any], str]] = [(schema, {}, "")]
    for kind, name, word, _ in messages(text, source=source):
        of, kept, _ = waiting[-1]
        if kind == "open":
            waiting.append((of.fields.get(name) if of else None, {}, name))
        elif kind == "close":
            _, message, name = waiting.pop()
            if of is not None and (of.is_wanted is None or of.is_wanted(message)):
                _keep(*waiting[-1][:2], name, message)
        elif of is not None and of.fields.get(name, of) is None:
            _keep(of, kept, name, _value(kind, word))
    return waiting[0][1]


def _keep(schema: Schema | None, kept: dict[str, Any], name: str, value: Any) -> None:
    if schema is None or name not in schema.fields:
        return
    if name in schema.repeated:
        kept.setdefault(name, []).append(value)
    else:
        kept[name] = value


def _value(kind: str, word: str) -> Any:
    if kind == "text":
        return unescaped(word[1:-1])
    if kind == "number":
        return int(word) if _WHOLE.fullmatch(word) else word
    return _WORDS.get(word, word)


def messages(text: str, *, source: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield what a text holds: kind, field, word as written, and its position in the text."""
    ends: list[str] = []
    name, in_list = "", False
    for kind, word, start in _tokens(text, source):
        if kind == "name" and not name:
            name = word
        elif kind != "sign":
            if not name:
                refuse(text, start, source=source)
            yield kind, name, word, start
            name = name if in_list else ""
        elif word in "{<" and name:
            ends.append("}" if word == "{" else ">")
            yield "open", name, word, start
            # Lists of messages are not read: their brackets are refused.
            name, in_list = "", False
        elif ends and word == ends[-1] and not name:
            ends.pop()
            yield "close", "", word, start
        elif word in "[]" and name and in_list == (word == "]"):
            name, in_list = ("", False) if in_list else (name, True)
        elif word != ":" or not name:
            refuse(text, start, source=source)
    if ends or name:
        refuse(text, len(text), source=source)


def _tokens(text: str, source: str) -> Iterator[tuple[str, str, int]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            refuse(text, position, source=source)
        if match.lastgroup != "space":
            yield match.lastgroup, match[0], position
        position = match.end()


def refuse(text: str, position: int, *, source: str) -> NoReturn:
    """Raise the ConfigError that a text is not in text format at a position; its end is where it was cut off."""
    line = text.count("\n", 0, position) + 1
    if position >= len(text):
        raise ConfigError(f"{source}: cut off, it ends within a message")
    raise ConfigError(f"{source}: not Protobuf text, line {line}: {text[position : position + 20]!r}")


def unescaped(text: str) -> str:
    r"""Return what stands between quotes, its escapes undone."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_letter, text.encode("utf-8", errors="replace")).decode("utf-8", errors="replace")


def _letter(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
    return _LETTERS.get(letter, letter)


PHASES = ("TEST", "TRAIN")
_LAYERS = ("layer", "layers")
# Networks nest three deep.
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """A name and where its literal stands, quotes included: ``text[start:stop]``."""

    name: str
    start: int
    stop: int


@dataclass(slots=True)
class CaffeLayer:
    """One layer: types of old files are words such as ``RELU``; `bottoms` and `tops` are the blobs it reads and writes.

    `include` and `exclude` are its rules for states of the net: field → values as written.
    """

    name: str = ""
    type: str = ""
    bottoms: list[BlobPlace] = field(default_factory=list)
    tops: list[BlobPlace] = field(default_factory=list)
    include: list[dict[str, list[str]]] = field(default_factory=list)
    exclude: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def in_place(self) -> list[int]:
        """Indexes of the tops that are written over a bottom."""
        read = {bottom.name for bottom in self.bottoms}
        return [index for index, top in enumerate(self.tops) if top.name in read]


def read_layers(text: str, *, source: str) -> list[CaffeLayer]:
    """Read the layers of a prototxt file in its order; messages call it `source`."""
    layers: list[CaffeLayer] = []
    path: list[str] = []
    for kind, name, word, start in messages(text, source=source):
        if kind == "open" and len(path) >= _DEEPEST:
            refuse(text, start, source=source)
        if kind == "close":
            path.pop()
        elif kind == "open":
            path.append(name)
            if path[0] in _LAYERS:
                if len(path) == 1:
                    layers.append(CaffeLayer())
                elif path[1:] == ["include"]:
                    layers[-1].include.append({})
                elif path[1:] == ["exclude"]:
                    layers[-1].exclude.append({})
        elif path and path[0] in _LAYERS:
            _keep_word(layers[-1], path[1:], name, word, start)
        elif not path and name in _LAYERS:
            layers.append(CaffeLayer())
    if not layers:
        raise ConfigError(f"{source}: has no layer; give the prototxt file of a Caffe network")
    for number, layer in enumerate(layers, 1):
        if not layer.name:
            raise ConfigError(f"{source}: layer {number} has no name; give it one")
    return layers


def _keep_word(layer: CaffeLayer, path: Sequence[str], name: str, word: str, start: int) -> None:
    plain = unescaped(word[1:-1]) if word[0] in "\"'" else word
    if not path and name in ("name", "type"):
        setattr(layer, name, plain)
    elif not path and name in ("bottom", "top"):
        (layer.bottoms if name == "bottom" else layer.tops).append(BlobPlace(plain, start, start + len(word)))
    elif not path and name in ("include", "exclude"):
        (layer.include if name == "include" else layer.exclude).append({})
    elif list(path) in (["include"], ["exclude"]):
        rules = layer.include if path[0] == "include" else layer.exclude
        rules[-1].setdefault(name, []).append(word.strip("\"'"))


def layers_in_phase(layers: Sequence[CaffeLayer], phase: str) -> list[CaffeLayer]:
    """Return the layers that the net has in a phase (of level 0, without stages), as Caffe chooses them."""
    return [
        layer
        for layer in layers
        if (not layer.include or any(_applies(rule, phase) for rule in layer.include))
        and not any(_applies(rule, phase) for rule in layer.exclude)
    ]


def _applies(rule: Mapping[str, Sequence[str]], phase: str) -> bool:
    last = {name: values[-1] for name, values in rule.items()}
    level_fits = _level(last.get("min_level", "0")) <= 0 <= _level(last.get("max_level", "0"))
    # Enumerations may be written as numbers: TRAIN is 0, TEST 1.
    phase_fits = last.get("phase", phase) in (phase, "1" if phase == "TEST" else "0")
    return level_fits and phase_fits and "stage" not in rule


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
