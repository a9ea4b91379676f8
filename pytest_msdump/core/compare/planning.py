"""Plan a suite: index both dumps by name, pair them, and group the pairs by operator. Reads no tensor."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.compare.additions import (
    NO_HOOKS,
    Hooks,
    added_entries,
    with_added_limits,
    with_added_to_pairs,
    with_same_pairs,
)
from pytest_msdump.core.compare.assemble import side_info
from pytest_msdump.core.compare.opening import index, logical_shape
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.limits.resolve import check_known_drifts, settled
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.matching.rules import FusionRules, rules_for
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.model.spellings import KnownNames, addresses, glob_matches
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, TensorKey, TensorRef
from pytest_msdump.core.settings.options import parse_spec
from pytest_msdump.core.text import Message, say

if TYPE_CHECKING:
    from pytest_msdump.core.matching.leaving import Names
    from pytest_msdump.core.matching.selection import Selection
    from pytest_msdump.core.model.dump import Dump, OperatorGraph
    from pytest_msdump.core.model.report import SideInfo
    from pytest_msdump.core.model.tensor import Pairing
    from pytest_msdump.core.suite import SideChoice, Suite

_TWO_FILES = 2
# Passes of a training may lie in one such folder.
_FLAT = "npy-folder"
_NO_RULES = FusionRules()
# Where no name of a dump begins so, none is counted, and `matching.naming` is not asked: nodes of an export, and what
# every trace of a network has some of.
_COUNTED = re.compile(r"node_\w|(?:add|mul|matmul|view|reshape|transpose|cat)(?:_[0-9]+)?$")


class OperatorGroup(NamedTuple):
    """The pairs of one test item, as indexes into the plan; `name` is what pytest shows (INTERFACE 3)."""

    name: str
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Two dumps and their pairs. The same suite gives the same plan in every process that sees the same files."""

    suite: Suite
    left: Dump
    right: Dump
    pairing: Pairing
    rules: FusionRules = _NO_RULES
    extras: Extras = NO_EXTRAS
    golden: Dump | None = None
    third: Dump | None = None
    hooks: Hooks = field(default_factory=dict)

    @property
    def dumps(self) -> tuple[Dump, ...]:
        """All dumps: left, right, and golden and third where they are given."""
        return (self.left, self.right, *filter(None, (self.golden, self.third)))

    @property
    def roots(self) -> tuple[Path, ...]:
        """Their directories."""
        return tuple(dump.root for dump in self.dumps)

    @cached_property
    def digest(self) -> str:
        """Identity of the plan: the suite as resolved, and the names and sizes of all files that are compared."""
        digest = hashlib.sha256(repr(self.suite).encode())
        for ref in (ref for dump in self.dumps for ref in dump.refs):
            for path in ref.source.pieces or (ref.source.path,):
                digest.update(f"{path}\0{_size(path)}\0".encode(errors="surrogateescape"))
        beside = [*filter(None, _rule_files(self.suite).values()), *self.suite.graph_files]
        digest.update(repr([_size(path) for path in beside]).encode())
        return digest.hexdigest()

    @cached_property
    def names(self) -> Names:
        """What a name that is typed means among left and right."""
        names: Names = ports.load("pytest_msdump.core.matching.leaving:Names")(
            self.left, self.right, pairs=self.pairing.pairs
        )
        return names

    @cached_property
    def operators(self) -> int:
        """Number of left operators, each run of one (rank, iteration, …) counted by itself."""
        return self.sides[0].operators

    @cached_property
    def sides(self) -> tuple[SideInfo, SideInfo]:
        """Both sides as the header and the report show them."""
        left, right = side_info(self.left), side_info(self.right)
        manifest = self.left.manifest
        is_counted = (manifest is not None and manifest.framework.startswith("onnx")) or any(
            map(_COUNTED.match, [ref.key.op.name for ref in self.left.refs])
        )
        return replace(left, shown=self.names.shown) if is_counted else left, right

    @cached_property
    def further(self) -> dict[str, SideInfo]:
        """Golden and third likewise, by name, where they are given."""
        return {name: side_info(dump) for name in ("golden", "third") if (dump := getattr(self, name)) is not None}

    @cached_property
    def unseen(self) -> int:
        """Number of pairs that are compared by statistics, since a tensor was not saved."""
        return sum(pair.left.is_unseen or pair.right.is_unseen for pair in self.pairing.pairs)

    @cached_property
    def argument_books(self) -> tuple[Any, Any]:
        """Attributes of the operators of either side, from its graphs; made when a pair fails."""
        book = ports.load(ports.rows("GRAPHS")["arguments"])
        return book(self.left), book(self.right)

    @cached_property
    def groups(self) -> tuple[OperatorGroup, ...]:
        """The test items of this plan, in execution order."""
        varying = _varying(self.left.refs)
        by_tensor = self.suite.options["granularity"] == "tensor"
        members: dict[tuple[int, str], list[int]] = {}
        for number, pair in enumerate(self.pairing.pairs):
            members.setdefault((pair.order, pair.left.key.address if by_tensor else ""), []).append(number)
        firsts = [self.pairing.pairs[numbers[0]].left.key for numbers in members.values()]
        shown = self.sides[0].shown
        names = [_item_name(key, varying, by_tensor, shown.get(key.op.label, key.op.label)) for key in firsts]
        taken = Counter(names)
        return tuple(
            OperatorGroup(f"{key.op.op_type}.{name}" if taken[name] > 1 and key.op.op_type else name, tuple(numbers))
            for key, name, numbers in zip(firsts, names, members.values(), strict=True)
        )


