"""The lines of the vendor's table where a rule file says what the left side's operators were: by group of operators."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from pytest_msdump.facts.operators import QUANT_TYPES, REASONS, UNDUMPED_TYPES
from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.model.graph import file_spelling
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.vendor_lines import (
    Entry,
    Line,
    Place,
    alone,
    compared,
    in_order,
    joined,
    missing_of,
    operator_of,
    place_of,
)
from pytest_msdump.reporting.vendor_rows import right_lines

__all__ = ["network_lines"]

# Left tensors that have no line in the vendor's table: reason → types of operators for which that holds, all if none.
_UNLISTED: Mapping[str, frozenset[str]] = {
    "inner": frozenset(),
    "l1_fusion": frozenset(),
    "quantised": frozenset(),
    "dequant_input": frozenset(),
    "quant_output": QUANT_TYPES,
}
_PATTERNS = {key: re.compile(re.sub(r"\\\{\w+\\\}", ".*", re.escape(REASONS[key]))) for key in _UNLISTED}

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
    for place in network.places:
        lines += network.lines_at(place, len(network.groups) * network.places.index(place), sequences)
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
        self.groups: defaultdict[int, list[Entry]] = defaultdict(list)
        for operator in report.network:
            self.groups[operator["index"]].append(operator)
        self._missing = missing_of(report)
        self._expected = {address.rsplit(":", 2)[0] for side, address in self._missing if side == "left"}
        self._is_device = report.left.reader == "ascend"
        left = [*report.records, *(entry for entry in report.unmatched if entry["side"] == "left")]
        self._tensors: defaultdict[tuple[Place, str], list[Entry]] = defaultdict(list)
        for entry in in_order(left, report.left.operators):
            self._tensors[place_of(entry), operator_of(entry)].append(entry)
        self.places = list(dict.fromkeys(place for place, _ in self._tensors)) or [()]
        # Two operators may share one file name; then the reason of the one is that of the other.
        self._spelled = {
            (place, file_spelling(name)): entries[0].get("reason", "")
            for (place, name), entries in self._tensors.items()
        }

    def lines_at(self, place: Place, base: int, sequences: Container[int] | None) -> Iterator[Line]:
        """Yield the lines of all groups at one place."""
        for index, members in self.groups.items():
            if sequences is None or any(member["sequence"] in sequences for member in members):
                yield from self._group(members, place, base + index)

    def strangers(self, first: int) -> list[Line]:
        """Return the lines of operators that the model does not know; call it after `lines_at` all places."""
        lines: list[Line] = []
        for index, entries in enumerate(self._tensors.values(), first):
            lines += [
                compared(entry, index) if "left" in entry else alone(entry, index, self._missing) for entry in entries
            ]
        return lines

    def _group(self, members: Sequence[Entry], place: Place, index: int) -> Iterator[Line]:
        found = [(member, entry) for member in members for entry in self._tensors.pop((place, member["name"]), ())]
        keys = [_unlisted(entry) for _, entry in found]
        lines = [self._line(member, entry, index) for member, entry in found]
        self.unlisted += [line for line, key in zip(lines, keys, strict=True) if key]
        listed = [line for line, key in zip(lines, keys, strict=True) if not key]
        if listed:
            yield from listed
        elif "quantised" not in keys:
            yield self._undumped(members, [entry for _, entry in found], place, index)

    def _line(self, member: Entry, entry: Entry, index: int) -> Line:
        """Make the line of one tensor; where nothing was compared, the vendor knows no data types."""
        if "left" in entry:
            line = replace(compared(entry, index), shape=self._shape(entry))
        else:
            line = replace(alone(entry, index, self._missing), shape=entry.get("shape"))
        if line.record is None or line.record["elements"] is None:
            line = replace(line, left_dtype=None, right_dtype=None)
        return _named(line, member)

    def _shape(self, record: Entry) -> Sequence[int] | None:
        """Return a pair's shape as the vendor compares it: logical, or flat."""
        left = record["left"]
        stored: Sequence[int] | None = left["shape"]
        if record["elements"] is None or stored is None:
            return stored
        memory_format = left["memory_format"]
        wanted = record["transform"].get("left_logical_format") or memory_format
        if self._is_device and wanted == _FLAT and memory_format not in _BLOCKED:
            return (record.get("total_elements", record["elements"]),)
        logical: Sequence[int] = left.get("logical_shape", stored)
        return logical

    def _undumped(self, members: Sequence[Entry], found: Iterable[Entry], place: Place, index: int) -> Line:
        """Make the line of a group of which nothing was dumped or can be compared: that of its first operator."""
        member = members[0]
        reason = joined(entry["reason"] for entry in found) or self._spelled.get((place, file_spelling(member["name"])))
        key = UNDUMPED_TYPES.get(member["op_type"])
        reason = reason or (REASONS[key] if key else f"the left side did not dump {member['name']}")
        verdict = "missing" if any(each["name"] in self._expected for each in members) else "unmatched"
        return _named(Line(index, reason=reason, verdict=verdict), member)


def _named(line: Line, member: Entry) -> Line:
    """Give a line the names of its group and the type of its operator."""
    return replace(
        line,
        op_type=member["op_type"],
        left=",".join(member["left"]),
        right=",".join(member["right"]),
        sequence=member["sequence"],
    )


def _unlisted(entry: Entry) -> str | None:
    """Return why the vendor's table has no line for a left tensor; ``None`` when it has one."""
    if "left" in entry:
        return None
    for key, types in _UNLISTED.items():
        if (not types or entry["op_type"] in types) and _PATTERNS[key].fullmatch(entry["reason"]):
            return key
    return None
