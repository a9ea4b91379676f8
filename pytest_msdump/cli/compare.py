"""``msdump compare LEFT RIGHT``: the gate without pytest, and with the flags that the vendor's script had."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.cli.gate import gate, nine_columns_writer
from pytest_msdump.cli.output import add_quiet, argument_groups, phrases
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import offered, rows
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import COMMAND_FLAGS, OPTIONS, OUTPUT_OPTIONS, argparse_kwargs, option_values
from pytest_msdump.core.suite import Suite, load_suite

DESCRIPTION = (
    "Compare the dump of a run under test (LEFT) with its reference (RIGHT): two directories, or two tensor files. "
    "Exit code 0: within limits; 1: something drifted, or nothing was compared; 4: usage error."
)
EXAMPLES = (
    "msdump compare run reference",
    "msdump compare run reference --profile strict --select '*conv*'",
    "msdump compare a.npy b.npy",
)

# pytest takes a word that begins with @ for a file of arguments, and has other places for a suite file.
_HELP = {
    "left": "dump of the run under test, also a URL such as s3://bucket/dump; "
    "'@env': where MINDSPORE_DUMP_CONFIG dumps to",
    "config": "suite file (default: msdump.toml of the current folder, when a side is not given)",
}
_DETAIL_FLAGS = {"detail_io": "-t", "detail_slot": "-i", "detail_top": "--top", "detail_rows": "--rows"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides, every option of the table, and the vendor's flags."""
    # Items per operator or tensor are pytest's concern.
    groups = add_suite_arguments(parser, [option.name for option in OPTIONS if option.name != "granularity"])
    for option in (one for one in OUTPUT_OPTIONS if one.name != "lang"):
        groups[option.group].add_argument(*option.cli_flags, **argparse_kwargs(option))
    add_quiet(groups["output"])
    # Without the capability that has it, an option is not given.
    absent = (*_DETAIL_FLAGS, "detail_operator", "scheduler", "table", "table_csv", "user_code")
    parser.set_defaults(**dict.fromkeys(absent))
    for name, row in rows("COMPARE_OPTIONS").items():
        more = {key: value for key, value in row.items() if key not in ("flags", "group", "after")}
        if row["group"] not in groups:
            groups[row["group"]] = parser.add_argument_group(row["group"])
        groups[row["group"]].add_argument(*row["flags"], dest=name, **more)


def add_suite_arguments(
    parser: argparse.ArgumentParser, names: Collection[str], *, taken: str = ""
) -> dict[str, argparse._ArgumentGroup]:
    """Declare the two sides, and the options of these names but for the flag `taken`; return the groups of the help."""
    groups = argument_groups(parser)
    groups["inputs"].add_argument("sides", nargs="*", metavar="LEFT RIGHT", help="run under test, then reference")
    for option in OPTIONS:
        if option.name in names:
            kwargs = argparse_kwargs(option)
            flags = (flag for flag in option.cli_flags if flag != taken)
            groups[option.group].add_argument(*flags, **kwargs | {"help": _HELP.get(option.name, kwargs["help"])})
    return groups


def run(parsed: argparse.Namespace) -> int:
    """Plan, compare pair by pair, print, write reports; return the exit code."""
    is_detail = parsed.detail_operator is not None
    _check_detail_flags(parsed, is_detail=is_detail)
    write = None if is_detail else _table_writer(parsed)
    suite = suite_of(parsed, io="all" if is_detail or parsed.table is not None else None)
    typed = suite.options["replay"]
    reference = None if typed is None else offered("reference").load_reference(typed)
    extras = NO_EXTRAS if parsed.user_code is None else offered("user_code").load_extras(Path(parsed.user_code))
    progress = Progress("msdump compare", quiet=parsed.quiet)
    with progress.step("indexing and pairing"):
        planned = replace(plan(suite), extras=extras)
    if write is None:
        code: int = offered("details_of_an_operator").run_detail(parsed, planned, progress)
        return code
    return gate(
        planned,
        _with_bundle(parsed, planned, write),
        show=parsed.msdump_show or "causes",
        progress=progress,
        suggests=parsed.msdump_suggest,
        tightens=parsed.msdump_limits_update is not None,
        scheduler=parsed.scheduler,
        reference=reference,
        say=phrases(parsed),
    )


def _check_detail_flags(parsed: argparse.Namespace, *, is_detail: bool) -> None:
    given_flags = [flag for name, flag in _DETAIL_FLAGS.items() if getattr(parsed, name) is not None]
    if given_flags and not is_detail:
        raise ConfigError(f"{given_flags[0]}: says more about one operator; say which with -d OP")
    if is_detail and parsed.scheduler is not None:
        raise ConfigError("--scheduler: one operator (-d) is looked at here, without workers; leave it out")
    if is_detail and parsed.table is not None:
        offered("details_of_an_operator").check_folder(parsed.table)


def _table_writer(parsed: argparse.Namespace) -> Callable[[Report], list[Path]]:
    if parsed.table is not None:
        return nine_columns_writer(parsed.table, as_csv=parsed.table_csv)
    if parsed.table_csv:
        raise ConfigError("-csv: no table to write as CSV; name one with -o PATH")
    return lambda _report: []


def _with_bundle(
    parsed: argparse.Namespace, planned: Plan, write: Callable[[Report], list[Path]]
) -> Callable[[Report], list[Path]]:
    if parsed.msdump_bundle is None:
        return write
    is_whole = parsed.msdump_show == "all"
    folder = Path(parsed.msdump_bundle)
    return lambda report: [*write(report), *offered("bundle").write_bundle(planned, report, folder, is_whole=is_whole)]


def suite_of(
    parsed: argparse.Namespace, *, io: str | None = None, table: tuple[Path, Mapping[str, Any]] | None = None
) -> Suite:
    """Load the suite that a command line describes; `io` is which tensors to take when no ``--io`` is given."""
    options: dict[str, Any] = option_values(parsed) | _typed_sides(parsed)
    options["io"] = options["io"] or io
    directory = Path.cwd()
    file = suite_file(options.pop("config"), directory, options)
    return load_suite(
        file=file if table is None else table[0],
        table=None if table is None else table[1],
        options=options,
        directory=directory,
        spelled=COMMAND_FLAGS | {"left": "LEFT", "right": "RIGHT"},
    )


def _typed_sides(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the sides that were typed without a flag: both or none."""
    sides: list[str] = parsed.sides
    if not sides:
        return {}
    flags = [f"--{name}" for name in ("left", "right") if getattr(parsed, f"msdump_{name}") is not None]
    if len(sides) != 2 or flags:
        raise ConfigError(f"give LEFT and RIGHT, or -l and -r: found {' '.join(sides + flags)}")
    return dict(zip(("left", "right"), sides, strict=True))


def suite_file(named: str | None, directory: Path, options: Mapping[str, object]) -> Path | None:
    """Return the file of ``--config``, or the folder's own msdump.toml when a side is not given."""
    if named is not None:
        file = directory / named
        if not file.exists():
            raise ConfigError(f"--config: there is no file {file}; give a suite file")
        return file
    if options.get("left") is not None and options.get("right") is not None:
        return None
    file = directory / "msdump.toml"
    if not file.exists():
        raise ConfigError("nothing to compare; give LEFT and RIGHT, or --config FILE")
    return file
