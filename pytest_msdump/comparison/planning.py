"""Plan a suite: open both dumps by name, pair them, and remember what that makes of every operator. Reads no tensor."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.comparison.indexing import index
from pytest_msdump.comparison.user_code import NO_EXTRAS, Extras
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import terminal_text
from pytest_msdump.matching.pairer import pair_dumps
from pytest_msdump.matching.rules import FusionRules
from pytest_msdump.matching.selection import Selection
from pytest_msdump.metrics.kernel import choose_kernel
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.tensor import COORDINATES, Coordinates, TensorKey, TensorRef
from pytest_msdump.settings import parse_spec

if TYPE_CHECKING:
    from pytest_msdump.comparison.arguments import ArgumentBook
    from pytest_msdump.model.pairing import Pairing
    from pytest_msdump.model.report import SideInfo
    from pytest_msdump.suite import SideChoice, Suite

__all__ = ["Group", "Plan", "plan"]

_NO_RULES = FusionRules()


@dataclass(frozen=True)
class Group:
    """The pairs that one test item runs: those of one left operator, or one tensor. `pairs` are indexes into the plan.

    `name` is what pytest shows: INTERFACE 3, "Item name".
    """

    name: str
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Two dumps and who meets whom. The same suite gives the same plan in every process that sees the same files."""

    suite: Suite
    left: Dump
    right: Dump
    pairing: Pairing
    rules: FusionRules = _NO_RULES
    extras: Extras = NO_EXTRAS

    @cached_property
    def digest(self) -> str:
        """Identity of the plan: the suite as resolved, and the names and sizes of all files that are compared."""
        import hashlib

        digest = hashlib.sha256(repr(self.suite).encode())
        for ref in (*self.left.refs, *self.right.refs):
            digest.update(f"{ref.source.path}\0{_size(ref.source.path)}\0".encode(errors="surrogateescape"))
        beside = [*filter(None, _rule_files(self.suite).values()), *self.suite.graph_files]
        digest.update(repr([_size(path) for path in beside]).encode())
        return digest.hexdigest()

    @cached_property
    def operators(self) -> int:
        """Number of left operators, each run of one (rank, iteration, …) counted by itself."""
        return self.sides[0].operators

    @cached_property
    def sides(self) -> tuple[SideInfo, SideInfo]:
        """What a report tells of both sides: said at the start, and again in the report."""
        from pytest_msdump.comparison.assemble import side_info

        return side_info(self.left), side_info(self.right)

    @cached_property
    def unseen(self) -> int:
        """Number of pairs that statistics are compared of, since a tensor was not saved."""
        return sum(pair.left.is_unseen or pair.right.is_unseen for pair in self.pairing.pairs)

    @cached_property
    def argument_books(self) -> tuple[ArgumentBook, ArgumentBook]:
        """What the graphs of either side tell of its operators; made when a pair fails."""
        from pytest_msdump.comparison.arguments import ArgumentBook

        return ArgumentBook(self.left), ArgumentBook(self.right)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The test items of this plan, in execution order."""
        varying = _varying(self.left.refs)
        by_tensor = self.suite.granularity == "tensor"
        members: dict[tuple[int, str], list[int]] = {}
        for number, pair in enumerate(self.pairing.pairs):
            members.setdefault((pair.order, pair.left.key.address if by_tensor else ""), []).append(number)
        firsts = [self.pairing.pairs[numbers[0]].left.key for numbers in members.values()]
        names = [_item_name(key, varying, by_tensor) for key in firsts]
        taken = Counter(names)
        return tuple(
            Group(f"{key.op.op_type}.{name}" if taken[name] > 1 and key.op.op_type else name, tuple(numbers))
            for key, name, numbers in zip(firsts, names, members.values(), strict=True)
        )


def plan(suite: Suite) -> Plan:
    """Open both sides of `suite` by name and pair them.

    Raises
    ------
    ConfigError
        A side is missing or of no known format, a map entry cannot be meant, a graph file is unusable, the kernel
        that was asked for is not there.
    """
    choose_kernel()
    allowed = suite.allow_incomplete
    left = _narrowed(index(suite.left.path, graph_files=suite.graph_files, allow_incomplete=allowed), suite.left)
    right = _narrowed(index(suite.right.path, allow_incomplete=allowed), suite.right)
    rules = _rules(suite)
    left, right = _ruled(left, right, rules, has_files=bool(suite.graph_files))
    left = _with_origins(left, right)
    pairing = pair_dumps(
        left,
        right,
        entries=suite.entries,
        rules=rules if rules.given else None,
        align=suite.align,
        selection=_selection(suite, left, right),
        left_format=suite.left_format,
        right_format=suite.right_format,
    )
    return Plan(suite, _noted(left, pairing.notes), right, pairing, rules)


def _rules(suite: Suite) -> FusionRules:
    """Read the rule files of a suite."""
    files = {name: path for name, path in _rule_files(suite).items() if path}
    if not files:
        return _NO_RULES
    from pytest_msdump.dumps.graphs.ge_model import read_model

    return FusionRules(**{name: read_model(path) for name, path in files.items()})


def _rule_files(suite: Suite) -> Mapping[str, Path | None]:
    """The rule files of a suite, by their names in `FusionRules`."""
    return {"model": suite.fusion, "quant": suite.quant_fusion, "close": suite.close_fusion}


def _selection(suite: Suite, left: Dump, right: Dump) -> Selection:
    if not suite.selection.select and not suite.selection.deselect:
        return suite.selection

    return by_names(suite.selection, left, right)


def _with_origins(left: Dump, right: Dump) -> Dump:
    """First of all notes: whoever compares different things need not read on."""
    if left.manifest is None or right.manifest is None:
        return left
    from pytest_msdump.comparison.manifests import different_origins

    return replace(left, notes=(*different_origins(left, right), *left.notes))


def _ruled(left: Dump, right: Dump, rules: FusionRules, *, has_files: bool) -> tuple[Dump, Dump]:
    """Let rule files tell the left side's order and names; what is to be said of them becomes notes of their side."""
    from pytest_msdump.matching.advice import rules_for

    advice = rules_for(left, right, rules)
    if advice and advice.is_wrong:
        raise ConfigError(advice.sentence)
    if rules.base is not None and not has_files:
        from pytest_msdump.dumps.graphs.execution_order import find_orders, with_model_order

        left = left if find_orders(left.root) else with_model_order(left, rules.base)
    graphs = [graph for graph in (rules.model, rules.quant) if graph is not None]
    left = _noted(left, [*_told(graphs), *([advice.sentence] if advice else [])])
    return left, _noted(right, _told([rules.close] if rules.close else []))


