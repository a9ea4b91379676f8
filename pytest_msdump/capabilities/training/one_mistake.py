"""One mistake behind all that fails in a training run: of the loss, of what becomes of gradients, of the optimizer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import hypot, inf, isfinite, sqrt
from operator import le
from statistics import median, median_high
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.training.losses import cross_entropy_of, difference
from pytest_msdump.capabilities.training.optimizer_rules import (
    Array,
    Fitted,
    Steps,
    change_between,
    is_same,
    rate_between,
    rule_of,
)
from pytest_msdump.capabilities.training.optimizer_steps import (
    AFTER,
    BEFORE,
    GRADIENT,
    STATE,
    Kind,
    Moves,
    Training,
    kind_of,
    norms_of,
)
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.matching.kinds import weight_name
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Diagnosis, Record, RoleReason
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.text import Message

# Directions that differ by less, and factors that do, are the same: what rounding makes of them in 16 bits.
_SAME_DIRECTION, _SAME_FACTOR = 1.5e-2, 5e-3
# Norms that are equal to so much are one, to which gradients were clipped; so is a plain number.
_SAME_NORM, _PLAIN_NORM = 1e-4, 2e-5
# What rounding leaves of a direction at least.
_ROUNDED = 2.0**-22
# Sums of gradients that were made of rounded ones.
_SAME_SUM = 1e-3
# So many gradients show a factor that all have.
_LEAST = 3
# Squares of steps, in rounding units, by which a weight's own rate shows.
_LEAST_MOVED = 1e4
_GRADIENTS = (GRADIENT, "grad_output", "grad_input")
_OF_WEIGHTS = (BEFORE, AFTER, STATE)
_MOMENTS = ("/exp_avg", "/momentum_buffer")
_STATISTICS = ("runningmean", "runningvar")
_MOST_NAMED = 3
# How recordings of functions name those that no module calls.
_OUTSIDE = "outside/"


class _Gradient(NamedTuple):
    """A gradient beside the right's: how much larger it is, and how far apart both are at a norm of 1."""

    record: Record
    factor: float
    apart: float
    norms: tuple[float, float]
    is_of_weight: bool

    @property
    def is_parallel(self) -> bool:
        return self.apart <= _SAME_DIRECTION and min(self.norms) > 0


def with_one_mistake(plan: Plan, records: Mapping[int, Record]) -> dict[int, Record]:
    """Return the records that one sentence explains: the cause of what fails in training, and what inherits from it.

    That is what fails before the backward pass (a loss that was recorded), else the first gradient, else the first
    weight after a step.
    """
    kinds = {number: kind_of(record) for number, record in records.items()}
    if not any(kind.name for kind in kinds.values()):
        return {}
    by_part: defaultdict[Coordinates, list[int]] = defaultdict(list)
    for number in sorted(records, key=lambda number: (records[number].order, number)):
        by_part[records[number].left.at.part].append(number)
    parts = list(by_part.values())
    at = next((at for at, part in enumerate(parts) if any(records[one].fails for one in part)), None)
    return {} if at is None else _Step(plan, records, kinds, parts, at).explained()


