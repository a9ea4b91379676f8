"""``msdump compare … -d OPERATOR``: the gate for one operator, and its tensors element by element."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.detailing.detail import Detail, Wishes
    from pytest_msdump.model.report import Report
    from pytest_msdump.pipeline.choosing import Wanted
    from pytest_msdump.pipeline.planning import Plan

__all__ = [
    "add_detail_arguments",
    "check_detail_arguments",
    "check_folder",
    "detail_gate",
    "is_detail_wanted",
    "run_detail",
    "tell_failing",
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
    from pytest_msdump.cli.telling import phrases
    from pytest_msdump.detailing.detail import MOST_ROWS, MOST_TOP, Wishes
    from pytest_msdump.pipeline.choosing import wanted
    from pytest_msdump.pipeline.failing_details import FOLDER

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
        As `pipeline.choosing.chosen_pairs`.
    """
    from pytest_msdump.cli.compare import gate
    from pytest_msdump.pipeline.choosing import chosen_pairs, only

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
    from pytest_msdump.pipeline.detail import detail_pair, detail_stems

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
    from pytest_msdump.reporting.vendor_table import Columns, vendor_table

    titles, rows = vendor_table(report, Columns(algorithms=(), verdict=False), right_alone=False)
    left, right, tensor = (titles.index(title) for title in ("NPUDump", "GroundTruth", "TensorIndex"))
    return {row[tensor]: (row[left], row[right]) for row in rows}


def tell_failing(planned: Plan, report: Report) -> None:
    """Write the first failing tensors in detail, as many as the suite asks for, and say where they are."""
    if not planned.suite.detail:
        return
    from pytest_msdump.pipeline.failing_details import close_slots, details_of_failing

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
