"""The checks of one dump: which run with which thresholds, what they apply to, and what they find in the numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import ge, gt, lt

from pytest_msdump.capabilities.overflow.contents import Change, Contents
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts import checks
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.numbers import beside, index_text, number
from pytest_msdump.core.model.ordering import PARAMETER
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef
from pytest_msdump.core.text import Message, Parameter

_SWITCHES = {"on": True, "off": False}

_WEIGHT = re.compile(rf"(?:.*[._])?(?:{'|'.join(checks.WEIGHT_ENDINGS)})", re.DOTALL)
_SHIFT = re.compile(rf"(?:.*[._])?(?:{'|'.join(checks.SHIFT_ENDINGS)})", re.DOTALL)
_STATE = re.compile(rf"(?:{'|'.join(checks.OPTIMIZER_STATES)})[._].*", re.DOTALL)
_GRADIENT = re.compile(rf"(?:{'|'.join(checks.GRADIENT_SCOPES)})[/_].*", re.DOTALL)

_IS_CROSSED: Mapping[str, Callable[[float, float], bool]] = {"gt": gt, "ge": ge, "lt": lt}
_ENDS = ("range_start_inclusive", "range_end_inclusive")
_RANGE_CHECKS = tuple(name for name, fact in checks.CHECKS.items() if fact.family == "range")


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What a user set, thresholds by check and parameter, and checks on or off; the rest is as in `facts.checks`."""

    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    def is_asked_for(self, check: str) -> bool:
        """Whether the user turned a check on, or set a threshold of it."""
        return self.switches.get(check) is True or any(name == check for name, _ in self.values)

    def parameters(self, check: str, op_type: str | None = None) -> Mapping[str, float] | None:
        """Return the parameters that a check runs with, of activations by type; ``None`` if off, or none is set."""
        if self.switches.get(check) is False:
            return None
        fact = checks.CHECKS[check]
        found = {name: value for name, value in fact.parameters.items() if value is not None}
        if fact.target == "activation":
            found |= checks.ACTIVATIONS.get((op_type or "").lower(), {})
        found |= {name: value for (own, name), value in self.values.items() if own == check}
        return found if found or not fact.parameters else None


def parse_settings(texts: Iterable[str]) -> CheckSettings:
    """Read ``CHECK.PARAMETER=NUMBER``, ``CHECK=on`` and ``CHECK=off``; of two about one thing the later one holds."""
    values: dict[tuple[str, str], float] = {}
    switches: dict[str, bool] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        check, _, parameter = name.partition(".")
        if not equals or not value:
            raise ConfigError(f"'{text}': write CHECK.PARAMETER=NUMBER, CHECK=on or CHECK=off")
        if check not in checks.CHECKS:
            raise UnknownNameError(f"'{text}': unknown check '{check}'; {nearest(check, checks.CHECKS)}")
        if parameter:
            values[check, parameter] = _threshold(text, check, parameter, value)
        elif value in _SWITCHES:
            switches[check] = _SWITCHES[value]
        else:
            raise ConfigError(f"'{text}': write {check}=on, {check}=off or {check}.PARAMETER={value}")
    return CheckSettings(values, switches)


def _threshold(text: str, check: str, parameter: str, value: str) -> float:
    known = checks.CHECKS[check].parameters
    if parameter not in known:
        tail = nearest(parameter, known) if known else f"it has none; write {check}=off to leave it out"
        raise UnknownNameError(f"'{text}': {check} has no parameter '{parameter}'; {tail}")
    try:
        number = float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"'{text}': '{value}' is not a number")
    return number


def is_weight(op: OpKey) -> bool:
    """Whether a Parameter is a weight, and not a network's input or an optimizer's state."""
    name = op.label.lower()
    return op.op_type == PARAMETER and bool(_WEIGHT.fullmatch(name)) and not _STATE.fullmatch(name)


def is_gradient(name: str) -> bool:
    """Whether an operator computes gradients, by its name."""
    return _GRADIENT.fullmatch(name.lower()) is not None


