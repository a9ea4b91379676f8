"""Pairing by structure: layers of any names that can only be each other's, and what has to stay alone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.made import dump

from pytest_msdump.capabilities.structure.words import read_names
from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.matching.pairer import ways_named
from pytest_msdump.core.model.dump import Dump, DumpConfiguration, RunFacts
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

# Name and number of elements of what each hook saved, in the order in which they ran.
Saved = Sequence[tuple[str, int]]


def folder(saved: Saved, *, times: bool = True) -> Dump:
    """A flat folder that hooks wrote, by the names of its files."""
    calls: dict[str, int] = {}
    refs = []
    for number, (name, size) in enumerate(saved):
        call = calls[name] = calls.get(name, -1) + 1
        op = OpKey(name, Coordinates(iteration=0, occurrence=call))
        source = TensorSource.of(Path(f"{name}.npy"), 1_000 + number if times else None)
        refs.append(TensorRef(TensorKey(op, "output", 0), TensorSpec(shape=(size,)), source, "npy-folder"))
    return dump(*refs, reader="npy-folder")


def met(left: Saved, right: Saved, *, times: bool = True) -> dict[str, str]:
    """Return what pairs by structure, by the left's names; the second call of a name ends in an apostrophe."""
    pairing = pair_dumps(folder(left, times=times), folder(right, times=times))
    return {called(pair.left): called(pair.right) for pair in pairing.pairs if pair.how == "structure"}


def called(ref: TensorRef) -> str:
    return ref.key.op.label + "'" * (ref.key.op.at.occurrence or 0)


def blocks(form: str, numbers: Iterable[int], inside: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(form.format(number, name), size) for number in numbers for name, size in inside.items()]


OURS = {
    "attention_norm": 8,
    "attention.wq": 8,
    "attention.wk": 4,
    "attention.wo": 8,
    "ffn_norm": 8,
    "feed_forward.w1": 24,
}
THEIRS = {
    "input_layernorm": 8, "self_attn.q_proj": 8, "self_attn.k_proj": 4, "self_attn.o_proj": 8,
    "post_attention_layernorm": 8, "mlp.gate_proj": 24,
}  # fmt: skip


@pytest.mark.parametrize("times", [True, False])
def test_equal_blocks_meet_in_order_whatever_they_are_called(times: bool) -> None:
    left, right = blocks("layers.{}.{}", range(3), OURS), blocks("model.h.{}.{}", range(3), THEIRS)
    assert met(left, right, times=times) == {one: other for (one, _), (other, _) in zip(left, right, strict=True)}


def test_ten_blocks_are_in_the_order_of_numbers_not_of_letters() -> None:
    left, right = blocks("layers.{}.{}", range(12), OURS), blocks("h_{}_{}", range(1, 13), THEIRS)
    assert met(left, right, times=False)["layers.10.attention.wo"] == "h_11_self_attn.o_proj"


def test_of_different_numbers_of_equal_blocks_none_meets() -> None:
    left = [("tok_embeddings", 16), *blocks("layers.{}.{}", range(2), OURS)]
    right = [("embed_tokens", 16), *blocks("h.{}.{}", range(3), THEIRS)]
    assert met(left, right) == {"tok_embeddings": "embed_tokens"}


def test_of_long_equal_blocks_of_which_one_is_missing_the_last_is_no_surer() -> None:
    inside = {f"{name}{number}": 8 for number in range(12) for name in ("conv", "norm")}
    left = [*blocks("layers.{}.{}", range(2), inside), ("head", 2)]
    right = [*blocks("h.{}.{}", range(3), inside), ("lm_head", 2)]
    assert met(left, right) == {"head": "lm_head"}


def test_a_block_that_one_side_lacks_shifts_nothing_where_shapes_say_which() -> None:
    sizes = (8, 16, 32, 64)
    inside = {"conv1": 1, "conv2": 1}
    left = [(f"stages.{number}.{name}", size) for number, size in enumerate((8, 16, 64)) for name in inside]
    right = [(f"layer{number}_{name}", size) for number, size in enumerate(sizes, 1) for name in inside]
    assert met(left, right) == {
        f"stages.{one}.{name}": f"layer{other}_{name}" for one, other in ((0, 1), (1, 2), (2, 4)) for name in inside
    }


def test_a_block_that_one_inner_run_lacks_leaves_that_run_open_and_no_other() -> None:
    def side(form: str, lacks: tuple[int, int] | None) -> Saved:
        return [
            (form.format(stage, block, name), 4 * (stage + 1))
            for stage in range(3)
            for block in range(2)
            if (stage, block) != lacks
            for name in ("conv1", "bn1", "conv2")
        ]

    found = met(side("stages.{}.{}.{}", (1, 1)), side("layer{}_{}_{}", None))
    assert {name.split(".")[1] for name in found} == {"0", "2"}
    assert all(one.split(".")[1:] == other.removeprefix("layer").split("_") for one, other in found.items())


