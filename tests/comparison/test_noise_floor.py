"""Gradients that are zero in exact arithmetic warn; whatever is a gradient fails, however small it is.

The terms are centred in float64, so that their sums are zero; what stands in the dumps is what float32 makes of them,
added up in different orders. That is what backpropagation through BatchNorm leaves of the bias before it.
"""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.capabilities.noise_floor.limits import with_terms
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import compare_pair
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.dtypes.arrays import RawArray
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, mangle
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

RNG = np.random.default_rng(5)
TERMS = RNG.standard_normal((4, 8, 6, 6))
CENTRED = TERMS - TERMS.mean((0, 2, 3), keepdims=True)
ZERO = "zero_in_exact_arithmetic"


def added_up(terms, order=1):
    """The sum by channel as one float32 after the other, which is as coarse as any framework does it."""
    flat = np.float32(terms).transpose(1, 0, 2, 3).reshape(terms.shape[1], -1)[:, ::order]
    return np.cumsum(flat, axis=1, dtype=np.float32)[:, -1]


def dump(folder, bias, *terms, name="conv.bias", what="grad", **about):
    with DumpWriter(folder) as writer:
        writer.describe(**about)
        for one in terms:
            writer.write("conv/grad_output", one if isinstance(one, RawArray) else np.float32(one))
        writer.write(f"{name}/{what}", np.float32(bias))
    return folder


def record(left, right, *, profile="default", thresholds=()):
    options = {"left": str(left), "right": str(right), "profile": profile, "threshold": list(thresholds) or None}
    planned = plan(load_suite(file=None, options=options, directory=left.parent))
    records = build_report(planned, compare_plan(planned)).records
    return next(one for one in records if "bias/" in one.left.address)


@pytest.fixture
def noise(tmp_path):
    left = dump(tmp_path / "l", added_up(CENTRED), CENTRED)
    return left, dump(tmp_path / "r", added_up(CENTRED, -1), CENTRED)


@pytest.mark.parametrize("profile", ["default", "strict", "ascend"])
def test_rounding_alone_warns_and_says_so(noise, profile):
    found = record(*noise, profile=profile)
    assert found.metrics["relative_euclidean_distance"] > 0.5
    assert found.verdict.outcome == "warn"
    first = found.verdict.findings[0]
    assert (first.outcome, first.message.code) == ("warn", ZERO)
    assert "zero in exact arithmetic" in first.sentence
    assert found.role is None


def test_exact_zeros_against_rounding_warn(tmp_path, noise):
    assert record(dump(tmp_path / "z", np.zeros(8), CENTRED), noise[1]).verdict.outcome == "warn"
    assert record(noise[0], dump(tmp_path / "zr", np.zeros(8), CENTRED)).verdict.outcome == "warn"


REAL = {
    "no centring at all": TERMS,
    "a thousandth of a gradient": CENTRED + 1e-3 * TERMS.mean((0, 2, 3), keepdims=True),
    "one channel of eight": CENTRED + np.float64([0, 0, 0, 1, 0, 0, 0, 0]).reshape(1, 8, 1, 1) * 1e-3,
    "one position that is huge": CENTRED + 1e4 * (np.arange(CENTRED.size).reshape(CENTRED.shape) == 77),
}


@pytest.mark.parametrize("terms", REAL.values(), ids=REAL)
@pytest.mark.parametrize("factor", [0.0, 0.9, 2.0, -1.0])
def test_a_real_gradient_that_is_wrong_fails(tmp_path, terms, factor):
    right = dump(tmp_path / "r", terms.sum((0, 2, 3)), terms)
    found = record(dump(tmp_path / "l", factor * terms.sum((0, 2, 3)), terms), right)
    assert found.verdict.outcome in ("fail", "undefined")
    assert found.remarks == ()


def test_a_gradient_that_is_lost_where_the_terms_do_not_cancel_fails(tmp_path):
    left = dump(tmp_path / "l", np.zeros(8), TERMS)
    assert record(left, dump(tmp_path / "r", added_up(CENTRED), CENTRED)).fails
    assert record(left, dump(tmp_path / "r2", TERMS.sum((0, 2, 3)), TERMS)).fails


