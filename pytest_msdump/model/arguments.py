"""What an operator was initialised with: the arguments of its kernel, and the attributes that a graph tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["ArgumentDifference", "KernelArguments", "differences"]

# Graphs since 2.0 write the type of a number beside it, older ones and arguments of kernels do not.
_TYPED = re.compile(r"(?:U?I(?:nt)?|B?F(?:loat)?)[0-9]{1,3}\(([^()]*)\)")
_BOOL = re.compile(r"Bool\(([01])\)")
_TRUTH = {"0": "False", "1": "True", "false": "False", "true": "True"}


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """The arguments that an operator's kernel was initialised with.

    Parameters
    ----------
    source : str
        Name of the file that tells them.
    values : mapping of str to str
        Value by name, as the file writes it; empty where it cannot be read.
    note : str
        Why it cannot be read, as the end of a sentence.
    """

    source: str
    values: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class ArgumentDifference(NamedTuple):
    """A value that two sides do not share: `kind` is "argument" or "attribute"; ``None`` where a side has none."""

    kind: str
    name: str
    left: str | None
    right: str | None


def differences(kind: str, left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[ArgumentDifference]:
    """Yield what differs, by name; how releases write numbers and texts makes no difference.

    Examples
    --------
    >>> list(differences("attribute", {"pad_mode": '"same"', "group": "I64(1)"}, {"pad_mode": "pad", "group": "1"}))
    [ArgumentDifference(kind='attribute', name='pad_mode', left='"same"', right='pad')]
    """
    for name in sorted({*left, *right}):
        one, other = left.get(name), right.get(name)
        if one is None or other is None or _plain(one) != _plain(other):
            yield ArgumentDifference(kind, name, one, other)


def _plain(value: str) -> str:
    text = _TYPED.sub(r"\1", _BOOL.sub(lambda match: _TRUTH[match[1]], value.replace('"', "")))
    return _TRUTH.get(text, text) if text in ("true", "false") else "".join(text.split())
