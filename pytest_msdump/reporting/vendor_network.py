"""The lines of the vendor's table where a rule file says what the left side's operators were: by group of operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

from pytest_msdump.facts.operators import QUANT_TYPES, UNDUMPED_TYPES
from pytest_msdump.model.graph import file_spelling
from pytest_msdump.model.report import NetworkOperator, Report
from pytest_msdump.reporting.vendor_lines import Line, Place, joined, left_lines, missing_of
from pytest_msdump.reporting.vendor_rows import right_lines
from pytest_msdump.text import Message, say

__all__ = ["network_lines"]

# Left tensors that have no line in the vendor's table: reason → types of operators for which that holds, all if none.
_UNLISTED: Mapping[str, frozenset[str]] = {
    "inner": frozenset(),
    "l1_fusion": frozenset(),
    "quantised": frozenset(),
    "dequant_input": frozenset(),
    "quant_output": QUANT_TYPES,
}

# The vendor compares a tensor in this format flat, unless its blocks say where each element belongs.
_FLAT = "ND"
_BLOCKED = frozenset({"FRACTAL_NZ", "NDC1HWC0"})


def network_lines(report: Report, *, right_alone: bool = True, sequences: Container[int] | None = None) -> list[Line]:
    """Return the lines of a compiled model's operators, by group.

    Parameters
    ----------
    report : Report
        With a network.
    right_alone : bool
        Whether what the vendor's table leaves out follows at the end: left tensors that only pass values on inside a
        group, operators that the rule file does not know, and right tensors without a partner.
    sequences : container of int, optional
        Only groups with one of these operators, by number in the model; nothing follows at the end.

    Notes
    -----
    Each place (rank, net, graph, iteration) has all groups, and their numbers go on from place to place.
    """
    network = _Network(report)
    lines: list[Line] = []
    for number, place in enumerate(network.places):
        lines += network.lines_at(place, len(network.groups) * number, sequences)
    if sequences is not None:
        return lines
    first = len(network.groups) * len(network.places)
    strangers = network.strangers(first)
    lines += [line for line in strangers if right_alone or line.record is not None]
    if not right_alone:
        return lines
    return [*lines, *network.unlisted, *right_lines(report, max([first, *(line.index + 1 for line in strangers)]))]


class _Network:
    """A report's left tensors, by the operators of the compiled model."""

    def __init__(self, report: Report) -> None:
        self.unlisted: list[Line] = []
        self.groups: defaultdict[int, list[NetworkOperator]] = defaultdict(list)
        for operator in report.network:
            self.groups[operator.index].append(operator)
        self._missing = missing_of(report)
        self._expected = {address.rsplit(":", 2)[0] for side, address in self._missing if side == "left"}
        self._is_device = report.left.reader == "ascend"
        self._tensors: defaultdict[tuple[Place, str | None], list[Line]] = defaultdict(list)
        for line in left_lines(report):
            self._tensors[line.place, line.left].append(line)
        self.places = list(dict.fromkeys(place for place, _ in self._tensors)) or [()]
        # Two operators may share one file name; then the reason of the one is that of the other. Pairs have none.
        alone = any(one.side == "left" for one in report.unmatched)
        self._spelled = {
            (place, file_spelling(name)): lines[0].reason
            for (place, name), lines in (self._tensors.items() if alone else ())
            if name
        }

    def lines_at(self, place: Place, base: int, sequences: Container[int] | None) -> list[Line]:
        """Return the lines of all groups at one place."""
        lines: list[Line] = []
        for index, members in self.groups.items():
            if sequences is None or any(member.sequence in sequences for member in members):
                lines += self._group(members, place, base + index)
        return lines

    def strangers(self, first: int) -> list[Line]:
        """Return the lines of operators that the model does not know; call it after `lines_at` all places."""
        for index, lines in enumerate(self._tensors.values(), first):
            for line in lines:
                line.index = index
        return [line for lines in self._tensors.values() for line in lines]

    def _group(self, members: Sequence[NetworkOperator], place: Place, index: int) -> Sequence[Line]:
        listed: list[Line] = []
        unlisted: list[Line] = []
        is_quantised = False
        for member in members:
            for line in self._tensors.pop((place, member.name), ()):
                # Before it gets the type of its group's operator.
                key = _unlisted(line) if line.record is None else None
                is_quantised = is_quantised or key == "quantised"
                self._place(line, index)
                (unlisted if key else listed).append(_named(line, member))
        self.unlisted += unlisted
        if listed or is_quantised:
            return listed
        return [self._undumped(members, unlisted, place, index)]

    def _place(self, line: Line, index: int) -> None:
        """Give a line its number, and its shape as the vendor compares it: logical, or flat."""
        line.index = index
        if line.elements is None:
            # Where nothing was compared, the vendor knows no data types.
            line.left_dtype = line.right_dtype = None
        if line.elements is None or line.stored is None:
            line.shape = line.stored
        elif self._is_device and (line.logical_format or line.memory_format) == _FLAT:
            line.shape = line.shape if line.memory_format in _BLOCKED else (line.elements,)

    def _undumped(self, members: Sequence[NetworkOperator], found: Iterable[Line], place: Place, index: int) -> Line:
        """Make the line of a group of which nothing was dumped or can be compared: that of its first operator."""
        member = members[0]
        reason = joined(line.reason for line in found) or self._spelled.get((place, file_spelling(member.name)))
        key = UNDUMPED_TYPES.get(member.op_type)
        reason = reason or say(Message(key) if key else Message("not_dumped_operator", {"op": member.name}))
        verdict = "missing" if any(each.name in self._expected for each in members) else "unmatched"
        return _named(Line(index, reason=reason, verdict=verdict), member)


def _named(line: Line, member: NetworkOperator) -> Line:
    """Give a line the names of its group, and the type and number of its operator."""
    line.left, line.right = ",".join(member.left), ",".join(member.right)
    line.op_type, line.sequence = member.op_type, member.sequence
    return line


def _unlisted(line: Line) -> str | None:
    """Return why the vendor's table has no line for a left tensor without a partner; ``None`` when it has one."""
    code = line.unmatched.why.code if line.unmatched is not None else ""
    types = _UNLISTED.get(code)
    return None if types is None or (types and line.op_type not in types) else code
