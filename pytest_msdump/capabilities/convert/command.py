"""``msdump convert SRC… --out OUT``: tensors of dumps become arrays, archives, raw bytes or text, one file each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.capabilities.arrays.writer import remove_leftovers
from pytest_msdump.capabilities.convert.dump_files import (
    KINDS,
    DumpPlan,
    DumpSource,
    Overrides,
    expected_names,
    plan_dumps,
    write_planned,
)
from pytest_msdump.capabilities.convert.formats import known_format
from pytest_msdump.capabilities.convert.msprobe_tree import write_msprobe_tree
from pytest_msdump.capabilities.convert.one_file import (
    ConvertOptions,
    Outcome,
    convert_files,
    default_jobs,
    write_failed_list,
    write_mappings,
)
from pytest_msdump.capabilities.convert.sources import SourceFile, claim_names, sources_of
from pytest_msdump.capabilities.record.writer import sketch_dump
from pytest_msdump.cli.output import add_quiet, argument_groups, phrases, print_lines
from pytest_msdump.core.compare.opening import as_path, index, listed
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.layouts.converters import load_converters
from pytest_msdump.core.matching.leaving import Names
from pytest_msdump.core.matching.selection import PairFilter, Selection
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import ALLOW_INCOMPLETE, argparse_kwargs
from pytest_msdump.core.storage.files import make_folder

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.tensor import TensorRef
    from pytest_msdump.core.text import Phrases

DESCRIPTION = (
    "Write each tensor of dumps of any format into a file of its own, as it is stored or in another memory format. "
    "Exit code 0: all converted; 1: see convert_failed_file_list.txt in OUT for the "
    "reasons; 4: usage error."
)
EXAMPLES = ("msdump convert run --out arrays", "msdump convert run --out arrays --to npz --select '*conv*'")

# Whole dumps of another format: one dump into a new folder.
_DUMPS: Mapping[str, Callable[[Dump, Path], int]] = {
    "msprobe": write_msprobe_tree,
    "recording": lambda dump, out: sketch_dump(dump, out, full=["*"]),
    "sketch": sketch_dump,
}
_TARGETS = ("npy", "msnpy", "npz", "bin", "txt", "dump", *_DUMPS)
_MOST_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to convert, and to what."""
    titles = ("inputs", "memory format", "dump files (--to dump)", "output")
    inputs, layout, dumps, output = argument_groups(parser, titles).values()
    inputs.add_argument("sources", nargs="+", metavar="SRC", help="a dump, or one file of it; repeatable")
    output.add_argument("-o", "--out", required=True, metavar="OUT", help="folder for the files; made if missing")
    output.add_argument(
        "--to",
        metavar="KIND",
        choices=_TARGETS,
        default="npy",
        help=f"{', '.join(_TARGETS)} (default: npy); msnpy: npy with MindSpore's names; the last three: a whole dump",
    )
    layout.add_argument("--memory-format", metavar="FORMAT", help="e.g. NCHW (default: as stored)")
    layout.add_argument(
        "--from-format", metavar="FORMAT", help="memory format of the tensors, if their files do not say it"
    )
    layout.add_argument("--shape", metavar="2,19,5,7", help="of one file's tensor in FORMAT, without padding")
    inputs.add_argument(
        "--select", action="append", default=[], metavar="GLOB", help="operators or OP:io:slot; repeatable"
    )
    inputs.add_argument("--io", choices=("output", "input", "all"), default="all", help="which tensors")
    layout.add_argument("--code", metavar="DIR", help="folder above format_convert; runs your code in it")
    inputs.add_argument(*ALLOW_INCOMPLETE.cli_flags, **argparse_kwargs(ALLOW_INCOMPLETE))
    dumps.add_argument(
        "--kind", choices=KINDS, help="with --to dump: kind of files (default: by the names of the arrays)"
    )
    dumps.add_argument(
        "--dtype", metavar="TYPE", help="with --to dump: what the elements are where npy cannot say it, e.g. bfloat16"
    )
    dumps.add_argument("--groups", type=int, metavar="N", help="with --to dump: groups of a convolution, for weights")
    output.add_argument("--jobs", type=int, metavar="N", help="processes (default: by the number of files)")
    add_quiet(output, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Convert and print; return the exit code."""
    if parsed.jobs is not None and not 1 <= parsed.jobs <= 256:
        raise ConfigError(f"--jobs {parsed.jobs}: give a number from 1 to 256")
    if parsed.to != "dump":
        for name in ("kind", "dtype", "groups"):
            # The vendor's command line has none of them.
            if getattr(parsed, name, None) is not None:
                raise ConfigError(f"--{name} is for --to dump; --to {parsed.to} was asked for")
    if parsed.to in _DUMPS:
        return _to_another_dump(parsed)
    sources, unexplained = _found(parsed)
    return (_to_dumps if parsed.to == "dump" else _to_arrays)(parsed, sources, unexplained)


def _to_another_dump(parsed: argparse.Namespace) -> int:
    """Write one dump as another one, tensor by tensor; exit code 4 where one cannot be read."""
    for name in ("memory_format", "from_format", "shape", "code", "jobs"):
        if getattr(parsed, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} is for files; --to {parsed.to} was asked for")
    if len(parsed.sources) > 1:
        raise ConfigError(f"--to {parsed.to} is for one dump, and there are {len(parsed.sources)}")
    out = Path(parsed.out)
    progress = Progress("msdump convert", quiet=parsed.quiet)
    with progress.step("indexing"):
        dump = index(as_path(parsed.sources[0]), allow_incomplete=bool(parsed.msdump_allow_incomplete))
    dump = replace(dump, refs=tuple(filter(_selected(parsed, dump), dump.refs)))
    if not dump.refs:
        raise ConfigError("nothing was selected; see what there is with msdump inspect, and change --select or --io")
    with progress.step("converting"):
        count = _DUMPS[parsed.to](dump, out)
    print_lines([phrases(parsed)("converted_to", n=count, place=str(out))])
    return 0


def _selected(parsed: argparse.Namespace, dump: Dump) -> Callable[[TensorRef], bool]:
    selection = Selection(select=tuple(parsed.select), io=parsed.io)
    pair_filter = PairFilter(selection, Names(dump))
    return lambda ref: ref.key.io in selection.directions and pair_filter.takes_ref(ref)


def _found(parsed: argparse.Namespace) -> tuple[Sequence[SourceFile], list[Path]]:
    """Return the files with selected tensors, and those that no reader knows."""
    paths = [listed(as_path(text)) for text in parsed.sources]
    several = sum(path.is_dir() for path in paths) > 1
    out = Path(parsed.out)
    for path in paths:
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"--out {out}: lies in {path}, and its files would become part of that dump")
    everything = not parsed.select and parsed.io == "all"
    sources: list[SourceFile] = []
    unexplained: list[Path] = []
    progress = Progress("msdump convert", quiet=parsed.quiet)
    for path in paths:
        with progress.step("indexing"):
            dump = index(path, allow_incomplete=bool(parsed.msdump_allow_incomplete))
        below = Path(path.resolve().name) if several and path.is_dir() else Path()
        sources += sources_of(dump, takes=_selected(parsed, dump), everything=everything, below=below)
        unexplained += [path / name for name in dump.unexplained]
    if not sources and not everything:
        raise ConfigError("nothing was selected; see what there is with msdump inspect, and change --select or --io")
    return claim_names(sources, parsed.to), unexplained


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise ConfigError(f"--shape {text}: give lengths separated by commas, e.g. 2,19,5,7")
    return tuple(int(part) for part in parts)


def _print(sentence: str) -> None:
    print_lines([f"msdump convert: {sentence}"], to_error=True)


def _print_failures(outcomes: Sequence[Outcome], out: Path, say: Phrases) -> int:
    """Print the first failures, write a list of all; return how many files failed."""
    failed = [outcome for outcome in outcomes if outcome.failures]
    failed_list = write_failed_list(outcomes, out)
    for outcome in failed[:_MOST_SHOWN]:
        label, reason = outcome.failures[0]
        more = say("convert_more", n=len(outcome.failures) - 1) if len(outcome.failures) > 1 else ""
        why = f"{label}: {reason}" if label else reason
        _print(say("convert_failed", path=str(outcome.path), why=why, more=more))
    if failed_list is not None:
        _print(say("convert_failures", n=len(failed), total=len(outcomes), place=str(failed_list)))
    return len(failed)


def _to_arrays(parsed: argparse.Namespace, sources: Sequence[SourceFile], unexplained: Sequence[Path]) -> int:
    say, options = phrases(parsed), _options(parsed, sources)
    for folder in {options.out, *(options.out / source.folder for source in sources)}:
        remove_leftovers(folder)
    jobs = parsed.jobs or default_jobs(len(sources))
    progress = Progress("msdump convert", quiet=parsed.quiet)
    outcomes = list(progress(convert_files(sources, options, jobs=jobs), "files", len(sources)))
    write_mappings([row for outcome in outcomes for row in outcome.names])
    if unexplained:
        _print(say("left_out_no_dump", n=len(unexplained), name=str(min(unexplained))))
    failed = _print_failures(outcomes, options.out, say)
    written = sum(len(outcome.written) for outcome in outcomes)
    about = {"total": len(outcomes), "written": written, "place": str(options.out)}
    print_lines([say("converted", n=len(outcomes) - failed, **about)])
    return int(bool(failed) or not written)


def _options(parsed: argparse.Namespace, sources: Sequence[SourceFile]) -> ConvertOptions:
    out, shape = Path(parsed.out), _shape(parsed.shape)
    if shape is not None and len(sources) > 1:
        raise ConfigError(f"--shape is for one file, and there are {len(sources)}")
    if parsed.memory_format is None and (shape is not None or parsed.code is not None):
        raise ConfigError("--shape and --code say how to bring a tensor to a memory format; give --memory-format, too")
    code = None if parsed.code is None else Path(parsed.code)
    if code is not None:
        _, files = load_converters(code)
        if not files:
            raise ConfigError(f"--code {code}: holds no format_convert/convert_FROM_to_TO.py; name the folder above it")
        _print(phrases(parsed)("ran_user_code", names=tuple(map(str, files))))
    options = ConvertOptions(
        out=out,
        to=parsed.to,
        memory_format=parsed.memory_format and known_format(parsed.memory_format, flag="--memory-format"),
        from_format=parsed.from_format and known_format(parsed.from_format, flag="--from-format"),
        shape=shape,
        code=code,
        protected=frozenset(_identities(sources, out)),
    )
    make_folder(out, "--out")
    return options


def _identities(sources: Iterable[SourceFile], out: Path) -> Iterator[tuple[int, int]]:
    """Yield device and inode of the sources that lie in the output folder, which a target could overwrite."""
    real = out.resolve()
    for source in sources:
        if source.path.resolve().is_relative_to(real) or source.path.parent.resolve().is_relative_to(real):
            status = source.path.stat()
            yield status.st_dev, status.st_ino


def _to_dumps(parsed: argparse.Namespace, sources: Sequence[SourceFile], unexplained: Sequence[Path]) -> int:
    tensors = [DumpSource(tensor.ref, file.name, file.folder) for file in sources for tensor in file.tensors]
    plans, others = plan_dumps(tensors, parsed.kind)
    left_out = sorted({*others, *(path.name for path in unexplained)})
    out = Path(parsed.out)
    _check_plans(parsed, plans, left_out)
    overrides = _overrides(parsed)
    make_folder(out, "--out")
    for folder in {(out / plan.path).parent for plan in plans}:
        remove_leftovers(folder)
    outcomes = []
    for plan in plans:
        outcome = Outcome(plan.parts[0][1].ref.source.path)
        try:
            outcome.written.append(write_planned(plan, out, overrides))
        except (MsdumpError, OSError, MemoryError) as error:
            reason = str(error).removeprefix(f"{outcome.path}: ")
            outcome.failures.append(("", reason or "there is not enough memory"))
        outcomes.append(outcome)
    say = phrases(parsed)
    if left_out:
        _print(say("left_out_other_names", n=len(left_out), name=left_out[0]))
    failed = _print_failures(outcomes, out, say)
    print_lines([say("wrote_of", n=len(outcomes) - failed, total=len(outcomes), place=str(out))])
    return int(bool(failed))


def _overrides(parsed: argparse.Namespace) -> Overrides:
    if parsed.groups is not None and not 1 <= parsed.groups < 2**31:
        raise ConfigError(f"--groups {parsed.groups}: give a number from 1 on")
    converters, files = load_converters(Path(parsed.code)) if parsed.code is not None else ({}, ())
    if files:
        _print(phrases(parsed)("ran_user_code", names=tuple(map(str, files))))
    return Overrides(
        dtype=parsed.dtype,
        memory_format=parsed.from_format,
        shape=_shape(parsed.shape),
        groups=parsed.groups,
        wanted=parsed.memory_format and known_format(parsed.memory_format, flag="--memory-format"),
        converters=converters,
    )


def _check_plans(parsed: argparse.Namespace, plans: Sequence[DumpPlan], left_out: Sequence[str]) -> None:
    """Refuse what cannot be meant: nothing to write, one shape for many files, a target that is one of the sources."""
    if not plans:
        example = f", e.g. {left_out[0]}" if left_out else ""
        raise ConfigError(f"no name is a dump file's{example}; give {expected_names(parsed.kind)}, see msdump rename")
    if parsed.shape is not None and len(plans) > 1:
        raise ConfigError(f"--shape is for one file, and there are {len(plans)}")
    if parsed.code is not None and parsed.memory_format is None:
        raise ConfigError("--code says how to bring a tensor to a memory format; give --memory-format, too")
    for plan in plans:
        target = Path(parsed.out) / plan.path
        if target.exists() and any(target.samefile(source.ref.source.path) for _, source in plan.parts):
            raise ConfigError(f"--out {parsed.out}: {plan.path} there is what is to be converted; name another folder")
