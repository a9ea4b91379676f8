"""``msdump compare -d OP``: one operator, its tensors written element by element."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from pytest_msdump.capabilities.elements.select_pairs import Wanted, chosen_pairs, only, wanted
from pytest_msdump.capabilities.elements.write_pair import FOLDER, detail_pair, detail_stems
from pytest_msdump.capabilities.elements.writing import MOST_ROWS, MOST_TOP, Detail, DetailOptions
from pytest_msdump.capabilities.vendor_tables.table import Columns, vendor_table
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import phrases
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.text import ENGLISH, Phrases


def check_folder(text: str) -> None:
    """Refuse a table's file as the folder of details."""
    if not text or Path(text).suffix.lower() in (".txt", ".csv"):
        found = f"{text} looks like a file" if text else "it is empty"
        raise ConfigError(f"-o: with -d it is the folder for several files, and {found}")


def run_detail(parsed: argparse.Namespace, planned: Plan, progress: Progress) -> int:
    """Compare the operator of ``-d``, write its details; return the exit code."""
    rows = whole_number(parsed.detail_rows, "--rows", 0, MOST_ROWS)
    options = DetailOptions(
        top=whole_number(parsed.detail_top, "--top", 1, MOST_TOP) or DetailOptions().top,
        rows=rows or MOST_ROWS,
        every_element=rows != 0,
    )
    folder = planned.suite.report_dir / FOLDER if parsed.table is None else Path(parsed.table).absolute()
    choice = wanted(parsed.detail_operator, parsed.detail_io, whole_number(parsed.detail_slot, "-i", 0, 10**9))
    return detail_gate(planned, choice, folder, options, progress=progress, say=phrases(parsed))


def whole_number(text: str | None, flag: str, least: int, most: int) -> int | None:
    """Read the number that follows a flag; ``None`` where it was not given."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or not least <= int(text) <= most:
        raise ConfigError(f"{flag}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def detail_gate(
    planned: Plan,
    choice: Wanted,
    folder: Path,
    options: DetailOptions,
    *,
    prints_top: bool = False,
    progress: Progress | None = None,
    say: Phrases = ENGLISH,
) -> int:
    """Compare the pairs that `choice` means, and write them in detail into `folder`; return the exit code."""
    narrowed = only(planned, chosen_pairs(planned, choice))
    narrowed = replace(narrowed, suite=replace(narrowed.suite, options={**narrowed.suite.options, "detail": 0}))
    details: list[Detail] = []
    refused: list[str] = []

    def write(report: Report) -> list[Path]:
        pairs, names = narrowed.pairing.pairs, _operator_names(report)
        for pair, stem in zip(pairs, detail_stems(pairs), strict=True):
            both = names.get(pair.left.key.address)
            try:
                details.append(
                    detail_pair(pair, folder, stem=stem, names=both, options=options, extras=narrowed.extras)
                )
            except MsdumpError as error:
                refused.append(str(error))
        return [file for detail in details for file in detail.files]

    code = gate(narrowed, write, progress=progress, say=say)
    if prints_top:
        for detail in details:
            for lines in (detail.top_absolute, detail.top_relative):
                print("\n" + "\n".join(map(terminal_text, lines)))
    for sentence in refused:
        print(terminal_text(say("no_details", why=sentence)), file=sys.stderr)
    return max(code, int(bool(refused)))


def _operator_names(report: Report) -> dict[str, tuple[str, str]]:
    """Address → what the vendor's table calls both operators: a fused group by all of its names."""
    titles, rows = vendor_table(report, Columns(algorithms=(), verdict=False), right_alone=False)
    left, right, tensor = (titles.index(title) for title in ("NPUDump", "GroundTruth", "TensorIndex"))
    return {row[tensor]: (row[left], row[right]) for row in rows}
