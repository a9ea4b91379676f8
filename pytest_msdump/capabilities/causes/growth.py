"""How the error grows from operator to operator, in units of its limit. See ``localising.md``.

Operators may be any hashable values. Nothing here recurses, so a network may be as deep as it likes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, sqrt
from typing import Generic, NamedTuple, TypeVar

from pytest_msdump.core.model.record import Check, Record


class Drift(NamedTuple):
    """The error of a tensor relative to its size, its limit (``None`` if unknown), and what rounding explains of it.

    `fails_otherwise` says that the tensor is within this limit and fails by one of another metric. `base` is what
    rounding alone does to the tensor, where a limits file knows.
    """

    error: float
    limit: float | None = None
    noise: float = 0.0
    fails_otherwise: bool = False
    base: float | None = None

    @property
    def share(self) -> float | None:
        """The error over its limit."""
        return None if self.limit is None else self.error / self.limit

    @property
    def score(self) -> float | None:
        """The error over what rounding alone does."""
        return None if not self.base else self.error / self.base


Op = TypeVar("Op", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Feed(Generic[Op]):
    """One input: the operator that produces it, and the status of this very tensor.

    `status` is ``"passes"``, ``"fails"``, or ``None`` if it was not compared. `producer` is ``None`` if unknown.
    `drift` is how far this tensor is apart, ``None`` if unknown. `is_inside` says that the operator is a module, and
    that the producer ran inside of it.
    """

    producer: Op | None
    status: str | None = None
    drift: Drift | None = None
    is_inside: bool = False


@dataclass(frozen=True, slots=True)
class NetworkNode(Generic[Op]):
    """One operator.

    `status` is ``"fails"`` or ``"passes"`` if it was compared. Otherwise: ``"part"``, the other side has it as part of
    the operator that follows; ``"forwards"``, it hands its input on; ``"given"``, a weight or an input of the network;
    ``"unseen"``, nothing is known of it, so it may be the cause. `feeds` is ``None`` if its inputs are unknown.
    `drift` is the largest of its outputs, ``None`` if unknown. `is_steep`: a softmax, whose input's error says little.
    """

    status: str
    feeds: Sequence[Feed[Op]] | None = ()
    drift: Drift | None = None
    is_steep: bool = False

    @property
    def is_compared(self) -> bool:
        """Whether it has a verdict."""
        return self.status in ("fails", "passes")


def numbered(nodes: Mapping[Op, NetworkNode[Op]]) -> dict[Op, NetworkNode[Op]]:
    """Return the operators with those that feed them and are not among them, of which nothing is known."""
    producers = (feed.producer for node in nodes.values() for feed in node.feeds or ())
    unseen: dict[Op, NetworkNode[Op]] = {
        one: NetworkNode("unseen", None) for one in producers if one is not None and one not in nodes
    }
    return {**nodes, **unseen}


def components(producers: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph, each ascending, after all that feed it.

    References
    ----------
    R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1 (1972).

    >>> list(components([[1], [2], [1], [0]]))
    [[1, 2], [0], [3]]
    """
    reached: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: dict[int, None] = {}
    for start in range(len(producers)):
        path = [] if start in reached else [(start, iter(producers[start]))]
        while path:
            member, rest = path[-1]
            if member not in reached:
                reached[member] = low[member] = len(reached)
                open_[member] = None
            for producer in rest:
                if producer not in reached:
                    path.append((producer, iter(producers[producer])))
                    break
                if producer in open_:
                    low[member] = min(low[member], reached[producer])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[member])
                if low[member] == reached[member]:
                    circle = [open_.popitem()[0]]
                    while circle[-1] != member:
                        circle.append(open_.popitem()[0])
                    yield sorted(circle)