def plan(suite: Suite, *, newest_only: bool = False, hooks: Hooks = NO_HOOKS) -> Plan:
    """Index both sides of a suite by name and pair them; what cannot be used raises `ConfigError`."""
    choose_kernel()
    allowed = suite.options["allow_incomplete"]
    graphs = {"left": suite.graph_files}
    sides = {"left": suite.left, "right": suite.right, "golden": suite.golden, "third": suite.third}
    dumps: Mapping[str, Dump] = {
        side: _narrowed(
            index(
                choice.path,
                graph_files=graphs.get(side, ()),
                allow_incomplete=allowed,
                stored=(choice.dtype, choice.shape),
            ),
            choice,
        )
        for side, choice in sides.items()
        if choice is not None
    }
    if newest_only:
        newest_files = ports.load("pytest_msdump.core.dumps.reruns:newest_files")
        dumps = {side: newest_files(dump) for side, dump in dumps.items()}
    conditions = {
        "shards" if suite.sharding is not None else "",
        "ranks" if any(one.ranks for one in dumps.values()) else "",
    }
    for step in ports.steps("runs"):
        if step.is_met(conditions):
            dumps = step.function(dumps, suite)
    runs = dict(dumps)
    left, right = runs.pop("left"), runs.pop("right")
    if _FLAT in (left.reader, right.reader):
        with_steps = ports.load("pytest_msdump.core.dumps.npy_folder:with_steps")
        left, right = with_steps(left, right), with_steps(right, left)
    for name, run in runs.items():
        if run.root == left.root:
            raise ConfigError(f"{name} {run.root}: is the left side itself, which it would judge; name another run")
        origins = ports.offered("origins")
        origins.refuse_other_origins(run, right, name=name)
        if origins.has_other_graph(run, right):
            runs[name] = _noted(run, [say(Message("golden_graph_differs"))])
    left, right, rules = _ruled(left, right, suite)
    more = added_entries(left, right, hooks)
    pairing = pair_dumps(
        left,
        right,
        entries=(*suite.entries, *more),
        rules=rules if rules.given else None,
        align=suite.align,
        selection=_selected(suite.selection, left, right),
        left_format=suite.left_format,
        right_format=suite.right_format,
        # Partners that were added leave the ways as they would be without these.
        ways=suite.options["pair_by"] or (tuple(ports.rows("WAYS")) if more and not suite.entries else None),
        exclude_types=suite.options["exclude_types"],
        shape_of=logical_shape,
    )
    policy = settled(suite.policy, KnownNames(lambda: (ref.key for dump in (left, right) for ref in dump.refs)))
    suite = suite if policy is suite.policy else replace(suite, policy=policy)
    check_known_drifts(policy, pairing.pairs)
    if pairing.lost_outputs:
        pairing = replace(pairing, lost_outputs=tuple(_not_allowed(pairing.lost_outputs, suite)))
    conditions |= {"golden" if runs else "", "several" if len(left.refs) + len(right.refs) > _TWO_FILES else ""}
    conditions |= {left.reader, right.reader}
    for step in ports.steps("paired"):
        if step.is_met(conditions):
            pairing, said_of = with_added_to_pairs(step, pairing, {"left": left, "right": right, **runs})
            runs = {name: _noted(dump, said_of.get(name, ())) for name, dump in runs.items()}
            left, right = _noted(left, said_of.get("left", ())), _noted(right, said_of.get("right", ()))
    for step in ports.steps("ruled"):
        if step.is_met(suite.policy.marks):
            pairing = with_same_pairs(step, pairing, step.function(pairing, suite.policy))
    policy = with_added_limits(suite.policy, pairing.pairs, hooks)
    suite = suite if policy is suite.policy else replace(suite, policy=policy)
    if suite.policy.limits is not None:
        right = _noted(right, suite.policy.limits.notes_with(right, pairing))
    # First of all notes: runs with different inputs have nothing to agree about.
    by_tokens = suite.sharding is not None and suite.sharding.tokens is not None
    target = ports.rows("OFFERS").get("origins") if all(_has_manifest(dump) for dump in (left, right)) else None
    origins = target and ports.load(target)
    said = origins.different_origins(left, right, pairing.pairs, by_tokens=by_tokens) if origins else ()
    paired = (ref for pair in pairing.pairs for ref in (pair.left, pair.right))
    if said and any("shards" in ref.parts for ref in (*left.refs, *right.refs, *paired)):
        # Of a part of a weight the digest says nothing of the whole.
        said = ()
    if notes := (*said, *left.notes, *pairing.notes):
        left = replace(left, notes=notes)
    if origins:
        pairing = origins.without_folded(pairing, left, right)
    return Plan(suite, left, right, pairing, rules, golden=runs.get("golden"), third=runs.get("third"), hooks=hooks)


