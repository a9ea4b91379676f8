"""All checks of one dump: every tensor by itself, and every weight against the iteration before."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from operator import ge, gt, lt
from pathlib import Path

from pytest_msdump.capabilities.graphs.flow import consumers
from pytest_msdump.capabilities.inspect import check_facts as checks
from pytest_msdump.capabilities.inspect.check_facts import CHECKS
from pytest_msdump.capabilities.overflow.contents import Change, Contents, change, contents, contents_of_statistics
from pytest_msdump.capabilities.overflow.indexing import reported_overflows
from pytest_msdump.capabilities.overflow.opdebug import overflow_files
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import ConfigError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.operators import OPTIMIZERS
from pytest_msdump.core.model.describe import beside, index_text, number
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef
from pytest_msdump.core.text import Message, Parameter, plain_text

# The checks of one dump: which run with which thresholds, what they apply to, and what they find in the numbers.

_SWITCHES = {"on": True, "off": False}

_WEIGHT = re.compile(rf"(?:.*[._])?(?:{'|'.join(checks.WEIGHT_ENDINGS)})", re.DOTALL)
_SHIFT = re.compile(rf"(?:.*[._])?(?:{'|'.join(checks.SHIFT_ENDINGS)})", re.DOTALL)
_STATE = re.compile(rf"(?:{'|'.join(checks.OPTIMIZER_STATES)})[._].*", re.DOTALL)
_GRADIENT = re.compile(rf"(?:{'|'.join(checks.GRADIENT_SCOPES)})[/_].*", re.DOTALL)

_IS_CROSSED: Mapping[str, Callable[[float, float], bool]] = {"gt": gt, "ge": ge, "lt": lt}
_ENDS = ("range_start_inclusive", "range_end_inclusive")
_RANGE_CHECKS = tuple(name for name, fact in checks.CHECKS.items() if fact.family == "range")


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What a user set, thresholds by check and parameter, and checks on or off; the rest is as in `check_facts`."""

    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    def is_asked_for(self, check: str) -> bool:
        """Whether the user turned a check on, or set a threshold of it."""
        return self.switches.get(check) is True or any(name == check for name, _ in self.values)

    def parameters(self, check: str, op_type: str | None = None) -> Mapping[str, float] | None:
        """Return the parameters that a check runs with, of activations by type; ``None`` if off, or none is set."""
        if self.switches.get(check) is False:
            return None
        fact = checks.CHECKS[check]
        found = {name: value for name, value in fact.parameters.items() if value is not None}
        if fact.target == "activation":
            found |= checks.ACTIVATIONS.get((op_type or "").lower(), {})
        found |= {name: value for (own, name), value in self.values.items() if own == check}
        return found if found or not fact.parameters else None


def parse_settings(texts: Iterable[str]) -> CheckSettings:
    """Read ``CHECK.PARAMETER=NUMBER``, ``CHECK=on`` and ``CHECK=off``; of two about one thing the later one holds."""
    values: dict[tuple[str, str], float] = {}
    switches: dict[str, bool] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        check, _, parameter = name.partition(".")
        if not equals or not value:
            raise ConfigError(f"'{text}': write CHECK.PARAMETER=NUMBER, CHECK=on or CHECK=off")
        if check not in checks.CHECKS:
            raise UnknownNameError(f"'{text}': unknown check '{check}'; {nearest(check, checks.CHECKS)}")
        if parameter:
            values[check, parameter] = _threshold(text, check, parameter, value)
        elif value in _SWITCHES:
            switches[check] = _SWITCHES[value]
        else:
            raise ConfigError(f"'{text}': write {check}=on, {check}=off or {check}.PARAMETER={value}")
    return CheckSettings(values, switches)


def _threshold(text: str, check: str, parameter: str, value: str) -> float:
    known = checks.CHECKS[check].parameters
    if parameter not in known:
        tail = nearest(parameter, known) if known else f"it has none; write {check}=off to leave it out"
        raise UnknownNameError(f"'{text}': {check} has no parameter '{parameter}'; {tail}")
    try:
        number = float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"'{text}': '{value}' is not a number")
    return number


def is_weight(op: OpKey) -> bool:
    """Whether a Parameter is a weight, and not a network's input or an optimizer's state."""
    name = op.label.lower()
    return op.op_type == PARAMETER and bool(_WEIGHT.fullmatch(name)) and not _STATE.fullmatch(name)


