"""The limits of a reference: what rounding does to each tensor, and the multipliers that control runs earn.

Limits in a file fall by themselves, and rise only where a person accepts it, with a reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.capabilities.calibrate.limits_file import (
    Accepted,
    Base,
    LimitsFile,
    Perturbed,
    TensorLimits,
    class_of,
    exponent_of,
    limits_text,
    name_of,
    read_limits,
    rounded_up,
)
from pytest_msdump.capabilities.run_origins.digests import refuse_other_origins
from pytest_msdump.capabilities.run_origins.reference import ReferenceFacts
from pytest_msdump.core.compare.comparing import comparer_of
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import (
    ASSUMED_MULTIPLIERS,
    CALIBRATED_METRICS,
    CHAOTIC_GROWTH,
    CHAOTIC_WITHIN,
    COARSE_UNIT,
    MOST_LOOSER,
    OUTLYING,
)
from pytest_msdump.core.limits.permissions import least_base, linear, looser_than_default, squared
from pytest_msdump.core.limits.resolve import computed_dtype
from pytest_msdump.core.model.record import CHOICES
from pytest_msdump.core.storage.files import naming, write_atomic
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.suite.load import Suite
from pytest_msdump.core.text import number

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.tensor import Pair

# A tensor that a later run into the same directory replaced is no tensor of the run.
_OLDER_RUN = "older_run"
_PERTURBED = ("perturbed run", "coarse run")
_SHOWN = 5
# Of fewer elements a perturbed run may be near the reference by luck.
_FEW = 10
# Of another model nearly every tensor is far from the reference.
_MOST_FAR = 0.9
_UNSURE = "an extra run must be recorded as the reference was"


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One tensor of the reference, against the same one of another run."""

    elements: int
    kind: str
    dtype: str
    computed: str
    stored: str
    differing: int
    values: Mapping[str, float]

    @property
    def is_exact(self) -> bool:
        """Whether it has integers or truth values, which are equal or not."""
        return DTYPES[self.dtype].kind in ("integer", "bool")


@dataclass(frozen=True, slots=True)
class _PerturbedRun:
    """Another run of the reference: its dump, that of the reference, and the tensors by their names in limits files."""

    dump: Dump
    reference: Dump
    tensors: Mapping[str, _Tensor]

    @property
    def perturbation(self) -> Mapping[str, Any]:
        manifests = (self.dump.manifest, *self.dump.ranks.values())
        return next((one.perturbation for one in manifests if one is not None and one.perturbation), {})


def calibrate(
    reference: Path,
    perturbed: Sequence[Path],
    *,
    controls: Sequence[Path] = (),
    golden: Path | None = None,
    coarse: Sequence[Path] = (),
    alpha: float = 0.05,
    u: float | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
    only: Callable[[Pair, Record], Record] = lambda _, record: record,
    watch: Watch = unwatched,
) -> LimitsFile:
    """Return the limits that runs of a reference show.

    `rules` say which tensors are logits, or chosen from some, `only` returns of a record what is of rounding.
    """
    if not perturbed:
        raise ConfigError("there is no perturbed run; give one or more after the reference")
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha = {alpha:g} is no share of runs; give a number between 0 and 1, e.g. 0.05")

    def run_of(path: Path, what: str) -> _PerturbedRun:
        return _run(path, reference, what, watch, rules, only)

    runs = [run_of(path, "perturbed run") for path in perturbed]
    floats = Counter(one.computed for one in runs[0].tensors.values() if not one.is_exact).most_common(1)
    # The float type that most tensors of the reference were computed in.
    dtype = floats[0][0] if floats else ""
    by_u: dict[float, list[_PerturbedRun]] = {}
    for run in runs:
        by_u.setdefault(_u_of(run, u or rounding_unit(dtype) or COARSE_UNIT), []).append(run)
    for path in coarse:
        run = run_of(path, "coarse run")
        by_u.setdefault(_u_of(run, COARSE_UNIT), []).append(run)
    for run in (one for found in by_u.values() for one in found):
        if not any(tensor.differing for tensor in run.tensors.values()):
            raise ConfigError(f"perturbed run {run.dump.root}: every tensor is equal to the reference's: not perturbed")
    exact = run_of(golden, "golden run") if golden is not None else None
    harmless = [run_of(path, "control run") for path in controls]
    own_runs = by_u[min(by_u)]
    for run in own_runs:
        _refuse_unlike(run)
    for what, found in (("perturbed", own_runs), ("golden", [exact] if exact else []), ("control", harmless)):
        for run in found:
            _refuse_outlying(run, own_runs, f"{what} run {run.dump.root}")
    tensors = {name: _limits(name, by_u, exact, harmless) for name in runs[0].tensors}
    multipliers, earned = multipliers_of([_scores(run, tensors) for run in harmless], alpha)
    own, said = min(by_u), runs[0].perturbation
    return LimitsFile(
        reference=ReferenceFacts.of(runs[0].reference, dtype),
        perturbed=Perturbed(
            u=own,
            runs=len(by_u[own]),
            what=str(said.get("what", "")),
            seeds=tuple(run.perturbation["seed"] for run in by_u[own] if "seed" in run.perturbation),
            coarse=tuple(sorted(one for one in by_u if one != own)),
            golden=golden is not None,
            dtype=_coarser_in(own_runs),
        ),
        multipliers=multipliers,
        controls=len(harmless),
        alpha=alpha if earned else None,
        tensors=tensors,
    )


