"""Why a side does not have a tensor that it could have had: what its run was told to dump, and what nobody can dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.matching.coordinates import Key
from pytest_msdump.model.dump import Dump, DumpConfiguration
from pytest_msdump.model.graph import Operator
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import COORDINATES, OpKey, TensorRef, TensorSpec, mangle
from pytest_msdump.text import Message, Parameter

__all__ = ["NOT_DUMPED", "Absence"]

# Reasons that are sure.
NOT_DUMPED = frozenset(
    f"not_dumped_{why}"
    for why in (
        *("by_script", "no_overflow", "no_exception", "iteration", "io", "kernels"),
        *("text", "empty", "dtype", "ended"),
    )
)

Arrows = Mapping[int | str, int | str]

_AS_THEY_ARE: tuple[Arrows, ...] = tuple({} for _ in COORDINATES)
_RANK, _ITERATION = COORDINATES.index("rank"), COORDINATES.index("iteration")
_SCENES = {"overflow": "not_dumped_no_overflow", "exception": "not_dumped_no_exception"}
_REFERENCE_READER = "npy-folder"
_TEXT_TYPES = frozenset({"Print", "StringFormat"})


class Absence:
    """What one side's run says of tensors that this side does not have.

    Parameters
    ----------
    side : str
        ``"left"`` or ``"right"``: the side that does not have them.
    dump : Dump
        Its dump.
    arrows : sequence of mapping, optional
        For each of COORDINATES, how values of this side are written where sides are compared, if not as they are.
    """

    def __init__(self, side: str, dump: Dump, arrows: Sequence[Arrows] = _AS_THEY_ARE) -> None:
        self._side = side
        self._dump = dump
        self._back = [{there: here for here, there in one.items()} for one in arrows]

    def of_tensor(self, ref: TensorRef, meeting: Key, *, is_known: bool) -> Message | None:
        """Return why this side does not have the partner of a tensor; ``None`` where nothing tells.

        Parameters
        ----------
        ref : TensorRef
            A tensor of the other side.
        meeting : tuple
            Its coordinates as they are compared with this side's.
        is_known : bool
            Whether this side dumped anything of an operator of that name there, in any iteration.
        """
        op = ref.key.op
        if ref.reader == _REFERENCE_READER:
            # A reference's names and types are another framework's, also where its manifest tells them.
            op = OpKey(op.name, op.at)
        one = self._configuration(meeting[_RANK])
        told = self._scene(one) or self._iteration(one, meeting[_ITERATION])
        if told or is_known:
            return told or self._io(one, ref.key.io) or self._undumpable(op, ref.key.io, ref.key.slot, ref.spec.dtype)
        if self._ran_without(op):
            return None
        is_framework = op.op_type is not None or op.true_name is not None
        told = self._kernels(one, op) if is_framework else self._some_kernels(one)
        told = told or self._undumpable(op, ref.key.io, ref.key.slot, ref.spec.dtype)
        if told or op.op_type == PARAMETER:
            return told or self._io(one, ref.key.io)
        return self._io(one, ref.key.io) or self._ended() if self._operator(op) else None

    def of_name(self, name: str, io: str) -> Message | None:
        """Return why this side does not have an operator that a map names; ``None`` where nothing tells."""
        one = self._configuration(None)
        op = OpKey(name=mangle(name), true_name=name if "/" in name else None)
        known = self._operator(op)
        if known is not None:
            op = OpKey(name=mangle(known.name), true_name=known.name, op_type=known.op_type)
        told = self._scene(one) or self._kernels(one, op) or self._undumpable(op, io, 0, None)
        return told or (self._io(one, io) or self._ended() if known else None)

    def _configuration(self, rank: int | str | None) -> DumpConfiguration | None:
        value = self._back[_RANK].get(rank, rank) if rank is not None else None
        run = self._dump.run
        return run.configuration(value if isinstance(value, int) else None) if run else None

    def _scene(self, one: DumpConfiguration | None) -> Message | None:
        if one is None:
            return None
        if one.by_script:
            return self._said("not_dumped_by_script")
        return self._said(_SCENES[one.scene], source=one.source) if one.scene else None

    def _said(self, code: str, **parameters: Parameter) -> Message:
        return Message(code, {"side": self._side, **parameters})

    def _iteration(self, one: DumpConfiguration | None, value: int | str | None) -> Message | None:
        if one is None or value is None:
            return None
        here = self._back[_ITERATION].get(value, value)
        if not isinstance(here, int) or one.selects_iteration(here):
            return None
        return self._said("not_dumped_iteration", iteration=here, iterations=one.iterations, source=one.source)

    def _io(self, one: DumpConfiguration | None, io: str) -> Message | None:
        if one is None or one.selects_io(io):
            return None
        return self._said("not_dumped_io", io=one.io, source=one.source)

    def _kernels(self, one: DumpConfiguration | None, op: OpKey) -> Message | None:
        if one is None or one.selects_operator(op) is not False:
            return None
        return self._said("not_dumped_kernels", kernels=one.kernels_text, source=one.source)

    def _some_kernels(self, one: DumpConfiguration | None) -> Message | None:
        """Return what can be said of a name that is no framework's."""
        if one is None or not one.kernels:
            return None
        return self._said("some_kernels_dumped", kernels=one.kernels_text, source=one.source)

    def _undumpable(self, op: OpKey, io: str, slot: int, dtype: str | None) -> Message | None:
        """Return what MindSpore cannot dump, whatever its configuration says."""
        if not self._is_mindspore:
            return None
        known = self._operator(op)
        op_type = op.op_type or (known.op_type if known else None)
        if op_type in _TEXT_TYPES:
            return Message("not_dumped_text", {"type": op_type})
        spec = _told(known, io, slot)
        if spec and spec.shape and 0 in spec.shape:
            return Message("not_dumped_empty", {"shape": spec.shape})
        for name in (dtype, spec.dtype if spec else None):
            if name in DTYPES and DTYPES[name].kind == "complex":
                return self._said("not_dumped_dtype", dtype=name)
        return None

    def _ended(self) -> Message:
        """Return what is left where a graph has an operator and nothing says that it was left out."""
        return self._said("not_dumped_ended")

    @property
    def _is_mindspore(self) -> bool:
        return self._dump.run is not None or bool(self._dump.graphs)

    def _ran_without(self, op: OpKey) -> bool:
        """Whether graphs of this side tell that it has no such operator at all."""
        is_operator = op.true_name is not None and op.op_type != PARAMETER
        return is_operator and bool(self._final) and self._operator(op) is None

    def _operator(self, op: OpKey) -> Operator | None:
        """The operator in this side's graphs, dumped or not."""
        return self._final.get(mangle(op.label)) or self._final.get(op.name)

    @cached_property
    def _final(self) -> Mapping[str, Operator]:
        """Operators of the graphs that ran, by mangled name."""
        found: dict[str, Operator] = {}
        for _, graph in self._dump.graphs:
            for operator in graph.operators if graph.is_final else ():
                found.setdefault(mangle(operator.name), operator)
        return found


def _told(operator: Operator | None, io: str, slot: int) -> TensorSpec | None:
    """What a graph says of a tensor."""
    if operator is None:
        return None
    specs = operator.host_outputs if io == "output" else operator.host_inputs
    return specs[slot] if slot < len(specs) else None
