"""How errors grow from operator to operator, against what the definition says of each operator alone."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, nan, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.causes.edges import groups
from pytest_msdump.capabilities.causes.growth import (
    Drift,
    Feed,
    NetworkNode,
    drift_of,
    growth,
    growth_by_graph,
    growth_by_order,
)
from pytest_msdump.capabilities.causes.operator_status import TensorStatus, operator_nodes
from pytest_msdump.capabilities.causes.roles import Role, roles_by_graph, roles_by_order
from pytest_msdump.core.model.comparison import Comparison, Dominated, Measurement, Nonfinite, Verdict
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.record import Check, Record, ReportedTensor
from pytest_msdump.core.model.tensor import OpKey, Pair, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec

_DISTANCE, _COSINE = "relative_euclidean_distance", "cosine_similarity"
_SIDE = ReportedTensor("op:output:0", "op.npy")
_ERRORS = st.sampled_from([None, 0.0, 0.5, 2, 0.03125, 1e-300, 1e300, inf, nan])


def record(
    error: Any = None, limit: float | None = None, cosine: tuple[float, float] | None = None, outcome: str = "pass",
    **comparison: Any,
) -> Record:  # fmt: skip
    numbers = {_DISTANCE: Measurement(_DISTANCE, error)} if error is not None else {}
    checks = [] if limit is None else [Check(_DISTANCE, error, limit, "fail", "rule", "ok")]
    if cosine is not None:
        numbers[_COSINE] = Measurement(_COSINE, cosine[0])
        checks.append(Check(_COSINE, cosine[0], cosine[1], "fail", "rule", "ok"))
    found = Comparison(4, 4, comparison.pop("differing", 1), 0, numbers, Nonfinite(**comparison))
    return Record(0, _SIDE, _SIDE, Verdict(outcome), "name", checks=tuple(checks), comparison=found)


# -- the error of one tensor -----------------------------------------------------------------------------------------


def test_an_error_is_the_distance_over_its_limit() -> None:
    drift = drift_of(record(5e-4, 1e-3, cosine=(0.9, 0.99)))
    assert drift is not None
    assert drift.share == 0.5


def test_the_error_of_a_masked_tensor_is_that_of_the_others_alone() -> None:
    whole = record(9e-39, 1e-3)
    assert whole.comparison is not None
    others = {_DISTANCE: Measurement(_DISTANCE, 0.5)}
    apart = Dominated("dominated", 2, -3.4e38, (1e38, 1e38), others)
    drift = drift_of(replace(whole, comparison=replace(whole.comparison, dominated=(apart,))))
    assert drift is not None
    assert growth(Drift(0.6, 1e-3), [drift]) == pytest.approx(1.2)


def test_where_only_a_cosine_has_a_limit_it_is_the_chord() -> None:
    drift = drift_of(record(0.3, cosine=(0.98, 0.995)))
    assert drift is not None
    assert drift.share == pytest.approx(sqrt(2 * 0.02) / sqrt(2 * 0.005))


@pytest.mark.parametrize("one", [record(0.3), record(0.3, 0.0), record(0.3, cosine=(0.9, 1.0)), record(0.3, nan)])
def test_without_a_limit_that_leaves_room_the_share_is_unknown(one: Record) -> None:
    drift = drift_of(one)
    assert drift is not None
    assert (drift.error, drift.share) == (0.3, None)


def test_what_fails_by_something_else_takes_up_all_of_a_limit_at_least() -> None:
    drift = drift_of(record(5e-4, 1e-3, outcome="fail"))
    assert drift is not None
    assert drift.fails_otherwise
    assert growth(Drift(3e-3, 1e-3), [drift]) == 3
    assert growth(Drift(3e-3, 1e-3), [drift._replace(fails_otherwise=False)]) == 6
    assert growth(Drift(3e-3, 1e-3), [Drift(2e-3, 1e-3, fails_otherwise=True)]) == 1.5


# -- growth of one operator ------------------------------------------------------------------------------------------


def measured_limit(error: float, base: float) -> Drift:
    """The drift of a tensor whose limit is 12 times what rounding does to it."""
    check = Check(_DISTANCE, error, 12 * base, "fail", "msdump.limits.json", "ok", base=base)
    drift = drift_of(replace(record(error), checks=(check,)))
    assert drift is not None
    assert drift.score == pytest.approx(error / base)
    return drift


@pytest.mark.parametrize(
    ("scores", "causes"),
    [
        ([1, 30, 25, 40], [1]),
        # Within the limits a score may jump: that is no mistake.
        ([1, 7, 9, 2], []),
        # Beyond them a jump of 5 is one, and less is what was inherited.
        ([1, 30, 80, 900], [1, 3]),
        ([6, 14, 14, 14], [1]),
    ],
)
def test_a_score_is_level_before_a_mistake_and_jumps_at_it(scores: list[float], causes: list[int]) -> None:
    status = ["fails" if score > 12 else "passes" for score in scores]
    drifts = [measured_limit(score * 10.0**-number, 10.0**-number) for number, score in enumerate(scores, 3)]
    nodes = {
        number: NetworkNode(
            status[number], [Feed(number - 1, status[number - 1], drifts[number - 1])] if number else (), drift
        )
        for number, drift in enumerate(drifts)
    }
    roles = roles_by_graph(nodes)
    assert [op for op, role in roles.items() if role.name == "cause"] == causes
    failing = [number for number, score in enumerate(scores) if score > 12]
    assert all(roles[number].name == "inherited" for number in failing if number not in causes)


def ref(op: OpKey, io: str, slot: int) -> TensorRef:
    return TensorRef(TensorKey(op, io, slot), TensorSpec(), TensorSource.of(Path("x")), "npy-folder")


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[int, list[tuple[int, int]]], dict[tuple[int, str, int], Any]]:
    """Who feeds each operator: (operator, output) by input; and the errors of the tensors that were compared."""
    count = draw(st.integers(1, 4))
    feeds = {
        op: draw(st.lists(st.tuples(st.integers(0, op - 1), st.integers(0, 2)), max_size=3)) if op else []
        for op in range(count)
    }
    tensors = st.tuples(st.integers(0, count - 1), st.sampled_from(["input", "output"]), st.integers(0, 2))
    return feeds, draw(st.dictionaries(tensors, _ERRORS, max_size=10))


@settings(deadline=None, max_examples=300)
@given(runs())
def test_amplification_is_the_largest_error_out_over_the_largest_in(
    run: tuple[dict[int, list[tuple[int, int]]], dict[tuple[int, str, int], Any]],
) -> None:
    feeds, errors = run
    keys = [OpKey(f"op{number}") for number in feeds]
    refs = {(op, io, slot): ref(keys[op], io, slot) for op in feeds for io in ("input", "output") for slot in range(3)}
    operators = [
        Operator(f"op{op}", "Add", op, tuple(Edge(f"op{other}", slot) for other, slot in inputs), ())
        for op, inputs in feeds.items()
    ]
    dump = Dump(Path(), "npy-folder", tuple(refs.values()))
    (group,) = groups(dump, OperatorGraph(operators=tuple(operators)))
    pairs = tuple(Pair(refs[key], refs[key], "name") for key in errors)
    status = TensorStatus(Pairing(pairs), {number: record(error) for number, error in enumerate(errors.values())})
    grown = growth_by_graph(operator_nodes(group, status))
    for op, inputs in feeds.items():
        outputs = [errors[op, "output", slot] for slot in range(3) if (op, "output", slot) in errors]
        own = {slot: errors[op, "input", slot] for slot in range(3) if (op, "input", slot) in errors}
        read = [one for slot, one in enumerate(inputs) if slot not in own]
        if any((other, "output", output) not in errors for other, output in read):
            # What feeds it through operators that were not compared is another test's.
            continue
        into = [errors[other, "output", output] for other, output in read]
        into += [own[slot] for slot in range(len(inputs)) if slot in own]
        known = [error for error in into if error is not None and isfinite(error)]
        told = grown[group.run_of(keys[op])].amplification if outputs else None
        if not outputs or not all(error is not None and isfinite(error) for error in outputs) or not any(known):
            assert told is None
        else:
            ratio = max(outputs) / max(known)
            assert told == (ratio if isfinite(ratio) else None)


# -- which operators stand out ---------------------------------------------------------------------------------------


def chain(*shares: float | None, limit: float = 1e-3) -> dict[str, NetworkNode[str]]:
    """Operators a, b, … one after another; an error above its limit fails, ``None`` was not compared."""
    nodes: dict[str, NetworkNode[str]] = {}
    for number, share in enumerate(shares):
        feeds = [Feed(chr(ord("a") + number - 1))] if number else []
        status = "unseen" if share is None else "fails" if share > 1 else "passes"
        drift = None if share is None else Drift(share * limit, limit, 4e-6)
        nodes[chr(ord("a") + number)] = NetworkNode(status, feeds, drift)
    return nodes


def names(nodes: dict[str, NetworkNode[str]]) -> dict[str, str]:
    return {op: role.name for op, role in roles_by_graph(nodes).items()}


def test_an_error_that_grows_by_small_steps_accumulates() -> None:
    assert names(chain(0.1, 0.3, 0.8, 1.06, 1.2)) == {"d": "accumulated", "e": "accumulated"}
    assert roles_by_graph(chain(0.1, 0.3, 0.8, 1.06, 1.2))["e"].causes == ("d",)
    grown = growth_by_graph(chain(0.1, 0.3, 0.8, 1.06, 1.2))["d"]
    assert (grown.start, grown.steps, grown.at) == (0.1, 3, "b")
    assert grown.step == pytest.approx(3)


def test_a_mistake_behind_an_accumulated_failure_is_the_cause() -> None:
    assert names(chain(0.3, 0.8, 1.06, 30, 31)) == {"c": "accumulated", "d": "cause", "e": "inherited"}
    assert roles_by_graph(chain(0.3, 0.8, 1.06, 30, 31))["e"].causes == ("d",)


def test_a_jump_within_the_limit_is_the_cause_of_what_fails_by_small_steps() -> None:
    roles = roles_by_graph(chain(0.002, 0.09, 0.3, 0.9, 1.06, 1.5))
    assert {op: role.name for op, role in roles.items()} == {"b": "cause", "e": "inherited", "f": "inherited"}
    assert roles["b"].why == "jump"
    assert roles["e"] == Role("inherited", causes=("b",), why="within", jump="b")
    assert roles["f"].causes == ("b",)


def fails_otherwise(nodes: dict[str, NetworkNode[str]], op: str) -> dict[str, NetworkNode[str]]:
    drift = nodes[op].drift
    assert drift is not None
    return {**nodes, op: replace(nodes[op], status="fails", drift=drift._replace(fails_otherwise=True))}


def test_a_jump_explains_what_is_as_far_apart_and_fails_by_another_limit() -> None:
    roles = roles_by_graph(fails_otherwise(chain(0.002, 0.09, 0.1, 0.2), "c"))
    assert {op: (role.name, role.causes) for op, role in roles.items()} == {
        "b": ("cause", ()),
        "c": ("inherited", ("b",)),
    }


@pytest.mark.parametrize("shares", [(0.1, 0.2, 0.3), (0.002, 0.09, 0.8), (0.002, 0.003, 0.1)])
def test_a_failure_by_another_limit_that_no_jump_explains_is_a_cause(shares: tuple[float, ...]) -> None:
    # No jump; a jump of which it is nine times as much; its own jump.
    assert names(fails_otherwise(chain(*shares), "c")) == {"c": "cause"}


def test_a_jump_of_what_rounding_explains_is_none() -> None:
    assert set(names(chain(0.001, 0.2, 0.7, 2, limit=1e-5)).values()) == {"accumulated"}


def test_a_jump_in_a_branch_too_small_to_explain_the_failure_is_not_its_cause() -> None:
    nodes = chain(0.1, 0.3, 0.9) | {
        "equal": NetworkNode("passes", (), Drift(0.0, 1e-3)),
        "side": NetworkNode("passes", [Feed("equal")], Drift(5e-5, 1e-3, 4e-6)),
        "x": NetworkNode("fails", [Feed("c"), Feed("side")], Drift(1.06e-3, 1e-3, 4e-6)),
    }
    assert growth_by_graph(nodes)["side"].is_jump
    assert names(nodes) == {"x": "accumulated"}


def test_growth_across_what_was_not_compared_blames_no_one_of_them() -> None:
    assert names(chain(0.01, None, 30)) == {"c": "unknown"}
    assert names(chain(0.4, None, 1.1)) == {"c": "accumulated"}
    assert names(chain(0.002, None, 0.09, 0.4, 1.1)) == {"e": "accumulated"}


def test_of_two_inputs_the_larger_error_counts() -> None:
    nodes = chain(0.001, 0.9) | {
        "x": NetworkNode("passes", [Feed("a")], Drift(1e-6, 1e-3)),
        "y": NetworkNode("fails", [Feed("x"), Feed("b")], Drift(1.1e-3, 1e-3)),
        "z": NetworkNode("fails", [Feed("x")], Drift(1.1e-3, 1e-3)),
    }
    roles = roles_by_graph(nodes)
    assert (roles["y"].name, roles["z"].name) == ("inherited", "cause")
    assert roles["y"].causes == ("b",)


def test_where_limits_do_not_tell_the_first_to_fail_is_the_cause() -> None:
    nodes = {"a": NetworkNode("passes", (), Drift(0.5)), "b": NetworkNode("fails", [Feed("a")], None)}
    assert {op: role.name for op, role in roles_by_graph(nodes).items()} == {"b": "cause"}


# -- without a graph -------------------------------------------------------------------------------------------------


def test_by_order_the_largest_jump_before_is_named() -> None:
    roles = roles_by_order(chain(1e-4, 0.05, 0.4, 0.2, 1.06))
    assert roles["e"] == Role("unknown", why="order_jump", jump="b")
    assert growth_by_order(chain(1e-4, 0.05, 0.4, 0.2, 1.06))["b"].factor == pytest.approx(500)


def test_by_order_small_steps_accumulate() -> None:
    roles = roles_by_order(chain(0.1, 0.3, 0.9, 1.06, 1.07))
    assert {op: role.name for op, role in roles.items()} == {"d": "accumulated", "e": "accumulated"}
    assert roles["e"].causes == ("d",)


def test_by_order_what_ran_inside_of_a_module_explains_its_error() -> None:
    equal, large = Drift(0.0, 1.0), Drift(0.5, 1.0)
    inside = {"x": NetworkNode("passes", [Feed(None, "passes", equal)], large)}
    module = NetworkNode("passes", [Feed(None, "passes", equal), Feed("x", is_inside=True)], Drift(0.6, 1.0))
    grown = growth_by_order({**inside, "m": module})
    assert grown["x"].is_jump
    assert not grown["m"].is_jump
    assert grown["m"].origins == ("x",)
    # Five times as much is its own.
    assert growth_by_order({**inside, "m": replace(module, drift=Drift(2.5, 1.0))})["m"].is_jump


def test_by_order_what_was_given_an_unknown_error_inside_of_a_module_does_not_explain_its_error() -> None:
    equal, large = Drift(0.0, 1.0), Drift(0.5, 1.0)
    given = NetworkNode("passes", [Feed(None, "passes", large)], large)
    module = NetworkNode("passes", [Feed(None, "passes", equal), Feed("x", is_inside=True)], large)
    assert growth_by_order({"a": NetworkNode("passes", (), equal), "x": given, "m": module})["m"].is_jump
