"""The vendor's grammar of options: one dash, long words, a value in the next word, and nothing unknown passed over."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_msdump.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.escape import terminal_lines

__all__ = ["Arguments", "Flag", "Grammar", "run_program"]

# pytest's numbers (INTERFACE 3).
_FAILED, _INTERRUPTED, _USAGE = 1, 2, 4

_HELP = ("-h", "--help")
_NARROWEST = 60


@dataclass(frozen=True)
class Flag:
    """One option.

    Parameters
    ----------
    names : tuple of str
        All spellings, the usual one first.
    name : str
        What the code calls it.
    help : str
        One clause.
    metavar : str
        What stands for the value; empty for an option without one.
    many : bool
        Whether several words may follow; they are joined by commas.
    required : bool
        Whether there is nothing to do without it.
    """

    names: tuple[str, ...]
    name: str
    help: str
    metavar: str = ""
    many: bool = False
    required: bool = False


@dataclass(frozen=True)
class Arguments:
    """What was typed: values by name, and the options without a value."""

    values: Mapping[str, str]
    switches: frozenset[str]

    def get(self, name: str) -> str | None:
        """Return what was typed, ``None`` when nothing was."""
        return self.values.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.values or name in self.switches


@dataclass(frozen=True)
class Grammar:
    """A program's options.

    Parameters
    ----------
    program : str
        How it is called.
    summary : str
        What it does.
    flags : tuple of Flag
        What it takes.
    refused : mapping
        Options that the vendor's program has and this one has not → what to do instead.
    """

    program: str
    summary: str
    flags: tuple[Flag, ...]
    refused: Mapping[str, str]

    def parse(self, words: Sequence[str]) -> Arguments:
        """Read a command line.

        Raises
        ------
        ConfigError
            An option is unknown, given twice, without its value, or missing; the text names the nearest known one.
        SystemExit
            Help was asked for and printed.
        """
        if any(word in _HELP for word in words):
            print(self.help(), flush=True)  # noqa: T201 - what was asked for
            raise SystemExit(0)
        known = {name: flag for flag in self.flags for name in flag.names}
        values: dict[str, str] = {}
        switches: set[str] = set()
        rest = list(words)
        while rest:
            word = rest.pop(0)
            flag = known.get(word) or self._refuse(word, known)
            if flag.name in values or flag.name in switches:
                raise ConfigError(f"{word}: given twice; give it once")
            if flag.metavar:
                values[flag.name] = _value(word, flag, rest, known)
            else:
                switches.add(flag.name)
        for flag in self.flags:
            if flag.required and flag.name not in values:
                raise ConfigError(f"{flag.names[0]} {flag.metavar} is missing: {flag.help}")
        return Arguments(values, frozenset(switches))

    def _refuse(self, word: str, known: Mapping[str, Flag]) -> Flag:
        if word in self.refused:
            raise ConfigError(f"{word}: {self.refused[word]}")
        if not word.startswith("-"):
            raise ConfigError(f"'{word}' follows no option; see {self.program} --help")
        raise UnknownNameError(f"unknown option '{word}'; {nearest(word, known)}")

    def help(self) -> str:
        """Return what ``--help`` prints."""
        lines = [f"usage: {self.program} OPTIONS", "", *_wrapped(self.summary), "", "options:"]
        for flag in self.flags:
            told = f"{flag.help} (required)" if flag.required else flag.help
            lines += [f"  {', '.join(flag.names)} {flag.metavar}".rstrip(), *_wrapped(told, indent=8)]
        return "\n".join(lines)


def _wrapped(text: str, *, indent: int = 0) -> list[str]:
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    margin = " " * indent
    return textwrap.wrap(
        text, width, initial_indent=margin, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )


def _value(word: str, flag: Flag, rest: list[str], known: Mapping[str, Flag]) -> str:
    """Take the value of an option off the rest of the line. It may begin with a dash, as in ``-r -1``."""
    if not rest or rest[0] in known:
        raise ConfigError(f"{word}: {flag.metavar} is missing after it")
    parts = [rest.pop(0)]
    while flag.many and rest and not rest[0].startswith("-"):
        parts.append(rest.pop(0))
    return ",".join(parts)


def run_program(program: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command line; what is wrong with it is one line on standard error.

    Returns
    -------
    int
        What `run` returned; 4 for a usage or configuration error, 1 for any other of ours.
    """
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except ConfigError as error:
        print(terminal_lines(f"{program}: {error}"), file=sys.stderr)  # noqa: T201 - a command's one line of error
        return _USAGE
    except MsdumpError as error:
        print(terminal_lines(f"{program}: {error}"), file=sys.stderr)  # noqa: T201 - as above
        return _FAILED
    except BrokenPipeError:
        # As in `cli.main`: who reads has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        # As in `cli.main`: a path that no file can have, or a disk that fails.
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)!r:.300}: "
        print(f"{program}: {where}{error.strerror or error}", file=sys.stderr)  # noqa: T201 - as above
        return _USAGE
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)  # noqa: T201 - as above
        return _INTERRUPTED
