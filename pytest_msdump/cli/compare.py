"""``msdump compare LEFT RIGHT``: the gate without pytest, and with the flags that the vendor's script had."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.cli.output import Progress, add_quiet
from pytest_msdump.comparison.collecting import left_to_the_end
from pytest_msdump.comparison.user_code import NO_EXTRAS, load_extras
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.settings import OPTIONS, TELLING_OPTIONS, argparse_kwargs, given
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.comparison.select_pairs import Wanted
    from pytest_msdump.elements.writing import Detail, Wishes
    from pytest_msdump.model.report import Report

__all__ = [
    "OWN_HELP",
    "add_arguments",
    "check_folder",
    "detail_gate",
    "gate",
    "nine_columns_writer",
    "suite_file",
    "typed_sides",
]

_WITHOUT_OPERATOR = ("detail_io", "detail_slot", "detail_top", "detail_rows")
_FLAGS = {"detail_io": "-t", "detail_slot": "-i", "detail_top": "--top", "detail_rows": "--rows"}


def add_detail_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what says which operator, and how much of it."""
    parser.add_argument(
        "-d",
        "--operator",
        dest="detail_operator",
        metavar="OP",
        help="compare one operator (OP, or OP:output:0) and write its tensors element by element, "
        "to the folder of -o, else to detail in the report directory",
    )
    parser.add_argument(
        "-t", "--tensor", dest="detail_io", choices=("input", "output"), help="with -d: input or output (default)"
    )
    parser.add_argument(
        "-i", "--index", dest="detail_slot", metavar="K", help="with -d: of which number (default: each of them)"
    )
    parser.add_argument(
        "--top", dest="detail_top", metavar="N", help="with -d: list the N largest errors (default: 20)"
    )
    parser.add_argument(
        "--rows", dest="detail_rows", metavar="N", help="with -d: elements in a file, 0 for none (default: 1000000)"
    )


def is_detail_wanted(parsed: argparse.Namespace) -> bool:
    """Whether one operator is to be looked at."""
    return parsed.detail_operator is not None


def check_detail_arguments(parsed: argparse.Namespace) -> None:
    """Refuse what means nothing without an operator, or with one, and a table where a folder is meant.

    Raises
    ------
    ConfigError
        One line.
    """
    if not is_detail_wanted(parsed):
        given = [_FLAGS[name] for name in _WITHOUT_OPERATOR if getattr(parsed, name) is not None]
        if given:
            raise ConfigError(f"{given[0]}: says more about one operator; say which with -d OP")
        return
    if parsed.scheduler is not None:
        raise ConfigError("--scheduler: one operator (-d) is looked at here, without workers; leave it out")
    if parsed.table is not None:
        check_folder(parsed.table)


def check_folder(text: str) -> None:
    """Refuse what would be a table's file.

    Raises
    ------
    ConfigError
        One line.
    """
    if not text or Path(text).suffix.lower() in (".txt", ".csv"):
        found = f"{text} looks like a file" if text else "it is empty"
        raise ConfigError(f"-o: with -d it is the folder for several files, and {found}")


def run_detail(parsed: argparse.Namespace, planned: Plan) -> int:
    """Compare the operator, write its details; return the exit code."""
    from pytest_msdump.cli.output import phrases
    from pytest_msdump.comparison.select_pairs import wanted
    from pytest_msdump.elements.write_pair import FOLDER
    from pytest_msdump.elements.writing import MOST_ROWS, MOST_TOP, Wishes

    rows = _count(parsed.detail_rows, "--rows", 0, MOST_ROWS)
    wishes = Wishes(
        top=_count(parsed.detail_top, "--top", 1, MOST_TOP) or Wishes().top,
        rows=rows or MOST_ROWS,
        every_element=rows != 0,
    )
    folder = planned.suite.report_dir / FOLDER if parsed.table is None else Path(parsed.table).absolute()
    choice = wanted(parsed.detail_operator, parsed.detail_io, _count(parsed.detail_slot, "-i", 0, 10**9))
    return detail_gate(planned, choice, folder, wishes, say=phrases(parsed))


