"""Networks run in 16 bits by themselves, sound and with a mistake each: what a replay accuses."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pytest_msdump.capabilities.record.torch import TorchRecording
from pytest_msdump.capabilities.replay.reference_model import reference_of, replay_plan
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.suite import load_suite

__all__ = ["BUILDERS", "MISTAKES", "accused", "sound_lines"]

WIDTH, HEADS, WORDS, SEEDS = 32, 4, 10, 2
LEVELS = ("module", "both", "operation")


class _Recurrent(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.norm, self.core = nn.LayerNorm(WIDTH), kind(WIDTH, WIDTH, 2, batch_first=True, **options)
        self.out = nn.Linear(WIDTH * (2 if options else 1), WIDTH)

    def forward(self, x: Any) -> Any:
        return self.out(self.core(self.norm(x))[0])


class _Rms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(WIDTH) + 0.5), 1e-5

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class _Decoder(nn.Module):
    """Attention between layers, by the fused function or by hand, and a gated layer."""

    def __init__(self, *, is_fused: bool) -> None:
        super().__init__()
        self.first, self.second, self.is_fused, self.factor = _Rms(), _Rms(), is_fused, 1.0
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*size) for size in ((WIDTH, 64), (WIDTH, 64), (64, WIDTH)))

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        angle = torch.outer(torch.arange(x.shape[1]), 100.0 ** (-torch.arange(4) / 4)).repeat(1, 2)
        cos, sin = angle.cos().to(q.dtype), angle.sin().to(q.dtype)
        q, k = (one * cos + torch.cat((-one[..., 4:], one[..., :4]), -1) * sin for one in (q, k))
        if self.is_fused:
            made = functional.scaled_dot_product_attention(q, k * self.factor, v, is_causal=True)
        else:
            scores = (q @ k.mT) * (self.factor * q.shape[-1] ** -0.5)
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            made = scores.masked_fill(~mask, float("-inf")).float().softmax(-1).to(v.dtype) @ v
        x = x + self.o(made.transpose(1, 2).flatten(2))
        normed = self.second(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.up, self.act, self.down = nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)

    def forward(self, x: Any) -> Any:
        normed = self.norm(x)
        x = x + self.attend(normed, normed, normed, need_weights=False)[0]
        return x + self.down(self.act(self.up(x)))


class _Residual(nn.Module):
    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(16, 16, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2, self.relu = nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + x)


class _Next(nn.Module):
    """A block of ConvNeXt, which turns its axes."""

    def __init__(self) -> None:
        super().__init__()
        self.dw, self.norm = nn.Conv2d(16, 16, 5, padding=2, groups=16), nn.LayerNorm(16)
        self.up, self.act, self.down = nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        turned = self.dw(x).permute(0, 2, 3, 1)
        return x + self.down(self.act(self.up(self.norm(turned)))).permute(0, 3, 1, 2)


class _Turned(nn.Module):
    """A layer along another axis than the last one in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(WORDS, WORDS), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.mix(x.mT)).mT)


def _sequence(block: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(block() for _ in range(3)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8))


def _image(*blocks: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        parts = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8))
        return nn.Sequential(nn.Conv2d(3, 16, 3, 2), *(block() for block in blocks), *parts)

    return build


BUILDERS: Mapping[str, Callable[[], nn.Module]] = {
    "lstm": _sequence(lambda: _Recurrent(nn.LSTM)),
    "lstm both ways": _sequence(lambda: _Recurrent(nn.LSTM, bidirectional=True)),
    "gru": _sequence(lambda: _Recurrent(nn.GRU)),
    "decoder, sdpa": _sequence(lambda: _Decoder(is_fused=True)),
    "decoder, by hand": _sequence(lambda: _Decoder(is_fused=False)),
    "multihead": _sequence(_Attention),
    "encoder layer": _sequence(lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True)),
    "turned": _sequence(_Turned),
    "residual": _image(_Residual, _Residual, lambda: nn.ConvTranspose2d(16, 16, 2, 2)),
    "grouped, channels last": _image(_Residual, lambda: _Residual(16), lambda: _Residual(4)),
    "convnext, channels last": _image(_Next, _Next),
}


# -- mistakes ----------------------------------------------------------------------------------------------------------


def _scaled_channel(module: nn.Module) -> None:
    _weight_of(module)[1] *= 1.25


def _transposed(module: nn.Module) -> None:
    weight = _weight_of(module)
    weight.copy_(weight.transpose(0, 1).clone())


def _without_bias(module: nn.Module) -> None:
    module.bias.zero_()  # type: ignore[operator]


def _epsilon(module: nn.Module) -> None:
    module.eps = 0.05  # type: ignore[assignment]


def _tanh(module: nn.Module) -> None:
    module.forward = torch.nn.functional.silu  # type: ignore[assignment]


def _factor(module: nn.Module) -> None:
    module.factor = 1.2  # type: ignore[assignment]


def _weight_of(module: nn.Module) -> torch.Tensor:
    return next(one for one in module.parameters() if one.ndim > 1)


def _is_square(module: nn.Module) -> bool:
    return isinstance(module, (nn.Linear, nn.Conv2d)) and module.weight.shape[0] == module.weight.shape[1]


_LAYERS = (nn.Linear, nn.Conv2d, nn.LSTM, nn.GRU, nn.MultiheadAttention)
MISTAKES: Mapping[str, tuple[Callable[[nn.Module], Any], Callable[[nn.Module], bool]]] = {
    "scaled channel": (_scaled_channel, lambda one: isinstance(one, _LAYERS)),
    "transposed weights": (_transposed, _is_square),
    "bias left out": (_without_bias, lambda one: isinstance(one, nn.Linear) and one.bias is not None),
    "wrong epsilon": (_epsilon, lambda one: hasattr(one, "eps")),
    "wrong activation": (_tanh, lambda one: isinstance(one, nn.GELU)),
    "attention scale": (_factor, lambda one: isinstance(one, _Decoder)),
}


