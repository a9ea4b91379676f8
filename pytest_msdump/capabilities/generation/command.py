"""``msdump generation LEFT RIGHT --prompts FILE``: whether two decoders say the same after the same prompts."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from pytest_msdump.capabilities.generation.decoding import read_prompts
from pytest_msdump.capabilities.generation.prompts import (
    Generations,
    derived_limits,
    verdict_lines,
    write_both,
    write_suite,
)
from pytest_msdump.capabilities.generation.sides import side_of
from pytest_msdump.capabilities.record.process import DEFAULT_TIMEOUT
from pytest_msdump.cli.gate import gate
from pytest_msdump.cli.output import add_quiet, add_show, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import MANIFEST_FILE
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.coverage import first_failing
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.summary import may_be_rounding
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.storage.files import make_directory
from pytest_msdump.core.suite import load_suite

DESCRIPTION = (
    "Let two decoders continue the same prompts, and judge logits and tokens. LEFT and RIGHT are FILE:FUNCTION: a "
    "generator that takes ids and mask of prompts, yields the logits of the next token, and is sent the tokens; or "
    "a command that reads the JSON file MSDUMP_PROMPTS and writes prompt_0.logits.npy and so on into the folder "
    "MSDUMP_LOGITS. LEFT goes on with the tokens of RIGHT, the reference, unless --free is given. A token that differs "
    "is a near tie, which warns, or a mistake. Exit code 0: all prompts are within limits; 1: one is not; 4: usage "
    "error."
)
EXAMPLES = (
    "msdump generation port.py:decode ref.py:decode --prompts p.json",
    "msdump generation port.py:decode ref.py:decode --prompts p.json --batched",
    "msdump generation 'python said.py' ref.py:decode --prompts p.json",
)
# Both dumps, in the folder of the reports: commands in these work.
_FOLDER = "generation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare both sides, the prompts, and how they are continued."""
    parser.add_argument("left", metavar="LEFT", help="decoder under test: FILE:FUNCTION, or a command in quotes")
    parser.add_argument("right", metavar="RIGHT", help="the reference, likewise")
    parser.add_argument("--prompts", metavar="FILE", required=True, help="a JSON list of prompts, lists of token ids")
    parser.add_argument("--tokens", metavar="N", type=int, default=32, help="tokens after each prompt (default: 32)")
    parser.add_argument("--free", action="store_true", help="each side goes on with its own tokens")
    parser.add_argument(
        "--batched", action="store_true", help="the left also runs all prompts in one batch, padded on the left"
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=DEFAULT_TIMEOUT,
        help="seconds that a command may take (default: %(default)g)",
    )
    parser.add_argument("--profile", default="generation", metavar="NAME", help="named limits (default: generation)")
    parser.add_argument("--limits", metavar="FILE", help="limits file of msdump calibrate")
    parser.add_argument(
        "--perturbed",
        metavar="P",
        action="append",
        default=[],
        help="the reference with rounded weights, or in the type of LEFT: limits come from it; repeatable",
    )
    parser.add_argument(
        "--control",
        metavar="C",
        action="append",
        default=[],
        help="with --perturbed: the reference run in another harmless way; repeatable",
    )
    parser.add_argument(
        "--accept-looser", action="store_true", help="let limits hold that are 10 times looser than the profile's"
    )
    parser.add_argument(
        "--report-dir",
        default="msdump-report",
        metavar="DIR",
        help="for both dumps and the report (default: %(default)s)",
    )
    add_show(parser)
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Run both decoders, gate what they say; return the exit code."""
    if parsed.tokens < 1:
        raise ConfigError(f"--tokens {parsed.tokens}: give 1 or more")
    if parsed.control and not parsed.perturbed:
        raise ConfigError("--control: says how far limits of --perturbed may be missed; give --perturbed as well")
    if parsed.perturbed and (parsed.free or parsed.limits):
        raise ConfigError(
            f"--perturbed: makes limits of whole runs; leave out {'--free' if parsed.free else '--limits'}"
        )
    say, progress = phrases(parsed), Progress("msdump generation", quiet=parsed.quiet)
    prompts = read_prompts(Path(parsed.prompts))
    sides = side_of(parsed.left, timeout=parsed.timeout), side_of(parsed.right, timeout=parsed.timeout)
    reports = Path(parsed.report_dir).absolute()
    directory = reports / _FOLDER
    if directory.exists() and not (directory / "left" / MANIFEST_FILE).is_file():
        raise ConfigError(f"{directory}: is there already, and nothing of an earlier run; give another --report-dir")
    shutil.rmtree(directory, ignore_errors=True)
    make_directory(reports)
    perturbed, controls = (
        [side_of(one, timeout=parsed.timeout) for one in found] for found in (parsed.perturbed, parsed.control)
    )
    how = Generations(
        parsed.tokens, is_forced=not parsed.free, is_batched=parsed.batched, perturbed=perturbed, controls=controls
    )
    with progress.step("running both decoders"):
        written = write_both(directory, sides, prompts, how)
    limits = derived_limits(directory, how) if perturbed else parsed.limits and Path(parsed.limits).absolute()
    suite = write_suite(directory, parsed.profile)
    options = {"limits": limits and str(limits), "accept_looser": parsed.accept_looser, "report_dir": str(reports)}
    planned = plan(load_suite(file=suite, options=options, directory=Path.cwd()))
    files = tuple(dict.fromkeys(side.file for side in (*sides, *perturbed, *controls) if side.file))
    left = replace(planned.left, notes=(*planned.left.notes, *written.notes))
    planned = replace(planned, left=left, extras=replace(planned.extras, files=files))
    found: list[Report] = []

    def keep(report: Report) -> list[Path]:
        found.append(report)
        return []

    code = gate(planned, keep, show=parsed.msdump_show or "causes", progress=progress, say=say)
    lines = [line for report in found for line in verdict_lines(report, written.tokens, say)]
    first = first_failing(found[0].records)
    if first is not None and not limits and may_be_rounding(first):
        lines.append(say("generation_rounding"))
    print_lines(part for line in lines for part in hanging(line, terminal_width()))
    return code
