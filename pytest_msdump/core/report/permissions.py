"""Which permissions let pairs pass that the profile fails: how many, and how many times looser they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.limits.permissions import BEYOND, LOOSER, PERMITTED, usual_profile
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.text import ENGLISH, Message, Phrases

_SHOWN = 5
_FACTORS = {LOOSER: "permits_looser", BEYOND: "permits_beyond"}


class Permission(NamedTuple):
    """A rule, a known drift, a limits file or golden that lets `pairs` pass; the largest `factor` is of this `code`.

    It is 0 where the profile asks for equal values.
    """

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
