"""Mistakes in ports that compute and store in 16 bits: what a replay finds of them, and what limits find."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pytest_msdump.capabilities.calibrate.engine import calibrate, write_limits
from pytest_msdump.capabilities.record.torch import TorchRecording
from pytest_msdump.capabilities.record.variation import Perturbation
from pytest_msdump.capabilities.replay.reference_model import reference_of, replay_plan
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.facts.profiles import FLIPS_ALLOWED, FLIPS_SHARE_LIMIT
from pytest_msdump.core.report.build import compare_plan
from pytest_msdump.core.suite import load_suite
from rounding.mistakes import Mistake, mistakes_of
from rounding.networks import Network, made
from rounding.runs import Step, tensors_in
from rounding.scores import at_fault

__all__ = ["half_lines"]

HALVES = (torch.bfloat16, torch.float16)
COARSE = 2.0**-12
JUDGES: Mapping[str, Mapping[str, str]] = {
    "`default`": {},
    "`strict`": {"profile": "strict"},
    "limits file": {"limits": "limits.json"},
}


@dataclass
class _Counts:
    """What came of the runs of one type: `good` and `caught` are runs that the limits of a judge fail."""

    mistakes: int = 0
    found: int = 0
    judged: int = 0
    innocent: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    without_run: list[str] = field(default_factory=list)
    runs: int = 0
    good: dict[str, int] = field(default_factory=lambda: dict.fromkeys(JUDGES, 0))
    caught: dict[str, int] = field(default_factory=lambda: dict.fromkeys(JUDGES, 0))


def half_lines(names: Sequence[str], folder: Path, *, steps: int, places: int) -> Iterator[str]:
    """Run each network, good and with each mistake, in either type; yield a line for each, then the table."""
    counts = {dtype: _Counts() for dtype in HALVES}
    for name in names:
        network, below = made(name, steps), folder / name
        shutil.rmtree(below, ignore_errors=True)
        _record(network, below / "right")
        for unit, title in ((None, "perturbed"), (COARSE, "coarse")):
            _record(network, below / title, perturb=Perturbation(1, unit))
        write_limits(
            below / "limits.json", calibrate(below / "right", [below / "perturbed"], coarse=[below / "coarse"])
        )
        for dtype, of_type in counts.items():
            before = of_type.mistakes, of_type.found
            _measure(network, dtype, below, of_type, places)
            yield (
                f"{name:14} {_type(dtype):9} {of_type.mistakes - before[0]:4} mistakes, "
                f"{of_type.found - before[1]:4} found"
            )
    yield ""
    yield "| left side | mistakes | replay | right modules accused | " + " | ".join(JUDGES) + " |"
    yield "|---|---|---|---|" + "---|" * len(JUDGES)
    for dtype, one in counts.items():
        limits = (f"{one.caught[judge]}; alarms {one.good[judge]} of {one.runs}" for judge in JUDGES)
        yield (
            f"| {_type(dtype)} | {one.mistakes} | {one.found} ({100 * one.found / max(one.mistakes, 1):.0f} %) | "
            f"{len(one.innocent)} of {one.judged} | {' | '.join(limits)} |"
        )
    for dtype, one in counts.items():
        for title, some in (("missed", one.missed), ("innocent", one.innocent), ("without a run", one.without_run)):
            yield from (f"{_type(dtype)} {title}: {text}" for text in some)


def _type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _measure(network: Network, dtype: torch.dtype, folder: Path, counts: _Counts, places: int) -> None:
    for mistake in (None, *mistakes_of(network, places)):
        title = f"{network.name}: {mistake.kind} at {mistake.at}" if mistake else f"{network.name}: good"
        try:
            if mistake is not None and not _exceeds(network, mistake, dtype):
                continue
            _record(network, folder / "left", dtype=dtype, change=mistake.change if mistake else None)
        except (RuntimeError, NotImplementedError) as error:
            # PyTorch lacks a kernel of this type, or the mistake makes another one of it: there is no such port.
            counts.without_run.append(f"{title}: {str(error).splitlines()[0]:.100}")
            continue
        _judge(network, mistake, title, folder, counts)


def _judge(network: Network, mistake: Mistake | None, title: str, folder: Path, counts: _Counts) -> None:
    planned = _plan(folder, {})
    local = replay_plan(planned, reference_of(network.model, network.given))
    pairs = planned.pairing.pairs
    recorded = {f"{pair.right.key.op.label}:{pair.right.key.slot}": pair for pair in pairs}
    counts.judged += sum(one.outcome != "not_replayable" for one in local.values())
    hits = 0
    for number, one in local.items():
        if one.outcome == "fail":
            own = pairs[number].right.key.op.label
            places = [f"{name}:0" for name in (own, *one.segment)]
            if mistake is not None and any(at_fault(place, mistake.at, recorded) for place in places):
                hits += 1
            else:
                counts.innocent.append(f"{title}: {own} {one.measure} {one.score:.3g}")
    if mistake is None:
        counts.runs += 1
    else:
        counts.mistakes += 1
        counts.found += hits > 0
        if not hits:
            counts.missed.append(title)
    for judge, table in JUDGES.items():
        fails = any(record.fails for record in compare_plan(_plan(folder, table)).values())
        of = counts.good if mistake is None else counts.caught
        of[judge] += fails


def _plan(folder: Path, table: Mapping[str, str]) -> Plan:
    sides = {"left": str(folder / "left"), "right": str(folder / "right")}
    return plan(load_suite(file=None, table={**sides, **table}, options={}, directory=folder))


def _record(
    network: Network,
    folder: Path,
    *,
    dtype: torch.dtype = torch.float32,
    change: Callable[[nn.Module, Step], Any] | None = None,
    perturb: Perturbation | None = None,
) -> None:
    """Record a forward pass of a copy."""
    shutil.rmtree(folder, ignore_errors=True)
    model, step, given = copy.deepcopy(network.model).to(dtype), Step(), network.given
    with torch.no_grad():
        if change:
            change(model, step)
        given = step.given(given.to(dtype) if given.is_floating_point() else given)
        with TorchRecording(model, folder, perturb=perturb):
            model(given)


def _exceeds(network: Network, mistake: Mistake, dtype: torch.dtype) -> bool:
    """Whether a wrong module makes more other elements, of its inputs in the port, than flips are allowed."""
    wrong, right = (copy.deepcopy(network.model).to(dtype) for _ in range(2))
    step, given = Step(), network.given.to(dtype) if network.given.is_floating_point() else network.given
    taken: list[tuple[Any, Any, list[torch.Tensor]]] = []

    def watch(_: nn.Module, args: Any, options: Any, out: Any) -> None:
        taken.append((*copy.deepcopy((args, options)), [one.clone() for one in tensors_in(out)]))

    at = mistake.at
    with torch.no_grad():
        mistake.change(wrong, step)
        # What is never called itself, as some projections are, stands for the module that holds it.
        while at and not taken:
            try:
                handle = wrong.get_submodule(at).register_forward_hook(watch, with_kwargs=True)
            except AttributeError:
                # The mistake is in the loss, or in the optimizer.
                return False
            wrong(step.given(given))
            handle.remove()
            at, called = at.rpartition(".")[0], at
        if not taken:
            return False
        args, options, made_of = taken[0]
        others = list(tensors_in(right.get_submodule(called)(*args, **options)))
    return any(
        one.is_floating_point()
        and int(torch.count_nonzero(one != other)) > max(FLIPS_ALLOWED, FLIPS_SHARE_LIMIT * one.numel())
        for one, other in zip(made_of, others, strict=True)
    )