def multipliers_of(scores: Sequence[Mapping[str, float]], alpha: float) -> tuple[dict[str, float], bool]:
    """Return the multiplier of each class, and whether a rate of false alarms of `alpha` is earned.

    `scores` has for each control run the largest measured / base of each class. By the split-conformal rule the
    ceil((n + 1)(1 - alpha))-th smallest of n scores is exceeded by a further run of this kind with a probability of
    `alpha` at most. The classes share it where there are enough runs for that; else the assumed multipliers say how the
    classes are to each other, and one number is earned for all. With fewer runs the multipliers are assumed, and no
    lower than what the control runs need. None is below 1, which is rounding itself.

    >>> multipliers_of([{"forward_large": 1.5}] * 19, 0.05)[0]["forward_large"]
    1.5
    """
    classes = sorted({kind for run in scores for kind in run})
    largest = {kind: max(run.get(kind, 0.0) for run in scores) for kind in classes}
    if scores and (place := _place(len(scores), alpha, len(classes))):
        found = {kind: sorted(run.get(kind, 0.0) for run in scores)[place - 1] for kind in classes}
    elif scores and (place := _place(len(scores), alpha)):
        shares = [max((run[kind] / ASSUMED_MULTIPLIERS[kind] for kind in run), default=0.0) for run in scores]
        found = {kind: ASSUMED_MULTIPLIERS[kind] * sorted(shares)[place - 1] for kind in ASSUMED_MULTIPLIERS}
    else:
        assumed = {kind: max(m, rounded_up(largest.get(kind, 0.0))) for kind, m in ASSUMED_MULTIPLIERS.items()}
        return assumed, False
    return {
        kind: max(1.0, rounded_up(found[kind])) if kind in found else m for kind, m in ASSUMED_MULTIPLIERS.items()
    }, True


def _place(runs: int, alpha: float, shared_by: int = 1) -> int | None:
    """Return which of the sorted scores is the multiplier, from 1; ``None`` where there are too few."""
    place = math.ceil((runs + 1) * (1 - Fraction(repr(alpha)) / max(shared_by, 1)))
    return place if place <= runs else None


def _scores(run: _PerturbedRun, tensors: Mapping[str, TensorLimits]) -> dict[str, float]:
    """Return the largest measured / base of each class."""
    found: dict[str, float] = {}
    for name, limits in tensors.items():
        tensor = run.tensors[name]
        ratios = [tensor.differing / limits.flipped] if limits.flipped else []
        if not limits.chaotic:
            ratios += [tensor.values[metric] / base.base for metric, base in limits.metrics.items()]
        if ratios:
            found[limits.kind] = max(found.get(limits.kind, 0.0), *ratios)
    return found


