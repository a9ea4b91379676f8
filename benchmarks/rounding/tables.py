"""What was measured, held to limits of several kinds, as tables of Markdown."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring.tables import table

from pytest_msdump.core.facts.profiles import ASSUMED_MULTIPLIERS, PROFILES
from rounding.scores import ROUNDING, at_fault, clopper_pearson, conformal

__all__ = ["FORWARD", "GRADIENT", "Measured", "control_lines", "read", "tables"]

Array = npt.NDArray[np.float64]

# The multipliers that are assumed without controls.
FORWARD, GRADIENT = (ASSUMED_MULTIPLIERS[f"{kind}_large"] for kind in ("forward", "gradient"))
# A mistake below so many roundings need not be found.
VISIBLE = 10.0
# A gradient is noise where the reference in float32 is so far from float64.
NOISE = 0.01
SLICES = (0.01, 0.05, 0.1, 0.2, 0.5)
COARSE = 2.0**-12
ALPHA, CONTROLS = 0.05, 19
FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Measured:
    """One network: its tensors, and every run's distances by kind, metrics before tensors."""

    name: str
    tensors: Sequence[tuple[str, bool, int]]
    runs: Mapping[str, Sequence[Mapping[str, Any]]]

    @property
    def is_gradient(self) -> npt.NDArray[np.bool_]:
        """Of each tensor."""
        return np.array([one[1] for one in self.tensors])

    def base(self, dtype: str = "float32", *, seeds: int = 1, golden: bool = False) -> Array:
        """Return what rounding does, of both metrics: from perturbed runs, at least one rounding of the type."""
        if dtype == "float32":
            kinds = [*self.runs["perturbed"][:seeds], *(self.runs["golden"] if golden else ())]
            found = np.maximum.reduce([one["far"][:2] for one in kinds])
        else:
            found = self.runs["coarse"][0]["far"][:2] * (ROUNDING[dtype] / COARSE)
        return np.maximum(found, ROUNDING[dtype])

    def multipliers(self, forward: float, gradient: float) -> Array:
        """Return a multiplier for each tensor."""
        return np.where(self.is_gradient, gradient, forward)

    def size(self, mistake: Mapping[str, Any]) -> float:
        """Return how many roundings a mistake alone is, where it is largest: all three runs are without noise of ours.

        The rounding of a tensor is the error of the reference itself, against float64.
        """
        rounding = np.maximum(self.runs["golden"][0]["far"][:2], ROUNDING["float32"])
        return float(np.max(mistake["alone"][:2] / rounding))

    def seen(self) -> list[Mapping[str, Any]]:
        """Return the mistakes that are large enough to be found."""
        return [one for one in self.runs["mistake"] if self.size(one) >= VISIBLE]


# Takes a network and a run, and returns how far each tensor is over its limit: above 1 it alarms.
Judge = Callable[[Measured, Mapping[str, Any]], Array]


def read(path: Path) -> Measured:
    """Read what `limits.py` wrote of a network; a last line that was not finished is left out."""
    runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            entry = json.loads(line)
            for key in {"far", "alone"} & entry.keys():
                entry[key] = np.array(entry[key])
            runs[entry["kind"]].append(entry)
    (network,) = runs["network"]
    return Measured(network["name"], network["tensors"], runs)


def _derived(forward: float, gradient: float, **base: Any) -> Judge:
    def judge(one: Measured, run: Mapping[str, Any]) -> Array:
        limits = one.base(run.get("dtype", "float32"), **base) * one.multipliers(forward, gradient)
        return np.max(run["far"][:2] / limits, axis=0)

    return judge


def _fixed(limit: float) -> Judge:
    return lambda _, run: run["far"][0] / limit


def _profile(name: str) -> Judge:
    def judge(one: Measured, run: Mapping[str, Any]) -> Array:
        bounds = PROFILES[name].rows[run.get("dtype", "float32")]
        limits = [bounds["relative_euclidean_distance"], bounds["normalized_max_error"]]
        limits += [1 - bounds["cosine_similarity"]]
        scores = np.max(run["far"] / np.array(limits)[:, None], axis=0)
        # Gradients that are zero in exact arithmetic are warned of, and fail in no profile.
        is_noise = one.is_gradient & (one.runs["golden"][0]["far"][0] > NOISE)
        return np.where(is_noise, 0.0, scores)

    return judge


