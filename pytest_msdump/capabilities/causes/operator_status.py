"""The status of every operator before roles are given: failed, passed, or not compared and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pytest_msdump.capabilities.causes.edges import Input, OperatorRun, PairGroup
from pytest_msdump.capabilities.causes.growth import Drift, Feed, NetworkNode, drift_of
from pytest_msdump.core.facts.operators import UNDUMPED_TYPES, VIEW_TYPES, WRITTEN_INPUTS
from pytest_msdump.core.matching.kinds import weight_name
from pytest_msdump.core.matching.not_dumped import NOT_DUMPED
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import OpKey, Pairing, TensorKey

_BY_NAME = ("name", "mangled", "file")

# Why a tensor has no partner, where its operator is part of another one in the original model, or only hands on what it
# is given, as Dropout does in evaluation.
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
        "passed_on",
        "returns_inner",
    }
)
_GIVEN = frozenset(op_type for op_type, why in UNDUMPED_TYPES.items() if why in ("data", "const"))
_FORWARDING = VIEW_TYPES | (frozenset(UNDUMPED_TYPES) - _GIVEN)


def is_unjoined(record: Record) -> bool:
    """Whether a tensor is a rank's part that nothing put together, so that it says nothing of an operator."""
    return any(finding.message.code == "cut_over_ranks" for finding in record.verdict.findings)


class TensorStatus:
    """The verdict of each left tensor, and why the others have none; a pair without a record was not run."""

    def __init__(
        self, pairing: Pairing, records: Mapping[int, Record], given: Mapping[TensorKey, Record] | None = None
    ) -> None:
        # Whether it fails, and how far it is apart.
        self._known: dict[TensorKey, tuple[bool, Drift | None]] = {}
        self._not_run: set[OpKey] = set()
        for number, pair in enumerate(pairing.pairs):
            record = records.get(number)
            fails = record is not None and record.fails
            if record is None or not record.was_run or (fails and is_unjoined(record)):
                self._not_run.add(pair.left.key.op)
            else:
                key, drift = pair.left.key, drift_of(record)
                known = self._known.get(key)
                self._known[key] = (fails, drift) if known is None else (fails or known[0], _larger(drift, known[1]))
        self._reported = set(self._known)
        for key, record in (given or {}).items():
            if record.verdict.outcome != "error":
                self._known.setdefault(key, (record.fails, drift_of(record)))
        self._reasons = {entry.ref.key: entry.why.code for entry in pairing.unmatched_left}
        self._missing = {entry.left for entry in pairing.missing}
        # If most operators are paired by their names, the other side did not dump one without a partner.
        by_name = [pair.how in _BY_NAME for pair in pairing.pairs if pair.left.key.op.op_type != PARAMETER]
        self._has_names = sum(by_name) > len(by_name) / 2

    def is_reported(self, key: TensorKey) -> bool:
        """Whether a tensor has a record; others were compared to know where a mistake is."""
        return key in self._reported

    def of(self, key: TensorKey) -> str | None:
        """Return ``"fails"`` or ``"passes"``; ``None`` if it was not compared."""
        known = self._known.get(key)
        return None if known is None else "fails" if known[0] else "passes"

    def drift_of(self, key: TensorKey) -> Drift | None:
        """Return how far a tensor is apart, the largest of several records; ``None`` if that is unknown."""
        known = self._known.get(key)
        return None if known is None else known[1]

    def drift_of_outputs(self, group: PairGroup, run: OperatorRun) -> Drift | None:
        """Return the largest drift of an operator's outputs; ``None`` if one that was compared is unknown."""
        outputs = [self._known.get(ref.key) for ref in group.refs_of(run) if ref.key.io == "output"]
        drifts = [known[1] for known in outputs if known is not None]
        return reduce(_larger, drifts) if drifts else None

    def of_outputs(self, group: PairGroup, run: OperatorRun) -> dict[TensorKey, str | None]:
        """Return the status of each output of an operator."""
        return {ref.key: self.of(ref.key) for ref in group.refs_of(run) if ref.key.io == "output"}

    def is_part(self, key: TensorKey) -> bool:
        """Whether the other side needs no such operator: it is part of another one there, or hands its input on."""
        why = self._reasons.get(key)
        if why is None or key.address in self._missing or key.op.label in self._missing or why in NOT_DUMPED:
            return False
        return why in _PARTS or not self._has_names

    def state(self, group: PairGroup, run: OperatorRun) -> str:
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


def operator_nodes(group: PairGroup, status: TensorStatus) -> dict[OperatorRun, NetworkNode[OperatorRun]]:
    """Return a group's operators as nodes, dumped ones first, then what feeds them; of one name only the first."""
    nodes: dict[OperatorRun, NetworkNode[OperatorRun]] = {}
    dumped = group.runs
    waiting = list(dumped)
    for run in waiting:
        if run not in nodes:
            node = nodes[run] = NetworkNode(
                _status(group, status, run),
                _feeds(group, status, run),
                _drift(group, status, run),
                is_steep=run.kind == "op" and "softmax" in group.type_of(run).lower(),
            )
            waiting += [feed.producer for feed in node.feeds or () if feed.producer]
    _clear_unknown(nodes, dumped)
    return nodes