def test_names_that_say_another_kind_exclude() -> None:
    assert met([("enc.norm1", 8), ("enc.conv1", 4)], [("encoder_act1", 8), ("encoder_conv1", 4)]) == {
        "enc.conv1": "encoder_conv1"
    }


def test_another_number_of_elements_excludes() -> None:
    assert met([("layers.wq", 8), ("layers.wk", 4)], [("q_proj", 8), ("k_proj", 8)]) == {"layers.wq": "q_proj"}


def test_one_that_was_forgotten_leaves_its_place_open() -> None:
    left = [("conv1", 32), ("act_a", 32), ("fc1", 8), ("act_b", 8)]
    right = [("stem.convolution", 32), ("stem.relu", 32), ("classifier.linear", 8)]
    assert "act_b" not in met(left, right)


def test_an_added_layer_stands_for_no_other() -> None:
    left = [("c1", 6), ("conv2", 4), ("extra_act", 4), ("fc", 2)]
    right = [("conv1", 6), ("relu1", 6), ("convolution2", 4), ("relu2", 4), ("linear", 2)]
    assert "extra_act" not in met(left, right)


@pytest.mark.parametrize(
    "left", ["model.encoder.norm", "Default_encoder_norm", "module.encoder.LayerNorm", "EncoderNorm"]
)
def test_a_prefix_and_the_spelling_make_no_difference(left: str) -> None:
    assert met([(left, 4), ("a.b", 9)], [("encoder.ln", 4), ("c.d", 9)])[left] == "encoder.ln"


@pytest.mark.parametrize("right", ["downsample", "down_sample", "shortcut", "DownSample"])
def test_camel_and_synonyms_meet(right: str) -> None:
    left = [("net.layer2.0.conv", 8), ("net.layer2.0.downSample", 4)]
    other = [("layer2_0_convolution", 8), (f"layer2_0_{right}", 4)]
    assert met(left, other)["net.layer2.0.downSample"] == f"layer2_0_{right}"


def test_plural_and_singular_meet() -> None:
    assert met([("layer1.conv", 4), ("layer2.conv", 2)], [("layers_0_conv", 4), ("layers_1_conv", 2)]) == {
        "layer1.conv": "layers_0_conv",
        "layer2.conv": "layers_1_conv",
    }


def test_a_gradient_meets_the_gradient_alone() -> None:
    left = [("grad_fc_weight", 4), ("fc_weight_x", 4)]
    assert met(left, [("net.dense.weight.grad", 4)]) == {"grad_fc_weight": "net.dense.weight.grad"}
    assert met([("head.norm", 4)], [("grad_head_layernorm", 4)]) == {}


def test_counters_before_and_numbers_behind_are_order_and_no_names() -> None:
    left = [("000_stem.conv", 8), ("001_stem.bn", 8), ("002_head", 2)]
    right = [("stem_convolution_float32_0", 8), ("stem_norm_float32_1", 8), ("lm_head_float32_2", 2)]
    assert met(left, right) == {one: other for (one, _), (other, _) in zip(left, right, strict=True)}


def test_layers_that_are_counted_otherwise_stay_open() -> None:
    left = [("attn.wq", 8), ("mid.fc1", 4), ("mid.fc2", 4), ("mid.fc4", 4)]
    right = [("self_attn.q_proj", 8), ("mid.linear1", 4), ("mid.linear2", 4), ("mid.linear3", 4)]
    assert met(left, right) == {"attn.wq": "self_attn.q_proj"}


def test_another_number_of_elements_excludes_what_order_and_kind_speak_for() -> None:
    left = [("attn.wq", 8), ("one.first.act", 4), ("attn.wo", 8)]
    right = [("self_attn.q_proj", 8), ("two.second.relu", 6), ("self_attn.o_proj", 8)]
    assert met(left, right) == {"attn.wq": "self_attn.q_proj", "attn.wo": "self_attn.o_proj"}


def test_two_names_that_may_mean_the_same_stay_open() -> None:
    left = [("attn.wq", 8), ("attn.wo", 4), ("attn.fc", 4)]
    right = [("self_attn.q_proj", 8), ("self_attn.linear", 4), ("self_attn.o_proj", 4)]
    assert met(left, right) == {"attn.wq": "self_attn.q_proj"}


