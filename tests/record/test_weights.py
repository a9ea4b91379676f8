"""Weights by name and axes, without a framework: mappings that speak as each does, and files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump.capabilities.weights.pairs import map_entries, pairs
from pytest_msdump.capabilities.weights.sources import KINDS
from pytest_msdump.capabilities.weights.weights import fitted
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, TensorFileError, UnknownNameError
from pytest_msdump.record import RawArray, assert_same_weights, load_weights, read_weights, save_weights


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def carried(left: dict[str, Any], right: dict[str, Any], ours: str, theirs: str, **options: Any) -> dict[str, Any]:
    """What the left side holds once it was given the right side's weights."""
    sides = read_weights(left, framework=ours), read_weights(right, framework=theirs)
    return {pair.name: fitted(pair).values for pair in pairs(*sides, **options)}


# -- axes: each rule by the indices that it is to keep -----------------------------------------------------------------

AXES = [
    ("Dense", (5, 3), (3, 5), lambda k, o, i: k[i, o]),
    ("Dense", (4, 4), (4, 4), lambda k, o, i: k[i, o]),
    ("Conv1d", (3, 2, 4), (4, 2, 3), lambda k, o, i, x: k[x, i, o]),
    ("Conv2d", (2, 3, 4, 5), (5, 4, 2, 3), lambda k, o, i, y, x: k[y, x, i, o]),
    ("Conv2d", (3, 3, 3, 3), (3, 3, 3, 3), lambda k, o, i, y, x: k[y, x, i, o]),
    ("Conv3d", (1, 2, 3, 4, 5), (5, 4, 1, 2, 3), lambda k, o, i, z, y, x: k[z, y, x, i, o]),
    ("ConvTranspose2d", (2, 3, 4, 5), (5, 4, 2, 3), lambda k, i, o, y, x: k[y, x, o, i]),
    ("DepthwiseConv2d", (2, 3, 4, 5), (20, 1, 2, 3), lambda k, o, _, y, x: k[y, x, o // 5, o % 5]),
]


@pytest.mark.parametrize(("kind", "keras", "torch", "element"), AXES, ids=[f"{row[0]}{row[1]}" for row in AXES])
def test_a_kernel_of_keras_is_arranged_as_pytorch_has_it_and_back(
    kind: str, keras: tuple[int, ...], torch: tuple[int, ...], element: Any
) -> None:
    kernel = numbers(*keras)
    types = {"fc": kind}
    held = carried({"fc.weight": np.zeros(torch, "f4")}, {"fc/kernel:0": kernel}, "torch", "tensorflow", types=types)
    assert held["fc.weight"].shape == torch
    for index in np.ndindex(*torch):
        assert held["fc.weight"][index] == element(kernel, *index)
    back = carried({"fc/kernel": np.zeros(keras, "f4")}, held, "keras", "torch", types=types)
    np.testing.assert_array_equal(back["fc.weight"], kernel)


@pytest.mark.parametrize("kind", ["Conv1d", "ConvTranspose1d"])
def test_a_convolution_of_mindspore_over_lines_has_an_axis_more(kind: str) -> None:
    weight = numbers(4, 3, 2)
    held = carried(
        {"c.weight": np.zeros((4, 3, 1, 2), "f4")}, {"c.weight": weight}, "mindspore", "torch", types={"c": kind}
    )
    np.testing.assert_array_equal(held["c.weight"], weight[:, :, None, :])
    np.testing.assert_array_equal(
        carried({"c.weight": weight * 0}, held, "torch", "mindspore", types={"c": kind})["c.weight"], weight
    )


@pytest.mark.parametrize(("framework", "names"), [("mindspore", True), ("keras", True), ("torch", False)])
def test_norms_and_embeddings_have_one_name_in_all_frameworks(framework: str, names: bool) -> None:
    own = ["bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance", "e/embedding_table", "f/embeddings"]
    torch = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "e.weight", "f.weight"]
    source = {name: numbers(3) + at for at, name in enumerate(own if names else torch)}
    read = read_weights(source, framework=framework)
    assert list(read) == torch
    assert [float(held.values[0]) for held in read.values()] == list(range(6))


def test_counters_are_no_weights() -> None:
    assert list(read_weights({"bn.weight": numbers(2), "bn.num_batches_tracked": np.int64(3)})) == ["bn.weight"]


# -- what is never guessed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (3, 3, 3, 3), (2, 2, 2)])
def test_a_kernel_that_fits_in_two_ways_asks_for_the_type_of_its_layer(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"fc.weight ↔ fc.weight \(fc/kernel\).*can be taken in .* ways.*types="):
        carried({"fc.weight": numbers(*shape)}, {"fc/kernel": numbers(*shape)}, "torch", "keras")


def test_the_type_of_a_class_that_is_not_known_is_not_taken_from_its_partner() -> None:
    from dataclasses import replace

    left = read_weights({"fc.weight": numbers(4, 4)}, framework="torch")
    right = read_weights({"fc/kernel": numbers(4, 4)}, framework="keras")
    left["fc.weight"] = replace(left["fc.weight"], layer="Dense")
    plain = pairs(left, right)
    np.testing.assert_array_equal(plain[0].right_as_left(), numbers(4, 4).T)
    right["fc.weight"] = replace(right["fc.weight"], layer="MyDense")
    with pytest.raises(ConfigError, match="2 ways"):
        pairs(left, right)
    assert pairs(left, right, types={"fc": "Dense"})[0].right_rule is not None


def test_layers_of_two_types_are_refused() -> None:
    from dataclasses import replace

    left, right = read_weights({"a.weight": numbers(4)}), read_weights({"a.weight": numbers(4)})
    left["a.weight"] = replace(left["a.weight"], layer="LayerNorm")
    right["a.weight"] = replace(right["a.weight"], layer="BatchNorm")
    with pytest.raises(ConfigError, match="the layers are LayerNorm and BatchNorm"):
        pairs(left, right)


def test_shapes_that_no_rule_brings_together_are_told() -> None:
    with pytest.raises(ConfigError, match=r"the shapes \(3, 5\) and \(3, 5\) cannot be brought together"):
        carried({"a.weight": numbers(3, 5)}, {"a/kernel": numbers(3, 5)}, "torch", "keras", types={"a": "Dense"})
    with pytest.raises(ConfigError, match=r"the shapes \(4,\) and \(5,\)"):
        carried({"a.bias": numbers(4)}, {"a.bias": numbers(5)}, "torch", "torch")


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_without_partner_are_told_on_both_sides_with_the_nearest() -> None:
    left = {"conv1.weight": numbers(2), "head.bias": numbers(3)}
    right = {"conv1.weight": numbers(2), "heads.bias": numbers(3), "extra.gamma": numbers(4)}
    with pytest.raises(ConfigError) as told:
        carried(left, right, "torch", "keras")
    assert str(told.value).splitlines()[1:] == [
        "  left head.bias: right has no 'head.bias'; did you mean 'heads.bias'?",
        "  right heads.bias: left has nothing for it; did you mean 'head.bias'?",
        "  right extra.weight (extra.gamma): left has nothing for it; known: head.bias",
    ]


@pytest.mark.parametrize(
    "names",
    [
        {"features.0": "conv1", "features.1": "bn1"},
        {"features/0": "conv1", "features.1.weight": "bn1/gamma", "features.1.bias": "bn1.bias"},
        lambda name: name.replace("features.0", "conv1").replace("features.1", "bn1"),
    ],
)
def test_a_map_names_layers_or_weights_or_is_a_function(names: Any) -> None:
    left = {"features.0.weight": numbers(2), "features.1.weight": numbers(3), "features.1.bias": numbers(3)}
    right = {"conv1/bias": numbers(2), "bn1/gamma": numbers(3) + 1, "bn1/beta": numbers(3) + 2}
    right["conv1/kernel"] = right.pop("conv1/bias")
    held = carried(left, right, "torch", "keras", entries=map_entries(names))
    assert [float(values[0]) for values in held.values()] == [0, 1, 2]


def test_numbers_halfway_between_two_of_bfloat16_go_to_the_even_one() -> None:
    halfway = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, np.nan], "f4")
    [pair] = pairs(read_weights({"a": brain(BITS[:4])}), read_weights({"a": halfway}))
    rounded = fitted(pair, cast=True)
    assert rounded.values[:3].tolist() == [0x3F80, 0x3F82, 0x7F80]
    assert np.isnan(rounded.numbers()[3])


