"""Train models right and with one thing set otherwise, compare, and look whether one sentence says what it was.

``python -m benchmarks.blame.training OUT --mistakes 60 --seed 1``. The truth is the changed setting. A sentence
is right if it is the only cause and names that setting, with its number where it has one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.blame.training_models import BUILDS, ExactSums, OwnAdam, inputs_of
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import Recorder

STYLES = ("recorder", "operations", "hooks")
OPTIMIZERS = ("sgd", "adam", "adamw")
_STEPS, _BATCHES, _IGNORED = 3, 2, 0
# So many mistakes are made where both sides train in 16 bits.
_IN_HALF = 0.15


@dataclass(frozen=True)
class Setting:
    """How a model is trained."""

    optimizer: str = "sgd"
    rate: float = 0.05
    momentum: float = 0.9
    nesterov: bool = False
    dampening: float = 0.0
    decay: float = 0.05
    decays_all: bool = False
    second: float = 0.99
    epsilon: float = 1e-6
    inside: bool = False
    early: bool = False
    uncorrected: bool = False
    amsgrad: bool = False
    clip_norm: float = 0.0
    clip_value: float = 0.0
    loss_scale: float = 1.0
    scaler: float = 1.0
    unscales: bool = True
    reduction: str = "mean"
    smoothing: float = 0.0
    ignore: int = -100
    zero_grad: bool = True
    batches: int = 1
    divides: bool = True
    schedule: tuple[float, ...] = (1.0,) * _STEPS
    frozen: str = ""
    group_rate: float = 1.0
    norm_momentum: float = 0.1


@dataclass(frozen=True)
class Mistake:
    """What is set otherwise, and which sentences say so; `base` is what both sides have."""

    change: Mapping[str, Any]
    codes: tuple[str, ...]
    optimizers: tuple[str, ...] = OPTIMIZERS
    base: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)


_SCHEDULE = ("optimizer_rates", "optimizer_rate_at")
_LOSS = ("loss_differs", "the loss")
MISTAKES: Mapping[str, Mistake] = {
    "loss scale": Mistake({"loss_scale": 128.0}, ("gradients_scaled", "the loss"), numbers={"factor": 128}),
    "scaler on one side": Mistake({"scaler": 512.0}, ("gradients_scaled", "the loss"), numbers={"factor": 512}),
    "clipped before unscaling": Mistake(
        {"unscales": False},
        ("gradients_clipped", "gradients_clipped_to", "optimizer_clip_norm", "optimizer_given"),
        base={"scaler": 512.0, "clip_norm": 0.05},
    ),
    "loss reduction": Mistake({"reduction": "sum"}, ("gradients_scaled", "the loss")),
    "accumulation not divided": Mistake(
        {"divides": False}, ("gradients_scaled", "the loss"), base={"batches": _BATCHES}, numbers={"factor": _BATCHES}
    ),
    "accumulation over fewer": Mistake(
        {"batches": 1}, ("passes_differ",), base={"batches": _BATCHES}, numbers={"left": 1, "right": _BATCHES}
    ),
    "label smoothing": Mistake({"smoothing": 0.1}, ("loss_smoothing", *_LOSS), numbers={"left": 0.1}),
    "ignore_index": Mistake({"ignore": _IGNORED}, ("loss_ignores", *_LOSS)),
    "no zero_grad": Mistake({"zero_grad": False}, ("gradients_kept",)),
    "clipped to a norm": Mistake(
        {"clip_norm": 0.05}, ("gradients_clipped", "gradients_clipped_to", "optimizer_clip_norm")
    ),
    "not clipped": Mistake(
        {"clip_norm": 0.0},
        ("gradients_clipped", "gradients_clipped_to", "optimizer_clip_norm_right"),
        base={"clip_norm": 0.05},
    ),
    "clipped by value": Mistake({"clip_value": 0.003}, ("gradients_cut", "optimizer_clip_value")),
    "no decay": Mistake({"decay": 0.0}, ("optimizer_decay",), numbers={"left": 0.0, "right": 0.05}),
    "decay of biases": Mistake({"decays_all": True}, ("optimizer_decay",), numbers={"left": 0.05, "right": 0.0}),
    "coupled decay": Mistake({"optimizer": "adam"}, ("optimizer_coupled",), ("adamw",)),
    "decoupled decay": Mistake({"optimizer": "adamw"}, ("optimizer_coupled_right",), ("adam",)),
    "learning rate": Mistake({"rate": 0.1}, ("optimizer_rate",), numbers={"left": 2.0}),
    "learning rate of a group": Mistake({"group_rate": 0.5}, ("optimizer_rate",), numbers={"left": 0.5}),
    "schedule one step late": Mistake({"schedule": (1.0, 1.0, 0.5)}, _SCHEDULE, base={"schedule": (1.0, 0.5, 0.25)}),
    "no warmup": Mistake({"schedule": (1.0, 1.0, 1.0)}, _SCHEDULE, base={"schedule": (0.25, 0.5, 1.0)}),
    "momentum": Mistake({"momentum": 0.5}, ("optimizer_momentum",), ("sgd",), numbers={"left": 0.5, "right": 0.9}),
    "Nesterov": Mistake({"nesterov": True}, ("optimizer_nesterov",), ("sgd",)),
    "dampening": Mistake({"dampening": 0.9}, ("optimizer_dampening",), ("sgd",), numbers={"left": 0.9}),
    "beta1": Mistake({"momentum": 0.8}, ("optimizer_beta",), ("adam", "adamw"), numbers={"left": 0.8, "which": 1}),
    "beta2": Mistake({"second": 0.9}, ("optimizer_beta",), ("adam", "adamw"), numbers={"left": 0.9, "which": 2}),
    "epsilon": Mistake({"epsilon": 1e-3}, ("optimizer_epsilon",), ("adam", "adamw"), numbers={"left": 1e-3}),
    "epsilon inside the root": Mistake({"inside": True}, ("optimizer_inside",), ("adam", "adamw")),
    "epsilon before correction": Mistake(
        {"early": True}, ("optimizer_early",), ("adam", "adamw"), base={"epsilon": 1e-2}
    ),
    "no bias correction": Mistake({"uncorrected": True}, ("optimizer_uncorrected",), ("adam", "adamw")),
    "amsgrad": Mistake({"amsgrad": True}, ("optimizer_largest",), ("adam", "adamw")),
    "frozen": Mistake({"frozen": "head"}, ("optimizer_still",)),
    "momentum of norms": Mistake({"norm_momentum": 0.9}, ("statistics_momentum",), models=("convolutions",)),
}


def _optimizer(model: nn.Module, setting: Setting) -> torch.optim.Optimizer:
    named = list(model.named_parameters())
    plain = [one for name, one in named if one.dim() < 2]
    groups: list[dict[str, Any]] = [
        {"params": [one for name, one in named if one.dim() > 1], "weight_decay": setting.decay},
        {
            "params": plain,
            "weight_decay": setting.decay if setting.decays_all else 0.0,
            "lr": setting.rate * setting.group_rate,
        },
    ]
    if setting.optimizer == "sgd":
        options = {name: getattr(setting, name) for name in ("momentum", "nesterov", "dampening")}
        return torch.optim.SGD(groups, lr=setting.rate, **options)
    for group in groups:
        group["lr"] = group.get("lr", setting.rate) / 10
    options = {"betas": (setting.momentum, setting.second), "eps": setting.epsilon}
    flags = {name: getattr(setting, name) for name in ("inside", "early", "uncorrected")}
    if any(flags.values()):
        return OwnAdam(groups, decoupled=setting.optimizer == "adamw", **flags, **options)
    kind = torch.optim.AdamW if setting.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, amsgrad=setting.amsgrad, **options)


def _loss(scores: torch.Tensor, labels: torch.Tensor, setting: Setting) -> torch.Tensor:
    flat = scores.reshape(-1, scores.shape[-1])
    found = functional.cross_entropy(
        flat.float(),
        labels.reshape(-1),
        reduction=setting.reduction,
        label_smoothing=setting.smoothing,
        ignore_index=setting.ignore,
    )
    return found * setting.loss_scale / (setting.batches if setting.divides else 1)


class _Hooks:
    """What people write by themselves: outputs, the loss, gradients before the step and weights after it."""

    def __init__(self, model: nn.Module, folder: Path) -> None:
        self._model, self._folder, self.step = model, folder, 0
        for name, module in model.named_modules():
            if name:
                module.register_forward_hook(lambda _, __, out, name=name: self.save(name, out))

    def save(self, name: str, tensor: torch.Tensor) -> None:
        place = self._folder / str(self.step)
        place.mkdir(parents=True, exist_ok=True)
        tensor = tensor.detach()
        np.save(place / f"{name}.0.{time.time_ns() // 1000}.npy", (tensor.float()).numpy())

    def gradients(self) -> None:
        for name, one in self._model.named_parameters():
            if one.grad is not None:
                self.save(f"{name}.grad", one.grad)

    def weights(self) -> None:
        for name, one in self._model.state_dict().items():
            if one.dtype.is_floating_point:
                self.save(name, one)


def train(name: str, setting: Setting, folder: Path, style: str, seed: int, around: Callable[[], Any]) -> None:
    """Record some steps."""
    torch.manual_seed(seed)
    model = BUILDS[name]().train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = setting.norm_momentum
    for path, one in model.named_parameters():
        one.requires_grad_(not (setting.frozen and setting.frozen in path))
    optimizer = _optimizer(model, setting)
    rates = [group["lr"] for group in optimizer.param_groups]
    hooks = _Hooks(model, folder) if style == "hooks" else None
    options: dict[str, Any] = {"gradients": True, "parameters": True, "optimizer": optimizer, "iterations": True}
    options["level"] = "both" if style == "operations" else "module"
    recording = nullcontext() if hooks else Recorder(folder.parent).torch(model, directory=folder, **options)
    with recording as recorded:
        for step in range(_STEPS):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * setting.schedule[step]
            with nullcontext() if recorded is None else recorded.iteration(), around():
                if setting.zero_grad:
                    optimizer.zero_grad()
                if hooks is not None:
                    hooks.step = step
                for batch in range(setting.batches):
                    given, labels = inputs_of(name, seed * 100 + step * 10 + batch)
                    loss = _loss(model(given), labels, setting)
                    if hooks is not None:
                        hooks.save("loss", loss)
                    (loss * setting.scaler).backward()
                for one in (one.grad for one in model.parameters() if one.grad is not None and setting.unscales):
                    one /= setting.scaler
                if setting.clip_norm:
                    nn.utils.clip_grad_norm_(model.parameters(), setting.clip_norm)
                if setting.clip_value:
                    nn.utils.clip_grad_value_(model.parameters(), setting.clip_value)
                for one in (one.grad for one in model.parameters() if one.grad is not None and not setting.unscales):
                    one /= setting.scaler
                if hooks is not None:
                    hooks.gradients()
                optimizer.step()
                if hooks is not None:
                    hooks.weights()


def compared(folder: Path) -> Report:
    """Compare the dumps ``left`` and ``right`` of a folder."""
    table = {"left": "left", "right": "right"}
    found = plan(load_suite(file=None, table=table, options={}, directory=folder))
    return build_report(found, compare_plan(found))


def sentences(report: Report) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the code and the numbers of each sentence that explains failures together."""
    for record in report.records:
        for one in record.diagnosis if record.role == "cause" else ():
            message = one.evidence.parameters["what"] if one.evidence.code == "optimizer_found" else one.evidence
            yield message.code, message.parameters


