"""``msdump calibrate REF P1``: limits from what rounding does to a reference."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pytest_msdump.capabilities.calibrate.limits_file import LimitsFile
from pytest_msdump.cli.output import add_quiet, phrases, print_lines, terminal_width
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.facts.profiles import MOST_LOOSER
from pytest_msdump.core.limits.permissions import looser_than_default, squared
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.settings.options import finite
from pytest_msdump.core.storage.locations import parse_location
from pytest_msdump.core.text import Phrases

DESCRIPTION = (
    "Make limits from a reference (REF) and runs of it whose inputs and weights were perturbed by a rounding unit (P): "
    "what rounding does to each tensor, times a multiplier that is assumed, or earned from control runs. Exit code 0: "
    "the file is written; 4: usage error, a run that says nothing of rounding, or a limit that would rise."
)
EXAMPLES = (
    "msdump calibrate reference perturbed",
    "msdump calibrate reference perturbed --control threads_1 --golden float64",
    "msdump calibrate reference perturbed --accept-looser --reason 'new kernels'",
)

_SHOWN = 5
_POWER = re.compile(r"2\*\*-(\d{1,3})", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the runs, the rate of false alarms, and the file."""
    parser.add_argument("reference", metavar="REF", help="dump of the reference")
    parser.add_argument("perturbed", metavar="P", nargs="+", help="dump of a perturbed run of it; one is enough")
    parser.add_argument(
        "--control",
        metavar="C",
        action="append",
        default=[],
        help="dump of a run that differs harmlessly: threads, layout, kernels, order of the batch; repeatable",
    )
    parser.add_argument("--golden", metavar="G", help="dump of a run of higher precision")
    parser.add_argument(
        "--coarse",
        metavar="P12",
        action="append",
        default=[],
        help="dump of a run perturbed by 2**-12, for runs under test in float16 or bfloat16; repeatable",
    )
    parser.add_argument(
        "--alpha", metavar="SHARE", default="0.05", help="share of harmless runs that may alarm (default: %(default)s)"
    )
    parser.add_argument(
        "--u",
        metavar="U",
        help="how much of each value the perturbed runs changed, e.g. 2**-24, where their manifests do not say it "
        "(default: the rounding unit of the reference)",
    )
    parser.add_argument(
        "--logits", metavar="NAME", action="append", default=[], help="tensors whose KL is limited, too; repeatable"
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        default="msdump.limits.json",
        help="the limits file (default: %(default)s); limits of an older one may only fall",
    )
    parser.add_argument("--accept-looser", action="store_true", help="let limits of an older file rise")
    parser.add_argument("--reason", metavar="TEXT", default="", help="with --accept-looser: why; the file keeps it")
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Compare the runs, write the file, and print what is in it."""
    # Computes with numpy, which a command that is only asked for its help does not need.
    from pytest_msdump.capabilities.calibrate.engine import calibrate, write_limits
    from pytest_msdump.core.report.progress import Progress

    if parsed.reason and not parsed.accept_looser:
        raise ConfigError("--reason: says why limits may rise; give --accept-looser as well")
    limits = calibrate(
        _dump(parsed.reference),
        [_dump(one) for one in parsed.perturbed],
        controls=[_dump(one) for one in parsed.control],
        golden=_dump(parsed.golden) if parsed.golden else None,
        coarse=[_dump(one) for one in parsed.coarse],
        alpha=finite(parsed.alpha, f"--alpha: {parsed.alpha!r} is no number; give e.g. 0.05"),
        u=None if parsed.u is None else _unit(parsed.u),
        rules=[{"match": one, "logits": True} for one in parsed.logits],
        watch=Progress("msdump calibrate", quiet=parsed.quiet),
    )
    risen = write_limits(Path(parsed.out), limits, accept_looser=parsed.accept_looser, reason=parsed.reason)
    width, say = terminal_width(), phrases(parsed)
    print_lines(line for text in _summary(parsed.out, limits, say) for line in hanging(text, width))
    if risen:
        print_lines([say("limits_rose", n=len(risen), reason=parsed.reason)])
    words = ["msdump", "compare", "RUN", parsed.reference, "--limits", parsed.out]
    print_lines([say("next_command"), f"  {shell_line(words)}"])
    return 0


def _summary(file: str, limits: LimitsFile, say: Phrases) -> list[str]:
    tensors = limits.tensors.values()
    counted = Counter(one.kind for one in tensors if one.metrics and not one.chaotic)
    judged = (
        say("kind_model", n=counted[kind], kind=say(f"kind_{kind}"), m=m) for kind, m in limits.multipliers.items()
    )
    odd = {"unstable": sum(one.flipped > 0 for one in tensors), "chaotic": sum(one.chaotic for one in tensors)}
    return [
        say("limits_written", file=file, n=len(tensors), limited=sum(counted.values())),
        say("multipliers", judged=say.joined(judged, "between_names")),
        say.of(limits.statement(say("limits"), limits.multiplier)),
        *(say(code, n=count) for code, count in odd.items() if count),
        *_looser(limits, say),
    ]


def _looser(limits: LimitsFile, say: Phrases) -> Iterator[str]:
    """Yield how many limits are far looser than `default`, the loosest of them, and what they need."""
    dtype = limits.perturbed.dtype or limits.reference.dtype
    found = sorted(
        (looser_than_default(metric, squared(metric, limits.multipliers[one.kind] * base.effective), dtype), name)
        for name, one in limits.tensors.items()
        for metric, base in (() if one.chaotic else one.metrics.items())
    )
    far = {name: factor for factor, name in found if factor > MOST_LOOSER}
    if far:
        shown = [f"{name} {factor:.3g} ×" for name, factor in sorted(far.items(), key=lambda one: -one[1])]
        yield say("looser_limits", n=len(far), most=MOST_LOOSER, names=say.named(shown, _SHOWN))


def _dump(text: str) -> Path:
    return parse_location(text, Path.cwd(), where="msdump calibrate")


def _unit(text: str) -> float:
    """Read a perturbation: a number, or a power such as 2**-24."""
    power = _POWER.fullmatch(text)
    problem = f"--u: {text!r} is no share of a value; give e.g. 2**-24"
    value = 2.0 ** -int(power[1]) if power else finite(text, problem)
    if not 0 < value < 1:
        raise ConfigError(problem)
    return value
