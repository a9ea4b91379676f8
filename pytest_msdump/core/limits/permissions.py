"""What a person permits: pairs that pass though the profile fails them, by what, and how many times looser that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import LEAST_ROOT, PROFILES, SQUARED_METRICS
from pytest_msdump.core.model.comparison import Comparison, Finding, Limit, Limits
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.text import ENGLISH, Message, Parameter, Phrases

DEFAULT, LOGITS = "default", "generation"
# Codes of the note that a pair passes by a permission: with a factor, of the limit or of what was measured, or without.
LOOSER, BEYOND, PERMITTED = "permitted_looser", "permitted_beyond", "permitted"


def profile_row(profile: str, dtype: str) -> Mapping[str, float]:
    """Return the profile's row. A float type that it does not name is judged like the coarsest that it does."""
    rows = PROFILES[profile].rows
    kind = DTYPES[dtype].kind if dtype in DTYPES else "float"
    row = kind if kind in rows else dtype
    if row not in rows:
        row = max((name for name in rows if name in DTYPES), key=lambda name: DTYPES[name].coarseness or 0)
    return rows[row]


def usual_profile(profile: str) -> str:
    """Return the profile that permissions are held against; what is judged by golden alone is one itself."""
    rows = PROFILES[profile].rows.values()
    return DEFAULT if any(METRICS[metric].golden for row in rows for metric in row) else profile


def times_looser(metric: str, bound: float, usual: float) -> float:
    """Return how many times looser a bound of a metric is than another; infinite where that asks for the best value.

    >>> round(times_looser("cosine_similarity", 0.99, 0.999), 6)
    10.0
    """
    if METRICS[metric].direction == "high":
        bound, usual = METRICS[metric].most - bound, METRICS[metric].most - usual
    return bound / usual if usual > 0 else math.inf


def looser_than_default(metric: str, bound: float, dtype: str) -> float:
    """Return how many times looser a bound is than that of `default` for a data type; 0 where that has none.

    Metrics of logits are held against the profile `generation`.

    >>> round(looser_than_default("relative_euclidean_distance", 0.25, "bfloat16"), 6)
    5.0
    """
    usual = profile_row(LOGITS if METRICS[metric].of else DEFAULT, dtype).get(metric)
    return 0.0 if usual is None else times_looser(metric, bound, usual)


def linear(metric: str, value: float) -> float:
    """Return what grows like an error: the value of a metric, or its square root.

    >>> linear("softmax_kl", 0.01), linear("normalized_max_error", 0.01)
    (0.1, 0.01)
    """
    return math.sqrt(value) if metric in SQUARED_METRICS else value


def squared(metric: str, value: float) -> float:
    """Return the value of a metric of which `linear` is this."""
    return value**2 if metric in SQUARED_METRICS else value


def least_base(metric: str, unit: float) -> float:
    """Return the least that rounding does: one unit, or what is left of 0 where KL is computed."""
    return max(unit, LEAST_ROOT) if metric in SQUARED_METRICS else unit


def permitted(comparison: Comparison, limits: Limits) -> Iterator[Finding]:
    """Yield a note for each permission without which the pair would miss a limit of the profile."""
    notes: dict[str, tuple[float, Finding]] = {}
    for usual in limits.usual if not comparison.equal else ():
        measured, _ = comparison.judged(usual.metric)
        value = measured.value if measured and measured.applies else None
        if not isinstance(value, int | float) or meets(value, usual):
            continue
        fails = [one for one in limits.by_metric.get(usual.metric, ()) if one.level == "fail"]
        by = fails[0] if fails else _instead(limits)
        if by is None:
            continue
        factor = times_looser(usual.metric, by.bound if fails else value, usual.bound)
        code = PERMITTED if not math.isfinite(factor) else LOOSER if fails else BEYOND
        name = by.rule.rpartition(": ")[0] if by.base is not None else by.rule
        parameters: dict[str, Parameter] = {"by": name, "metric": usual.metric, "value": value, "limit": usual.bound}
        parameters |= {"rule": usual.rule} | ({} if code == PERMITTED else {"factor": factor})
        finding = Finding("note", Message(code, parameters), usual.metric, value, usual.bound, by.rule)
        if name not in notes or factor > notes[name][0]:
            notes[name] = factor, finding
    return (finding for _, finding in notes.values())


def meets(value: float, limit: Limit) -> bool:
    """Whether a number is within a limit; exactly on it is within, NaN never is."""
    return value >= limit.bound if METRICS[limit.metric].direction == "high" else value <= limit.bound


def _instead(limits: Limits) -> Limit | None:
    """Return the limit in whose favour one of the profile was left out: of a limits file, or of the golden rule."""
    own = (one for one in limits.limits if one.base is not None)
    return next(own, next((one for one in limits.limits if METRICS[one.metric].golden), None))


_SHOWN = 5
_FACTORS = {LOOSER: "permits_looser", BEYOND: "permits_beyond"}


class Permission(NamedTuple):
    """A rule, a known drift, a limits file or golden that lets `pairs` pass; the largest `factor` is of this `code`."""

    by: str
    pairs: int
    factor: float
    code: str
    profile: str

    @property
    def message(self) -> Message:
        """The sentence on it."""
        factor = Message(_FACTORS[self.code], {"factor": self.factor}) if self.code in _FACTORS else None
        return Message("permits", {"by": self.by, "n": self.pairs, "profile": self.profile, "factor": factor})


def permissions_of(report: Report) -> list[Permission]:
    """Return the permissions that notes of records name, the one of most pairs first."""
    profile = usual_profile(report.profile) if report.profile in PROFILES else report.profile
    found: dict[str, Permission] = {}
    for record in report.records:
        for finding in record.verdict.findings:
            code, parameters = finding.message.code, finding.message.parameters
            if code not in (LOOSER, BEYOND, PERMITTED):
                continue
            by, factor = str(parameters.get("by")), parameters.get("factor")
            known = found.get(by, Permission(by, 0, 0.0, PERMITTED, profile))
            if isinstance(factor, int | float) and factor > known.factor:
                known = known._replace(factor=float(factor), code=code)
            found[by] = known._replace(pairs=known.pairs + 1)
    return sorted(found.values(), key=lambda one: -one.pairs)


def permission_sentences(report: Report, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield a sentence on each permission, and on the rest of many."""
    found = permissions_of(report)
    for one in found[:_SHOWN]:
        yield say.of(one.message)
    if rest := found[_SHOWN:]:
        yield say("more_permits", n=len(rest), pairs=sum(one.pairs for one in rest))