def test_numbers_that_contradict_the_order_stay_open() -> None:
    left = [("attn.wq", 8), ("attn.pool2", 4), ("attn.pool1", 4)]
    right = [("self_attn.q_proj", 8), ("self_attn.maxpool1", 4), ("self_attn.maxpool2", 4)]
    assert met(left, right) == {"attn.wq": "self_attn.q_proj"}


def test_a_second_call_meets_the_second_layer() -> None:
    left = [("block.conv", 8), ("block.relu", 8), ("block.relu", 8)]
    right = [("blk.convolution", 8), ("blk.act1", 8), ("blk.act2", 8)]
    assert met(left, right) == {"block.conv": "blk.convolution", "block.relu": "blk.act1", "block.relu'": "blk.act2"}


def test_numbers_in_a_list_meet_names_in_the_order_in_which_they_ran() -> None:
    inside = ("conv1", "bn1", "relu1", "conv2", "bn2", "relu2")
    places = [f".{place}" for place in range(6)]
    left = [(f"down{stage}.double_conv{place}", 4 * stage) for stage in (1, 2, 3) for place in (*places, "")]
    right = [(f"encoder{stage}_{name}", 4 * stage) for stage in (1, 2, 3) for name in inside]
    numbered = [one for one, _ in left if one[-1].isdecimal()]
    assert met(left, right) == dict(zip(numbered, (other for other, _ in right), strict=True))
    assert "down2.double_conv.2" not in met(left, [one for one in right if one[0] != "encoder2_relu1"])


def test_steps_in_folders_and_their_counters_are_no_words() -> None:
    naming = read_names([f"{step}.{number:03}_{name}" for step in (0, 1) for number, name in enumerate(("wq", "wo"))])
    assert ([one.words for one in naming.names], naming.steps) == ([("q",), ("o",)] * 2, [0, 0, 1, 1])


def test_the_reason_is_told() -> None:
    left, right = blocks("layers.{}.{}", range(3), OURS), blocks("model.h.{}.{}", range(3), THEIRS)
    pair = next(
        pair
        for pair in pair_dumps(folder(left), folder(right)).pairs
        if pair.left.key.op.label == "layers.2.attention.wo"
    )
    assert (pair.how, pair.by) == ("structure", "names: layer.2.attention.o ~ layer.2.attention.o")


# -- Networks of any names, of which the truth is known --------------------------------------------------------------

KINDS = {
    "conv": ("conv", "convolution", "Conv2d"), "norm": ("bn", "norm", "BatchNorm"), "act": ("relu", "act", "gelu"),
    "linear": ("fc", "dense", "linear"), "pool": ("pool", "maxpool"), "q": ("q_proj", "query", "wq"),
    "k": ("k_proj", "key", "wk"), "o": ("o_proj", "out_proj", "wo"), "drop": ("drop", "dropout"),
}  # fmt: skip
PARENTS = {"attention": ("attn", "self_attn", "attention"), "mlp": ("mlp", "ffn", "feed_forward"), "": ("",)}
AROUND = ("layers", "blocks", "h", "block", "stages")


class Layer(tuple[str, str, int, int]):
    """Parent, kind, number among its like, and number of elements."""


def network(choice: random.Random) -> tuple[list[Layer], int]:
    """Return the layers of a block, and how many blocks there are."""
    inside, times = [], dict[tuple[str, str], int]()
    for _ in range(choice.randint(3, 9)):
        parent, kind = choice.choice([*PARENTS]), choice.choice([*KINDS])
        number = times[parent, kind] = times.get((parent, kind), -1) + 1
        inside.append(Layer((parent, kind, number, choice.choice((8, 8, 16, 24)))))
    return inside, choice.randint(2, 5)


