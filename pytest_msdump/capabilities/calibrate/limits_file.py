"""Limits files: what rounding does to each tensor of a reference, and the multipliers that make limits of it.

Values, the parser and the writer of ``msdump.limits.json``; `calibrate` makes them, `limits.resolve` uses them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.run_origins.reference import MANIFEST_DIGESTS, ReferenceFacts
from pytest_msdump.core.dtypes import coarser, rounding_unit
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import (
    ASSUMED_MULTIPLIERS,
    CALIBRATED_METRICS,
    GRADIENTS,
    METRIC_VERSION,
    MOST_LOOSER,
    SMALL_ELEMENTS,
    SQUARED_METRICS,
)
from pytest_msdump.core.forms import Form, WrongValueError, expected, in_words, list_of, nullable, optional, table
from pytest_msdump.core.forms.values import FLAG, checked, one_of, whole
from pytest_msdump.core.limits.judge import passing_bound
from pytest_msdump.core.limits.permissions import looser_than_default, squared
from pytest_msdump.core.model.comparison import Limit
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import COORDINATES, Pairing, TensorKey
from pytest_msdump.core.suite.documents import path_in_messages, read_json
from pytest_msdump.core.text import Message, Parameter, number, say

_SCHEMA = 1
# There is a line for each tensor of a run, of which there may be a million.
_MOST_BYTES = 2**28
_MOST_TENSORS = 2**20
_LONGEST_NAME = 2**13
_LONGEST_TEXT = 1000
_MOST_ITEMS = 1000
_MOST_ELEMENTS = 2**63
# A tensor of zeros is as far from any other as 1.
_MOST_SCALED = 0.999
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Perturbed:
    """The perturbed runs: `u` of each value of `what` was changed, with these `seeds`, and in `coarse` runs more.

    `dtype` is what they were computed in, where that is coarser than the reference.
    """

    u: float
    runs: int = 1
    what: str = ""
    seeds: tuple[int, ...] = ()
    coarse: tuple[float, ...] = ()
    golden: bool = False
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """What rounding does to one tensor in one metric; `amp` is the metric by -log2(u), divided by that u.

    Of `SQUARED_METRICS` all of it is of the square root.
    """

    base: float
    amp: Mapping[str, float] = field(default_factory=dict)
    at_most: float | None = None

    @property
    def effective(self) -> float:
        """The base that counts."""
        return self.base if self.at_most is None else min(self.base, self.at_most)


@dataclass(frozen=True, slots=True)
class TensorLimits:
    """One tensor: number of elements, its class of `ASSUMED_MULTIPLIERS`, and its bases by metric."""

    elements: int
    kind: str
    metrics: Mapping[str, Base] = field(default_factory=dict)
    flipped: int = 0
    chaotic: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """One time that limits were allowed to rise: the day, in UTC, and why."""

    date: str
    reason: str


@dataclass(frozen=True, repr=False)
class LimitsFile:
    """The content of a limits file; `name` is how findings call it."""

    reference: ReferenceFacts
    perturbed: Perturbed
    multipliers: Mapping[str, float] = field(default_factory=lambda: ASSUMED_MULTIPLIERS)
    controls: int = 0
    alpha: float | None = None
    accepted: tuple[Accepted, ...] = ()
    tensors: Mapping[str, TensorLimits] = field(default_factory=dict)
    name: str = "msdump.limits.json"

    @cached_property
    def digest(self) -> str:
        """Identity of all that a verdict may depend on."""
        return hashlib.sha256(f"{self.name}\n{limits_text(self)}".encode(errors="surrogateescape")).hexdigest()

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The metrics that some tensor has a limit on."""
        return frozenset(metric for tensor in self.tensors.values() for metric in tensor.metrics)

    def __repr__(self) -> str:
        # Keys of caches are made of it.
        return f"LimitsFile({self.digest})"

    @property
    def multiplier(self) -> Message:
        """Where the multipliers are from."""
        if self.alpha is not None:
            return Message("multiplier_earned", {"alpha": self.alpha, "n": self.controls})
        return Message("multiplier_raised", {"n": self.controls}) if self.controls else Message("multiplier_assumed")

    def statement(self, what: Parameter, multiplier: Message) -> Message:
        """Return the sentence on `what` is limited: from which runs, and where the multiplier is from."""
        golden = Message("and_golden") if self.perturbed.golden else None
        parameters = {"what": what, "n": self.perturbed.runs, "golden": golden, "multiplier": multiplier}
        return Message("limits_derived", parameters)

    def notes_with(self, right: Dump, pairing: Pairing) -> Iterator[str]:
        """Yield what to say of the file beside these dumps; ConfigError where it was made with another reference."""
        ours = ReferenceFacts.of(right)
        if differing := self.reference.differing(ours):
            raise ConfigError(
                f"{self.name} was made with other {' and '.join(differing)} than {right.root} has; "
                "calibrate again with msdump calibrate, or leave the file out"
            )
        if self.tensors and right.refs and not any(name_of(ref.key) in self.tensors for ref in right.refs):
            raise ConfigError(
                f"{self.name} has none of the {len(right.refs)} tensors of {right.root}: it was made with another "
                "reference; calibrate again with msdump calibrate, or leave the file out"
            )
        values = self.multipliers.values()
        what = Message("limits_between", {"file": self.name, "low": min(values), "high": max(values)})
        yield say(self.statement(what, self.multiplier))
        if not self.reference.common(ours):
            yield say(Message("limits_unchecked", {"file": self.name}))
        if lacking := len({name_of(pair.right.key) for pair in pairing.pairs} - self.tensors.keys()):
            yield say(Message("limits_lack", {"file": self.name, "n": lacking}))

    def other_tensor(self, right: TensorKey, elements: int) -> Message | None:
        """Return why the entry of this name is not of this tensor; ``None`` where it is, or there is no entry."""
        tensor = self.tensors.get(name_of(right))
        if tensor is None or (tensor.elements == elements and tensor.kind == class_of(right, elements)):
            return None
        numbers: dict[str, Parameter] = {"n": elements, "elements": tensor.elements, "kind": tensor.kind}
        return Message("limits_of_other_tensor", {"file": self.name, **numbers})

    def limits_of(
        self, right: TensorKey, *, judged_as: str, right_dtype: str, computed: str = "", accept_looser: bool = False
    ) -> tuple[Mapping[str, Limit], tuple[Message, ...]]:
        """Return the limits of a pair by metric, and what to note; no limits where the profile judges."""
        tensor = self.tensors.get(name_of(right))
        if tensor is None or not (tensor.metrics or tensor.flipped or tensor.chaotic):
            return {}, ()
        if tensor.chaotic:
            return {}, (Message("limits_chaotic", {"file": self.name}),)
        # What was perturbed by being computed in a coarser type says itself what that does.
        measured_in = coarser(right_dtype, self.perturbed.dtype or right_dtype)
        is_coarser, computed = coarser(measured_in, judged_as) != measured_in, computed or judged_as
        found: list[tuple[str, float, float | None]]
        if tensor.flipped:
            found = [("allclose", float(tensor.flipped), None)]
        else:
            if is_coarser and tensor.kind.startswith("gradient"):
                # Sums that cancel, and what float16 flushes to zero, follow no perturbation of the reference.
                return {}, (Message("limits_not_for_gradients", {"file": self.name, "dtype": judged_as}),)
            scaled = [
                (metric, self._scaled(base, judged_as) if is_coarser else base.effective, base.at_most)
                for metric, base in tensor.metrics.items()
            ]
            if any(base is None for _, base, _ in scaled):
                return {}, (Message("limits_not_scaled", {"file": self.name, "dtype": judged_as}),)
            found = [(metric, base, at_most) for metric, base, at_most in scaled if base is not None]
        m = self.multipliers[tensor.kind]
        limits, parts = {}, []
        for metric, base, _ in found:
            # Of elements that differ, whole ones are counted.
            bound = math.floor(m * base) if tensor.flipped else rounded_up(m * base)
            if is_coarser and not tensor.flipped:
                # A deep model in 16 bits errs by a tenth and more, and not by all of it.
                bound = min(bound, _MOST_SCALED)
            rule = f"{self.name}: {m:g} × {number(base)}"
            if metric in SQUARED_METRICS:
                bound, rule = rounded_up(squared(metric, bound)), f"{self.name}: ({m:g} × {number(base)})²"
            limits[metric] = Limit(metric, bound, rule, base=base)
            code = "limit_squared" if metric in SQUARED_METRICS else "limit_derived"
            parts.append(Message(code, {"metric": metric, "limit": bound, "m": m, "base": base}))
        bounds = [(metric, limit.bound) for metric, limit in limits.items()]
        # A KL of 1 has a square root of 1, too.
        if any(bound >= (tensor.elements if tensor.flipped else 1) for _, bound in bounds):
            return {}, (Message("limits_chaotic", {"file": self.name}),)
        # Of integers that rounding flips, `default` allows none.
        looser = 0.0 if tensor.flipped else max(looser_than_default(*one, computed) for one in bounds)
        if looser > MOST_LOOSER and not accept_looser:
            return {}, (Message("limits_too_loose", {"file": self.name, "factor": looser, "dtype": computed}),)
        is_tightened = any(at_most is not None for *_, at_most in found)
        multiplier = Message("multiplier_tightened") if is_tightened else self.multiplier
        return limits, (self.statement(tuple(parts), multiplier),)

    def _scaled(self, base: Base, dtype: str) -> float | None:
        """Return the base for a left side of a coarser type; ``None`` where no coarse run says how that grows."""
        unit, own = rounding_unit(dtype), exponent_of(self.perturbed.u)
        coarse = [exponent for exponent in base.amp if exponent != own]
        if not unit or not coarse:
            return None
        nearest_run = min(coarse, key=lambda exponent: abs(float(exponent) + math.log2(unit)))
        # What widened the base, a golden run or the floor, widens this one as well.
        fine = base.amp.get(own, 0.0) * self.perturbed.u
        widened = base.effective / fine if fine else 1.0
        return rounded_up(unit * max(1.0, base.amp[nearest_run] * widened))


