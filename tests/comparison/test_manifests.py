"""Two dumps whose manifests name different inputs or weights: the header says so before anything else."""

from __future__ import annotations

import re

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump import open_dump
from pytest_msdump.capabilities.run_origins.digests import different_origins
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

X = np.arange(6, dtype="float32").reshape(2, 3)


def dump(folder, inputs=None, weights=None):
    with DumpWriter(folder) as writer:
        writer.describe(inputs=inputs, weights=weights)
        writer.write("a", np.ones(2))
    return folder


def said(tmp_path, left, right, kind="inputs"):
    sides = [open_dump(dump(tmp_path / name, **{kind: side})).dump for name, side in (("l", left), ("r", right))]
    return different_origins(*sides)


def test_without_a_common_name_the_numbers_are_compared(tmp_path):
    assert said(tmp_path, {"x": X}, {"input0": X}) == ()
    (sentence,) = said(tmp_path / "2", {"x": X}, {"input0": X + 1})
    assert "none of the right side's is the left's x" in sentence


@pytest.mark.parametrize("kind", ["inputs", "weights"])
@pytest.mark.parametrize(("types", "is_known"), [(("float32", "float32"), True), (("float32", "float16"), False)])
def test_values_of_another_type_are_not_said_to_be_others(tmp_path, kind, types, is_known):
    sides = []
    for name, dtype in zip(("l", "r"), types, strict=True):
        with DumpWriter(tmp_path / name) as writer:
            # All ones are the same in every type, and yet other bytes.
            changed = X + 1 if is_known and name == "r" else X
            writer.describe(**{kind: {"w": changed.astype(dtype)}})
            writer.write("a", np.ones(2, dtype))
            writer.write("ids", np.arange(3))
        sides.append(open_dump(tmp_path / name).dump)
    (sentence,) = different_origins(*sides)
    if is_known:
        assert sentence.startswith(
            f"the two runs had different {kind}, so later results differ for that reason, too: w"
        )
    else:
        about = "inputs and weights"
        assert sentence.startswith(f"{about} are {types[0]} on the left and {types[1]} on the right, so their digests ")


def test_a_manifest_beside_a_frameworks_own_dump_tells_of_it(tmp_path):
    write_mindspore(tmp_path / "l", [("A", "a", "output", 0, [1.0, 1.0])])
    with DumpWriter(tmp_path / "m", framework="mindspore", version="2.10.0", device="CPU") as writer:
        writer.describe(inputs={"x": X})
    (tmp_path / "m/msdump.json").rename(tmp_path / "l/msdump.json")
    left = open_dump(tmp_path / "l").dump
    assert (left.reader, left.unexplained) == ("mindspore", ())
    assert dict(left.labels)["framework"] == "mindspore 2.10.0"
    (sentence,) = different_origins(left, open_dump(dump(tmp_path / "r", {"x": X + 1})).dump)
    assert "different inputs" in sentence


# -- which weights are compared ---------------------------------------------------------------------------------------


def noted(left, right, **options):
    table = {"left": str(left), "right": str(right), **options}
    return plan(load_suite(file=None, table=table, options={}, directory=left.parent)).left.notes


def weights(folder, held):
    with DumpWriter(folder) as writer:
        writer.describe(weights=held)
        for layer in dict.fromkeys(re.split("[./]", name)[0] for name in held):
            writer.write(layer, X)
    return folder


def test_weights_that_do_not_pair_are_not_said_to_differ(tmp_path):
    left = weights(tmp_path / "l", {"attn.in_proj_weight": X, "attn.extra": X + 7})
    assert noted(left, weights(tmp_path / "r", {"q.weight": X + 1, "k.weight": X + 2})) == ()


def batch_norm(name, values=X):
    return {f"{name}.{one}": values for one in ("weight", "bias", "running_mean", "running_var")}


@pytest.mark.parametrize("side", [0, 1])
def test_batch_norm_that_one_side_lacks_is_folded_and_not_another_weight(tmp_path, side):
    whole = {"conv.weight": X, **batch_norm("bn"), "next.weight": X, **batch_norm("next_bn"), "fc.weight": X}
    folded = {"conv.weight": X + 1, "conv.bias": X, "next.weight": X + 2, "next.bias": X, "fc.weight": X}
    sides = [weights(tmp_path / str(n), one) for n, one in enumerate((folded, whole) if side == 0 else (whole, folded))]
    (sentence,) = noted(*sides)
    name = ("left", "right")[side]
    assert sentence == (
        f"no bn, next_bn on the {name}, where BatchNorm is probably folded into conv.weight, next.weight"
    )


def test_folding_explains_the_layers_before_and_no_others(tmp_path):
    whole = {"conv.weight": X, **batch_norm("bn"), "other.weight": X, "fc.weight": X}
    left = weights(tmp_path / "l", {"conv.weight": X + 1, "conv.bias": X, "other.weight": X, "fc.weight": X + 1})
    different, folded = noted(left, weights(tmp_path / "r", whole))
    assert "had different weights" in different
    assert "fc.weight (left " in different
    assert "conv" not in different
    assert folded.endswith("folded into conv.weight")


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("is_compared", [True, False])
def test_a_weight_with_batch_norm_folded_in_is_judged_by_what_that_gives_out(tmp_path, side, is_compared):
    whole = {"conv.weight": X, **batch_norm("bn"), "fc.weight": X}
    folded = {"conv.weight": X + 1, "fc.weight": X + 2}
    for number, held in enumerate((folded, whole) if side == 0 else (whole, folded)):
        with DumpWriter(tmp_path / str(number)) as writer:
            writer.describe(weights=held)
            for name, values in held.items():
                writer.write(name, values, op_type="Parameter")
            # The output of the norm on the one side, and of the node that it is part of on the other.
            writer.write("bn" if held is whole else "node", X)
    options = {"map": [{"left": ("node", "bn")[side], "right": ("bn", "node")[side]}]} if is_compared else {}
    table = {"left": str(tmp_path / "0"), "right": str(tmp_path / "1"), "pair_by": ["map", "name"], **options}
    pairing = plan(load_suite(file=None, table=table, options={}, directory=tmp_path)).pairing
    pairs = {pair.left.key.op.label for pair in pairing.pairs if pair.left.key.op.op_type == "Parameter"}
    assert pairs == ({"fc.weight"} if is_compared else {"conv.weight", "fc.weight"})
    why = {one.ref.key.op.label: one.reason for one in pairing.unmatched_left}.get("conv.weight")
    name = ("left", "right")[side]
    expected = f"the {name} side has the next normalisation folded into this weight; the output of that is compared"
    assert why == (expected if is_compared else None)
    assert pairing.right_paired == len(pairing.pairs)
    assert len(pairing.unmatched_right) == pairing.right_total - pairing.right_paired