def _limits(
    name: str,
    by_u: Mapping[float, Sequence[_PerturbedRun]],
    golden: _PerturbedRun | None,
    controls: Sequence[_PerturbedRun],
) -> TensorLimits:
    found = {u: [run.tensors[name] for run in runs] for u, runs in sorted(by_u.items())}
    own = min(found)
    first = found[own][0]
    if first.is_exact:
        m = ASSUMED_MULTIPLIERS[first.kind]
        # Control runs are harmless by construction: what they flip is no mistake, and nothing is known beyond.
        of_controls = max((run.tensors[name].differing for run in controls), default=0)
        flipped = max(math.ceil(of_controls / m), *(one.differing for one in found[own]))
        return TensorLimits(first.elements, first.kind, flipped=flipped, chaotic=0 < first.elements <= m * flipped)
    unit = rounding_unit(first.dtype)
    beside = [*controls, *([golden] if golden and name in golden.tensors else [])]
    every = [*(one for tensors in found.values() for one in tensors), *(run.tensors[name] for run in beside)]
    metrics: dict[str, Base] = {}
    is_chaotic = False
    for metric in CALIBRATED_METRICS if unit else ():
        if not all(metric in one.values for one in every):
            continue
        largest = {u: max(one.values[metric] for one in tensors) for u, tensors in found.items()}
        exact = golden.tensors[name].values[metric] if golden and name in golden.tensors else 0.0
        least = least_base(metric, unit)
        amp = {exponent_of(u): rounded_up(value / u) for u, value in largest.items()} if len(found) > 1 else {}
        metrics[metric] = Base(rounded_up(max(largest[own], exact, least)), amp)
        is_chaotic = is_chaotic or _is_chaotic(largest, least, ASSUMED_MULTIPLIERS[first.kind])
    return TensorLimits(first.elements, first.kind, metrics, chaotic=is_chaotic)


def _is_chaotic(errors: Mapping[float, float], unit: float, multiplier: float) -> bool:
    """Whether errors, by the perturbation, grow faster than it; or are so large that any tensor is within the limit."""
    (own, smallest), *others = errors.items()
    growths = [(u, error / u * own / max(smallest, unit)) for u, error in others]
    grows = any(growth > CHAOTIC_GROWTH for u, growth in growths if u <= CHAOTIC_WITHIN * own)
    return grows or smallest * multiplier >= 1


def _refuse_unlike(run: _PerturbedRun) -> None:
    """Refuse a perturbed run of which hardly a tensor is near the reference: another model, or chaos."""
    far = []
    for tensor in (one for one in run.tensors.values() if one.differing and not one.is_exact):
        m = ASSUMED_MULTIPLIERS[tensor.kind]
        limits = {metric: squared(metric, m * value) for metric, value in tensor.values.items()}
        # A limit of 1 or more is met by every tensor; in 16 bits rounding alone may be that large.
        looser = max((looser_than_default(*one, tensor.computed) for one in limits.items()), default=0.0)
        is_fine = (rounding_unit(tensor.computed) or 1.0) < COARSE_UNIT
        far.append(max(limits.values(), default=0.0) >= 1 or (is_fine and looser > MOST_LOOSER))
    if sum(far) > _MOST_FAR * len(far):
        raise ConfigError(
            f"perturbed run {run.dump.root}: {sum(far)} of {len(far)} tensors are further from the reference than "
            "rounding explains: it is of another model, or all of it is chaotic; record it with the weights and inputs "
            "of the reference, or compare the first step of a training"
        )


def _refuse_outlying(run: _PerturbedRun, perturbed: Sequence[_PerturbedRun], place: str) -> None:
    """Refuse a run with tensors far beyond what the perturbed runs show, which would raise limits by as much."""
    found: dict[str, tuple[float, str, float]] = {}
    for name, tensor in run.tensors.items():
        unit, m = rounding_unit(tensor.dtype), ASSUMED_MULTIPLIERS[tensor.kind]
        for metric, value in tensor.values.items() if unit and not tensor.is_exact else ():
            least = max(least_base(metric, unit), min(one.tensors[name].values.get(metric, 0.0) for one in perturbed))
            # A few elements may be near by luck.
            looser = looser_than_default(metric, squared(metric, value), tensor.computed)
            counts = tensor.elements >= _FEW or looser > 1
            if m * least < 1 and counts and value > OUTLYING * m * least:
                found[name] = max(found.get(name, (0.0, "", 0.0)), (value / least, metric, value))
    if found:
        name, (score, metric, value) = max(found.items(), key=lambda one: one[1])
        more = f", and {len(found) - 1} more tensors" if len(found) > 1 else ""
        raise ConfigError(
            f"{place}: {name} is {score:.3g} times as far from the reference as a perturbed run ({metric} "
            f"{number(squared(metric, value))}){more}: a harmless run is not; record it again, or leave it out"
        )


