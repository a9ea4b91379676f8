"""Joined projections found by structure: parts in the order of names, and nothing where another could be meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from two_dumps import reported

RANDOM = np.random.default_rng(3)
LAYERS = 3
# Four heads of queries, two of keys and values.
WIDTHS = {"q_proj": 8, "k_proj": 4, "v_proj": 4}


def values(width: int) -> np.ndarray:
    return RANDOM.normal(size=(2, 5, width)).astype("f4")


def write(folder: Path, named: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True)
    for number, (name, array) in enumerate(named.items()):
        np.save(folder / f"{name}.0.{1_700_000_000_000_000 + number}.npy", array)


def sides(
    *, qkv: str = "attention.wqkv", w13: str = "feed_forward.w13"
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A decoder of this name for its projections, and the same with each projection by itself."""
    left, right = {}, {}
    for layer in range(LAYERS):
        ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
        norm, after, o, down = values(8), values(8), values(8), values(8)
        parts = {name: values(width) for name, width in WIDTHS.items()}
        gate, up = values(24), values(24)
        left |= {f"{ours}.attention_norm": norm}
        left |= {f"{ours}.{qkv}": np.concatenate([*parts.values()], -1), f"{ours}.attention.wo": o}
        left |= {f"{ours}.ffn_norm": after, f"{ours}.{w13}": np.concatenate([gate, up], -1)}
        left |= {f"{ours}.feed_forward.w2": down}
        right |= {f"{theirs}.input_layernorm": norm}
        right |= {f"{theirs}.self_attn.{name}": part for name, part in parts.items()}
        right |= {f"{theirs}.self_attn.o_proj": o, f"{theirs}.post_attention_layernorm": after}
        right |= {f"{theirs}.mlp.gate_proj": gate, f"{theirs}.mlp.up_proj": up, f"{theirs}.mlp.down_proj": down}
    return left, right


def outcome(folder: Path, left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> dict[str, str]:
    """Return the verdict of each right tensor that a part of a left one meets, or that meets a part."""
    write(folder / "left", left)
    write(folder / "right", right)
    records = reported(folder).records
    assert all(record.how == "structure" for record in records if record.transform.piece)
    return {record.right.name: record.verdict.outcome for record in records if record.transform.piece}


PARTS = [
    f"model.layers.{layer}.{name}"
    for layer in range(LAYERS)
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
]


@pytest.mark.parametrize(
    ("qkv", "w13"),
    [
        ("attention.wqkv", "feed_forward.w13"),
        ("attention.qkv_proj", "feed_forward.gate_up_proj"),
        ("attention.c_attn", "feed_forward.gate_up_proj"),
        ("attention.in_proj", "feed_forward.w13"),
        ("attention.W_pack", "feed_forward.w13"),
    ],
)
def test_every_part_meets_its_own_columns(tmp_path, qkv, w13):
    left, right = sides(qkv=qkv, w13=w13)
    assert outcome(tmp_path, left, right) == dict.fromkeys(PARTS, "pass")


def test_the_joined_side_may_be_the_right_one(tmp_path):
    left, right = sides()
    write(tmp_path / "left", right)
    write(tmp_path / "right", left)
    records = [record for record in reported(tmp_path).records if record.transform.piece]
    assert sorted(record.left.name for record in records) == sorted(PARTS)
    assert {record.verdict.outcome for record in records} == {"pass"}


def test_a_part_that_is_wrong_fails_alone(tmp_path):
    left, right = sides()
    left["layers.1.attention.wqkv"][..., 8:12] += 1
    found = outcome(tmp_path, left, right)
    assert [name for name, verdict in found.items() if verdict == "fail"] == ["model.layers.1.self_attn.k_proj"]


def interleaved(left, right):
    """Heads may lie one after the other, each with its query, key and value."""
    return {name.replace("wqkv", "query_key_value"): one for name, one in left.items()}, right


def narrower(left, right):
    return {name: one[..., :-1] if "wqkv" in name else one for name, one in left.items()}, right


def without_keys(left, right):
    return left, {name: one for name, one in right.items() if "k_proj" not in name}


def of_other_widths(left, right):
    """Keys and values of other widths, which add up to as many."""
    changed = {"k_proj": values(2), "v_proj": values(6)}
    return left, {name: changed.get(name.rpartition(".")[2], one) for name, one in right.items()}


def twice(left, right):
    """Two layers of a block that join such parts."""
    return {**left, **{name.replace("wqkv", "x.wqkv"): one for name, one in left.items() if "wqkv" in name}}, right


@pytest.mark.parametrize("change", [interleaved, narrower, without_keys, of_other_widths, twice])
def test_what_may_be_meant_otherwise_stays_alone(tmp_path, change):
    left, right = change(*sides())
    assert not [name for name in outcome(tmp_path, left, right) if "self_attn" in name]


def test_parts_meet_within_blocks_that_met_alone(tmp_path):
    left, right = sides()
    # The first block is not on the right, and numbers there begin anew.
    moved = {name.replace(".1.", ".0.").replace(".2.", ".1."): one for name, one in right.items() if ".0." not in name}
    found = outcome(tmp_path, left, moved)
    assert set(found.values()) <= {"pass"}
