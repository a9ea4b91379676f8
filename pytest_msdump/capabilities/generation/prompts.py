"""Two decoders after the same prompts: what they say is written as two dumps, and gated as any others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.generation.decoding import (
    Ids,
    Said,
    checked_prompts,
    common_part,
    write_side,
)
from pytest_msdump.capabilities.generation.sides import Question, Side, side_of
from pytest_msdump.core.model.comparison import OUTCOMES
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import offered
from pytest_msdump.core.text import ENGLISH, Parameter, Phrases

__all__ = ["Generations", "checked_prompts", "derived_limits", "judged_by", "side_of", "verdict_lines", "write_both"]

PROFILE = "generation"
_BATCHED = "batched."
_LEAST_KL = 1e-12
_SEVERITY = ("not_run", *OUTCOMES)
LIMITS = "generation.limits.json"
RULES: list[dict[str, Any]] = [
    {"match": "*prompt_*.logits", "logits": True},
    {"match": "*prompt_*.ids", "ties": "*prompt_*.logits"},
]


class Generations(NamedTuple):
    """How two decoders are run: how many tokens, with the reference's tokens or free, and also in one batch.

    Of the reference, `perturbed` by a rounding, and run in other harmless ways as `controls`, limits are derived.
    """

    steps: int
    is_forced: bool = True
    is_batched: bool = False
    perturbed: Sequence[Side] = ()
    controls: Sequence[Side] = ()


def write_both(directory: Path, sides: tuple[Side, Side], prompts: list[list[int]], how: Generations) -> list[str]:
    """Run both decoders and write their dumps into ``left`` and ``right``; return notes on what is not compared.

    Each prompt runs alone. `how.is_batched`: the left also runs all of them in one batch, padded on the left, which is
    held against the same reference.
    """
    reference = sides[1].said(Question(prompts, how.steps))
    forced = [one.ids for one in reference] if how.is_forced else None
    ours = _said(sides[0], prompts, forced, how)
    notes: list[str] = []
    theirs: dict[str, Sequence[Said]] = dict.fromkeys(ours, reference)
    if not how.is_forced:
        for kind, said in ours.items():
            both = [common_part(*pair) for pair in zip(said, reference, strict=True)]
            ours[kind], theirs[kind] = ([one[side] for one in both] for side in (0, 1))
            notes += _cut(kind, [len(one[0].ids) for one in both], how.steps)
    write_side(directory / "left", ours)
    write_side(directory / "right", theirs)
    for what, found in (("perturbed", how.perturbed), ("control", how.controls)):
        for number, side in enumerate(found):
            write_side(directory / f"{what}_{number}", _said(side, prompts, forced, how))
    return notes


def _said(side: Side, prompts: list[list[int]], forced: list[Ids] | None, how: Generations) -> dict[str, list[Said]]:
    alone = Question(prompts, how.steps, forced)
    said = {"": side.said(alone)}
    if how.is_batched:
        said[_BATCHED] = side.said(alone._replace(in_batch=True))
    return said


def _cut(kind: str, compared: Sequence[int], steps: int) -> Iterator[str]:
    for prompt, count in enumerate(compared):
        if count < steps:
            yield f"{kind}prompt_{prompt}: {count} of {steps} tokens are compared, up to the first that differs"


def derived_limits(directory: Path, how: Generations) -> Path:
    """Derive limits from what `write_both` wrote of the reference; return their file."""
    calibration = offered("calibration")
    runs = [directory / f"perturbed_{number}" for number in range(len(how.perturbed))]
    controls = [directory / f"control_{number}" for number in range(len(how.controls))]
    limits = calibration.calibrate(directory / "right", runs, controls=controls, rules=RULES)
    path = directory / LIMITS
    calibration.write_limits(path, limits)
    return path


def judged_by(profile: str | None = None) -> dict[str, Any]:
    """Return the keys of a suite that judge the two dumps."""
    return {"profile": profile or PROFILE, "rule": [dict(one) for one in RULES], "min_coverage": 1.0}


def verdict_lines(report: Report, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield a line on each prompt: how far the logits are apart, and how many tokens agree."""
    by_name = {one.left.key.op.label: one for one in report.records}
    for name, logits in by_name.items():
        prompt, _, what = name.rpartition(".")
        ids = by_name.get(f"{prompt}.ids")
        if what != "logits" or ids is None:
            continue
        outcome = max((logits.verdict.outcome, ids.verdict.outcome), key=_SEVERITY.index)
        said: dict[str, Parameter] = {"prompt": prompt, "verdict": say(outcome.upper())}
        kl, top1, count = logits.metrics.get("softmax_kl"), logits.metrics.get("top1_agreement"), ids.elements
        if isinstance(kl, float) and isinstance(top1, float) and count:
            # Less is rounding in float64.
            shown = f"{kl:.3g}" if kl >= _LEAST_KL else f"< {_LEAST_KL:g}"
            yield say("prompt_verdict", **said, agree=round(top1 * count), n=count, kl=shown)
        else:
            yield say("prompt_not_measured", **said)
