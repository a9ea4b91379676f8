"""``python -m pytest_msdump.compat.msaccucmp compare -m LEFT -g RIGHT …``, and further commands: the newer script's.

References
----------
Ascend "Accuracy Comparison Tool", ``msaccucmp.py compare``, release 26.2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_msdump.cli.gate import gate
from pytest_msdump.comparison.planning import plan
from pytest_msdump.comparison.user_code import NO_EXTRAS, Extras, load_extras
from pytest_msdump.compat.arguments import (
    Arguments,
    Flag,
    Grammar,
    chosen_algorithms,
    chosen_groups,
    narrowed,
    new_spelling,
    output_folder,
    passed_arguments,
    run_program,
    say,
    vendor_suite,
)
from pytest_msdump.compat.batch import Job, find_jobs
from pytest_msdump.compat.msaccucmp_commands import COMMANDS
from pytest_msdump.compat.outputs import Outputs
from pytest_msdump.compat.single_operator import NEWER_FLAGS, check_newer, new_words, run_newer
from pytest_msdump.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.inspect.overflow import with_overflow
from pytest_msdump.report.build import build_report
from pytest_msdump.report.vendor_table import Columns

__all__ = ["GRAMMAR", "main"]

_PROGRAM = "msaccucmp"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM} compare",
    summary="Compare the dump of a run under test with its reference and write result_TIME.csv. "
    "Exit code 0: within limits; 1: something drifted or nothing was compared; 4: usage error.",
    flags=(
        Flag(("-m", "--my_dump_path"), "left", "dump of the run under test, or one file", "PATH", required=True),
        Flag(("-g", "--golden_dump_path"), "right", "dump of the reference, or one file", "PATH", required=True),
        Flag(
            ("-f", "--fusion_rule_file"),
            "fusion",
            "the compiled model as JSON, or a folder of them: then -m is the folder of one time, with all its models",
            "PATH",
        ),
        Flag(("-q", "--quant_fusion_rule_file"), "quant_fusion", "quantisation rules of AMCT (JSON)", "FILE"),
        Flag(("-cf", "--close_fusion_rule_file"), "close_fusion", "the model compiled with fusion off (JSON)", "FILE"),
        Flag(("-out", "--output"), "out", "folder for the results; the current one by default", "DIR"),
        Flag(("-alg", "--algorithm"), "algorithms", "numbers 0 to 9 and names, separated by commas", "LIST", many=True),
        Flag(("-a", "--algorithm_options"), "arguments", "NAME:KEY=VALUE,KEY=VALUE;NAME:… for your algorithms", "LIST"),
        Flag(
            ("-c", "--custom_script_path"),
            "custom",
            "folder above format_convert and algorithm; your code in them is run",
            "DIR",
        ),
        Flag(("-r", "--range"), "range", "start,end,step: operators by their number in the model", "RANGE"),
        Flag(("-s", "--select"), "select", "i,j,…: operators by their number in the model", "LIST"),
        Flag(("-map", "--mapping"), "mapping", "only write who would be compared with whom"),
        Flag(("-max", "--max_cmp_size"), "first", "look at the first N elements of each tensor only", "N"),
        Flag(("-overflow_detection",), "overflow", "add the column OverFlow"),
        Flag(("-advisor",), "advisor", "also write advisor_summary.txt; adds the column OverFlow"),
        Flag(("-ffts",), "ffts", "accepted for old scripts; slices are joined with or without it"),
        Flag(("-v", "--version"), "version", "accepted for old scripts; dump files tell what they are", "N"),
        *NEWER_FLAGS,
    ),
    refused={
        **dict.fromkeys(("-p", "--post_process"), "it belongs to HDF5 dumps, which this release does not read"),
    },
)

_REPORTS = "msdump-report"
_NO_EFFECT = {
    "ffts": "-ffts changes nothing: the slices of a tensor are joined with or without it",
    "version": "-v changes nothing: dump files tell what they are",
}
# No command line of ``msdump`` does just the same as these; what the nearest one does.
_ONLY_HERE = {
    "range": "all operators are compared by",
    "select": "all operators are compared by",
    "first": "whole tensors are compared by",
    "mapping": "they are compared by",
}
_SPELLED = {
    "left": "-m",
    "right": "-g",
    "fusion": "-f",
    "quant_fusion": "-q",
    "close_fusion": "-cf",
    "report_dir": "-out",
}


@dataclass(frozen=True)
class _Wanted:
    """What was typed, for all comparisons of the command line."""

    arguments: Arguments
    folder: Path
    extras: Extras
    columns: Columns


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, ``compare`` first; return its exit code, of a batch the worst."""
    return run_program(_PROGRAM, _run, argv)