class _Step:
    """The first part of a run in which something fails."""

    def __init__(
        self,
        plan: Plan,
        records: Mapping[int, Record],
        kinds: Mapping[int, Kind],
        parts: Sequence[Sequence[int]],
        at: int,
    ) -> None:
        self._plan, self._records, self._kinds = plan, records, kinds
        self._numbers, self._is_first = parts[at], at == 0
        self._later = {number for part in parts[at + 1 :] for number in part}
        self._failing = [number for number in self._numbers if records[number].fails]
        begun = min((records[one].order for one in self._numbers if kinds[one].name in _GRADIENTS), default=inf)
        # What is done outside of a model behind its backward pass is done to gradients and weights.
        self._forward = [
            number
            for number in self._failing
            if not kinds[number].name
            and not (records[number].order > begun and records[number].left.key.op.label.startswith(_OUTSIDE))
        ]
        self._is_loss = all(self._may_be_loss(number) for number in self._forward)
        self._training = Training(plan, records)

    def explained(self) -> dict[int, Record]:
        """Return the cause and what inherits from it."""
        gradients = [one for one in self._failing if self._kinds[one].name in _GRADIENTS]
        if (found := self._of_passes()) is not None:
            return self._with_cause(self._failing[0], found)
        if gradients and (found := self._of_gradients()) is not None:
            heads = [one for one in self._forward if self._records[one].role == "cause"] or self._forward
            return self._with_cause((heads or gradients)[0], found if self._is_loss else None)
        if gradients and self._is_loss and (found := self._of_sums() or self._of_values() or self._of_loss()):
            return self._with_cause((self._forward or gradients)[0], found)
        if self._is_first and self._forward:
            return {}
        return self._of_statistics() or self._of_optimizer(has_gradients=bool(gradients))

    def _may_be_loss(self, number: int) -> bool:
        record = self._records[number]
        return record.elements == 1 or "loss" in record.left.key.op.label.rpartition("/")[2].lower()

    def _with_cause(self, number: int, found: Diagnosis | None) -> dict[int, Record]:
        cause = self._records[number]
        # What an earlier step left behind reaches all of the next.
        is_behind = number not in self._forward and cause.order < self._records[self._failing[0]].order
        inherits = [one for one in self._failing if one not in self._forward or self._is_loss or is_behind]
        inherits += [one for one in self._later if self._records[one].fails]
        within = [one for one in (*self._numbers, *self._later) if self._records[one].role and one not in inherits]
        return {
            **{one: self._records[one].without_role() for one in within if not self._records[one].fails},
            **{one: self._records[one].inherited_from(cause) for one in inherits},
            number: _cause(cause, found),
        }

    # -- gradients ----------------------------------------------------------------------------------------------------

    def _of_gradients(self) -> Diagnosis | None:
        """All gradients are so many times the right's."""
        of_kind = [number for number in self._numbers if self._kinds[number].name in _GRADIENTS]
        # Those before the first that fails were made before the mistake.
        begun = next((at for at, number in enumerate(of_kind) if self._records[number].fails), len(of_kind))
        # So was a number that passes, whatever the order in which functions of the loss were recorded.
        behind = [one for one in of_kind[begun:] if self._records[one].fails or self._records[one].elements != 1]
        found = [_gradient(self._records[number], self._kinds[number].name) for number in behind]
        known = [one for one in found if one is not None]
        parallel = [one for one in known if one.is_parallel]
        if len(known) < len(found) or len(parallel) < _LEAST:
            return None
        # Those that are zero in exact arithmetic are no larger than what rounding leaves open of the others.
        usual = max(_ROUNDED, median(one.apart for one in parallel))
        limits = [usual * median(one.norms[side] for one in parallel) for side in (0, 1)]
        gradients = [one for one in known if one.is_parallel or not all(map(le, one.norms, limits))]
        scaled = [one for one in gradients if one.record.fails]
        are_weights = scaled == [one for one in gradients if one.is_of_weight]
        is_behind = are_weights and scaled != gradients
        is_all = is_behind or len(scaled) == len(gradients)
        if len(scaled) < _LEAST or not is_all or not all(one.is_parallel for one in gradients):
            return None
        factor = median_high(one.factor for one in scaled)
        if any(abs(one.factor / factor - 1) > _SAME_FACTOR + one.apart for one in scaled):
            return None
        numbers = {"n": len(scaled), "factor": factor}
        left, right = (hypot(*(one.norms[side] for one in scaled)) for side in (0, 1))
        if is_behind or (are_weights and not self._forward and self._is_clipped(left, right)):
            code = "gradients_clipped" if is_behind else "gradients_clipped_to"
            evidence = Message(code, {**numbers, "left": left, "right": right})
            return Diagnosis("gradients_clipped", "high", evidence, {"factor": factor})
        return Diagnosis("loss_scaled", "high", Message("gradients_scaled", numbers), {"factor": factor})

    def _is_clipped(self, left: float, right: float) -> bool:
        """Whether one side's gradients have one norm in all iterations, or a plain one, and the other's do not."""
        norms = [one for step in self._training.iterations if (one := self._training.norms(step)) is not None]
        for side in (0, 1):
            own = [one[side] for one in norms]
            if len(own) > 1 and max(own) - min(own) <= _SAME_NORM * max(own):
                others = [one[1 - side] for one in norms]
                return max(others) - min(others) > _SAME_NORM * max(others)
        return len(norms) == 1 and any(abs(float(f"{one:.1g}") / one - 1) < _PLAIN_NORM for one in (left, right))

    def _of_passes(self) -> Diagnosis | None:
        """One side ran more backward passes in a step."""
        here = self._records[self._numbers[0]].left.at.iteration
        passes: list[int] = []
        for dump in (self._plan.left, self._plan.right):
            calls = Counter(
                ref.key.op.label
                for ref in dump.refs
                if ref.key.io == "output" and ref.key.slot == 0 and ref.key.op.at.iteration == here
                if ref.key.op.op_type not in (PARAMETER, "Optimizer")
                if "/" not in ref.key.op.label and weight_name(ref.key.op.label) is None
            )
            most = Counter(calls.values()).most_common(1)
            passes += [one for one, count in most if 2 * count > len(calls)]
        if len(passes) < 2 or passes[0] == passes[1]:
            return None
        numbers = {"left": passes[0], "right": passes[1]}
        return Diagnosis("passes_differ", "high", Message("passes_differ", numbers), numbers)

    def _series(self, kind: str) -> Iterator[tuple[str, list[Array | None]]]:
        self._training.read((kind,))
        for name, weight in self._training.weights.items():
            if any(key[0] == kind for key in weight.pairs):
                yield name, [weight.values.get((kind, step)) for step in self._training.iterations]

    def _of_sums(self) -> Diagnosis | None:
        """Gradients of a step still hold those of the steps before."""
        here = self._records[self._numbers[0]].left.at.iteration or 0
        if here not in self._training.iterations[1:]:
            return None
        at = self._training.iterations.index(here)
        by_side: list[int] = [0, 0]
        count = 0
        for _, values in self._series(GRADIENT):
            known = [one for one in values[: at + 1] if one is not None]
            if len(known) <= at or len({one.shape for one in known}) > 1:
                return None
            if np.abs(known[at][0] - known[at][1]).max() <= _SAME_SUM * np.abs(known[at][1]).max():
                continue
            count += 1
            for side in (0, 1):
                summed = sum(one[1 - side] for one in known)
                by_side[side] += bool(_is_near(known[at][side], np.asarray(summed)))
        side = 0 if by_side[0] == count else 1
        if count < _LEAST or by_side[side] < count or by_side[1 - side] == count:
            return None
        code = "gradients_kept" if side == 0 else "gradients_kept_right"
        return Diagnosis("gradients_kept", "high", Message(code, {"n": count, "iteration": here}), {"side": side})

    def _of_values(self) -> Diagnosis | None:
        """Gradients are cut off at a value."""
        pairs = [values[0] for _, values in self._series(GRADIENT) if values and values[0] is not None]
        if len(pairs) < _LEAST or not self._is_first:
            return None
        for side in (0, 1):
            bound = max(float(np.abs(one[side]).max()) for one in pairs)
            cut = [np.clip(one[1 - side], -bound, bound) for one in pairs]
            changed = sum(int((clipped != one[1 - side]).sum()) for clipped, one in zip(cut, pairs, strict=True))
            fits = all(_is_near(one[side], clipped) for clipped, one in zip(cut, pairs, strict=True))
            if fits and changed >= _LEAST:
                evidence = Message(("gradients_cut", "gradients_cut_right")[side], {"value": bound, "n": len(pairs)})
                return Diagnosis("gradients_clipped", "high", evidence, {"value": bound})
        return None

    def _of_loss(self) -> Diagnosis | None:
        """What the model gives passes, and all gradients fail from the last on."""
        gradients = [one for one in self._numbers if self._kinds[one].name in _GRADIENTS]
        passing = [one for one in self._numbers if not self._kinds[one].name and not self._records[one].fails]
        failing = [one for one in gradients if self._records[one].fails]
        before = gradients[: gradients.index(failing[0])]
        is_at_end = all(self._records[one].elements == 1 for one in before)
        if not passing or len(failing) < _LEAST or not is_at_end or not self._is_first:
            return None
        what = self._of_scores(failing, passing)
        scaled = [_gradient(self._records[one], self._kinds[one].name) for one in failing]
        factors = [one.factor for one in scaled if one is not None and one.is_parallel]
        common = max((sum(abs(one / other - 1) < _SAME_NORM for one in factors) for other in factors), default=0)
        # Where most have one factor, something else is wrong beside it.
        is_mixed = 2 * common > len(failing) and not self._forward
        if what is None and (2 * len(failing) < len(gradients) or is_mixed):
            return None
        numbers = {"n": len(failing), "of": len(gradients)}
        return Diagnosis("loss_differs", "high", what or Message("loss_differs", numbers), numbers)

    def _of_scores(self, failing: Sequence[int], passing: Sequence[int]) -> Message | None:
        outputs = {self._records[one].left.key.op.label: one for one in passing}
        for number in failing:
            label, _, own = self._records[number].left.key.op.label.rpartition("/")
            scores = outputs.get(label) if own == "grad_output" else None
            if scores is not None:
                whole = [self._training.rows(one) for one in (scores, number)]
                if whole[0] is None or whole[1] is None or whole[0].shape != whole[1].shape:
                    return None
                found = [cross_entropy_of(whole[0][side], whole[1][side]) for side in (0, 1)]
                return difference(found[0], found[1]) if found[0] is not None and found[1] is not None else None
        return None

    # -- what steps leave behind --------------------------------------------------------------------------------------

    def _of_statistics(self) -> dict[int, Record]:
        """Running statistics move so many times as far."""
        failing = [one for one in self._failing if self._kinds[one].weight.endswith(_STATISTICS)]
        if not failing or len(failing) < len(self._failing):
            return {}
        self._training.read((BEFORE, AFTER))
        factors: list[float] = []
        for name, weight in self._training.weights.items():
            if name.endswith(_STATISTICS) and weight.values:
                values = [
                    weight.values[key] for key in sorted(weight.values, key=lambda key: (key[1], key[0] == AFTER))
                ]
                # What they begin with, unless that was recorded.
                values.insert(0, np.full_like(values[0], 0.0 if name.endswith("mean") else 1.0))
                at = next((at for at, one in enumerate(values) if _is_apart(one)), None)
                if at is not None:
                    left, right = values[at] - values[at - 1]
                    factors.append(float((left * right).sum() / max((right * right).sum(), 1e-300)))
                    if not _is_near(left, factors[-1] * right):
                        return {}
        if not factors or any(abs(one / factors[0] - 1) > _SAME_FACTOR for one in factors):
            return {}
        numbers = {"n": len(factors), "factor": factors[0]}
        found = Diagnosis("statistics_momentum", "high", Message("statistics_momentum", numbers), numbers)
        return self._with_cause(failing[0], found)

    def _of_optimizer(self, *, has_gradients: bool) -> dict[int, Record]:
        """What the optimizer does otherwise."""
        for is_before in (True, False) if not self._training.is_known_after else (True,):
            moves = Moves(self._training, is_before=is_before)
            evidence = _of_rules(moves)
            if evidence is not None:
                names = evidence.details["weights"]
                return self._with_cause(self._of_weight(names), evidence)
        evidence = _of_rate(moves)
        if evidence is not None:
            return self._with_cause(self._of_weight(moves.names), evidence)
        evidence = self._of_moments() if not has_gradients and not self._forward else None
        if evidence is not None:
            return self._with_cause(self._failing[0], evidence)
        failing = [one for one in self._failing if self._kinds[one].name in _OF_WEIGHTS]
        weights = {self._kinds[one].weight for one in failing}
        given = [one for one in self._numbers if self._kinds[one].name == GRADIENT]
        if self._forward or has_gradients or len(weights) < 2 or not given or not _has_another_rule(moves):
            return {}
        numbers = {"n": len(weights), "of": len(given)}
        found = Diagnosis("optimizer_differs", "high", Message("optimizer_differs", numbers), numbers)
        return self._with_cause(failing[0], found)

    def _of_moments(self) -> Diagnosis | None:
        """What the optimizer is given in a first step is so many times the right's, by the averages that it begins."""
        known = [one for one in self._numbers if self._records[one].left.key.op.label.endswith(_MOMENTS)]
        failing = [one for one in known if self._records[one].fails]
        found = [_gradient(self._records[one], STATE) for one in failing if self._is_first]
        factors = [one.factor for one in found if one is not None and one.is_parallel]
        same = [[one for one in factors if abs(one / other - 1) < _SAME_NORM] for other in factors]
        # To the others a decay was added.
        common, factor = max(((len(one), one[0]) for one in same), default=(0, 1.0))
        if common < _LEAST or abs(factor - 1) < _SAME_FACTOR:
            return None
        numbers = {"n": common, "of": len(known), "factor": factor}
        return Diagnosis("gradients_clipped", "high", Message("optimizer_given", numbers), {"factor": factor})

    def _of_weight(self, names: Sequence[str]) -> int:
        """Return the first record of these weights that fails, else that is not equal, else what fails first."""
        of_weights = [
            number
            for number in sorted(self._records, key=lambda one: self._records[one].order)
            if self._kinds[number].name in _OF_WEIGHTS and self._kinds[number].weight in names
        ]
        failing = [one for one in of_weights if one in self._failing]
        before = [
            one
            for one in of_weights
            if self._records[one].order < self._records[self._failing[0]].order and self._records[one].equal is False
        ]
        return ((before if self._forward else failing) or failing or before or self._failing)[0]