# An operator stands out when it makes the error this many times larger.
JUMP = 5.0
# A smaller share of the limit is no jump: from there the limit is reached by further growth of JUMP * JUMP at least,
# which that operator did not make.
_FLOOR = 1 / (JUMP * JUMP)
# From this error on, relative to the tensor, what an operator makes of it says nothing of the operator.
_LOST = 0.1
# The score of a tensor with a measured limit is level but for the mistake: where all that feeds an operator is within
# its limits, so much growth beyond the limit is its own.
_SCORE_JUMP = 2.0
# A softmax makes of a small error of scores that a mask dominates a large one of its own.
_STEEP_JUMP = 1000.0
# Below this, relative to the tensor, is what another order of sums makes of correct values.
_NOISE = {"float64": 1e-14, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}
# What feeds an operator through many that were not compared: so many with the largest errors are kept.
_MOST_FEEDS = 8

_RATIOS = ("golden_rmse_ratio", "golden_normal_rmse_ratio")
_DISTANCE, _COSINE = "relative_euclidean_distance", "cosine_similarity"


def drift_of(record: Record) -> Drift | None:
    """Return how far a pair is apart; ``None`` where its finite numbers do not show it."""
    comparison, statistics = record.comparison, record.statistics
    if comparison is not None:
        is_equal, mismatch = comparison.equal, comparison.nonfinite.mismatch
    elif any(one.message.code == "statistics_dominated" for one in record.verdict.findings):
        return None
    elif statistics is not None and statistics.intervals:
        is_equal, mismatch = bool(statistics.equal_bits), int(statistics.at_least.get("nonfinite_mismatch", 0))
    else:
        return None
    if mismatch:
        return None
    if is_equal and not record.fails:
        return Drift(0.0, 1.0)
    distance = _distance(record)
    drift = _against_golden(record, distance)
    if drift is None or not drift.limit:
        drift = distance
    if (drift is None or not drift.limit) and (angle := _angle(record)) is not None and angle.limit:
        drift = angle
    if drift is not None and record.remarks and "zero_in_exact_arithmetic" in {one.code for one in record.remarks}:
        drift = drift._replace(noise=inf)
    if drift is not None and drift.limit is not None and record.fails and drift.error <= drift.limit:
        return drift._replace(fails_otherwise=True)
    return drift


def growth(output: Drift, feeds: Iterable[Drift]) -> float | None:
    """Return how many times larger an error is than the largest of what feeds it; ``None`` if a limit is unknown.

    Counted as an error and as a share of the limit, and the smaller number is returned: neither a looser nor a tighter
    limit than that of the operator before makes a jump. Where all limits were measured, it is the score that grows:
    what rounding does is known of each tensor, and an operator may well make errors larger, or smaller.
    """
    known = list(feeds)
    if output.base:
        scores = [one.score for one in known if one.score is not None]
        if known and len(scores) == len(known):
            return _over(output.error / output.base, max(scores))
    if not known or (share := output.share) is None:
        return None
    largest_error = largest_share = 0.0
    for one in known:
        if one.limit is None:
            return None
        fed = one.error / one.limit
        # How much of the limit by which it fails a tensor takes up is unknown; it is all of it at least.
        fed = 1.0 if one.fails_otherwise and fed < 1.0 else fed
        largest_error = one.error if one.error > largest_error else largest_error
        largest_share = fed if fed > largest_share else largest_share
    return min(_over(output.error, largest_error), _over(share, largest_share))


@dataclass(frozen=True, slots=True)
class Grown(Generic[Op]):
    """How the error of an operator's outputs came about.

    `drift` is the error of its outputs, `factor` how many times larger that is than what feeds it, ``None`` if that is
    unknown; `amplification` is the same of the error alone, whatever its limits. `start` is the share of the limit
    where the error's path begins: backwards from here always to the largest error. `steps` operators are on that path;
    `step` is the largest growth on it that counts, and `at` where. An error that grew `jump` times is the operator's
    own; `is_jump` says that it did, to a size that counts. `origins` are the jumps that it may come from: its own, or
    those of feeds that explain it. `fed` is the largest error of what feeds it.
    """

    drift: Drift | None = None
    factor: float | None = None
    amplification: float | None = None
    start: float = 0.0
    steps: int = 0
    step: float = 0.0
    at: Op | None = None
    is_jump: bool = False
    origins: tuple[Op, ...] = ()
    jump: float = JUMP
    fed: float = 0.0

    @property
    def is_small(self) -> bool:
        """Whether it is known that the error did not grow enough to be the operator's own."""
        return self.factor is not None and self.factor < self.jump

    @property
    def is_large(self) -> bool:
        """Whether it is known that it did; of an input that is mostly wrong an operator may make anything."""
        return self.factor is not None and self.factor >= self.jump and self.fed < _LOST


