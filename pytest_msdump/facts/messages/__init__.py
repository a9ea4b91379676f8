"""What the terminal says, in English and Chinese: one row for each message, its fields named alike in both.

`results.json`, `ops.csv` and `summary.md` stay English. What a terminal shows of them in Chinese is made from their
numbers and ids, and, where a sentence has neither, from its parts (`partners`, `findings`, `evidence`); the terms are
those of MindSpore's and Ascend's Chinese manuals, and of the page (`reporting.html.words`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.facts.languages import LANGUAGES
from pytest_msdump.facts.messages.row import Message
from pytest_msdump.facts.messages.run import RUN_MESSAGES
from pytest_msdump.facts.messages.tensor import TENSOR_MESSAGES

__all__ = ["LANGUAGES", "MESSAGES", "Message"]

MESSAGES: Mapping[str, Message] = {**RUN_MESSAGES, **TENSOR_MESSAGES}
