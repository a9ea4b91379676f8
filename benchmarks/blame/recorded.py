"""Models recorded with one wrong line or none, and when their modules and that line ran."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.blame import further, libraries, models
from benchmarks.blame.borders import Made, Watched, edge_of, tensors_in
from benchmarks.blame.models import Place
from pytest_msdump.record import Recorder

LEVELS: dict[str, dict[str, Any]] = {
    "module": {},
    "inputs": {"inputs": True},
    "both": {"level": "both"},
    "operation": {"level": "operation"},
}
# By name: how a model is made, and its input.
MODELS: dict[str, tuple[Callable[[], Any], Callable[[int], torch.Tensor]]] = {
    "decoder": (models.Decoder, models.ids),
    "encoder": (models.Encoder, models.images),
    "net": (models.Net, models.images),
    "recurrent": (models.Recurrent, models.ids),
    "translator": (further.Translator, models.ids),
    "phone": (further.Phone, models.images),
    "pyramid": (further.Pyramid, models.images),
    "llama": (libraries.llama, models.ids),
    "gpt2": (libraries.gpt2, models.ids),
    "convnext": (libraries.convnext, libraries.images),
    "bert": (libraries.bert, models.ids),
    "swin": (libraries.swin, libraries.images),
}
FROM_LIBRARIES = ("llama", "gpt2", "convnext", "bert", "swin")
# Looked at only to count: what is mended is looked for in the others.
KEPT_APART = ("pyramid", "bert", "swin")
# How left and right are recorded: alike, by hooks of a person's own, or each otherwise; a renamed one is a port.
WAYS: dict[str, tuple[str, str]] = {
    **{level: (level, level) for level in LEVELS},
    "hooks": ("hooks", "hooks"),
    "hooks against modules": ("hooks", "module"),
    "modules against both": ("module", "both"),
    "renamed": ("module", "module"),
    "renamed by hooks": ("hooks", "inputs"),
}
_NAMES = {
    "layers": "stack",
    "attention": "self_attn",
    "q": "q_proj",
    "k": "k_proj",
    "v": "v_proj",
    "o": "o_proj",
    "mlp": "ffn",
    "n1": "norm1",
    "n2": "norm2",
    "n3": "norm3",
    "gate": "gate_proj",
    "up": "up_proj",
    "down": "down_proj",
    "head": "lm_head",
    "embed": "tok_embeddings",
    "query": "wq",
    "key": "wk",
    "value": "wv",
    "out": "wo",
    "own": "self_attention",
    "cross": "cross_attention",
    "fc1": "linear1",
    "fc2": "linear2",
}
_BLOCKS = (0, 1, 2, 10, 11, 20, 30, 100, 101, 202, 300)


@dataclass
class Ran:
    """When modules began and ended, by name and call, and when the wrong line ran, and in which modules."""

    began: dict[tuple[str, int], int] = field(default_factory=dict)
    ended: dict[tuple[str, int], int] = field(default_factory=dict)
    around: list[str] = field(default_factory=list)
    # Each time that the wrong line ran: when it began and when it ended.
    wrong_at: list[tuple[int, int]] = field(default_factory=list)
    made: Made = field(default_factory=Made)


def run(model: torch.nn.Module, given: torch.Tensor, folder: Path | None, level: str, *, watched: bool = False) -> Ran:
    """Run a model, recorded if there is a folder; `watched` says how its tensors are made."""
    Place.where = ""
    ran, clock, stack = Ran(), iter(range(1_000_000)), list[str]()
    calls: Counter[str] = Counter()

    def begin(name: str) -> Any:
        def hook(_: Any, args: Any, words: Any) -> None:
            ran.began[name, calls[name]] = time = next(clock)
            ran.made.given[name] += [(edge, time) for one in tensors_in((args, words)) if (edge := edge_of(one))]
            stack.append(name)

        return hook

    def end(name: str) -> Any:
        def hook(_: Any, __: Any, gave: Any) -> None:
            ran.ended[name, calls[name]] = time = next(clock)
            ran.made.gave[name] += [(edge, time) for one in tensors_in(gave) if (edge := edge_of(one))]
            calls[name] += 1
            stack.pop()

        return hook

    def note() -> None:
        ran.wrong_at.append((time := next(clock), time))
        ran.around = [*stack]
        Place.where = stack[-1] if stack else ""

    def done() -> None:
        ran.wrong_at[-1] = ran.wrong_at[-1][0], next(clock)

    Place.note, Place.done = staticmethod(note), staticmethod(done)
    Place.path = staticmethod(lambda: stack[-1] if stack else "")
    for name, module in model.named_modules():
        module.register_forward_pre_hook(begin(name or type(model).__name__), with_kwargs=True)
        module.register_forward_hook(end(name or type(model).__name__))
    torch.manual_seed(0)
    if watched:
        with Watched(ran.made, clock):
            model(given)
        return ran
    with torch.no_grad():
        if folder is None:
            model(given)
        elif level == "hooks":
            _save_by_hooks(model, folder)
            model(given)
        else:
            with Recorder(folder.parent).torch(model, directory=folder, **LEVELS[level]):
                model(given)
    return ran


def _save_by_hooks(model: torch.nn.Module, folder: Path) -> None:
    """Save what each module gives, as a person does who wants no recorder: names and numbers alone."""
    folder.mkdir(parents=True)
    clock, calls = iter(range(1_000_000)), Counter[str]()

    def save(name: str) -> Any:
        def hook(_: Any, __: Any, given: Any) -> None:
            for slot, one in enumerate(given if isinstance(given, (tuple, list)) else [given]):
                if isinstance(one, torch.Tensor):
                    np.save(folder / f"{name}.{slot}.{1_700_000_000_000_000 + next(clock)}.npy", one.numpy())
            calls[name] += 1

        return hook

    for name, module in model.named_modules():
        if name:
            module.register_forward_hook(save(name))


def _renamed(build: Callable[[], Any]) -> Callable[[], Any]:
    """Return the same model as a stranger writes it: each layer under another name."""
    module = inspect.getmodule(build)
    text = re.sub(r"self\.(\w+)", lambda one: f"self.{_NAMES.get(one[1], one[1])}", inspect.getsource(module))
    space: dict[str, Any] = {"__name__": "renamed"}
    exec(text, space)
    space["at"] = models.at
    return cast("Callable[[], Any]", space[build.__name__])


def made(name: str, seed: int, *, renamed: bool = False) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return a model with random weights, and its input."""
    torch.manual_seed(seed)
    build, inputs = MODELS[name]
    return (_renamed(build) if renamed else build)().eval(), inputs(seed)


def mistakes_of(name: str) -> Iterator[tuple[str, int]]:
    """Yield each mistake of a model with a block that it can be made in."""
    Place.wrong = ""
    Place.known.clear()
    run(*made(name, 0), None, "")
    for wrong in list(Place.known):
        for block in _BLOCKS:
            Place.wrong, Place.block = wrong, block
            if run(*made(name, 0), None, "").wrong_at:
                yield wrong, block
    Place.wrong = ""
