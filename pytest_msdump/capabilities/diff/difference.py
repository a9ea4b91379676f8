"""Two results against each other: tensor by tensor what became better and worse, and whether anything became worse.

Nothing that was not judged again became better: a run that did not end fixes nothing, and neither does a looser limit.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.capabilities.diff.saved import Result, Tensor
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.forms import by_name, list_of, nullable, table
from pytest_msdump.core.forms.values import COUNT, FLAG, MESSAGE, TEXT
from pytest_msdump.core.model.comparison import OUTCOMES
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.report.coverage import percent
from pytest_msdump.core.text import Message, plain

# What a tensor may have become, in the order in which it is shown; the first four are worse.
BROKEN, WORSE, NEW_FAILING, NOT_JUDGED = "broken", "worse", "new_failing", "not_judged"
LOOSENED, FIXED, BETTER, NEW, GONE = "loosened", "fixed", "better", "new", "gone"
UNCHANGED = "unchanged"
KINDS = (BROKEN, WORSE, NEW_FAILING, NOT_JUDGED, LOOSENED, FIXED, BETTER, NEW, GONE)
_WORSENED = frozenset(KINDS[:4])
_SEVERITY = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_ROUNDED = 1e-9
# They say how far a pair is apart whatever the size of its values; below so many rounding units there is only rounding.
_ROUNDINGS = 4
_RELATIVE = ("relative_euclidean_distance", "normalized_max_error")
_ROW = table(
    dict,
    {
        **dict.fromkeys(("kind", "left", "right", "at"), TEXT),
        **dict.fromkeys(("was", "before", "after"), nullable(TEXT)),
        "why": nullable(MESSAGE),
    },
)
_FORM = table(
    dict,
    {
        "before": TEXT,
        "worse": FLAG,
        "counts": by_name(dict.fromkeys((*KINDS, UNCHANGED), COUNT)),
        "reasons": list_of(MESSAGE),
        "tensors": list_of(_ROW),
    },
)


@dataclass(frozen=True)
class Difference:
    """What lies between two results, as plain values: also a part of a report.

    `before` is the name of the earlier result, `counts` how many tensors became what, `reasons` what became worse of
    the whole, `tensors` a row for each that is not as before, the worst first.
    """

    before: str
    worse: bool
    counts: Mapping[str, int]
    reasons: Sequence[Mapping[str, Any]]
    tensors: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        """Refuse what another program may have written."""
        _FORM.read(dict(vars(self)), "diff")


def difference(before: Result, after: Result, factor: float | None = None) -> Difference:
    """Compare two results; with a `factor`, numbers within their limits that grew so many times are worse as well."""
    met = list(_met(before.tensors, after.tensors))
    same_profile = before.profile == after.profile
    at = _varying(one for pair in met for one in pair if one is not None)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for old, new in met:
        kind, why = _became(old, new, complete=after.complete, same_profile=same_profile, factor=factor)
        found[kind].append({} if kind == UNCHANGED else _row(kind, old, new, why, at))
    meet = any(old is not None and new is not None for old, new in met)
    reasons = [one.entry for one in _reasons(before, after, meet=meet)]
    return Difference(
        before=before.name,
        worse=bool(reasons) or not _WORSENED.isdisjoint(found),
        counts={kind: len(found[kind]) for kind in (*KINDS, UNCHANGED)},
        reasons=reasons,
        tensors=[row for kind in KINDS for row in found[kind]],
    )


def _row(kind: str, old: Tensor | None, new: Tensor | None, why: Message | None, at: Sequence[str]) -> dict[str, Any]:
    (shown, *_) = filter(None, (new, old))
    return {
        "kind": kind,
        "left": shown.left,
        "right": shown.right,
        "at": shown.at.shown(at),
        "was": old.left if old is not None and new is not None and old.left != new.left else None,
        "before": None if old is None else old.outcome,
        "after": None if new is None else new.outcome,
        "why": None if why is None else why.entry,
    }


def _reasons(before: Result, after: Result, *, meet: bool) -> Iterator[Message]:
    """Yield what became worse of the whole."""
    if not meet:
        yield Message("diff_nothing_meets")
    if not after.complete:
        yield Message("diff_not_complete")
    if after.coverage < before.coverage - _ROUNDED:
        shares = {"before": percent(before.coverage), "after": percent(after.coverage)}
        yield Message("diff_coverage_fell", shares)
    if after.complete and after.problems and not before.problems:
        yield Message("diff_coverage_fails", {"text": after.problems[0]})


def _met(before: Sequence[Tensor], after: Sequence[Tensor]) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Yield tensors of both results that are the same, in the order of the later one; then those that are gone.

    A left tensor that has another name is known by the right one that it meets, where it alone does.
    """
    old = _by_key(before, lambda one: (one.left, one.at, one.right, one.right_at, one.piece))
    new = _by_key(after, lambda one: (one.left, one.at, one.right, one.right_at, one.piece))
    partner = {id(one): old[key] for key, one in new.items() if key in old}
    taken = set(map(id, partner.values()))
    left_over = [[one for one in side if id(one) not in known] for side, known in ((before, taken), (after, partner))]
    olds, news = (_alone(side, lambda one: (one.right, one.right_at, one.at, one.piece)) for side in left_over)
    partner |= {id(one): olds[key] for key, one in news.items() if key in olds}
    taken = set(map(id, partner.values()))
    yield from ((partner.get(id(one)), one) for one in after)
    yield from ((one, None) for one in before if id(one) not in taken)