def _is_apart(values: Array) -> bool:
    return bool(np.abs(values[0] - values[1]).max() > _SAME_SUM * np.abs(values[1]).max())


def _is_near(one: Array, other: Array) -> bool:
    return bool(np.abs(one - other).max() <= _SAME_SUM * max(float(np.abs(other).max()), 1e-30))


def _gradient(record: Record, kind: str) -> _Gradient | None:
    """Return by how much a gradient is larger than the right's; ``None`` if that is not known."""
    norms, spread = norms_of(record), record.metrics.get("standard_deviation")
    if norms is None or not isinstance(spread, Sequence) or not all(map(isfinite, norms)):
        return None
    cosine = record.metrics.get("cosine_similarity")
    if record.elements == 1:
        cosine = 1.0 if spread[0] * spread[2] > 0 else -1.0
    apart = sqrt(max(2 - 2 * cosine, 0)) if isinstance(cosine, (int, float)) else 2.0
    return _Gradient(record, norms[0] / norms[1] if norms[1] else inf, apart, norms, kind == GRADIENT)


# -- the optimizer's rule ----------------------------------------------------------------------------------------------


def _sides(moves: Moves) -> tuple[Steps, Fitted, int] | None:
    """Return the steps that are explained, the rule of the other side, and which side it is: the left (0) if it can."""
    best: tuple[Steps, Fitted, int] | None = None
    for side in (0, 1):
        known = moves.steps(1 - side)
        found = None if known is None else rule_of(known)
        if found is not None:
            base, known = found
            explained = moves.steps(side, None if moves.knows_first else known.weights[0])
            # The plainer rule tells more of what the other side does.
            if explained is not None and (best is None or base.rule.is_plain):
                # Weights that move by rounding alone show no rate.
                moved = np.bincount(known.owner, np.square(known.moved / known.noise).max(axis=0))
                is_open = (moved < _LEAST_MOVED * np.bincount(known.owner))[known.owner] | np.isinf(known.noise[-1])
                noise = np.where(is_open, np.inf, explained.noise)
                best = replace(explained, noise=noise), base, side
            if base.rule.is_plain:
                break
    return best


