"""Which optimizer makes these steps: its rule found from weights and gradients, and what differs between two sides.

A rule is fitted to the right's own weights and gradients, then the left's are explained by it with one thing changed.
It holds where the left's own steps come out within rounding, for each weight and each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

# Errors of a step, in rounding units: at most so many where a rule holds, and at least so many where it does not.
_HOLDS, _FAILS = 2.0, 8.0
# And at most so many where the weights before the first step are not known yet.
_NEAR = 1e3
# Numbers that differ by less are the same.
_SAME = 1e-3
# What rounding may leave of a gradient that something is added to.
_ROUNDED = 2.0**-21
# Fewer numbers than these say nothing of a weight's own rate and decay.
_FEWEST = 3
# What a number that is looked for begins with; those that are positive are looked for by their logarithm.
_STARTS: Mapping[str, Sequence[float]] = {
    "momentum": (0.9,),
    "second": (0.999, 0.98, 0.9),
    "epsilon": (1e-8, 1e-6, 1e-4),
    "dampening": (0.5,),
    "coupled": (1e-2, 1e-4, 0.1),
    "clip_norm": (0.7, 0.2, 0.05),
    "clip_value": (0.7, 0.2, 0.05),
}
_POSITIVE = frozenset({"epsilon", "coupled", "clip_norm", "clip_value"})
_FLAGS = {"sgd": ("nesterov", "decoupled"), "adam": ("inside", "early", "uncorrected", "largest")}
_NUMBERS = {
    "sgd": ("momentum", "dampening", "clip_norm", "clip_value"),
    "adam": ("momentum", "second", "epsilon", "clip_norm", "clip_value"),
}


@dataclass(frozen=True)
class Steps:
    """What one side did with its weights: arrays of iterations × elements; `owner` says whose element each is.

    `norms` are those of all gradients, `noise` is what rounding makes of a step.
    """

    gradients: Array
    weights: Array
    moved: Array
    noise: Array
    owner: npt.NDArray[np.intp]
    norms: Array


@dataclass(frozen=True)
class Rule:
    """How an optimizer steps, but for the rate and the decay of each weight.

    `momentum` is Adam's beta1, `second` its beta2, `coupled` a decay that is added to Adam's gradients, of the weights
    that decay; `early` says that epsilon is added before the correction. `rates` are factors of the rate by iteration;
    none if it is constant.
    """

    adam: bool = False
    momentum: float = 0.0
    second: float = 0.0
    epsilon: float = 0.0
    dampening: float = 0.0
    coupled: float = 0.0
    clip_norm: float = 0.0
    clip_value: float = 0.0
    nesterov: bool = False
    decoupled: bool = False
    inside: bool = False
    early: bool = False
    uncorrected: bool = False
    largest: bool = False
    rates: tuple[float, ...] = ()

    def changed(self, values: Mapping[str, Any]) -> Rule:
        """Return the rule with other numbers."""
        return replace(self, **values)

    @property
    def is_plain(self) -> bool:
        """Whether gradients are taken as they are, and at one rate."""
        return not (self.clip_norm or self.clip_value or self.rates)

    @property
    def family(self) -> str:
        """``"adam"`` or ``"sgd"``."""
        return "adam" if self.adam else "sgd"

    def steps(self, of: Steps, decay: Array) -> Array:
        """Return the steps for a rate of 1, with the sign of the gradient; `decay` is that of each element."""
        given, weights = self._clipped(of), of.weights
        is_linear = not self.coupled if self.adam else self.decoupled
        linear, added = (decay, 0.0) if is_linear else (0.0, decay)
        average = second = most = np.zeros_like(given[0])
        found = np.empty_like(given)
        for step, (raw, weight) in enumerate(zip(given, weights, strict=True)):
            gradient = raw + added * weight
            if self.adam:
                average = self.momentum * average + (1 - self.momentum) * gradient
                second = self.second * second + (1 - self.second) * np.square(gradient)
                most = np.maximum(most, second) if self.largest else second
                first, scale = (1.0, 1.0) if self.uncorrected else self._corrections(step + 1)
                epsilon = self.epsilon / np.sqrt(scale) if self.early else self.epsilon
                root = np.sqrt(most / scale + epsilon) if self.inside else np.sqrt(most / scale) + epsilon
                made = average / first / np.maximum(root, 1e-300)
            else:
                damped = gradient if step == 0 else (1 - self.dampening) * gradient
                average = self.momentum * average + damped
                made = gradient + self.momentum * average if self.nesterov else average
            found[step] = made + linear * weight
        return found * np.asarray(self.rates)[:, None] if self.rates else found

    def _corrections(self, step: int) -> tuple[float, float]:
        return 1 - self.momentum**step, max(1 - self.second**step, 1e-12)

    def _clipped(self, of: Steps) -> Array:
        if self.clip_norm:
            return of.gradients * np.minimum(1, self.clip_norm / np.maximum(of.norms, 1e-300))[:, None]
        return np.clip(of.gradients, -self.clip_value, self.clip_value) if self.clip_value else of.gradients


class Fitted(NamedTuple):
    """A rule with the rate and the decay of each weight, and by weight how far it is off, in rounding units."""

    rule: Rule
    rate: Array
    decay: Array
    off: Array

    @property
    def holds(self) -> bool:
        """Whether all steps come out within rounding."""
        return bool((self.off <= _HOLDS).all())


@dataclass(frozen=True)
class Change:
    """What differs between the steps of two sides: its name, both numbers, and at which weights (their numbers)."""

    name: str
    left: Any
    right: Any
    weights: tuple[int, ...]
    free: int = 1


def _off(of: Steps, made: Array, noise: Array) -> Array:
    """Return by weight the largest RMS of an iteration, in rounding units."""
    count = np.bincount(of.owner)
    squares = np.nan_to_num(np.square((of.moved + made) / noise), nan=np.inf)
    found: Array = np.sqrt(np.max([np.bincount(of.owner, row) / count for row in squares], axis=0))
    return found


def tried(of: Steps, rule: Rule, rate: Array, decay: Array) -> Fitted:
    """Return how far a rule with given rates and decays is off."""
    decays, noise = decay[of.owner], of.noise
    made = rate[of.owner] * rule.steps(of, decays)
    if rule.coupled:
        # Where a gradient and a decay nearly cancel out, Adam divides what rounding leaves by itself.
        moved = replace(of, gradients=of.gradients * (1 + _ROUNDED))
        noise = noise + np.abs(rate[of.owner] * rule.steps(moved, decays) - made)
    return Fitted(rule, rate, decay, _off(of, made, noise))


def _coupled_rates(of: Steps, rule: Rule, given: Array | None) -> tuple[Array, Array]:
    """Return the rate of each weight, unless it is given, and the rule's decay or none, whichever fits better."""
    found = []
    for decay in (0.0, rule.coupled):
        made = rule.steps(of, np.full(of.owner.size, decay)) / of.noise
        moved = -of.moved / of.noise
        with np.errstate(all="ignore"):
            rate = np.bincount(of.owner, (moved * made).sum(0)) / np.bincount(of.owner, (made * made).sum(0))
        rate = np.nan_to_num(rate) if given is None else given
        off = np.bincount(of.owner, np.square(moved - rate[of.owner] * made).sum(0))
        found.append((rate, off / np.bincount(of.owner)))
    (plain, off_plain), (decayed, off_decayed) = found
    decays = (off_plain > _HOLDS) & (off_decayed < off_plain)
    return np.where(decays, decayed, plain), np.where(decays, rule.coupled, 0.0)