def _count(text: str | None, flag: str, least: int, most: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or not least <= int(text) <= most:
        raise ConfigError(f"{flag}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def detail_gate(
    planned: Plan,
    choice: Wanted,
    folder: Path,
    wishes: Wishes,
    *,
    prints_top: bool = False,
    say: Phrases = ENGLISH,
) -> int:
    """Compare the pairs that are meant, and write them in detail.

    Parameters
    ----------
    planned : Plan
        Inputs included, where these may be meant.
    choice : Wanted
        The operator.
    folder : Path
        Where details go.
    wishes : Wishes
        What is to be written.
    prints_top : bool
        Whether the largest errors are printed, too.
    say : Phrases
        The language of the gate.

    Returns
    -------
    int
        The gate's; 1 also when there is a pair that no details could be written of.

    Raises
    ------
    MsdumpError
        As `comparison.select_pairs.chosen_pairs`.
    """
    from pytest_msdump.comparison.select_pairs import chosen_pairs, only

    narrowed = only(planned, chosen_pairs(planned, choice))
    narrowed = replace(narrowed, suite=replace(narrowed.suite, detail=0))
    details: list[Detail] = []
    refused: list[str] = []

    def write(report: Report) -> list[Path]:
        _write_all(narrowed, report, folder, wishes, (details, refused))
        return [file for detail in details for file in detail.files]

    code = gate(narrowed, write, say=say)
    for lines in (lines for detail in details for lines in (detail.top_absolute, detail.top_relative) if prints_top):
        print("\n".join(["", *map(terminal_text, lines)]))  # noqa: T201 - what was asked for
    for sentence in refused:
        print(terminal_text(f"no details: {sentence}"), file=sys.stderr)  # noqa: T201 - a command talks
    return max(code, int(bool(refused)))


def _write_all(plan: Plan, report: Report, folder: Path, wishes: Wishes, found: tuple[list[Detail], list[str]]) -> None:
    from pytest_msdump.elements.write_pair import detail_pair, detail_stems

    details, refused = found
    names = _operator_names(report)
    for pair, stem in zip(plan.pairing.pairs, detail_stems(plan.pairing.pairs), strict=True):
        both = names.get(pair.left.key.address)
        try:
            details.append(detail_pair(pair, folder, stem=stem, names=both, wishes=wishes, extras=plan.extras))
        except MsdumpError as error:
            refused.append(str(error))


def _operator_names(report: Report) -> Mapping[str, tuple[str, str]]:
    """Address → what the vendor's table calls both operators: a fused group by all of its names."""
    from pytest_msdump.report.vendor_table import Columns, vendor_table

    titles, rows = vendor_table(report, Columns(algorithms=(), verdict=False), right_alone=False)
    left, right, tensor = (titles.index(title) for title in ("NPUDump", "GroundTruth", "TensorIndex"))
    return {row[tensor]: (row[left], row[right]) for row in rows}


def tell_failing(planned: Plan, report: Report) -> None:
    """Write the first failing tensors in detail, as many as the suite asks for, and say where they are."""
    if not planned.suite.detail:
        return
    from pytest_msdump.elements.write_pair import close_slots, details_of_failing

    run = os.urandom(16).hex()
    records = dict(enumerate(report.records))
    told = details_of_failing(planned, records, planned.suite.report_dir, run)
    close_slots(planned.suite.report_dir, run)
    written = [(address, found) for address, found in told if isinstance(found, Path)]
    for address, path in written:
        print(f"details of {terminal_text(address)}: {os.path.relpath(path)}")  # noqa: T201 - a command talks
    rest = len(told) - len(written)
    if rest:
        print(f"{rest} more failing tensors have no details; --detail N for the first N")  # noqa: T201 - as above


# -- ``msdump compare LEFT RIGHT`` -----------------------------------------------------------------------------------


NAME = "compare"
HELP = "compare two dumps or two tensor files"
DESCRIPTION = (
    "Compare the dump of a run under test (LEFT) with its reference (RIGHT): two directories, or two tensor files. "
    "Exit code 0: within limits; 1: something drifted, or nothing was compared; 4: usage error."
)

# Two items of one operator are pytest's concern.
_NOT_HERE = ("granularity",)
# What is said otherwise than to pytest, which takes a word that begins with @ for a file of arguments.
OWN_HELP = {
    "left": "dump of the run under test, also a URL such as s3://bucket/dump; "
    "'@env': where MINDSPORE_DUMP_CONFIG dumps to",
    "config": "suite file (default: msdump.toml of the current folder, when a side is not given)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and every option of the one table."""
    parser.add_argument("sides", nargs="*", metavar="LEFT RIGHT", help="run under test, then reference")
    for option in OPTIONS:
        if option.name not in _NOT_HERE:
            kwargs = argparse_kwargs(option)
            parser.add_argument(*option.cli_flags, **kwargs | {"help": OWN_HELP.get(option.name, kwargs["help"])})
    for option in TELLING_OPTIONS:
        parser.add_argument(*option.cli_flags, **argparse_kwargs(option))
    add_quiet(parser)
    _add_scheduler(parser)
    _add_vendor_arguments(parser)
    add_detail_arguments(parser)


def _add_vendor_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the vendor's script that no suite file can say."""
    parser.add_argument(
        "-o",
        "--table",
        metavar="PATH",
        help="also write the vendor's table of nine columns: to a file when PATH ends in .txt or .csv, "
        "else to result.txt in that folder; compares inputs as well, unless --io says otherwise; "
        "with -d the folder for its files",
    )
    parser.add_argument("-csv", "--table-csv", action="store_true", help="write that table as CSV")
    parser.add_argument(
        "-custom",
        "--user-code",
        metavar="DIR",
        help="run your own code: DIR/format_convert/convert_X_to_Y.py and DIR/algorithm/alg_NAME.py",
    )


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="compare on the workers of a Dask cluster that see the same files: tcp://HOST:PORT, or a scheduler file",
    )


def run(parsed: argparse.Namespace) -> int:
    """Plan, compare pair by pair, tell, write reports; return the exit code."""
    from pytest_msdump.cli.output import phrases
    from pytest_msdump.comparison.planning import plan
    from pytest_msdump.suite import load_suite

    options: dict[str, Any] = given(parsed) | typed_sides(parsed)
    directory = Path.cwd()
    check_detail_arguments(parsed)
    write = None if is_detail_wanted(parsed) else _table_writer(parsed)
    if (write is None or parsed.table is not None) and options["io"] is None:
        options["io"] = "all"
    suite = load_suite(
        file=suite_file(options.pop("config"), directory, options),
        options=options,
        directory=directory,
        spelled={option.name: option.cli_flags[-1] for option in OPTIONS} | {"left": "LEFT", "right": "RIGHT"},
    )
    extras = NO_EXTRAS if parsed.user_code is None else load_extras(Path(parsed.user_code))
    planned = replace(plan(suite), extras=extras)
    if write is None:
        return run_detail(parsed, planned)
    return gate(
        planned,
        _with_bundle(parsed, planned, write),
        unfolded=parsed.msdump_all,
        quiet=parsed.quiet,
        suggests=parsed.msdump_suggest,
        scheduler=parsed.scheduler,
        say=phrases(parsed),
        is_last=parsed.is_last,
    )


def _with_bundle(
    parsed: argparse.Namespace, planned: Plan, write: Callable[[Report], list[Path]]
) -> Callable[[Report], list[Path]]:
    """Add what ``--bundle`` asks for."""
    if parsed.msdump_bundle is None:
        return write
    from pytest_msdump.report.bundling import MOST_CAUSES, write_bundle

    most = None if parsed.msdump_all else MOST_CAUSES
    return lambda report: [
        *write(report),
        *write_bundle(planned, report, Path(parsed.msdump_bundle), most=most),
    ]


def gate(
    planned: Plan,
    write: Callable[[Report], list[Path]] = lambda _report: [],
    *,
    unfolded: bool = False,
    quiet: bool = False,
    suggests: bool = False,
    scheduler: str | None = None,
    say: Phrases = ENGLISH,
    is_last: bool = False,
) -> int:
    """Compare pair by pair, tell, write the suite's reports; return the exit code.

    Parameters
    ----------
    planned : Plan
        What is to be compared.
    write : callable
        What else is to be written of the report; returns the files.
    unfolded : bool
        Tell every failure whole, also inherited ones.
    quiet : bool
        Do not show how far it is.
    suggests : bool
        Look for partners of the tensors that have none.
    scheduler : str, optional
        Where the Dask scheduler is whose workers are to compare.
    say : Phrases
        The language; the vendor's command lines speak English, as the vendor's do.
    is_last : bool
        The process ends after this.
    """
    from pytest_msdump.cli.output import tell_github, tell_header, tell_report
    from pytest_msdump.report.gathering import looked_over, start_report, write_report
    from pytest_msdump.scheduling.whole import table_meanwhile

    tell_header(planned, say)
    start_report(planned, planned.suite.report_dir)
    progress = Progress("msdump compare", quiet=quiet)
    # Nothing but the report holds the records, of which there may be very many.
    report = _compared(planned, progress, scheduler)
    with table_meanwhile(planned.suite, report) as table:
        report = looked_over(planned, report)
        if suggests:
            from pytest_msdump.causes.suggest_partners import with_suggestions

            report = with_suggestions(planned, report, watch=progress)
        files = write_report(report, planned.suite.report, planned.suite.report_dir, table=table)
    files += write(report)
    code = tell_report(report, files, unfolded=unfolded, say=say)
    tell_failing(planned, report)
    tell_github([report] if "github" in planned.suite.report else [])
    if is_last:
        left_to_the_end(planned, report)
    return code


def _compared(planned: Plan, progress: Progress, scheduler: str | None) -> Report:
    """The report of every pair by itself, with sentences on how the run went."""
    from pytest_msdump.report.gathering import put_together
    from pytest_msdump.scheduling.whole import records_of

    records, notes = records_of(planned, progress, scheduler=scheduler)
    report = put_together(planned, records)
    return replace(report, notes=(*report.notes, *notes))


def _table_writer(parsed: argparse.Namespace) -> Callable[[Report], list[Path]]:
    """What ``-o`` asks for."""
    if parsed.table is None:
        if parsed.table_csv:
            raise ConfigError("-csv: there is no table to write as CSV; say where with -o PATH")
        return lambda _report: []
    return nine_columns_writer(parsed.table, as_csv=parsed.table_csv)


def nine_columns_writer(text: str, *, as_csv: bool) -> Callable[[Report], list[Path]]:
    """Return what writes the vendor's nine columns of a report.

    Parameters
    ----------
    text : str
        What followed ``-o``.
    as_csv : bool
        Whether ``-csv`` was given.

    Raises
    ------
    ConfigError
        As `cli.output.table_file`.
    """
    from pytest_msdump.cli.output import table_file, write_table
    from pytest_msdump.report.vendor_table import nine_columns

    table = table_file(text, as_csv=as_csv)
    return lambda report: [write_table(table, *nine_columns(report))]


def typed_sides(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the sides as typed without a flag.

    Raises
    ------
    ConfigError
        There are not two, or one was typed with a flag as well.
    """
    sides: list[str] = parsed.sides
    if not sides:
        return {}
    flags = [name for name in ("left", "right") if getattr(parsed, f"msdump_{name}") is not None]
    if len(sides) != 2 or flags:
        raise ConfigError(
            f"give LEFT and RIGHT, or -l and -r: found {' '.join(sides + [f'--{flag}' for flag in flags])}"
        )
    return dict(zip(("left", "right"), sides, strict=True))


def suite_file(named: str | None, directory: Path, options: dict[str, object]) -> Path | None:
    """Return the suite file: the named one, or the folder's own msdump.toml when a side is not given.

    Parameters
    ----------
    named : str, optional
        What ``--config`` says.
    directory : Path
        The current folder.
    options : dict
        What was typed.

    Raises
    ------
    ConfigError
        There is no such file, or nothing says what the sides are.
    """
    if named is not None:
        file = directory / named
        if not file.exists():
            raise ConfigError(f"--config: there is no file {file}; give a suite file")
        return file
    file = directory / "msdump.toml"
    given = [options.get("left"), options.get("right")]
    if None not in given:
        return None
    if not file.exists():
        raise ConfigError("there is nothing to compare; give LEFT and RIGHT, or --config FILE")
    return file