def is_gradient(name: str) -> bool:
    """Whether an operator computes gradients, by its name."""
    return _GRADIENT.fullmatch(name.lower()) is not None


def is_optimizer(op_type: str | None) -> bool:
    """Whether an operator changes weights, by its type."""
    return (op_type or "").lower().startswith(OPTIMIZERS)


def is_training(operators: Iterable[tuple[str, str | None]]) -> bool:
    """Whether a run's weights are expected to change, by names and types of its operators."""
    return any(is_gradient(name) or is_optimizer(kind) for name, kind in operators)


def targets_of(key: TensorKey) -> tuple[str, ...]:
    """Return what a tensor is to the checks, the most specific first; the last is always ``"tensor"``."""
    op = key.op
    kinds = (
        ("weight", is_weight(op)),
        ("gradient", key.io == "output" and is_gradient(op.label)),
        ("activation", key.io == "output" and (op.op_type or "").lower() in checks.ACTIVATIONS),
    )
    return (*(name for name, applies in kinds if applies), "tensor")


def _is_shift(op: OpKey) -> bool:
    """Whether a weight is added, not multiplied."""
    return is_weight(op) and _SHIFT.fullmatch(op.label.lower()) is not None


def _may_be_zero(key: TensorKey) -> bool:
    """Whether a tensor may be all zeros: a weight that is added, or an output kept only for the operator's gradient."""
    first = checks.AUXILIARY_OUTPUTS.get((key.op.op_type or "").lower())
    return _is_shift(key.op) or (first is not None and key.io == "output" and key.slot >= first)


@dataclass(frozen=True, slots=True)
class Hit:
    """One check that one tensor does not pass."""

    check: str
    ref: TensorRef
    message: Message
    parameter: str | None = None
    value: float | None = None
    threshold: float | None = None
    where: tuple[int, ...] | None = None
    previous: TensorRef | None = None


def ranges_of(key: TensorKey, settings: CheckSettings) -> tuple[tuple[float, float], ...]:
    """Return the ranges whose elements `hits_of_contents` needs counted, in its order."""
    return tuple(
        (parameters.get(_ENDS[0], -math.inf), parameters.get(_ENDS[1], math.inf))
        for _, parameters in _range_checks(key, settings)
    )


def _range_checks(key: TensorKey, settings: CheckSettings) -> Iterator[tuple[str, Mapping[str, float]]]:
    targets = targets_of(key)
    for check in _RANGE_CHECKS:
        parameters = settings.parameters(check, key.op.op_type) if checks.CHECKS[check].target in targets else None
        if not parameters:
            continue
        if not set(_ENDS) <= set(parameters) and any(name.startswith("range_percentage") for name in parameters):
            raise ConfigError(
                f"{check}: a share of elements in a range needs both ends of it; set "
                f"{check}.range_start_inclusive and {check}.range_end_inclusive"
            )
        yield check, parameters


def hits_of_contents(ref: TensorRef, found: Contents, settings: CheckSettings, *, is_initial: bool) -> Iterator[Hit]:
    """Yield the hits of one tensor by itself, in the order of `check_facts.CHECKS`; none if it is empty."""
    # Unless a check was asked for, bools and single integers may be zero, as masks, axes and counters often are, and so
    # may weights that are added and outputs kept for the gradient.
    if not found.elements:
        return
    targets = targets_of(ref.key)
    quantities = _quantities(found)
    overflows = False
    for check, fact in checks.CHECKS.items():
        parameters = settings.parameters(check, ref.key.op.op_type) if fact.target in targets else None
        if parameters is None:
            continue
        if fact.family == "overflow" and not overflows and found.nan + found.inf:
            overflows = True
            yield _overflow(check, ref, found)
        elif _applies(fact.family, found, is_initial=is_initial) and (
            fact.family == "bounds" or settings.is_asked_for(check) or not _may_be_zero(ref.key)
        ):
            yield from _crossings(check, ref, quantities, parameters)
    for place, (check, parameters) in enumerate(_range_checks(ref.key, settings)):
        share = {} if found.within is None else {"range_percentage": 100.0 * found.within[place] / found.elements}
        for hit in _crossings(check, ref, {**quantities, **share}, parameters):
            if (hit.parameter or "").startswith("range_percentage"):
                low, high = (number(parameters[name], 9) for name in _ENDS)
                hit = replace(hit, message=Message("crossed_range", {"why": hit.message, "low": low, "high": high}))
            yield hit


