"""Every sentence for people: a code with parameters, and one catalogue of templates for each language.

`results.json`, `ops.csv` and `summary.md` are English. A terminal or a page may be in Chinese, with the terms of
MindSpore's and Ascend's Chinese manuals.
"""

from __future__ import annotations

from pytest_msdump.core.text.message import Message, Parameter, encode, in_clauses, in_two_languages, plain_text
from pytest_msdump.core.text.phrases import (
    ENGLISH,
    Phrases,
    beginnings,
    bound_text,
    exponent,
    message_of,
    message_of_note,
    number,
    plain,
    say,
)

__all__ = [
    "ENGLISH",
    "Message",
    "Parameter",
    "Phrases",
    "beginnings",
    "bound_text",
    "encode",
    "exponent",
    "in_clauses",
    "in_two_languages",
    "message_of",
    "message_of_note",
    "number",
    "plain",
    "plain_text",
    "say",
]
