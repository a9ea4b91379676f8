"""Operators without modules, experts, cells, and modules that their weights tell."""

from __future__ import annotations

from .test_by_structure import Saved, met

MODULES: Saved = [
    ("embed_tokens", 40),
    *[
        (f"layers.{number}.{name}", size)
        for number in range(3)
        for name, size in (("input_layernorm", 8), ("q_proj", 16), ("o_proj", 8), ("gate_proj", 24), ("act_fn", 24))
    ],
    ("norm", 8),
]


def trace(acts: int = 3) -> Saved:
    """Operators of the same network: views among them, and so many activations."""
    found = [("embedding", 40)]
    for number in range(3):
        behind = f"_{number}" if number else ""
        found += [("layer_norm" + behind, 8), (f"linear_{3 * number + 1}", 16), ("view" + behind, 16)]
        found += [(f"linear_{3 * number + 2}", 8), ("add" + behind, 8), (f"linear_{3 * number + 3}", 24)]
        found += [("silu" + behind, 24)] * (number < acts) + [("mul" + behind, 24)]
    return [*found, ("layer_norm_3", 8)]


def test_operators_meet_the_layers_of_their_kind_in_order() -> None:
    found = met(trace(), MODULES)
    assert {one: found.get(one) for one in ("layer_norm_1", "linear_2", "linear_6", "silu_2", "layer_norm_3")} == {
        "layer_norm_1": "layers.1.input_layernorm",
        "linear_2": "layers.0.o_proj",
        "linear_6": "layers.1.gate_proj",
        "silu_2": "layers.2.act_fn",
        "layer_norm_3": "norm",
    }
    assert not {"view", "add", "mul"} & found.keys()


def test_of_operators_one_of_which_is_missing_the_others_meet_their_own() -> None:
    found = met(trace(acts=2), MODULES)
    assert found["silu_1"] == "layers.1.act_fn"
    assert "layers.2.act_fn" not in found.values()


def experts(loads: Saved) -> tuple[Saved, Saved]:
    around = [("layers.0.norm1", 80), ("layers.0.mlp.gate", 32)]
    left = [*around, *[(f"layers.0.mlp.experts.{number}.act", size) for number, (_, size) in enumerate(loads)]]
    return [*left, ("layers.0.mlp", 80), ("layers.0", 80)], around


def test_experts_meet_calls_of_one_module_where_all_get_as_many_tokens() -> None:
    loads = [("", 30), ("", 20), ("", 70), ("", 40)]
    left, around = experts(loads)
    calls = [("layers.0.mlp.experts.act", size) for _, size in loads]
    found = met(left, [*around, *calls, ("layers.0.mlp", 80), ("layers.0", 80)])
    assert found.get("layers.0.mlp.experts.2.act") == "layers.0.mlp.experts.act''"
    moved = met(left, [*around, *calls[:2], *calls[:1:-1], ("layers.0.mlp", 80), ("layers.0", 80)])
    assert not [one for one in moved if "experts" in one]


def cells(names: tuple[str, ...], second: str) -> Saved:
    return [(name + behind, 48) for _ in range(5) for name in names for behind in ("", second)]


def test_cells_meet_call_by_call_where_both_sides_have_as_many() -> None:
    left, right = cells(("rnn.layers.0", "rnn.layers.1"), ".1"), cells(("cell0", "cell1"), "_1")
    found = met([("embed", 90), *left], [("embed", 90), *right])
    assert found["rnn.layers.1''"] == "cell1''"
    assert found["rnn.layers.0.1'"] == "cell0_1'"
    assert not [one for one in met([("embed", 90), *left], [("embed", 90), *cells(("cell0",), "_1")]) if "rnn" in one]


def test_modules_meet_by_weights_that_are_the_only_ones_of_their_size() -> None:
    left = [("features.0", 60), ("head.0", 30), ("features.0.weight", 25), ("head.0.weight", 90), ("x.weight", 7)]
    right = [("conv1", 60), ("fc1", 30), ("conv1.weight", 25), ("fc1.weight", 90), ("y.weight", 7), ("z.weight", 7)]
    found = met(left, right, times=False)
    assert found["features.0"] == "conv1"
    assert found["head.0.weight"] == "fc1.weight"
    assert "x.weight" not in found


def test_a_name_that_another_module_has_in_another_spelling_tells_none() -> None:
    left = [("cell_0", 80), ("cell_1.fc", 40), ("cell_1", 80)]
    right = [("cell-0.fc", 40), ("cell-0", 80), ("cell-1", 80), ("cell1", 80)]
    assert "cell-1" not in met(left, right, times=False).values()