def _by_key(tensors: Iterable[Tensor], key: Callable[[Tensor], Hashable]) -> dict[Hashable, Tensor]:
    """Return tensors by a key; equal ones are counted, in their order."""
    seen: Counter[Hashable] = Counter()
    found: dict[Hashable, Tensor] = {}
    for one in tensors:
        name = key(one)
        found[name, seen[name]] = one
        seen[name] += 1
    return found


def _alone(tensors: Iterable[Tensor], key: Callable[[Tensor], Hashable]) -> dict[Hashable, Tensor]:
    """Return tensors by a key that no other one has."""
    several: defaultdict[Hashable, list[Tensor]] = defaultdict(list)
    for one in tensors:
        several[key(one)].append(one)
    return {name: those[0] for name, those in several.items() if len(those) == 1}


def _varying(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    values = list(zip(*{one.at for one in tensors}, strict=True))
    return tuple(name for name, those in zip(COORDINATES, values, strict=False) if len(set(those)) > 1)


def _became(
    old: Tensor | None, new: Tensor | None, *, complete: bool, same_profile: bool, factor: float | None
) -> tuple[str, Message | None]:
    """Return what a tensor became, and why."""
    if new is None:
        return GONE, None
    if new.outcome == "not_run":
        return (UNCHANGED if old is not None and old.outcome == "not_run" else NOT_JUDGED), None
    if old is None or old.outcome == "not_run":
        return (NEW_FAILING, _beyond(None, new)) if new.fails else (NEW, None)
    if new.fails and not old.fails:
        return BROKEN, _tightened(old, new) or _beyond(old, new)
    if old.fails and not new.fails:
        if why := _loosened(old, new, same_profile):
            return LOOSENED, why
        # What else a run would have shown that did not end is not known.
        return (FIXED, _beyond(new, old, turned=True)) if complete else (NOT_JUDGED, Message("diff_run_not_ended"))
    worse = _SEVERITY[new.outcome] - _SEVERITY[old.outcome]
    if worse > 0:
        return WORSE, _beyond(old, new)
    if not new.fails and (crossed := _crossed(old, new)) is not None:
        return WORSE, crossed
    if worse < 0:
        why = None if new.fails else _loosened(old, new, same_profile, level="warn")
        return (LOOSENED, why) if why else (BETTER, None)
    return _by_factor(old, new, factor)


def _by_factor(old: Tensor, new: Tensor, factor: float | None) -> tuple[str, Message | None]:
    if factor is None:
        return UNCHANGED, None
    ratios = {metric: _ratio(metric, old, new) for metric in _comparable(old, new)}
    metric = max(ratios, key=lambda one: ratios[one], default="")
    if metric and ratios[metric] >= factor:
        return WORSE, _change("diff_changed", metric, old, new)
    # Of the one that fell least: all of them did.
    if metric and ratios[metric] <= 1 / factor:
        return BETTER, _change("diff_changed", metric, old, new)
    return UNCHANGED, None


def _comparable(old: Tensor, new: Tensor) -> list[str]:
    shared = [metric for metric in _RELATIVE if metric in old.numbers and metric in new.numbers]
    if shared:
        return shared
    limited = {metric for one in (old, new) for metric, _ in one.limits}
    known = limited & old.numbers.keys() & new.numbers.keys()
    return sorted(metric for metric in known if METRICS[metric].direction == "low")


def _ratio(metric: str, old: Tensor, new: Tensor) -> float:
    """Return how many times larger an error is; rounding alone makes none larger."""
    least = _ROUNDINGS * rounding_unit(old.judged_as, new.judged_as) if metric in _RELATIVE else 0.0
    before, after = max(old.numbers[metric], least), max(new.numbers[metric], least)
    if math.isnan(before) or math.isnan(after):
        return 1.0 if math.isnan(before) else math.inf
    if before == after:
        return 1.0
    return after / before if before else math.inf


def _beyond(old: Tensor | None, new: Tensor, *, turned: bool = False) -> Message | None:
    """Say by which number a tensor fails, the farthest beyond its limit, and what it was; `turned`: it failed so."""
    failed = [metric for metric in new.failed if metric in new.numbers and (metric, "fail") in new.limits]
    failed = failed or [metric for metric, level in new.limits if level == "warn" and metric in new.numbers]
    if not failed:
        return None
    metric = max(sorted(failed), key=lambda one: _share(one, new))
    limit = new.limits.get((metric, "fail"), new.limits.get((metric, "warn"), math.nan))
    pair = (new, old) if turned else (old, new)
    return _change("diff_number", metric, *pair, limit=_short(limit))


def _share(metric: str, one: Tensor) -> float:
    """Return how many times its limit a number is."""
    value, limit = one.numbers[metric], one.limits.get((metric, "fail"), 0.0)
    if METRICS[metric].direction == "high":
        value, limit = METRICS[metric].most - value, METRICS[metric].most - limit
    if math.isnan(value) or (not math.isfinite(METRICS[metric].most) and METRICS[metric].direction == "high"):
        return math.inf
    return value / limit if limit > 0 else math.inf


def _change(code: str, metric: str, old: Tensor | None, new: Tensor | None, **more: str) -> Message:
    values = ["–" if one is None else _short(one.numbers.get(metric)) for one in (old, new)]
    return Message(code, {"metric": metric, "before": values[0], "after": values[1], **more})


def _short(value: float | None) -> str:
    # A cosine of 0.9996 is not 1.
    return "–" if value is None else plain(value, 6 if 0.9 < value < 1 else 3)


def _tightened(old: Tensor, new: Tensor) -> Message | None:
    """Say that a tensor fails by a stricter limit alone; ``None`` where it fails by what was asked before, too."""
    if new.otherwise or not new.failed:
        return None
    known = {metric: old.limits.get((metric, "fail")) for metric in new.failed}
    if not all(bound is None or new.within(metric, bound) for metric, bound in known.items()):
        return None
    metric = min(new.failed)
    limits = {"limit": _short(new.limits[metric, "fail"]), "bound": _short(known[metric])}
    return _change("diff_tightened", metric, old, new, **limits)


def _crossed(old: Tensor, new: Tensor) -> Message | None:
    """Say that a number is beyond the limit that it had, and passes by a looser one."""
    for (metric, level), bound in old.limits.items():
        if level == "fail" and new.within(metric, bound) is False and old.within(metric, bound):
            now = _short(new.limits.get((metric, "fail")))
            return _change("diff_crossed", metric, old, new, limit=_short(bound), bound=now)
    return None


def _loosened(old: Tensor, new: Tensor, same_profile: bool, *, level: str = "fail") -> Message | None:
    """Say why a tensor that passes now is not fixed; ``None`` where it meets what it was held to."""
    is_excused = new.permitted and not old.permitted
    for (metric, of), bound in old.limits.items():
        now = new.limits.get((metric, level))
        found = new.within(metric, bound) if of == level else True
        if found is False or (found is None and metric in old.failed):
            if now != bound:
                return _change("diff_loosened", metric, old, new, limit=_short(bound), bound=_short(now))
            is_excused = True
    if is_excused:
        return Message("diff_permitted")
    if old.otherwise and (old.nan != new.nan or not same_profile):
        return Message("diff_judged_otherwise")
    if old.elements and new.elements is not None and new.elements < old.elements:
        return Message("diff_fewer", {"n": new.elements, "total": old.elements})
    return None
