"""Pairs that are alike: of a network's many small tensors there are few kinds, and most pairs of a kind pass.

What all pairs of a kind have in common is worked out with the first of them: how their elements lie in the files, what
they are measured by, which limits they have, and what a record says of one that passes. Of each pair, then, two files
are read, numbers are measured and held against limits. The compiled kernel measures one pair after the other, and numpy
is not loaded; numpy measures several at a time. Whatever is not usual in a pair, is left to `pipeline.comparing`: what
is wrong with a file, a metric without a number, a limit that is not met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_msdump.compiled import chosen
from pytest_msdump.errors import MsdumpError
from pytest_msdump.judging.judgement import meets
from pytest_msdump.judging.resolve import resolve
from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.metrics.terms import KINDS, MOST_AXES, terms_of
from pytest_msdump.model.numbers import FIRST_METRIC, RIGHT_ZERO, SATURATED, comparison_of, metrics_of
from pytest_msdump.model.report import Record
from pytest_msdump.pipeline.indexing import reader
from pytest_msdump.pipeline.logical import course_of
from pytest_msdump.pipeline.opinion import opinion_of
from pytest_msdump.reporting.formed import FormedRecord
from pytest_msdump.reporting.record_names import names_of
from pytest_msdump.reporting.records import form_of

if TYPE_CHECKING:
    from pytest_msdump.memory_formats.blocks import Placement
    from pytest_msdump.metrics.terms import Terms
    from pytest_msdump.model.numbers import Numbers
    from pytest_msdump.model.pairing import Pair, Transform
    from pytest_msdump.model.tensor import TensorSpec
    from pytest_msdump.model.verdict import Limits
    from pytest_msdump.pipeline.conditions import Conditions
    from pytest_msdump.pipeline.extras import Extras
    from pytest_msdump.readers.whole import TensorKind
    from pytest_msdump.reporting.formed import Form

__all__ = ["Contents", "Kinds", "entries_of_usual"]

# Pairs of a network have few kinds; those of many kinds are soon worked out again.
_MOST_KINDS = 4096

# As `metrics.measure` finds them.
_WORST = 5


class Kinds:
    """The kinds of pairs that were met. Empty where it is sent to."""

    __slots__ = ("_are_possible", "_known")

    def __init__(self) -> None:
        self._are_possible: bool | None = None
        self._known: dict[tuple[TensorKind, TensorKind, int, int], _Known] = {}

    def __reduce__(self) -> tuple[type[Kinds], tuple[()]]:
        return Kinds, ()

    def are_possible(self, extras: Extras) -> bool:
        """Whether there can be usual pairs: nothing is wanted that only some pairs have."""
        if self._are_possible is None:
            is_plain = extras.first is None and extras.spread == "none" and not extras.converters
            self._are_possible = is_plain and not extras.algorithms
        return self._are_possible

    def of(self, pair: Pair, left: TensorKind, right: TensorKind, conditions: Conditions) -> _Kind | None:
        """Return the kind of a pair; ``None`` where it is not usual."""
        policy, limits = conditions.policy, None
        if policy.rules or policy.known_drift:
            limits = _limits(pair, left, right, conditions)
        # Both are the same objects in very many pairs; they are held, so that nothing else can have their numbers.
        key = left, right, id(pair.transform), id(limits)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            kind = _kind(pair, left, right, limits or _limits(pair, left, right, conditions))
            known = self._known[key] = kind, pair.transform, limits
        return known[0]


class _Kind:
    """What pairs of a kind have in common.

    Parameters
    ----------
    told : callable
        Measures some, and tells of each what `model.numbers` knows; ``None`` of one that is not usual.
    limits : Limits
        What they are judged by; a passing pair meets all of them.
    left, right : str
        Logical data types.
    specs : tuple of TensorSpec
        What is told of both sides.
    """

    __slots__ = ("_bounds", "_forms", "_limits", "_sides", "_specs", "told")

    def __init__(
        self, told: _Told, limits: Limits, sides: tuple[str, str], specs: tuple[TensorSpec, TensorSpec]
    ) -> None:
        self.told = told
        self._limits, self._sides, self._specs = limits, sides, specs
        places = {name: FIRST_METRIC + place for place, name in enumerate(metrics_of(*sides))}
        self._bounds = [(places[limit.metric], limit) for limit in limits.limits]
        self._forms: dict[tuple[int, bool], Form | None] = {}

    def record(self, pair: Pair, which: int, numbers: Numbers, conditions: Conditions) -> FormedRecord | None:
        """Return the record of a pair of which this was told; ``None`` where there is more to say of it."""
        if numbers[RIGHT_ZERO] or numbers[SATURATED]:
            return None
        for place, limit in self._bounds:
            if not meets(numbers[place], limit):
                return None
        key = which, pair.left.line is not None
        if key not in self._forms:
            self._forms[key] = self._form(pair, which, numbers)
        form = self._forms[key]
        if form is None:
            return None
        left, right = self._specs
        names = names_of(pair, left, right, left_root=conditions.left_root, right_root=conditions.right_root)
        return FormedRecord(form, pair.order, names, numbers, None, pair)

    def _form(self, pair: Pair, which: int, numbers: Numbers) -> Form | None:
        """Return what the records of all pairs have in common of which the same numbers are told."""
        (left, right), limits = self._sides, self._limits
        comparison = comparison_of(which, numbers, left=left, right=right, tolerance=(limits.rtol, limits.atol))
        verdict, checks = opinion_of(pair, comparison, limits, left, right)
        if verdict.outcome != "pass":
            return None
        return form_of(Record(pair, *self._specs, verdict, limits, checks, comparison), numbers)


# Of each side the content of a file, and the byte of it where the tensor begins.
Contents: TypeAlias = tuple[bytes, int, bytes, int]

# A kind, and what its key is made of.
_Known: TypeAlias = "tuple[_Kind | None, Transform, Limits | None]"
_Told: TypeAlias = "Callable[[Sequence[Contents]], Iterable[tuple[int, Numbers] | None]]"


def entries_of_usual(pairs: Sequence[Pair], conditions: Conditions) -> list[Mapping[str, Any] | None]:
    """Compare the usual ones among some pairs, and return their records; ``None`` of each other pair.

    What it returns is what `pipeline.comparing` and `reporting.records` make of a pair.
    """
    found: list[Mapping[str, Any] | None] = [None] * len(pairs)
    if not conditions.kinds.are_possible(conditions.extras):
        return found
    kinds: dict[_Kind, list[int]] = {}
    contents: dict[int, Contents] = {}
    for number, pair in enumerate(pairs):
        usual = _read(pair, conditions)
        if usual is not None:
            kind, contents[number] = usual
            kinds.setdefault(kind, []).append(number)
    for kind, numbers in kinds.items():
        told_of_each = kind.told([contents[number] for number in numbers])
        for number, told in zip(numbers, told_of_each, strict=True):
            found[number] = None if told is None else kind.record(pairs[number], *told, conditions)
    return found


def _read(pair: Pair, conditions: Conditions) -> tuple[_Kind, Contents] | None:
    """Read both files of a usual pair."""
    left_ref, right_ref = pair.left, pair.right
    if pair.note:
        return None
    for ref in (left_ref, right_ref):
        if ref.sample is not None or ref.overflows:
            return None
    try:
        left = reader(left_ref.reader).open_whole(left_ref)
        right = None if left is None else reader(right_ref.reader).open_whole(right_ref)
    except (MsdumpError, OSError):
        # It is told where it is met again.
        return None
    if left is None or right is None:
        return None
    kind = conditions.kinds.of(pair, left.kind, right.kind, conditions)
    return None if kind is None else (kind, (left.content, left.start, right.content, right.start))


def _limits(pair: Pair, left: TensorKind, right: TensorKind, conditions: Conditions) -> Limits:
    keys = pair.left.key, pair.right.key
    return resolve(conditions.policy, left=keys[0], right=keys[1], left_dtype=left.dtype, right_dtype=right.dtype)


def _kind(pair: Pair, left: TensorKind, right: TensorKind, limits: Limits) -> _Kind | None:
    """Return what pairs of these kinds have in common."""
    course = course_of(left.spec, left.shape, right.spec, right.shape, pair.transform)
    if course is None or not course.meet or limits.known_drift is not None or limits.without:
        return None
    sides = left.dtype, right.dtype
    terms = terms_of(*sides, (KINDS.index(left.dtype), KINDS.index(right.dtype)), (limits.rtol, limits.atol), _WORST)
    shape = left.shape if course.left is None else course.left.shape
    has_all = {limit.metric for limit in limits.limits} <= set(metrics_of(*sides))
    if terms is None or not has_all or len(shape) > MOST_AXES or 0 in shape:
        return None
    told = _told(terms, shape, course.left, course.right)
    specs = _logical(left.spec, course.left), _logical(right.spec, course.right)
    return None if told is None else _Kind(told, limits, sides, specs)


def _told(terms: Terms, shape: tuple[int, ...], left: Placement | None, right: Placement | None) -> _Told | None:
    """Return what measures pairs of a kind; ``None`` where that is done otherwise."""
    module = chosen().module
    if module is None:
        from pytest_msdump.pipeline.side_by_side import SideBySide

        by_numpy = SideBySide.of(terms, shape, left, right)
        return None if by_numpy is None else by_numpy.numbers
    layouts = _layout(left), _layout(right)
    return None if None in layouts else partial(starmap, module.Alike(terms, shape, *layouts).numbers)


def _layout(placement: Placement | None) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    return (0, ()) if placement is None else placement.strides


def _logical(spec: TensorSpec, placement: Placement | None) -> TensorSpec:
    return spec if placement is None else replace(spec, logical_shape=placement.shape)
