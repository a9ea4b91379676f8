"""What checks make of numbers. Pure: the numbers were measured before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import ge, gt, lt

from pytest_msdump.checking.changes import Change
from pytest_msdump.checking.contents import Contents
from pytest_msdump.checking.settings import CheckSettings
from pytest_msdump.checking.targets import is_auxiliary, is_shift, targets_of
from pytest_msdump.checking.wording import counted
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.checks import CHECKS, QUANTITIES
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorKey, TensorRef
from pytest_msdump.reporting.numbers import beside, index_text, number

__all__ = ["Hit", "hits_of_change", "hits_of_contents", "ranges_of"]

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
