"""A compiled model tells the order and the true names of the operators that were dumped."""

from __future__ import annotations

from dataclasses import replace

from matching.rulemade import ascend, device, model, op

from pytest_msdump.capabilities.graphs.execution_order import with_model_order
from pytest_msdump.core.model.dump import Dump


def told(dump: Dump) -> list[tuple[str, int | None]]:
    return [(ref.key.op.label, ref.place) for ref in dump.refs]


def test_what_the_model_does_not_name_comes_last_without_a_place() -> None:
    dump = ascend(device("x"), device("a"))
    assert told(with_model_order(dump, model(op("a")))) == [("a", 0), ("x", None)]


def test_a_model_that_names_nothing_leaves_the_dump_as_it_is() -> None:
    dump = ascend(device("x"), device("a"))
    assert with_model_order(dump, model(op("b"))) is dump


def test_a_name_that_two_are_written_as_is_told_by_its_type_or_stays_unknown() -> None:
    graph = model(op("a/b", "Conv"), op("a.b", "Add"), op("c"))
    known = with_model_order(ascend(device("a_b", op_type="Conv"), device("c")), graph)
    unknown = with_model_order(ascend(device("a_b", op_type="Mul"), device("c")), graph)
    assert told(known) == [("a/b", 0), ("c", 2)]
    assert told(unknown) == [("c", 2), ("a_b", None)]


def test_a_true_name_that_a_file_tells_decides() -> None:
    (ref,) = device("a_b", op_type="Add")
    ref = replace(ref, key=ref.key._replace(op=ref.key.op._replace(true_name="a.b")))
    assert told(with_model_order(ascend((ref,)), model(op("a/b"), op("a.b")))) == [("a.b", 1)]


def test_colons_are_replaced_one_by_one_or_together() -> None:
    graph = model(op("onnx::a"), op("onnx::b"))
    assert told(with_model_order(ascend(device("onnx_b"), device("onnx__a")), graph)) == [
        ("onnx::a", 0),
        ("onnx::b", 1),
    ]


def test_parameters_have_no_place() -> None:
    dump = ascend(device("w", op_type="Parameter"), device("a"))
    assert told(with_model_order(dump, model(op("w"), op("a")))) == [("a", 1), ("w", None)]


def test_older_runs_get_their_names_too() -> None:
    dump = replace(ascend(device("a_b")), older=device("a_b", time=1))
    assert [ref.key.op.label for ref in with_model_order(dump, model(op("a/b"))).older] == ["a/b"]
