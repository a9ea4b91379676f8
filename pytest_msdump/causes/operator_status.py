"""The status of every operator before roles are given: failed, passed, or not compared and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_msdump.causes.edges import Group, Input, Run
from pytest_msdump.causes.roles import Feed, Node
from pytest_msdump.facts.operators import UNDUMPED_TYPES, VIEW_TYPES, WRITTEN_INPUTS
from pytest_msdump.matching.not_dumped import NOT_DUMPED
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.pairing import Pairing
from pytest_msdump.model.record import Record
from pytest_msdump.model.tensor import OpKey, TensorKey

__all__ = ["TensorStatus", "operator_nodes"]

_BY_NAME = ("name", "mangled", "file")

# Why a tensor has no partner, where its operator is part of another one in the original model.
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
_FORWARDING = VIEW_TYPES | (frozenset(UNDUMPED_TYPES) - _GIVEN)


class TensorStatus:
    """The verdict of each left tensor, and why the others have none; a pair without a record was not run."""

    def __init__(self, pairing: Pairing, records: Mapping[int, Record]) -> None:
        self._fails: dict[TensorKey, bool] = {}
        self._not_run: set[OpKey] = set()
        for number, pair in enumerate(pairing.pairs):
            record = records.get(number)
            if record is None or not record.was_run:
                self._not_run.add(pair.left.key.op)
            else:
                self._fails[pair.left.key] = record.fails or self._fails.get(pair.left.key, False)
        self._reasons = {entry.ref.key: entry.why.code for entry in pairing.unmatched_left}
        self._missing = {entry.left for entry in pairing.missing}
        # If most operators are paired by their names, the other side did not dump one without a partner.
        by_name = [pair.how in _BY_NAME for pair in pairing.pairs if pair.left.key.op.op_type != PARAMETER]
        self._has_names = sum(by_name) > len(by_name) / 2

    @property
    def any_fails(self) -> bool:
        """Whether any tensor fails."""
        return any(self._fails.values())

    def of(self, key: TensorKey) -> str | None:
        """Return ``"fails"`` or ``"passes"``; ``None`` if it was not compared."""
        fails = self._fails.get(key)
        return None if fails is None else "fails" if fails else "passes"

    def of_outputs(self, group: Group, run: Run) -> dict[TensorKey, str | None]:
        """Return the status of each output of an operator."""
        return {ref.key: self.of(ref.key) for ref in group.refs_of(run) if ref.key.io == "output"}

    def is_part(self, key: TensorKey) -> bool:
        """Whether the other side has no such operator because it is part of another one there."""
        why = self._reasons.get(key)
        if why is None or key.address in self._missing or key.op.label in self._missing or why in NOT_DUMPED:
            return False
        return why in _PARTS or not self._has_names

    def state(self, group: Group, run: Run) -> str:
        """Return why an operator has no verdict."""
        op = group.op_of(run)
        if op is None:
            return "not dumped"
        keys = self.of_outputs(group, run)
        if op in self._not_run:
            return "not run"
        if any(key in self._reasons for key in keys):
            return "no partner"
        return "compared in part" if any(keys.values()) else "not selected"


def operator_nodes(group: Group, status: TensorStatus) -> dict[Run, Node[Run]]:
    """Return the operators of a group as nodes: those dumped, in their order, then others that feed them."""
    nodes: dict[Run, Node[Run]] = {}
    waiting = [group.run_of(op) for op in group.tensors]
    for run in waiting:
        if run not in nodes:
            node = nodes[run] = Node(_status(group, status, run), _feeds(group, status, run))
            if node.status != "passes":
                waiting += [feed.producer for feed in node.feeds or () if feed.producer]
    return nodes


def _worst(known: Iterable[str | None]) -> str | None:
    """Return ``"fails"`` if one does, ``"passes"`` if none does and one passes."""
    found = set(known)
    return next((one for one in ("fails", "passes") if one in found), None)


def _status(group: Group, status: TensorStatus, run: Run) -> str:
    if run.kind == "given":
        return _before(group, status, run.name) or "given"
    if run.kind == "update":
        return "part"
    outputs = status.of_outputs(group, run)
    verdict = _worst(outputs.values())
    if verdict is not None and run.kind != "rest":
        return verdict
    op = group.op_of(run)
    if run.kind == "parameter" or group.type_of(run) in _GIVEN:
        return "given"
    if (op.op_type if op and op.op_type else group.type_of(run)) in _FORWARDING:
        return "forwards"
    keys = [key for key, known in outputs.items() if known is None]
    return "part" if keys and all(map(status.is_part, keys)) else "unseen"


def _before(group: Group, status: TensorStatus, parameter: str) -> str | None:
    """Return the status of a parameter as the iteration before left it; ``None`` if it was not compared there."""
    if parameter not in group.before:
        return None
    earlier, op = group.before[parameter]
    return _worst(status.of_outputs(earlier, earlier.run_of(op)).values())


def _feeds(group: Group, status: TensorStatus, run: Run) -> Sequence[Feed[Run]] | None:
    if run.kind == "parameter":
        return list(_writers(group, status, run.name))
    own = _own_inputs(group, status, run)
    inputs = group.inputs(run)
    if inputs is not None:
        return [_feed(group, status, run, entry, own.get(entry.slot)) for entry in inputs]
    # Without a graph, inputs that pass prove something only if all of them were compared.
    known = set(own.values())
    return [Feed(None, one) for one in own.values()] if "fails" in known or (own and None not in known) else None


def _writers(group: Group, status: TensorStatus, parameter: str) -> Iterator[Feed[Run]]:
    """Yield what a parameter's value after the step comes from: what writes to it, else the iteration before."""
    writers = group.writers.get(parameter, ())
    for writer in writers:
        # If the writer has no verdict, the parameter stands for what it wrote.
        verdict = _worst(status.of_outputs(group, writer).values())
        yield Feed(writer if verdict else writer._replace(kind="update"))
    before = _before(group, status, parameter)
    if not writers and before:
        yield Feed(Run("given", parameter), before)


def _own_inputs(group: Group, status: TensorStatus, run: Run) -> dict[int, str | None]:
    """Return the status of an operator's own inputs by slot, without those that it writes to."""
    op = group.op_of(run)
    written = WRITTEN_INPUTS.get(op.op_type or "", frozenset()) if op is not None else frozenset()
    keys = [ref.key for ref in group.refs_of(run) if ref.key.io == "input" and ref.key.slot not in written]
    return {key.slot: status.of(key) for key in keys}


def _feed(group: Group, status: TensorStatus, run: Run, entry: Input, own: str | None) -> Feed[Run]:
    producer = entry.producer
    if producer.kind == "parameter":
        # MindSpore dumps parameters after the step; the value before it is the one that the iteration before left.
        before = _before(group, status, producer.name)
        if before == "fails" or not group.reads_after_step(run, producer.name):
            return Feed(producer._replace(kind="given"), own or before)
    if own is not None:
        return Feed(producer, own)
    outputs = status.of_outputs(group, producer)
    known = next((outputs[key] for key in outputs if key.slot == entry.output), None)
    if known is None and _worst(outputs.values()) == "passes":
        return Feed(producer._replace(kind="rest"))
    return Feed(producer, known)
