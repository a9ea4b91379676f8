"""Pairing by rule files: each left tensor with what it was in the original model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pytest_msdump.capabilities.fusion.origins import Rulebook, Wish
from pytest_msdump.core.matching.coordinates import Place, compatible, without_occurrence
from pytest_msdump.core.matching.explain import elsewhere, listed, place_text, slots_listed, typed_name
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState, competing
from pytest_msdump.core.matching.rules import FusionRules
from pytest_msdump.core.matching.selection import Lost, MapEntry
from pytest_msdump.core.matching.sides import Port, Side, SideOperator
from pytest_msdump.core.model.dump import Operator, OriginOutput, file_spelling, joined_spelling
from pytest_msdump.core.model.tensor import OpKey, Transform
from pytest_msdump.core.text import Message, Parameter

# Which name of a rule file each operator of a dump has, although the dump's writer replaced characters.


class NameBook:
    """The true names that a rule file uses, by each spelling that a file's name may have."""

    def __init__(self, names: Iterable[str]) -> None:
        self._true = set(names)

    @cached_property
    def _spelled(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._true):
            found[file_spelling(name)].append(name)
        return found

    @cached_property
    def _joined(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._true):
            if joined := joined_spelling(name):
                found[joined].append(name)
        return found

    def candidates(self, key: OpKey) -> Sequence[str]:
        """Return the names that an operator of a dump may have: by its true name, else by its file's."""
        if key.true_name in self._true:
            return [key.true_name or ""]
        spelled = file_spelling(key.name)
        # A file's name that holds a character which writers replace was not replaced.
        if key.name in self._true and spelled != key.name:
            return [key.name]
        if key.true_name is not None and (by_label := self._spelled.get(file_spelling(key.label))):
            return by_label
        return self._spelled.get(spelled) or self._joined.get(spelled, [])


class Identified:
    """Operators of one side under the names of a rule file: `name_of` those with one, `doubtful` those with several."""

    def __init__(self, name_of: Mapping[int, str], doubtful: Mapping[int, Sequence[str]]) -> None:
        self.name_of = name_of
        self.doubtful = doubtful
        self._ops_of: defaultdict[str, list[int]] = defaultdict(list)
        self._doubts_of: defaultdict[str, list[int]] = defaultdict(list)
        for number, name in name_of.items():
            self._ops_of[name].append(number)
        for number, names in doubtful.items():
            for name in names:
                self._doubts_of[name].append(number)

    def ops_of(self, name: str) -> Sequence[int]:
        """Return the operators that have this name, at all places."""
        return self._ops_of.get(name, ())

    def doubts_of(self, name: str) -> Sequence[int]:
        """Return the operators that may have this name or another."""
        return self._doubts_of.get(name, ())


def identify(ops: Sequence[SideOperator], book: NameBook, types: Mapping[str, str]) -> Identified:
    """Find the name of each operator in a rule file, if any; `types` decide between names that are spelled alike."""
    name_of: dict[int, str] = {}
    several: dict[int, Sequence[str]] = {}
    for number, op in enumerate(ops):
        names = book.candidates(op.key)
        typed = [name for name in names if op.key.op_type and types.get(name) == op.key.op_type]
        names = typed if len(typed) == 1 else names
        if len(names) == 1:
            name_of[number] = names[0]
        elif names:
            several[number] = names
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for number, name in name_of.items():
        taken[name].add(ops[number].key.name)
    doubtful: dict[int, Sequence[str]] = {}
    for number, names in several.items():
        # The same file's name at another place is the same doubt, decided there by luck.
        rest = [name for name in names if not taken[name] - {ops[number].key.name}]
        if len(rest) == 1:
            name_of[number] = rest[0]
        else:
            doubtful[number] = rest or names
    return Identified(name_of, doubtful)


def name_doubt(op: SideOperator, names: Sequence[str], label: str) -> Message:
    """Say that several names of a rule file fit one operator of a dump."""
    return Message("names_written_alike", {"names": listed(names), "rule": label, "name": op.key.name})