_TOGETHER = ("gradients_", "loss_", "optimizer_", "passes_", "statistics_momentum")


def judged(report: Report, mistake: Mistake) -> tuple[str, str]:
    """Return a verdict and what was said."""
    causes = [one for one in report.records if one.role == "cause"]
    unknown = {one.order for one in report.records if one.role == "unknown"}
    if not any(one.fails for one in report.records):
        return "within limits", ""
    said = [one for one in sentences(report) if one[0].startswith(_TOGETHER)]
    places = ["the loss" for one in causes if one.elements == 1 or "loss" in one.left.address]
    text = ", ".join(f"{code} {_shown(numbers)}" for code, numbers in said)
    text = text or ", ".join(one.left.address for one in causes[:4])
    if [code for code, _ in said] == ["optimizer_differs"] and mistake.codes[0].startswith("optimizer"):
        return "unspecific", text
    if any(code not in mistake.codes for code, _ in said):
        return "false", text
    if len({one.order for one in causes}) != 1 or unknown:
        return f"{min(len({one.order for one in causes}), 2)} causes", f"{text}; {len(unknown)} unknown"
    if not said:
        return ("right", text) if "the loss" in mistake.codes and places else ("no sentence", text)
    numbers = said[0][1]
    is_near = all(
        abs(float(numbers[key]) - value) <= 0.02 * abs(value) + 1e-6
        for key, value in mistake.numbers.items()
        if key in numbers
    )
    return ("right" if is_near else "wrong number"), text


