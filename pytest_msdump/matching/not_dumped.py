"""Why a side does not have a tensor that it could have had: what its run was told to dump, and what nobody can dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.matching.meeting import Key
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Operator
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.run import DumpConfiguration
from pytest_msdump.model.tensor import COORDINATES, OpKey, TensorRef, TensorSpec, mangle

__all__ = ["NOT_DUMPED", "Absence"]

# How every sentence begins that is sure.
NOT_DUMPED = "not dumped: "

Arrows = Mapping[int | str, int | str]

_AS_THEY_ARE: tuple[Arrows, ...] = tuple({} for _ in COORDINATES)
_RANK, _ITERATION = COORDINATES.index("rank"), COORDINATES.index("iteration")
_SCENES = {
    "overflow": "the {side} run dumped only operators that overflowed (op_debug_mode 3 in {source})",
    "exception": "the {side} run dumped only inputs of an operator with an exception (op_debug_mode 4 in {source})",
}
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

    def of_tensor(self, ref: TensorRef, meeting: Key, *, is_known: bool) -> str:
        """Say why this side does not have the partner of a tensor; empty where nothing tells.

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
            return ""
        is_framework = op.op_type is not None or op.true_name is not None
        told = self._kernels(one, op) if is_framework else self._some_kernels(one)
        told = told or self._undumpable(op, ref.key.io, ref.key.slot, ref.spec.dtype)
        if told or op.op_type == PARAMETER:
            return told or self._io(one, ref.key.io)
        return self._io(one, ref.key.io) or self._ended() if self._operator(op) else ""

    def of_name(self, name: str, io: str) -> str:
        """Say why this side does not have an operator that somebody named; empty where nothing tells."""
        one = self._configuration(None)
        op = OpKey(name=mangle(name), true_name=name if "/" in name else None)
        known = self._operator(op)
        if known is not None:
            op = OpKey(name=mangle(known.name), true_name=known.name, op_type=known.op_type)
        told = self._scene(one) or self._kernels(one, op) or self._undumpable(op, io, 0, None)
        return told or (self._io(one, io) or self._ended() if known else "")

    def _configuration(self, rank: int | str | None) -> DumpConfiguration | None:
        value = self._back[_RANK].get(rank, rank) if rank is not None else None
        run = self._dump.run
        return run.configuration(value if isinstance(value, int) else None) if run else None

    def _scene(self, one: DumpConfiguration | None) -> str:
        if one is None:
            return ""
        if one.by_script:
            return f"{NOT_DUMPED}the {self._side} run dumped only what its script names with set_dump"
        return f"{NOT_DUMPED}{_SCENES[one.scene].format(side=self._side, source=one.source)}" if one.scene else ""

    def _iteration(self, one: DumpConfiguration | None, value: int | str | None) -> str:
        if one is None or value is None:
            return ""
        here = self._back[_ITERATION].get(value, value)
        if not isinstance(here, int) or one.selects_iteration(here):
            return ""
        return (
            f"{NOT_DUMPED}iteration {here} is not selected on the {self._side} side "
            f'(iteration "{one.iterations}" in {one.source})'
        )

    def _io(self, one: DumpConfiguration | None, io: str) -> str:
        if one is None or one.selects_io(io):
            return ""
        return f"{NOT_DUMPED}{one.io}s only on the {self._side} side (input_output in {one.source})"

    def _kernels(self, one: DumpConfiguration | None, op: OpKey) -> str:
        if one is None or one.selects_operator(op) is not False:
            return ""
        return f"{NOT_DUMPED}the kernels list of the {self._side} side does not name it ({_listed(one)})"

    def _some_kernels(self, one: DumpConfiguration | None) -> str:
        """What can be said of a name that is no framework's."""
        if one is None or not one.kernels:
            return ""
        return (
            f"no operator of that name on the {self._side} side, which dumped only what its kernels list names "
            f"({_listed(one)})"
        )

    def _undumpable(self, op: OpKey, io: str, slot: int, dtype: str | None) -> str:
        """What MindSpore cannot dump, whatever it is told."""
        if not self._is_mindspore:
            return ""
        known = self._operator(op)
        op_type = op.op_type or (known.op_type if known else None)
        if op_type in _TEXT_TYPES:
            return f"{NOT_DUMPED}{op_type} takes a text, which MindSpore cannot dump"
        spec = _told(known, io, slot)
        if spec and spec.shape and 0 in spec.shape:
            return f"{NOT_DUMPED}it is empty, {spec.shape} in the graph, and MindSpore writes no empty tensors"
        for name in (dtype, spec.dtype if spec else None):
            if name in DTYPES and DTYPES[name].kind == "complex":
                return f"{NOT_DUMPED}{name}, which MindSpore could not dump on the {self._side} side"
        return ""

    def _ended(self) -> str:
        """What is left where a graph has an operator and nothing says that it was left out."""
        return (
            f"{NOT_DUMPED}a graph of the {self._side} run has it, and nothing says that it was left out: the run ended "
            "before, or the file is gone"
        )

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


def _listed(one: DumpConfiguration) -> str:
    return f"{one.kernels_text} in {one.source}"


def _told(operator: Operator | None, io: str, slot: int) -> TensorSpec | None:
    """What a graph says of a tensor."""
    if operator is None:
        return None
    specs = operator.host_outputs if io == "output" else operator.host_inputs
    return specs[slot] if slot < len(specs) else None