@pytest.mark.parametrize(
    ("names", "said"),
    [({"conv9": "conv1"}, "'conv9', which the left side lacks"), ({"conv1": "conv7"}, "'conv7', which the right side")],
)
def test_a_map_with_names_that_are_not_there_is_refused(names: dict[str, str], said: str) -> None:
    side = {"conv1.weight": numbers(2)}
    with pytest.raises(UnknownNameError, match=said):
        carried(side, side, "", "", entries=map_entries(names))


def _as(**shapes: int) -> dict[str, Any]:
    return {name.replace("__", "."): np.full((size,), size, np.float32) for name, size in shapes.items()}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (_as(layer2__0__down_sample__0__weight=3), _as(layer2__0__downsample__0__weight=3)),
        (_as(layer2__0__downsample__0__weight=3), _as(layer2__0__down_sample__0__weight=3)),
        (_as(bn_1__running_mean=3), _as(bn1__running_mean=3)),
        (_as(FC__weight=3), _as(fc__weight=3)),
        # Each name that is there as it is keeps its own partner.
        (_as(a_b__weight=3, ab__weight=4), _as(ab__weight=4, a_b__weight=3)),
    ],
)
def test_spellings_of_one_name_pair_as_those_of_operators_do(left: dict[str, Any], right: dict[str, Any]) -> None:
    found = {pair.name: pair for pair in pairs(read_weights(left), read_weights(right))}
    assert {name: pair.right.values.tolist() for name, pair in found.items()} == {
        name: values.tolist() for name, values in left.items()
    }


