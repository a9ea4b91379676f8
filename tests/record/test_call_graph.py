"""Which call fed which, by tensors that are the same objects; held against what is written here by hand."""

from pytest_msdump.capabilities.record.calls import IdentityGraph
from pytest_msdump.core.model.dump import Edge, Operator


class Thing:
    """What stands for a tensor."""


def begun():
    """The calls of a graph that has begun an iteration, and the graph."""
    calls = []
    graph = IdentityGraph(calls.append)
    graph.begin()
    return calls, graph


def test_a_tensor_is_known_by_its_identity_alone():
    calls, graph = begun()
    x, a, b = Thing(), Thing(), Thing()
    outer = graph.called([x], "")
    graph.came_back(graph.called([x], "net"), "conv", "Conv", [a])
    graph.came_back(graph.called([a], "net"), "relu", "ReLU", [b])
    # An operation between has made another tensor.
    graph.came_back(graph.called([Thing(), a, x], "net"), "relu", "ReLU", [a])
    graph.came_back(outer, "net", "Net", [b])
    assert calls == [
        Operator("conv", "Conv", inputs=(None,), inside="net"),
        Operator("relu", "ReLU", inputs=(Edge("conv", 0, occurrence=0),), inside="net"),
        Operator("relu", "ReLU", inputs=(Edge("", 0), Edge("conv", 0, occurrence=0), None), inside="net", occurrence=1),
        Operator("net", "Net", inputs=(None, Edge("relu", 0, occurrence=0)), returns_inner=True),
    ]


def test_a_module_with_an_output_of_its_own_does_not_only_return_what_is_inside():
    calls, graph = begun()
    x, a = Thing(), Thing()
    outer = graph.called([x], "")
    graph.came_back(graph.called([x], "block"), "conv", "Conv", [a])
    graph.came_back(outer, "block", "Block", [a, Thing()])
    assert not any(call.returns_inner for call in calls)


def test_an_object_in_the_place_of_one_that_is_gone_is_another():
    calls, graph = begun()
    for _ in range(20):
        graph.came_back(graph.called([Thing()], ""), "conv", "Conv", [Thing()])
    assert {edge for call in calls[1:] for edge in call.inputs} == {Edge("", 0)}