def _own_rates(of: Steps, rule: Rule, given: Array | None = None) -> tuple[Array, Array]:
    """Return the rate and the decay of each weight that fit best; a decay of 0 where that does."""
    if rule.coupled:
        return _coupled_rates(of, rule, given)
    zero = np.zeros(of.owner.size)
    made = rule.steps(of, zero)
    drawn = rule.steps(of, zero + 1) - made
    scaled = [values / of.noise for values in (-of.moved, made, drawn)]

    def sums(one: int, other: int) -> Array:
        found: Array = np.bincount(of.owner, (scaled[one] * scaled[other]).sum(0)).astype(np.float64)
        return found

    mm, dd, md, um, ud, uu = sums(1, 1), sums(2, 2), sums(1, 2), sums(0, 1), sums(0, 2), sums(0, 0)
    count = np.bincount(of.owner) * len(of.moved)
    with np.errstate(all="ignore"):
        alone = np.nan_to_num(um / mm)
        determinant = mm * dd - md * md
        rate = (um * dd - ud * md) / determinant
        decay = (ud * mm - um * md) / determinant / rate
        left_alone = (uu - alone * um) / count
    plain = (left_alone <= _HOLDS) | ~np.isfinite(decay) | (determinant <= 1e-9 * mm * dd) | (count < _FEWEST)
    return np.where(plain, alone, rate), np.where(plain, 0.0, decay)