def name_of(key: TensorKey) -> str:
    """Return what a limits file calls a tensor: its address, and its coordinates but for the first of a kind.

    >>> from pytest_msdump.core.model.tensor import Coordinates, OpKey
    >>> name_of(TensorKey(OpKey("fc1", Coordinates(iteration=2)), "output", 0))
    'fc1:output:0[iter2]'
    """
    at = key.op.at
    # A recording has an iteration 0 and an occurrence 0 where there are no others.
    first = {name for name in ("iteration", "occurrence") if getattr(at, name) == 0}
    shown = at.shown(name for name in COORDINATES if name not in first)
    return f"{key.address}[{shown}]" if shown else key.address


def class_of(key: TensorKey, elements: int) -> str:
    """Return the class of a tensor, which its multiplier depends on."""
    is_gradient = key.op.label.rpartition("/")[2] in GRADIENTS
    size = "small" if elements < SMALL_ELEMENTS else "large"
    return f"{'gradient' if is_gradient else 'forward'}_{size}"


def exponent_of(u: float) -> str:
    """Return -log2 of a perturbation as limits files write it.

    >>> exponent_of(2.0**-24), exponent_of(1e-3)
    ('24', '9.96578')
    """
    return f"{-math.log2(u):g}"


def rounded_up(value: float) -> float:
    """Return three digits of a number, rounded up, so that what was measured stays within."""
    bound = passing_bound(CALIBRATED_METRICS[0], float(value))
    return value if bound is None else bound