def _shown(numbers: Mapping[str, Any]) -> str:
    shown = (f"{key}={value:.4g}" for key, value in numbers.items() if isinstance(value, (int, float)))
    return f"({' '.join(shown)})"


def _mistakes(drawn: random.Random, count: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield kinds of mistakes, each about as often, with a model, an optimizer and a style."""
    names: list[str] = []
    for _ in range(count):
        names = names or drawn.sample(list(MISTAKES), len(MISTAKES))
        name = names.pop()
        one = MISTAKES[name]
        yield name, drawn.choice(one.models or tuple(BUILDS)), drawn.choice(one.optimizers), drawn.choice(STYLES)


def _half() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


def _sound(model: str, style: str, seed: int, folder: Path, kind: str) -> Report:
    """Compare two runs that differ in rounding alone."""
    setting = Setting(optimizer=OPTIMIZERS[seed % len(OPTIMIZERS)])
    left: Callable[[], Any] = _half if kind == "bfloat16" else ExactSums
    train(model, setting, folder / "left", style, seed, left)
    train(model, setting, folder / "right", style, seed, nullcontext)
    return compared(folder)


def main() -> None:
    """Draw mistakes, and print what was said of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--sound", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    drawn, verdicts, failing, false = random.Random(options.seed), Counter[str](), 0, 0
    for at, (name, model, optimizer, style) in enumerate(_mistakes(drawn, options.mistakes)):
        if options.only not in name:
            continue
        mistake, folder = MISTAKES[name], options.out.absolute() / "pair"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        right = replace(Setting(optimizer=optimizer), **mistake.base)
        around = _half if drawn.random() < _IN_HALF else nullcontext
        train(model, replace(right, **mistake.change), folder / "left", style, options.seed + at, around)
        train(model, right, folder / "right", style, options.seed + at, around)
        began = time.process_time()
        verdict, said = judged(compared(folder), mistake)
        verdicts[verdict] += 1
        where = ", ".join((name, model, optimizer, style, *(("autocast",) if around is _half else ())))
        print(f"{verdict:14} {where}: {said} ({time.process_time() - began:.1f} s)", flush=True)
    for at in range(options.sound):
        folder, kind = options.out.absolute() / "pair", ("sums", "bfloat16")[at % 2]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model, style = drawn.choice(list(BUILDS)), drawn.choice(STYLES)
        report = _sound(model, style, options.seed + at, folder, kind)
        said_here = [code for code, _ in sentences(report) if code.startswith(_TOGETHER)]
        failing += any(one.fails for one in report.records)
        false += bool(said_here)
        if said_here:
            print(f"false          sound, {kind}, {model}, {style}: {', '.join(said_here)}")
    counted = verdicts.total() - verdicts["within limits"]
    shares = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"{shares}; right {100 * verdicts['right'] / max(counted, 1):.0f} % of {counted}")
    print(f"{options.sound} sound runs, of which {failing} fail: {false} with a sentence")


if __name__ == "__main__":
    main()
