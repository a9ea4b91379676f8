"""``msdump replay LEFT``: each operator gets its own inputs again, and those that are wrong by themselves are named."""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.replay.kernels import Refused, Replay, Replayed, Score, replay
from pytest_msdump.capabilities.replay.reference_model import load_reference, record_reference
from pytest_msdump.cli.compare import suite_file
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import add_quiet, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.opening import as_path, index
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import printed_json
from pytest_msdump.core.model.describe import distinct_texts, frame_lines, index_text, where_text, wrapped
from pytest_msdump.core.model.tensor import COORDINATES, OpKey
from pytest_msdump.core.report.coverage import percent
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.tables import titled
from pytest_msdump.core.settings.options import (
    ALLOW_INCOMPLETE,
    COMMAND_FLAGS,
    OPTIONS,
    OUTPUT_OPTIONS,
    argparse_kwargs,
    option_values,
    parse_coverage,
)
from pytest_msdump.core.storage.files import make_directory
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import Phrases, encode, say

_MOST_SHOWN = 20


_MARGIN = 9


def replay_lines(replay: Replay, *, unfolded: bool, width: int, say: Phrases) -> Iterator[str]:
    """Yield the operators that are wrong by themselves, the damaged ones, and why others were not replayed."""
    dump, accused = replay.dump, replay.accused
    most = len(accused) if unfolded else _MOST_SHOWN
    yield say("about_dump", command="msdump replay", directory=str(dump.root), reader=dump.reader)
    for one in accused[:most]:
        yield ""
        yield from _accused(one, width, say)
    if len(accused) > most:
        yield ""
        yield say("more_accused", n=len(accused) - most)
    for damaged in replay.damaged:
        yield ""
        yield titled(say("DAMAGED"), _named(damaged.op), _MARGIN)
        yield from wrapped(say.of(damaged.why), width, indent=_MARGIN)
    yield ""
    yield from _refused(replay, width, say, most=len(replay.refused) if unfolded else _MOST_SHOWN)
    yield from wrapped(_summary(replay, say), width, indent=0)


def _named(op: OpKey) -> str:
    return op.label + (f"  ({op.op_type})" if op.op_type else "")


def _accused(one: Replayed, width: int, say: Phrases) -> Iterator[str]:
    op, score, margin = one.op, one.score, " " * _MARGIN
    yield titled(say("ACCUSED"), _named(op), _MARGIN)
    order = "" if one.ref.place is None else say("op_at", n=one.ref.place + 1)
    place = say.joined(filter(None, (order, where_text(op.at), say("output_slot", n=one.slot))), "between_names")
    yield f"{margin}{place}"
    yield f"{margin}{_score_text(score, one.elements, say)}"
    stored, expected = distinct_texts(score.stored, score.expected)
    yield margin + say("replay_worst", place=index_text(score.index), stored=stored, expected=expected)
    if one.ref.line is not None:
        yield from frame_lines(one.ref.line, width, indent=_MARGIN)
    yield f"{margin}{one.ref.source.text}"


def _score_text(score: Score, elements: int, say: Phrases) -> str:
    if score.rule == "exact":
        return say("score_exact", n=int(score.value), elements=elements)
    if score.rule == "flips":
        return say("score_flips", share=f"{100 * score.value:.3g}", n=elements)
    return say(f"score_{score.rule}", value=score.value, limit=score.limit)


def _refused(replay: Replay, width: int, say: Phrases, *, most: int) -> Iterator[str]:
    """Yield why calls were not replayed, the most frequent reason first, with one example each and further names."""
    by_reason: defaultdict[tuple[str, str], list[Refused]] = defaultdict(list)
    for one in replay.refused:
        by_reason[one.op.op_type or "", one.why.code].append(one)
    if by_reason:
        yield say("calls_not_replayed", n=len(replay.refused))
    for (op_type, _), (first, *others) in sorted(by_reason.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"  {1 + len(others)} {op_type}".rstrip()
        yield from wrapped(say("not_replayable", name=first.op.label, why=first.why), width, indent=4)
        if others:
            names = say.named((one.op.label for one in others), most)
            yield from wrapped(say("likewise", names=names), width, indent=4)
    if by_reason:
        yield ""


def _summary(replay: Replay, say: Phrases) -> str:
    undumped = say("replay_undumped", n=replay.undumped) if replay.undumped else ""
    about = {"total": replay.calls + len(replay.refused), "outputs": len(replay.replayed), "undumped": undumped}
    text = say("replayed_calls", n=replay.calls, **about)
    if not replay.replayed:
        return say("replay_nothing", text=text, why="" if replay.dump.graphs else say("replay_without_graph"))
    operators = len({one.op for one in replay.accused})
    damaged = say("and_damaged", n=len(replay.damaged)) if replay.damaged else ""
    return say("replay_accused" if operators else "replay_none_accused", text=text, n=operators, damaged=damaged)


def replay_entry(replay: Replay) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "directory": str(replay.dump.root),
        "reader": replay.dump.reader,
        "replayed": replay.calls,
        "outputs": len(replay.replayed),
        "undumped": replay.undumped,
        "damaged": [one.op.label for one in replay.damaged],
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
            for one in replay.accused
        ],
        "refused": [
            {"name": one.op.label, "op_type": one.op.op_type, **one.why.entry, "sentence": say(one.why)}
            for one in replay.refused
        ],
    }


