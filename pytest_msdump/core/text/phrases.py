"""Sentences of messages: the template of one language, filled with names, numbers and further messages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from pytest_msdump.core.text.commands import COMMANDS, REPLAY
from pytest_msdump.core.text.findings import FINDINGS
from pytest_msdump.core.text.message import LANGUAGES, Message, Rows, Template, plain_text
from pytest_msdump.core.text.sentences import SENTENCES
from pytest_msdump.core.text.unmatched import NOTES, UNMATCHED

# All sentences for people: code → template, in each language; of two, the first is of exactly one `n`. The core's are
# read at once; those of capabilities, which the row ``SENTENCES`` of their ``hooks.py`` names, with the first code that
# is none of the core's.


def _joined(tables: tuple[Rows, ...]) -> dict[str, dict[str, Template]]:
    return {
        language: {code: template for table in tables for code, template in table[place].items()}
        for place, language in enumerate(LANGUAGES)
    }


CATALOGUES: Mapping[str, Mapping[str, Template]] = _joined((FINDINGS, UNMATCHED, SENTENCES, REPLAY, COMMANDS, NOTES))


@cache
def catalogue(language: str) -> Mapping[str, Template]:
    """Return every sentence, also of capabilities."""
    # By its name: it imports errors, whose texts are sentences, too.
    ports = import_module("pytest_msdump.core.ports")
    tables = tuple(map(ports.load, ports.values("SENTENCES").values()))
    return {**CATALOGUES[language], **_joined(tables)[language]}


def say(message: Message, language: str = "en") -> str:
    """Return the sentence of a message in ``"en"`` or ``"zh"``; a `KeyError` if the code or a parameter is missing.

    >>> why = Message("no_operator_of_that_name", {"side": "right"})
    >>> say(why), say(why, "zh")
    ('no operator of that name on the right side', '右侧没有此名称的算子')
    """
    words, parameters = CATALOGUES[language], message.parameters
    template = words[message.code] if message.code in words else catalogue(language)[message.code]
    if not isinstance(template, str):
        template = template[0 if parameters.get("n") == 1 else 1]
    parts = _parts(template)
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0]
    value, limit = parameters.get("value"), parameters.get("limit")
    if isinstance(value, int | float) and isinstance(limit, int | float):
        parameters = {**parameters, **dict(zip(("value", "limit"), apart(value, limit), strict=True))}
    return "".join(
        literal if name is None else literal + _written(parameters[name], spec, language)
        for literal, name, spec in parts
    )


def message_of(entry: Mapping[str, Any], sentence: str) -> Message:
    """Read the message of an entry of results.json: its ``code`` and ``parameters``, as `Message.entry` wrote them."""
    if "code" in entry and "parameters" in entry:
        message = Message.of_entry(entry)
        try:
            say(message)
        except KeyError:
            return plain_text(sentence)
        return message
    return plain_text(sentence)


def beginnings(*codes: str) -> tuple[str, ...]:
    """Return what sentences of these codes begin with, in any language."""
    templates = (catalogue(language)[code] for language in LANGUAGES for code in codes)
    return tuple((one if isinstance(one, str) else one[1]).partition("{")[0] for one in templates)


def message_of_note(sentence: str) -> Message:
    """Read a note on a dump, which dumps and results hold as an English sentence; one of other words stays as it is.

    >>> say(message_of_note("the device's own check reports overflow of Exp-op0"), "zh")
    '设备侧溢出检测报告溢出：Exp-op0'
    """
    for code, pattern, is_one in _note_patterns():
        if fitting := pattern.fullmatch(sentence):
            fields = {name: int(one) if _COUNT.fullmatch(one) else one for name, one in fitting.groupdict().items()}
            return Message(code, {"n": 1, **fields} if is_one else fields)
    return plain_text(sentence)


@lru_cache(maxsize=1)
def _note_patterns() -> Sequence[tuple[str, re.Pattern[str], bool]]:
    """Return a pattern of each template of a note, and whether it is a singular; those that say most come first."""
    notes = {code: template for code, template in CATALOGUES["en"].items() if code.startswith(_OF_NOTES)}
    rows = [(code, one, one != pair[-1]) for code, pair in notes.items() if isinstance(pair, tuple) for one in pair]
    rows += [(code, one, False) for code, one in notes.items() if isinstance(one, str)]
    rows.sort(key=lambda row: -sum(len(literal) for literal, *_ in _parts(row[1])))
    return [(code, re.compile("".join(map(_pattern, _parts(one))), re.DOTALL), is_one) for code, one, is_one in rows]


def _pattern(part: tuple[str, str | None, str]) -> str:
    literal, name, spec = part
    if name is None:
        return re.escape(literal)
    if spec not in _COUNTED:
        return f"{re.escape(literal)}(?P<{name}>.+)"
    nouns = "|".join(re.escape(one.partition("}")[2]) for one in CATALOGUES["en"][spec])
    return f"{re.escape(literal)}(?P<{name}>[0-9]+)(?:{nouns})"


# {name} or {name:spec}
_FIELD = re.compile(r"\{(\w+)(?::([^}]*))?\}")


@lru_cache(maxsize=1024)
def _parts(template: str) -> list[tuple[str, str | None, str]]:
    texts = iter([*_FIELD.split(template), None, None])
    return [(literal or "", name, spec or "") for literal, name, spec in zip(texts, texts, texts, strict=True)]


def _written(value: object, spec: str, language: str) -> str:
    """Write one parameter; one of a wrong type, as an edited file may have, is written as it is."""
    if value is None:
        return ""
    if isinstance(value, Message):
        return say(value, language)
    words = CATALOGUES[language]
    if spec == "metric" and isinstance(value, str):
        # By its name, as `ports` above.
        return str(import_module("pytest_msdump.core.facts.metrics").title_of(value, language))
    if spec == "word" and isinstance(value, str):
        # Elsewhere an operator may be called so.
        return str(words[value]) if value in _WORDS else value
    if spec == "place" and value == ():
        return str(words["only_element"])
    if isinstance(value, tuple):
        if spec in ("index", "place"):
            return str(list(value))
        if spec == "shape":
            return str(value)
        between = words[_BETWEEN.get(spec, "between_names")]
        return str(between).join(_written(one, "", language) for one in value)
    if isinstance(value, int | float):
        if spec in _COUNTED:
            return say(Message(spec, {"n": value}), language)
        if spec in _NUMBERS:
            return _NUMBERS[spec](value)
        return format(value, spec) if spec[-1:] in ("g", "f") else number(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Phrases:
    """One language, ``"en"`` or ``"zh"``; `shown` are names of operators by which people know them.

    >>> Phrases("en")("count_cause", n=1), Phrases("zh")("count_cause", n=1)
    ('1 cause', '1 个起因')
    """

    language: str = "en"
    shown: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __call__(self, code: str, /, **parameters: Any) -> str:
        """Return the message with its fields filled in."""
        return say(Message(code, parameters), self.language)

    @property
    def is_english(self) -> bool:
        """Whether it is the language in which files hold sentences."""
        return self.language == ENGLISH.language

    def calling(self, shown: Mapping[str, str]) -> Phrases:
        """Return the same language with the names under which operators of a run are shown."""
        return Phrases(self.language, shown) if shown else self

    def name(self, name: str) -> str:
        """Return the name under which an operator or a tensor is shown.

        >>> Phrases("en", {"node_linear_3": "blocks.0.down"}).name("node_linear_3:output:0")
        'blocks.0.down:output:0'
        """
        op, io, slot = name.rpartition(":input:") if ":input:" in name else name.rpartition(":output:")
        return self.shown.get(name) or (self.shown.get(op, op) + io + slot)

    def knows(self, code: str) -> bool:
        """Whether the catalogue has a message; files may hold codes of another release."""
        return code in CATALOGUES[self.language] or code in catalogue(self.language)

    def of(self, message: Message) -> str:
        """Return a message in this language."""
        return say(message, self.language)

    def joined(self, parts: Iterable[str], between: str = "between_parts") -> str:
        """Join parts of a sentence by the message `between`."""
        return self(between).join(parts)

    def named(self, names: Iterable[str], most: int) -> str:
        """Name the first few of many, and say how many more there are."""
        listed = list(names)
        text = self.joined(listed[:most], "between_names")
        return self("names_and_more", names=text, n=len(listed) - most) if len(listed) > most else text


ENGLISH = Phrases("en")


def plain(value: Any, digits: int = 6) -> str:
    """Write a number with at most `digits` significant digits, an integer whole unless it is too long for a line."""
    if isinstance(value, complex):
        imaginary = plain(value.imag, digits)
        return f"{plain(value.real, digits)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if isinstance(value, int):
        text = str(value) if value.bit_length() < 80 else ""
        return text if 0 < len(text) <= _LONGEST_INTEGER_DIGITS else f"{Decimal(value):.5e}"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")
    return f"{value:.{digits}g}"


def exponent(value: float, digits: int) -> str:
    """Write a number as a mantissa of at most so many digits, and its exponent."""
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{power}"


def number(value: float | int, digits: int = 6) -> str:
    """Write a measured value: integers whole, others with six digits, small and large ones with three and an exponent.

    >>> number(0.98761234), number(0.00023), number(37), number(float("nan"))
    ('0.987612', '2.3e-04', '37', 'NaN')
    """
    if isinstance(value, int):
        return str(int(value))
    is_plain = not math.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e6
    return plain(value, digits) if is_plain else exponent(value, 3)


def bound_text(bound: float | int) -> str:
    """Write a limit so that typing it back gives the same limit.

    >>> bound_text(0.999), bound_text(1.0), bound_text(1e-7)
    ('0.999', '1', '1e-07')
    """
    # float() first: the repr of NumPy's float64, which is a float too, holds its name.
    return repr(float(bound) if isinstance(bound, float) else bound).removesuffix(".0")


def apart(value: float | int, bound: float | int) -> tuple[str, str]:
    """Write a value and its limit so that the two texts compare as the two numbers do."""
    limit = bound_text(bound)
    if isinstance(value, int):
        return number(value), limit
    for text in (number(value), *(f"{value:.{digits}g}" for digits in range(7, 17))):
        if _order(float(text), bound) == _order(value, bound):
            return text, limit
    return bound_text(value), limit


def _order(value: float | int, bound: float | int) -> int:
    """-1, 0 or 1 as the value lies below, on or above; NaN counts as on."""
    return int(value > bound) - int(value < bound)


def _percent(share: float) -> str:
    """Write a share so that only all is 100 %."""
    text = f"{100 * share:.4g}" if share < 0.9999 else f"{100 * share:.6f}".rstrip("0").rstrip(".")
    return f"{text} %"


def _short(value: float) -> str:
    """Write a number in few digits, a whole one as it is."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else f"{value:.6g}"