def _applies(family: str, found: Contents, *, is_initial: bool) -> bool:
    """Whether thresholds of a family of checks are held against this tensor's numbers."""
    if family == "initial":
        return is_initial
    if family == "zero":
        kind = DTYPES[found.dtype].kind
        return kind != "bool" and (kind in ("float", "complex") or found.elements > 1)
    return family == "bounds"


def _quantities(found: Contents) -> Mapping[str, float]:
    known = {
        "abs_mean": found.abs_mean,
        "max": found.maximum,
        "min": found.minimum,
        "mean": found.mean,
        "zero_percentage": None if found.zero is None else 100.0 * found.zero / found.elements,
    }
    if found.maximum is not None and found.minimum is not None:
        known["max_min"] = found.maximum - found.minimum
    return {name: value for name, value in known.items() if value is not None}


def _overflow(check: str, ref: TensorRef, found: Contents) -> Hit:
    kinds = ((found.nan, "NaN"), (found.inf, "Inf"))
    counts = tuple(Message("of_kind", {"n": count, "kind": kind}) for count, kind in kinds if count)
    first = found.first_nonfinite
    where = None if first is None else Message("then_first", {"place": index_text(first)})
    message = Message("nonfinite_of", {"counts": counts, "n": found.elements, "where": where})
    return Hit(check, ref, message, value=float(found.nan + found.inf), threshold=0.0, where=found.first_nonfinite)


def _crossings(
    check: str, ref: TensorRef, quantities: Mapping[str, float], parameters: Mapping[str, float]
) -> Iterator[Hit]:
    """Yield a hit for each threshold that a quantity is on the wrong side of."""
    for name, threshold in parameters.items():
        quantity, _, suffix = name.rpartition("_")
        if quantity not in checks.QUANTITIES or quantity not in quantities:
            continue
        value = quantities[quantity]
        if _IS_CROSSED[suffix](value, threshold):
            shown, limit = beside(value, threshold)
            unit = " %" if quantity.endswith("percentage") else ""
            about: dict[str, Parameter] = {
                "quantity": Message(f"quantity_{quantity}"),
                "value": f"{shown}{unit}",
                "name": name,
                "limit": limit,
            }
            yield Hit(check, ref, Message("crossed", about), name, value, threshold)


def hits_of_change(ref: TensorRef, previous: TensorRef, found: Change, settings: CheckSettings) -> Iterator[Hit]:
    """Yield the hits of a weight against its value an iteration before."""
    # The first step from initial values may be of any size, and so may steps of added weights, which begin at 0.
    if not found.elements:
        return
    since: dict[str, Parameter] = {"iteration": previous.key.op.at.iteration}
    unchanged = settings.parameters("weight_not_changed")
    if unchanged is not None and not found.moved:
        tolerance = f"rtol={number(unchanged['rtol'])}, atol={number(unchanged['atol'])}"
        about: dict[str, Parameter] = {"largest": found.largest, "n": found.elements, "tolerance": tolerance}
        message = Message("hardly_changed" if found.largest else "unchanged", {**since, **about})
        yield Hit("weight_not_changed", ref, message, "rtol", found.largest, unchanged["rtol"], previous=previous)
        return
    is_free = previous.key.op.at.iteration == 0 or _is_shift(ref.key.op)
    for check, fact in checks.CHECKS.items():
        parameters = settings.parameters(check) if fact.family == "change" else None
        ratio = found.ratio(parameters["epsilon"]) if parameters else None
        if parameters is None or ratio is None or (is_free and not settings.is_asked_for(check)):
            continue
        for hit in _crossings(check, ref, {"abs_mean_update_ratio": ratio}, parameters):
            yield replace(hit, message=Message("crossed_since", {"why": hit.message, **since}), previous=previous)


_OF_CHANGES = tuple(name for name, fact in CHECKS.items() if fact.family in ("unchanged", "change"))
_OF_ZEROS = ("tensor_all_zero", "gradient_vanishing")
# Statistics that show NaN and Inf.
_OF_OVERFLOW = frozenset({"nan_count", "negative_inf_count", "positive_inf_count", "l2_norm"})
_DEFAULT = CheckSettings()


