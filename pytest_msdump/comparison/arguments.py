"""Arguments of the operators of a failing pair, and how two runs of MindSpore differ in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_msdump.dumps.graphs.ir import parse_attributes
from pytest_msdump.dumps.sidefiles import read_kernel_args
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import ArgumentDifference, KernelArguments, Operator, differences
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import Coordinates, TensorRef, mangle

__all__ = ["ArgumentBook", "arguments_of_pair", "kernel_args_of"]

# A graph's rank and number, as far as known.
_Where = tuple[int | None, int | None]


def kernel_args_of(dump: Dump, ref: TensorRef) -> KernelArguments | None:
    """Read the arguments that the operator of a tensor was initialised with; ``None`` if none were saved."""
    return read_kernel_args(ref) if dump.root.is_dir() else None


class ArgumentBook:
    """Attributes of a dump's operators, from the graphs that ran."""

    def __init__(self, dump: Dump) -> None:
        self._operators: dict[str, list[tuple[_Where, Operator]]] = {}
        for at, graph in dump.graphs:
            for operator in graph.operators if graph.is_final else ():
                if operator.attributes:
                    self._operators.setdefault(mangle(operator.name), []).append(((at.rank, at.graph), operator))

    def attributes(self, ref: TensorRef) -> Mapping[str, str] | None:
        """Return the attributes of the operator of a tensor; ``None`` if no graph has them."""
        op = ref.key.op
        for where, operator in self._operators.get(mangle(op.label), ()):
            if _is_of(where, op.at) and op.op_type in (None, operator.op_type):
                return parse_attributes(operator.attributes)
        return None


def _is_of(where: _Where, at: Coordinates) -> bool:
    return all(
        one is None or other is None or one == other for one, other in zip(where, (at.rank, at.graph), strict=True)
    )


def arguments_of_pair(
    pair: Pair, left: Dump, right: Dump, books: tuple[ArgumentBook, ArgumentBook]
) -> tuple[dict[str, KernelArguments], tuple[ArgumentDifference, ...]]:
    """Return the arguments of the kernels by side, and what differs, for the record of a failing pair."""
    sides = {"left": kernel_args_of(left, pair.left), "right": kernel_args_of(right, pair.right)}
    saved = {side: one for side, one in sides.items() if one is not None}
    return saved, tuple(_differing(pair, sides, books))


def _differing(
    pair: Pair, saved: Mapping[str, KernelArguments | None], books: tuple[ArgumentBook, ArgumentBook]
) -> Iterator[ArgumentDifference]:
    """Yield the arguments and attributes that differ. Operators of different types share none."""
    if pair.left.key.op.op_type != pair.right.key.op.op_type:
        return
    left, right = saved["left"], saved["right"]
    if left and right and not left.note and not right.note:
        yield from differences("argument", left.values, right.values)
    ours, theirs = books[0].attributes(pair.left), books[1].attributes(pair.right)
    if ours is not None and theirs is not None:
        yield from differences("attribute", ours, theirs)
