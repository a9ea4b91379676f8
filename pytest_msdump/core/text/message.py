"""A message: a code and its parameters, before any language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from numbers import Integral
from typing import Any, TypeAlias, Union

# Catalogues as tables: a sentence a row, in English and in Chinese.

Template: TypeAlias = str | tuple[str, str]
# English, Chinese: code → template.
Rows: TypeAlias = tuple[Mapping[str, Template], Mapping[str, Template]]


def read_rows(table: str) -> Rows:
    """Return the English and the Chinese catalogue of a table.

    A row is a code, the English template, of some sentences their plural as well, and the Chinese one, with ``" | "``
    between them. Rows that begin with ``#`` are titles.

    >>> read_rows("n_files | {n} file | {n} files | {n} 个文件")
    ({'n_files': ('{n} file', '{n} files')}, {'n_files': '{n} 个文件'})
    """
    english: dict[str, Template] = {}
    chinese: dict[str, Template] = {}
    for row in table.strip("\n").split("\n"):
        if row.startswith("#"):
            continue
        code, *templates, chinese[code] = row.split(" | ")
        english[code] = templates[0] if len(templates) == 1 else (templates[0], templates[1])
    return english, chinese


Parameter: TypeAlias = Union[str, float, int, "Message", tuple["Parameter", ...], None]

LANGUAGES = ("en", "zh")

# Parameters that may be NaN or Inf; a text of any other stays a text.
_NUMBERS = frozenset({"value", "limit", "left", "right", "low", "high", "share", "correlation", "apart", "chance"})
NONFINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence, or a part of one.

    `code` is a key of `text.phrases`, `parameters` are the fields of its templates:
    names, numbers, indexes, further messages. They are never changed once it is made.

    >>> Message("older_run").entry
    {'code': 'older_run', 'parameters': {}}
    """

    code: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, *self.parameters.items()))

    @property
    def entry(self) -> dict[str, Any]:
        """The message as results.json has it: ``code`` and ``parameters``, plain JSON values."""
        return {"code": self.code, "parameters": {name: _encoded(one) for name, one in self.parameters.items()}}

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Message:
        """Read what `entry` returned."""
        return cls(entry["code"], {name: _decoded(one, name) for name, one in entry["parameters"].items()})


def plain_text(text: str) -> Message:
    """Return a message that is the same text in every language: of an error, a plugin, an earlier release."""
    return Message("text", {"text": text})


def in_two_languages(english: str, chinese: str) -> Message:
    """Return a message whose sentence no catalogue has, as of a stranger's capability; results keep both languages."""
    return Message("in_two_languages", {"en": english, "zh": chinese})


def in_clauses(*messages: Message | None) -> Message:
    """Join messages as clauses of one; ``None`` is left out, and a single one stays as it is."""
    parts = tuple(message for message in messages if message is not None)
    return parts[0] if len(parts) == 1 else Message("clauses", {"parts": parts})


def _encoded(value: Parameter) -> Any:
    if isinstance(value, Message):
        return value.entry
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]
    return value if isinstance(value, str) else encode(value)


def encode(value: Any) -> Any:
    """Return a number, or a tuple of them, as strict JSON can hold it."""
    if type(value) is int or value is None or (type(value) is float and -inf < value < inf):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    # NumPy's numbers are not JSON's.
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, complex):
        return [encode(value.real), encode(value.imag)]
    if isfinite(value):
        return float(value)
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _decoded(value: Any, name: str = "") -> Parameter:
    if isinstance(value, dict):
        return Message.of_entry(value)
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    return NONFINITE.get(value, value) if name in _NUMBERS and isinstance(value, str) else value