def test_only_the_reference_can_tell_that_a_gradient_is_zero(tmp_path, noise):
    assert record(noise[0], dump(tmp_path / "r2", added_up(CENTRED, -1))).fails
    assert record(dump(tmp_path / "l2", added_up(CENTRED)), noise[1]).verdict.outcome == "warn"


@pytest.mark.parametrize(
    ("what", "outcome"), [("momentum_buffer", "warn"), ("exp_avg", "warn"), ("exp_avg_sq", "fail"), ("updated", "fail")]
)
def test_what_an_optimizer_adds_up_of_such_gradients_is_rounding_too(tmp_path, what, outcome):
    left, right = (
        dump(tmp_path / side, added_up(CENTRED, order), CENTRED, what=what) for side, order in (("l", 1), ("r", -1))
    )
    assert record(left, right).verdict.outcome == outcome


def test_what_an_optimizer_adds_up_of_earlier_gradients_that_are_real_fails(tmp_path):
    left = dump(tmp_path / "l2", added_up(CENTRED), CENTRED, what="momentum_buffer")
    right = dump(tmp_path / "r2", added_up(CENTRED) + 0.9 * added_up(TERMS), CENTRED, what="momentum_buffer")
    assert record(left, right).fails
    assert record(right, left).fails


def test_terms_of_a_coarser_type_leave_more(tmp_path):
    bits = np.float32(CENTRED).view(np.uint32)
    coarse = RawArray((bits >> 16).astype(np.int16), CENTRED.shape, "bfloat16")
    rounded = (bits & 0xFFFF0000).view(np.float32)
    left = dump(tmp_path / "l", 1e-3 * RNG.standard_normal(8), coarse)
    # Cut off, bfloat16 leaves up to its epsilon of each term, half of it on average and in one direction.
    assert np.abs(rounded.sum((0, 2, 3))).max() > 1e-3
    assert record(left, dump(tmp_path / "r", added_up(CENTRED), CENTRED)).verdict.outcome == "warn"
    assert record(dump(tmp_path / "big", np.ones(8), coarse), dump(tmp_path / "r2", added_up(CENTRED), CENTRED)).fails


def test_an_absolute_limit_and_a_limit_of_0_hold_all_the_same(noise):
    assert record(*noise, thresholds=["max_abs=1e-12"]).verdict.outcome == "fail"
    assert record(*noise, thresholds=["rel_euclid=0"]).verdict.outcome == "fail"
    assert record(*noise, thresholds=["rel_euclid=1e-9"]).verdict.outcome == "warn"


@pytest.mark.parametrize("damage", ["cut", "nan", "gone"])
def test_terms_that_cannot_be_used_excuse_nothing(noise, damage):
    (file,) = noise[1].glob("conv_grad_output.0.*")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-7])
    elif damage == "nan":
        np.save(file, np.full(CENTRED.shape, np.nan, np.float32))
    else:
        np.save(file, np.float32(CENTRED)[:, :7])
    assert record(*noise).verdict.outcome == "fail"


def test_a_saved_result_is_judged_again_as_it_was(noise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *map(str, noise), "--report", "json"]) == 0
    saved = "msdump-report/results.json"
    assert main(["check", saved]) == main(["check", saved, "--profile", "strict"]) == 0
    assert main(["check", saved, "--profile", "bitwise"]) == 1


