"""Pairing two dumps: all ways in their order, then the selection, then what is left and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

from pytest_msdump.facts.operators import WRITTEN_INPUTS
from pytest_msdump.matching.coordinates import Align, Meeting, Wanted, meeting_of, raw_key, wanted_by_selection
from pytest_msdump.matching.names import pair_by_mangled_name, pair_by_name
from pytest_msdump.matching.pairing_state import Ledger, Made
from pytest_msdump.matching.selection import Chooser, Selection
from pytest_msdump.matching.sides import Side, index_side
from pytest_msdump.model.pairing import Missing, Pair, Pairing, Transform, Unmatched
from pytest_msdump.text import Message, in_clauses

if TYPE_CHECKING:
    from pytest_msdump.matching.addresses import Lost, MapEntry
    from pytest_msdump.matching.explain import Explainer
    from pytest_msdump.matching.not_dumped import Absence
    from pytest_msdump.matching.rules import FusionRules
    from pytest_msdump.model.dump import Dump
    from pytest_msdump.model.tensor import Coordinates, TensorRef

__all__ = ["pair_dumps"]

_SINGLE_FILE = "npy-file"
_MINDSPORE = "mindspore"

_AS_NUMBERED = Align()
_ALL_OUTPUTS = Selection()


def pair_dumps(
    left: Dump,
    right: Dump,
    *,
    entries: Sequence[MapEntry] = (),
    rules: FusionRules | None = None,
    align: Align = _AS_NUMBERED,
    selection: Selection = _ALL_OUTPUTS,
    left_format: str | None = None,
    right_format: str | None = None,
) -> Pairing:
    """Find out who is compared with whom.

    Parameters
    ----------
    left, right : Dump
        The run under test and the reference.
    entries : sequence of MapEntry
        Pairs that a person named; they win over everything else.
    rules : FusionRules, optional
        What rule files say; they win over names. `advice.rules_for` tells whether they are the right ones.
    align : Align
        Which left coordinates meet which right ones.
    selection : Selection
        What is asked for.
    left_format, right_format : str, optional
        Axis order of the side's 4-D tensors, carried by each pair but those whose entry has a `transpose`.

    Returns
    -------
    Pairing
        The same for the same input: pairs by place of the left operator, inputs before outputs, slot, right place.

    Raises
    ------
    ConfigError
        Two entries name one left tensor.

    Notes
    -----
    Pairs are made within the same coordinates, as `align` says. A coordinate that a tensor does not have meets any
    value. A rank, net, graph or iteration of which each side has exactly one value is a label, not a key; occurrences
    always are keys.
    """
    meeting = meeting_of(left, right, align)
    wanted = wanted_by_selection(selection)
    ledger = Ledger(
        *_sides(left, right, selection, meeting, wanted), trusts_files=bool(left.graphs) != bool(right.graphs)
    )
    formats = Transform(left_format, right_format)
    lost: list[Lost] = []
    if entries:
        from pytest_msdump.matching.mapped import pair_by_map

        lost += pair_by_map(ledger, entries, meeting=meeting, selected=wanted, formats=formats)
    if left.reader == right.reader == _SINGLE_FILE:
        _pair_files(ledger, formats)
    if rules is not None:
        from pytest_msdump.matching.fused import pair_by_rules

        lost += pair_by_rules(ledger, rules, formats)
    pair_by_name(ledger, formats)
    pair_by_mangled_name(ledger, formats)
    return _told(left, right, ledger, lost, _Taste(selection, meeting, wanted))


def _sides(left: Dump, right: Dump, selection: Selection, meeting: Meeting, wanted: Wanted) -> tuple[Side, Side]:
    return (
        index_side(
            "left",
            left.refs,
            directions=selection.directions,
            meeting=meeting.left_key,
            keeps=lambda at: meeting.wants_left(at, wanted),
        ),
        index_side(
            "right",
            right.refs,
            directions=selection.directions,
            meeting=meeting.right_key,
            keeps=lambda at: meeting.wants_right(at, wanted),
        ),
    )


def _pair_files(ledger: Ledger, formats: Transform) -> None:
    """Two files are one pair, whatever they are called."""
    if any(len(side.refs) != 1 or not side.ops[0].kept for side in (ledger.left, ledger.right)):
        return
    if not ledger.made and not ledger.held:
        ledger.record(Made(0, 0, "file", "two files", formats))


class _Taste:
    """What of a finished pairing the user wants to see."""

    def __init__(self, selection: Selection, meeting: Meeting, wanted: Wanted) -> None:
        self.chooser = Chooser(selection)
        self._selection = selection
        self.meeting = meeting
        self._wanted = wanted

    def older(self, side: str, dump: Dump) -> Iterable[Unmatched]:
        wants = self.meeting.wants_left if side == "left" else self.meeting.wants_right
        for ref in dump.older:
            asked = ref.key.io in self._selection.directions and wants(raw_key(ref.key.op.at), self._wanted)
            if asked and self.chooser.takes_ref(ref):
                yield Unmatched(side, ref, Message("older_run"))


def _told(left: Dump, right: Dump, ledger: Ledger, lost: Sequence[Lost], taste: _Taste) -> Pairing:
    pairs = taste.chooser.taken(_pairs(ledger))
    told = _Told()
    # Why a tensor is alone takes more to find out than who is whose partner.
    if lost or any(True for side in (ledger.left, ledger.right) for _ in ledger.alone(side)):
        told = _explained(left, right, ledger, lost, taste)
    # By identity: two right tensors may share their key, and each is one to be covered.
    paired = len({id(pair.right) for pair in pairs})
    return Pairing(
        pairs=tuple(pairs),
        unmatched_left=(*told.left, *taste.older("left", left)),
        unmatched_right=(*told.right, *taste.older("right", right)),
        missing=tuple(one for one in told.missing if taste.chooser.takes_missing(one)),
        right_total=paired + len(told.right),
        right_paired=paired,
        notes=taste.meeting.notes,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What is not paired, each with its reason."""

    left: Sequence[Unmatched] = ()
    right: Sequence[Unmatched] = ()
    missing: Sequence[Missing] = ()


