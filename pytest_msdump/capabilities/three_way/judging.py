"""Two runs against a third: the errors of left and of another run, both against golden, a more exact run.

Golden is the golden dump, or else the right one; the other run is the third dump, or else the right one. Both further
dumps are of runs of the same model as right, so their tensors are found by the right tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from pytest_msdump.capabilities.three_way.golden import golden_distances, golden_errors, golden_ratios
from pytest_msdump.core.compare.align import AlignedViews, OpenedPair, align
from pytest_msdump.core.compare.opening import logical_shape, open_view
from pytest_msdump.core.dtypes import coarser, rounding_unit
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES, VALUE_KINDS
from pytest_msdump.core.facts.metrics import METRICS, NORM_METRICS
from pytest_msdump.core.facts.profiles import MOST_LOOSER
from pytest_msdump.core.limits.permissions import looser_than_default
from pytest_msdump.core.limits.resolve import GOLDEN_RULE_METRIC
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.metrics.dominated import Bounds, others_of
from pytest_msdump.core.model.comparison import Comparison, Interval, Limits, Measurement, ThreeWay
from pytest_msdump.core.model.tensor import Pair, Pairing, TensorRef, TensorView
from pytest_msdump.core.text import Message, Parameter

if TYPE_CHECKING:
    from pytest_msdump.core.compare.user_code import Extras
    from pytest_msdump.core.model.dump import Dump

_DISTANCE = "relative_euclidean_distance"
_SELECTION = Selection(io="all")


def with_runs(pairing: Pairing, dumps: Mapping[str, Dump]) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
    """Give each pair its right tensor in the further runs, by their names, if all of them have it."""
    partners: dict[str, dict[int, TensorRef]] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for name, dump in dumps.items():
        if name in ("left", "right"):
            continue
        paired = pair_dumps(dumps["right"], dump, selection=_SELECTION, shape_of=logical_shape).pairs
        # By identity: two right tensors may share their key. A record does not depend on the place among others.
        known = partners[name] = {id(pair.left): replace(pair.right, place=None) for pair in paired}
        lacking = sum(id(pair.right) not in known for pair in pairing.pairs)
        text = f"no tensor for {lacking} of {len(pairing.pairs)} pairs, which are judged without {name}"
        notes[name] = (text,) if lacking else ()
    golden, third = (partners.get(name, {}) for name in ("golden", "third"))
    pairs = tuple(
        replace(pair, golden=golden.get(id(pair.right)), third=third.get(id(pair.right)))
        if all(id(pair.right) in known for known in partners.values())
        else pair
        for pair in pairing.pairs
    )
    return replace(pairing, pairs=pairs), notes


def sides_of(pair: Pair) -> tuple[Pair, Pair] | None:
    """Return left against golden and the other run against golden; ``None`` where neither run has the tensor."""
    if pair.golden is None and pair.third is None:
        return None
    golden = pair.golden or pair.right
    return replace(pair, right=golden), Pair(pair.third or pair.right, golden, how="name")


def with_ratios(
    opened: OpenedPair, measured: Comparison, limits: Limits, excuse: Callable[[OpenedPair, Limits], Message | None]
) -> Comparison:
    """Add the errors against golden and their ratios to what was measured, where all these tensors were saved."""
    pair, left, right, extras = opened.pair, opened.left, opened.right, opened.extras
    sides = sides_of(pair)
    if sides is None or any(ref.is_unseen for side in sides for ref in (side.left, side.right)):
        return measured
    with ExitStack() as stack:
        golden = stack.enter_context(closing(open_view(pair.golden))) if pair.golden else right
        other = stack.enter_context(closing(open_view(pair.third))) if pair.third else right
        names = ("golden" if pair.golden else "right", "third" if pair.third else "right")
        of_left = _aligned(sides[0], left, golden, ("left", names[0]), extras)
        of_other = _aligned(sides[1], other, golden, names[::-1], extras)

        def ratios(
            of_left: tuple[TensorView, TensorView], of_other: tuple[TensorView, TensorView]
        ) -> tuple[ThreeWay, Mapping[str, Measurement]]:
            errors, (other_errors, size) = golden_errors(*of_left)[0], golden_errors(*of_other)
            found = ThreeWay(*names, errors, other_errors)
            floor = rounding_unit(left.dtype, other.dtype) * size
            return found, golden_ratios(found, dtype=left.dtype, floor=floor, without=dict(limits.without))

        runs = {names[1]: (sides[1], other)}
        if pair.golden and pair.third:
            # In whose place the third stands.
            runs["right"] = Pair(pair.right, pair.golden, how="name"), right
        for name, (side, run) in runs.items() if any(METRICS[limit.metric].golden for limit in limits.limits) else ():
            values = VALUE_KINDS.get(measured.coarser[1] or "", run.dtype) if name == "right" else run.dtype
            dtype = _with_limits(coarser(values, side.left.computed or run.dtype), right.dtype)
            views = _aligned(side, run, golden, (name, names[0]), extras)
            # Golden has large elements where right has them.
            bounds = [one.above[1] for one in measured.dominated if one.measurements]
            apart_too = [others_of(*views, Bounds(above, above)) for above in bounds]
            for both in (views, *apart_too):
                stale = _stale(golden_distances(*both, dtype), dtype, (name, names[0]))
                # No two runs agree about noise.
                if stale and excuse(opened, limits) is None:
                    raise TensorShapeError(stale)
        found, measurements = ratios(of_left, of_other)
        dominated = []
        for one in measured.dominated:
            apart = dict(one.measurements)
            if apart:
                above_left, above_right = one.above
                _, of_others = ratios(
                    others_of(*of_left, Bounds(above_left, above_right)),
                    others_of(*of_other, Bounds(above_right, above_right)),
                )
                apart |= {metric: of_others[metric] for metric in of_others if metric in NORM_METRICS}
            dominated.append(one._replace(measurements=apart))
    measurements = {**measured.measurements, **measurements}
    return replace(measured, three_way=found, measurements=measurements, dominated=tuple(dominated))


def _with_limits(dtype: str, right: str) -> str:
    """Return the type by whose limits a run is judged: integers in the place of floats have none of their own."""
    return right if dtype in DTYPES and DTYPES[dtype].kind in ("integer", "bool") else dtype


def _stale(distances: Mapping[str, float], dtype: str, names: tuple[str, str]) -> Message | None:
    """Return that a run misses the limits of `default` against golden by far; ``None`` where it does not."""
    metric, factor = max(
        ((metric, looser_than_default(metric, value, dtype)) for metric, value in distances.items()),
        key=lambda one: one[1],
    )
    parameters: dict[str, Parameter] = {"run": names[0], "golden": names[1]}
    if not isfinite(factor):
        return Message("golden_is_elsewhere", parameters)
    parameters |= {"metric": metric, "factor": factor, "value": distances[metric], "dtype": dtype}
    return Message("golden_is_stale", parameters) if factor > MOST_LOOSER else None


def _aligned(
    pair: Pair, run: TensorView, golden: TensorView, names: tuple[str, ...], extras: Extras
) -> tuple[TensorView, TensorView]:
    try:
        aligned: AlignedViews = align(pair, run, golden, extras.converters)
    except TensorShapeError as error:
        named: dict[str, Parameter] = {"run": names[0], "golden": names[1], "why": error.message}
        raise TensorShapeError(Message("golden_of_other_shape", named)) from error
    return aligned.first(extras.first)


def golden_interval(
    pair: Pair, sketched: Callable[[Pair], Interval | None], dtypes: tuple[str, str]
) -> dict[str, Interval]:
    """Return the ratio of two errors against one golden tensor, of which sketches give estimates; empty without these.

    `sketched` is the relative Euclidean distance of a pair of which a side was not saved, if sketches give one: both
    divide by the same norm. The other run's counts as a rounding unit at least. `dtypes` are those of the left and the
    right side. TensorShapeError as for tensors.
    """

    def distance(side: Pair) -> Interval | None:
        if side.left.is_unseen or side.right.is_unseen:
            return sketched(side)
        with closing(open_view(side.left)) as left, closing(open_view(side.right)) as right:
            aligned = align(side, left, right)
            errors, size = golden_errors(aligned.left, aligned.right)
        return Interval(*(errors.rmse / size,) * 3) if size and errors.finite else None

    other_dtype = (pair.third or pair.right).spec.dtype or dtypes[1]
    floor = rounding_unit(dtypes[0], other_dtype)
    sides = sides_of(pair)
    found = [] if sides is None else [distance(side) for side in sides]
    if not found or found[0] is None or found[1] is None or not max(found[1].low, floor):
        return {}
    of_right = distance(Pair(pair.right, pair.golden, how="name")) if pair.golden and pair.third else None
    names = "golden" if pair.golden else "right", "third" if pair.third else "right"
    for name, apart, dtype in ((names[1], found[1], other_dtype), ("right", of_right, dtypes[1])):
        distances = {_DISTANCE: apart.low} if apart is not None else {}
        if distances and (stale := _stale(distances, _with_limits(dtype, dtypes[1]), (name, names[0]))):
            raise TensorShapeError(stale)
    left, other = found[0], [max(end, floor) for end in found[1]]
    ratio = Interval(left.value / other[0], left.low / other[2], left.high / other[1])
    return {GOLDEN_RULE_METRIC: ratio}
