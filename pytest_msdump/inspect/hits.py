"""Which checks run, with which thresholds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import ge, gt, lt

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.checks import (
    ACTIVATIONS,
    AUXILIARY_OUTPUTS,
    CHECKS,
    GRADIENT_SCOPES,
    OPTIMIZER_STATES,
    OPTIMIZERS,
    QUANTITIES,
    SHIFT_ENDINGS,
    WEIGHT_ENDINGS,
)
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.inspect.measure import Change, Contents
from pytest_msdump.model.describe import counted
from pytest_msdump.model.numbers import beside, index_text, number
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef

__all__ = [
    "CheckSettings",
    "Hit",
    "hits_of_change",
    "hits_of_contents",
    "is_gradient",
    "is_optimizer",
    "is_training",
    "is_weight",
    "parse_settings",
    "ranges_of",
    "targets_of",
]

_SWITCHES = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What a user set; everything else is `facts.checks`' default.

    Parameters
    ----------
    values : mapping of (str, str) to float
        Thresholds by check and parameter.
    switches : mapping of str to bool
        Checks that were turned on or off. A check is off until it has a threshold.
    """

    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    def is_asked_for(self, check: str) -> bool:
        """Whether the user turned a check on, or set something of it."""
        return self.switches.get(check) is True or any(name == check for name, _ in self.values)

    def parameters(self, check: str, op_type: str | None = None) -> Mapping[str, float] | None:
        """Return the parameters that a check runs with.

        Parameters
        ----------
        check : str
            An id of `facts.checks.CHECKS`.
        op_type : str, optional
            Whose output is checked; activations have parameters of their own.

        Returns
        -------
        mapping of str to float, or None
            ``None`` when the check is off, or has parameters and not one of them is set.
        """
        if self.switches.get(check) is False:
            return None
        fact = CHECKS[check]
        found = {name: value for name, value in fact.parameters.items() if value is not None}
        if fact.target == "activation":
            found |= ACTIVATIONS.get((op_type or "").lower(), {})
        found |= {name: value for (own, name), value in self.values.items() if own == check}
        return found if found or not fact.parameters else None


def parse_settings(texts: Iterable[str]) -> CheckSettings:
    """Read what was typed.

    Parameters
    ----------
    texts : iterable of str
        ``CHECK.PARAMETER=NUMBER``, ``CHECK=on`` or ``CHECK=off``; of two about one thing the later one holds.

    Raises
    ------
    UnknownNameError
        A check or a parameter that does not exist.
    ConfigError
        No number, or no assignment at all.

    Examples
    --------
    >>> settings = parse_settings(["weight_not_changed.rtol=1e-4", "tensor_all_zero=off"])
    >>> settings.parameters("weight_not_changed")["rtol"], settings.parameters("tensor_all_zero")
    (0.0001, None)
    """
    values: dict[tuple[str, str], float] = {}
    switches: dict[str, bool] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        check, _, parameter = name.partition(".")
        if not equals or not value:
            raise ConfigError(f"'{text}': write CHECK.PARAMETER=NUMBER, CHECK=on or CHECK=off")
        if check not in CHECKS:
            raise UnknownNameError(f"'{text}': there is no check '{check}'; {nearest(check, CHECKS)}")
        if parameter:
            values[check, parameter] = _threshold(text, check, parameter, value)
        else:
            switches[check] = _switch(text, check, value)
    return CheckSettings(values, switches)


def _threshold(text: str, check: str, parameter: str, value: str) -> float:
    known = CHECKS[check].parameters
    if parameter not in known:
        tail = nearest(parameter, known) if known else f"it has none; write {check}=off to leave it out"
        raise UnknownNameError(f"'{text}': {check} has no parameter '{parameter}'; {tail}")
    try:
        number = float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"'{text}': '{value}' is no number")
    return number


def _switch(text: str, check: str, value: str) -> bool:
    if value not in _SWITCHES:
        raise ConfigError(f"'{text}': write {check}=on, {check}=off or {check}.PARAMETER={value}")
    return _SWITCHES[value]


# -- What a tensor is to the checks ----------------------------------------------------------------------------------


_WEIGHT = re.compile(rf"(?:.*[._])?(?:{'|'.join(WEIGHT_ENDINGS)})", re.DOTALL)
_SHIFT = re.compile(rf"(?:.*[._])?(?:{'|'.join(SHIFT_ENDINGS)})", re.DOTALL)
_STATE = re.compile(rf"(?:{'|'.join(OPTIMIZER_STATES)})[._].*", re.DOTALL)
_GRADIENT = re.compile(rf"(?:{'|'.join(GRADIENT_SCOPES)})[/_].*", re.DOTALL)


def is_weight(op: OpKey) -> bool:
    """Tell a weight from a network's inputs and an optimizer's states, which are Parameters as well."""
    name = op.label.lower()
    return op.op_type == PARAMETER and bool(_WEIGHT.fullmatch(name)) and not _STATE.fullmatch(name)


