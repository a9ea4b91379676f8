"""Catalogues as tables: a sentence a row, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

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
