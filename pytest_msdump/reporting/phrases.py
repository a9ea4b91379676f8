"""Says a message of `facts.messages` in one language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_msdump.facts.messages import MESSAGES

__all__ = ["ENGLISH", "Phrases"]


@dataclass(frozen=True, slots=True)
class Phrases:
    """One language.

    Parameters
    ----------
    language : str
        ``"en"`` or ``"zh"``.

    Examples
    --------
    >>> Phrases("en")("count_cause", n=1), Phrases("zh")("count_cause", n=1)
    ('1 cause', '1 个起因')
    """

    language: str = "en"

    def __call__(self, message: str, /, **fields: object) -> str:
        """Return the message with its fields filled in; a field is text, never a template itself."""
        fact = MESSAGES[message]
        if self.language == "zh":
            template = fact.zh
        else:
            template = fact.one if fact.one is not None and fields.get("n") == 1 else fact.en
        return template.format(**fields)

    def joined(self, parts: Iterable[str], between: str = "between_parts") -> str:
        """Join parts of a sentence by the message `between`."""
        return self(between).join(parts)

    def named(self, names: Iterable[str], most: int) -> str:
        """Name the first few of many, and say how many more there are."""
        listed = list(names)
        text = self.joined(listed[:most], "between_names")
        return self("names_and_more", names=text, n=len(listed) - most) if len(listed) > most else text


ENGLISH = Phrases("en")