def _has_manifest(dump: Dump) -> bool:
    return dump.manifest is not None or bool(dump.ranks)


def in_all_ways(planned: Plan) -> Plan:
    """Return the plan of the same suite with no way of pairing left out."""
    options = {**planned.suite.options, "pair_by": tuple(ports.rows("WAYS"))}
    return plan(replace(planned.suite, options=options), hooks=planned.hooks)


def _selected(selection: Selection, left: Dump, right: Dump) -> Selection:
    """Replace what a capability knows to be the name of several operators, by its prefix, such as ``line:``."""
    for prefix, target in ports.rows("SELECTORS").items():
        if any(text.startswith(prefix) for text in (*selection.select, *selection.deselect)):
            selection = ports.load(target)(selection, left, right)
    return selection


def _not_allowed(outputs: Iterable[tuple[str, TensorRef]], suite: Suite) -> Iterable[tuple[str, TensorRef]]:
    """Yield outputs of the right's model but those that ``allow_uncompared`` names, by any of their names."""
    outputs = list(outputs)
    known = KnownNames(lambda: (ref.key for _, ref in outputs))
    allowed = {name for typed in suite.options["allow_uncompared"] for name in (typed, known.settle(typed))}
    for name, ref in outputs:
        if not any(glob_matches(typed, (name, *addresses(ref.key))) for typed in allowed):
            yield name, ref


def _rule_files(suite: Suite) -> Mapping[str, Path | None]:
    return {"model": suite.fusion, "quant": suite.quant_fusion, "close": suite.close_fusion}


def _ruled(left: Dump, right: Dump, suite: Suite) -> tuple[Dump, Dump, FusionRules]:
    """Read rule files, take the left side's order from them, and put what there is to say of them into the notes."""
    files = {name: path for name, path in _rule_files(suite).items() if path}
    graphs = ports.rows("GRAPHS")
    if files and "model" not in graphs:
        raise ConfigError(f"{next(iter(files.values()))}: nothing installed reads compiled models; leave it out")
    rules = FusionRules(**{name: ports.load(graphs["model"])(path) for name, path in files.items()})
    advice = rules_for(left, right, rules)
    if advice and advice.is_wrong:
        raise ConfigError(advice.sentence)
    if rules.base is not None and not suite.graph_files:
        left = ports.load(graphs["order"])(left, rules.base)
    read = [graph for graph in (rules.model, rules.quant) if graph is not None]
    left = _noted(left, [*_graph_notes(read), *([advice.sentence] if advice else [])])
    return left, _noted(right, _graph_notes([rules.close] if rules.close else [])), rules


def _graph_notes(graphs: Iterable[OperatorGraph]) -> Iterable[str]:
    for graph in graphs:
        count = len(graph.operators)
        yield f"{graph.source} names {count} operator{'' if count == 1 else 's'}"
        yield from (f"{graph.source}: {note}" for note in graph.notes)


def _noted(dump: Dump, notes: Iterable[str]) -> Dump:
    added = tuple(notes)
    return replace(dump, notes=(*dump.notes, *added)) if added else dump


def _size(path: Path) -> int:
    """Size in bytes; -1 when the file went away."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _narrowed(dump: Dump, choice: SideChoice) -> Dump:
    """Keep the coordinates that the suite file chooses for this side; tensors without the coordinate stay."""
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


def _item_name(key: TensorKey, varying: tuple[str, ...], by_tensor: bool, name: str) -> str:
    """A name, coordinates that vary; `::` is written `:_:`, and what a terminal cannot print is escaped."""
    name = f"{name}:{key.io}:{key.slot}" if by_tensor else name
    shown = key.op.at.shown(varying)
    return terminal_text(name.replace("::", ":_:")) + (f"[{shown}]" if shown else "")