def _has_another_rule(moves: Moves) -> bool:
    found = _sides(moves)
    return found is not None and not is_same(found[0], found[1])


def _of_rules(moves: Moves) -> Diagnosis | None:
    found = _sides(moves)
    if found is None:
        return None
    explained, base, side = found
    change = change_between(explained, base)
    names: Sequence[str] = moves.names
    if change is None:
        if not moves.still or not is_same(explained, base):
            return None
        changed, what, total = moves.still, "still", len(moves.names) + len(moves.still)
        left: Any = 0
        right: Any = 0
    else:
        changed, what, total = [names[one] for one in change.weights], change.name, len(names)
        # One weight of many is rather noise than a group.
        if len(changed) == 1 and total > _LEAST:
            return None
        left, right = (change.left, change.right) if side == 0 else (change.right, change.left)
        if what == "rate" and side == 1:
            left, right = 1 / change.left if change.left else 0.0, 1.0
    where = Message("weights_all", {"n": total})
    if len(changed) < total:
        where = Message(
            "weights_some",
            {"n": len(changed), "of": total, "names": listed([*map(moves.label, sorted(changed))], _MOST_NAMED)},
        )
    said = _sentence(what, left, right, base, where)
    steps: dict[str, Any] = {"what": said, "n": total, "iterations": len(moves.iterations)}
    details = {"what": what, "weights": tuple(changed)}
    return Diagnosis("optimizer_differs", "high", Message("optimizer_found", steps), details)


