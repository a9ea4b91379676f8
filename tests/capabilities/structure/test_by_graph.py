"""Pairing by recorded graphs: layers of any names, and what has to stay alone around what one side lacks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matching.made import dump

from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Manifest, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec

UNKNOWN = ""


@dataclass(frozen=True)
class Layer:
    """A layer as a recorder sees it; `feeds` are names of layers, or `UNKNOWN`."""

    name: str
    kind: str
    feeds: Sequence[str] = ()
    shape: tuple[int, ...] = (2, 3)
    inside: str = ""


def recording(layers: Sequence[Layer], *, prefix: str = "", framework: str = "torch") -> Dump:
    """A recording of these layers; `prefix` makes all names other ones."""

    def named(name: str) -> str:
        return f"{prefix}{name}" if name else ""

    calls = [
        Operator(
            named(layer.name),
            layer.kind,
            inputs=tuple(Edge(named(feed), 0) for feed in layer.feeds),
            inside=named(layer.inside),
        )
        for layer in layers
    ]
    refs = [
        TensorRef(
            TensorKey(OpKey(call.name, Coordinates(iteration=0, occurrence=0), call.op_type), "output", 0),
            TensorSpec(shape=layer.shape),
            TensorSource.of(Path(f"{number}.npy")),
            "npy-folder",
            place=number,
        )
        for number, (call, layer) in enumerate(zip(calls, layers, strict=True))
    ]
    graph = OperatorGraph(tuple(calls), "msdump.json", is_recorded=True)
    return replace(
        dump(*refs, reader="npy-folder"), manifest=Manifest(framework=framework), graphs=((Coordinates(), graph),)
    )


def chain(*kinds: str, start: int = 0) -> list[Layer]:
    """Layers one behind the other, called a0, a1, …"""
    return [
        Layer(f"a{number}", kind, [f"a{number - 1}"] if number > start else [])
        for number, kind in enumerate(kinds, start)
    ]


def without(layers: Sequence[Layer], gone: Collection[str]) -> list[Layer]:
    """Leave layers out; what they gave out is what they were given."""
    given: dict[str, Sequence[str]] = {}
    rest = []
    for layer in layers:
        feeds = list(dict.fromkeys(one for feed in layer.feeds for one in given.get(feed, [feed])))
        if layer.name in gone:
            given[layer.name] = feeds
        else:
            rest.append(replace(layer, feeds=feeds))
    return rest


def met(left: Sequence[Layer], right: Sequence[Layer]) -> dict[str, str]:
    """The pairs of two recordings whose names have nothing in common, by their names in `left` and `right`."""
    return names(pair_dumps(recording(left, prefix="x"), recording(right, prefix="y")))


def names(pairing: Pairing) -> dict[str, str]:
    return {
        pair.left.key.op.label[1:]: pair.right.key.op.label[1:]
        for pair in pairing.pairs
        if pair.by == "same place in the graph"
    }


def same(*layers: str) -> dict[str, str]:
    return {name: name for name in layers}


BLOCK = ("Conv2d", "BatchNorm2d", "ReLU")
RESIDUAL = [
    Layer("stem", "Conv2d"),
    Layer("conv1", "Conv2d", ["stem"]),
    Layer("relu", "ReLU", ["conv1"]),
    Layer("conv2", "Conv2d", ["relu"]),
    Layer("down", "Conv2d", ["stem"]),
    Layer("act", "ReLU", ["conv2", "down"]),
    Layer("head", "Linear", ["act"]),
]


def test_layers_of_any_names_pair() -> None:
    layers = chain(*BLOCK, *BLOCK, "Linear")
    assert met(layers, layers) == same(*(layer.name for layer in layers))


def test_a_layer_that_is_left_out_leaves_its_neighbours_alone() -> None:
    layers = chain("Conv2d", "ReLU", "Linear", "Tanh", "Softmax", "Embedding")
    assert met(without(layers, {"a2"}), layers) == same("a0", "a4", "a5")


def test_among_equal_blocks_of_which_one_is_missing_nothing_pairs() -> None:
    layers = chain("Embedding", *BLOCK * 3, "Linear")
    assert met(without(layers, {"a4", "a5", "a6"}), layers) == same("a0", "a10")


def test_an_operation_that_was_not_followed_is_taken_for_what_ran_last() -> None:
    layers = without(RESIDUAL, {"down"})
    gaps = [replace(layer, feeds=[UNKNOWN]) if layer.name == "act" else layer for layer in layers]
    assert met(gaps, layers) == same(*(layer.name for layer in layers))


def test_pairs_by_name_tell_equal_layers_apart() -> None:
    layers = [Layer("in", "Embedding"), *(Layer(name, "Linear", ["in"]) for name in "qkv")]
    layers += [Layer(f"act_{name}", "ReLU", [name]) for name in "qkv"]
    left = recording([replace(layer, name=layer.name.replace("act_", "a")) for layer in layers])
    pairing = pair_dumps(left, recording(layers))
    assert {
        (pair.left.key.op.label, pair.right.key.op.label)
        for pair in pairing.pairs
        if pair.by == "same place in the graph"
    } == {(f"a{name}", f"act_{name}") for name in "qkv"}


def test_modules_pair_by_what_is_inside_of_them() -> None:
    left = [
        Layer("a", "Conv2d", inside="block"),
        Layer("b", "ReLU", ["a"], inside="block"),
        Layer("block", "Block", ["b"], inside="net"),
        Layer("c", "Linear", ["b"], inside="net"),
        Layer("net", "Model", ["c"]),
    ]
    assert met(left, left) == same("a", "b", "block", "c", "net")
    # A block whose output is that of a layer that the other side has outside of it is no partner.
    right = [replace(layer, inside="net") if layer.name == "b" else layer for layer in left]
    right[1:3] = [replace(right[2], feeds=["a"]), right[1]]
    assert met(left, right) == same("a", "b", "c", "net")


def branches(kind: str, *feeds: Sequence[int]) -> list[Layer]:
    """Layers of one kind, behind a first one, and a last layer that takes what no other does."""
    layers = [Layer(f"a{number}", kind, [f"a{one}" for one in each]) for number, each in enumerate([[], *feeds])]
    return with_end(layers)


def with_end(layers: list[Layer]) -> list[Layer]:
    """Nothing is computed in vain."""
    taken = {feed for layer in layers for feed in layer.feeds}
    return [*layers, Layer("end", "Linear", [layer.name for layer in layers if layer.name not in taken])]


@st.composite
def networks(draw: st.DrawFn) -> list[Layer]:
    """A network of few kinds of layers, so that much of it is alike, with residual connections and branches."""
    layers: list[Layer] = []
    for number in range(draw(st.integers(3, 14))):
        back = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True))
        feeds = [f"a{number - one}" for one in back if number >= one] or [f"a{number - 1}"] * bool(number)
        layers.append(Layer(f"a{number}", draw(st.sampled_from(["Conv2d", "BatchNorm2d", "ReLU"])), feeds))
    return with_end(layers)


@example(branches("Conv2d", [0], [0], [2]), 0, False)
@example(branches("Conv2d", [0], [0], [2], [2], [4]), 0, False)
@settings(max_examples=200, deadline=None)
@given(networks(), st.integers(0, 13), st.booleans())
def test_a_layer_that_one_side_lacks_shifts_no_other(layers: list[Layer], gone: int, on_the_left: bool) -> None:
    # The oracle are the names: what is left has the name that it had.
    few = without(layers, {f"a{gone}"})
    found = met(few, layers) if on_the_left else met(layers, few)
    assert found == same(*found)


@pytest.mark.full
def test_a_manifest_that_no_network_wrote_takes_no_time() -> None:
    # Each sum is of all before it, and each module is inside of the next.
    sums = [Layer("a0", "Conv2d")]
    for number in range(1, 2000):
        sums += [
            Layer(f"b{number}", "ReLU", [f"a{number - 1}"], inside=f"m{number}"),
            Layer(f"a{number}", "Add", [f"a{number - 1}", f"b{number}"], inside=f"m{number}"),
            Layer(f"m{number}", "Block", [f"b{number}"], inside=f"m{number + 1}"),
        ]
    assert met(sums, sums)