def _run(
    path: Path,
    reference: Path,
    what: str,
    watch: Watch,
    rules: Sequence[Mapping[str, Any]],
    only: Callable[[Pair, Record], Record],
) -> _PerturbedRun:
    # A golden run is what the reference is compared with.
    is_golden = what == "golden run"
    left, right = (reference, path) if is_golden else (path, reference)
    table = {"left": left, "right": right, "io": "all", "without": ["kl_divergence"]}
    table |= {"rule": [dict(one) for one in rules]} if rules else {}
    planned = plan(load_suite(file=None, table=table, options={}, directory=Path.cwd(), name="msdump calibrate"))
    place = f"{what} {path}"
    if not is_golden:
        _refuse_missing(planned, place)
    if is_golden:
        refuse_other_origins(planned.right, planned.left, name=what)
    if what in _PERTURBED:
        # Digests are of what inputs and weights were before they were perturbed.
        facts, expected = (ReferenceFacts.of(dump) for dump in (planned.left, planned.right))
        if other := facts.differing(expected):
            raise ConfigError(f"{place}: has other {' and other '.join(other)} than the reference; {_UNSURE}")
    compare = comparer_of(planned).compare
    tensors: dict[str, _Tensor] = {}
    for pair in watch(planned.pairing.pairs, "pairs"):
        key = (pair.left if is_golden else pair.right).key
        record = only(pair, compare(pair))
        tensors[name_of(key)] = _measured(record, place, class_of(key, record.elements or 0))
    dumps = (planned.right, planned.left) if is_golden else (planned.left, planned.right)
    return _PerturbedRun(*dumps, tensors)


def _refuse_missing(planned: Plan, place: str) -> None:
    missing = [one for one in planned.pairing.unmatched_right if one.why.code != _OLDER_RUN]
    if missing:
        more = f" and {len(missing) - 1} more tensors" if len(missing) > 1 else ""
        raise ConfigError(f"{place}: has no {missing[0].ref.key.address}{more} of the reference; {_UNSURE}")
    if not planned.pairing.pairs:
        raise ConfigError(f"{place}: there is no tensor to compare with the reference")


def _measured(record: Record, place: str, kind: str) -> _Tensor:
    """Return the numbers of one pair; ConfigError where they say nothing of rounding."""
    address, found = record.right.address, record.comparison
    if found is None:
        why = next((one.sentence for one in record.verdict.findings), "")
        why = "a side has no values, only statistics" if record.statistics is not None else why
        raise ConfigError(f"{place}: {address} cannot be compared with the reference: {why:.300}; {_UNSURE}")
    if mismatch := found.nonfinite.mismatch:
        raise ConfigError(
            f"{place}: {address} has NaN or Inf at {mismatch} of {found.elements} positions where the reference "
            "has not, or the other way round; such a run says nothing of rounding"
        )
    # KL is of tensors that a rule calls logits.
    metrics = [one for one in CALIBRATED_METRICS if METRICS[one].of is None or one in found.measurements]
    values = {metric: 0.0 if found.equal else record.judged_value(metric) for metric in metrics}
    is_ruled = any(one.code in CHOICES for one in record.remarks)
    return _Tensor(
        elements=found.elements,
        kind=kind,
        dtype=record.judged_as,
        computed=computed_dtype(record.left.dtype or "", record.right.dtype or "", record.remarks),
        stored=record.right.dtype or "",
        # A rule judges those that were chosen from values.
        differing=0 if is_ruled else found.differing,
        values={name: linear(name, float(value)) for name, value in values.items() if isinstance(value, int | float)},
    )


def _coarser_in(runs: Sequence[_PerturbedRun]) -> str:
    """Return the type that perturbed runs were computed in, where that is coarser than most of the reference."""
    floats = [one for run in runs for one in run.tensors.values() if not one.is_exact]
    ((stored, _),) = Counter(one.stored for one in floats).most_common(1) or [("", 0)]
    ((computed, _),) = Counter(one.computed for one in floats).most_common(1) or [("", 0)]
    return computed if stored != computed else ""


def _u_of(run: _PerturbedRun, otherwise: float) -> float:
    return float(run.perturbation.get("u", otherwise))


# -- limits files ------------------------------------------------------------------------------------------------------