def _explained(left: Dump, right: Dump, ledger: Ledger, lost: Sequence[Lost], taste: _Taste) -> _Told:
    from pytest_msdump.matching.explain import Explainer
    from pytest_msdump.matching.not_dumped import Absence

    absences = {"left": Absence("left", left, taste.meeting.arrows), "right": Absence("right", right)}
    because = {one.why: told for one in lost if (told := _because(one, absences))}
    lost = [replace(one, why=because.get(one.why, one.why)) for one in lost]
    explainer = Explainer(ledger, absences, because)
    return _Told(
        list(explainer.unmatched(ledger.left, taste.chooser.takes_ref)),
        list(explainer.unmatched(ledger.right, taste.chooser.takes_ref)),
        [_missing(one, ledger, explainer) for one in lost],
    )


def _pairs(ledger: Ledger) -> list[Pair]:
    left, right = ledger.left, ledger.right
    times = {side.name: _times(side.refs) for side in (left, right)}
    is_repeated = any(times.values())
    pairs: list[Pair] = []
    for made in ledger.made:
        one, other, order = left.refs[made.left], right.refs[made.right], left.op_of[made.left]
        key = one.key
        may_need_note = is_repeated or key.io == "input" or other.key.io == "input"
        note = _note(one, other, times) if may_need_note else None
        pairs.append(Pair(one, other, made.how, made.by, made.transform, order, note))
    if is_repeated:
        pairs = _with_uncompared(pairs, ledger)
    # Rules pair operator by operator, each of which mostly has one tensor.
    orders = [pair.order for pair in pairs]
    if all(map(lt, orders, islice(orders, 1, None))):
        return pairs
    ranks = [(pair.order, pair.left.key.io, pair.left.key.slot) for pair in pairs]
    # Hardly any two pairs share their left tensor, and only for these the right one decides.
    if len(set(ranks)) < len(pairs):
        return sorted(pairs, key=_rank_of)
    return [pairs[number] for number in sorted(range(len(pairs)), key=ranks.__getitem__)]


