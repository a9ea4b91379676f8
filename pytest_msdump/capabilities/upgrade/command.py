"""``msdump upgrade --old ENV --new ENV -- COMMAND``: what an upgrade changes, since when, and whether it matters."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from pytest_msdump.capabilities.record.process import own_folder
from pytest_msdump.capabilities.replay.reference_model import load_reference
from pytest_msdump.capabilities.upgrade import report
from pytest_msdump.capabilities.upgrade.court import Court, Side
from pytest_msdump.capabilities.upgrade.environments import Maker, cache_folder
from pytest_msdump.capabilities.upgrade.releases import History, Search, releases_between
from pytest_msdump.capabilities.upgrade.running import Program, Run, pinned_text
from pytest_msdump.cli.output import Outcome, add_quiet, phrases, print_lines
from pytest_msdump.core.compare.opening import as_path, index
from pytest_msdump.core.errors import ConfigError, ProgramError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.report.progress import Progress

DESCRIPTION = (
    "Run a program that records into $MSDUMP_DIR, or {directory} in COMMAND, in two environments, twice in each, and "
    "give each operator that differs a verdict: kernel, setting, code, wrong, inherited or nondeterministic. ENV is a "
    "Python, a virtual environment, or a requirement, for which an environment is made and kept. Exit code 0: what "
    "changed is harmless; 1: wrong, code, or beyond limits; 125: it could not be judged, as git bisect run takes it; "
    "4: usage error."
)
EXAMPLES = (
    "msdump upgrade --old python --new python3 -- python train.py {directory}",
    "msdump upgrade --old torch==2.13.0 --new torch==2.14.0 --each -- python rec.py",
)
_UNJUDGED = 125
_ALLOWED = ("code", "not-judged")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the environments, the program, and what is asked of them."""
    parser.add_argument("program", metavar="COMMAND", nargs="+", help="the program and its arguments, after --")
    sides = parser.add_argument_group("environments")
    sides.add_argument("--old", metavar="ENV", help="before the upgrade: a Python, an environment or a requirement")
    sides.add_argument("--old-dump", metavar="DIR", help="a dump of before, where that does not run any more")
    sides.add_argument("--new", metavar="ENV", required=True, help="after the upgrade")
    sides.add_argument("--with", metavar="REQ", action="append", default=[], dest="extra", help="more to install")
    sides.add_argument("--python", metavar="PY", default=sys.executable, help="makes environments (default: this one)")
    sides.add_argument("--pip-args", metavar="ARGS", action="append", default=[], help="of pip install, as one word")
    sides.add_argument("--cache", metavar="DIR", help="where environments are kept (default: $MSDUMP_ENVIRONMENTS)")
    when = parser.add_argument_group("since when").add_mutually_exclusive_group()
    when.add_argument("--each", action="store_true", help="try every release between the two")
    when.add_argument("--between", action="store_true", help="find the releases that change what differs, by bisection")
    parser.add_argument("--releases", metavar="A,B,C", help="of --each and --between (default: those of the index)")
    judging = parser.add_argument_group("judging")
    judging.add_argument("--allow", metavar="WHAT", action="append", choices=_ALLOWED, default=[], help="pass with it")
    judging.add_argument("--profile", metavar="NAME", default="default", help="named limits (default: default)")
    judging.add_argument("--limits", metavar="FILE", help="limits file of msdump calibrate")
    judging.add_argument("--model", metavar="FILE", help="the reference for replay, as of msdump replay")
    judging.add_argument("--timeout", metavar="S", type=float, default=600.0, help="seconds of a run (default: 600)")
    output = parser.add_argument_group("output")
    output.add_argument("--report-dir", metavar="DIR", default="msdump-report", help="(default: %(default)s)")
    add_quiet(output, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Run, judge, print, write the changelog; return the exit code."""
    _check(parsed)
    say = phrases(parsed)
    try:
        found = _found(parsed)
    except ProgramError as error:
        print(terminal_lines(f"msdump upgrade: {say('upgrade_cannot', why=str(error))}"), file=sys.stderr)
        what = {"code": error.slug, "message": str(error), "do": "mend the program, or leave this release out"}
        return Outcome(_UNJUDGED, "error", lambda: {"error": what})
    code = found.code(frozenset(one.replace("-", " ") for one in parsed.allow))
    lines = [line for step in found.steps for line in report.lines_of(step, parsed.profile, say)]
    lines += [say("upgrade_skipped", name=name, why=why) for name, why in found.skipped.items()]
    files = report.write(found, lines, Path(parsed.report_dir).absolute(), say)
    if len(found.releases) > len(("old", "new")):
        lines.append(say("upgrade_tried", n=len(found.tried), total=len(found.releases)))
    lines.append(say("upgrade_pinned", names=pinned_text(os.environ)))
    lines.append(say("upgrade_written", files=", ".join(os.path.relpath(file) for file in files)))
    print_lines([*lines, say.of(report.closing(code))])
    return Outcome(code, "upgrade", lambda: report.document(found))


def _found(parsed: argparse.Namespace) -> History:
    progress = Progress("msdump upgrade", quiet=parsed.quiet or parsed.json)
    maker = Maker(
        Path(parsed.cache).absolute() if parsed.cache else cache_folder(os.environ),
        Path(parsed.python),
        tuple(parsed.extra),
        tuple(word for one in parsed.pip_args for word in shlex.split(one)),
    )
    reference = None if parsed.model is None else load_reference(str(Path.cwd() / parsed.model))
    limits = None if parsed.limits is None else Path(parsed.limits).absolute()
    with own_folder() as folder:
        court = Court(Program(parsed.program, folder, parsed.timeout), parsed.profile, limits, reference)
        if parsed.each or parsed.between:
            search = Search(court, maker.environment, releases_between(parsed.old, parsed.new, parsed.releases))
            with progress.step("trying releases"):
                return search.each() if parsed.each else search.between()
        # Before anything is made: it may not be there.
        kept = None if parsed.old_dump is None else Run(index(as_path(parsed.old_dump).absolute()), None)
        with progress.step("making environments"):
            new = maker.environment(parsed.new)
            old = new if parsed.old is None else maker.environment(parsed.old)
        with progress.step("running both environments"):
            left = Side(parsed.old_dump, None, (kept,)) if kept is not None else court.side(old, "old")
            step = court.judge(left, court.side(new, "new"))
    names = (step.old, step.new)
    return History(names, names, {}, (step,))


def _check(parsed: argparse.Namespace) -> None:
    if (parsed.old is None) == (parsed.old_dump is None):
        raise ConfigError("give one of --old ENV and --old-dump DIR: what the new environment is compared with")
    if (parsed.each or parsed.between) and parsed.old is None:
        raise ConfigError("--each and --between try releases between two; give --old as a requirement")
    if parsed.releases is not None and not (parsed.each or parsed.between):
        raise ConfigError("--releases is only taken with --each or --between")