_LostByPair = dict[tuple[str, str, Message], Lost]


def pair_by_rules(state: PairingState, request: PairingRequest) -> list[Lost]:
    """Pair what rule files say; return the pairs of which exactly one side was dumped, although both should be."""
    if request.rules is None or request.rules.base is None:
        return []
    pairer = _RulePairer(state, request, request.rules)
    pairer.pair_left()
    pairer.explain_right()
    return list(pairer.lost.values())


class _RulePairer:
    """The rules beside what is known of both sides."""

    def __init__(self, state: PairingState, request: PairingRequest, rules: FusionRules) -> None:
        self.lost: _LostByPair = {}
        self._state = state
        self._formats = request.formats
        self._transforms: dict[tuple[tuple[int, ...] | None, str | None], Transform] = {}
        self._book = Rulebook(rules)
        types = {operator.name: operator.op_type for operator in self._book.operators.values()}
        right_types = {each.name: each.op_type for each in rules.close.operators} if rules.close else {}
        self._lefts = identify(state.left.ops, NameBook(types), types)
        self._rights = identify(state.right.ops, NameBook(self._book.right_names()), right_types)
        # The left places that the map gave each right tensor to.
        self._mapped: defaultdict[int, list[Place]] = defaultdict(list)
        for pair in state.pairs:
            self._mapped[pair.right].append(without_occurrence(state.left.op_with(pair.left).at))

    def pair_left(self) -> None:
        """Pair the left tensors that the rules know, or withhold them with the reason."""
        state, left = self._state, self._state.left
        inside_groups = _inside_l1_groups(left, self._lefts, self._book)
        for number, op in enumerate(left.ops):
            operator = self._book.operators.get(self._lefts.name_of.get(number, ""))
            doubt = self._doubt(left, number, self._lefts)
            if not op.kept or not (doubt or operator):
                continue
            for port, ref in left.selected(op).items():
                if state.is_decided("left", ref):
                    continue
                reason = doubt or inside_groups.get(number)
                if operator and not reason:
                    reason = self._pair(ref, op, operator, port)
                if reason and not state.is_paired("left", ref):
                    state.withheld["left", ref] = reason

    def _doubt(self, side: Side, number: int, identified: Identified) -> Message | None:
        names = identified.doubtful.get(number)
        return name_doubt(side.ops[number], names, self._book.label) if names else None

    def _pair(self, ref: int, op: SideOperator, operator: Operator, port: Port) -> Message | None:
        """Pair one left tensor with all its partners; return why it cannot be."""
        right = self._state.right
        dumped_inputs = 1 + max((slot for io, slot in op.tensors if io == "input"), default=-1)
        wish = self._book.wish(operator, *port, dumped_inputs=dumped_inputs)
        for origin in wish.origins:
            wanted = ("output", origin.index)
            found = [
                number
                for number in self._rights.ops_of(origin.name)
                if (other := right.ops[number]).kept and wanted in other.tensors and compatible(other.common, op.common)
            ]
            if rivals := competing(right, found):
                names = listed(typed_name(right.ops[number].key) for number in rivals)
                return Message("rule_ambiguous", {"rule": self._book.label, "name": origin.name, "names": names})
            if found:
                reasons = [self._add(ref, op, right.ops[number], origin, wish.by) for number in found]
                return next(filter(None, reasons), None)
        return wish.reason or self._absent(ref, op, wish)

    def _add(self, ref: int, op: SideOperator, other: SideOperator, origin: OriginOutput, by: str) -> Message | None:
        """Add a pair; return why the map keeps the right tensor from this left operator."""
        state, partner = self._state, other.tensors["output", origin.index]
        said: dict[str, Parameter] = {"name": state.right.refs[partner].key.address, "side": "right"}
        if withheld := state.withheld.get(("right", partner)):
            return Message("kept_for_entry", {**said, "why": withheld})
        if any(compatible(op.at, place) for place in self._mapped.get(partner, ())):
            return Message("paired_by_entry", said)
        if state.is_free("left", ref, other.at):
            # Most tensors share theirs.
            transform = self._transforms.get((origin.shape, origin.memory_format))
            if transform is None:
                known = None if origin.shape is None or min(origin.shape, default=0) < 0 else origin.shape
                transform = replace(self._formats, left_logical_shape=known, left_logical_format=origin.memory_format)
                self._transforms[origin.shape, origin.memory_format] = transform
            state.add(FoundPair(ref, partner, "fused", by, transform))
        return None

    def _absent(self, ref: int, op: SideOperator, wish: Wish) -> Message | None:
        """Return why the right side has no tensor of the wanted name here; note where it is lost."""
        right, origin = self._state.right, wish.origins[-1]
        if doubts := self._rights.doubts_of(origin.name):
            return self._doubt(right, doubts[0], self._rights)
        address = f"{origin.name}:output:{origin.index}"
        ops = [right.ops[number] for number in self._rights.ops_of(origin.name)]
        here = [other for other in ops if compatible(other.common, op.common)]
        said: dict[str, Parameter] = {"rule": self._book.label, "name": address, "side": "right"}
        if here and not any(other.kept for other in here):
            return Message("rule_pairs_unselected", said)
        if here:
            slots = slots_listed(port for each in here for port in each.tensors)
            reason = Message("rule_pairs_other_slots", {**said, "slots": slots})
        elif ops:
            reason = Message("rule_pairs_but", {**said, "why": elsewhere(op, ops, side="right")})
        else:
            reason = Message("rule_pairs_undumped", said)
        if wish.expected and right.dumped_at(op.common) and (here or not _has_repeats(op, ops)):
            left = self._state.left.refs[ref].key.address
            why = _with_place(reason, self._state.left, op)
            self.lost.setdefault((left, address, why), Lost(MapEntry(left, address), why, ("right",)))
        return reason

    def explain_right(self) -> None:
        """Withhold the right tensors that the rules know and that have no partner, each with its reason."""
        state, right = self._state, self._state.right
        fed = self._paired_with_inputs_only()
        for number, op in enumerate(right.ops):
            name, doubt = self._rights.name_of.get(number), self._doubt(right, number, self._rights)
            if not op.kept or not (doubt or name):
                continue
            for (io, slot), ref in right.selected(op).items():
                if state.is_decided("right", ref) and ref not in fed:
                    continue
                why, lost_as = (doubt, "") if doubt or name is None else self._right_reason(op, name, io, slot)
                if why is None:
                    continue
                if ref not in fed or doubt:
                    state.withheld["right", ref] = why
                if lost_as:
                    entry = MapEntry(lost_as, right.refs[ref].key.address)
                    self.lost.setdefault((entry.left, entry.right, why), Lost(entry, why, ("left",)))

    def _paired_with_inputs_only(self) -> set[int]:
        """Return the right tensors paired with inputs of the left side and no output, where outputs are compared."""
        left = self._state.left
        if "output" not in left.directions:
            return set()
        by_io: dict[str, set[int]] = {"input": set(), "output": set()}
        for pair in self._state.pairs:
            by_io[left.refs[pair.left].key.io].add(pair.right)
        return by_io["input"] - by_io["output"] if by_io["output"] else set()

    def _right_reason(self, op: SideOperator, name: str, io: str, slot: int) -> tuple[Message, str]:
        """Return why a right tensor has no partner, and the address of the left tensor if that one is lost."""
        state, book = self._state, self._book
        if io != "output":
            return Message("right_input"), ""
        makers = book.makers(name, slot)
        if not makers and book.is_origin(name):
            return Message("unknown_output", {"rule": book.label, "slot": slot, "name": name}), ""
        if not makers:
            return Message("fused", {"op": listed(host.name for host in book.hosts(name))}), ""
        for maker, _ in makers:
            for doubt in self._lefts.doubts_of(maker.name)[:1]:
                return name_doubt(state.left.ops[doubt], self._lefts.doubtful[doubt], book.label), ""
        dumped = [(state.left.ops[n], k) for maker, k in makers for n in self._lefts.ops_of(maker.name)]
        here = [(left, k) for left, k in dumped if compatible(left.common, op.common)]
        for left, k in here:
            if why := self._other_use(left, k):
                return why, ""
        barred = [book.output_barred(maker, k) or book.undumped(maker) for maker, k in makers]
        if all(barred):
            return Message("of_side", {"name": makers[0][0].name, "side": "left", "why": barred[0]}), ""
        maker, k = next(maker for maker, why in zip(makers, barred, strict=True) if not why)
        return self._left_absent(op, f"{maker.name}:output:{k}", [left for left, _ in dumped], is_here=bool(here))

    def _other_use(self, op: SideOperator, slot: int) -> Message | None:
        """Return what became of a left tensor that could have been the partner; ``None`` where it was not dumped."""
        state, ref = self._state, op.tensors.get(("output", slot))
        if not op.kept:
            return Message("left_out_by_selection", {"name": op.key.label, "side": "left"})
        if ref is None:
            return None
        said: dict[str, Parameter] = {"name": state.left.refs[ref].key.address, "side": "left"}
        if withheld := state.withheld.get(("left", ref)):
            return Message("of_side", {**said, "why": withheld})
        return Message("paired_otherwise" if state.is_paired("left", ref) else "not_selected", said)

    def _left_absent(
        self, op: SideOperator, address: str, dumped: Sequence[SideOperator], *, is_here: bool
    ) -> tuple[Message, str]:
        """Return why a left tensor is not there for a right operator, and its address if it is lost."""
        said: dict[str, Parameter] = {"rule": self._book.label, "name": address, "side": "left"}
        if is_here:
            reason = Message("rule_pairs_no_output", said)
        elif dumped:
            reason = Message("rule_pairs_but", {**said, "why": elsewhere(op, dumped, side="left")})
        else:
            reason = Message("rule_pairs_undumped", said)
        if (not is_here and _has_repeats(op, dumped)) or not self._state.left.dumped_at(op.common):
            return reason, ""
        return _with_place(reason, self._state.right, op), address