def _placed(rule: Rule, names: Sequence[str], values: Sequence[float]) -> Rule:
    found = {
        name: float(np.exp(np.clip(value, -60, 60))) if name in _POSITIVE else float(value)
        for name, value in zip(names, values, strict=True)
    }
    return rule.changed(found)


def fitted(
    of: Steps,
    rule: Rule,
    names: Sequence[str] = (),
    *,
    rate: Array | None = None,
    decay: Array | None = None,
    is_scheduled: bool = False,
) -> Fitted:
    """Return a rule with the numbers of these names, and the rates and decays that are not given, that fit best."""

    def made(values: Sequence[float]) -> Fitted:
        placed = _placed(rule, names, values)
        own = _own_rates(of, placed, rate) if rate is None or decay is None else (rate, decay)
        found = tried(of, placed, *own)
        return _scheduled(of, found) if is_scheduled else found

    def errors(values: Sequence[float]) -> Array:
        found = made(values)
        steps = found.rate[of.owner] * found.rule.steps(of, found.decay[of.owner])
        return np.nan_to_num((of.moved + steps) / of.noise, nan=1e9, posinf=1e9, neginf=-1e9).clip(-1e9, 1e9).ravel()

    begun = [made(values) for values in product(*(_starts(of, rule, name) for name in names))]
    begun.sort(key=lambda one: float(np.median(one.off)))
    best = begun[0]
    if best.holds or not names:
        return best
    # Loaded for what no usual number explains; it takes as long as a small comparison.
    from scipy.optimize import least_squares

    low = [-60.0 if name in _POSITIVE else 0.0 for name in names]
    high = [60.0 if name in _POSITIVE else 0.99999 for name in names]
    for one in begun[:2]:
        start = [_sought(name, getattr(one.rule, name)) for name in names]
        # Few elements that are far off do not lead away; near the end they are what shows the way.
        for loss in ("soft_l1", "linear"):
            solved = least_squares(errors, start, bounds=(low, high), x_scale="jac", max_nfev=30, loss=loss)
            # People set round numbers.
            for digits in (1, 2, 3, 17):
                found = made([_sought(name, _rounded(name, solved.x[at], digits)) for at, name in enumerate(names)])
                best = min(best, found, key=lambda one: float(one.off.max()))
                if best.holds:
                    return best
            start = list(solved.x)
            if np.median(found.off) > _NEAR:
                break
    return best


def _starts(of: Steps, rule: Rule, name: str) -> list[float]:
    """Return what a number may begin with: what the rule has, and usual ones."""
    unit = float(np.median(of.norms)) if name == "clip_norm" else 1.0
    unit = float(np.abs(of.gradients).max()) if name == "clip_value" else unit
    own = getattr(rule, name)
    return [
        _sought(name, one)
        for one in dict.fromkeys(((own,) if own else ()) + tuple(unit * one for one in _STARTS[name]))
    ]


def _rounded(name: str, value: float, digits: int) -> float:
    number = float(np.exp(value)) if name in _POSITIVE else value
    if name in ("momentum", "second"):
        return 1 - float(f"{1 - number:.{digits}g}")
    return float(f"{number:.{digits}g}")


def _sought(name: str, value: float) -> float:
    return log(max(value, 1e-26)) if name in _POSITIVE else min(value, 0.9999)


_ADAM = Rule(adam=True, momentum=0.9, second=0.999, epsilon=1e-8)


_SGD = Rule()
# From the plainest on, with the numbers that are looked for.
_SCHEDULED: Sequence[tuple[Rule, tuple[str, ...]]] = (
    (_SGD, ()),
    (_ADAM, ()),
    (_SGD, ("momentum",)),
    (_ADAM, ("momentum", "second", "epsilon")),
    (_ADAM, ("coupled", "momentum", "second", "epsilon")),
)
_RULES: Sequence[tuple[Rule, tuple[str, ...]]] = (
    (_SGD, ()),
    (_ADAM, ()),
    (_SGD, ("momentum",)),
    (replace(_SGD, nesterov=True), ("momentum",)),
    (_ADAM, ("coupled",)),
    (_SGD, ("momentum", "dampening")),
    (replace(_SGD, decoupled=True), ("momentum",)),
    (_ADAM, ("momentum", "second", "epsilon")),
    *((_ADAM.changed({flag: True}), ()) for flag in _FLAGS["adam"]),
    (_ADAM, ("coupled", "momentum", "second", "epsilon")),
    *((_ADAM.changed({flag: True}), ("momentum", "second", "epsilon")) for flag in _FLAGS["adam"]),
    (_SGD, ("clip_norm",)),
    (_SGD, ("momentum", "clip_norm")),
    (_ADAM, ("clip_norm",)),
    (_SGD, ("clip_value",)),
    (_SGD, ("momentum", "clip_value")),
    (_ADAM, ("clip_value",)),
)