def growth_by_graph(nodes: Mapping[Op, NetworkNode[Op]]) -> dict[Op, Grown[Op]]:
    """Return how the error of each operator that was compared grew from the nearest compared ones that feed it."""
    known = numbered(nodes)
    names, listed = list(known), list(known.values())
    numbers = {name: number for number, name in enumerate(names)}
    producers = [[numbers[feed.producer] for feed in node.feeds or () if feed.producer is not None] for node in listed]
    found: dict[Op, Grown[Op]] = {}
    # What is nearest above an operator that was not compared.
    above: list[_Feeds[Op]] = [_Feeds() for _ in listed]
    for circle in components(producers):
        is_circle = len(circle) > 1 or circle[0] in producers[circle[0]]
        for member in circle:
            node = listed[member]
            feeds: _Feeds[Op] = _Feeds(is_whole=not is_circle)
            for feed in () if is_circle else node.feeds or ():
                producer = None if feed.producer is None else numbers[feed.producer]
                if feed.status is not None:
                    feeds.add(feed.producer, feed.drift)
                elif producer is not None and listed[producer].is_compared:
                    feeds.add(feed.producer, listed[producer].drift)
                elif producer is not None:
                    feeds.join(above[producer])
            if node.is_compared:
                found[names[member]] = _grown(names[member], node.drift, feeds, found, is_steep=node.is_steep)
            else:
                feeds.is_whole &= node.status != "unseen" and node.feeds is not None
                above[member] = feeds.largest()
    return found


def growth_by_order(nodes: Mapping[Op, NetworkNode[Op]]) -> dict[Op, Grown[Op]]:
    """Return how the error of each operator grew over that of all that ran before, where no graph has its inputs."""
    found: dict[Op, Grown[Op]] = {}
    unexplained: set[Op] = set()
    before: _Feeds[Op] = _Feeds()
    for op, node in nodes.items():
        if node.is_compared:
            own: _Feeds[Op] = _Feeds()
            for feed in node.feeds or ():
                if not feed.is_inside:
                    own.add(feed.producer, feed.drift)
            if own.drifts:
                given = max((drift for _, drift in own.drifts), key=lambda drift: drift.share or 0.0)
                if _grown(op, given, before, found).is_jump:
                    unexplained.add(op)
                inside = [one.producer for one in node.feeds or () if one.is_inside and one.producer is not None]
                for one in inside if unexplained.isdisjoint(inside) else ():
                    own.add(one, nodes[one].drift)
            found[op] = _grown(op, node.drift, own if own.drifts else before, found)
            before.add(op, node.drift)
            before = before.largest()
        else:
            before.is_whole &= node.status != "unseen"
    return found


@dataclass(slots=True)
class _Feeds(Generic[Op]):
    """The compared tensors that feed an operator; not `is_whole` if there may be others."""

    drifts: list[tuple[Op | None, Drift]] = field(default_factory=list)
    is_whole: bool = True

    def add(self, producer: Op | None, drift: Drift | None) -> None:
        if drift is None:
            self.is_whole = False
        else:
            self.drifts.append((producer, drift))

    def join(self, others: _Feeds[Op]) -> None:
        self.drifts += others.drifts
        self.is_whole &= others.is_whole

    def largest(self) -> _Feeds[Op]:
        """Keep those that may be the largest error or the largest share of a limit."""
        drifts = list(dict.fromkeys(self.drifts))
        errors = [-drift.error for _, drift in drifts]
        shares = [0.0 if drift.limit is None else -drift.error / drift.limit for _, drift in drifts]
        by_error = sorted(range(len(drifts)), key=errors.__getitem__)
        by_share = sorted(by_error, key=shares.__getitem__)
        kept = dict.fromkeys([*by_share[:_MOST_FEEDS], *by_error[:1]])
        return _Feeds([drifts[number] for number in kept], self.is_whole)