def _has_repeats(op: SideOperator, others: Sequence[SideOperator]) -> bool:
    """Whether the other side has an operator here, only not as often: the surplus of a loop is not lost."""
    here = without_occurrence(op.common)
    return any(compatible(without_occurrence(other.common), here) for other in others)


def _with_place(why: Message, side: Side, op: SideOperator) -> Message:
    """Add the place of a side's operator, where the side has more than one."""
    where = place_text(without_occurrence(op.at))
    return Message("at_place", {"why": why, "place": where}) if where and len(side.places) > 1 else why


def _inside_l1_groups(left: Side, lefts: Identified, book: Rulebook) -> Mapping[int, Message]:
    """Return the operators of L1 fusion groups that are not compared, each with the reason."""
    groups: defaultdict[tuple[str, Place], list[tuple[int, int]]] = defaultdict(list)
    for number, name in lefts.name_of.items():
        op, group = left.ops[number], book.operators[name].l1_group
        if group and op.kept:
            time = max(left.refs[ref].source.timestamp or 0 for ref in op.tensors.values())
            groups[group, op.at].append((time, number))
    return {
        number: Message("l1_fusion", {"group": group})
        for (group, _), members in groups.items()
        for number in _inner(members, lefts, book)
    }


def _inner(members: Sequence[tuple[int, int]], lefts: Identified, book: Rulebook) -> Iterator[int]:
    """Yield all but the newest of (time, operator), and but the oldest where its originals are others."""
    in_time = [number for _, number in sorted(members)]
    oldest, newest = (book.operators[lefts.name_of[number]] for number in (in_time[0], in_time[-1]))
    return iter(in_time[1 if oldest.originals != newest.originals else 0 : -1])
