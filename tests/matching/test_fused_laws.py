"""Laws of pairing by rule files, on random models with circles, holes, wrong indexes and names written alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from matching.made import dump, tensor
from matching.rulemade import ascend, device, model, op, output

from pytest_msdump.capabilities.graphs.execution_order import with_model_order
from pytest_msdump.core.matching import FusionRules, MapEntry, Selection, pair_dumps, rules_for
from pytest_msdump.core.model.dump import Dump, OperatorGraph
from pytest_msdump.core.model.tensor import Pairing, TensorRef

# `a/b` and `a_b` are written alike.
NAMES = ["a/b", "a_b", "c", "d", "e:f", "q_quant_layer", "g"]
TYPES = ["Add", "Cast", "TransData", "Data", "Const", "AscendQuant", "AscendDequant", "Aipp", "StridedSlice"]
NAME = st.sampled_from(NAMES)
EDGE = st.builds(lambda name, slot: f"{name}:{slot}", NAME, st.integers(-1, 2)) | st.just("")
OUTPUT = st.builds(
    output,
    st.none() | st.just("") | NAME,
    st.none() | st.integers(0, 2),
    dtype=st.sampled_from([None, "DT_INT8", "DT_FLOAT16", "DT_INT32"]),
)
OP: st.SearchStrategy[dict[str, Any]] = st.builds(
    op,
    NAME,
    st.sampled_from(TYPES),
    st.lists(EDGE, max_size=3).map(tuple),
    st.lists(OUTPUT, max_size=3).map(tuple),
    originals=st.none() | st.lists(NAME, max_size=3).map(tuple),
    multi=st.booleans(),
    l1=st.sampled_from(["", "", "7"]),
    id=st.integers(0, 3),
)
GRAPH = st.lists(OP, max_size=6).map(lambda ops: model(*ops))
RULES = st.builds(FusionRules, st.none() | GRAPH, st.none() | GRAPH, st.none() | GRAPH)

FILE_NAME = st.sampled_from(["a_b", "c", "d", "e_f", "q_quant_layer", "g", "unknown"])
PORTS = st.lists(st.sampled_from(["input:0", "input:1", "output:0", "output:1", "output:2"]), unique=True, min_size=1)
SMALL = st.integers(0, 1)
FILE = st.builds(
    lambda name, ports, op_type, time, iteration: device(name, *ports, op_type=op_type, time=time, iteration=iteration),
    FILE_NAME,
    PORTS,
    st.sampled_from(TYPES),
    st.integers(0, 9),
    SMALL,
)
DEVICE = st.lists(FILE, max_size=6).map(lambda files: ascend(*files))
ORIGINAL = st.lists(
    st.builds(tensor, FILE_NAME | NAME, st.sampled_from(["output:0", "output:1"]), iteration=SMALL), max_size=8
).map(lambda refs: dump(*refs, reader="npy-folder"))
ENTRIES = st.lists(st.builds(MapEntry, FILE_NAME, FILE_NAME), max_size=1)
IO = st.sampled_from(["output", "input", "all"])


def selected(side: Dump, directions: frozenset[str]) -> list[TensorRef]:
    return [ref for ref in side.refs if ref.key.io in directions]


def check(left: Dump, right: Dump, pairing: Pairing, selection: Selection) -> None:
    ours = Counter(id(ref) for ref in {id(pair.left): pair.left for pair in pairing.pairs}.values())
    ours.update(id(one.ref) for one in pairing.unmatched_left)
    assert ours == Counter(map(id, selected(left, selection.directions))), "every left tensor is in exactly one place"
    paired = {id(pair.right) for pair in pairing.pairs}
    alone = [id(one.ref) for one in pairing.unmatched_right]
    assert not paired.intersection(alone)
    assert Counter(alone) == Counter(
        id(ref) for ref in selected(right, selection.directions) if id(ref) not in paired
    ), "every right tensor is in exactly one place"
    assert all(one.reason for one in (*pairing.unmatched_left, *pairing.unmatched_right, *pairing.missing))
    assert len({(id(pair.left), id(pair.right)) for pair in pairing.pairs}) == len(pairing.pairs)
    assert (pairing.right_paired, pairing.right_total) == (len(paired), len(paired) + len(alone))


@settings(deadline=None, max_examples=250)
@given(DEVICE, ORIGINAL | DEVICE, RULES, ENTRIES, IO)
def test_every_tensor_is_in_exactly_one_place_and_has_a_reason_when_alone(
    left: Dump, right: Dump, rules: FusionRules, entries: list[MapEntry], io: str
) -> None:
    selection = Selection(io=io)
    for ordered in (left, with_model_order(left, rules.base or OperatorGraph())):
        pairing = pair_dumps(ordered, right, rules=rules, entries=entries, selection=selection)
        check(ordered, right, pairing, selection)
    advice = rules_for(left, right, rules)
    assert advice is None or "\n" not in advice.sentence


@settings(deadline=None, max_examples=150)
@given(DEVICE, ORIGINAL, GRAPH)
def test_what_is_missing_is_without_a_partner(left: Dump, right: Dump, graph: OperatorGraph) -> None:
    pairing = pair_dumps(left, right, rules=FusionRules(graph), selection=Selection(io="all"))
    lefts = {one.ref.key.address for one in pairing.unmatched_left}
    rights = {one.ref.key.address for one in pairing.unmatched_right}
    fed = {pair.right.key.address for pair in pairing.pairs if pair.left.key.io == "input"}
    for one in pairing.missing:
        # The other address is but a name. An original's output is the partner of inputs that it feeds, too.
        assert one.left in lefts or one.right in rights | fed


@settings(deadline=None, max_examples=150)
@given(DEVICE, ORIGINAL, GRAPH)
def test_a_fused_pair_is_what_the_file_says(left: Dump, right: Dump, graph: OperatorGraph) -> None:
    known = {operator.name.replace("/", "_").replace(":", "_") for operator in graph.operators}
    origins = {
        (out.name.replace("/", "_").replace(":", "_"), out.index) for one in graph.operators for out in one.outputs
    }
    # An operator whose outputs are not listed, or do not say what they were, may be its single original.
    singles = {
        one.originals[0].replace("/", "_").replace(":", "_") for one in graph.operators if len(one.originals) == 1
    }
    for pair in pair_dumps(left, right, rules=FusionRules(graph), selection=Selection(io="all")).pairs:
        if pair.how != "fused":
            assert pair.left.key.op.name not in known
            continue
        name = pair.right.key.op.name.replace("/", "_").replace(":", "_")
        assert pair.right.key.io == "output"
        assert (name, pair.right.key.slot) in origins or name in singles
