"""``python -m pytest_msdump.compat.msaccucmp compare -m LEFT -g RIGHT …``, and further commands: the newer script's.

References: Ascend "Accuracy Comparison Tool", ``msaccucmp.py compare``, release 26.2.0; batch comparison:
``dump_path/time/device_id/model_name/model_id/dump_step/``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.capabilities.compat.arguments import (
    NEWER_FLAGS,
    ONE_FILE_EACH,
    VERSION_FLAG,
    Arguments,
    Flag,
    Grammar,
    check_newer,
    chosen_algorithms,
    chosen_groups,
    narrowed,
    new_file,
    new_spelling,
    new_words,
    output_folder,
    passed_arguments,
    run_newer,
    run_program,
    say,
    vendor_suite,
    write_text,
)
from pytest_msdump.capabilities.compat.msaccucmp_commands import COMMANDS
from pytest_msdump.capabilities.compat.mscmp_advisor import advice
from pytest_msdump.capabilities.graphs.ge_model import named_graphs
from pytest_msdump.capabilities.overflow.device import with_overflow
from pytest_msdump.capabilities.user_code.algorithms import load_extras
from pytest_msdump.capabilities.vendor_tables.table import Columns, columns_for, vendor_table
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import TableFile, write_table
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.report.build import build_report
from pytest_msdump.core.storage.locations import parse_location

if TYPE_CHECKING:
    from pytest_msdump.core.model.report import Report

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
            "folder above format_convert and algorithm; runs your code in them",
            "DIR",
        ),
        Flag(("-r", "--range"), "range", "start,end,step: operators by their number in the model", "RANGE"),
        Flag(("-s", "--select"), "select", "i,j,…: operators by their number in the model", "LIST"),
        Flag(("-map", "--mapping"), "mapping", "only write which tensors would be compared"),
        Flag(("-max", "--max_cmp_size"), "first", "look at the first N elements of each tensor only", "N"),
        Flag(("-overflow_detection",), "overflow", "add the column OverFlow"),
        Flag(("-advisor",), "advisor", "also write advisor_summary.txt; adds the column OverFlow"),
        Flag(("-ffts",), "ffts", "accepted for old scripts; slices are joined with or without it"),
        VERSION_FLAG,
        *NEWER_FLAGS,
    ),
    exclusive=("output", "input"),
    refused={**dict.fromkeys(("-p", "--post_process"), "it belongs to HDF5 dumps, which this release does not read")},
)

_REPORTS = "msdump-report"
_NO_EFFECT = {
    "ffts": "-ffts changes nothing: the slices of a tensor are joined with or without it",
    "version": "-v changes nothing: dump files say what they are",
}
# Options that no command line of ``msdump`` has; the words for what the nearest one does.
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
    """The options of all comparisons of a command line."""

    arguments: Arguments
    folder: Path
    extras: Extras
    columns: Columns


def _run(words: Sequence[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("", ())
    if command in ("-h", "--help"):
        grammars = (GRAMMAR, *(grammar for grammar, _ in COMMANDS.values()))
        usages = [f"usage: {grammar.program} OPTIONS" for grammar in grammars]
        print("\n".join((*usages, "", "COMMAND --help shows the options of a command.")))  # noqa: T201 - what was asked for
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
    """Read the options that do not depend on the dumps. A user's code runs here, since it names algorithms."""
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


def _compared(wanted: _Wanted, job: VendorJob | None) -> int:
    arguments = wanted.arguments
    options = {name: arguments.get(name) for name in _SPELLED if name in arguments}
    reports = wanted.folder / _REPORTS
    if job is not None:
        options |= {"left": str(job.dump), "fusion": str(job.rules)}
        reports /= job.report
    suite = vendor_suite({**options, "report_dir": str(reports)}, _SPELLED)
    planned = replace(plan(suite, newest_only=True), extras=wanted.extras)
    if "operator" in arguments:
        if not any(name in arguments for name in _ONLY_HERE):
            more = [*new_words(arguments), "-o", str(wanted.folder), "--report-dir", str(reports)]
            say(_PROGRAM, f"{ONE_FILE_EACH}, the same gate as: {new_spelling(arguments, *more)}")
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
    same = next(
        (words for name, words in _ONLY_HERE.items() if name in arguments), f"{ONE_FILE_EACH}, the same gate as"
    )
    more = ["--io", "all", "--report", "json,csv", "--report-dir", str(reports)]
    say(_PROGRAM, f"{same}: {new_spelling(replace(arguments, values={**arguments.values, **typed}), *more)}")
    if "mapping" in arguments:
        say(_PROGRAM, f"nothing was compared; the pairs are in {outputs.mapping(build_report(planned, {}))}")
        return int(not planned.pairing.pairs)
    if not wanted.columns.overflow:
        return gate(planned, outputs.result)
    return gate(planned, lambda report: outputs.result(with_overflow(planned, report)))


_LAYOUT = "TIME/DEVICE/MODEL/MODEL_ID/STEP"
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True)
class VendorJob:
    """One model of a batch: its dump, its rule file, and the names of its results and its report."""

    dump: Path
    rules: Path
    name: str
    report: str


