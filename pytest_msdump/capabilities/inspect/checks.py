"""All checks of one dump: every tensor by itself, and every weight against the iteration before."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.capabilities.inspect.hits import (
    CheckSettings,
    Hit,
    hits_of_change,
    hits_of_contents,
    is_gradient,
    is_optimizer,
    is_training,
    is_weight,
    ranges_of,
)
from pytest_msdump.capabilities.overflow.contents import change, contents, contents_of_statistics
from pytest_msdump.capabilities.overflow.indexing import reported_overflows
from pytest_msdump.capabilities.overflow.opdebug import overflow_files
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.facts.checks import CHECKS
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import OpKey, TensorRef
from pytest_msdump.core.text import Message, plain_text
from pytest_msdump.dumps.graphs.flow import consumers

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