def _grown(
    op: Op, drift: Drift | None, feeds: _Feeds[Op], found: Mapping[Op, Grown[Op]], *, is_steep: bool = False
) -> Grown[Op]:
    if drift is None:
        return Grown()
    errors = [one.error for _, one in feeds.drifts]
    ratio = drift.error / max(errors) if errors and max(errors) > 0 else None
    amplification = ratio if ratio is not None and isfinite(ratio) else None
    limited = [(producer, one, one.error / one.limit) for producer, one in feeds.drifts if one.limit is not None]
    shares = [share for _, _, share in limited]
    factor = growth(drift, [one for _, one, _ in limited])
    share = drift.share or 0.0
    jump = _STEEP_JUMP if is_steep else _SCORE_JUMP if drift.base and all(one <= 1 for one in shares) else JUMP
    # What was not measured may be larger than what was.
    if factor is None or (factor >= jump and not (feeds.is_whole and len(limited) == len(feeds.drifts))):
        return Grown(drift, None, amplification, start=share)
    counts = drift.error > drift.noise and share >= _FLOOR
    is_jump = counts and factor >= jump
    producer, _, nearest = limited[shares.index(max(shares))]
    path: Grown[Op] = Grown() if producer is None else found.get(producer) or Grown()
    start = path.start if path.drift is not None else nearest
    step, at = (factor, op) if counts and factor >= path.step else (path.step, path.at)
    origins: tuple[Op, ...] = (op,) if is_jump else ()
    if not is_jump and counts:
        explaining = [one for one, _, fed in limited if one is not None and fed * JUMP > share]
        origins = tuple(dict.fromkeys(jump for one in explaining if one in found for jump in found[one].origins))
    if drift.fails_otherwise and (is_jump or not origins):
        # Nothing before it explains a failure by another limit.
        return Grown(drift, None, amplification, start=share, is_jump=is_jump, origins=origins)
    steps, origins = path.steps + 1, origins[:_MOST_FEEDS]
    return Grown(drift, factor, amplification, start, steps, step, at, is_jump, origins, jump, max(errors, default=0.0))


def _over(number: float, largest: float) -> float:
    if largest > 0:
        return number / largest
    return inf if number > 0 else 1.0


def _distance(record: Record) -> Drift | None:
    value = record.judged_value(_DISTANCE)
    if not isinstance(value, (int, float)) or not isfinite(value):
        return None
    check = _check(record, _DISTANCE)
    # What rounding does to the distance, if its limit is a limits file's.
    limit, base = _bound(check) or None, check.base if check else None
    # Harmless runs reach any score that is within the limit.
    noise = limit if base and limit else _NOISE.get(record.judged_as, 0.0)
    return Drift(float(value), limit, noise, base=base)


def _angle(record: Record) -> Drift | None:
    value, limit = record.judged_value(_COSINE), _bound(_check(record, _COSINE))
    if not isinstance(value, (int, float)) or not isfinite(value) or limit is None:
        return None
    error, bound = (sqrt(max(2 * (1 - cosine), 0)) for cosine in (value, limit))
    return Drift(error, bound or None, _NOISE.get(record.judged_as, 0.0))


def _against_golden(record: Record, distance: Drift | None) -> Drift | None:
    """Return the distance with the limit that a ratio of errors against golden sets; one run's error is rounding."""
    if distance is None or not distance.error:
        return None
    for check in record.checks:
        if check.metric in _RATIOS and check.level == "fail" and (limit := _bound(check)):
            value = record.judged_value(check.metric)
            if isinstance(value, (int, float)) and value > 0:
                rounding = distance.error / value
                return Drift(distance.error, rounding * limit, rounding)
    return None


def _check(record: Record, metric: str) -> Check | None:
    """Return how a metric met the limit beyond which it fails."""
    for check in record.checks:
        if check.metric == metric and check.level == "fail":
            return check
    return None


def _bound(check: Check | None) -> float | None:
    """Return the bound of a limit; one that leaves no room is none."""
    return None if check is None or check.limit is None or not isfinite(check.limit) else check.limit