def find_jobs(root: Path, rules: Path) -> tuple[tuple[VendorJob, ...], tuple[str, ...]]:
    """Return the models of a dump with their rule files, and notes about models and graphs without the other."""
    if not root.is_dir() or not _DIGITS.fullmatch(root.name):
        raise ConfigError(
            f"-m: {root} is not the folder of a dump's time; with a folder of rule files give {_LAYOUT.split('/')[0]} "
            f"of {_LAYOUT}, or name one JSON file with -f"
        )
    graphs = named_graphs(rules, where="-f")
    dumped = list(_dumped(root))
    if not dumped:
        raise ConfigError(f"-m: {root} holds no {_LAYOUT.split('/', 1)[1]} with files; is it the right folder?")
    jobs, notes, met = [], [], set()
    for one in dumped:
        device, model, model_id, step = one.parts[-4:]
        graph, note = _graph_of(model, graphs)
        if graph is None:
            notes.append(f"{one}: no rule file in {rules} names the model {model}; it is not compared")
            continue
        notes += [note] if note else []
        met.add(graph)
        report = f"{device}_{model}_{model_id}_{step}"
        jobs.append(VendorJob(one, graphs[graph], f"{device}_{model}_{step}", report))
    notes += [f"{graphs[graph]}: nothing was dumped of {graph}" for graph in graphs if graph not in met]
    if not jobs:
        raise ConfigError(
            f"no model below {root} ({_names(one.parts[-3] for one in dumped)}) is named by a rule file in {rules} "
            f"({_names(graphs)})"
        )
    return tuple(jobs), tuple(dict.fromkeys(notes))


def _dumped(root: Path) -> Iterator[Path]:
    """Yield the last step of every device, model and model id."""
    for device in _folders(root):
        for model in _folders(device):
            for model_id in _folders(model):
                steps = [step for step in _folders(model_id) if _DIGITS.fullmatch(step.name)]
                if steps:
                    # By number: as texts, step 9 would come after step 10.
                    yield max(steps, key=lambda step: int(step.name))


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_dir())


def _graph_of(model: str, graphs: Mapping[str, Path]) -> tuple[str | None, str]:
    """Return the graph of a dumped model, and a note if it has another name."""
    if model in graphs:
        return model, ""
    numbers = _DIGITS.findall(model)
    found = {graph: _DIGITS.findall(graph) for graph in graphs}
    alike = [graph for graph in graphs if len(numbers) == len(found[graph]) == 2 and numbers[1] == found[graph][1]]
    if len(alike) != 1:
        return None, ""
    return alike[0], f"{model} is compared by the rules of {alike[0]}, which was compiled at another time"


def _names(names: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(names)))


_UNKNOWN = "NaN"
_MAPPING_TITLES = ("Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath")
_NAMES_ONLY = Columns(algorithms=(), verdict=False)


@dataclass(frozen=True)
class Outputs:
    """The files of one comparison; with `sequences`, tables have only groups with one of these operators."""

    folder: Path
    columns: Columns
    sequences: Container[int] | None = field(default=None, kw_only=True)
    with_advice: bool = field(default=False, kw_only=True)
    prefix: str = field(default="", kw_only=True)

    def result(self, report: Report) -> list[Path]:
        """Write the table of a finished comparison, and the advice."""
        found = columns_for(report)
        columns = replace(self.columns, left_address=found.left_address, right_address=found.right_address)
        files = [self._csv("result", self._table(report, columns))]
        if self.with_advice:
            text = advice(*self._table(report, Columns(overflow=True))).lines
            files.append(write_text(self.folder / f"{self.prefix}advisor_summary.txt", text))
        return files

    def mapping(self, report: Report) -> Path:
        """Write which tensors would be compared, and their files."""
        titles, rows = self._table(report, _NAMES_ONLY)
        places = [titles.index(title) for title in _MAPPING_TITLES[:5]]
        files = _files_by_tensor(report)
        mapped = []
        for row in rows:
            names = [row[place] for place in places]
            # A star on the left: the row is of a right operator as a whole.
            is_right = names[2] == "*"
            known = files[is_right, names[3] if is_right else names[4]]
            mapped.append((*names, *(known.pop(0) if known else (_UNKNOWN, _UNKNOWN))))
        return self._csv("mapping", (_MAPPING_TITLES, mapped))

    def _table(self, report: Report, columns: Columns) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return vendor_table(report, columns, right_alone=False, sequences=self.sequences)

    def _csv(self, kind: str, table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Path:
        path = new_file(self.folder, f"{self.prefix}{kind}", ".csv")
        try:
            return write_table(TableFile(path, as_csv=True), *table, flag="-out")
        except MsdumpError:
            path.unlink(missing_ok=True)
            raise


def _files_by_tensor(report: Report) -> dict[tuple[bool, str], list[tuple[str, str]]]:
    """Return files of both sides, run by run, by ``(False, address)`` or ``(True, operator of the right alone)``."""
    found: dict[tuple[bool, str], list[tuple[str, str]]] = defaultdict(list)
    for record in report.records:
        files = (_path(report.left.directory, record.left.file), _path(report.right.directory, record.right.file))
        found[False, record.left.address].append(files)
    for one in report.unmatched:
        address, file = one.tensor.address, one.tensor.file
        if one.side == "left":
            found[False, address].append((_path(report.left.directory, file), _UNKNOWN))
        else:
            files = (_UNKNOWN, _path(report.right.directory, file))
            found[True, address.rsplit(":", 2)[0]].append(files)
    return found


def _path(root: str, file: str) -> str:
    # A dump that is one file is its own root.
    path = parse_location(root, Path())
    return root if path.is_file() else str(path / file)


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