@dataclass(frozen=True)
class Checked:
    """The result of all checks of one dump."""

    dump: Dump
    hits: tuple[Hit, ...]
    tensors: int
    weights: int
    steps: int
    unreadable: tuple[tuple[TensorRef, str], ...] = ()
    notes: tuple[Message, ...] = ()
    reports: tuple[tuple[Path, Message], ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether there was a tensor, all could be read, and no check hit."""
        return bool(self.tensors) and not (self.hits or self.unreadable or self.reports)


def check_dump(dump: Dump, settings: CheckSettings = _DEFAULT, *, watch: Watch = unwatched) -> Checked:
    """Run all checks on one dump."""
    hits: list[Hit] = list(_device_hits(dump, settings))
    unreadable: list[tuple[TensorRef, str]] = []
    with_outputs = {ref.key.op for ref in dump.refs if ref.key.io == "output"}
    for ref in watch(dump.refs, "tensors"):
        found = _check_tensor(ref, settings)
        if isinstance(found, str):
            unreadable.append((ref, found))
        elif ref.key.io == "output" or ref.key.op not in with_outputs:
            hits += found
        else:
            hits += (hit for hit in found if CHECKS[hit.check].family == "overflow")
    hits = _without_cancelled(dump, hits, settings)
    cannot_be_read = {ref for ref, _ in unreadable}
    weights = [ref for ref in dump.refs if is_weight(ref.key.op)]
    seen = [ref for ref in weights if ref not in cannot_be_read and not ref.is_unseen]
    steps, note = _steps(dump, seen, settings)
    for ref, previous in watch(list(steps), "weights"):
        change_hits = _check_change(ref, previous, settings)
        if isinstance(change_hits, str):
            unreadable.append((ref, change_hits))
        else:
            hits += change_hits
    return Checked(
        dump=dump,
        hits=tuple(_sorted_hits(dump, hits)),
        tensors=len(dump.refs) - len(cannot_be_read),
        weights=len(weights),
        steps=len(steps),
        unreadable=tuple(unreadable),
        notes=(*_notes_on_statistics(dump), *note),
        reports=tuple(_reports(dump, settings)),
    )


def _without_cancelled(dump: Dump, hits: list[Hit], settings: CheckSettings) -> list[Hit]:
    """Leave out zeros of the backward pass, and zero scalars, that are added to something else in the end."""
    # The gradient of a maximum that is subtracted again is 0, and so is all that is computed from it until it is added
    # to the gradient that counts; a term of a loss with factor 0 is a scalar. Zeros up to an optimizer stay.
    zeros = {
        hit.ref.key.op.label
        for hit in hits
        if hit.check in _OF_ZEROS and hit.ref.key.io == "output" and not settings.is_asked_for(hit.check)
    }
    if not zeros:
        return hits
    operators = {operator.name: operator for _, graph in dump.graphs for operator in graph.operators}
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for _, graph in dump.graphs:
        for edge, inputs in consumers(graph).items():
            readers[edge.producer].update(name for name, _ in inputs)
    cancelled: set[str] = set()
    # From the last operator to the first: what reads an operator is decided before the operator itself.
    for name, operator in reversed(operators.items()):
        following = readers[name]
        is_scalar = bool(operator.host_outputs) and all(spec and spec.shape == () for spec in operator.host_outputs)
        is_term = is_scalar or is_gradient(name) or all(map(is_gradient, following))
        is_open = any(
            one not in operators or is_optimizer(operators[one].op_type) or (one in zeros and one not in cancelled)
            for one in following
        )
        if name in zeros and following and is_term and not is_open:
            cancelled.add(name)
    return [
        hit
        for hit in hits
        if hit.check not in _OF_ZEROS or settings.is_asked_for(hit.check) or hit.ref.key.op.label not in cancelled
    ]


def _notes_on_statistics(dump: Dump) -> Iterator[Message]:
    unseen = [ref for ref in dump.refs if ref.is_unseen]
    if unseen:
        yield Message("only_statistics", {"n": len(unseen)})
    blind = [ref for ref in unseen if not _OF_OVERFLOW & set(ref.statistics.values if ref.statistics else ())]
    if blind:
        yield Message("blind_statistics", {"n": len(blind)})


def _device_hits(dump: Dump, settings: CheckSettings) -> Iterator[Hit]:
    """Yield a hit for each operator and entry of the device's own check."""
    if settings.parameters("operator_overflow") is None:
        return
    for ref in {ref.key.op: ref for ref in reversed(dump.refs) if ref.overflows}.values():
        for entry in ref.overflows:
            yield Hit("operator_overflow", ref, entry.message)


def _reports(dump: Dump, settings: CheckSettings) -> Iterator[tuple[Path, Message]]:
    """Yield entries of the device's own check without a dumped operator, and files that cannot be read."""
    if settings.parameters("operator_overflow") is None:
        return
    files = overflow_files(dump.root) if dump.root.is_dir() else ()
    yield from ((file.path, plain_text(file.problem)) for file in files if file.problem)
    for report in reported_overflows(dump, files):
        if not report.refs:
            yield report.file.path, Message("nothing_dumped_of_it", {"why": report.entry.message})


def _check_tensor(ref: TensorRef, settings: CheckSettings) -> Sequence[Hit] | str:
    is_initial = ref.key.op.at.iteration == 0
    if ref.is_unseen:
        values = ref.statistics.values if ref.statistics else {}
        elements = None if ref.spec.shape is None else math.prod(ref.spec.shape)
        saved = contents_of_statistics(values, elements=elements, dtype=ref.spec.dtype or "undefined")
        if saved is None:
            return "the table of statistics does not say how many elements it has"
        return tuple(hits_of_contents(ref, saved, settings, is_initial=is_initial))
    try:
        with closing(open_logical(ref)) as view:
            found = contents(view, ranges=ranges_of(ref.key, settings))
            return tuple(hits_of_contents(ref, found, settings, is_initial=is_initial))
    except ConfigError:
        raise
    except (MsdumpError, OSError) as error:
        return str(error)


def _steps(
    dump: Dump, weights: Sequence[TensorRef], settings: CheckSettings
) -> tuple[Sequence[tuple[TensorRef, TensorRef]], tuple[Message, ...]]:
    """Return each weight with its ref an iteration before, or why there is none to check."""
    if all(settings.parameters(check) is None for check in _OF_CHANGES):
        return (), ()
    if not weights:
        return (), (Message("no_weight"),)
    histories: defaultdict[tuple[object, ...], list[TensorRef]] = defaultdict(list)
    for ref in weights:
        key, at = ref.key, ref.key.op.at
        if at.iteration is not None:
            histories[key.op.name, key.io, key.slot, at.rank, at.net, at.graph, at.occurrence].append(ref)
    steps: list[tuple[TensorRef, TensorRef]] = []
    for refs in histories.values():
        refs.sort(key=lambda ref: ref.key.op.at.iteration or 0)
        steps += zip(refs[1:], refs, strict=False)
    if not steps:
        return (), (Message("one_iteration"),)
    if not is_training(_operators(dump)) and not any(map(settings.is_asked_for, _OF_CHANGES)):
        return (), (Message("no_training"),)
    return steps, ()


def _operators(dump: Dump) -> Iterator[tuple[str, str | None]]:
    yield from ((ref.key.op.label, ref.key.op.op_type) for ref in dump.refs)
    yield from ((operator.name, operator.op_type) for _, graph in dump.graphs for operator in graph.operators)


def _check_change(ref: TensorRef, previous: TensorRef, settings: CheckSettings) -> Iterable[Hit] | str:
    tolerance = settings.parameters("weight_not_changed") or CHECKS["weight_not_changed"].parameters
    try:
        with ExitStack() as stack:
            current, before = (stack.enter_context(closing(open_logical(each))) for each in (ref, previous))
            found = change(
                current,
                before,
                rtol=tolerance["rtol"] or 0.0,
                atol=tolerance["atol"] or 0.0,
                equal_nan=bool(tolerance["equal_nan"]),
            )
    except (MsdumpError, OSError) as error:
        return str(error)
    return hits_of_change(ref, previous, found, settings)


def _sorted_hits(dump: Dump, hits: Iterable[Hit]) -> Sequence[Hit]:
    places: dict[OpKey, int] = {}
    for ref in dump.refs:
        places.setdefault(ref.key.op, len(places))
    checks = tuple(CHECKS)
    return sorted(hits, key=lambda hit: (places[hit.ref.key.op], checks.index(hit.check)))
