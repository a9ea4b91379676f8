"""Amplifications of a whole run, against what their definition says of each operator alone."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.causes.edges import groups
from pytest_msdump.causes.localise import Amplification
from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, Verdict
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Edge, Operator, OperatorGraph
from pytest_msdump.model.record import Record, ReportedTensor
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

_METRIC = "relative_euclidean_distance"
_SIDE = ReportedTensor("op:output:0", "op.npy")
_RECORD = Record(0, _SIDE, _SIDE, Verdict("fail"), "name")
_ERRORS = st.sampled_from([None, 0.0, 0.5, 2, 0.03125, 1e-300, 1e300, float("inf"), float("nan")])


def ref(op: OpKey, io: str, slot: int) -> TensorRef:
    return TensorRef(TensorKey(op, io, slot), TensorSpec(), TensorSource.of(Path("x")), "npy-folder")


def record(error: Any) -> Record:
    numbers = {_METRIC: Measurement(_METRIC, error)} if error is not None else {}
    return replace(_RECORD, comparison=Comparison(1, 1, 1, 0, numbers, Nonfinite()))


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[int, list[tuple[int, int]]], dict[tuple[int, str, int], list[Any]]]:
    """Who feeds each operator: (operator, output) by input; and the errors of the tensors that were compared."""
    count = draw(st.integers(1, 4))
    operators = st.integers(0, count - 1)
    feeds = {op: draw(st.lists(st.tuples(operators, st.integers(0, 2)), max_size=3)) for op in range(count)}
    tensors = st.tuples(operators, st.sampled_from(["input", "output"]), st.integers(0, 2))
    return feeds, draw(st.dictionaries(tensors, st.lists(_ERRORS, min_size=1, max_size=2), max_size=10))


def known(errors: list[Any] | None) -> list[float]:
    return [error for error in errors or () if error is not None]


def largest(numbers: list[float]) -> float | None:
    return max(numbers) if numbers else None


@settings(deadline=None, max_examples=300)
@given(runs())
def test_each_is_the_largest_error_out_over_the_largest_in(
    run: tuple[dict[int, list[tuple[int, int]]], dict[tuple[int, str, int], list[Any]]],
) -> None:
    feeds, errors = run
    keys = [OpKey(f"op{number}") for number in feeds]
    refs = [ref(key, io, slot) for key in keys for io in ("input", "output") for slot in range(3)]
    operators = [
        Operator(f"op{op}", "Add", op, tuple(Edge(f"op{above}", slot) for above, slot in inputs), ())
        for op, inputs in feeds.items()
    ]
    (group,) = groups(Dump(Path(), "npy-folder", tuple(refs)), OperatorGraph(operators=tuple(operators)))
    amplified = Amplification(group)
    for (op, io, slot), found in errors.items():
        for error in found:
            amplified.add(TensorKey(keys[op], io, slot), record(error))
    assert amplified.is_compared is bool(errors)
    for op, inputs in feeds.items():
        told = amplified.of(group.run_of(keys[op]))
        # Where several errors are known and one is no number, which is the largest depends on their order.
        of_outputs = [largest(known(errors.get((op, "output", slot)))) for slot in range(3)]
        out = largest([error for error in of_outputs if error is not None])
        own = {slot: largest(known(errors[op, "input", slot])) for slot in range(3) if (op, "input", slot) in errors}
        above = [
            largest(known(errors.get((other, "output", output))))
            for slot, (other, output) in enumerate(inputs)
            if slot not in own
        ]
        given_to = [error for error in (*own.values(), *above) if error is not None]
        if out is None or not all(map(isfinite, [out, *given_to])) or not given_to or max(given_to) <= 0:
            assert told is None
        else:
            ratio = out / max(given_to)
            assert told == (ratio if isfinite(ratio) else None)
    assert list(group.edges()) == [
        (above, op) for op, inputs in feeds.items() for above in sorted({other for other, _ in inputs})
    ]


def test_of_two_operators_of_one_name_the_first_stands_for_it() -> None:
    above, first, second = OpKey("above"), OpKey("a_b", true_name="a/b"), OpKey("a/b")
    model = OperatorGraph(operators=(Operator("above", "Add"), Operator("a/b", "Add", 1, (Edge("above", 0),))))
    refs = tuple(ref(key, "output", 0) for key in (above, first, second))
    (group,) = groups(Dump(Path(), "npy-folder", refs), model)
    assert group.run_of(first) == group.run_of(second)
    amplified = Amplification(group)
    for key, error in ((second, 8.0), (above, 0.5), (first, 2.0)):
        amplified.add(TensorKey(key, "output", 0), record(error))
    assert amplified.of(group.run_of(first)) == 4.0