_OURS = _derived(FORWARD, GRADIENT)
_JUDGES: Mapping[str, Judge] = {
    f"one perturbed run, {FORWARD:g} and {GRADIENT:g}": _OURS,
    "one perturbed run, 4 and 16": _derived(4, 16),
    "one perturbed run, 12 and 24": _derived(12, 24),
    "one perturbed run, 16 and 64": _derived(16, 64),
    "three perturbed runs, 4 and 16": _derived(4, 16, seeds=3),
    "one perturbed run and float64, 4 and 16": _derived(4, 16, golden=True),
    "profile `default`": _profile("default"),
    "profile `strict`": _profile("strict"),
    "relative distance 1e-5": _fixed(1e-5),
}


def tables(found: Sequence[Measured]) -> Iterator[str]:
    """Yield all tables of a measurement."""
    yield from ("## Limits", "", *_limit_table(found), "")
    yield from ("## Networks", "", *_network_table(found), "")
    yield from ("## Mistakes", "", *_mistake_table(found), "")
    yield from ("## 16 bits", "", *_half_table(found), "")
    yield from ("## Slices", "", *_slice_table(found), "")
    worst = max((_largest(_OURS(one, run)), one.name) for one in found for run in one.runs["formula"])
    yield f"variance as mean of squares less square of mean: {worst[0]:.2g} of its limit at most ({worst[1]})"


def _largest(scores: Array) -> float:
    return float(np.max(scores))


def _share(hits: int, count: int) -> str:
    low, high = clopper_pearson(hits, count)
    return f"{hits} of {count} ({low:.2%} … {high:.2%})" if count else "—"