def rule_of(of: Steps) -> tuple[Fitted, Steps] | None:
    """Return the plainest rule that makes these steps, and the steps with the weights before the first one.

    These are where the rule goes back to if they are not known. ``None`` where no rule makes the steps.
    """
    if not np.isfinite(of.noise).any():
        return None
    is_whole = bool(np.isfinite(of.noise).all())
    rules = [(*one, False) for one in _RULES if "clip_norm" not in one[1] or np.isfinite(of.norms).all()]
    rules += [(*one, True) for one in _SCHEDULED] if len(of.moved) > 1 and is_whole else []
    # Adam's first steps are nearly of one size, whatever its numbers.
    of_adam = of if is_whole else _begun(of, fitted(_begun(of, fitted(of, _ADAM)), _ADAM, ("coupled",)))
    for rule, names, is_scheduled in rules:
        found = fitted(of_adam if rule.adam else of, rule, names, is_scheduled=is_scheduled)
        if is_whole and found.holds:
            return found, of
        # The decay of unknown weights is a small part of a step.
        for _ in range(0 if is_whole or found.off.max() > _NEAR else 3):
            begun = _begun(of, found)
            found = fitted(begun, found.rule, names)
            if found.holds:
                return found, _begun(of, found)
    return None


def _begun(of: Steps, base: Fitted) -> Steps:
    """Return steps with the weights before the first, to which a rule goes back from those after it."""
    rate, decay = base.rate[of.owner], base.decay[of.owner]
    after = start = of.weights[0] + of.moved[0]
    for _ in range(3):
        start = after + rate * base.rule.steps(replace(of, weights=np.vstack([start, of.weights[1:]])), decay)[0]
    # A gradient and a decay that cancel out may have had either sign.
    is_open = np.abs(of.gradients[0] + decay * after) < (3 * np.abs(rate) * decay if base.rule.coupled else 0)
    noise = np.where(is_open, np.inf, of.noise)
    return replace(of, weights=np.vstack([start, of.weights[1:]]), noise=noise)


def _scheduled(of: Steps, base: Fitted, *, is_fixed: bool = False) -> Fitted:
    """Return a rule with the rate of each iteration that fits best; the first one's is 1 unless rates are given."""
    for _ in range(4):
        plain = replace(base.rule, rates=())
        made = base.rate[of.owner] * plain.steps(of, base.decay[of.owner])
        weighed = made / np.square(of.noise)
        with np.errstate(all="ignore"):
            rates = np.nan_to_num((-of.moved * weighed).sum(1) / (made * weighed).sum(1))
        if not is_fixed and rates[0]:
            rates = rates / rates[0]
        rule = replace(base.rule, rates=tuple(map(float, rates)))
        if is_fixed:
            return tried(of, rule, base.rate, base.decay)
        base = tried(of, rule, *_own_rates(of, rule))
        if base.holds:
            break
    return base


def rate_between(left: Steps, right: Steps) -> tuple[int, float] | None:
    """Return the first iteration whose steps differ, if what led to it is the same, and how many times as far they go.

    Whatever the rule is, it makes the same of the same weights and gradients but for the rate.
    """
    noise, count = left.noise + right.noise, np.bincount(left.owner)

    def is_near(apart: Array, at: int) -> bool:
        return bool((np.bincount(left.owner, np.square(apart / noise[at])) <= _HOLDS**2 * count).all())

    for at in range(1, len(left.moved)):
        one, other = left.moved[at], right.moved[at]
        if not is_near(left.weights[at] - right.weights[at], at):
            return None
        if not is_near(one - other, at):
            weighed = other / np.square(noise[at])
            factor = float((one * weighed).sum() / max((other * weighed).sum(), 1e-300))
            return (at, factor) if is_near(one - factor * other, at) else None
    return None


