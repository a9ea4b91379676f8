"""``msdump match LEFT RIGHT``: which tensors pair and how, which do not and why; no tensor is read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.capabilities.suggest.suggested_suite import suggest
from pytest_msdump.cli.compare import add_suite_arguments, suite_of
from pytest_msdump.cli.output import Outcome, add_quiet, phrases, terminal_width
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.matching.coordinates import Place, place_of
from pytest_msdump.core.model.record import relative_file
from pytest_msdump.core.model.tensor import COORDINATES, STRUCTURE, Pair, TensorRef, Transform
from pytest_msdump.core.report.build import build_report
from pytest_msdump.core.report.coverage import counts, coverage_problems, percent, sentences_on_uncompared_tensors
from pytest_msdump.core.report.json_report import COVERAGE, MISSING, UNMATCHED
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.summary import header_lines
from pytest_msdump.core.report.tables import filled, hanging, table
from pytest_msdump.core.text import ENGLISH, Message, Phrases, message_of_note, say

if TYPE_CHECKING:
    from pytest_msdump.core.model.report import Report, SideInfo, UnmatchedTensor

DESCRIPTION = (
    "Show which tensors of the run under test (LEFT) and of its reference (RIGHT) 'msdump compare' would pair, by what "
    "rule, and why others stay alone. Only --suggest reads values. Exit code 0: tensors pair; 1: nothing pairs, "
    "something mapped is missing, or coverage is too low; 4: usage error."
)
EXAMPLES = ("msdump match run reference", "msdump match run reference --suggest -o port.msdump.toml")

# Of compare's options those that pairing depends on.
_OPTIONS = (
    *("left", "right", "fusion", "quant_fusion", "close_fusion", "config", "select", "deselect", "io"),
    *("pair_by", "exclude_types", "align", "iteration", "rank", "graph", "allow_incomplete", "allow_uncompared"),
    "min_coverage",
)

# Of a transform, what a person said of it.
_SAID_OF_A_PAIR = ("left_format", "right_format", "transpose", "reshape")
_OF_A_SIDE = ("directory", "reader", "operators", "tensors", "notes", "unexplained")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and the options that pairing depends on."""
    groups = add_suite_arguments(parser, _OPTIONS)
    output = groups["output"]
    output.add_argument(
        "--suggest",
        action="store_true",
        help="read the tensors, and print a suite file with an entry for each tensor that should have a partner",
    )
    output.add_argument(
        "--model",
        metavar="FILE:FUNCTION",
        help="with --suggest: run FILE, whose FUNCTION returns the PyTorch model that RIGHT was recorded of, and pair "
        "what its modules make of the left's own values",
    )
    output.add_argument("-o", "--out", metavar="FILE", help="with --suggest: write a new file")
    output.add_argument(
        "--as",
        dest="form",
        metavar="{toml,python}",
        choices=("toml", "python"),
        help="with --suggest: a suite file (default), or the map= of assert_dumps_close",
    )
    add_quiet(output)


def run(parsed: argparse.Namespace) -> int:
    """Plan and print; return the exit code."""
    progress = Progress("msdump match", quiet=parsed.quiet)
    with progress.step("indexing and pairing"):
        planned = plan(suite_of(parsed))
    if parsed.suggest:
        if parsed.json:
            raise ConfigError("--suggest prints TOML; leave --json out")
        return suggest(planned, parsed, progress)
    if parsed.out is not None or parsed.form is not None or parsed.model is not None:
        raise ConfigError("-o, --as and --model say where and how --suggest writes; give --suggest as well")
    report = build_report(planned, {})
    if not parsed.json:
        lines = match_lines(planned.pairing.pairs, report, width=terminal_width(100, least=40), say=phrases(parsed))
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return Outcome(bool(coverage_problems(report)), "match", lambda: match_entry(planned, report))