@pytest.mark.parametrize(
    "names",
    [
        {"stage{i}.unit": "layer{i}.block"},
        {"stage{i}.unit.*": "layer{i}.block.*"},
        {"stage{i}": "layer{i}", "stage1.unit": "layer1.block", "stage2.unit": "layer2.block"},
        {"stage{i}.unit.gamma": "layer{i}.block.weight", "stage{i}.unit.beta": "layer{i}.block.bias"},
        {"stage/{i}": "x/{i}", "stage{i}.unit": "layer{i}.block"},
    ],
)
def test_a_template_names_layers_as_a_name_does(names: dict[str, str]) -> None:
    left = {f"stage{i}.unit.{role}": np.full((2,), i, np.float32) for i in (1, 2) for role in ("gamma", "beta")}
    left["stage.3.weight"] = np.full((2,), 3, np.float32)
    right = {f"layer{i}.block.{role}": np.full((2,), i, np.float32) for i in (1, 2) for role in ("weight", "bias")}
    right["x.3.weight" if "stage/{i}" in names else "stage.3.weight"] = left["stage.3.weight"]
    sides = read_weights(left, framework="mindspore"), read_weights(right)
    found = pairs(*sides, entries=map_entries(names))
    assert len(found) == 5
    assert all(pair.left.values.tolist() == pair.right.values.tolist() for pair in found)


def test_a_template_that_names_no_layer_either_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no weight or layer of the left side is called so"):
        pairs(*map(read_weights, (_as(a__w=1), _as(a__w=1))), entries=map_entries({"b{i}": "c{i}"}))


def test_ignored_names_need_no_partner() -> None:
    left, right = {"a.weight": numbers(2), "lora.a": numbers(1)}, {"a.weight": numbers(2), "opt.step": numbers(1)}
    assert list(carried(left, right, "", "", ignore=["lora.*", "opt.*"])) == ["a.weight"]
    with pytest.raises(ConfigError, match=r"opt\.step"):
        carried(left, right, "", "", ignore="lora.*")


def test_two_names_of_one_weight_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'bn/gamma' and 'bn\.weight' are both"):
        read_weights({"bn/gamma": numbers(2), "bn.weight": numbers(2)})


