"""The vendor's command lines: options of one dash with a value in the next word, and what they choose.

As in the vendor's programs the value may follow an equals sign (``--output=DIR``), a long option may be abbreviated
(``--out``), and a number may follow a short one directly (``-n3``). An unknown option is refused, never ignored.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from pytest_msdump.capabilities.elements.cells import NEWER, OLDER
from pytest_msdump.capabilities.elements.command import check_folder, detail_gate, whole_number
from pytest_msdump.capabilities.elements.select_pairs import Wanted
from pytest_msdump.capabilities.elements.writing import MOST_ROWS, MOST_TOP, DetailOptions
from pytest_msdump.cli import exit_code
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.escape import shell_line, terminal_lines
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.matching.rules import FusedGroup, combined, group_operators
from pytest_msdump.core.model.describe import listed, wrapped
from pytest_msdump.core.model.tensor import Pair, Unmatched
from pytest_msdump.core.settings.options import OPTIONS
from pytest_msdump.core.storage.files import in_utf8, make_folder
from pytest_msdump.core.suite import Suite, load_suite

_HELP = ("-h", "--help")
_GLUED = re.compile("(-[a-z])([0-9][0-9,]*)")
_NARROWEST = 60
_MOST_TRIES = 1000

# Options that both of the vendor's programs have, and their flags of ``msdump compare``.
_NEW_FLAGS = {
    "fusion": "--fusion",
    "quant_fusion": "--quant-fusion",
    "close_fusion": "--close-fusion",
    "custom": "-custom",
}


@dataclass(frozen=True)
class Flag:
    """One option: its spellings, the usual one first, the name that the code uses, and the values that it takes."""

    names: tuple[str, ...]
    name: str
    help: str
    metavar: str = ""
    many: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arguments:
    """A parsed command line: values by name, and the names of options without a value."""

    values: Mapping[str, str]
    switches: frozenset[str]

    def get(self, name: str) -> str | None:
        """Return the value of an option; ``None`` if it was not typed."""
        return self.values.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.values or name in self.switches


@dataclass(frozen=True)
class Grammar:
    """A program's command line and help."""

    program: str
    summary: str
    flags: tuple[Flag, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    # Names of options of which one is typed at most.
    exclusive: tuple[str, ...] = ()

    def parse(self, words: Sequence[str]) -> Arguments:
        """Read a command line; ConfigError where it is wrong, SystemExit when help was asked for and printed."""
        if any(word in _HELP for word in words):
            print(self.help(), flush=True)  # noqa: T201 - what was asked for
            raise SystemExit(0)
        known = {name: flag for flag in self.flags for name in flag.names}
        values: dict[str, str] = {}
        switches: set[str] = set()
        rest = list(words)
        while rest:
            word, value = self._read(rest.pop(0), known)
            flag = known[word]
            if flag.name in values or flag.name in switches:
                raise ConfigError(f"{word}: given twice; give it once")
            if flag.metavar:
                values[flag.name] = _value(word, flag, rest, known) if value is None else value
            elif value is not None:
                raise ConfigError(f"{word} takes no value; leave '={value}' out")
            else:
                switches.add(flag.name)
            if flag.choices and values[flag.name] not in flag.choices:
                raise ConfigError(f"{word} {values[flag.name]}: give {' or '.join(flag.choices)}")
        if sum(name in values for name in self.exclusive) > 1:
            typed = " and ".join(flag.names[0] for flag in self.flags if flag.name in self.exclusive)
            raise ConfigError(f"{typed} do not go together; leave one of them out")
        for flag in self.flags:
            if flag.required and flag.name not in values:
                raise ConfigError(f"{flag.names[0]} {flag.metavar} is missing: {flag.help}")
        return Arguments(values, frozenset(switches))

    def _read(self, word: str, known: Mapping[str, Flag]) -> tuple[str, str | None]:
        """Return the option that a word is, spelled in full, and the value that the word holds."""
        if word in known:
            return word, None
        name, equals, value = word.partition("=")
        if re.match("--.", name) and name not in known:
            meant = [full for full in (*known, *self.refused) if full.startswith(name)]
            if len({known.get(full) for full in meant}) > 1:
                raise ConfigError(f"{name} may be {' or '.join(meant)}; write it in full")
            name = meant[0] if meant else name
        glued = _GLUED.fullmatch(word)
        if glued and glued[1] in known and known[glued[1]].metavar:
            return glued[1], glued[2]
        if name not in known:
            self._refuse(name, known)
        return name, value if equals else None

    def _refuse(self, word: str, known: Mapping[str, Flag]) -> NoReturn:
        if word in self.refused:
            raise ConfigError(f"{word}: {self.refused[word]}")
        if not word.startswith("-"):
            raise ConfigError(f"'{word}' follows no option; see {self.program} --help")
        raise UnknownNameError(f"unknown option '{word}'; {nearest(word, known)}")

    def help(self) -> str:
        """Return what ``--help`` prints."""
        width = max(_NARROWEST, shutil.get_terminal_size().columns)
        lines = [f"usage: {self.program} OPTIONS", "", *wrapped(self.summary, width, indent=0), "", "options:"]
        for flag in self.flags:
            text = f"{flag.help} (required)" if flag.required else flag.help
            lines += [f"  {', '.join(flag.names)} {flag.metavar}".rstrip(), *wrapped(text, width, indent=8)]
        return "\n".join(lines)


def _value(word: str, flag: Flag, rest: list[str], known: Mapping[str, Flag]) -> str:
    """Take the value of an option off the rest of the line; it may begin with a dash, as in ``-r -1``."""
    if not rest or rest[0] in known:
        raise ConfigError(f"{word}: {flag.metavar} is missing after it")
    parts = [rest.pop(0)]
    while flag.many and rest and not rest[0].startswith("-"):
        parts.append(rest.pop(0))
    return ",".join(parts)


def run_program(program: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run a command line (the process's by default) and return its exit code; an error is one line on stderr."""
    return exit_code(program, run, sys.argv[1:] if argv is None else argv)


def vendor_suite(options: Mapping[str, str | None], spelled: Mapping[str, str]) -> Suite:
    """Return the suite of a vendor's command line: inputs and outputs, default limits; `spelled` are its flags."""
    names = {option.name: option.cli_flags[-1] for option in OPTIONS}
    return load_suite(file=None, options={"io": "all", **options}, directory=Path.cwd(), spelled={**names, **spelled})


def new_spelling(arguments: Arguments, *more: str) -> str:
    """Return the command line of ``msdump`` that compares the same, with `more` at its end."""
    words = ["msdump", "compare", arguments.values["left"], arguments.values["right"]]
    for name, flag in _NEW_FLAGS.items():
        if name in arguments:
            words += [flag, arguments.values[name]]
    return shell_line([*words, *more])


# Of several files of a tensor ``msdump compare`` makes occurrences; the vendor's programs take the newest.
ONE_FILE_EACH = "where each tensor has one file"


def say(program: str, sentence: str) -> None:
    """Print a sentence that is no result to standard error."""
    print(terminal_lines(f"{program}: {sentence}"), file=sys.stderr)  # noqa: T201 - a command talks


def run_msdump(program: str, command: Any, name: str, words: Sequence[str], options: Sequence[tuple[str, str]]) -> int:
    """Run a command of ``msdump``, and say how that is typed; return the exit code."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    # Paths and values may begin with a dash.
    code: int = command.run(parser.parse_args([*(f"{flag}={value}" for flag, value in options), "--", *words]))
    typed = ["msdump", name, *words, *(part for option in options for part in option)]
    say(program, f"the same as: {shell_line(typed)}")
    return code


def output_folder(text: str | None, flag: str = "-out") -> Path:
    """Return the folder that a flag names, made if it was not there; the current one by default."""
    folder = Path(text or ".").absolute()
    make_folder(folder, flag)
    return folder


def new_file(folder: Path, stem: str, suffix: str) -> Path:
    """Make an empty file of a new name; the second one of a second ends in _1."""
    for number in range(_MOST_TRIES):
        path = folder / f"{stem}_{time.strftime('%Y%m%d%H%M%S')}{f'_{number}' if number else ''}{suffix}"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise MsdumpError(f"{path} cannot be written: {error.strerror or error}; see -out") from error
        return path
    raise MsdumpError(f"{folder} holds {_MOST_TRIES} files {stem}*{suffix}; name another folder with -out")


def write_text(path: Path, text: str) -> Path:
    """Write a file below ``-out`` and return its path."""
    try:
        path.write_bytes(in_utf8(text))
    except OSError as error:
        raise MsdumpError(f"{path} cannot be written: {error.strerror or error}; see -out") from error
    return path


_ALL = "all"

# The vendor's numbers 0 to 9 are the places in this table, which `facts.metrics` keeps in the vendor's order.
_BUILT_IN = {str(fact.vendor_title): name for name, fact in METRICS.items() if fact.vendor_title}


def chosen_algorithms(text: str | None, custom: Iterable[str]) -> tuple[str, ...]:
    """Read the value of ``-alg``: ``all`` (also if ``None``), or numbers 0 to 9 and names, separated by commas."""
    known = _BUILT_IN | {name: name for name in custom}
    words = [word.strip() for word in (_ALL if text is None else text).split(",")]
    if not any(words):
        raise ConfigError("-alg names no algorithm; leave it out for all of them")
    return tuple(dict.fromkeys(name for word in words for name in _algorithms_named(word, known)))


def _algorithms_named(word: str, known: Mapping[str, str], flag: str = "-alg") -> Iterator[str]:
    places = {str(place): name for place, name in enumerate(_BUILT_IN)}
    if word == _ALL and flag == "-alg":
        yield from known.values()
    elif places.get(word, word) in known:
        yield known[places.get(word, word)]
    else:
        listed = ", ".join(f"{place}={name}" for place, name in places.items())
        own = [name for name in known if name not in _BUILT_IN]
        raise UnknownNameError(f"{flag}: unknown algorithm '{word}'; known: {', '.join([listed, *own])}, all")


def passed_arguments(text: str | None, custom: Iterable[str]) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """Read ``-a``, ``NAME:KEY=VALUE,…;NAME:…``: arguments of the user's algorithms, and notes on built-in ones."""
    own = tuple(custom)
    arguments: dict[str, dict[str, str]] = {}
    notes = []
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, colon, pairs = part.partition(":")
        split = [pair.partition("=") for pair in pairs.split(",")]
        if not colon or not all(equals and key.strip() for key, equals, _ in split):
            raise ConfigError(f"-a: {part!r} is not NAME:KEY=VALUE,KEY=VALUE")
        values = {key.strip(): value for key, _, value in split}
        (algorithm,) = _algorithms_named(name.strip(), _BUILT_IN | {name: name for name in own}, "-a")
        arguments.setdefault(algorithm, {}).update(values)
        if algorithm not in own:
            notes.append(f"-a: {name.strip()} is built in and takes no arguments; {', '.join(values)} has no effect")
    return {name: values for name, values in arguments.items() if name in own}, tuple(notes)


_NUMBER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_LAST = -1


def chosen_groups(
    plan: Plan, *, span: str | None, numbers: str | None
) -> tuple[tuple[FusedGroup, ...] | None, tuple[str, ...]]:
    """Return the groups that ``-r START,END,STEP`` or ``-s I,J,…`` chooses, and notes on numbers that none has."""
    if span is None and numbers is None:
        return None, ()
    if span is not None and numbers is not None:
        raise ConfigError("-r and -s cannot both choose operators; give one of them")
    flag = "-r" if numbers is None else "-s"
    if plan.rules.base is None:
        raise ConfigError(f"{flag}: operators are chosen by their number in the compiled model; give its JSON with -f")
    groups = group_operators(combined(plan.rules))
    known = {operator.id for group in groups for operator in group.operators}
    wanted = (
        _spanned(span or "", max(known, default=0))
        if numbers is None
        else {_number(part, "-s", numbers) for part in numbers.split(",")}
    )
    absent = sorted(set(wanted) - known) if numbers is not None else []
    chosen = tuple(group for group in groups if any(operator.id in wanted for operator in group.operators))
    if not chosen:
        raise ConfigError(f"{flag}: no operator of {plan.rules.label} has such a number; they go up to {max(known)}")
    return chosen, (f"-s: no operator has the number {listed(list(map(str, absent)), 20)}",) if absent else ()


def _spanned(text: str, last: int) -> frozenset[int]:
    parts = text.split(",")
    if len(parts) > 3:
        raise ConfigError(f"-r: {text!r} is not start,end,step")
    defaults = (1, _LAST, 1)
    start, end, step = (
        _number(parts[place], "-r", text) if place < len(parts) and parts[place].strip() else default
        for place, default in enumerate(defaults)
    )
    start, end = (last if number == _LAST else number for number in (start, end))
    if start < 0 or end < start or step < 1:
        raise ConfigError(f"-r: {text!r}: start must not be beyond end, the last being {last}, and step at least 1")
    # Numbers beyond the last operator's would only fill memory.
    return frozenset([*range(start, min(end, last) + 1, step), end])


def _number(text: str, flag: str, whole: str) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise ConfigError(f"{flag}: {whole!r}: {text.strip()!r} is not a number of an operator")
    return int(text)


def narrowed(plan: Plan, groups: Iterable[FusedGroup]) -> Plan:
    """Return the plan for the operators of some groups alone; coverage is of the right tensors paired with them."""
    # Globs would not do: they look at both sides, and the next operator's input has this one's name on the right.
    names = {operator.name for group in groups for operator in group.operators}

    def concerns(one: Pair | Unmatched) -> bool:
        op = (one.left if isinstance(one, Pair) else one.ref).key.op
        return op.label in names or op.name in names

    pairs = tuple(pair for pair in plan.pairing.pairs if concerns(pair))
    count = len({id(pair.right) for pair in pairs})
    pairing = replace(
        plan.pairing,
        pairs=pairs,
        unmatched_left=tuple(one for one in plan.pairing.unmatched_left if concerns(one)),
        unmatched_right=(),
        missing=tuple(one for one in plan.pairing.missing if one.left.rsplit(":", 2)[0] in names),
        right_total=count,
        right_paired=count,
    )
    return replace(plan, pairing=pairing)


VERSION_FLAG = Flag(
    ("-v", "--version"),
    "version",
    "1 or 2; accepted for old scripts: dump files say what they are",
    "N",
    choices=("1", "2"),
)

NEWER_FLAGS = (
    Flag(("-op", "--op_name"), "operator", "compare one operator, and write it element by element", "OP"),
    Flag(("-o", "--output_tensor"), "output", "with -op: its output of this number (default: 0)", "K"),
    Flag(("-i", "--input_tensor"), "input", "with -op: its input of this number", "K"),
    Flag(("-n", "--topn"), "top", "with -op: list the N largest errors, 1 to 10000 (default: 20)", "N"),
    Flag(("-ml", "--max_line"), "rows", "with -op: elements in a file, 10000 to 1000000 (the default)", "N"),
    Flag(("--ignore_single_op_result",), "brief", "with -op: no files with every element"),
)
OLDER_FLAGS = (
    Flag(("-d",), "operator", "compare one operator, and write it element by element to the folder of -o", "OP"),
    Flag(("-t",), "kind", "with -d: input or output (the default)", "KIND"),
    Flag(("-i",), "slot", "with -d: of which number (default: 0)", "K"),
)

_FEWEST_ROWS = 10_000
_OF_ALL = {"range": "-r", "select": "-s", "mapping": "-map", "advisor": "-advisor", "overflow": "-overflow_detection"}


def check_newer(arguments: Arguments) -> None:
    """Refuse options for one operator without ``-op``, and options for all operators with it."""
    if "operator" not in arguments:
        _needs_operator(arguments, NEWER_FLAGS[1:], "-op")
        return
    for name, flag in _OF_ALL.items():
        if name in arguments:
            raise ConfigError(f"{flag}: is about all operators, and -op about one; leave one of them out")


def check_older(arguments: Arguments) -> None:
    """Do as `check_newer` for the older program."""
    if "operator" not in arguments:
        _needs_operator(arguments, OLDER_FLAGS[1:], "-d")
    else:
        check_folder(arguments.values["table"])


def run_newer(planned: Plan, arguments: Arguments) -> int:
    """Compare the operator and write its files, in the titles of release 26.2.0."""
    kind = "input" if "input" in arguments else "output"
    choice = Wanted(arguments.values["operator"], kind, whole_number(arguments.get(kind), f"-{kind[0]}", 0, 10**9) or 0)
    options = DetailOptions(
        NEWER,
        top=whole_number(arguments.get("top"), "-n", 1, MOST_TOP) or DetailOptions().top,
        rows=whole_number(arguments.get("rows"), "-ml", _FEWEST_ROWS, MOST_ROWS) or MOST_ROWS,
        every_element="brief" not in arguments,
    )
    return detail_gate(planned, choice, output_folder(arguments.get("out")), options, prints_top=True)


def run_older(planned: Plan, arguments: Arguments) -> int:
    """Compare the operator and write its files, in the titles of the first releases."""
    kind = arguments.get("kind") or "output"
    if kind not in ("input", "output"):
        raise ConfigError(f"-t: {kind!r} is neither input nor output")
    choice = Wanted(arguments.values["operator"], kind, whole_number(arguments.get("slot"), "-i", 0, 10**9) or 0)
    folder = output_folder(arguments.values["table"], flag="-o")
    return detail_gate(planned, choice, folder, DetailOptions(OLDER))


def new_words(arguments: Arguments) -> list[str]:
    """Return the options of ``msdump compare`` that choose the operator and how much of it."""
    kind = "input" if "input" in arguments else arguments.get("kind") or "output"
    slot = arguments.get(kind) or arguments.get("slot") or "0"
    words = ["-d", arguments.values["operator"], "-t", kind, "-i", slot]
    words += ["--top", arguments.values["top"]] if "top" in arguments else []
    rows = "0" if "brief" in arguments else arguments.get("rows")
    return words + (["--rows", rows] if rows is not None else [])


def _needs_operator(arguments: Arguments, flags: tuple[Flag, ...], operator: str) -> None:
    for flag in flags:
        if flag.name in arguments:
            raise ConfigError(f"{flag.names[0]}: says more about one operator; say which with {operator} OP")
