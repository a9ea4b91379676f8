"""Quantisation rules, fusion off against fusion on, and which rule files two dumps need."""

from __future__ import annotations

from pathlib import Path

import pytest
from matching.made import dump, reasons, run_tensor, tensor
from matching.rulemade import ascend, device, model, op, output, paired, was

from pytest_msdump.core.matching import FusionRules, rules_for
from pytest_msdump.core.matching.rules import DumpKind, kind_of
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec


def pairs(pairing: Pairing) -> dict[str, str]:
    assert {pair.how for pair in pairing.pairs} <= {"fused"}
    return {pair.left.key.address: pair.right.key.address for pair in pairing.pairs}


# What AMCT says: `conv` became quantise → conv on int8 → dequantise.
QUANT_OPS = (
    was("data", op_type="Input"),
    op("data_quant_layer", "Quant", ("data:0",), (output("", 0, dtype="DT_INT8"),), originals=(), id=1),
    op("conv", "Convolution", ("data_quant_layer:0",), (output("", 0, dtype="DT_INT32"),), originals=("conv",), id=2),
    op("conv_dequant_layer", "DeQuant", ("conv:0",), (output("conv", 0),), originals=("conv",), id=3),
    was("relu", inputs=("conv_dequant_layer:0",), id=4),
)
QUANT = model(*QUANT_OPS, source="quant.json")
QUANT_NAMES = ("data", "data_quant_layer", "conv", "conv_dequant_layer", "relu")

# What the compiler made of that: relu fused into the dequantisation, a Cast behind it.
DEVICE_OPS = (
    was("data", op_type="Data"),
    op(
        "q", "AscendQuant", ("data:0",), (output("data_quant_layer", 0, dtype="DT_INT8"),),
        originals=("data_quant_layer",), id=1,
    ),
    op("conv", "Conv2D", ("q:0",), (output("conv", 0, dtype="DT_INT32"),), originals=("conv",), id=2),
    op(
        "deq", "AscendDequant", ("conv:0",), (output("relu", 0, shape=(1, 2), memory_format="ND"),),
        originals=("conv_dequant_layer", "relu"), id=3,
    ),
    op("cast", "Cast", ("deq:0",), (output("", 0),), originals=(), id=4),
    was("fc", inputs=("cast:0",), id=5),
)  # fmt: skip
DEVICE = ascend(
    *(
        device(name, "input:0", "output:0", op_type=op_type, time=time)
        for time, (name, op_type) in enumerate(
            [("q", "AscendQuant"), ("conv", "Conv2D"), ("deq", "AscendDequant"), ("cast", "Cast"), ("fc", "Add")]
        )
    )
)
ORIGINAL = dump(*map(tensor, ("data", "conv", "relu", "fc")), reader="npy-folder")


def original_files(*names: str, suffix: str = ".npy") -> Dump:
    at = Coordinates(iteration=0, occurrence=0)
    source = {name: TensorSource.of(Path(f"{name}.0.1{suffix}")) for name in names}
    refs = (
        TensorRef(TensorKey(OpKey(name, at), "output", 0), TensorSpec(), source[name], "npy-folder") for name in names
    )
    return dump(*refs, reader="npy-folder")


def test_every_output_of_a_quantised_layer_is_compared_not_the_first_alone() -> None:
    split = op("split", outputs=(output("split", 0), output("split", 1)), originals=("split",))
    both = dump(tensor("split"), tensor("split", "output:1"))
    assert len(paired(both, both, quant=model(split)).pairs) == 2


# Fusion off: the compiler still renames (`conv` → `conv_new`) and inserts.
CLOSE = model(
    op("conv_new", "Conv2D", outputs=(output("conv", 0),), originals=("conv",)),
    op("trans", "TransData", ("conv_new:0",), (output(""),), originals=()),
    op("relu", "Relu", ("trans:0",), (output(""), output("relu", 0)), originals=("relu",)),
    source="close.json",
)
OPEN = op("conv_relu", "Conv2D", outputs=(output("relu", 0),), originals=("conv", "relu"))


def test_fusion_on_against_fusion_off_by_the_names_of_the_second_model() -> None:
    right = ascend(device("conv_new", op_type="Conv2D"), device("relu", "output:0", "output:1", op_type="Relu"))
    pairing = paired(ascend(device("conv_relu")), right, OPEN, close=CLOSE)
    assert pairs(pairing) == {"conv_relu:output:0": "relu:output:1"}
    assert pairing.pairs[0].by == "fusion.json with close.json: conv_new + relu"
    assert reasons(pairing, "right") == {
        "conv_new:output:0": "fused into conv_relu: its own output no longer exists in the compiled model",
        "relu:output:0": "fusion.json with close.json does not know output 0 of relu",
    }