def _of_rate(moves: Moves) -> Diagnosis | None:
    """The learning rate of a later iteration, where the rule is not known."""
    left, right = (moves.steps(side) for side in (0, 1))
    found = None if left is None or right is None else rate_between(left, right)
    if found is None:
        return None
    iteration, factor = moves.iterations[found[0]], found[1]
    message = Message("optimizer_rate_at", {"n": len(moves.names), "left": factor, "iteration": iteration})
    return Diagnosis("optimizer_differs", "high", message, {"what": "rates", "weights": tuple(moves.names)})


def _sentence(what: str, left: Any, right: Any, base: Fitted, where: Message) -> Message:
    numbers: dict[str, Any] = {"left": left, "right": right, "where": where}
    if what == "rate":
        return Message("optimizer_rate" if left else "optimizer_still", {"left": left, "where": where})
    if what == "rates" and isinstance(left, tuple) and isinstance(right, tuple):
        shown = [tuple(f"{one:.4g}" for one in side) for side in (left, right)]
        return Message("optimizer_rates", {"left": ", ".join(shown[0]), "right": ", ".join(shown[1])})
    if isinstance(left, bool):
        return Message(f"optimizer_{what}" if left else f"optimizer_{what}_right")
    if what == "coupled":
        return Message("optimizer_coupled" if left else "optimizer_coupled_right")
    if what == "momentum" and base.rule.adam:
        return Message("optimizer_beta", {**numbers, "which": 1})
    if what == "second":
        return Message("optimizer_beta", {**numbers, "which": 2})
    if what.startswith("clip"):
        # How far Adam's gradients are scaled does not show in its steps.
        return Message(f"optimizer_{what}" if left else f"optimizer_{what}_right")
    return Message(f"optimizer_{what}", numbers)


def _cause(record: Record, diagnosis: Diagnosis | None) -> Record:
    found = (diagnosis, *record.diagnosis) if diagnosis is not None else record.diagnosis
    why = record.role_why if record.role == "cause" else RoleReason("passing")
    return replace(record, role="cause", causes=(), suspects=(), role_why=why, diagnosis=found)