def write_limits(path: Path, limits: LimitsFile, *, accept_looser: bool = False, reason: str = "") -> tuple[str, ...]:
    """Write a limits file in the place of an older one; return what rises, a tensor in each sentence."""
    if accept_looser and not reason.strip():
        raise ConfigError("--accept-looser: needs --reason TEXT; say why limits may rise")
    risen: tuple[str, ...] = ()
    if path.exists():
        before = read_limits(path)
        risen = tuple(_risen(before, limits))
        if risen and not accept_looser:
            more = [f"and {len(risen) - _SHOWN} more"] if len(risen) > _SHOWN else []
            raise ConfigError(
                "\n  ".join([f"{path}: {len(risen)} limits would rise:", *risen[:_SHOWN], *more])
                + "\naccept it with --accept-looser --reason TEXT, or write another file"
            )
        today = datetime.now(timezone.utc).date().isoformat()
        accepted = (Accepted(today, reason.strip()),) if risen else ()
        limits = replace(limits, accepted=(*before.accepted, *accepted))
    with naming(path, kind=ConfigError):
        write_atomic(path, limits_text(limits).encode("ascii"))
    return risen


def tightened(limits: LimitsFile, records: Iterable[Record]) -> LimitsFile:
    """Return the file with the limits of a run's records lowered to what these measured, with a factor of safety."""
    measured: dict[str, dict[str, float]] = {}
    for record in records:
        name = name_of(record.right.key)
        tensor = limits.tensors.get(name)
        for check in record.checks:
            base = tensor.metrics.get(check.metric) if tensor and check.base else None
            if base is None or check.base is None or not isinstance(check.value, int | float):
                continue
            # A left side of a coarser type was judged by a scaled base.
            least = least_base(check.metric, rounding_unit(record.judged_as))
            value = max(linear(check.metric, float(check.value)), least) * base.effective / check.base
            of_tensor = measured.setdefault(name, {})
            of_tensor[check.metric] = max(value, of_tensor.get(check.metric, 0.0))
    tensors = {
        name: _lowered(tensor, measured[name], limits) if name in measured else tensor
        for name, tensor in limits.tensors.items()
    }
    return replace(limits, tensors=tensors)


def _lowered(tensor: TensorLimits, measured: dict[str, float], limits: LimitsFile) -> TensorLimits:
    safety = max(1.0, ASSUMED_MULTIPLIERS[tensor.kind] / limits.multipliers[tensor.kind])
    metrics = dict(tensor.metrics)
    for metric, value in measured.items():
        at_most = rounded_up(value * safety)
        if at_most < metrics[metric].effective:
            metrics[metric] = replace(metrics[metric], at_most=at_most)
    return replace(tensor, metrics=metrics)


def limits_file_to_lower(suite: Suite) -> Path:
    """Return the limits file of a suite; ConfigError where it has none."""
    placed = suite.options["limits"]
    if placed is None:
        raise ConfigError(f"{suite.name}: there is no limits file to lower; name one: limits = …, or --limits FILE")
    file: Path = placed.path
    return file


def tighten(path: Path, records: Iterable[Record]) -> int:
    """Lower the limits in a file to what the records of a run that passed measured; return of how many tensors."""
    before = read_limits(path)
    after = tightened(before, records)
    lowered = sum(before.tensors[name] != tensor for name, tensor in after.tensors.items())
    if lowered:
        with naming(path, kind=ConfigError):
            write_atomic(path, limits_text(after).encode("ascii"))
    return lowered


def _risen(before: LimitsFile, after: LimitsFile) -> Iterator[str]:
    for name, old in before.tensors.items():
        new = after.tensors.get(name)
        if not (old.metrics or old.flipped) or old.chaotic:
            continue
        if new is None or new.chaotic:
            yield f"{name}: has no limit any more"
            continue
        bounds = [(metric, _bound(before, old, metric), _bound(after, new, metric)) for metric in CALIBRATED_METRICS]
        bounds.append(
            ("flipped", old.flipped * before.multipliers[old.kind], new.flipped * after.multipliers[new.kind])
        )
        for metric, was, will_be in bounds:
            if was is not None and (will_be is None or will_be > was):
                rises = "none" if will_be is None else number(squared(metric, will_be))
                yield f"{name}: {metric} {number(squared(metric, was))} -> {rises}"


def _bound(limits: LimitsFile, tensor: TensorLimits, metric: str) -> float | None:
    base: Base | None = tensor.metrics.get(metric)
    return None if base is None else rounded_up(base.effective * limits.multipliers[tensor.kind])
