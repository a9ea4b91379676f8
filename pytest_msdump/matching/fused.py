"""Pairing by rule files: each left tensor with what it was in the original model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_msdump.matching.addresses import Lost, MapEntry
from pytest_msdump.matching.aliases import Identified, NameBook, identify, name_doubt
from pytest_msdump.matching.coordinates import Key, meets, without_occurrence
from pytest_msdump.matching.explain import elsewhere, listed, place_text
from pytest_msdump.matching.origins import Rulebook, Wish
from pytest_msdump.matching.pairing_state import Ledger, Made
from pytest_msdump.matching.rules import FusionRules
from pytest_msdump.matching.sides import Operator, Port, Side
from pytest_msdump.model import graph
from pytest_msdump.model.pairing import Transform
from pytest_msdump.text import Message, Parameter

__all__ = ["pair_by_rules"]


def pair_by_rules(ledger: Ledger, rules: FusionRules, formats: Transform) -> list[Lost]:
    """Pair what rule files say, after the map and before names.

    Parameters
    ----------
    ledger : Ledger
        Gets the pairs, and holds back every tensor of an operator that the rules know, with its reason: a name that
        happens to be the same says less than a rule.
    rules : FusionRules
        Without `model` and `quant` nothing is done.
    formats : Transform
        The sides' axis orders.

    Returns
    -------
    list of Lost
        Pairs of which exactly one side was dumped, although both are bound to be.

    Notes
    -----
    One right tensor may get several left ones: an output, and each input that it feeds. Of an L1 fusion group only
    the newest operator is compared, and the oldest where it has other originals: those between work on slices in the
    L1 buffer, and what is dumped of them is no whole tensor.
    """
    if rules.base is None:
        return []
    fusing = _Fusing(ledger, rules, formats)
    fusing.pair()
    if not ledger.unpaired_ops(ledger.right) and ledger.left.directions == {"output"}:
        return [*fusing.lost.values()]

    return [*fusing.lost.values(), *explain_right(ledger, fusing.book, fusing.lefts, fusing.rights)]


class _Fusing:
    def __init__(self, ledger: Ledger, rules: FusionRules, formats: Transform) -> None:
        self.book = Rulebook(rules)
        self.lost: dict[tuple[str, str, Message], Lost] = {}
        self._ledger = ledger
        self._formats = formats
        # By what an origin says of the left tensor: most say the same.
        self._transforms: dict[tuple[object, ...], Transform] = {}
        left, right = ledger.left, ledger.right
        types = {operator.name: operator.op_type for operator in self.book.operators.values()}
        self.lefts = identify(left.ops, NameBook(types), types)
        right_types = {} if rules.close is None else {each.name: each.op_type for each in rules.close.operators}
        self.rights = identify(right.ops, NameBook(self.book.right_names()), right_types)
        self._mapped: defaultdict[int, list[Key]] = defaultdict(list)
        for made in ledger.made:
            self._mapped[made.right].append(left.ops[left.op_of[made.left]].at)
        self._has_map = bool(ledger.made or ledger.held)

    def pair(self) -> None:
        left = self._ledger.left
        passed_over = _passed_over(left, self.lefts, self.book)
        is_blank = self._ledger.is_blank
        for number, op in enumerate(left.ops):
            doubt = self._doubt(op, self.lefts, number) if self.lefts.doubtful else None
            operator = self.book.operators.get(self.lefts.name_of.get(number, ""))
            if not op.kept or not (doubt or operator):
                continue
            for port, ref in left.selected(op).items():
                if not is_blank and self._ledger.is_settled("left", ref):
                    continue
                reason = doubt or passed_over.get(number) or self._paired(ref, op, operator, port)
                if reason and not self._ledger.is_paired("left", ref):
                    self._ledger.held["left", ref] = reason

    def _doubt(self, op: Operator, identified: Identified, number: int) -> Message | None:
        names = identified.doubtful.get(number)
        return name_doubt(op, names, self.book.label) if names else None

    def _paired(self, ref: int, op: Operator, operator: graph.Operator | None, port: Port) -> Message | None:
        """Pair one left tensor; return why it cannot be."""
        if operator is None:
            return None
        wish = self.book.wish(operator, *port, _inputs(op) if port[0] == "input" else 0)
        for origin in wish.origins:
            wanted = ("output", origin.index)
            found = [number for number in self.rights.ops_of(origin.name) if self._has(number, wanted, op)]
            if found:
                return self._joined(ref, op, found, origin, wish)
        return wish.reason or self._absent(ref, op, wish)

    def _has(self, number: int, port: Port, op: Operator) -> bool:
        """Whether a right operator meets a left one, and has such a tensor."""
        other = self._ledger.right.ops[number]
        return other.kept and port in other.tensors and meets(other.meeting, op.meeting)

    def _joined(
        self, ref: int, op: Operator, found: Sequence[int], origin: graph.OriginOutput, wish: Wish
    ) -> Message | None:
        ledger = self._ledger
        if len(found) > 1 and (rivals := _rivals(ledger.right, found)):
            from pytest_msdump.matching.explain import listed, typed_name

            names = listed(typed_name(ledger.right.ops[number].key) for number in rivals)
            return Message("rule_ambiguous", {"rule": self.book.label, "name": origin.name, "names": names})
        reasons: list[Message] = []
        for number in found:
            other = ledger.right.ops[number]
            partner = other.tensors["output", origin.index]
            if self._has_map and (reason := self._taken(partner, op)):
                reasons.append(reason)
            elif ledger.left_free(ref, other):
                ledger.record(Made(ref, partner, "fused", wish.by, self._transform(origin)))
        return reasons[0] if reasons else None

    def _transform(self, origin: graph.OriginOutput) -> Transform:
        kind = (origin.shape, origin.memory_format)
        found = self._transforms.get(kind)
        if found is None:
            shape = _known_shape(origin.shape)
            made = replace(self._formats, left_logical_shape=shape, left_logical_format=origin.memory_format)
            found = self._transforms[kind] = made
        return found

    def _taken(self, partner: int, op: Operator) -> Message | None:
        """Return why the map keeps a right tensor from this left operator."""
        said: dict[str, Parameter] = {"name": self._ledger.right.refs[partner].key.address, "side": "right"}
        if held := self._ledger.held.get(("right", partner)):
            return Message("kept_for_entry", {**said, "why": held})
        if partner in self._mapped and any(meets(op.at, place) for place in self._mapped[partner]):
            return Message("paired_by_entry", said)
        return None

    def _absent(self, ref: int, op: Operator, wish: Wish) -> Message | None:
        """Return why the right side has no tensor of the wanted name here; note where it is lost."""
        from pytest_msdump.matching.explain import elsewhere, slots_listed

        right, origin = self._ledger.right, wish.origins[-1]
        address = f"{origin.name}:output:{origin.index}"
        if doubts := self.rights.doubts_of(origin.name):
            return self._doubt(right.ops[doubts[0]], self.rights, doubts[0])
        ops = [right.ops[number] for number in self.rights.ops_of(origin.name)]
        here = [other for other in ops if meets(other.meeting, op.meeting)]
        said: dict[str, Parameter] = {"rule": self.book.label, "name": address, "side": "right"}
        if here and not any(other.kept for other in here):
            return Message("rule_pairs_unselected", said)
        if here:
            slots = slots_listed(port for each in here for port in each.tensors)
            reason = Message("rule_pairs_other_slots", {**said, "slots": slots})
        elif ops:
            reason = Message("rule_pairs_but", {**said, "why": elsewhere(op, ops, side="right")})
        else:
            reason = Message("rule_pairs_undumped", said)
        if wish.expected and dumps_beside(right, op) and (here or not repeats_beside(op, ops)):
            self._lose(ref, op, address, reason)
        return reason

    def _lose(self, ref: int, op: Operator, address: str, reason: Message) -> None:

        left = self._ledger.left.refs[ref].key.address
        why = at_place(reason, self._ledger.left, op)
        self.lost.setdefault((left, address, why), Lost(MapEntry(left, address), why, ("right",)))


def _rivals(side: Side, found: Sequence[int]) -> Sequence[int]:
    """Return operators of which one left tensor can have only one: their places are the same."""
    ops = [(number, side.ops[number].at) for number in found]
    return [number for number, at in ops if any(meets(at, other) for rival, other in ops if rival != number)]


def _inputs(op: Operator) -> int:
    """Count the inputs that a dump has of an operator."""
    return 1 + max([slot for io, slot in op.tensors if io == "input"], default=-1)


def _known_shape(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if shape is None or (shape and min(shape) < 0) else shape


def _passed_over(left: Side, lefts: Identified, book: Rulebook) -> Mapping[int, Message]:
    """Find the operators of L1 fusion groups that are not compared, and say so."""
    groups: defaultdict[tuple[str, Key], list[tuple[int, int, graph.Operator]]] = defaultdict(list)
    for number, name in lefts.name_of.items():
        operator = book.operators[name]
        if operator.l1_group and left.ops[number].kept:
            time = max(left.refs[ref].source.timestamp or 0 for ref in left.ops[number].tensors.values())
            groups[operator.l1_group, left.ops[number].at].append((time, number, operator))
    return {
        number: Message("l1_fusion", {"group": group})
        for (group, _), members in groups.items()
        for number in _between(members)
    }


def _between(members: list[tuple[int, int, graph.Operator]]) -> Iterator[int]:
    """Yield all but the newest, and but the oldest where its originals are others."""
    in_time = sorted(members, key=lambda member: member[:2])
    (_, first, oldest), (_, last, newest) = in_time[0], in_time[-1]
    compared = {last, first} if oldest.originals != newest.originals else {last}
    return (number for _, number, _ in in_time if number not in compared)


# -- What a rule file says of the right tensors that it left without a partner ---------------------------------------


def explain_right(ledger: Ledger, book: Rulebook, lefts: Identified, rights: Identified) -> list[Lost]:
    """Hold back the right tensors that the rules know and that have no partner, each with its reason.

    A right tensor that only inputs of the left side met may have lost the output that it is to be compared with.

    Parameters
    ----------
    ledger : Ledger
        After all left tensors were tried.
    book : Rulebook
        The rules.
    lefts, rights : Identified
        Which operators of the sides the rules name.

    Returns
    -------
    list of Lost
        Tensors whose left partner is bound to be there, and was not dumped.
    """
    lost: dict[tuple[str, str, Message], Lost] = {}
    right, fed = ledger.right, _met_by_inputs_alone(ledger)
    for number in sorted({*ledger.unpaired_ops(right), *(right.op_of[ref] for ref in fed)}):
        op = right.ops[number]
        names = rights.doubtful.get(number) or [name for name in [rights.name_of.get(number)] if name]
        if not op.kept or not names:
            continue
        for (io, slot), ref in right.selected(op).items():
            if ledger.is_settled("right", ref) and ref not in fed:
                continue
            if len(names) > 1:
                ledger.held["right", ref] = name_doubt(op, names, book.label)
                continue
            remain = _Remain(ledger, book, lefts, op, names[0])
            why = remain.reason(io, slot)
            if ref not in fed:
                ledger.held["right", ref] = why
            if remain.lost_as:
                entry = MapEntry(remain.lost_as, right.refs[ref].key.address)
                lost.setdefault((entry.left, entry.right, why), Lost(entry, why, ("left",)))
    return list(lost.values())


def _met_by_inputs_alone(ledger: Ledger) -> set[int]:
    """Return the right tensors that inputs of the left side met and no output, where outputs are compared."""
    left = ledger.left
    if "output" not in left.directions:
        return set()
    met: dict[str, set[int]] = {"input": set(), "output": set()}
    for made in ledger.made:
        met[left.refs[made.left].key.io].add(made.right)
    return met["input"] - met["output"] if met["output"] else set()


class _Remain:
    """One right operator that the rules know as `name`, while one of its tensors is looked at."""

    def __init__(self, ledger: Ledger, book: Rulebook, lefts: Identified, op: Operator, name: str) -> None:
        self._ledger = ledger
        self._book = book
        self._lefts = lefts
        self._op = op
        self._name = name
        self.lost_as = ""

    def reason(self, io: str, slot: int) -> Message:
        """Return why a tensor has no partner. May set `lost_as`."""
        if io != "output":
            return Message("right_input")
        makers = self._book.makers(self._name, slot)
        if not makers:
            return self._without_maker(slot)
        if doubts := [doubt for maker, _ in makers for doubt in self._lefts.doubts_of(maker.name)]:
            left = self._ledger.left.ops[doubts[0]]
            return name_doubt(left, self._lefts.doubtful[doubts[0]], self._book.label)
        dumped = [(number, k) for maker, k in makers for number in self._lefts.ops_of(maker.name)]
        here = [(n, k) for n, k in dumped if meets(self._ledger.left.ops[n].meeting, self._op.meeting)]
        if why := next(self._of_partners(here), None):
            return why
        barred = [self._book.output_barred(maker, k) or self._book.undumped(maker) for maker, k in makers]
        if all(barred):
            return Message("of_left", {"name": makers[0][0].name, "why": barred[0]})
        bound = [maker for maker, why in zip(makers, barred, strict=True) if not why]
        return self._not_dumped(bound[0], [number for number, _ in dumped], bool(here))

    def _without_maker(self, slot: int) -> Message:
        hosts = [host.name for host in self._book.hosts(self._name)]
        if self._book.is_origin(self._name):
            return Message("unknown_output", {"rule": self._book.label, "slot": slot, "name": self._name})
        return Message("fused", {"op": listed(hosts)})

    def _of_partners(self, here: Sequence[tuple[int, int]]) -> Iterator[Message]:
        """Yield what became of left tensors that could have been the partner."""
        left = self._ledger.left
        for number, k in here:
            op = left.ops[number]
            if not op.kept:
                yield Message("left_out_by_selection", {"name": op.key.label, "side": "left"})
            ref = op.tensors.get(("output", k))
            if ref is None:
                continue
            said: dict[str, Parameter] = {"name": left.refs[ref].key.address, "side": "left"}
            if held := self._ledger.held.get(("left", ref)):
                yield Message("of_left", {"name": said["name"], "why": held})
            elif self._ledger.is_paired("left", ref):
                yield Message("paired_otherwise", said)
            else:
                yield Message("not_selected", said)

    def _not_dumped(self, maker: tuple[graph.Operator, int], dumped: Sequence[int], is_here: bool) -> Message:
        left, (operator, k) = self._ledger.left, maker
        address = f"{operator.name}:output:{k}"
        said: dict[str, Parameter] = {"rule": self._book.label, "name": address, "side": "left"}
        if is_here:
            reason = Message("rule_pairs_no_output", said)
        elif dumped:
            there = elsewhere(self._op, [left.ops[number] for number in dumped], side="left")
            reason = Message("rule_pairs_but", {**said, "why": there})
        else:
            reason = Message("rule_pairs_undumped", said)
        repeats = not is_here and repeats_beside(self._op, [left.ops[number] for number in dumped])
        if repeats or not dumps_beside(left, self._op):
            return reason
        self.lost_as = address
        return at_place(reason, self._ledger.right, self._op)


def dumps_beside(side: Side, op: Operator) -> bool:
    """Whether a side dumped anything where this operator of the other side is; a loop may run more often there."""
    place = without_occurrence(op.meeting)
    return place in side.places or any(meets(place, other) for other in side.places)


def repeats_beside(op: Operator, others: Sequence[Operator]) -> bool:
    """Whether the other side has an operator here, only not as often: the surplus of a loop is not lost."""
    here = without_occurrence(op.meeting)
    return any(meets(without_occurrence(other.meeting), here) for other in others)


def at_place(why: Message, side: Side, op: Operator) -> Message:
    """Add the place of a side's operator, where the side has more than one."""
    where = place_text((*op.at[:-1], None))
    return Message("at_place", {"why": why, "place": where}) if where and len(side.places) > 1 else why
