"""Attributes of an operator, as a line of MindSpore's IR has them behind its operands.

References
----------
Files of MindSpore 2.10: ``primitive_attrs: {pad_mode: "same", stride: (1, 1, 2, 2), mode: I64(1)}``; samples of 1.3 and
1.5 have the same braces with values without types and quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["attributes_text", "parse_attributes"]

_BEGIN = re.compile(r"[)}]\s*primitive_attrs: \{")
_VALUE = r'(?:Bool|U?I(?:nt)?[0-9]+|B?F(?:loat)?[0-9]+)\([^()%]{0,40}\)|"[^"]{0,200}"'
_LITERAL = re.compile(rf"(?:{_VALUE})|\((?:(?:{_VALUE})(?:, (?:{_VALUE})){{0,15}})?\)")
_INTERESTING = re.compile(r'["()\[\]{},]')
_OPEN, _CLOSE = "([{", ")]}"
_LONGEST = 4096

# What the compiler keeps for itself; it differs between runs of one program.
_BOOKKEEPING = frozenset(
    {
        "IsFeatureMapInputList",
        "IsFeatureMapOutput",
        "checkpoint",
        "compile_info",
        "input_names",
        "is_dynamic_len",
        "output_names",
        "output_used_num",
        "pri_format",
        "side_effect_mem",
        "unique_id",
        "visited",
    }
)


def attributes_text(call: str) -> str:
    """Return what a line tells of an operator's attributes, as yet unread; empty where there are none.

    Parameters
    ----------
    call : str
        The line from behind the bracket that begins the operands. Operands that are written down as values are
        attributes, too: newer releases have them there.
    """
    return ", ".join(filter(None, (*_literals(call), _between_braces(call))))


def _literals(call: str) -> Iterator[str]:
    """Yield each operand that is a number, a truth value, a text, or a tuple of such, with its place."""
    end = next(_ends(call), len(call))
    for slot, part in enumerate(_parts(call[: min(end, _LONGEST)])):
        if _LITERAL.fullmatch(part.strip()):
            yield f"operand {slot}: {part.strip()}"


def _ends(text: str) -> Iterator[int]:
    """Yield where a bracket closes that was not opened."""
    depth = 0
    for position, letter in _letters(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth < 0:
            yield position
            return


def _between_braces(line: str) -> str:
    match = _BEGIN.search(line)
    if match is None:
        return ""
    text = line[match.end() : match.end() + _LONGEST]
    end = next(_ends(text), None)
    # Cut short, or longer than any: the last one would be half a value.
    return text.rpartition(", ")[0] if end is None else text[:end]


def parse_attributes(text: str) -> Mapping[str, str]:
    """Return attributes by name, without those that the compiler keeps for itself.

    Examples
    --------
    >>> parse_attributes('pad_mode: "same", stride: (1, 1, 2, 2), IsFeatureMapOutput: Bool(1), compile_info: ')
    {'pad_mode': '"same"', 'stride': '(1, 1, 2, 2)'}
    """
    named = (part.partition(":") for part in _parts(text))
    return {
        name.strip(): value.strip()
        for name, colon, value in named
        if colon and name.strip() and name.strip() not in _BOOKKEEPING
    }


def _parts(text: str) -> Iterator[str]:
    depth = begin = 0
    for position, letter in _letters(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _letters(text: str) -> Iterator[tuple[int, str]]:
    """Yield brackets and commas that are not within quotes."""
    is_quoted = False
    for match in _INTERESTING.finditer(text):
        if match[0] == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            yield match.start(), match[0]