def match_entry(planned: Plan, report: Report) -> dict[str, Any]:
    """Return what ``--json`` prints: sides, pairs, tensors without a partner, what is missing, and coverage."""
    roots = (planned.left.root, planned.right.root)
    return {
        "left": _side_entry(report.left),
        "right": _side_entry(report.right),
        "pairs": [_pair_entry(pair, *roots) for pair in planned.pairing.pairs],
        "unmatched": list(map(UNMATCHED.write, report.unmatched)),
        "missing": list(map(MISSING.write, report.missing)),
        "coverage": COVERAGE.write(report.coverage),
        "problems": list(coverage_problems(report)),
    }


def _pair_entry(pair: Pair, left_root: Path, right_root: Path) -> dict[str, Any]:
    """What is known of a pair without reading a tensor, as its record has it."""
    at, right_at = pair.left.key.op.at, pair.right.key.op.at
    at_right = {name: value for name in COORDINATES if (value := getattr(right_at, name)) is not None}
    return {
        "order": pair.order,
        **{name: getattr(at, name) for name in COORDINATES},
        "how": pair.how,
        "by": pair.by,
        "transform": _transform(pair.transform),
        "left": _tensor_entry(pair.left, left_root),
        "right": _tensor_entry(pair.right, right_root) | {"at": at_right},
        "note": None if pair.note is None else say(pair.note),
    }


def _tensor_entry(ref: TensorRef, root: Path) -> dict[str, Any]:
    key, file = ref.key, relative_file(ref.source.location, root)
    return {"address": key.address, "op_type": key.op.op_type, "file": file, "dtype": ref.spec.dtype}


# Most pairs have the same.
@lru_cache(maxsize=1024)
def _transform(transform: Transform) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(transform).items()
        if value not in (None, False)
    }


def _side_entry(side: SideInfo) -> dict[str, Any]:
    return {name: getattr(side, name) for name in _OF_A_SIDE}