def test_sides_without_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to pair"):
        pairs({}, {})


def test_a_tensor_that_layers_share_has_all_their_names() -> None:
    from dataclasses import replace

    single = read_weights({"e.weight": numbers(3)})
    tied = {"e.weight": replace(single["e.weight"], also=("head.weight",))}
    both = read_weights({"e.weight": numbers(3), "head.weight": numbers(3)})
    assert [(pair.name, pair.right_name) for pair in pairs(tied, both)] == [("e.weight", "e.weight")]
    assert [pair.right_name for pair in pairs(both, tied)] == ["e.weight", "e.weight"]
    assert [pair.right_name for pair in pairs(tied, tied)] == ["e.weight"]
    other = read_weights({"e.weight": numbers(3), "head.weight": numbers(3) + 1})
    with pytest.raises(ConfigError, match=r"one tensor on the left side.*hold different numbers"):
        pairs(tied, other)


# -- types -------------------------------------------------------------------------------------------------------------

# Exact bfloat16 bits with their values; NaN with a payload last.
BITS = np.array([0x3F80, 0xC000, 0x0001, 0x7F80, 0x7FC1], np.uint16)


def brain(bits: Any = BITS) -> RawArray:
    return RawArray(bits, bits.shape, "bfloat16")


def test_bfloat16_keeps_its_bits_and_widens_exactly() -> None:
    held = carried({"a": brain(BITS * 0)}, {"a": brain()}, "", "")
    np.testing.assert_array_equal(held["a"], BITS)
    wide = carried({"a": np.zeros(5, "f4")}, {"a": brain()}, "", "")["a"]
    np.testing.assert_array_equal(wide.view(np.uint32) >> 16, BITS)


def test_rounding_is_refused_unless_it_is_allowed() -> None:
    exact, third = np.array([1, -2.5], "f4"), np.array([1 / 3, 1], "f4")
    # A third lies nearest to these bits, which are not the same in the two types.
    for narrow, nearest in ((np.zeros(2, "f2"), 0x3555), (brain(BITS[:2]), 0x3EAB)):
        left = read_weights({"a": narrow})
        [pair] = pairs(left, read_weights({"a": exact}))
        np.testing.assert_array_equal(fitted(pair).numbers(), exact)
        [pair] = pairs(left, read_weights({"a": third}))
        with pytest.raises(ConfigError, match=r"a is b?float16 and would round a, which is float32; cast=True"):
            fitted(pair)
        assert fitted(pair, cast=True).values.view(np.uint16)[0] == nearest


# -- the same numbers --------------------------------------------------------------------------------------------------


def test_sides_with_the_same_numbers_are_the_same_whatever_their_axes_and_types() -> None:
    right = {"fc.weight": numbers(3, 5).astype("f2"), "fc.bias": np.array([np.nan, -0.0, np.inf], "f2")}
    left = {"fc/kernel": numbers(3, 5).T, "fc/bias": np.array([np.nan, 0.0, np.inf], "f4")}
    left_side = read_weights(left, framework="keras")
    assert_same_weights(left_side, right, types={"fc": "Dense"})


def test_what_differs_is_told_with_its_place() -> None:
    changed = numbers(3, 5)
    changed[1, 2] += 0.5
    with pytest.raises(AssertionError) as told:
        assert_same_weights({"fc.weight": changed, "b": numbers(1)}, {"fc.weight": numbers(3, 5), "b": numbers(1)})
    assert str(told.value) == (
        "1 of 2 weights differ\n  fc.weight ↔ fc.weight: 1 of 15 elements, the first at (1, 2): 7.5 and 7.0"
    )


