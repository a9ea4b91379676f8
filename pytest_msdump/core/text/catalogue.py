"""All sentences for people: code → template, in each language; of two, the first is of exactly one `n`.

The core's are read at once; those of capabilities, which the row ``SENTENCES`` of their ``hooks.py`` names, with the
first code that is none of the core's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from pytest_msdump.core.text.commands import COMMANDS, REPLAY
from pytest_msdump.core.text.findings import CAUSES, FINDINGS
from pytest_msdump.core.text.message import LANGUAGES, Rows, Template
from pytest_msdump.core.text.sentences import SENTENCES
from pytest_msdump.core.text.unmatched import NOTES, UNMATCHED


def _joined(tables: tuple[Rows, ...]) -> dict[str, dict[str, Template]]:
    return {
        language: {code: template for table in tables for code, template in table[place].items()}
        for place, language in enumerate(LANGUAGES)
    }


CATALOGUES: Mapping[str, Mapping[str, Template]] = _joined(
    (CAUSES, FINDINGS, UNMATCHED, SENTENCES, REPLAY, COMMANDS, NOTES)
)


@cache
def catalogue(language: str) -> Mapping[str, Template]:
    """Return every sentence, also of capabilities."""
    # By its name: it imports errors, whose texts are sentences, too.
    ports = import_module("pytest_msdump.core.ports")
    tables = tuple(map(ports.load, ports.values("SENTENCES").values()))
    return {**CATALOGUES[language], **_joined(tables)[language]}
