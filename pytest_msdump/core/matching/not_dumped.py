"""Why a side does not have a tensor that it could have had: its run was not to dump it, or MindSpore cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.matching.coordinates import Place
from pytest_msdump.core.model.dump import PARAMETER, Dump, DumpConfiguration, Operator
from pytest_msdump.core.model.tensor import COORDINATES, OpKey, TensorRef, mangle
from pytest_msdump.core.text import Message, Parameter

# Reasons that are sure.
NOT_DUMPED = frozenset(
    f"not_dumped_{why}"
    for why in (
        *("by_script", "no_overflow", "no_exception", "iteration", "io", "kernels"),
        *("text", "empty", "dtype", "ended"),
    )
)

Arrows = Mapping[int | str, int | str]

_RANK, _ITERATION = COORDINATES.index("rank"), COORDINATES.index("iteration")
_SCENES = {"overflow": "not_dumped_no_overflow", "exception": "not_dumped_no_exception"}
_REFERENCE_READER = "npy-folder"
_TEXT_TYPES = frozenset({"Print", "StringFormat"})


class Absence:
    """What one side's run says of tensors it lacks; `arrows` map its values of each coordinate to common ones."""

    def __init__(self, side: str, dump: Dump, arrows: Sequence[Arrows] = ({},) * len(COORDINATES)) -> None:
        self._side = side
        self._dump = dump
        self._back = [{common: own for own, common in one.items()} for one in arrows]

    def of_tensor(self, ref: TensorRef, place: Place, *, is_known: bool) -> Message | None:
        """Return why this side does not have the partner of the other side's tensor; ``None`` where nothing says so."""
        op, io = ref.key.op, ref.key.io
        if ref.reader == _REFERENCE_READER:
            # A reference's names and types are another framework's, also where its manifest has them.
            op = OpKey(op.name, op.at)
        run = self._configuration(place[_RANK])
        why = self._scene(run) or self._iteration(run, place[_ITERATION])
        if why or is_known:
            return why or self._io(run, io) or self._undumpable(op, io, ref.key.slot, ref.spec.dtype)
        is_operator = op.true_name is not None and op.op_type != PARAMETER
        if is_operator and self._final and self._operator(op) is None:
            return None
        is_framework = op.op_type is not None or op.true_name is not None
        why = self._kernels(run, op) if is_framework else self._some_kernels(run)
        why = why or self._undumpable(op, io, ref.key.slot, ref.spec.dtype)
        if why or op.op_type == PARAMETER:
            return why or self._io(run, io)
        return self._io(run, io) or self._said("not_dumped_ended") if self._operator(op) else None

    def of_name(self, name: str, io: str) -> Message | None:
        """Return why this side does not have an operator that a map names; ``None`` where nothing says so."""
        run = self._configuration(None)
        op = OpKey(name=mangle(name), true_name=name if "/" in name else None)
        known = self._operator(op)
        if known is not None:
            op = OpKey(name=mangle(known.name), true_name=known.name, op_type=known.op_type)
        why = self._scene(run) or self._kernels(run, op) or self._undumpable(op, io, 0, None)
        return why or (self._io(run, io) or self._said("not_dumped_ended") if known else None)

    def _configuration(self, rank: int | str | None) -> DumpConfiguration | None:
        value = self._back[_RANK].get(rank, rank) if rank is not None else None
        run = self._dump.run
        return run.configuration(value if isinstance(value, int) else None) if run else None

    def _said(self, code: str, **parameters: Parameter) -> Message:
        return Message(code, {"side": self._side, **parameters})

    def _scene(self, run: DumpConfiguration | None) -> Message | None:
        if run is None:
            return None
        if run.by_script:
            return self._said("not_dumped_by_script")
        return self._said(_SCENES[run.scene], source=run.source) if run.scene else None

    def _iteration(self, run: DumpConfiguration | None, common: int | str | None) -> Message | None:
        own = self._back[_ITERATION].get(common, common) if common is not None else None
        if run is None or not isinstance(own, int) or run.selects_iteration(own):
            return None
        return self._said("not_dumped_iteration", iteration=own, iterations=run.iterations, source=run.source)

    def _io(self, run: DumpConfiguration | None, io: str) -> Message | None:
        if run is None or run.selects_io(io):
            return None
        return self._said("not_dumped_io", io=run.io, source=run.source)

    def _kernels(self, run: DumpConfiguration | None, op: OpKey) -> Message | None:
        if run is None or run.selects_operator(op) is not False:
            return None
        return self._said("not_dumped_kernels", kernels=run.kernels_text, source=run.source)

    def _some_kernels(self, run: DumpConfiguration | None) -> Message | None:
        """Return what can be said of a name that is no framework's."""
        if run is None or not run.kernels:
            return None
        return self._said("some_kernels_dumped", kernels=run.kernels_text, source=run.source)

    def _undumpable(self, op: OpKey, io: str, slot: int, dtype: str | None) -> Message | None:
        """Return what MindSpore cannot dump, whatever its configuration says."""
        if self._dump.run is None and not self._dump.compiled_graphs:
            return None
        known = self._operator(op)
        op_type = op.op_type or (known.op_type if known else None)
        if op_type in _TEXT_TYPES:
            return Message("not_dumped_text", {"type": op_type})
        specs = () if known is None else known.host_outputs if io == "output" else known.host_inputs
        spec = specs[slot] if slot < len(specs) else None
        if spec and spec.shape and 0 in spec.shape:
            return Message("not_dumped_empty", {"shape": spec.shape})
        for name in (dtype, spec.dtype if spec else None):
            if name in DTYPES and DTYPES[name].kind == "complex":
                return self._said("not_dumped_dtype", dtype=name)
        return None

    def _operator(self, op: OpKey) -> Operator | None:
        return self._final.get(mangle(op.label)) or self._final.get(op.name)

    @cached_property
    def _final(self) -> Mapping[str, Operator]:
        """Operators of the graphs that ran, by mangled name."""
        found: dict[str, Operator] = {}
        for graph in self._dump.compiled_graphs:
            for operator in graph.operators if graph.is_final else ():
                found.setdefault(mangle(operator.name), operator)
        return found