def _with_uncompared(pairs: list[Pair], ledger: Ledger) -> list[Pair]:
    """Say of the last compared occurrence of a tensor how many others, selected as well, met no partner."""
    alone = [
        Counter(_without_occurrence(side.refs[ref]) for ref in ledger.alone(side))
        for side in (ledger.left, ledger.right)
    ]
    if not any(alone):
        return pairs
    last: tuple[dict[tuple[object, ...], int], ...] = ({}, {})
    keys = [tuple(map(_without_occurrence, (pair.left, pair.right))) for pair in pairs]
    for pair, key in zip(pairs, keys, strict=True):
        for side, ref in enumerate((pair.left, pair.right)):
            last[side][key[side]] = max(ref.key.op.at.occurrence or 0, last[side].get(key[side], 0))
    found: list[Pair] = []
    for pair, key in zip(pairs, keys, strict=True):
        left, right = (
            alone[side][key[side]] if (ref.key.op.at.occurrence or 0) == last[side][key[side]] else 0
            for side, ref in enumerate((pair.left, pair.right))
        )
        found.append(replace(pair, uncompared=(left, right)) if left or right else pair)
    return found


def _times(refs: Sequence[TensorRef]) -> Mapping[tuple[object, ...], int]:
    """Count how often each tensor is there but for its occurrence; empty where each is there once."""
    # Where no operator is there twice, no tensor is.
    if len({ref.key.op.name for ref in refs}) == len(refs):
        return {}
    tensors = list(map(_without_occurrence, refs))
    return Counter(tensors) if len(set(tensors)) < len(tensors) else {}


def _without_occurrence(ref: TensorRef) -> tuple[object, ...]:
    op = ref.key.op
    at = op.at
    return (op.name, op.op_type, op.true_name, ref.key.io, ref.key.slot, at.rank, at.net, at.graph, at.iteration)


def _note(left: TensorRef, right: TensorRef, times: Mapping[str, Mapping[tuple[object, ...], int]]) -> Message | None:
    """Return what is to be said with the pair's verdict, whatever it is."""
    told = [*_repeats(left, right, times), _written("left", left), _written("right", right)]
    return in_clauses(*told) if any(told) else None


def _written(side: str, ref: TensorRef) -> Message | None:
    """Return that an input was dumped after its operator had written to it."""
    key = ref.key
    if ref.reader != _MINDSPORE or key.io != "input" or key.slot not in WRITTEN_INPUTS.get(key.op.op_type or "", ()):
        return None
    return Message("written_input", {"type": key.op.op_type, "slot": key.slot, "side": side})


def _repeats(left: TensorRef, right: TensorRef, times: Mapping[str, Mapping[tuple[object, ...], int]]) -> list[Message]:
    """Return which of several this is, where the sides do not have the tensor as often: one of them may be stale."""
    if not (times["left"] or times["right"]):
        return []
    ours = times["left"].get(_without_occurrence(left), 1)
    theirs = times["right"].get(_without_occurrence(right), 1)
    if ours == theirs:
        return []
    counts = {"left": ours, "right": theirs}
    return [
        Message("repeated_tensor", {"side": side, "n": count, "occurrence": ref.key.op.at.occurrence or 0})
        for (side, count), ref in zip(counts.items(), (left, right), strict=True)
        if count > 1
    ]


def _rank_of(pair: Pair) -> tuple[int, str, int, tuple[tuple[bool, int | str], ...], str, int]:
    # "input" sorts before "output" by its first letter.
    left, right = pair.left.key, pair.right.key
    return (pair.order, left.io, left.slot, _sortable(right.op.at), right.io, right.slot)


def _sortable(at: Coordinates) -> tuple[tuple[bool, int | str], ...]:
    return tuple((value is not None, 0 if value is None else value) for value in raw_key(at))


def _because(lost: Lost, absences: Mapping[str, Absence]) -> Message | None:
    """Return the reason with why a side does not have what was asked for; ``None`` where its run does not say."""
    from pytest_msdump.matching.addresses import parse_address

    texts = {"left": lost.entry.left, "right": lost.entry.right}
    addresses = {side: parse_address(texts[side]) for side in lost.absent}
    told = [absences[side].of_name(at.op, at.io or "output") for side, at in addresses.items()]
    return in_clauses(lost.why, *told) if any(told) else None


def _missing(lost: Lost, ledger: Ledger, explainer: Explainer) -> Missing:
    from pytest_msdump.matching.addresses import parse_address

    entry = lost.entry
    candidates: list[str] = []
    for side, text in ((ledger.left, entry.left), (ledger.right, entry.right)):
        if side.name in lost.absent:
            candidates += explainer.nearest(side, parse_address(text).op)
    return Missing(entry.left, entry.right, lost.why, tuple(candidates))
