"""Roles by a replay: what is wrong by itself is a cause, what is right by itself inherits, or has accumulated."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.causes.roles import roles_by_replay
from pytest_msdump.core.model.comparison import Finding, Verdict
from pytest_msdump.core.model.record import Local, Record, ReportedTensor
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.report.record_json import from_json, to_json
from pytest_msdump.core.text import Message, plain_text

WRONG, RIGHT = Local("fail", "score", 900.0, 16.0), Local("pass", "score", 1.2, 16.0)
NOT = Local("not_replayable", why=Message("local_input"))


def record(order, name, local, fails=False, **found):
    tensor = ReportedTensor(f"{name}:output:0", f"{name}.npy", at=Coordinates(iteration=0), dtype="float32")
    verdict = Verdict("fail", (Finding("fail", plain_text("far off")),)) if fails else Verdict("pass")
    return Record(order, tensor, tensor, verdict, "name", **found).with_local(local)


def roles(records, edges):
    found = roles_by_replay(dict(enumerate(records)), edges)
    placed = [found.get(number, one) for number, one in enumerate(records)]
    return {
        one.left.address.partition(":")[0]: (one.role, tuple(cause.partition(":")[0] for cause in one.causes))
        for one in placed
    }


def test_a_failure_that_is_right_by_itself_inherits_whatever_the_graph_says():
    records = [
        record(0, "a", WRONG),
        record(1, "b", RIGHT, fails=True, role="cause"),
        record(2, "c", RIGHT, fails=True),
        record(3, "d", RIGHT, fails=True),
    ]
    found = roles(records, [(0, 1), (1, 2)])
    # Without edges above it, what ran before counts.
    assert found == {
        "a": ("cause", ()),
        "b": ("inherited", ("a",)),
        "c": ("inherited", ("a",)),
        "d": ("inherited", ("a",)),
    }


def test_two_wrong_operators_in_a_row_are_two_causes():
    records = [record(0, "a", WRONG, fails=True), record(1, "b", WRONG, fails=True, role="inherited", causes=("a",))]
    assert roles(records, [(0, 1)]) == {"a": ("cause", ()), "b": ("cause", ())}


def test_where_all_is_right_by_itself_rounding_has_accumulated():
    records = [record(0, "a", RIGHT), record(1, "b", RIGHT, fails=True, role="cause")]
    assert roles(records, [(0, 1)])["b"] == ("accumulated", ())


def test_a_failure_that_was_not_replayed_keeps_the_graph_s_role_and_others_inherit_from_it():
    records = [record(0, "a", NOT, fails=True, role="cause"), record(1, "b", RIGHT, fails=True)]
    assert roles(records, [(0, 1)]) == {"a": ("cause", ()), "b": ("inherited", ("a",))}


def test_a_passing_cause_that_is_right_by_itself_is_none():
    records = [record(0, "a", RIGHT, role="cause"), record(1, "b", WRONG)]
    assert roles(records, [(0, 1)])["a"] == (None, ())


def test_what_has_no_partner_hands_on_where_a_failure_begins():
    records = [record(0, "a", WRONG), record(3, "d", RIGHT, fails=True)]
    assert roles(records, [(0, 1), (1, 2), (2, 3)])["d"] == ("inherited", ("a",))


def test_nothing_is_right_with_all_before_it_where_something_before_it_was_not_judged():
    unjudged = Local("not_replayable", why=Message("local_random", {"operation": "dropout"}))
    records = [record(0, "a", unjudged), record(2, "c", RIGHT, fails=True), record(3, "d", RIGHT, fails=True)]
    found = roles_by_replay(dict(enumerate(records)), [(0, 1), (1, 2)])
    assert {one.role for one in found.values()} == {"unknown"}
    assert found[1].role_reason == "right by itself; before it, not judged: a:output:0 (not replayed)"
    inputs = [record(0, "a", NOT), *records[1:]]
    assert roles(inputs, [(0, 1), (1, 2)])["c"] == ("accumulated", ())


def test_what_was_given_what_is_wrong_inside_of_a_module_inherits_from_it():
    inside = WRONG._replace(after=("b.qkv",), before=("b.o",))
    records = [record(0, "b.qkv", RIGHT), record(1, "b.o", RIGHT, fails=True), record(2, "b", inside, fails=True)]
    edges = [(0, 1), (1, 2)]
    assert roles(records, edges) == {"b.qkv": (None, ()), "b.o": ("inherited", ("b",)), "b": ("cause", ())}
    found = roles_by_replay(dict(enumerate(records)), edges)
    assert found[2].role_reason == "proven: in b, after qkv, before the input of o"
    assert records[2].verdict.findings[-1].sentence.startswith("wrong before the input of b.o: ")


def test_what_is_wrong_by_itself_fails_within_its_limits_and_stays_so_when_judged_again():
    one = record(0, "a", WRONG)
    assert (one.fails, one.verdict.findings[0].message.code) == (True, "local_wrong_score")
    assert "900 times" in one.verdict.findings[0].sentence
    assert not record(0, "a", NOT).fails


@pytest.mark.parametrize(
    "local",
    [
        WRONG,
        RIGHT,
        NOT,
        Local("fail", "score", float("inf"), 16.0, ("x", "y")),
        Local("pass", "flips", 0.0, 1e-3),
        WRONG._replace(segment=("b",), after=("a",), before=("c", "d")),
    ],
)
def test_a_record_comes_back_from_its_file(local):
    one = record(0, "a", local)
    assert from_json(to_json(one)).local == local
    assert to_json(one)["local"]["sentence"]