def _rough(value: float | int) -> str:
    """Write two digits of a large number: what a mask is near."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


_LONGEST_INTEGER_DIGITS = 24
# What stands behind the colon of a field → how its number is written, and what stands between the items of a list.
_NUMBERS: Mapping[str, Callable[[Any], str]] = {
    "number": number,
    "limit": bound_text,
    "percent": _percent,
    "short": _short,
    "rough": _rough,
}
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
# How codes of notes begin.
_OF_NOTES = (
    *("note_", "perturbed_run", "flat_steps", "given_", "batch_norm_folded", "shards_joined", "ranks_absent"),
    *("weights_of_one_step", "weights_saved_", "random_operators", "goes_on"),
    # What spoke for a pair by structure.
    *("same_scope", "same_graph", "own_outputs"),
)
# Codes that a field may name: how its number is said with its noun.
# What a parameter may say that has a word in each language.
_WORDS = ("left", "right", "golden", "third", "input", "output")
_COUNTED = (
    *("elements", "n_tensors", "n_operators", "n_files", "n_pairs", "n_runs", "n_calls", "n_outputs", "n_weights"),
    *("n_parameters", "n_rows", "n_entries", "n_right", "n_older"),
)
_BETWEEN = {"and": "between_sources", "clauses": "between_clauses"}
