"""The forms of the engine's sentences, and how each is known again and said in Chinese."""

from __future__ import annotations

import re
from functools import lru_cache
from string import Formatter

from pytest_msdump.facts.messages.evidence import EVIDENCE_SENTENCES
from pytest_msdump.facts.messages.findings import FINDING_SENTENCES
from pytest_msdump.facts.messages.partners import REASON_SENTENCES

__all__ = ["KINDS", "SENTENCES", "WORDS", "chinese"]

SENTENCES = (*REASON_SENTENCES, *FINDING_SENTENCES, *EVIDENCE_SENTENCES)
WORDS = {"left": "左侧", "right": "右侧", "input": "输入", "output": "输出", "inputs": "输入", "outputs": "输出"}
# Field → what stands there; anything may stand in the others.
KINDS = {
    **dict.fromkeys(("n", "m", "k"), r"\d+"),
    **dict.fromkeys(("side", "other"), "left|right"),
    **dict.fromkeys(("n_elements", "m_elements"), r"\d+ elements?"),
    "io": "inputs?|outputs?",
}
_DEEPEST = 3


@lru_cache(maxsize=4096)
def chinese(sentence: str, depth: int = 0) -> str:
    """Return the sentence in Chinese, or itself where no form is known; `depth` counts the sentences around it."""
    for form, template in _forms():
        found = form.fullmatch(sentence)
        if found is not None:
            parts = {name: _part(name, text, depth) for name, text in found.groupdict().items()}
            return template.format(**parts)
    return sentence


def _part(name: str, text: str, depth: int) -> str:
    if name in ("why", "whys") and depth < _DEEPEST:
        parts = text.split(", ") if name == "whys" else [text]
        return "、".join(chinese(part, depth + 1) for part in parts)
    if name.endswith("_elements"):
        return text.partition(" ")[0]
    # Elsewhere an operator may be called so.
    return WORDS[text] if name in ("side", "other", "io") else text


@lru_cache(maxsize=1)
def _forms() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(_pattern(english), re.DOTALL), chinese) for english, chinese in SENTENCES]


def _pattern(english: str) -> str:
    """The form as a pattern; no field stands there twice."""
    parts = []
    for literal, name, _, _ in Formatter().parse(english):
        parts.append(re.escape(literal))
        parts += [] if name is None else [f"(?P<{name}>{KINDS.get(name, '.+?')})"]
    return "".join(parts)