def _clear_unknown(nodes: dict[OperatorRun, NetworkNode[OperatorRun]], dumped: Sequence[OperatorRun]) -> None:
    """Have operations that were not followed pass where all passes that they can have taken anything from."""
    called = {(run.name, run.occurrence): place for place, run in enumerate(dumped) if run.kind == "op"}
    doubtful = next(
        (place for place, run in enumerate(dumped) if nodes[run].status in ("fails", "unseen")), len(dumped)
    )
    for run in nodes:
        if run.kind == "gap" and called[run.name, run.slot] <= doubtful:
            nodes[run] = NetworkNode("passes")


def _larger(one: Drift | None, other: Drift | None) -> Drift | None:
    # Their other fields may be None, which has no order.
    return None if one is None or other is None else max(one, other, key=lambda drift: (drift.error, drift.share or 0))


def _drift(group: PairGroup, status: TensorStatus, run: OperatorRun) -> Drift | None:
    """Return how far what an operator wrote, or was given, is apart."""
    if run.kind == "input":
        return next((status.drift_of(ref.key) for ref in group.refs_of(run)), None)
    if run.kind == "given":
        return _before(group, status, run.name).drift
    return status.drift_of_outputs(group, run) if run.kind in ("op", "parameter") else None


def _worst(known: Iterable[str | None]) -> str | None:
    """Return ``"fails"`` if one does, ``"passes"`` if none does and one passes."""
    found = set(known)
    return "fails" if "fails" in found else "passes" if "passes" in found else None


def _status(group: PairGroup, status: TensorStatus, run: OperatorRun) -> str:
    if run.kind == "given":
        return _before(group, status, run.name).status or "given"
    if run.kind == "update":
        return "part"
    if run.kind == "input":
        return _worst(status.of(ref.key) for ref in group.refs_of(run)) or "unseen"
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


def _before(group: PairGroup, status: TensorStatus, parameter: str) -> Feed[OperatorRun]:
    """Return a parameter as the iteration before left it; without a status if it was not compared there."""
    given = OperatorRun("given", parameter)
    if parameter not in group.before:
        return Feed(given)
    earlier, op = group.before[parameter]
    run = earlier.run_of(op)
    return Feed(given, _worst(status.of_outputs(earlier, run).values()), status.drift_of_outputs(earlier, run))


def _feeds(group: PairGroup, status: TensorStatus, run: OperatorRun) -> Sequence[Feed[OperatorRun]] | None:
    if run.kind == "parameter":
        return list(_writers(group, status, run.name))
    if run.kind == "input":
        op = run._replace(kind="op", slot=0)
        entries = [entry for entry in group.inputs(op) or () if entry.slot == run.slot]
        joined = [entry for entry in group.joined(op) if not group.is_inside(entry.producer, op)]
        found = [_feed(group, status, op, entry, {}) for entry in (*entries, *joined)]
        return found or list(_of_network(group, status, op))
    own = _own_inputs(group, status, run)
    inputs = group.inputs(run)
    if inputs is not None:
        inside = [entry.producer for entry in inputs if group.is_inside(entry.producer, run)]
        # Inputs that were compared say what came of all that was joined into them.
        decided = group.joined(run) if own and None not in own.values() else []
        outer = [entry for entry in inputs if entry.producer not in inside and entry not in decided]
        feeds = [_feed(group, status, run, entry, own) for entry in outer]
        begun = own.keys() - {entry.slot for entry in inputs}
        if begun and any(_of_network(group, status, run)):
            given = {slot: OperatorRun("input", run.name, run.occurrence, slot) for slot in sorted(begun)}
            feeds += [replace(feed, producer=given[slot]) for slot in given if (feed := own[slot]) is not None]
        # What was left out by the run, and not by the dumps, may be what is wrong inside.
        compared = [
            one
            for one in inside
            if _worst(status.of_outputs(group, one).values()) or status.state(group, one) == "not run"
        ]
        failing = (one for one, verdict in _compared_inside(group, status, run) if verdict == "fails")
        inner = dict.fromkeys([*compared, *failing])
        return [*feeds, *(Feed(one, is_inside=True) for one in inner)]
    within = [Feed(one, is_inside=True) for one, _ in _compared_inside(group, status, run)]
    # Without a graph, inputs that pass prove something only if all of them were compared.
    known = {one and one.status for one in own.values()}
    is_known = "fails" in known or (own and None not in known)
    return [*((one or Feed(None) for one in own.values()) if is_known else ()), *within] or None


def _of_network(group: PairGroup, status: TensorStatus, run: OperatorRun) -> Iterator[Feed[OperatorRun]]:
    """Yield what the innermost module around was given from outside of the recording, if that was compared."""
    outer = group.around(run)
    while outer is not None:
        begun = {entry.slot for entry in group.inputs(outer) or ()}
        own = {slot: feed for slot, feed in _own_inputs(group, status, outer).items() if slot not in begun}
        if any(own.values()):
            for slot, feed in own.items():
                yield replace(feed or Feed(None), producer=OperatorRun("input", outer.name, outer.occurrence, slot))
            return
        outer = group.around(outer)