def is_shift(op: OpKey) -> bool:
    """Tell weights that are added from those that are multiplied."""
    return is_weight(op) and _SHIFT.fullmatch(op.label.lower()) is not None


def is_auxiliary(key: TensorKey) -> bool:
    """Tell an output that an operator keeps for its own gradient, and may leave at 0."""
    first = AUXILIARY_OUTPUTS.get((key.op.op_type or "").lower())
    return first is not None and key.io == "output" and key.slot >= first


def targets_of(key: TensorKey) -> tuple[str, ...]:
    """List what checks a tensor is a target of, the most specific first; the last is always ``"tensor"``.

    Examples
    --------
    >>> targets_of(TensorKey(OpKey("fc1_bias", op_type="Parameter"), "output", 0))
    ('weight', 'tensor')
    """
    op = key.op
    kinds = (
        ("weight", is_weight(op)),
        ("gradient", key.io == "output" and is_gradient(op.label)),
        ("activation", key.io == "output" and (op.op_type or "").lower() in ACTIVATIONS),
    )
    return (*(name for name, applies in kinds if applies), "tensor")


def is_training(operators: Iterable[tuple[str, str | None]]) -> bool:
    """Tell by names and types of a run's operators whether weights are expected to change in it."""
    return any(is_gradient(name) or is_optimizer(kind) for name, kind in operators)


def is_optimizer(op_type: str | None) -> bool:
    """Tell by its type whether an operator changes weights."""
    return (op_type or "").lower().startswith(OPTIMIZERS)


def is_gradient(name: str) -> bool:
    """Tell by its name whether an operator computes gradients."""
    return _GRADIENT.fullmatch(name.lower()) is not None


# -- What checks make of numbers -------------------------------------------------------------------------------------


_WHOLE = -float("inf"), float("inf")
_IS_CROSSED: Mapping[str, Callable[[float, float], bool]] = {"gt": gt, "ge": ge, "lt": lt}
_ENDS = ("range_start_inclusive", "range_end_inclusive")
_RANGE_CHECKS = tuple(name for name, fact in CHECKS.items() if fact.family == "range")


@dataclass(frozen=True, slots=True)
class Hit:
    """One check that one tensor does not pass.

    Parameters
    ----------
    check : str
        An id of `facts.checks.CHECKS`.
    ref : TensorRef
        The tensor, with the line of the program that made it where one is known.
    sentence : str
        What was found, with numbers.
    parameter : str, optional
        Which threshold was crossed; ``None`` for checks that have none.
    value, threshold : float, optional
        What was measured, and what it was held against.
    where : tuple of int, optional
        Logical index of the first element that is meant.
    previous : TensorRef, optional
        What the tensor was compared with.
    """

    check: str
    ref: TensorRef
    sentence: str
    parameter: str | None = None
    value: float | None = None
    threshold: float | None = None
    where: tuple[int, ...] | None = None
    previous: TensorRef | None = None


def ranges_of(key: TensorKey, settings: CheckSettings) -> tuple[tuple[float, float], ...]:
    """List the ranges whose elements `hits_of_contents` wants counted, in its order.

    Raises
    ------
    ConfigError
        A threshold of a range was set without the range.
    """
    return tuple(
        (parameters.get(_ENDS[0], _WHOLE[0]), parameters.get(_ENDS[1], _WHOLE[1]))
        for _, parameters in _range_checks(key, settings)
    )


def _range_checks(key: TensorKey, settings: CheckSettings) -> Iterator[tuple[str, Mapping[str, float]]]:
    targets = targets_of(key)
    for check in _RANGE_CHECKS:
        parameters = settings.parameters(check, key.op.op_type) if CHECKS[check].target in targets else None
        if not parameters:
            continue
        if not set(_ENDS) <= set(parameters) and any(name.startswith("range_percentage") for name in parameters):
            raise ConfigError(
                f"{check}: a share of elements in a range needs both ends of it; set "
                f"{check}.range_start_inclusive and {check}.range_end_inclusive"
            )
        yield check, parameters


def hits_of_contents(ref: TensorRef, found: Contents, settings: CheckSettings, *, is_initial: bool) -> Iterator[Hit]:
    """Check one tensor by itself.

    Parameters
    ----------
    ref : TensorRef
        Which one.
    found : Contents
        Its numbers, with the counts that `ranges_of` asks for.
    settings : CheckSettings
        Which checks, with which thresholds.
    is_initial : bool
        Whether it is from the first iteration of the run.

    Yields
    ------
    Hit
        In the order of `facts.checks.CHECKS`. Nothing of an empty tensor. Of overflow only the check that fits best
        speaks. Bools and single integers may be zero: masks, axes and counters often are. So may weights that are
        added, and outputs that an operator keeps for its gradient, unless the check was asked for.
    """
    if not found.elements:
        return
    targets = targets_of(ref.key)
    quantities = _quantities(found)
    overflows = False
    for check, fact in CHECKS.items():
        if fact.target not in targets:
            continue
        parameters = settings.parameters(check, ref.key.op.op_type)
        if parameters is None:
            continue
        if fact.family == "overflow" and not overflows and found.nan + found.inf:
            overflows = True
            yield _overflow(check, ref, found)
        elif _applies(fact.family, found, is_initial=is_initial) and (
            settings.is_asked_for(check) or not _may_be_zero(fact.family, ref.key)
        ):
            yield from _crossings(check, ref, quantities, parameters)
    yield from _range_hits(ref, found, quantities, settings)