def _told(graphs: Iterable[OperatorGraph]) -> Iterable[str]:
    """What the header says of rule files."""
    for graph in graphs:
        count = len(graph.operators)
        yield f"{graph.source} names {count} operator{'' if count == 1 else 's'}"
        yield from (f"{graph.source}: {note}" for note in graph.notes)


def _noted(dump: Dump, notes: Iterable[str]) -> Dump:
    return replace(dump, notes=(*dump.notes, *notes))


def _size(path: Path) -> int:
    """Size in bytes; -1 when the file went away."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _narrowed(dump: Dump, choice: SideChoice) -> Dump:
    """Keep the coordinates that the suite file asks of this side; tensors without the coordinate stay."""
    wanted = {name: parse_spec(text) for name in ("rank", "graph", "iteration") if (text := getattr(choice, name))}

    def chosen(at: Coordinates) -> bool:
        if choice.net is not None and at.net not in (None, choice.net):
            return False
        return all(
            spec is None or getattr(at, name) is None or getattr(at, name) in spec for name, spec in wanted.items()
        )

    if choice.net is None and not wanted:
        return dump
    return replace(
        dump,
        refs=tuple(ref for ref in dump.refs if chosen(ref.key.op.at)),
        older=tuple(ref for ref in dump.older if chosen(ref.key.op.at)),
    )


def _varying(refs: Iterable[TensorRef]) -> tuple[str, ...]:
    """The coordinates that take more than one value in this dump."""
    values: dict[str, set[object]] = {name: set() for name in COORDINATES}
    for ref in refs:
        for name in COORDINATES:
            values[name].add(getattr(ref.key.op.at, name))
    return tuple(name for name in COORDINATES if len(values[name] - {None}) > 1)


_SHOWN_AS = {"rank": "rank{}", "net": "{}", "graph": "graph{}", "iteration": "iter{}", "occurrence": "occ{}"}


def _item_name(key: TensorKey, varying: tuple[str, ...], by_tensor: bool) -> str:
    """True name, coordinates that vary; `::` is written `:_:`, and what a terminal cannot print is escaped."""
    name = key.address if by_tensor else key.op.label
    shown = [
        _SHOWN_AS[coordinate].format(getattr(key.op.at, coordinate))
        for coordinate in varying
        if getattr(key.op.at, coordinate) is not None
    ]
    return terminal_text(name.replace("::", ":_:")) + (f"[{'-'.join(shown)}]" if shown else "")


# -- ``line:net.py:58`` in a selection -------------------------------------------------------------------------------


# Before a place in the program, where globs are typed.
LINE = "line:"

_MOST_LISTED = 5


def by_names(selection: Selection, left: Dump, right: Dump) -> Selection:
    """Return the selection with every line of the program replaced by the names of the operators that it made.

    Parameters
    ----------
    selection : Selection
        As it was typed: ``line:FILE:LINE``, or ``line:`` and code as it stands in the program, among globs.
    left, right : Dump
        Whose graphs are asked.

    Raises
    ------
    ConfigError
        No graph tells lines, or none of them has that one.
    """
    graphs = [graph for dump in (left, right) for _, graph in dump.graphs]

    def names(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for text in texts for name in _meant(text, graphs)))

    return replace(selection, select=names(selection.select), deselect=names(selection.deselect))


def _meant(text: str, graphs: Iterable[OperatorGraph]) -> Iterator[str]:
    if not text.startswith(LINE):
        yield text
        return
    from pytest_msdump.dumps.graphs.source_lines import operators_at

    where = text.removeprefix(LINE)
    found = [operator for graph in graphs for operator in operators_at(graph, where)]
    if not found:
        raise ConfigError(f"{text}: {_why_none(graphs)}")
    # A name may hold brackets; it means itself.
    yield from (glob.escape(operator.name) for operator in found)


def _why_none(graphs: Iterable[OperatorGraph]) -> str:
    from pytest_msdump.dumps.graphs.source_lines import user_frames

    lines = {frame.place for graph in graphs for operator in graph.operators for frame in user_frames(operator)}
    if not lines:
        return (
            'neither side has a graph that tells lines of the program; name one with graph_files = ["….ir"] in the '
            "suite file"
        )
    told = sorted(lines)
    more = len(told) - _MOST_LISTED
    listed = ", ".join(told[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    return f"no operator of either side was made by it; there are {listed}"