def _compared_inside(group: PairGroup, status: TensorStatus, run: OperatorRun) -> Iterator[tuple[OperatorRun, str]]:
    """Yield the calls inside of a module with their verdict; those of modules inside of it with one are theirs."""
    waiting = list(group.calls_inside.get(run, ()))
    while waiting:
        inner = waiting.pop()
        verdict = _worst(status.of_outputs(group, inner).values())
        if verdict is None:
            waiting += group.calls_inside.get(inner, ())
        else:
            yield inner, verdict


def _writers(group: PairGroup, status: TensorStatus, parameter: str) -> Iterator[Feed[OperatorRun]]:
    """Yield what a parameter's value after the step comes from: what writes to it, else the iteration before."""
    writers = group.writers.get(parameter, ())
    for writer in writers:
        # If the writer has no verdict, the parameter stands for what it wrote.
        verdict = _worst(status.of_outputs(group, writer).values())
        yield Feed(writer if verdict else writer._replace(kind="update"))
    before = _before(group, status, parameter)
    if not writers and before.status:
        yield before
    weight = weight_name(parameter)
    if writers and weight is not None and not weight.state and _fails(group, status, parameter):
        # An optimizer makes the weight of the momentum or the moments that it writes as well.
        for other in group.writers:
            state = weight_name(other)
            is_compared = state is not None and state.state and state.weight == weight.weight
            if is_compared and _worst(status.of_outputs(group, OperatorRun("parameter", other)).values()):
                yield Feed(OperatorRun("parameter", other))


def _fails(group: PairGroup, status: TensorStatus, parameter: str) -> bool:
    return _worst(status.of_outputs(group, OperatorRun("parameter", parameter)).values()) == "fails"


def _own_inputs(group: PairGroup, status: TensorStatus, run: OperatorRun) -> dict[int, Feed[OperatorRun] | None]:
    """Return an operator's own inputs by slot, without those that it writes to; ``None`` if not compared."""
    inputs = [ref.key for ref in group.refs_of(run) if ref.key.io == "input"]
    op = group.op_of(run) if inputs else None
    written = WRITTEN_INPUTS.get(op.op_type or "", frozenset()) if op is not None else frozenset()
    keys = [key for key in inputs if key.slot not in written]
    known = {key: status.of(key) for key in keys}
    return {key.slot: Feed(None, known[key], status.drift_of(key)) if known[key] else None for key in keys}


def _given_to(group: PairGroup, status: TensorStatus, outer: OperatorRun, entry: Input) -> Feed[OperatorRun] | None:
    """Return the input of a module by which it was given what a call inside of it reads, if that was compared."""
    own = _own_inputs(group, status, outer)
    for given in group.inputs(outer) or () if any(own.values()) else ():
        known = own.get(given.slot)
        if known is not None and (given.producer, given.output) == (entry.producer, entry.output):
            return replace(known, producer=OperatorRun("input", outer.name, outer.occurrence, given.slot))
    return None


def _feed(
    group: PairGroup,
    status: TensorStatus,
    run: OperatorRun,
    entry: Input,
    inputs: Mapping[int, Feed[OperatorRun] | None],
) -> Feed[OperatorRun]:
    producer, own = entry.producer, inputs.get(entry.slot)
    if producer.kind == "parameter":
        # MindSpore dumps parameters after the step; the value before it is the one that the iteration before left.
        before = _before(group, status, producer.name)
        if before.status == "fails" or not group.reads_after_step(run, producer.name):
            return replace(before, status=own.status, drift=own.drift) if own else before
    if own is not None:
        return replace(own, producer=OperatorRun("input", run.name, run.occurrence, entry.slot))
    outer = group.around(run)
    while outer is not None and outer != producer and not group.is_inside(producer, outer):
        given = _given_to(group, status, outer, entry)
        if given is not None:
            return given
        outer = group.around(outer)
    outputs = status.of_outputs(group, producer)
    read = next((key for key in outputs if key.slot == entry.output), None)
    known = None if read is None else outputs[read]
    if known is None and _worst(outputs.values()) == "passes":
        return Feed(producer._replace(kind="rest"))
    # Out of a module only what it gives back comes, be it the very tensor that one inside of it made.
    is_compared, given_back = _worst(outputs.values()) is not None, None
    outer = group.around(producer)
    while outer is not None and outer != run and not (group.is_inside(run, outer) or group.is_made_of(outer, run)):
        known_outside = status.of_outputs(group, outer)
        if _worst(known_outside.values()) and not is_compared:
            return Feed(outer)
        inside = {entry.producer for entry in group.inputs(outer) or ()}
        if list(known_outside.values()) in (["fails"], ["passes"]) and producer in inside:
            given_back = outer
        outer = group.around(outer)
    return Feed(given_back) if given_back else Feed(producer, known, None if read is None else status.drift_of(read))