def _run(words: Sequence[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("", ())
    if command in ("-h", "--help"):
        print(_overview())  # noqa: T201 - what was asked for
        return 0
    if command in COMMANDS:
        return COMMANDS[command][1](_PROGRAM, rest)
    if command != "compare":
        raise UnknownNameError(f"unknown command '{command}'; {nearest(command, ('compare', *COMMANDS))}")
    arguments = GRAMMAR.parse(rest)
    check_newer(arguments)
    for name, sentence in _NO_EFFECT.items():
        if name in arguments:
            say(_PROGRAM, sentence)
    wanted = _wanted(arguments)
    fusion = arguments.get("fusion")
    if fusion is not None and Path(fusion).is_dir():
        if "operator" in arguments:
            raise ConfigError("-op: is one operator of one model; name the JSON file of that model with -f")
        return _run_batch(wanted, Path(fusion))
    return _compared(wanted, None)


def _wanted(arguments: Arguments) -> _Wanted:
    """Read what does not depend on the dumps. A user's code runs here, since it names algorithms."""
    custom = arguments.get("custom")
    first = _count(arguments.get("first"))
    extras = NO_EXTRAS if custom is None else load_extras(Path(custom))
    algorithms = chosen_algorithms(arguments.get("algorithms"), extras.algorithms)
    passed, notes = passed_arguments(arguments.get("arguments"), extras.algorithms)
    for note in notes:
        say(_PROGRAM, note)
    run = {name: extras.algorithms[name] for name in algorithms if name in extras.algorithms}
    return _Wanted(
        arguments=arguments,
        folder=output_folder(arguments.get("out")),
        extras=replace(extras, algorithms=run, arguments=passed, first=first),
        columns=Columns(
            algorithms=algorithms,
            sequence="range" in arguments or "select" in arguments,
            # The advice is given from the table, so it needs this column.
            overflow="overflow" in arguments or "advisor" in arguments,
        ),
    )


def _count(text: str | None) -> int | None:
    """Read ``-max``; the vendor's 0 means all."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ConfigError(f"-max: {text!r} is not a number of elements; 0 means all")
    return int(text) or None


def _run_batch(wanted: _Wanted, rules: Path) -> int:
    """Compare model by model, whatever is wrong with one, and return the worst exit code."""
    jobs, notes = find_jobs(Path(wanted.arguments.values["left"]).absolute(), rules)
    for note in notes:
        say(_PROGRAM, note)
    codes = []
    for job in jobs:
        say(_PROGRAM, f"{job.dump} by {job.rules}")
        try:
            codes.append(_compared(wanted, job))
        except MsdumpError as error:
            say(_PROGRAM, f"{job.name}: {error}")
            codes.append(4 if isinstance(error, ConfigError) else 1)
    return max(codes)


def _compared(wanted: _Wanted, job: Job | None) -> int:
    """Compare one model, or only write which tensors would be compared."""
    arguments = wanted.arguments
    options = {name: arguments.get(name) for name in _SPELLED if name in arguments}
    reports = wanted.folder / _REPORTS
    if job is not None:
        options |= {"left": str(job.dump), "fusion": str(job.rules)}
        reports /= job.report
    suite = vendor_suite({**options, "report_dir": str(reports)}, _SPELLED)
    planned = replace(plan(suite), extras=wanted.extras)
    if "operator" in arguments:
        if not any(name in arguments for name in _ONLY_HERE):
            more = [*new_words(arguments), "-o", str(wanted.folder), "--report-dir", str(reports)]
            say(_PROGRAM, f"the same gate as: {new_spelling(arguments, *more)}")
        return run_newer(planned, arguments)
    groups, notes = chosen_groups(planned, span=arguments.get("range"), numbers=arguments.get("select"))
    for note in notes:
        say(_PROGRAM, note)
    if groups is not None:
        planned = narrowed(planned, groups)
    outputs = Outputs(
        wanted.folder,
        wanted.columns,
        sequences=None if groups is None else {op.id for group in groups for op in group.operators},
        with_advice="advisor" in arguments,
        prefix="" if job is None else f"{job.name}_",
    )
    typed = {name: value for name, value in options.items() if value is not None}
    same = next((words for name, words in _ONLY_HERE.items() if name in arguments), "the same gate as")
    more = ["--io", "all", "--report", "json,csv", "--report-dir", str(reports)]
    say(_PROGRAM, f"{same}: {new_spelling(replace(arguments, values={**arguments.values, **typed}), *more)}")
    if "mapping" in arguments:
        say(_PROGRAM, f"nothing was compared, who would be is in {outputs.mapping(build_report(planned, {}))}")
        return int(not planned.pairing.pairs)
    if not wanted.columns.overflow:
        return gate(planned, outputs.result)
    return gate(planned, lambda report: outputs.result(with_overflow(planned, report)))


def _overview() -> str:
    """Return what ``--help`` prints without a command."""
    grammars = (GRAMMAR, *(grammar for grammar, _ in COMMANDS.values()))
    usages = [f"usage: {grammar.program} OPTIONS" for grammar in grammars]
    return "\n".join((*usages, "", "--help behind a command tells its options."))


if __name__ == "__main__":
    raise SystemExit(main())