def written(inside: Sequence[Layer], count: int, choice: random.Random) -> list[tuple[str, int]]:
    """Return the files of one author: words for each kind, parent and list, a start of numbers, signs between them."""
    words = {kind: choice.choice(spelled) for kind, spelled in KINDS.items()}
    parents = {parent: choice.choice(spelled) for parent, spelled in PARENTS.items()}
    around, sign, start = choice.choice(AROUND), choice.choice("._"), choice.choice((0, 1))
    prefix = choice.choice(("", "model.", "module.", "Default_"))
    most: dict[tuple[str, str], int] = {}
    for parent, kind, number, _ in inside:
        most[parent, kind] = number
    saved = []
    for block in range(count):
        for parent, kind, number, size in inside:
            last = words[kind] + (str(number + start) if most[parent, kind] else "")
            parts = [around, str(block + start), *([parents[parent]] if parent else []), last]
            saved.append((prefix + sign.join(parts), size))
    return saved


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32), times=st.booleans(), mistake=st.sampled_from(["none", "drop", "add", "swap", "block"])
)
def test_no_network_of_any_names_pairs_wrongly(seed: int, times: bool, mistake: str) -> None:
    choice = random.Random(seed)
    inside, count = network(choice)
    ours = written(inside, count, choice)
    theirs = written(inside, count, choice)
    truth = {one: other for (one, _), (other, _) in zip(ours, theirs, strict=True)}
    if len({name for name, _ in ours}) < len(ours) or len({name for name, _ in theirs}) < len(theirs):
        return
    place = choice.randrange(len(ours))
    if mistake == "drop":
        del ours[place]
    elif mistake == "add":
        ours.insert(place, (ours[place][0] + "_extra_act", ours[place][1]))
    elif mistake == "swap" and place + 1 < len(ours):
        ours[place], ours[place + 1] = ours[place + 1], ours[place]
    elif mistake == "block":
        # The numbers of the others do not say which one is missing.
        ours = [one for one in ours if one not in ours[: len(inside)]]
        truth = {}
    found = met(ours, theirs, times=times)
    assert {one: other for one, other in found.items() if truth.get(one) != other} == {}


@pytest.mark.parametrize("times", [True, False])
def test_most_of_networks_of_known_words_pairs(times: bool) -> None:
    paired = whole = 0
    for seed in range(40):
        choice = random.Random(seed)
        inside, count = network(choice)
        theirs = written(inside, count, choice)
        ours = [(f"m.enc.{name}", size) for name, size in written(inside, count, choice)]
        paired, whole = paired + len(met(ours, theirs, times=times)), whole + len(ours)
    assert paired >= 0.75 * whole


INSIDE = {"wq": 8, "wo": 8, "act": 24}


def test_blocks_of_one_path_that_are_counted_from_0_and_from_1_meet_in_order() -> None:
    ours = blocks("block.{}.{}", range(3), INSIDE)
    theirs = blocks("module.block.{}.{}", range(1, 4), INSIDE)
    assert met(ours, theirs) == {one: other for (one, _), (other, _) in zip(ours, theirs, strict=True)}


def test_a_dump_of_some_operators_keeps_the_paths_of_its_blocks() -> None:
    some, every = blocks("block.{}.{}", (2, 3), INSIDE), blocks("module.block.{}.{}", range(6), INSIDE)
    asked = RunFacts("2.10.0", "CPU", (DumpConfiguration("data_dump.json", 0, kernels=("MatMul",)),))
    pairing = pair_dumps(replace(folder(some), run=asked), folder(every))
    assert {pair.by for pair in pairing.pairs} == {f"same module {name}" for name, _ in some}
    assert not pair_dumps(folder(some), folder(every)).pairs


def test_older_names_of_the_way_mean_it() -> None:
    assert ways_named(["graph", "name", "scope"], where="pair_by") == ("name", "structure")


def test_a_layer_of_the_very_name_of_another_one_is_not_its_neighbour_in_a_list() -> None:
    """Convolutions of which only the norm behind was saved: places in a list are those of the other side."""
    inside = [(block, place) for block in range(3) for place in range(3)]
    left = [(f"a.{block}.{place}", 8 + block) for block, place in inside if place]
    right = [(f"model.b.{block}.{place}", 8 + block) for block, place in inside]
    for one, other in met(left, right).items():
        assert one.split(".")[-2:] == other.split(".")[-2:]


def test_the_only_layers_of_a_size_meet_behind_paired_ones_and_their_weights_follow() -> None:
    """`head` and `fc`, with weights and what a norm keeps saved behind the layers."""
    shared = [("conv1", 64), ("bn1", 64), ("act1", 64), ("pool", 32), ("conv2", 48), ("bn2", 48)]
    left = [*shared, ("lrelu", 48), ("head", 10), ("head.weight", 30), ("bn1.running_mean", 4)]
    right = [*shared, ("act2", 48), ("flatten", 48), ("fc", 10), ("fc.weight", 30), ("bn1.running_mean", 4)]
    assert met(left, right).items() >= {"head": "fc", "head.weight": "fc.weight"}.items()


def test_a_layer_of_another_name_than_the_one_in_its_place_stays_open_where_names_are_the_same() -> None:
    names = ["stem.lo", "stem.mi", "unit.ba", "unit.ko", "unit.fi", "unit.zen", "end.um"]
    sizes = [8, 16, 8, 16, 24, 16, 4]
    left = list(zip(names, sizes, strict=True))
    right = [(f"model_{'unit.dex' if name == 'unit.fi' else name}", size) for name, size in left]
    found = met(left, right)
    assert "unit.fi" not in found
    assert found["unit.zen"] == "model_unit.zen"
