"""``msdump match LEFT RIGHT``: who pairs with whom and how, who does not and why; no tensor is read."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.causes.suggest import Fit, Suggestion
from pytest_msdump.causes.suggest_partners import Suggested, what_speaks_for
from pytest_msdump.cli.compare import OWN_HELP, suite_file, typed_sides
from pytest_msdump.cli.output import Progress, add_quiet
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import printed_json, terminal_text
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.report.coverage import map_entry_lines
from pytest_msdump.settings import OPTIONS, argparse_kwargs, given

if TYPE_CHECKING:
    from pytest_msdump.comparison.planning import Plan

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
    from pytest_msdump.comparison.collecting import collector_at_rest

    planned = _planned(parsed)
    if parsed.suggest:
        if parsed.json:
            raise ConfigError("--suggest prints TOML; leave --json out")
        return _suggest(planned, Progress("msdump match", quiet=parsed.quiet))
    with collector_at_rest():
        return _tell(parsed, planned)


def _tell(parsed: argparse.Namespace, planned: Plan) -> int:
    from pytest_msdump.cli import match_text
    from pytest_msdump.report.coverage import coverage_problems

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
    from pytest_msdump.causes.suggest_partners import suggest_partners

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
    from pytest_msdump.comparison.planning import plan
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


# -- What ``msdump match --suggest`` prints --------------------------------------------------------------------------


def summary(found: Suggested) -> str:
    """Return one sentence: how many entries there are."""
    entries = sum(one.is_clear for one in found.suggestions)
    ambiguous = len(found.suggestions) - entries
    rest = len(found.right) + sum(one.side == "right" for one in found.unread) - len(found.suggestions)
    return (
        f"{entries} {'entry' if entries == 1 else 'entries'}, {ambiguous} ambiguous (commented out), {rest} right "
        f"{'tensor' if rest == 1 else 'tensors'} without a suggestion"
    )


def map_lines(found: Suggested, types: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a fragment of a suite file.

    Parameters
    ----------
    found : Suggested
        What was found.
    types : frozenset of str
        Names that operators of several types have; these are written ``TYPE.OP``.
    """
    yield f"# suggested by msdump match: {summary(found)}"
    spoken_for = set()
    for one in found.suggestions:
        spoken_for.add(one.right)
        if one.is_clear:
            yield ""
            yield from _entry(found, one, one.fits[0], types)
    for one in found.suggestions:
        if not one.is_clear:
            yield from _ambiguous(found, one, types)
    alone = [found.right[number] for number in range(len(found.right)) if number not in spoken_for]
    if alone:
        yield ""
        yield "# no suggestion for these right tensors:"
        yield from (f"#   {terminal_text(ref.key.address)}" for ref in alone)
    if found.unread:
        yield ""
        yield "# not looked at:"
        yield from (f"#   {terminal_text(f'{one.side}: {one.address}: {one.reason}')}" for one in found.unread)


def _entry(found: Suggested, one: Suggestion, fit: Fit, types: frozenset[str]) -> Iterator[str]:
    meeting = found.meetings[fit.left, fit.right]
    yield f"# {what_speaks_for(one, fit, meeting)}"
    entry: dict[str, Any] = {
        "left": _address(found.left[fit.left], types),
        "right": _address(found.right[fit.right], types),
    }
    if meeting.transform.transpose is not None:
        entry["transpose"] = list(meeting.transform.transpose)
    if meeting.transform.reshape:
        entry["reshape"] = True
    yield from map_entry_lines(entry)


def _ambiguous(found: Suggested, one: Suggestion, types: frozenset[str]) -> Iterator[str]:
    name = terminal_text(found.right[one.right].key.address)
    yield ""
    yield f"# ambiguous: {name} may be {'this one' if len(one.fits) == 1 else f'any of these {len(one.fits)}'}"
    for fit in one.fits:
        yield from (line if line.startswith("#") else f"# {line}" for line in _entry(found, one, fit, types))


def _address(ref: TensorRef, types: frozenset[str]) -> str:
    return ref.key.typed_address if ref.key.op.label in types else ref.key.address
