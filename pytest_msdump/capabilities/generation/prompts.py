"""Two decoders after the same prompts: what they say is written as two dumps, and gated as any others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.generation.decoding import (
    Ids,
    OtherToken,
    Said,
    checked_prompts,
    common_part,
    other_token,
    write_side,
)
from pytest_msdump.capabilities.generation.sides import Question, Side, side_of
from pytest_msdump.capabilities.generation.ties import with_rest_alone
from pytest_msdump.core.escape import toml_value
from pytest_msdump.core.model.comparison import OUTCOMES
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import offered
from pytest_msdump.core.text import ENGLISH, Message, Parameter, Phrases

__all__ = [
    "Generations",
    "checked_prompts",
    "derived_limits",
    "judged_by",
    "side_of",
    "verdict_lines",
    "write_both",
    "write_suite",
]

PROFILE = "generation"
_BATCHED = "batched."
_LEAST_KL = 1e-12
_SEVERITY = ("not_run", *OUTCOMES)
LIMITS = "generation.limits.json"
RULES: list[dict[str, Any]] = [
    {"match": "*prompt_*.*.experts", "ties": "*prompt_*.*.router", "routes": "*prompt_*."},
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


class Tokens(NamedTuple):
    """How many tokens of a prompt agree, of how many that are compared, and the first that does not."""

    agree: int
    compared: int
    other: OtherToken | None


class Written(NamedTuple):
    """What is said of two dumps: notes on what is not compared, and the tokens of each prompt."""

    notes: list[str]
    tokens: dict[str, Tokens]


def write_both(directory: Path, sides: tuple[Side, Side], prompts: list[list[int]], how: Generations) -> Written:
    """Run both decoders and write their dumps into ``left`` and ``right``.

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
    every = [{*one.routers} for said in (*ours.values(), reference) for one in said]
    routers = [name for name in reference[0].routers if all(name in names for names in every)]
    if any(names.difference(routers) for names in every):
        notes.append(f"routers: {len(routers)} of {len(set().union(*every))} are compared, those that both sides yield")
    write_side(directory / "left", ours, routers)
    write_side(directory / "right", theirs, routers)
    for what, found in (("perturbed", how.perturbed), ("control", how.controls)):
        for number, side in enumerate(found):
            write_side(directory / f"{what}_{number}", _said(side, prompts, forced, how), routers)
    tokens = {
        f"{kind}prompt_{number}": Tokens(int((one.ids == other.ids).sum()), len(one.ids), other_token(one, other))
        for kind, said in ours.items()
        for number, (one, other) in enumerate(zip(said, theirs[kind], strict=True))
    }
    return Written(notes, tokens)


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
    limits = calibration.calibrate(directory / "right", runs, controls=controls, rules=RULES, only=with_rest_alone)
    path = directory / LIMITS
    calibration.write_limits(path, limits)
    return path


def judged_by(profile: str | None = None) -> dict[str, Any]:
    """Return the keys of a suite that judge the two dumps."""
    return {"profile": profile or PROFILE, "rule": [dict(one) for one in RULES], "min_coverage": 1.0}


def write_suite(directory: Path, profile: str) -> Path:
    """Write the suite that judges the two dumps in a directory, so that one prompt can be judged again; return it."""
    keys = {"left": "left", "right": "right", **judged_by(profile)}
    tables = [("[msdump]", keys), *(("[[msdump.rule]]", rule) for rule in keys.pop("rule"))]
    lines = [line for name, table in tables for line in (name, *(f"{key} = {toml_value(table[key])}" for key in table))]
    suite = directory / "msdump.toml"
    suite.write_text("\n".join([*lines, ""]), "utf-8")
    return suite


def verdict_lines(report: Report, tokens: Mapping[str, Tokens], say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield a line on each prompt: how far the logits are apart, how many tokens agree, and the first that does not."""
    by_name = {one.left.key.op.label: one for one in report.records}
    for name, logits in by_name.items():
        prompt, _, what = name.rpartition(".")
        if what != "logits":
            continue
        # Routers, too.
        own = [one.verdict.outcome for name, one in by_name.items() if name.startswith(f"{prompt}.")]
        outcome = max(own, key=_SEVERITY.index)
        kl, found = logits.metrics.get("softmax_kl"), tokens[prompt]
        other = None if found.other is None else Message("other_token", found.other._asdict())
        said: dict[str, Parameter] = {"prompt": prompt, "verdict": say(outcome.upper()), "other": other}
        if isinstance(kl, float):
            # Less is rounding in float64.
            shown = f"{kl:.3g}" if kl >= _LEAST_KL else f"< {_LEAST_KL:g}"
            yield say("prompt_verdict", **said, agree=found.agree, n=found.compared, kl=shown)
        else:
            yield say("prompt_not_measured", **said)
