"""Everything this package raises on purpose.

One base class, `MsdumpError`; each leaf also inherits the builtin a caller would expect, carries a *slug* that
``docs/reference/messages.md`` explains, and a text that says what happened, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_msdump.text import Message, plain_text, say

__all__ = [
    "ConfigError",
    "DumpNotFoundError",
    "IncompleteRecordingError",
    "MsdumpError",
    "ProgramError",
    "TensorFileError",
    "TensorShapeError",
    "UnknownDumpFormatError",
    "UnknownNameError",
    "nearest",
]


class MsdumpError(Exception):
    """Base of all errors of this package; its text is one line for a person to act on."""

    slug = "error"


class ConfigError(MsdumpError, ValueError):
    """A suite file, an option or a marker says something that cannot be done. Answered with exit code 4."""

    slug = "configuration"


class UnknownNameError(ConfigError, KeyError):
    """A metric, profile, key or operator that does not exist; the text names the nearest known ones."""

    slug = "unknown-name"

    def __str__(self) -> str:
        # KeyError would print the repr of the text.
        return str(self.args[0]) if self.args else ""


class DumpNotFoundError(ConfigError, FileNotFoundError):
    """A dump directory or file that is not there. Answered with exit code 4."""

    slug = "dump-not-found"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownDumpFormatError(ConfigError):
    """A directory that holds files, none of which any reader knows. Answered with exit code 4."""

    slug = "unknown-dump-format"


class IncompleteRecordingError(ConfigError):
    """A recording of a live model that has not ended, or was broken off. Answered with exit code 4."""

    slug = "incomplete-recording"


class ProgramError(MsdumpError, RuntimeError):
    """A program that was to make a dump failed, hung or dumped nothing; the text ends with what it printed."""

    slug = "program"


class TensorFileError(MsdumpError, ValueError):
    """One tensor's file cannot be read as what it claims to be; becomes a verdict `error` of that tensor."""

    slug = "tensor-file"


class TensorShapeError(MsdumpError, ValueError):
    """Two tensors whose shapes cannot be brought together; becomes a verdict `error` of that pair."""

    slug = "tensor-shape"

    def __init__(self, text: str | Message) -> None:
        self.message = plain_text(text) if isinstance(text, str) else text
        super().__init__(say(self.message))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the tail of an error sentence: the nearest known name, or all of them.

    Parameters
    ----------
    name : str
        What was written.
    known : iterable of str
        What could have been written.

    Returns
    -------
    str
        ``"did you mean 'cosine'?"``, or ``"known: a, b, c"`` when nothing is near.
    """
    from difflib import get_close_matches

    allowed = sorted(set(known))
    close = get_close_matches(name, allowed, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(allowed)}"