def test_other_terms_are_other_conditions_for_the_cache(noise, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    typed = ["compare", *map(str, noise), "--report", "json", "--cache", "content"]
    assert main(typed) == main(typed) == 0
    assert "2 of 2 pairs from earlier runs" in capsys.readouterr().out
    for folder in noise:
        (file,) = folder.glob("conv_grad_output.0.*")
        np.save(file, np.float32(TERMS))
    assert main(typed) == 1


# -- terms that were sketched ------------------------------------------------------------------------------------------


LARGE = RNG.standard_normal((4, 8, 16, 16))
LARGE -= LARGE.mean((0, 2, 3), keepdims=True)


def sketched(folder, bias, terms):
    with DumpWriter(folder, save="sketch") as writer:
        writer.write("conv/grad_output", np.float32(terms))
        writer.write("conv.bias/grad", np.float32(bias))
    return folder


@pytest.mark.parametrize("sides", ["both", "right"])
def test_sketched_terms_show_rounding_as_well(tmp_path, sides):
    left = (sketched if sides == "both" else dump)(tmp_path / "l", added_up(LARGE), LARGE)
    right = sketched(tmp_path / "r", added_up(LARGE, -1), LARGE)
    found = record(left, right)
    assert (found.verdict.outcome, found.verdict.findings[0].message.code) == ("warn", ZERO)


@pytest.mark.parametrize("shift", [1e-2, -1e-2])
def test_sketched_terms_whose_mean_is_not_zero_are_a_gradient(tmp_path, shift):
    # What was saved as their sums is wrong on both sides.
    left = sketched(tmp_path / "l", added_up(LARGE), LARGE + shift)
    right = sketched(tmp_path / "r", added_up(LARGE, -1), LARGE + shift)
    assert record(left, right).verdict.outcome == "fail"


GRADIENT = "Gradients/Default/bn-BatchNorm2d/Grad_BatchNorm/BatchNormGrad-op0"
SUMMED = "Gradients/Default/BiasAddGrad-op1"


def graph_pair(folder, left_terms, left, right, weight, *, has_weight=True):
    """The pair of conv.bias' gradient of a MindSpore dump with its graph and of hooks that save no terms."""
    at = Coordinates(iteration=0, occurrence=0)

    def ref(name, values, reader, op_type=None):
        np.save(folder / f"{reader}_{mangle(name)}.npy", np.float32(values))
        source = TensorSource.of(folder / f"{reader}_{mangle(name)}.npy")
        return TensorRef(TensorKey(OpKey(name, at, op_type), "output", 0), TensorSpec(), source, "npy-file")

    bias, kernel = (Edge(f"conv.{name}", 0, is_parameter=True) for name in ("bias", "weight"))
    graph = OperatorGraph(
        (
            Operator(GRADIENT, "BatchNormGrad"),
            Operator(SUMMED, "BiasAddGrad", inputs=(Edge(GRADIENT, 0), None)),
            Operator("Gradients/Filter-op0", "Conv2DBackpropFilter", inputs=(Edge(GRADIENT, 0),)),
            Operator("Default/optimizer-SGD/SGD-op0", "SGD", inputs=(bias, Edge(SUMMED, 0))),
            Operator("Default/optimizer-SGD/SGD-op1", "SGD", inputs=(kernel, Edge("Gradients/Filter-op0", 0))),
        ),
        "graph.ir",
    )
    ours = [ref(GRADIENT, left_terms, "mindspore", "BatchNormGrad"), ref(SUMMED, left, "mindspore", "BiasAddGrad")]
    ours.append(ref("Gradients/Filter-op0", weight, "mindspore", "Conv2DBackpropFilter"))
    theirs = [ref("conv.bias.grad", right, "torch")] + [ref("conv.weight.grad", weight, "torch")] * has_weight
    dumps = (
        Dump(folder, "mindspore", tuple(ours), graphs=((Coordinates(), graph),)),
        Dump(folder, "npy-folder", tuple(theirs)),
    )
    pairing, _ = with_terms(pair_dumps(*dumps), {"left": dumps[0], "right": dumps[1]})
    return next(pair for pair in pairing.pairs if pair.right.key.op.name == "conv.bias.grad")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "warn"),
        # Without the right's gradient of the weight nothing bounds the right.
        ({"has_weight": False}, "fail"),
        ({"right": 1e-3 * TERMS.sum((0, 2, 3))}, "fail"),
        ({"left": 1e-3 * TERMS.sum((0, 2, 3))}, "fail"),
        ({"left_terms": TERMS}, "fail"),
        # Terms that explode allow any noise; the weight's gradient does not.
        ({"left_terms": CENTRED * 1e9, "left": added_up(CENTRED * 1e9)}, "fail"),
    ],
)
def test_terms_of_the_left_by_its_graph_are_bounded_by_the_weight_beside_the_bias(tmp_path, change, verdict):
    values = {"left_terms": CENTRED, "left": added_up(CENTRED), "right": added_up(CENTRED, -1)}
    pair = graph_pair(tmp_path, **(values | {"weight": RNG.standard_normal((8, 4, 3, 3))} | change))
    assert compare_pair(pair, Policy()).verdict.outcome == verdict