# -- runs --------------------------------------------------------------------------------------------------------------


def _made(name: str, seed: int) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(seed)
    model = BUILDERS[name]().eval()
    for one in model.modules():
        if isinstance(one, nn.BatchNorm2d):
            one.running_mean, one.running_var = torch.randn(16) / 4, torch.rand(16) + 0.5
    is_image = isinstance(model[0], nn.Conv2d)  # type: ignore[index]
    given = torch.randn(*((2, 3, 17, 17) if is_image else (4, WORDS, WIDTH)))
    return (model, given.to(memory_format=torch.channels_last)) if "last" in name else (model, given)


def accused(
    name: str,
    folder: Path,
    *,
    seed: int,
    dtype: torch.dtype,
    level: str = "module",
    inputs: bool = True,
    is_autocast: bool = False,
    change: Callable[[nn.Module], Any] | None = None,
) -> tuple[dict[str, Local], int]:
    """Record a reference and a port of it in 16 bits; return what a replay accuses, by name, and how many it judged.

    Raises
    ------
    RuntimeError
        PyTorch has no kernel for it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (reference, given), (port, _) = _made(name, seed), _made(name, seed)
    cast: AbstractContextManager[Any] = torch.autocast("cpu", dtype=dtype) if is_autocast else nullcontext()
    with torch.no_grad():
        with TorchRecording(reference, folder / "right", level=level):
            reference(given)
        if change is not None:
            change(port)
        port = port if is_autocast else port.to(dtype)
        with TorchRecording(port, folder / "left", level=level, inputs=inputs), cast:
            port(given if is_autocast else given.to(dtype))
    sides = {"left": str(folder / "left"), "right": str(folder / "right")}
    planned = plan(load_suite(file=None, table=sides, options={}, directory=folder))
    local = replay_plan(planned, reference_of(reference, given))
    labels = [pair.right.key.op.label for pair in planned.pairing.pairs]
    wrong = {labels[number]: one for number, one in local.items() if one.outcome == "fail"}
    return wrong, sum(one.outcome in ("pass", "fail") for one in local.values())


def _is_at(at: str, label: str, local: Local) -> bool:
    """Whether what is accused is a module, something in it, or a segment that it is in."""
    # Projections of attention and layers on the fast path are called by no hook: what holds them is accused.
    held = at.rpartition(".")[0] if ".self_attn." not in at else at.partition(".")[0]
    names = (label, *local.segment, *local.before)
    is_inside = any(f"{one.replace('/', '.')}.".startswith(f"{at}.") for one in names)
    return is_inside or (label.partition("/")[0] in (held, at) and local.measure == "score")


def sound_lines(folder: Path, *, mistakes: int, seeds: int = SEEDS) -> Iterator[str]:
    """Run every network soundly in each way, then with so many mistakes, drawn by a seed; yield lines."""
    judged, alarms, runs = 0, 0, 0
    for name in BUILDERS:
        before = judged, alarms, runs
        for seed in range(seeds):
            for number, (dtype, level) in enumerate((a, b) for a in (torch.bfloat16, torch.float16) for b in LEVELS):
                for is_autocast in (False, True):
                    way: dict[str, Any] = {"dtype": dtype, "level": level, "is_autocast": is_autocast}
                    try:
                        wrong, count = accused(name, folder, seed=seed, inputs=(seed + number) % 3 > 0, **way)
                    except RuntimeError as error:
                        yield f"{name}: {way}: no such run: {str(error).splitlines()[0]:.80}"
                        continue
                    judged, alarms, runs = judged + count, alarms + len(wrong), runs + 1
                    yield from (f"{name} {seed} {way}: {one} {local}" for one, local in wrong.items())
        counts = (now - then for now, then in zip((judged, alarms, runs), before, strict=True))
        yield "{:26} {:6} judged, {:3} accused, {:3} runs".format(name, *counts)
    yield f"sound: {alarms} accused of {judged} tensors in {runs} runs"
    found, innocent, drawn = 0, 0, random.Random(7)
    for number in range(mistakes):
        kind, name = [*MISTAKES][number % len(MISTAKES)], ""
        change, fits = MISTAKES[kind]
        places: list[str] = []
        while not places:
            name = drawn.choice([*BUILDERS])
            places = [at for at, one in _made(name, number)[0].named_modules() if fits(one)]
        at, level, dtype = drawn.choice(places), drawn.choice(LEVELS), drawn.choice((torch.bfloat16, torch.float16))
        try:
            wrong, _ = accused(
                name,
                folder,
                seed=number,
                dtype=dtype,
                level=level,
                is_autocast=drawn.random() < 0.3,
                change=lambda model: change(model.get_submodule(at)),  # noqa: B023 - called at once
            )
        except RuntimeError as error:
            yield f"{name}: {kind}: no such run: {str(error).splitlines()[0]:.80}"
            continue
        hits = {label for label, local in wrong.items() if _is_at(at, label, local)}
        found, innocent = found + bool(hits), innocent + len(wrong) - len(hits)
        if not hits or len(hits) < len(wrong):
            rest = {label: local for label, local in wrong.items() if label not in hits}
            yield f"{'missed' if not hits else 'right accused'}: {name}, {kind} at {at}, {level} {dtype}: {rest}"
    yield f"mistakes: {found} of {mistakes} found, {innocent} right ones accused"
