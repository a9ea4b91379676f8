"""The commands of ``python -m pytest_msdump.compat.msaccucmp`` beside ``compare``: convert, file_compare, overflow.

References: Ascend "Accuracy Comparison Tool", ``msaccucmp.py``, release 26.2.0. ``file_compare`` writes
``file_result_TIME.txt`` with a line ``Algorithm: value`` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_msdump.capabilities.compat.arguments import (
    VERSION_FLAG,
    Flag,
    Grammar,
    new_file,
    output_folder,
    run_msdump,
    say,
    vendor_suite,
    write_text,
)
from pytest_msdump.capabilities.convert import command as convert
from pytest_msdump.capabilities.overflow import command as overflow
from pytest_msdump.capabilities.vendor_tables.lines import ALGORITHMS
from pytest_msdump.capabilities.vendor_tables.table import Columns, vendor_table
from pytest_msdump.cli.gate import gate
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.model.report import Report

CONVERT = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp convert",
    summary="Write the tensors of dump files into arrays. Exit code 0: all converted; 1: something could not be, see "
    "convert_failed_file_list.txt; 4: usage error.",
    flags=(
        Flag(
            ("-d", "--dump_file", "--dump_path"),
            "dump",
            "a file, a folder, or files separated by commas",
            "PATH",
            True,
            True,
        ),
        Flag(("-out", "--output"), "out", "folder for the files; the current one by default", "DIR"),
        Flag(("-t", "--type"), "type", "npy, msnpy or bin; npy by default", "KIND"),
        Flag(("-f", "--format"), "format", "memory format to bring tensors to, e.g. NCHW", "FORMAT"),
        Flag(("-s", "--shape"), "shape", "of the tensor without padding, e.g. 2,19,5,7; of one file", "SHAPE", True),
        Flag(("-o", "--output_tensor"), "output", "only the output of this number; of one file", "K"),
        Flag(("-i", "--input_tensor"), "input", "only the input of this number; of one file", "K"),
        Flag(("-c", "--custom_script_path"), "custom", "folder above format_convert; runs your code in it", "DIR"),
        VERSION_FLAG,
    ),
    exclusive=("output", "input"),
)

FILE_COMPARE = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp file_compare",
    summary="Compare two tensor files and write file_result_TIME.txt. "
    "Exit code 0: within limits; 1: something drifted or nothing was compared; 4: usage error.",
    flags=(
        Flag(("-m", "--my_dump_path"), "left", "file of the run under test", "FILE", required=True),
        Flag(("-g", "--golden_dump_path"), "right", "file of the reference", "FILE", required=True),
        Flag(("-out", "--output"), "out", "folder for the result; the current one by default", "DIR"),
    ),
)

OVERFLOW = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp overflow",
    summary="Find out which operators overflowed. Exit code 0: none; 1: some did; 4: usage error.",
    flags=(
        Flag(("-d", "--dump_path"), "dump", "a dump with overflow files (Opdebug)", "DIR", required=True),
        Flag(("-out", "--output"), "out", "folder for the records, tensors and overflow_summary", "DIR", required=True),
        Flag(("-n", "--top_n", "--topn"), "first", "overflow files to write, 1 to 5 (default: 1)", "N"),
    ),
)

_KINDS = ("npy", "msnpy", "bin")
_ONE_FILE = {"shape": "-s", "output": "-o", "input": "-i"}

_LEFT_OUT = ("kl_divergence", "standard_deviation")
_COLUMNS = Columns(algorithms=tuple(name for name in ALGORITHMS if name not in _LEFT_OUT))
# Behind the first title of an algorithm only what is ours follows; before it, the names of the pair.
_OURS = ("Verdict", "Reason")


def run_convert(program: str, words: Sequence[str]) -> int:
    """Run the command line as ``msdump convert`` does, and say how that is typed; return the exit code."""
    arguments = CONVERT.parse(words)
    if "version" in arguments:
        say(program, "-v changes nothing: dump files say what they are")
    dump = arguments.values["dump"]
    sources = [dump] if Path(dump).exists() else [part for part in dump.split(",") if part] or [dump]
    kind = arguments.get("type") or "npy"
    if kind == "pt":
        raise ConfigError("-t pt: a PyTorch file is a pickle, which is never written; take npy and torch.from_numpy")
    if kind not in _KINDS:
        raise UnknownNameError(f"-t {kind}: is not known; {nearest(kind, _KINDS)}")
    one_file = len(sources) == 1 and not Path(sources[0]).is_dir()
    for name, flag in _ONE_FILE.items():
        if name in arguments and not one_file:
            say(program, f"{flag} is left out: it is for one file, and {dump} is more")
    options = [("--out", arguments.get("out") or "."), *([("--to", kind)] if kind != "npy" else [])]
    for flag, name in (("--memory-format", "format"), ("--shape", "shape"), ("--code", "custom")):
        if (value := arguments.get(name)) is not None and (one_file or name != "shape"):
            options.append((flag, value))
    for name in ("output", "input") if one_file else ():
        if (number := arguments.get(name)) is not None:
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise ConfigError(f"{_ONE_FILE[name]} {number}: give the number of a tensor, from 0")
            options.append(("--select", f"*:{name}:{int(number)}"))
    return run_msdump(program, convert, "convert", sources, options)


def run_file_compare(program: str, words: Sequence[str]) -> int:
    """Compare as ``msdump compare`` does, and say how that is typed; return the exit code."""
    arguments = FILE_COMPARE.parse(words)
    left, right = arguments.values["left"], arguments.values["right"]
    for flag, name in (("-m", left), ("-g", right)):
        if Path(name).is_dir():
            raise ConfigError(f"{flag}: {name} is a folder; file_compare takes two files, compare takes two folders")
    folder = output_folder(arguments.get("out"))
    reports = folder / "msdump-report"
    suite = vendor_suite({"left": left, "right": right, "report_dir": str(reports)}, {"left": "-m", "right": "-g"})
    planned = plan(suite)
    typed = ["msdump", "compare", left, right, "--io", "all", "--report-dir", str(reports)]
    say(program, f"the same gate as: {shell_line(typed)}")
    return gate(
        planned, lambda report: [write_text(new_file(folder, "file_result", ".txt"), _file_compare_text(report))]
    )


def _file_compare_text(report: Report) -> str:
    titles, rows = vendor_table(report, _COLUMNS)
    shown = (*titles[-len(_COLUMNS.algorithms) - len(_OURS) - 1 : -len(_OURS) - 1], *_OURS)
    cells = ((title, row[titles.index(title)]) for row in rows for title in shown)
    return "".join(f"{title}: {cell}\n" for title, cell in cells if cell)


def run_overflow(program: str, words: Sequence[str]) -> int:
    """Run the command line as ``msdump overflow`` does, and say how that is typed; return the exit code."""
    arguments = OVERFLOW.parse(words)
    dump, out, first = arguments.values["dump"], arguments.values["out"], arguments.get("first") or "1"
    if not (first.isascii() and first.isdigit() and len(first) < 10):
        raise ConfigError(f"-n {first}: give a number from 1 to 5")
    return run_msdump(program, overflow, "overflow", [dump], [("--out", out), ("-n", first)])


# By name: the options of a command, and what runs it.
COMMANDS: Mapping[str, tuple[Grammar, Callable[[str, Sequence[str]], int]]] = {
    "convert": (CONVERT, run_convert),
    "overflow": (OVERFLOW, run_overflow),
    "file_compare": (FILE_COMPARE, run_file_compare),
}
