"""Write limits files: limits fall by themselves, and rise only where a person accepts it, with a reason."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_msdump.dtypes import rounding_unit
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.calibration import ASSUMED_MULTIPLIERS, CALIBRATED_METRICS
from pytest_msdump.limits.limits_file import Accepted, Base, LimitsFile, TensorLimits, limits_text, name_of, rounded_up
from pytest_msdump.model.record import Record
from pytest_msdump.storage.files import naming, write_atomic
from pytest_msdump.suite.load import Suite, read_limits
from pytest_msdump.text import number

_SHOWN = 5


def write_limits(path: Path, limits: LimitsFile, *, accept_looser: bool = False, reason: str = "") -> tuple[str, ...]:
    """Write a limits file in the place of an older one; return what rises, a tensor in each sentence.

    ConfigError lists the first five where any limit would rise, unless that is accepted: then the file keeps the day
    and the `reason`.
    """
    if accept_looser and not reason.strip():
        raise ConfigError("--accept-looser: needs --reason TEXT; say why limits may rise")
    risen: tuple[str, ...] = ()
    if path.exists():
        before = read_limits(path)
        risen = tuple(_risen(before, limits))
        if risen and not accept_looser:
            more = [f"and {len(risen) - _SHOWN} more"] if len(risen) > _SHOWN else []
            raise ConfigError(
                "\n  ".join([f"{path}: {len(risen)} limits would rise:", *risen[:_SHOWN], *more])
                + "\naccept it with --accept-looser --reason TEXT, or write another file"
            )
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        accepted = (Accepted(today, reason.strip()),) if risen else ()
        limits = replace(limits, accepted=(*before.accepted, *accepted))
    with naming(path, kind=ConfigError):
        write_atomic(path, limits_text(limits).encode("ascii"))
    return risen


def tightened(limits: LimitsFile, records: Iterable[Record]) -> LimitsFile:
    """Return the file with the limits of a run's records lowered to what these measured, with a factor of safety.

    That is the assumed multiplier of the tensor's class, or its own where that is larger. No limit falls below what one
    rounding of the coarser type gives, and none rises.
    """
    measured: dict[str, dict[str, float]] = {}
    for record in records:
        name = name_of(record.right.key)
        tensor = limits.tensors.get(name)
        for check in record.checks:
            base = tensor.metrics.get(check.metric) if tensor and check.base else None
            if base is None or check.base is None or not isinstance(check.value, int | float):
                continue
            # A left side of a coarser type was judged by a scaled base.
            unit = rounding_unit(record.judged_as)
            value = max(float(check.value), unit) * base.effective / check.base
            of_tensor = measured.setdefault(name, {})
            of_tensor[check.metric] = max(value, of_tensor.get(check.metric, 0.0))
    tensors = {
        name: _lowered(tensor, measured[name], limits) if name in measured else tensor
        for name, tensor in limits.tensors.items()
    }
    return replace(limits, tensors=tensors)


def _lowered(tensor: TensorLimits, measured: dict[str, float], limits: LimitsFile) -> TensorLimits:
    safety = max(1.0, ASSUMED_MULTIPLIERS[tensor.kind] / limits.multipliers[tensor.kind])
    metrics = dict(tensor.metrics)
    for metric, value in measured.items():
        at_most = rounded_up(value * safety)
        if at_most < metrics[metric].effective:
            metrics[metric] = replace(metrics[metric], at_most=at_most)
    return replace(tensor, metrics=metrics)


def limits_file_to_lower(suite: Suite) -> Path:
    """Return the limits file of a suite; ConfigError where it has none."""
    placed = suite.options["limits"]
    if placed is None:
        raise ConfigError(f"{suite.name}: there is no limits file to lower; name one: limits = …, or --limits FILE")
    file: Path = placed.path
    return file


def tighten(path: Path, records: Iterable[Record]) -> int:
    """Lower the limits in a file to what the records of a run that passed measured; return of how many tensors."""
    before = read_limits(path)
    after = tightened(before, records)
    lowered = sum(before.tensors[name] != tensor for name, tensor in after.tensors.items())
    if lowered:
        with naming(path, kind=ConfigError):
            write_atomic(path, limits_text(after).encode("ascii"))
    return lowered


def _risen(before: LimitsFile, after: LimitsFile) -> Iterator[str]:
    for name, old in before.tensors.items():
        new = after.tensors.get(name)
        if not (old.metrics or old.flipped) or old.chaotic:
            continue
        if new is None or new.chaotic:
            yield f"{name}: has no limit any more"
            continue
        bounds = [(metric, _bound(before, old, metric), _bound(after, new, metric)) for metric in CALIBRATED_METRICS]
        bounds.append(
            ("flipped", old.flipped * before.multipliers[old.kind], new.flipped * after.multipliers[new.kind])
        )
        for metric, was, will_be in bounds:
            if was is not None and (will_be is None or will_be > was):
                rises = "none" if will_be is None else number(will_be)
                yield f"{name}: {metric} {number(was)} -> {rises}"


def _bound(limits: LimitsFile, tensor: TensorLimits, metric: str) -> float | None:
    base: Base | None = tensor.metrics.get(metric)
    return None if base is None else rounded_up(base.effective * limits.multipliers[tensor.kind])