def is_optimizer(op_type: str | None) -> bool:
    """Whether an operator changes weights, by its type."""
    return (op_type or "").lower().startswith(checks.OPTIMIZERS)


def is_training(operators: Iterable[tuple[str, str | None]]) -> bool:
    """Whether a run's weights are expected to change, by names and types of its operators."""
    return any(is_gradient(name) or is_optimizer(kind) for name, kind in operators)


def targets_of(key: TensorKey) -> tuple[str, ...]:
    """Return what a tensor is to the checks, the most specific first; the last is always ``"tensor"``."""
    op = key.op
    kinds = (
        ("weight", is_weight(op)),
        ("gradient", key.io == "output" and is_gradient(op.label)),
        ("activation", key.io == "output" and (op.op_type or "").lower() in checks.ACTIVATIONS),
    )
    return (*(name for name, applies in kinds if applies), "tensor")


def _is_shift(op: OpKey) -> bool:
    """Whether a weight is added, not multiplied."""
    return is_weight(op) and _SHIFT.fullmatch(op.label.lower()) is not None


def _may_be_zero(key: TensorKey) -> bool:
    """Whether a tensor may be all zeros: a weight that is added, or an output kept only for the operator's gradient."""
    first = checks.AUXILIARY_OUTPUTS.get((key.op.op_type or "").lower())
    return _is_shift(key.op) or (first is not None and key.io == "output" and key.slot >= first)


@dataclass(frozen=True, slots=True)
class Hit:
    """One check that one tensor does not pass."""

    check: str
    ref: TensorRef
    message: Message
    parameter: str | None = None
    value: float | None = None
    threshold: float | None = None
    where: tuple[int, ...] | None = None
    previous: TensorRef | None = None


def ranges_of(key: TensorKey, settings: CheckSettings) -> tuple[tuple[float, float], ...]:
    """Return the ranges whose elements `hits_of_contents` needs counted, in its order."""
    return tuple(
        (parameters.get(_ENDS[0], -math.inf), parameters.get(_ENDS[1], math.inf))
        for _, parameters in _range_checks(key, settings)
    )


def _range_checks(key: TensorKey, settings: CheckSettings) -> Iterator[tuple[str, Mapping[str, float]]]:
    targets = targets_of(key)
    for check in _RANGE_CHECKS:
        parameters = settings.parameters(check, key.op.op_type) if checks.CHECKS[check].target in targets else None
        if not parameters:
            continue
        if not set(_ENDS) <= set(parameters) and any(name.startswith("range_percentage") for name in parameters):
            raise ConfigError(
                f"{check}: a share of elements in a range needs both ends of it; set "
                f"{check}.range_start_inclusive and {check}.range_end_inclusive"
            )
        yield check, parameters


def hits_of_contents(ref: TensorRef, found: Contents, settings: CheckSettings, *, is_initial: bool) -> Iterator[Hit]:
    """Yield the hits of one tensor by itself, in the order of `facts.checks.CHECKS`; none if it is empty."""
    # Unless a check was asked for, bools and single integers may be zero, as masks, axes and counters often are, and so
    # may weights that are added and outputs kept for the gradient.
    if not found.elements:
        return
    targets = targets_of(ref.key)
    quantities = _quantities(found)
    overflows = False
    for check, fact in checks.CHECKS.items():
        parameters = settings.parameters(check, ref.key.op.op_type) if fact.target in targets else None
        if parameters is None:
            continue
        if fact.family == "overflow" and not overflows and found.nan + found.inf:
            overflows = True
            yield _overflow(check, ref, found)
        elif _applies(fact.family, found, is_initial=is_initial) and (
            fact.family == "bounds" or settings.is_asked_for(check) or not _may_be_zero(ref.key)
        ):
            yield from _crossings(check, ref, quantities, parameters)
    for place, (check, parameters) in enumerate(_range_checks(ref.key, settings)):
        share = {} if found.within is None else {"range_percentage": 100.0 * found.within[place] / found.elements}
        for hit in _crossings(check, ref, {**quantities, **share}, parameters):
            if (hit.parameter or "").startswith("range_percentage"):
                low, high = (number(parameters[name], 9) for name in _ENDS)
                hit = replace(hit, message=Message("crossed_range", {"why": hit.message, "low": low, "high": high}))
            yield hit


