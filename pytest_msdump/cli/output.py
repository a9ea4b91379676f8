"""What commands print, and tables in a file of the user's choice."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.escape import csv_line, terminal_text
from pytest_msdump.core.settings.options import GROUPS, OUTPUT_OPTIONS, argparse_kwargs, language_of
from pytest_msdump.core.storage.files import in_utf8, make_folder, write_file
from pytest_msdump.core.text import Phrases

# A wider line than this is a slip of typing in COLUMNS.
_MOST_COLUMNS = 100_000


class Outcome(int):
    """An exit code, and the document ``NAME`` of ``--json`` that says why; it is made only when it is printed."""

    name: str
    document: Callable[[], Mapping[str, Any]]

    def __new__(cls, code: int, name: str, document: Callable[[], Mapping[str, Any]]) -> Outcome:
        """Return the code with its document."""
        made = super().__new__(cls, code)
        made.name, made.document = name, document
        return made


def phrases(parsed: argparse.Namespace) -> Phrases:
    """Return the language that ``--lang``, or else the locale, asks for; the vendor's command lines are English."""
    return Phrases(language_of(getattr(parsed, "msdump_lang", "en"), os.environ, encoding=sys.stdout.encoding))


def add_common(command: argparse.ArgumentParser) -> None:
    """Declare ``--lang`` and ``--json`` for a command, before its verb and after it."""
    (option,) = (one for one in OUTPUT_OPTIONS if one.name == "lang")
    as_json: dict[str, Any] = {"action": "store_true", "help": "print one JSON document and nothing else"}
    group = next((one for one in command._action_groups if one.title == "output"), command)
    group.add_argument(*option.cli_flags, **argparse_kwargs(option))
    group.add_argument("--json", **as_json)
    verbs = (action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction))
    for verb in (one for choices in verbs for one in choices.values()):
        # A default of the verb would undo what stands before it.
        verb.add_argument(*option.cli_flags, **argparse_kwargs(option) | {"default": argparse.SUPPRESS})
        verb.add_argument("--json", **as_json | {"default": argparse.SUPPRESS})


def add_show(command: argparse.ArgumentParser) -> None:
    """Declare ``--show`` for a command that gates: how much is printed of what fails."""
    option = next(one for one in OUTPUT_OPTIONS if one.name == "show")
    command.add_argument(*option.cli_flags, **argparse_kwargs(option))


def print_lines(lines: Iterable[str], *, to_error: bool = False) -> None:
    """Print each text as one line that a terminal shows and does not obey."""
    for line in lines:
        print(terminal_text(line), file=sys.stderr if to_error else sys.stdout)


def terminal_width(without: int = 80, *, least: int = 1) -> int:
    """Return the columns of the terminal, `without` one as many as that says, but never fewer than `least`."""
    return min(_MOST_COLUMNS, max(least, shutil.get_terminal_size((without, 24)).columns))


def argument_groups(
    parser: argparse.ArgumentParser, titles: Iterable[str] = GROUPS
) -> dict[str, argparse._ArgumentGroup]:
    """Return groups of arguments by title, in this order; the help leaves out those without any."""
    return {title: parser.add_argument_group(title) for title in titles}


def add_quiet(group: argparse._ArgumentGroup | argparse.ArgumentParser, *flags: str) -> None:
    """Declare ``--quiet``, with more spellings where they are free."""
    group.add_argument(*flags, "--quiet", action="store_true", help="show no progress")


class TableFile(NamedTuple):
    """Where a table goes, and in which of the two forms."""

    path: Path
    as_csv: bool


def table_file(text: str, *, as_csv: bool) -> TableFile:
    """Read what follows ``-o``, a .txt or .csv file or a folder for result.txt or result.csv, and make its folder."""
    if not text:
        raise ConfigError("-o is empty; give a file that ends in .txt or .csv, or a folder")
    path = Path(text).absolute()
    if path.suffix.lower() not in (".txt", ".csv"):
        path /= "result.csv" if as_csv else "result.txt"
    make_folder(path.parent, "-o")
    if path.is_dir():
        raise ConfigError(f"-o: {path} is a folder; give another name")
    return TableFile(path, as_csv or path.suffix.lower() == ".csv")


def write_table(table: TableFile, titles: Sequence[str], rows: Iterable[Sequence[str]], *, flag: str = "-o") -> Path:
    """Write the whole table or nothing; as text there are single spaces between cells, and ``NaN`` for nothing."""
    rows = [titles, *rows]
    lines = (csv_line(row) if table.as_csv else " ".join(terminal_text(cell) or "NaN" for cell in row) for row in rows)
    try:
        return write_file(table.path.parent, table.path.name, in_utf8("".join(f"{line}\n" for line in lines)))
    except MsdumpError as error:
        reason = error.__cause__ or error
        raise MsdumpError(f"{table.path} cannot be written: {reason}; name another path with {flag}") from error