def match_lines(pairs: Sequence[Pair], report: Report, *, width: int, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield the pairs in execution order, then both sides' tensors without a partner, by reason, and the totals."""
    yield from header_lines(report.left, report.right, pairs=len(pairs), profile=report.profile, say=say)
    if pairs:
        yield ""
        yield from _pair_lines(_pair_rows(pairs, say), width, say)
    yield from _missing_lines(report, width, say)
    for side in ("left", "right"):
        alone = [one for one in report.unmatched if one.side == side]
        if alone:
            yield ""
            yield say(f"alone_{side}", n=len(alone))
            yield from _unmatched_lines(alone, width, say)
    yield ""
    yield from _total_lines(report, width, say)


def _pair_rows(pairs: Sequence[Pair], say: Phrases) -> list[tuple[str, str, str, str]]:
    """Number, both addresses, and what paired them."""
    # By identity: very many tensors share their coordinates, and very many pairs what paired them.
    places = {id(at): place_of(at) for at in (pair.left.key.op.at for pair in pairs)}
    varying = _varying(places.values())
    where = {at: _place_text(place, varying) for at, place in places.items()}
    said: dict[tuple[str, str, int, Message | None], str] = {}
    rows = []
    for pair in pairs:
        kind = (pair.how, pair.by, id(pair.transform), pair.note)
        how = said.get(kind) or said.setdefault(kind, _how_text(pair, say))
        left = pair.left.key
        address = terminal_text(left.address) + where[id(left.op.at)]
        rows.append((str(pair.order + 1), address, terminal_text(pair.right.key.address), how))
    return rows


def _pair_lines(rows: Sequence[tuple[str, str, str, str]], width: int, say: Phrases = ENGLISH) -> Iterator[str]:
    """One line a pair where that fits, else the right side below the left one."""
    titles = (say("op"), say("left"), say("right"), say("paired_by"))
    # Laid out only to fit: there may be very many rows. A line is as long as its text, however wide that is, and never
    # shorter than its cells together.
    columns = sum(max(map(len, column)) for column in zip(titles, *rows, strict=True))
    if all(len("".join(row).rstrip()) <= width for row in rows) and columns <= 2 * width:
        lines = table(titles, rows, width=width, right=(0,), indent=0)
        if max(map(len, lines)) <= width:
            yield from lines
            return
    column = max(2, *(len(row[0]) for row in rows))
    yield f"{titles[0]:>{column}}  {titles[1]} <-> {titles[2]} ({titles[3]})"
    beside, below = " " * (column + 2), " " * (column + 4)
    for number, left, right, how in rows:
        first, *others = filled(left, width - column - 2)
        yield f"{number:>{column}}  {first}"
        for line in others:
            yield beside + line
        for line in filled(f"<-> {right} ({how})", width - column - 4):
            yield below + line


def _how_text(pair: Pair, say: Phrases) -> str:
    """Which way of pairing, which rule, and what is done to make the sides meet."""
    said = [say.of(message_of_note(pair.by)) if pair.how == STRUCTURE else pair.by or pair.how]
    for name in _SAID_OF_A_PAIR:
        value = _transform(pair.transform).get(name)
        if value is not None:
            said.append(name if value is True else f"{name} {value}")
    if pair.note is not None:
        said.append(say.of(pair.note))
    return terminal_text("; ".join(said))


def _varying(places: Iterable[Place]) -> tuple[int, ...]:
    """The coordinates, as numbers, that distinguish tensors."""
    distinct = set(places)
    return tuple(
        number for number in range(len(COORDINATES)) if len({place[number] for place in distinct} - {None}) > 1
    )


def _place_text(place: Place, numbers: Iterable[int]) -> str:
    text = ", ".join([f"{COORDINATES[number]} {place[number]}" for number in numbers if place[number] is not None])
    return f" [{terminal_text(text)}]" if text else ""


def _missing_lines(report: Report, width: int, say: Phrases) -> Iterator[str]:
    if not report.missing:
        return
    yield ""
    yield say("asked_not_paired", n=len(report.missing))
    for one in report.missing:
        text = f"{one.left} <-> {one.right}: {say.of(one.why)}{_candidates_text(one.candidates, say)}"
        yield from hanging(terminal_text(text), width, indent=2)


def _unmatched_lines(alone: Sequence[UnmatchedTensor], width: int, say: Phrases) -> Iterator[str]:
    """Under each reason its tensors, in the order of the first one."""
    varying = _varying(place_of(one.tensor.at) for one in alone)
    by_reason: dict[str, list[UnmatchedTensor]] = {}
    for one in alone:
        by_reason.setdefault(say.of(one.why), []).append(one)
    for reason, tensors in by_reason.items():
        yield from hanging(f"{terminal_text(reason)} ({len(tensors)}):", width, indent=2)
        for one in tensors:
            where = _place_text(place_of(one.tensor.at), varying)
            text = f"{terminal_text(one.tensor.address)}{where}{_candidates_text(one.candidates, say)}"
            yield from hanging(text, width, indent=4)


def _candidates_text(candidates: Sequence[str], say: Phrases) -> str:
    names = say.joined(map(terminal_text, candidates), "between_names")
    return say("nearest", names=names) if candidates else ""


def _total_lines(report: Report, width: int, say: Phrases) -> Iterator[str]:
    coverage, found = report.coverage, counts(report)
    alone = {"left": found["unmatched_left"], "right": found["unmatched_right"]}
    about = {"paired": coverage.right_paired, "total": coverage.right_total, "share": percent(coverage.value)}
    yield from hanging(say("match_total", n=len(report.records), **about, **alone), width)
    for sentence in sentences_on_uncompared_tensors(report, say):
        yield from hanging(sentence, width)
    # Nothing is compared here in any case.
    problems = [problem if report.records else say("nothing_pairs") for problem in coverage_problems(report, say)]
    for sentence in (*problems, *report.notes):
        yield from hanging(sentence, width)