def is_same(left: Steps, base: Fitted) -> bool:
    """Whether the left's steps are those of the right's rule."""
    return not (tried(left, base.rule, base.rate, base.decay).off > _FAILS).any()


def change_between(left: Steps, base: Fitted) -> Change | None:
    """Return the one thing in which the left's steps differ from the right's rule; ``None`` if nothing does, or many.

    Of those that explain all steps the one with the fewest free numbers is returned, if there is one such.
    """
    same = tried(left, base.rule, base.rate, base.decay)
    if not (same.off > _FAILS).any():
        return None
    weights = tuple(map(int, np.flatnonzero(same.off > _HOLDS)))
    found = [
        change for change in (*_of_weights(left, base, weights), *_of_rule(left, base, weights)) if change is not None
    ]
    least = min((one.free for one in found), default=0)
    best = [one for one in found if one.free == least]
    return best[0] if len(best) == 1 else None


def _of_weights(left: Steps, base: Fitted, weights: tuple[int, ...]) -> Iterator[Change | None]:
    """Yield changes of the rate or the decay of some weights, or all."""
    own = fitted(left, base.rule)
    at = np.array(weights)
    with np.errstate(all="ignore"):
        factors = np.nan_to_num(own.rate[at] / base.rate[at])
    counted = np.bincount(left.owner)[at]
    factor = float(factors[np.argmax(counted)])
    rate = base.rate.copy()
    rate[at] *= factor
    if tried(left, base.rule, rate, base.decay).holds:
        yield Change("rate", factor, 1.0, weights)
    decays = base.decay.copy()
    value = 0.0
    for tries in (0.0, *(float(one) for one in own.decay[at[np.argsort(-counted)]][:3])):
        decays[at] = tries
        if tried(left, base.rule, base.rate, decays).holds:
            value = tries
            break
    else:
        return
    before = base.decay[at]
    yield Change("decay", value, float(np.median(before)), weights, free=1 if value else 0)


def _of_rule(left: Steps, base: Fitted, weights: tuple[int, ...]) -> Iterator[Change | None]:
    """Yield changes of what all weights have in common."""
    rule, kept = base.rule, {"rate": base.rate, "decay": base.decay}

    def changed(name: str, names: Sequence[str], rule: Rule, free: int, **fixed: Any) -> Change | None:
        found = fitted(left, rule, names, **{**kept, **fixed})
        before = getattr(base.rule, name)
        after = getattr(found.rule, name)
        return Change(name, after, before, weights, free) if found.holds else None

    for name in _FLAGS[rule.family]:
        yield changed(name, (), rule.changed({name: not getattr(rule, name)}), 0)
    if rule.adam and base.decay.any():
        # Beside a gradient that a decay nearly cancels out, the digits that rounding has left of it show.
        decays = np.array([float(f"{one:.3g}") for one in base.decay])
        coupled = 0.0 if rule.coupled else float(np.median(decays[decays != 0]))
        # So does where epsilon is added, in which frameworks differ.
        ways = (replace(rule, coupled=coupled, early=early) for early in (rule.early, not rule.early))
        holds = any(tried(left, one, base.rate, decays).holds for one in ways)
        yield Change("coupled", coupled, rule.coupled, weights, 0) if holds else None
    if rule.adam and (rule.coupled or not base.decay.any()):
        found = fitted(left, replace(rule, coupled=rule.coupled or 1e-2), ("coupled",), rate=base.rate)
        is_another = abs(found.rule.coupled - rule.coupled) > _SAME * rule.coupled
        yield Change("decay", found.rule.coupled, rule.coupled, weights) if found.holds and is_another else None
    for name in _NUMBERS[rule.family]:
        # Without momentum to dampen, it is another rate from the second step on.
        is_open = name == "clip_norm" and not np.isfinite(left.norms).all()
        if not is_open and (name != "dampening" or rule.momentum):
            yield changed(name, (), rule.changed({name: 0.0}), 0) if getattr(rule, name) else None
            yield changed(name, (name,), rule, 1)
    if len(left.moved) > 1 and np.isfinite(left.noise).any(axis=1).all():
        plain = Fitted(replace(rule, rates=()), base.rate, base.decay, base.off)
        found = _scheduled(left, plain, is_fixed=True)
        rights = rule.rates or (1.0,) * len(left.moved)
        if found.holds:
            yield Change("rates", found.rule.rates, rights, weights, len(left.moved))
