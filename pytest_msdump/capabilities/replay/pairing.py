"""Suggestions for tensors without a partner where the reference is at hand: what it makes of the left's own values."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.replay.forcing import GRADIENTS, ForcedPlace, Forcing
from pytest_msdump.capabilities.replay.reference_model import Reference
from pytest_msdump.capabilities.replay.torch_forcing import run_as_it_is
from pytest_msdump.capabilities.suggest.fingerprint import Alignment, best_alignment, distances, fingerprint
from pytest_msdump.capabilities.suggest.partners import Fit, Suggested, Suggestion, suggest_partners, with_suggestions
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.kinds import kind_of
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import Pair, Transform

# Fingerprints further apart are of different tensors; of the others so many are compared element by element.
_ALIKE, _MOST_TRIED = 0.1, 4
# Another tensor may be the partner unless it fits so many times worse; what rounding alone does is no difference.
_CLEARLY, _ROUNDING = 10.0, 1e-6
# Of a wrong module, whose partner nothing else shows.
_NEARER = 2.0


def suggest_with(reference: Reference | None, plan: Plan, *, watch: Watch = unwatched) -> Suggested:
    """Return `causes.suggest_partners` of a plan; of PyTorch's reference the modules have tried the left's values."""
    found = suggest_partners(plan, watch=watch)
    if reference is None or not reference.is_torch or not found.alone:
        return found
    with tempfile.TemporaryDirectory(prefix="msdump-replay-") as folder:
        search = _ReplaySearch(plan, found, Path(folder))
        run_as_it_is(reference.model, reference.runner(plan.left, plan.right), search)
    if not search.has_met:
        raise ConfigError(
            f"{reference.source}: the right side names no module that this model called; give its recording as RIGHT"
        )
    return search.suggested


def suggested(report: Report, plan: Plan, reference: Reference | None, watch: Watch) -> Report:
    """Return the report with partners for tensors that have none."""
    return with_suggestions(report, suggest_with(reference, plan, watch=watch))


class _ReplaySearch(Forcing):
    """Finds partners while the reference runs; what has one from the start keeps it."""

    def __init__(self, plan: Plan, found: Suggested, folder: Path) -> None:
        super().__init__(plan.pairing.pairs, folder)
        self.has_met = False
        self._offline = found
        self._formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
        copies = {*found.copies}
        against = {one.right for one in found.suggestions if one.how == "against"}
        self._alone = {
            ForcedPlace(ref.key.op.label, ref.key.slot, ref.key.op.at.occurrence or 0): number
            for number, ref in enumerate(found.right)
            if number in {*found.alone} - copies - against
            and ref.key.io == "output"
            and not ref.key.op.label.endswith(GRADIENTS)
        }
        # What structure, names and recorded values say, by the right one.
        self._clear = {one.right: one.fits[0].left for one in found.suggestions if one.is_clear}
        self._by_size: defaultdict[int, list[int]] = defaultdict(list)
        for number, one in found.free.items():
            if found.left[number].key.io == "output":
                self._by_size[one.size].append(number)
        self._chosen: dict[int, Suggestion] = {}
        self._taken: set[int] = set()

    @property
    def suggested(self) -> Suggested:
        """The suggestions, those of the run in the place of others."""
        kept = [self._chosen.get(one.right, one) for one in self._offline.suggestions]
        new = [one for number, one in self._chosen.items() if number not in {one.right for one in kept}]
        held = {fit.left: one.right for one in self._chosen.values() if one.is_clear for fit in one.fits}
        suggestions = []
        for one in (*kept, *new):
            fits = tuple(fit for fit in one.fits if held.get(fit.left, one.right) == one.right)
            if fits:
                suggestions.append(replace(one, fits=fits))
        clear = {one.right for one in suggestions if one.is_clear}
        doubtful = self._offline.doubtful - clear
        doubtful |= {one.right for one in suggestions if one.how == "against"}
        ordered = tuple(sorted(suggestions, key=lambda one: one.right))
        return replace(self._offline, suggestions=ordered, doubtful=doubtful)

    def wants(self, place: ForcedPlace) -> bool:
        """Whether this place has a partner, or is to get one."""
        return place in self._alone or super().wants(place)

    def keep(self, place: ForcedPlace, own: npt.NDArray[Any]) -> None:
        """Look for the partner of what the reference gave."""
        self.has_met = True
        number = self._alone.get(place)
        if number is None:
            return
        suggestion = self._best(number, own)
        if suggestion is None:
            return
        self._chosen[number] = suggestion
        if suggestion.is_clear:
            fit = suggestion.fits[0]
            self._taken.add(fit.left)
            refs = self._offline.left[fit.left], self._offline.right[number]
            pair = Pair(*refs, "mapped", transform=fit.how.transform)
            self.add(place, pair)

    def _best(self, number: int, own: npt.NDArray[Any]) -> Suggestion | None:
        """Return the partner of a right tensor, or those that it may be."""
        free = [one for one in self._by_size[own.size] if one not in self._taken]
        by_structure = self._clear.get(number)
        tried = self._fits(number, own, dict.fromkeys([*self._alike(own, free), by_structure]))
        close = [one for one in tried if tried[one].is_close]
        least = min((_apart(tried[one]) for one in close), default=0.0)
        best = [one for one in close if _apart(tried[one]) <= _CLEARLY * least]
        if by_structure in tried and (by_structure in best or not best):
            return self._suggestion(number, [by_structure], tried)
        if best:
            likest = max(best, key=lambda one: self._likeness(one, number))
            if by_structure in tried and self._shared(by_structure, number) > self._shared(likest, number):
                # Names say one, the reference another: a port that has mixed them up.
                return replace(self._suggestion(number, [by_structure, likest], tried, is_clear=False), how="against")
            return self._suggestion(number, [likest], tried)
        # Nothing fits: the module is wrong, and the one of its kind that is nearest may be it.
        tried = self._fits(number, own, self._of_its_kind(number, free))
        nearest = sorted(tried, key=lambda one: tried[one].apart)
        is_clear = bool(nearest) and all(tried[nearest[0]].apart * _NEARER < tried[one].apart for one in nearest[1:])
        return self._suggestion(number, nearest[:1] if is_clear else nearest, tried, is_clear) if nearest else None

    def _alike(self, own: npt.NDArray[Any], free: list[int]) -> list[int]:
        """Return the left tensors that are most like it by their values."""
        if not free:
            return []
        made = fingerprint(ArrayView(own))
        if not made.is_distinctive:
            return []
        apart = distances(made, [self._offline.free[one] for one in free])
        alike = sorted((float(far), one) for far, one in zip(apart, free, strict=True) if far <= _ALIKE)
        return [one for _, one in alike[:_MOST_TRIED]]

    def _fits(self, number: int, own: npt.NDArray[Any], lefts: Iterable[int | None]) -> dict[int, Alignment]:
        found: dict[int, Alignment] = {}
        for one in lefts:
            if one is None or one in self._taken:
                continue
            refs = self._offline.left[one], self._offline.right[number]
            alignment = best_alignment(*refs, self._formats, ArrayView(np.ascontiguousarray(own)))
            if alignment is not None:
                found[one] = alignment
        return found

    def _shared(self, one: int, number: int) -> int:
        return len(self._offline.words[0][one] & self._offline.words[1][number])

    def _likeness(self, one: int, number: int) -> tuple[bool, int, int]:
        # What another one has by structure is rather that one's.
        alike = self._shared(one, number) + self._is_of_its_kind(one, number)
        return one not in self._clear.values(), alike, -one

    def _is_of_its_kind(self, one: int, number: int) -> bool:
        kind = kind_of(self._offline.right[number].key.op.op_type)
        return bool(kind) and kind_of(self._offline.left[one].key.op.op_type) == kind

    def _of_its_kind(self, number: int, free: Iterable[int]) -> list[int]:
        """Return the last left tensors of its kind before those that are others' by structure."""
        before = min((one for right, one in self._clear.items() if right > number), default=len(self._offline.left))
        others = {*self._clear.values()}
        found = [one for one in free if one < before and one not in others and self._is_of_its_kind(one, number)]
        return found[-_MOST_TRIED:]

    def _suggestion(
        self, number: int, lefts: Iterable[int], tried: dict[int, Alignment], is_clear: bool = True
    ) -> Suggestion:
        fits = sorted((Fit(one, number, tried[one]) for one in lefts), key=lambda fit: _apart(fit.how))
        return Suggestion(number, tuple(fits), "replay", is_clear)


def _apart(one: Alignment) -> float:
    return max(one.apart, _ROUNDING)
