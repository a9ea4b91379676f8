"""Roles by edges: who is a cause, who inherits, and who may be either."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.causes.growth import Drift, Feed, NetworkNode, components
from pytest_msdump.capabilities.causes.roles import Role, roles_by_graph, roles_by_order


def node(status: str, *producers: str) -> NetworkNode[str]:
    return NetworkNode(status, [Feed(producer) for producer in producers])


def names(**nodes: NetworkNode[str]) -> dict[str, str]:
    return {op: role.name for op, role in roles_by_graph(nodes).items()}


def test_an_operator_that_nobody_saw_may_be_the_cause() -> None:
    roles = roles_by_graph({"a": node("passes"), "u": node("unseen", "a"), "x": node("fails", "a", "u")})
    assert roles["x"] == Role("unknown", suspects=("u",), why="unseen")
    assert roles_by_graph({"x": node("fails", "gone")})["x"].suspects == ("gone",)
    assert roles_by_graph({"x": NetworkNode("fails", None)})["x"].why == "feeds"


def test_a_part_that_feeds_two_failures_makes_both_unknown() -> None:
    shared = {"u": node("part"), "v": node("part", "u"), "x": node("fails", "v"), "y": node("fails", "u")}
    roles = roles_by_graph(shared)
    assert roles["x"] == roles["y"] == Role("unknown", suspects=("u",), why="shared")
    assert names(**{**shared, "y": node("passes", "u")}) == {"x": "cause"}
    # What inherits from one of them makes no second beginning.
    assert names(**{**shared, "y": node("fails", "u", "x")}) == {"x": "cause", "y": "inherited"}


def test_weights_are_no_suspects_but_named() -> None:
    assert roles_by_graph({"w": node("given"), "x": node("fails", "w")})["x"] == Role("cause", given=("w",))


def test_own_inputs_win_over_edges() -> None:
    nodes = {"a": node("fails"), "x": NetworkNode("fails", [Feed("a", "passes")])}
    assert roles_by_graph(nodes)["x"] == Role("cause")
    nodes = {"a": node("passes"), "x": NetworkNode("fails", [Feed("a", "fails")])}
    assert roles_by_graph(nodes)["x"] == Role("inherited", suspects=("a",))
    assert roles_by_graph({"x": NetworkNode("fails", [Feed("gone", "fails")])})["x"] == Role(
        "inherited", suspects=("gone",)
    )


def test_operators_in_a_circle_do_not_hang_and_blame_nobody() -> None:
    circle = {"a": node("fails", "b"), "b": node("fails", "u"), "u": node("part", "a"), "c": node("fails", "b")}
    roles = roles_by_graph(circle)
    assert roles["a"] == Role("unknown", suspects=("b",), why="circle")
    assert roles["c"] == Role("inherited", causes=("a", "b"))
    entered = {**circle, "start": node("fails"), "a": node("fails", "b", "start")}
    assert {role.causes for op, role in roles_by_graph(entered).items() if op != "start"} == {("start",)}
    assert names(x=node("fails", "x")) == {"x": "cause"}
    known = {"a": NetworkNode("fails", [Feed("b", "fails")]), "b": NetworkNode("fails", [Feed("a", "fails")])}
    assert {role.why for role in roles_by_graph(known).values()} == {"circle"}


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_roles_agree_with_a_search_from_each_failure(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    statuss = [data.draw(st.sampled_from(("fails", "passes", "unseen", "forwards"))) for _ in range(count)]
    feeds = [
        sorted(data.draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else ()) for number in range(count)
    ]
    roles = roles_by_graph({n: NetworkNode(statuss[n], [Feed(f) for f in feeds[n]]) for n in range(count)})
    for number in range(count):
        if statuss[number] != "fails":
            assert number not in roles
            continue
        met, waiting = set(), list(feeds[number])
        while waiting:
            producer = waiting.pop()
            if producer not in met:
                met.add(producer)
                waiting += feeds[producer] if statuss[producer] in ("unseen", "forwards") else ()
        found = {statuss[producer] for producer in met}
        wanted = "inherited" if "fails" in found else "unknown" if "unseen" in found else "cause"
        assert roles[number].name == wanted
        assert (roles[number].causes != ()) == (wanted == "inherited")
        assert all(roles[cause].name != "inherited" for cause in roles[number].causes)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n))
)
def test_components_are_mutual_reach_producers_first(above: list[list[int]]) -> None:
    def reached(start: int) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            new = set(above[waiting.pop()]) - found
            found |= new
            waiting += new
        return found

    circles = list(components(above))
    assert sorted(member for circle in circles for member in circle) == list(range(len(above)))
    seen: set[int] = set()
    for circle in circles:
        seen |= set(circle)
        for member in circle:
            assert {other for other in reached(member) if member in reached(other)} == set(circle)
            assert reached(member) <= seen


def test_by_order_the_first_failure_is_the_cause_and_the_others_may_be() -> None:
    nodes = {"a": node("passes"), "u": node("part"), "x": NetworkNode("fails", None), "y": NetworkNode("fails", None)}
    assert roles_by_order(nodes) == {"x": Role("cause", suspects=("u",)), "y": Role("unknown", why="order")}


def test_by_order_what_was_not_seen_before_may_be_the_cause() -> None:
    nodes = {"u": node("unseen"), "a": node("passes"), "x": NetworkNode("fails", None)}
    assert roles_by_order(nodes) == {"x": Role("unknown", suspects=("u",), why="unseen")}


def test_by_order_own_inputs_tell() -> None:
    nodes = {
        "x": NetworkNode("fails", None),
        "y": NetworkNode("fails", [Feed(None, "passes")]),
        "z": NetworkNode("fails", [Feed(None, "fails")]),
    }
    assert {op: role.name for op, role in roles_by_order(nodes).items()} == {
        "x": "cause",
        "y": "cause",
        "z": "inherited",
    }


def module(status: str, given: str, *inside: str) -> NetworkNode[str]:
    return NetworkNode(status, [Feed(None, given), *(Feed(one, is_inside=True) for one in inside)])


def test_by_order_a_module_inherits_from_what_fails_inside_of_it() -> None:
    wrong = {"x": NetworkNode("fails", [Feed(None, "passes")])}
    after = {"y": NetworkNode("fails", [Feed(None, "fails")])}
    roles = roles_by_order(
        {**wrong, **after, "m": module("fails", "passes", "y", "x"), "n": module("fails", "passes", "m")}
    )
    assert roles["m"] == roles["n"] == Role("inherited", causes=("x",))
    # Where its own inputs were not compared, too.
    assert roles_by_order({"x": NetworkNode("fails", None), "m": NetworkNode("fails", [Feed("x", is_inside=True)])})[
        "m"
    ].causes == ("x",)


def test_by_order_a_module_is_the_cause_where_all_that_fails_inside_was_given_it() -> None:
    roles = roles_by_order({"y": NetworkNode("fails", [Feed(None, "fails")]), "m": module("fails", "passes", "y")})
    assert (roles["y"].name, roles["m"].name) == ("inherited", "cause")
    roles = roles_by_order({"x": node("passes"), "m": module("fails", "passes", "x")})
    assert roles["m"].name == "cause"
    # A larger error before, in another branch, does not take it back.
    equal, large = Drift(0.0, 1.0), Drift(2.0, 1.0)
    given = NetworkNode("fails", [Feed(None, "fails", large)], large)
    outer = NetworkNode("fails", [Feed(None, "passes", equal), Feed("y", is_inside=True)], large)
    assert roles_by_order({"a": NetworkNode("fails", (), Drift(3.0, 1.0)), "y": given, "m": outer})["m"].name == "cause"