def _limit_table(found: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for title, judge in _JUDGES.items():
        harmless = [_largest(judge(one, run)) for one in found for run in one.runs["harmless"]]
        wrong = [(one, run, judge(one, run)) for one in found for run in one.seen()]
        missed = [run["name"] for _, run, scores in wrong if not _largest(scores) > 1]
        named = Counter(_is_named(one, run, scores) for one, run, scores in wrong)
        rows.append(
            [
                title,
                _share(sum(score > 1 for score in harmless), len(harmless)),
                f"{max(harmless):.2g}",
                _share(len(missed), len(wrong)),
                f"{len({*missed})} of {len({run['name'] for _, run, _ in wrong})}",
                f"{named[True] / max(named[True] + named[False], 1):.1%}",
            ]
        )
    titles = ["limits", "false alarms, runs", "largest harmless", "missed mistakes", "kinds with a miss", "named first"]
    yield table(titles, rows)


def _is_named(one: Measured, run: Mapping[str, Any], scores: Array) -> bool | None:
    """Whether the first tensor over its limit is the mistaken operator's; ``None`` where none is, or cannot be."""
    over = np.flatnonzero(scores > 1)
    if not over.size or not run["at"]:
        return None
    return at_fault(one.tensors[over[0]][0], run["at"], {tensor[0] for tensor in one.tensors})


def _network_table(found: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for one in found:
        scores = [np.max(run["far"][:2] / one.base(), axis=0) for run in one.runs["harmless"]]
        largest = [
            max(_largest(np.where(one.is_gradient == kind, some, 0)) for some in scores) for kind in (False, True)
        ]
        equal = sum(not run["far"].any() for run in one.runs["harmless"])
        seen = one.seen()
        found_at = [_largest(_OURS(one, run)) for run in seen]
        rows.append(
            [
                one.name,
                f"{len(one.tensors)}",
                f"{len(scores)} ({equal})",
                *(f"{score:.1f}" for score in largest),
                f"{len(seen)} of {len(one.runs['mistake'])}",
                f"{sum(score <= 1 for score in found_at)}",
                f"{min(found_at) / max(_largest(_OURS(one, run)) for run in one.runs['harmless']):.1f}"
                if seen
                else "—",
            ]
        )
    titles = ["network", "tensors", "harmless runs (equal)", "largest forward", "largest gradient"]
    yield table([*titles, "mistakes ≥ 10 roundings", "missed", "gap"], rows)


def _mistake_table(found: Sequence[Measured]) -> Iterator[str]:
    kinds: defaultdict[str, list[tuple[Measured, Mapping[str, Any]]]] = defaultdict(list)
    for one in found:
        for run in one.runs["mistake"]:
            kinds[run["name"]].append((one, run))
    rows = []
    for kind, some in kinds.items():
        seen = [(one, run) for one, run in some if one.size(run) >= VISIBLE]
        counts = [
            sum(not _largest(_JUDGES[title](one, run)) > 1 for one, run in seen)
            for title in (next(iter(_JUDGES)), "profile `default`", "profile `strict`")
        ]
        named = Counter(_is_named(one, run, _OURS(one, run)) for one, run in seen)
        harmless = {one.name: max(_largest(_OURS(one, run)) for run in one.runs["harmless"]) for one, _ in seen}
        gap = min((_largest(_OURS(one, run)) / harmless[one.name] for one, run in seen), default=None)
        row = [f"{len(seen)} of {len(some)}", *map(str, counts), "—" if gap is None else f"{gap:.3g}"]
        judged = named[True] + named[False]
        rows.append((gap or 0, [kind, *row, f"{named[True]} of {judged}" if judged else "—"]))
    rows.sort(key=lambda row: row[0])
    titles = ["mistake", "≥ 10 roundings", "missed", "by `default`", "by `strict`", "smallest gap", "named first"]
    yield table(titles, [row for _, row in rows])


def _half_table(found: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for dtype in FLOATS[1:]:
        for title in (next(iter(_JUDGES)), "profile `default`", "profile `strict`"):
            judge = _JUDGES[title]
            for is_gradient in (False, True):
                good, wrong = (
                    [
                        _largest(judge(one, run)[one.is_gradient == is_gradient])
                        for one in found
                        for run in one.runs[kind]
                        if run["dtype"] == dtype
                    ]
                    for kind in ("half", "half mistake")
                )
                alarms, caught = sum(not score <= 1 for score in good), sum(score > 1 for score in wrong)
                name = f"{dtype}, {'gradients' if is_gradient else 'forward'}, {title}"
                rows.append(
                    [name, _share(alarms, len(good)), f"{max(good, default=0):.2g}", _share(caught, len(wrong))]
                )
    yield table(["left side and limits", "false alarms, runs", "largest good", "mistakes found"], rows)


def _slice_table(found: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for dtype in FLOATS:
        kind = "harmless" if dtype == "float32" else "half"
        for is_gradient in (False, True):
            worst = []
            for one in found:
                for run in one.runs[kind]:
                    values = [
                        value
                        for value, tensor in zip(run.get("slices", ()), one.tensors, strict=False)
                        if value is not None and tensor[1] == is_gradient
                    ]
                    if run["dtype"] == dtype and values:
                        worst.append((max(values), sum(value <= 0 for value in values), values))
            total = sum(len(values) for _, _, values in worst)
            row = [f"{dtype}, {'gradients' if is_gradient else 'forward'}"]
            for limit in SLICES:
                runs = sum(largest > limit for largest, _, _ in worst)
                row.append(f"{runs} of {len(worst)}; {sum(v > limit for _, _, some in worst for v in some)}")
            rows.append([*row, f"{total}", f"{max((one[0] for one in worst), default=0):.2g}"])
    yield table(["good runs", *(f"> {limit:g}: runs; tensors" for limit in SLICES), "tensors", "largest"], rows)


# -- limits from controls ------------------------------------------------------------------------------------------


def control_lines(found: Sequence[Measured], draws: int, seed: int = 7) -> Iterator[str]:
    """Yield how many of the runs that were left out alarm, when limits come from 19 others of the same kind."""
    for one in found:
        pool = one.runs["control"]
        base = one.base()
        shape = one.multipliers(FORWARD, GRADIENT)
        scores = [_largest(np.max(run["far"][:2] / base, axis=0) / shape) for run in pool]
        chance = random.Random(seed)
        rates, earned = [], []
        for _ in range(draws):
            chosen = {*chance.sample(range(len(pool)), CONTROLS)}
            limit = conformal([scores[number] for number in chosen], ALPHA)
            left_out = [score for number, score in enumerate(scores) if number not in chosen]
            rates.append(sum(score > limit for score in left_out) / len(left_out))
            earned.append(limit)
        mean, spread = float(np.mean(rates)), float(np.std(rates, ddof=1))
        error = 1.96 * spread / draws**0.5
        yield f"## {one.name}: {len(pool)} control runs, {len({*scores})} different scores"
        yield ""
        yield f"{draws} times {CONTROLS} of them set the limits, for runs drawn as these were:"
        interval = f"{mean:.2%} on average ({mean - error:.2%} … {mean + error:.2%})"
        yield f"alarms among the others {interval}, promised {ALPHA:.0%};"
        forward, gradient = (many * np.median(earned) for many in (FORWARD, GRADIENT))
        yield f"multipliers {forward:.1f} forward and {gradient:.1f} in gradients (median of what they earn)"
        yield ""
        counts = Counter(min(int(rate * 50), 10) for rate in rates)
        for step in range(11):
            title = f"{2 * step:>3}–{2 * step + 2} %" if step < 10 else "  > 20 %"
            yield f"    {title:9} {counts[step]:>4} {'#' * round(60 * counts[step] / draws)}"
        yield ""
