"""``msdump match LEFT RIGHT``: which tensors pair and how, which do not and why; no tensor is read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from pytest_msdump.causes.suggest_partners import Fit, Suggested, Suggestion, suggest_partners
from pytest_msdump.cli.compare import add_suite_arguments, suite_of
from pytest_msdump.cli.match_text import as_report, match_entry, match_lines
from pytest_msdump.cli.output import Progress, add_quiet, print_lines, terminal_width
from pytest_msdump.comparison.planning import Plan, plan
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import printed_json, terminal_text
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.report.coverage import coverage_problems, map_entry_lines

__all__ = ["DESCRIPTION", "add_arguments", "map_lines", "run"]

DESCRIPTION = (
    "Tell which tensors of the run under test (LEFT) and of its reference (RIGHT) 'msdump compare' would pair, by what "
    "rule, and why others stay alone. Only --suggest reads values. Exit code 0: tensors pair; 1: nothing pairs, "
    "something mapped is missing, or coverage is too low; 4: usage error."
)

# Of compare's options those that pairing depends on.
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and the options that pairing depends on."""
    add_suite_arguments(parser, _OPTIONS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="read the tensors without a partner, and print entries for a suite file: who may be whose partner",
    )
    add_quiet(parser)


def run(parsed: argparse.Namespace) -> int:
    """Plan and print; return the exit code."""
    planned = plan(suite_of(parsed))
    if parsed.suggest:
        if parsed.json:
            raise ConfigError("--suggest prints TOML; leave --json out")
        return _suggest(planned, Progress("msdump match", quiet=parsed.quiet))
    report = as_report(planned)
    if parsed.json:
        print(printed_json(match_entry(planned, report)))
    else:
        lines = match_lines(planned.pairing.pairs, report, width=terminal_width(100, least=40))
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(coverage_problems(report)))


# -- suggestions -----------------------------------------------------------------------------------------------------


def _suggest(planned: Plan, progress: Progress) -> int:
    """Print entries; return 1 when tensors lack a partner and none was found."""
    found = suggest_partners(planned, watch=progress)
    types: dict[str, set[str | None]] = {}
    for ref in (*planned.left.refs, *planned.right.refs):
        types.setdefault(ref.key.op.label, set()).add(ref.key.op.op_type)
    shared = frozenset(name for name, kinds in types.items() if len(kinds - {None}) > 1)
    for line in map_lines(found, shared):
        print(line)
    print_lines([f"msdump match: {_summary(found)}"], to_error=True)
    return int(bool(planned.pairing.unmatched_right) and not any(one.is_clear for one in found.suggestions))


def _summary(found: Suggested) -> str:
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

    Operators whose names are in `types` exist with several types, and are written ``TYPE.OP``.
    """
    yield f"# suggested by msdump match: {_summary(found)}"
    for one in found.suggestions:
        if one.is_clear:
            yield ""
            yield from _entry(found, one, one.fits[0], types)
    for one in found.suggestions:
        if not one.is_clear:
            yield from _ambiguous(found, one, types)
    suggested = {one.right for one in found.suggestions}
    alone = [ref for number, ref in enumerate(found.right) if number not in suggested]
    if alone:
        yield ""
        yield "# no suggestion for these right tensors:"
        yield from (f"#   {terminal_text(ref.key.address)}" for ref in alone)
    if found.unread:
        yield ""
        yield "# not looked at:"
        yield from (f"#   {terminal_text(f'{one.side}: {one.address}: {one.reason}')}" for one in found.unread)


def _entry(found: Suggested, one: Suggestion, fit: Fit, types: frozenset[str]) -> Iterator[str]:
    transform = found.alignments[fit.left, fit.right].transform
    yield f"# {found.partner(one, fit, 'left').why}"
    entry: dict[str, Any] = {
        "left": _address(found.left[fit.left], types),
        "right": _address(found.right[fit.right], types),
    }
    if transform.transpose is not None:
        entry["transpose"] = list(transform.transpose)
    if transform.reshape:
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