DESCRIPTION = (
    "Give each operator of one dump its own inputs again, and name those that are wrong by themselves. Without a "
    "model, operators are computed in float64 from the attributes in the graph: a mistake of a port is never seen, a "
    "wrong kernel, device or upgrade is. With --model, each module of the reference goes on with what LEFT has in its "
    "place: a mistake of the port is seen, at its module alone. Exit code 0: none is wrong; 1: one is, one is not "
    "within limits (--model), a tensor is damaged, or too few could be replayed; 4 for a usage error."
)
EXAMPLES = (
    "msdump replay trained",
    "msdump replay evaluated --graph graph_0.ir",
    "msdump replay trained --json",
    "msdump replay trained --model reference.py:build",
    "msdump replay exported --model model.onnx",
)

# The folder of the recorded reference in that of the reports.
_REFERENCE = "reference"
# What only one of the two ways takes; both take --all, --allow-incomplete and --quiet.
_KERNEL_OPTIONS = {"graph": "--graph", "json": "--json"}
_OPTIONS = (
    *("config", "fusion", "select", "deselect", "pair_by", "align", "profile", "threshold", "min_coverage"),
    *("limits", "spread", "jobs", "report", "report_dir"),
)
_EVERYTHING = next(option for option in OUTPUT_OPTIONS if option.kind == "word")
_LEAST = next(option for option in OPTIONS if option.name == "min_replayed")
_MODEL_OPTIONS = (
    *(option for option in OPTIONS if option.name in _OPTIONS),
    *(option for option in OUTPUT_OPTIONS if option.name == "show" and option is not _EVERYTHING),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the dump, then the options of each way."""
    parser.add_argument("left", metavar="LEFT", help="the dump of the run under test")
    for option in (ALLOW_INCOMPLETE, _EVERYTHING, _LEAST):
        parser.add_argument(*option.cli_flags, **argparse_kwargs(option))
    add_quiet(parser, "-q")
    kernels = parser.add_argument_group("without a model")
    kernels.add_argument(
        "--graph", action="append", default=[], metavar="FILE", help="a graph outside of the dump; repeatable"
    )
    kernels.add_argument("--json", action="store_true", help="print JSON, with NaN and infinities as strings")
    model = parser.add_argument_group("with a model")
    model.add_argument(
        "--model",
        metavar="FILE:FUNCTION",
        help="run FILE, whose FUNCTION returns the reference as a PyTorch or Keras model, alone or with its inputs; or "
        "name a MODEL.onnx, which runs node by node",
    )
    for option in _MODEL_OPTIONS:
        model.add_argument(*option.cli_flags, **argparse_kwargs(option))


def run(parsed: argparse.Namespace) -> int:
    """Replay, print; return the exit code."""
    everything = parsed.msdump_show == _EVERYTHING.value
    options = {
        option.dest: option.cli_flags[0] for option in _MODEL_OPTIONS if not (everything and option.name == "show")
    }
    foreign, way = (options, "with --model") if parsed.model is None else (_KERNEL_OPTIONS, "without --model")
    for name, flag in foreign.items():
        if getattr(parsed, name):
            raise ConfigError(f"{flag}: is only taken {way}; see msdump replay --help")
    return _kernels(parsed) if parsed.model is None else _modules(parsed)


def _modules(parsed: argparse.Namespace) -> int:
    """Record the reference, compare with it, replay it: a gate whose right side is the reference model itself."""
    progress = Progress("msdump replay", quiet=parsed.quiet)
    typed = str(Path.cwd() / parsed.model)
    left = index(as_path(parsed.left), allow_incomplete=bool(parsed.msdump_allow_incomplete))
    reference = load_reference(typed)
    options: dict[str, Any] = option_values(parsed) | {"left": parsed.left, "right": _REFERENCE, "replay": typed}
    suite = load_suite(
        file=suite_file(options.pop("config"), Path.cwd(), options),
        options=options,
        directory=Path.cwd(),
        spelled=COMMAND_FLAGS | {"left": "LEFT"},
    )
    # Kept beside the report, so that the commands in it work.
    right = suite.report_dir / _REFERENCE
    shutil.rmtree(right, ignore_errors=True)
    make_directory(suite.report_dir)
    with progress.step("recording the reference"):
        record_reference(reference, left, right)
    with progress.step("indexing and pairing"):
        planned = plan(replace(suite, name=parsed.model, right=replace(suite.right, path=right)))
    show = parsed.msdump_show or "causes"
    return gate(planned, show=show, progress=progress, reference=reference, say=phrases(parsed))


def _kernels(parsed: argparse.Namespace) -> int:
    progress = Progress("msdump replay", quiet=parsed.quiet)
    with progress.step("indexing"):
        dump = index(
            as_path(parsed.left),
            graph_files=[Path(name) for name in parsed.graph],
            allow_incomplete=bool(parsed.msdump_allow_incomplete),
        )
    found = replay(dump, watch=progress)
    typed = parsed.msdump_min_replayed
    least = _LEAST.value if typed is None else parse_coverage(typed, flag=True, where="--min-replayed")
    is_enough = 0 < found.calls >= least * found.replayable
    if parsed.json:
        print(printed_json({**replay_entry(found), "replayable": found.replayable, "least": least}))
    else:
        unfolded = parsed.msdump_show == _EVERYTHING.value
        language, width = phrases(parsed), terminal_width(80, least=60)
        print_lines(replay_lines(found, unfolded=unfolded, width=width, say=language))
        if found.replayed and not is_enough:
            text = language("replayed_below", k=found.calls, total=found.replayable, wanted=percent(least))
            print_lines(wrapped(text, width, indent=0))
    return int(bool(found.accused or found.damaged) or not found.replayed or not is_enough)