def _applies(family: str, found: Contents, *, is_initial: bool) -> bool:
    """Whether thresholds of a family of checks are held against this tensor's numbers."""
    if family == "initial":
        return is_initial
    if family == "zero":
        kind = DTYPES[found.dtype].kind
        return kind != "bool" and (kind in ("float", "complex") or found.elements > 1)
    return family == "bounds"


def _quantities(found: Contents) -> Mapping[str, float]:
    known = {
        "abs_mean": found.abs_mean,
        "max": found.maximum,
        "min": found.minimum,
        "mean": found.mean,
        "zero_percentage": None if found.zero is None else 100.0 * found.zero / found.elements,
    }
    if found.maximum is not None and found.minimum is not None:
        known["max_min"] = found.maximum - found.minimum
    return {name: value for name, value in known.items() if value is not None}


def _overflow(check: str, ref: TensorRef, found: Contents) -> Hit:
    kinds = ((found.nan, "NaN"), (found.inf, "Inf"))
    counts = tuple(Message("of_kind", {"n": count, "kind": kind}) for count, kind in kinds if count)
    first = found.first_nonfinite
    where = None if first is None else Message("then_first", {"place": index_text(first)})
    message = Message("nonfinite_of", {"counts": counts, "n": found.elements, "where": where})
    return Hit(check, ref, message, value=float(found.nan + found.inf), threshold=0.0, where=found.first_nonfinite)


def _crossings(
    check: str, ref: TensorRef, quantities: Mapping[str, float], parameters: Mapping[str, float]
) -> Iterator[Hit]:
    """Yield a hit for each threshold that a quantity is on the wrong side of."""
    for name, threshold in parameters.items():
        quantity, _, suffix = name.rpartition("_")
        if quantity not in checks.QUANTITIES or quantity not in quantities:
            continue
        value = quantities[quantity]
        if _IS_CROSSED[suffix](value, threshold):
            shown, limit = beside(value, threshold)
            unit = " %" if quantity.endswith("percentage") else ""
            about: dict[str, Parameter] = {
                "quantity": Message(f"quantity_{quantity}"),
                "value": f"{shown}{unit}",
                "name": name,
                "limit": limit,
            }
            yield Hit(check, ref, Message("crossed", about), name, value, threshold)


def hits_of_change(ref: TensorRef, previous: TensorRef, found: Change, settings: CheckSettings) -> Iterator[Hit]:
    """Yield the hits of a weight against its value an iteration before."""
    # The first step from initial values may be of any size, and so may steps of added weights, which begin at 0.
    if not found.elements:
        return
    since: dict[str, Parameter] = {"iteration": previous.key.op.at.iteration}
    unchanged = settings.parameters("weight_not_changed")
    if unchanged is not None and not found.moved:
        tolerance = f"rtol={number(unchanged['rtol'])}, atol={number(unchanged['atol'])}"
        about: dict[str, Parameter] = {"largest": found.largest, "n": found.elements, "tolerance": tolerance}
        message = Message("hardly_changed" if found.largest else "unchanged", {**since, **about})
        yield Hit("weight_not_changed", ref, message, "rtol", found.largest, unchanged["rtol"], previous=previous)
        return
    is_free = previous.key.op.at.iteration == 0 or _is_shift(ref.key.op)
    for check, fact in checks.CHECKS.items():
        parameters = settings.parameters(check) if fact.family == "change" else None
        ratio = found.ratio(parameters["epsilon"]) if parameters else None
        if parameters is None or ratio is None or (is_free and not settings.is_asked_for(check)):
            continue
        for hit in _crossings(check, ref, {"abs_mean_update_ratio": ratio}, parameters):
            yield replace(hit, message=Message("crossed_since", {"why": hit.message, **since}), previous=previous)