def test_an_input_that_is_quantised_is_not_compared_though_the_operator_is() -> None:
    ops = (
        op("q", "AscendQuant", (), (output("", 0, dtype="DT_INT8"),), originals=()),
        op("x_dequant_layer", "DeQuant", ("q:0", "s:0"), (output("x", 0),), originals=("x",)),
        was("s"),
    )
    left = ascend(device("x_dequant_layer", "input:0", "input:1", "output:0"))
    assert pairs(paired(left, dump(tensor("x"), tensor("s")), *ops, io="all")) == {
        "x_dequant_layer:output:0": "x:output:0"
    }


@pytest.mark.parametrize("dtype", ["DT_INT8", "DT_UINT8", "DT_INT4", "DT_FLOAT16", None])
def test_the_output_of_ascend_quant_is_never_compared(dtype: str | None) -> None:
    entry = op("q", "AscendQuant", (), (output("orig", 0, dtype=dtype),), originals=("orig",))
    pairing = paired(ascend(device("q", op_type="AscendQuant")), dump(tensor("orig")), entry)
    assert reasons(pairing)["q:output:0"].startswith("output of a quantisation")


PLAIN = ascend(device("x", op_type="Conv2D"))
PLAIN_MODEL = model(was("x"))
QUANTISED = original_files(*QUANT_NAMES)
CONV_MODEL = model(*DEVICE_OPS)

FUSION = "the model's JSON (--msdump-fusion)"
AMCT = "the quantisation rules of AMCT (--msdump-quant-fusion)"
OFF = "the JSON of the model compiled with fusion off (--msdump-close-fusion)"


@pytest.mark.parametrize(
    ("left", "right", "rules", "says", "needs"),
    [
        (PLAIN, ORIGINAL, FusionRules(quant=QUANT), "quant.json alone does not describe an Ascend dump", FUSION),
        (DEVICE, ORIGINAL, FusionRules(quant=QUANT), "quant.json alone does not describe", f"{FUSION} and {AMCT}"),
        (DEVICE, QUANTISED, FusionRules(CONV_MODEL, QUANT), "quant.json leads to a model before quantisation", FUSION),
        (
            QUANTISED,
            QUANTISED,
            FusionRules(quant=QUANT),
            "quant.json leads to a model before quantisation",
            "no rule file",
        ),
        (QUANTISED, ORIGINAL, FusionRules(PLAIN_MODEL), "fusion.json knows no operator of the left side", AMCT),
        (PLAIN, ORIGINAL, FusionRules(CONV_MODEL), "fusion.json knows no operator of the left side", FUSION),
        (
            PLAIN,
            PLAIN,
            FusionRules(PLAIN_MODEL),
            "fusion.json alone leads to an original model",
            f"no rule file, or {FUSION} and {OFF}",
        ),
        (
            PLAIN,
            PLAIN,
            FusionRules(close=CLOSE),
            "close.json cannot be used alone",
            f"no rule file, or {FUSION} and {OFF}",
        ),
        (PLAIN, ORIGINAL, FusionRules(PLAIN_MODEL, close=CLOSE), "close.json is of no use here", FUSION),
        (
            DEVICE,
            DEVICE,
            FusionRules(CONV_MODEL, QUANT, CLOSE),
            "close.json and quant.json cannot be used together",
            "no rule",
        ),
        (
            PLAIN,
            PLAIN,
            FusionRules(PLAIN_MODEL, close=CLOSE),
            "close.json knows no operator of the right side",
            "no rule",
        ),
        (
            DEVICE,
            ORIGINAL,
            FusionRules(CONV_MODEL, model(was("z"), source="q.json")),
            "q.json knows no operator that fusion.json",
            FUSION,
        ),
    ],
)
def test_a_wrong_rule_file_is_told_in_one_line_with_what_is_needed(
    left: Dump, right: Dump, rules: FusionRules, says: str, needs: str
) -> None:
    advice = rules_for(left, right, rules)
    assert advice is not None
    assert advice.is_wrong
    wrong, _, needed = advice.sentence.partition("; ")
    assert wrong.startswith(says)
    assert needed.partition(" needs ")[2].startswith(needs)
    assert "\n" not in advice.sentence


@pytest.mark.parametrize(
    ("dump_", "kind"),
    [
        (PLAIN, DumpKind("device")),
        (DEVICE, DumpKind("device", True)),
        (ORIGINAL, DumpKind("original")),
        (QUANTISED, DumpKind("original", True)),
        (original_files("conv", suffix=".quant"), DumpKind("original", True)),
        (Dump(Path("d"), "proto-folder", original_files("conv", suffix=".pb").refs), DumpKind("original")),
        (Dump(Path("d"), "converted", original_files("conv").refs), DumpKind("device")),
        (dump(run_tensor("a"), reader="mindspore"), DumpKind("other")),
        # A name that is merely like a quantised one does not turn a directory into a quantised one.
        (ascend(device("my_quant"), device("x_dequant")), DumpKind("device")),
    ],
)
def test_the_kind_of_a_dump(dump_: Dump, kind: DumpKind) -> None:
    assert kind_of(dump_) == kind