def test_missing_names_are_no_same_weights() -> None:
    with pytest.raises(AssertionError, match="left b: right has no 'b'"):
        assert_same_weights({"a": numbers(1), "b": numbers(1)}, {"a": numbers(1)})


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_saved_file_is_read_back_bit_for_bit_and_by_numpy(tmp_path: Path) -> None:
    source = {"bn/gamma": numbers(3), "e": brain(), "f8": RawArray(b"\x01\x80", (2,), "float8_e4m3fn"), "n": np.int8(3)}
    path = save_weights(source, tmp_path / "w.npz", framework="keras")
    read, expected = read_weights(path), read_weights(source, framework="keras")
    assert list(read) == ["bn.weight", "e", "f8", "n"]
    for name, held in expected.items():
        assert read[name].values.tobytes() == held.values.tobytes()
        assert (read[name].dtype, read[name].own, read[name].framework) == (held.dtype, held.own, "keras")
    with np.load(path) as loaded:
        np.testing.assert_array_equal(loaded["bn.weight"], numbers(3))
        np.testing.assert_array_equal(loaded["e"], BITS)


@pytest.mark.parametrize(
    "kind", ["cut", "text", "lies", "object", "halves", "framework", "bits", "flipped", "encrypted", "packed", "ended"]
)
def test_a_damaged_file_is_refused_with_its_path(kind: str, tmp_path: Path) -> None:
    path = save_weights({"a": numbers(3), "b": brain()}, tmp_path / "w.npz")
    content = path.read_bytes()
    about = {"a": {"dtype": "float32", "layer": "", "framework": "", "own": "a", "also": []}}
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "text":
        path.write_text("no zip")
    elif kind in ("flipped", "encrypted", "packed", "ended"):
        # A member that cannot be unpacked, is said to be encrypted or packed by a method of its own, or is empty.
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", b"" if kind == "ended" else bytes(200))
        content = bytearray(path.read_bytes())
        place = content.index(b"PK\x01\x02")
        if kind == "flipped":
            content[30 + len("a.npy")] ^= 0xFF
        elif kind == "encrypted":
            content[6], content[place + 8] = 1, 1
        elif kind == "packed":
            content[8], content[place + 10] = 99, 99
        path.write_bytes(content)
    elif kind == "lies":
        # A header that claims more than there is memory, over 12 bytes; no check sum tells it.
        with zipfile.ZipFile(path, "w") as archive:
            whole = zipfile.ZipFile(save_weights({"a": numbers(3)}, tmp_path / "x.npz")).read("a.npy")
            start, end = whole.index(b"(3,)"), whole.index(b"\n")
            claimed = b"(%d,), }" % 10**15
            archive.writestr("a.npy", whole[:start] + claimed.ljust(end - start) + whole[end:])
    elif kind == "object":
        np.savez(path, a=np.array([None]))
    else:
        said = {
            "halves": {**about, "c": about["a"]},
            "framework": {"a": {**about["a"], "framework": "caffe"}},
            "bits": {"a": {**about["a"], "dtype": "float64x"}},
        }[kind]
        text = json.dumps({"weights": said}).encode()
        np.savez(path, **{"a": numbers(3), "msdump.json": np.frombuffer(text, np.uint8)})
    with pytest.raises(TensorFileError, match=r"w\.npz: is not an \.npz of weights, or is damaged"):
        read_weights(path)


def test_a_file_that_is_not_there_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError, match="no such file"):
        read_weights(tmp_path / "none.npz")
    with pytest.raises(ConfigError, match="cannot be written"):
        save_weights({"a": numbers(1)}, tmp_path / "no" / "w.npz")


# -- calls that cannot be done -----------------------------------------------------------------------------------------


def test_wrong_calls_are_refused_with_what_is_known() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'keras'"):
        read_weights({}, framework="kera")
    with pytest.raises(ConfigError, match="how to read weights of a int"):
        read_weights(3)
    with pytest.raises(ConfigError, match="a dict is not a model"):
        load_weights({}, {})
    side = {"fc.weight": numbers(2, 2)}
    with pytest.raises(UnknownNameError, match="'Densed' of fc is unknown; did you mean 'Dense'"):
        assert_same_weights(side, side, types={"fc": "Densed"})
    with pytest.raises(UnknownNameError, match="no layer of the left side"):
        pairs(read_weights(side), read_weights(side), types={"fd": "Dense"})


def test_every_class_name_means_one_type() -> None:
    names = [name for classes in KINDS.values() for name in classes]
    assert len(names) == len(set(names))
