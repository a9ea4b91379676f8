"""``msdump replay LEFT``: each operator computed again from its own inputs, and the kernels that computed wrongly."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_msdump.cli.output import add_quiet, print_lines, terminal_width
from pytest_msdump.comparison.indexing import index
from pytest_msdump.comparison.opening import as_path
from pytest_msdump.escape import printed_json
from pytest_msdump.model.describe import counted, frame_lines, where_text, wrapped
from pytest_msdump.model.numbers import distinct_texts, index_text
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.replay.kernels import Replay, Replayed, Score, replay
from pytest_msdump.report.json_forms import encode
from pytest_msdump.report.progress import Progress
from pytest_msdump.settings.options import ALLOW_INCOMPLETE, argparse_kwargs
from pytest_msdump.text import bound_text, number, say

__all__ = ["DESCRIPTION", "EXAMPLES", "add_arguments", "run"]

DESCRIPTION = (
    "Compute each operator of one dump again in float64, from its own dumped inputs and the attributes in the run's "
    "graph, and name those whose kernels computed wrongly. A mistake of a port is never seen here, a wrong kernel, "
    "device or upgrade is. Exit code 0: no operator is accused; 1: one is, or none could be replayed; 4 for a usage "
    "error."
)
EXAMPLES = ("msdump replay trained", "msdump replay evaluated --graph graph_0.ir", "msdump replay trained --json")

_MOST_SHOWN = 20
_MARGIN = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump, its graphs, and what to print."""
    parser.add_argument("left", metavar="LEFT", help="the dump of the run under test, with graphs of the run")
    parser.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph outside of the dump; repeatable"
    )
    parser.add_argument("--all", action="store_true", dest="everything", help="list everything, however long")
    parser.add_argument("--json", action="store_true", help="print JSON, with NaN and infinities as strings")
    parser.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Replay, print; return the exit code."""
    return _kernels(parsed)


def _kernels(parsed: argparse.Namespace) -> int:
    progress = Progress("msdump replay", quiet=parsed.quiet)
    with progress.step("indexing"):
        dump = index(
            as_path(parsed.left),
            graph_files=[Path(name) for name in parsed.graph],
            allow_incomplete=bool(parsed.msdump_allow_incomplete),
        )
    found = replay(dump, watch=progress)
    if parsed.json:
        print(printed_json(_entry(found)))
    else:
        most = len(found.accused) if parsed.everything else _MOST_SHOWN
        print_lines(_lines(found, most=most, width=terminal_width(80, least=60)))
    return int(bool(found.accused) or not found.replayed)


def _lines(found: Replay, *, most: int, width: int) -> Iterator[str]:
    dump, accused = found.dump, found.accused
    yield f"msdump replay: {dump.root} (reader {dump.reader})"
    for one in accused[:most]:
        yield ""
        yield from _accused(one, width)
    if len(accused) > most:
        yield ""
        yield f"and {counted(len(accused) - most, 'more accused output')}; --all lists them"
    yield ""
    yield from _refused(found, width)
    yield from wrapped(_summary(found), width, indent=0)


def _accused(one: Replayed, width: int) -> Iterator[str]:
    op, score, margin = one.op, one.score, " " * _MARGIN
    yield f"{'ACCUSED':<{_MARGIN}}{op.label}" + (f"  ({op.op_type})" if op.op_type else "")
    order = "" if one.ref.place is None else f"op {one.ref.place + 1}"
    place = ", ".join(filter(None, (order, where_text(op.at), f"output {one.slot}")))
    yield f"{margin}{place}"
    yield f"{margin}{_score_text(score, one.elements)}"
    stored, expected = distinct_texts(score.stored, score.expected)
    yield f"{margin}worst at {index_text(score.index)}: stored {stored}, from its inputs {expected}"
    if one.ref.line is not None:
        yield from frame_lines(one.ref.line, width, indent=_MARGIN)
    yield f"{margin}{one.ref.source.text}"


def _score_text(score: Score, elements: int) -> str:
    if score.rule == "exact":
        return f"{counted(int(score.value), 'element')} of {elements} differ; they have to be equal"
    if score.rule == "flips":
        return f"{100 * score.value:.3g} % of {counted(elements, 'element')} are not rounded correctly; limit 0.1 %"
    return f"off by {number(score.value)} rounding units of its {_OF[score.rule]}; limit {bound_text(score.limit)}"


_OF = {"sum": "terms", "approximation": "size"}


def _refused(found: Replay, width: int) -> Iterator[str]:
    """Yield why calls were not replayed, the most frequent reason first, with one example each."""
    by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in found.refused:
        by_reason[one.op.op_type or "", one.why.code].append(f"{one.op.label}: not replayable: {say(one.why)}")
    if by_reason:
        yield f"not replayed: {counted(len(found.refused), 'call')}"
    for (op_type, _), texts in sorted(by_reason.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"  {len(texts)} {op_type}".rstrip()
        yield from wrapped(texts[0], width, indent=4)
    if by_reason:
        yield ""


def _summary(found: Replay) -> str:
    total = found.calls + len(found.refused)
    text = f"replayed {found.calls} of {counted(total, 'operator call')}, {counted(len(found.replayed), 'output')}"
    if found.undumped:
        text += f"; {counted(found.undumped, 'operator')} of the graphs without a dumped output"
    if not found.replayed:
        why = "" if found.dump.graphs else "; the dump has no graph of its run: name a saved .ir with --graph FILE"
        return f"{text}: NOTHING WAS JUDGED{why}"
    operators = len({one.op for one in found.accused})
    return f"{text}; {counted(operators, 'operator') if operators else 'no operator'} accused"


def _entry(found: Replay) -> dict[str, Any]:
    return {
        "directory": str(found.dump.root),
        "reader": found.dump.reader,
        "replayed": found.calls,
        "outputs": len(found.replayed),
        "undumped": found.undumped,
        "accused": [
            {
                "name": one.op.label,
                "op_type": one.op.op_type,
                **{name: getattr(one.op.at, name) for name in COORDINATES},
                "output": one.slot,
                "file": one.ref.source.text,
                "rule": one.score.rule,
                "score": encode(one.score.value),
                "limit": one.score.limit,
                "index": list(one.score.index),
                "stored": encode(one.score.stored),
                "expected": encode(one.score.expected),
            }
            for one in found.accused
        ],
        "refused": [
            {"name": one.op.label, "op_type": one.op.op_type, **one.why.entry, "sentence": say(one.why)}
            for one in found.refused
        ],
    }
