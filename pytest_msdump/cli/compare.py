"""``msdump compare LEFT RIGHT``: the gate without pytest."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_msdump.errors import ConfigError
from pytest_msdump.settings import OPTIONS, argparse_kwargs, given

__all__ = ["DESCRIPTION", "HELP", "NAME", "add_arguments", "run"]

NAME = "compare"
HELP = "compare two dumps or two tensor files"
DESCRIPTION = (
    "Compare the dump of a run under test (LEFT) with its reference (RIGHT): two directories or two .npy files."
)

# Two items of one operator are pytest's concern.
_NOT_HERE = ("granularity",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and every option of the one table."""
    parser.add_argument("sides", nargs="*", metavar="LEFT RIGHT", help="run under test, then reference")
    for option in OPTIONS:
        if option.name not in _NOT_HERE:
            parser.add_argument(*option.cli_flags, **argparse_kwargs(option))


def run(parsed: argparse.Namespace) -> int:
    """Plan, compare pair by pair, tell, write reports; return the exit code."""
    from pytest_msdump.pipeline.planning import plan
    from pytest_msdump.suite import load_suite

    options = given(parsed) | _sides(parsed)
    directory = Path.cwd()
    suite = load_suite(
        file=_suite_file(options.pop("config"), directory, options),
        options=options,
        directory=directory,
        spelled={option.name: option.cli_flags[-1] for option in OPTIONS} | {"left": "LEFT", "right": "RIGHT"},
    )
    planned = plan(suite)
    from pytest_msdump.cli.telling import tell_header, tell_report
    from pytest_msdump.pipeline.gathering import gathered, measured, write_report

    tell_header(planned)
    numbers = _watched(range(len(planned.pairing.pairs)))
    report = gathered(planned, {number: measured(planned, number) for number in numbers})
    return tell_report(report, write_report(report, suite.report, suite.report_dir))


def _sides(parsed: argparse.Namespace) -> dict[str, str]:
    """The sides as typed without a flag."""
    sides: list[str] = parsed.sides
    if not sides:
        return {}
    flags = [name for name in ("left", "right") if getattr(parsed, f"msdump_{name}") is not None]
    if len(sides) != 2 or flags:
        raise ConfigError(
            f"give LEFT and RIGHT, or -l and -r: found {' '.join(sides + [f'--{flag}' for flag in flags])}"
        )
    return dict(zip(("left", "right"), sides, strict=True))


def _suite_file(named: str | None, directory: Path, options: dict[str, object]) -> Path | None:
    """The suite file: the named one, or the folder's own msdump.toml when a side is not given."""
    if named is not None:
        file = directory / named
        if not file.is_file():
            raise ConfigError(f"--config: there is no file {file}; give a suite file")
        return file
    file = directory / "msdump.toml"
    given = [options.get("left"), options.get("right")]
    if None not in given:
        return None
    if not file.is_file():
        raise ConfigError("there is nothing to compare; give LEFT and RIGHT, or --config FILE")
    return file


def _watched(numbers: range) -> Iterator[int]:
    """Show progress on a terminal when there is enough to wait for."""
    import sys

    if len(numbers) < 20 or not sys.stderr.isatty():
        yield from numbers
        return
    from rich.console import Console
    from rich.progress import track

    tracked: Iterable[int] = track(numbers, "comparing", console=Console(stderr=True), transient=True)
    yield from tracked
