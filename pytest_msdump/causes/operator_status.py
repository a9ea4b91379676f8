"""What is known of every operator of a dump before roles are given: who was compared, who was not, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_msdump.causes.edges import Group, Input, Run
from pytest_msdump.causes.frontier import Feed, Node
from pytest_msdump.facts.operators import UNDUMPED_TYPES, VIEW_TYPES, WRITTEN_INPUTS
from pytest_msdump.matching.not_dumped import NOT_DUMPED
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.pairing import Pairing
from pytest_msdump.model.record import Record
from pytest_msdump.model.tensor import OpKey, TensorKey

__all__ = ["Standings", "nodes_of"]

_FAILS, _PASSES = "fails", "passes"
_BY_NAME = ("name", "mangled", "file")

# Reasons of tensors whose operator is part of another one in the original model.
_PARTS = frozenset(
    {
        "inserted",
        "inner",
        "fused",
        "l1_fusion",
        "l2_fusion",
        "quant_output",
        "quantised",
        "quantised_input",
        "dequant_input",
    }
)
_GIVEN = frozenset(op_type for op_type, why in UNDUMPED_TYPES.items() if why in ("data", "const"))
_CLEAR = VIEW_TYPES | (frozenset(UNDUMPED_TYPES) - _GIVEN)


class Standings:
    """Verdicts by tensor, and why the others have none.

    Parameters
    ----------
    pairing : Pairing
        Who was to be compared.
    records : mapping of int to Record
        Records by number of the pair; one that is missing was not run.
    """

    def __init__(self, pairing: Pairing, records: Mapping[int, Record]) -> None:
        self.records: dict[TensorKey, list[Record]] = {}
        # Where nothing does, nobody needs to know what is known of each operator.
        self.fails = any(record.fails for record in records.values())
        self._not_run: set[OpKey] = set()
        for number, pair in enumerate(pairing.pairs):
            record = records.get(number)
            if record is None or not record.was_run:
                self._not_run.add(pair.left.key.op)
            else:
                self.records.setdefault(pair.left.key, []).append(record)
        self._reasons = {entry.ref.key: entry.why.code for entry in pairing.unmatched_left}
        self._missing = {entry.left for entry in pairing.missing}
        # Where most operators meet by their names, one without a partner is one that the other side did not dump.
        by_name = [pair.how in _BY_NAME for pair in pairing.pairs if pair.left.key.op.op_type != PARAMETER]
        self._has_names = sum(by_name) > len(by_name) / 2

    def of(self, key: TensorKey) -> str | None:
        """``"fails"`` or ``"passes"``; ``None`` where it was not compared."""
        records = self.records.get(key)
        if not records:
            return None
        return _FAILS if any(record.fails for record in records) else _PASSES

    def is_part(self, key: TensorKey) -> bool:
        """Whether the other side has no such operator because it is part of another there."""
        why = self._reasons.get(key)
        if why is None or key.address in self._missing or key.op.label in self._missing or why in NOT_DUMPED:
            return False
        return why in _PARTS or not self._has_names

    def state(self, group: Group, run: Run) -> str:
        """Why there is no verdict, in a word or two."""
        op = group.op_of(run)
        if op is None:
            return "not dumped"
        keys = [ref.key for ref in group.tensors[op] if ref.key.io == "output"]
        if op in self._not_run:
            return "not run"
        if any(key in self._reasons for key in keys):
            return "no partner"
        return "compared in part" if any(key in self.records for key in keys) else "not selected"


def nodes_of(group: Group, standings: Standings) -> dict[Run, Node[Run]]:
    """Return the operators of a group as localising takes them: those dumped, in their order, then what feeds them."""
    book = _Book(group, standings)
    nodes: dict[Run, Node[Run]] = {}
    waiting = [group.run_of(op) for op in group.tensors]
    for run in waiting:
        if run in nodes:
            continue
        node = book.node(run)
        nodes[run] = node
        if node.standing != _PASSES:
            waiting += [feed.producer for feed in node.feeds or () if feed.producer and feed.producer not in nodes]
    return nodes


def _worst(standings: Iterable[str | None]) -> str | None:
    """Return ``"fails"`` where one does, ``"passes"`` where none does and one passes."""
    known = set(standings)
    return next((one for one in (_FAILS, _PASSES) if one in known), None)


class _Book:
    """Makes the node of a run."""

    def __init__(self, group: Group, standings: Standings) -> None:
        self._group = group
        self._standings = standings

    def node(self, run: Run) -> Node[Run]:
        return Node(self._standing(run), self._feeds(run))

    def _standing(self, run: Run) -> str:
        if run.kind == "given":
            return self._before(run.name) or "given"
        if run.kind == "update":
            return "within"
        op = self._group.op_of(run)
        outputs = self._outputs(op)
        verdict = _worst(outputs.values())
        if verdict is not None and run.kind != "rest":
            return verdict
        if run.kind == "parameter" or self._group.type_of(run) in _GIVEN:
            return "given"
        if (op.op_type if op and op.op_type else self._group.type_of(run)) in _CLEAR:
            return "clear"
        keys = [key for key, verdict in outputs.items() if verdict is None]
        return "within" if keys and all(map(self._standings.is_part, keys)) else "unseen"

    def _outputs(self, op: OpKey | None) -> Mapping[TensorKey, str | None]:
        refs = self._group.tensors[op] if op is not None else ()
        return {ref.key: self._standings.of(ref.key) for ref in refs if ref.key.io == "output"}

    def _before(self, parameter: str) -> str | None:
        """What became of a parameter as the iteration before left it; ``None`` where it was not compared there."""
        group, op = self._group.before.get(parameter, (None, None))
        if group is None or op is None:
            return None
        return _worst(self._standings.of(ref.key) for ref in group.tensors[op] if ref.key.io == "output")

    def _feeds(self, run: Run) -> Sequence[Feed[Run]] | None:
        if run.kind == "parameter":
            return list(self._writers(run.name))
        inputs = self._group.inputs(run)
        own = self._own_inputs(run)
        if inputs is None:
            # Only all inputs together can tell that nothing came from them.
            told = set(own.values())
            if _FAILS in told or (own and None not in told):
                return [Feed(None, standing) for standing in own.values()]
            return None
        return [self._feed(run, entry, own.get(entry.slot)) for entry in inputs]

    def _writers(self, parameter: str) -> Iterator[Feed[Run]]:
        """Yield what made a parameter what it is after the step: what writes to it, else the iteration before."""
        writers = self._group.writers.get(parameter, ())
        for writer in writers:
            outputs = self._outputs(self._group.op_of(writer))
            # Of a writer without a verdict the parameter itself tells what came out.
            yield Feed(writer if _worst(outputs.values()) else writer._replace(kind="update"))
        if not writers and self._before(parameter):
            yield Feed(Run("given", parameter), self._before(parameter))

    def _own_inputs(self, run: Run) -> dict[int, str | None]:
        """Verdicts of the operator's own inputs, but for those that it writes to."""
        op = self._group.op_of(run)
        refs = self._group.tensors[op] if op is not None and run.kind != "parameter" else ()
        written = WRITTEN_INPUTS.get(op.op_type or "", frozenset()) if op is not None else frozenset()
        return {
            ref.key.slot: self._standings.of(ref.key)
            for ref in refs
            if ref.key.io == "input" and ref.key.slot not in written
        }

    def _feed(self, run: Run, entry: Input, own: str | None) -> Feed[Run]:
        producer = self._group.op_of(entry.producer)
        if entry.producer.kind == "parameter":
            # Parameters are dumped after the step: what was taken is the value before it, which only the iteration
            # before can show.
            before = self._before(entry.producer.name)
            if before == _FAILS or not self._group.reads_after_step(run, entry.producer.name):
                return Feed(entry.producer._replace(kind="given"), own or before)
        if own is not None or producer is None:
            return Feed(entry.producer, own)
        outputs = self._outputs(producer)
        standing = next((outputs[key] for key in outputs if key.slot == entry.output), None)
        if standing is not None:
            return Feed(entry.producer, standing)
        if _PASSES in outputs.values() and _FAILS not in outputs.values():
            return Feed(entry.producer._replace(kind="rest"), None)
        return Feed(entry.producer, None)
