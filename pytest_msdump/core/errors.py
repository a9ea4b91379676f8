"""Everything this package raises on purpose.

Each error also inherits the builtin that a caller would expect, has a *slug* that ``docs/reference/messages.md``
explains, and a text that says what happened, where, and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from pytest_msdump.core.text import Message, Parameter, plain_text, say

__all__ = [
    "ConfigError",
    "DumpNotFoundError",
    "IncompleteRecordingError",
    "MsdumpError",
    "NotReplayableError",
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
    """A suite file, an option or a marker that cannot be used. Exit code 4."""

    slug = "configuration"


class UnknownNameError(ConfigError, KeyError):
    """A metric, profile, key or operator that does not exist; the text names the nearest known ones."""

    slug = "unknown-name"

    def __str__(self) -> str:
        # KeyError would print the repr of the text.
        return str(self.args[0]) if self.args else ""


class DumpNotFoundError(ConfigError, FileNotFoundError):
    """A dump directory or file that is not there. Exit code 4."""

    slug = "dump-not-found"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownDumpFormatError(ConfigError):
    """A directory that holds files, none of which any reader knows. Exit code 4."""

    slug = "unknown-dump-format"


class IncompleteRecordingError(ConfigError):
    """A recording of a live model that has not ended, or was broken off. Exit code 4."""

    slug = "incomplete-recording"


class ProgramError(MsdumpError, RuntimeError):
    """A program that should have made a dump failed, hung or dumped nothing; the text ends with its output."""

    slug = "program"


class TensorFileError(MsdumpError, ValueError):
    """A tensor's file that is not what it claims to be; becomes the verdict `error` of that tensor."""

    slug = "tensor-file"


class NotReplayableError(MsdumpError, ValueError):
    """A call of an operator that cannot be computed again; it is counted and shown, never passed."""

    slug = "not-replayable"

    def __init__(self, code: str, **parameters: Parameter) -> None:
        self.message = Message(code, parameters)
        super().__init__(say(self.message))


class TensorShapeError(MsdumpError, ValueError):
    """Two tensors whose shapes cannot be aligned; becomes the verdict `error` of that pair."""

    slug = "tensor-shape"

    def __init__(self, text: str | Message) -> None:
        self.message = plain_text(text) if isinstance(text, str) else text
        super().__init__(say(self.message))


# Framework → extra of this project that installs it.
_EXTRAS = {"keras": "tensorflow", "onnxruntime": "onnx"} | {
    name: name for name in ("mindspore", "onnx", "tensorflow", "torch")
}


def require_packages(*packages: str, need: str) -> None:
    """Raise what `missing_package` returns, for the first package that is not installed; `need` says what needs it."""
    for package in packages:
        if sys.modules.get(package) is None and find_spec(package) is None:
            missing = ModuleNotFoundError(f"No module named '{package}'", name=package)
            raise missing_package(missing, need=need) or missing from missing


def missing_package(error: BaseException, *, need: str) -> ConfigError | None:
    """Return the error that says what to install; ``None`` if it is not that a framework is missing."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in _EXTRAS:
        return None
    extra = f"pytest-msdump[{_EXTRAS[package]}]"
    return ConfigError(f"{package} is not installed here, and {need} needs it; pip install '{extra}'")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error: ``"did you mean 'cosine'?"``, or ``"known: a, b, c"`` when no known name is near."""
    return say(nearest_name(name, known))


def nearest_name(name: str, known: Iterable[str]) -> Message:
    """Return the message that `nearest` says."""
    # Imported for an error only: every test session imports this module, also one that does not use the plugin.
    from difflib import get_close_matches

    allowed = sorted(set(known))
    close = get_close_matches(name, allowed, n=1, cutoff=0.6)
    return Message("did_you_mean", {"name": close[0]}) if close else Message("known_are", {"names": tuple(allowed)})
