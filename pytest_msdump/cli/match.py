"""``msdump match LEFT RIGHT``: who pairs with whom and how, who does not and why; no tensor is read."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.cli.compare import OWN_HELP, suite_file, typed_sides
from pytest_msdump.cli.progress import Progress, add_quiet
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import printed_json, terminal_text
from pytest_msdump.settings import OPTIONS, argparse_kwargs, given

if TYPE_CHECKING:
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["DESCRIPTION", "HELP", "NAME", "add_arguments", "run"]

NAME = "match"
HELP = "tell who pairs with whom, and why not"
DESCRIPTION = (
    "Tell which tensors of the run under test (LEFT) and of its reference (RIGHT) 'msdump compare' would pair, by what "
    "rule, and why others stay alone. Only --suggest reads values. Exit code 0: tensors pair; 1: nothing pairs, "
    "something mapped is missing, or coverage is too low; 4: usage error."
)

# Of compare's options those that say who is there and who meets whom.
_OPTIONS = (
    "left",
    "right",
    "fusion",
    "quant_fusion",
    "close_fusion",
    "config",
    "select",
    "deselect",
    "io",
    "align",
    "iteration",
    "rank",
    "graph",
    "allow_incomplete",
    "min_coverage",
)
_NARROWEST = 40
_WITHOUT_TERMINAL = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and the options that pairing depends on."""
    parser.add_argument("sides", nargs="*", metavar="LEFT RIGHT", help="run under test, then reference")
    for option in OPTIONS:
        if option.name in _OPTIONS:
            kwargs = argparse_kwargs(option)
            parser.add_argument(*option.cli_flags, **kwargs | {"help": OWN_HELP.get(option.name, kwargs["help"])})
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="read the tensors without a partner, and print entries for a suite file: who may be whose partner",
    )
    add_quiet(parser)


def run(parsed: argparse.Namespace) -> int:
    """Plan and tell; return the exit code."""
    from pytest_msdump.pipeline.collecting import collector_at_rest

    planned = _planned(parsed)
    if parsed.suggest:
        if parsed.json:
            raise ConfigError("--suggest prints TOML; leave --json out")
        return _suggest(planned, Progress("msdump match", quiet=parsed.quiet))
    with collector_at_rest():
        return _tell(parsed, planned)


def _tell(parsed: argparse.Namespace, planned: Plan) -> int:
    from pytest_msdump.cli import match_text
    from pytest_msdump.reporting.tally import coverage_problems

    report = match_text.as_report(planned)
    if parsed.json:
        print(printed_json(match_text.match_entry(planned, report)))  # noqa: T201 - what it is for
    else:
        width = max(_NARROWEST, shutil.get_terminal_size((_WITHOUT_TERMINAL, 24)).columns)
        lines = match_text.match_lines(planned.pairing.pairs, report, width=width)
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(coverage_problems(report)))


def _suggest(planned: Plan, progress: Progress) -> int:
    """Print entries; 1 where there were tensors to find partners for and none was found."""
    from pytest_msdump.cli.match_map import map_lines, summary
    from pytest_msdump.pipeline.suggesting import suggest_partners

    found = suggest_partners(planned, watch=progress)
    types: dict[str, set[str | None]] = {}
    for ref in (*planned.left.refs, *planned.right.refs):
        types.setdefault(ref.key.op.label, set()).add(ref.key.op.op_type)
    shared = frozenset(name for name, kinds in types.items() if len(kinds - {None}) > 1)
    for line in map_lines(found, shared):
        print(line)  # noqa: T201 - what it is for
    print(terminal_text(f"msdump match: {summary(found)}"), file=sys.stderr)  # noqa: T201 - beside what goes into a file
    return int(bool(planned.pairing.unmatched_right) and not any(one.is_clear for one in found.suggestions))


def _planned(parsed: argparse.Namespace) -> Plan:
    from pytest_msdump.pipeline.planning import plan
    from pytest_msdump.suite import load_suite

    options: dict[str, Any] = given(parsed) | typed_sides(parsed)
    directory = Path.cwd()
    suite = load_suite(
        file=suite_file(options.pop("config"), directory, options),
        options=options,
        directory=directory,
        spelled={option.name: option.cli_flags[-1] for option in OPTIONS} | {"left": "LEFT", "right": "RIGHT"},
    )
    return plan(suite)