def _may_be_zero(family: str, key: TensorKey) -> bool:
    """Whether zeros are in order here, as a family of checks would not have them."""
    return family in ("initial", "zero") and (is_shift(key.op) or is_auxiliary(key))


def _applies(family: str, found: Contents, *, is_initial: bool) -> bool:
    """Whether thresholds of a family are held against this tensor's numbers."""
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
    counts = [f"{count} {word}" for count, word in ((found.nan, "NaN"), (found.inf, "Inf")) if count]
    where = "" if found.first is None else f"; first at {index_text(found.first)}"
    sentence = f"{' and '.join(counts)} of {counted(found.elements, 'element')}{where}"
    return Hit(check, ref, sentence, value=float(found.nan + found.inf), threshold=0.0, where=found.first)


def _range_hits(
    ref: TensorRef, found: Contents, quantities: Mapping[str, float], settings: CheckSettings
) -> Iterator[Hit]:
    for place, (check, parameters) in enumerate(_range_checks(ref.key, settings)):
        share = {}
        if found.within is not None:
            share["range_percentage"] = 100.0 * found.within[place] / found.elements
        for hit in _crossings(check, ref, {**quantities, **share}, parameters):
            if (hit.parameter or "").startswith("range_percentage"):
                ends = (number(parameters[name], 9) for name in _ENDS)
                hit = replace(hit, sentence=f"{hit.sentence}; the range is {' to '.join(ends)}")
            yield hit


def _crossings(
    check: str, ref: TensorRef, quantities: Mapping[str, float], parameters: Mapping[str, float]
) -> Iterator[Hit]:
    """Yield a hit for each threshold that a quantity is on the wrong side of."""
    for name, threshold in parameters.items():
        quantity, _, suffix = name.rpartition("_")
        if quantity not in QUANTITIES or quantity not in quantities:
            continue
        value = quantities[quantity]
        if _IS_CROSSED[suffix](value, threshold):
            told, limit = beside(value, threshold)
            unit = " %" if quantity.endswith("percentage") else ""
            sentence = f"{QUANTITIES[quantity]}: {told}{unit} ({name}={limit})"
            yield Hit(check, ref, sentence, name, value, threshold)


def hits_of_change(ref: TensorRef, previous: TensorRef, found: Change, settings: CheckSettings) -> Iterable[Hit]:
    """Check a weight against what it was an iteration before.

    Returns
    -------
    iterable of Hit
        Of a weight that did not change, only that; that it hardly changed is no news then. The first step away from the
        values that a run began with may be of any size, and so may any step of weights that are added and begin at 0,
        unless the check was asked for.
    """
    if not found.elements:
        return ()
    unchanged = settings.parameters("weight_not_changed")
    if unchanged is not None and not found.moved:
        return (_unchanged(ref, previous, found, unchanged),)
    return tuple(_change_hits(ref, previous, found, settings))


def _unchanged(ref: TensorRef, previous: TensorRef, found: Change, parameters: Mapping[str, float]) -> Hit:
    moved = "nothing of it changed" if found.largest == 0.0 else f"no element changed by more than {found.largest:.3g}"
    tolerance = f"rtol={number(parameters['rtol'])}, atol={number(parameters['atol'])}"
    return Hit(
        "weight_not_changed",
        ref,
        f"{moved} {_since(previous)} ({counted(found.elements, 'element')}; {tolerance})",
        "rtol",
        found.largest,
        parameters["rtol"],
        previous=previous,
    )


def _change_hits(ref: TensorRef, previous: TensorRef, found: Change, settings: CheckSettings) -> Iterator[Hit]:
    free = previous.key.op.at.iteration == 0 or is_shift(ref.key.op)
    for check, fact in CHECKS.items():
        parameters = settings.parameters(check) if fact.family == "change" else None
        ratio = found.ratio(parameters["epsilon"]) if parameters else None
        if parameters is None or ratio is None or (free and not settings.is_asked_for(check)):
            continue
        for hit in _crossings(check, ref, {"abs_mean_update_ratio": ratio}, parameters):
            yield replace(hit, sentence=f"{hit.sentence}, {_since(previous)}", previous=previous)


def _since(previous: TensorRef) -> str:
    return f"since iteration {previous.key.op.at.iteration}"