def limits_text(limits: LimitsFile) -> str:
    """Return the text of a limits file, a tensor on each line, the same for the same limits."""
    head = _LIMITS.write(limits)
    tensors = sorted(head.pop("tensors").items())
    lines = [f"  {json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in tensors]
    start = json.dumps(head, indent=1, sort_keys=True).removesuffix("\n}")
    return f'{start},\n "tensors": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def read_limits(path: Path) -> LimitsFile:
    """Read a limits file; ConfigError, which begins with its path, unless it is one."""
    name = path_in_messages(path)
    return replace(parse_limits(read_json(path, name=name, most_bytes=_MOST_BYTES), name=name), name=path.name)


def parse_limits(document: Any, *, name: str = "msdump.limits.json") -> LimitsFile:
    """Return the limits of a file's JSON values; ConfigError that begins with its `name` and the place otherwise."""
    if not isinstance(document, dict) or "schema" not in document:
        raise ConfigError(f"{name}: is no limits file, it has no schema; write one with msdump calibrate")
    with in_words("{place} must be {what}, not {value!r:.60}"):
        limits: LimitsFile = _LIMITS.read(document, f"{name}:")
        return replace(limits, name=name)


def _object(make: Callable[..., Any], keys: Mapping[str, Form], *needs: str, parts: Any = None) -> Form:
    return table(make, keys, needs=needs, parts=parts, what="an object", join=" ")


def _list(form: Form) -> Form:
    return list_of(form, most=_MOST_ITEMS, what=f"a list of at most {_MOST_ITEMS}")


def _whole(least: int, most: int) -> Form:
    return whole(f"a whole number from {least} on", least, most)


def _is_positive(value: Any) -> bool:
    # Within these bounds no product of two is infinite or 0.
    return type(value) in (int, float) and 1e-30 <= value <= 1e30


_TEXT = checked("a text", lambda value: isinstance(value, str) and len(value) <= _LONGEST_TEXT)
_DAY = checked("a day, e.g. '2026-12-31'", lambda value: isinstance(value, str) and bool(_DATE.fullmatch(value)))
_DIGEST_TEXT = checked(
    "'sha256:' and a digest", lambda value: isinstance(value, str) and bool(_DIGEST.fullmatch(value))
)
_POSITIVE = checked("a number above 0", _is_positive)
_AT_LEAST_0 = checked(
    "a number, 0 or more", lambda value: (type(value) in (int, float) and value == 0) or _is_positive(value)
)
_SHARE = checked("a number between 0 and 1", lambda value: _is_positive(value) and value < 1)


def _read_amplifications(value: Any, where: str) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > _MOST_ITEMS:
        raise expected("an object of amplifications by -log2(u)", value, where)
    for exponent in value:
        try:
            is_exponent = 0 < float(exponent) < 1100 and len(exponent) < 20
        except ValueError:
            is_exponent = False
        if not is_exponent:
            raise WrongValueError(f"{exponent!r:.60} is no -log2(u), e.g. '24'", where)
    return {exponent: _AT_LEAST_0.read(one, f"{where} {exponent!r}") for exponent, one in value.items()}


_BASE = _object(
    Base,
    {"base": _POSITIVE, "amp": optional(Form(_read_amplifications, dict), {}), "at_most": optional(_POSITIVE)},
    "base",
)
_SHORT = {metric: METRICS[metric].short or metric for metric in CALIBRATED_METRICS}
_UNSTABLE = _object(dict, dict.fromkeys(("flipped", "of"), _whole(1, _MOST_ELEMENTS)), "flipped", "of")


def _tensor(elements: int, **found: Any) -> TensorLimits:
    unstable = found.get("unstable", {"flipped": 0, "of": elements})
    if not unstable["flipped"] <= unstable["of"] == elements:
        raise WrongValueError("unstable: 'of' must be the number of elements, and 'flipped' no more")
    metrics = {metric: found[short] for metric, short in _SHORT.items() if short in found}
    return TensorLimits(elements, found["class"], metrics, unstable["flipped"], found.get("chaotic", False))


def _tensor_parts(one: TensorLimits) -> dict[str, Any]:
    unstable = {"flipped": one.flipped, "of": one.elements} if one.flipped else None
    about = {"class": one.kind, "elements": one.elements, "unstable": unstable, "chaotic": one.chaotic}
    return about | {_SHORT[metric]: base for metric, base in one.metrics.items()}


_TENSOR = _object(
    _tensor,
    {
        "class": one_of(ASSUMED_MULTIPLIERS),
        "elements": _whole(0, _MOST_ELEMENTS),
        **dict.fromkeys(_SHORT.values(), _BASE),
        "unstable": optional(_UNSTABLE._replace(write=dict)),
        "chaotic": optional(FLAG, default=False),
    },
    *("class", "elements"),
    parts=_tensor_parts,
)


def _read_tensors(value: Any, where: str) -> dict[str, TensorLimits]:
    if not isinstance(value, dict) or len(value) > _MOST_TENSORS:
        raise expected(f"an object of at most {_MOST_TENSORS} tensors", value, where)
    if long := next((name for name in value if len(name) > _LONGEST_NAME), ""):
        raise ConfigError(f"{where} {long!r:.60}… is longer than any name of a tensor")
    return {name: _TENSOR.read(entry, f"{where} {name!r:.200}") for name, entry in value.items()}


def _limits(**found: Any) -> LimitsFile:
    if (version := found["metric_version"]) != METRIC_VERSION:
        raise WrongValueError(
            f"was made with version {version} of the metrics, and this is version {METRIC_VERSION}: their numbers "
            "differ; calibrate again"
        )
    # No base is below one rounding.
    most = 1 / (rounding_unit(found["reference"].dtype) or 2.0**-53)
    for kind, m in found["m"].items():
        if m >= most:
            raise WrongValueError(
                f"m {kind} = {m:g} is met by every tensor; give a number below {most:g}, or calibrate again"
            )
    return LimitsFile(
        reference=found["reference"],
        perturbed=found["perturb"],
        multipliers=found["m"],
        accepted=found.get("accepted", ()),
        tensors=found["tensors"],
        **found["m_from"],
    )


_LIMITS = _object(
    _limits,
    {
        "schema": _whole(_SCHEMA, _SCHEMA),
        "metric_version": _whole(0, _MOST_ITEMS),
        "method": one_of(("perturb",)),
        "reference": _object(
            ReferenceFacts,
            {
                **dict.fromkeys(MANIFEST_DIGESTS, optional(_DIGEST_TEXT, "")),
                **dict.fromkeys(("dtype", "framework"), optional(_TEXT, "")),
            },
        ),
        "perturb": _object(
            Perturbed,
            {
                "u": _SHARE,
                "runs": _whole(1, _MOST_ITEMS),
                "what": _TEXT,
                "seeds": _list(_whole(-(2**63), 2**64)),
                "coarse": _list(_SHARE),
                "golden": FLAG,
                "dtype": optional(one_of(tuple(name for name, fact in DTYPES.items() if fact.kind == "float")), ""),
            },
            "u",
        ),
        "m": _object(dict, dict.fromkeys(ASSUMED_MULTIPLIERS, _POSITIVE), *ASSUMED_MULTIPLIERS)._replace(write=dict),
        "m_from": _object(
            dict, {"controls": _whole(0, 2**31), "alpha": nullable(_SHARE)}, "controls", "alpha"
        )._replace(write=dict),
        "accepted": _list(_object(Accepted, {"date": _DAY, "reason": _TEXT}, "date", "reason")),
        "tensors": Form(_read_tensors, lambda tensors: {name: _TENSOR.write(one) for name, one in tensors.items()}),
    },
    *("schema", "metric_version", "method", "reference", "perturb", "m", "m_from", "tensors"),
    parts=lambda limits: {
        "schema": _SCHEMA,
        "metric_version": METRIC_VERSION,
        "method": "perturb",
        "reference": limits.reference,
        "perturb": limits.perturbed,
        "m": limits.multipliers,
        "m_from": {"alpha": limits.alpha, "controls": limits.controls},
        "accepted": limits.accepted,
        "tensors": limits.tensors,
    },
)
