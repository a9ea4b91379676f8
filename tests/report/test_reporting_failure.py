"""What a failing item says: golden texts, the width, and each thing that a person needs to know.

The golden files are written anew only by ``MSDUMP_WRITE_GOLDEN=1 pytest tests/report``; read the difference.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from report import samples

from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.model.comparison import Finding, Limits, Measurement, Nonfinite, Verdict, WorstElement
from pytest_msdump.core.model.record import Check
from pytest_msdump.core.model.report import NetworkOperator
from pytest_msdump.core.model.tensor import Coordinates, Missing, Pair, TensorSpec, Transform, Unmatched
from pytest_msdump.core.report.coverage import coverage_text
from pytest_msdump.core.report.failure import failure_text, one_line
from pytest_msdump.core.report.summary import header_lines, summary_lines
from pytest_msdump.core.text import Message, plain_text

GOLDEN = Path(__file__).parent / "golden"
RERUN = [
    "pytest",
    "--msdump-left=target_bad",
    "--msdump-right=reference",
    "--msdump-select=Default/conv2-Conv2d/BiasAdd-op0",
]


def said(*records, width=80, rerun=None):
    return failure_text(records, operators=14, width=width, rerun=rerun)


EXPIRED = Message("drift_expired", {"reason": "exp", "date": "2026-01-31"})


def overflowed():
    """A float16 operator that ran into its maximum, NaN beside it."""
    comparison = samples.measured(
        elements=8,
        finite=6,
        differing=3,
        right_zero_mismatch=2,
        measurements={
            "cosine_similarity": Measurement("cosine_similarity", 0.99899999999),
            "max_relative_error": Measurement("max_relative_error", 0.41, where=(1, 2)),
            "kl_divergence": Measurement(
                "kl_divergence", undefined=plain_text("the range of the left side is not finite")
            ),
            "nonfinite_mismatch": Measurement("nonfinite_mismatch", 1, where=(0, 1)),
            "saturated_count": Measurement("saturated_count", 2, where=(0, 1)),
        },
        nonfinite=Nonfinite(nan_both=1, nan_left=1, saturated=1, mismatch=1, first_mismatch=(0, 1)),
        worst=(
            WorstElement((0, 1), math.nan, 111023.7, math.inf),
            WorstElement((1, 2), 65504.0, 111023.7, 41.83),
            WorstElement((1, 3), 1.0000000001, 1.0, 1.5),
        ),
        rtol=1e-3,
        atol=1e-5,
    )
    rule = "profile default (float16)"
    rows = (
        Check("cosine_similarity", 0.99899999999, 0.999, "fail", rule, "fail"),
        Check("max_relative_error", 0.41, 0.5, "fail", "--msdump-threshold max_rel=0.5", "fail"),
        Check("kl_divergence", None, 0.005, "fail", "--msdump-threshold kld=0.005", "undefined"),
        Check("nonfinite_mismatch", 1, 0, "fail", rule, "fail"),
        Check("saturated_count", 2, 0, "fail", rule, "fail"),
    )
    left_out = (
        "max_relative_error 0.41 leaves out 2 elements where the right is 0 and the left is not, so its limit 0.5"
    )
    findings = (
        Finding(
            "fail",
            plain_text(f"cosine_similarity 0.99899999999 is below 0.999 ({rule})"),
            "cosine_similarity",
            0.99899999999,
            0.999,
        ),
        Finding(
            "fail",
            plain_text(f"{left_out} does not hold"),
            "max_relative_error",
            0.41,
            0.5,
            "--msdump-threshold max_rel=0.5",
        ),
        Finding("fail", plain_text("nonfinite_mismatch 1 is above 0"), "nonfinite_mismatch", 1, 0, rule),
        Finding("fail", plain_text("saturated_count 2 is above 0"), "saturated_count", 2, 0, rule),
        Finding(
            "undefined",
            plain_text("kl_divergence is undefined, because the range of the left side is not finite"),
            "kl_divergence",
        ),
        Finding("note", plain_text("dtypes differ: left float16, right float32; judged as float16, the coarser side")),
    )
    at = Coordinates(1, "Net", 2, 9, 3)
    left = samples.left_ref("Default/network/pow-Pow/Pow-op7", "Pow", dtype="float16", at=at)
    return samples.drifted(
        pair=Pair(left, samples.right_ref("pow"), "name", "", Transform(right_format="NHWC"), 11),
        left_spec=TensorSpec("float16", (2, 4), None, (2, 4)),
        right_spec=TensorSpec("float32", (2, 4), None, (2, 4)),
        verdict=Verdict("fail", findings, {"cosine_similarity": 0.998, "saturated_count": 2}),
        limits=Limits(judged_as="float16", notes=(EXPIRED,)),
        checks=rows,
        comparison=comparison,
    )


def a_report(*records, pairs=None, alone_left=(), alone_right=(), missing=(), min_coverage=None):
    left, right = samples.dumps()
    pairing = samples.pairing(
        [samples.pair()] * (len(records) if pairs is None else pairs), alone_left, alone_right, missing
    )
    return assemble(left, right, pairing, records, profile="default", min_coverage=min_coverage)


def nothing_met():
    left, right = samples.dumps()
    alone = [
        Unmatched("left", ref, plain_text("no right operator of that name"), ("conv1:output:0",)) for ref in left.refs
    ]
    report = a_report(
        alone_left=alone, alone_right=[Unmatched("right", right.refs[0], plain_text("no left operator of that name"))]
    )
    return replace(report, coverage=replace(report.coverage, next_entry=("conv1", "conv1")))


def ended_badly(width):
    report = a_report(samples.passed(), samples.drifted(), samples.unreadable(), min_coverage=0.9)
    header = header_lines(report.left, report.right, pairs=3, profile="default")
    return "\n".join([*header, "", *summary_lines(report, width=width, files=["msdump-report/results.json"])])


TEXTS = {
    "drift": lambda width: said(samples.drifted(), samples.passed(), width=width, rerun=RERUN),
    "overflow": lambda width: said(overflowed(), width=width),
    "error": lambda width: said(samples.unreadable(), width=width, rerun=RERUN),
    "nothing_met": lambda width: coverage_text(nothing_met(), width=width),
    "summary": ended_badly,
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_golden_one(name, width):
    golden = GOLDEN / f"{name}_{width}.txt"
    text = TEXTS[name](width) + "\n"
    if os.environ.get("MSDUMP_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


LONG = "Default/" + "network-WithLossCell/_backbone-LongNamedNetwork/" * 5 + "Conv2D-op123456"
DIGITS = complex(-1.2345678901234567e-300, 9.876543210987654e-300)


def widest():
    """All that is long at once: names, rule, index, digits."""
    rule = 'msdump.toml [[msdump.rule]] #12 match="Default/network-WithLossCell/_backbone*" dtype="float32"'
    worst = (
        WorstElement((10**6,) * 6, DIGITS, DIGITS + 1e-315, 1.0),
        WorstElement((0,) * 6, 0.1, math.nextafter(0.1, 1), 1.0),
    )
    comparison = samples.measured(worst=worst)
    pair = Pair(samples.left_ref(LONG), samples.right_ref("x" * 230), "mapped", f"{'deep/' * 30}msdump.toml #1")
    return samples.drifted(rule=rule, pair=pair, comparison=comparison)


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("record", [samples.drifted, overflowed, samples.unreadable, widest, samples.passed])
def test_every_line_fits(record, width):
    assert max(map(len, said(record(), width=width).splitlines())) <= width


def test_limits_that_would_do_are_typed_exactly():
    record = samples.drifted(verdict=Verdict("fail", (), {"cosine_similarity": 0.1234567890123, "allclose": 588}))
    text = " ".join(said(record).split())
    assert "would pass with cosine = 0.1234567890123, --msdump-threshold=allclose=588" in text


def test_an_integer_beyond_all_floats_does_not_break_the_text():
    worst = (WorstElement((0,), 10**400, 1, math.inf), WorstElement((1,), 10**400, 0.5, math.inf))
    assert "1.00000e+400" in said(samples.drifted(comparison=samples.measured(worst=worst)))


def test_a_hostile_name_stays_on_its_line_without_colour():
    pair = samples.pair(left=samples.left_ref("evil\n\x1b[31mname"))
    for text in (said(samples.drifted(pair=pair)), one_line(samples.drifted(pair=pair))):
        assert "\x1b" not in text
        assert "evil\\n\\x1b[31mname" in text


def test_two_loose_files_have_no_place_in_a_run():
    pair = Pair(replace(samples.left_ref(), key=samples.right_ref().key), samples.right_ref(), "file")
    text = said(samples.drifted(pair=replace(pair, transform=Transform(reshape=True))))
    assert "op 12 of" not in text
    assert "paired" not in text
    assert "right side reshaped" in text


def test_a_missing_mapped_tensor_fails_coverage_with_its_reason():
    report = a_report(
        samples.passed(), missing=[Missing("a", "b", plain_text("the right side was not dumped"), ("b2",))]
    )
    text = coverage_text(report)
    assert text.startswith("COVERAGE: 1 map entry found no pair")
    fused = coverage_text(replace(report, network=(NetworkOperator(0, 0, "a", "Add", ("a",), ("*",), ""),)))
    assert fused.startswith("COVERAGE: 1 mapped or fused pair is missing")
    assert "a <-> b: the right side was not dumped (nearest: b2)" in text


def test_coverage_that_passes_lists_who_was_left_alone_by_reason():
    alone = [Unmatched("right", samples.right_ref(f"x{i}"), plain_text(f"reason {i % 2}")) for i in range(9)]
    text = coverage_text(a_report(*[samples.passed()] * 9, alone_right=alone))
    assert "COVERAGE" not in text
    assert "    reason 0        5\n    reason 1        4\n" in text
    assert "x4:output:0" in text
    assert "x5:output:0" not in text
    assert "and 4 more tensors" in text


def test_an_empty_folder_is_said_to_be_empty():
    left, right = samples.dumps(left_names=())
    left = replace(left, reader="empty")
    text = coverage_text(assemble(left, right, samples.pairing(), [], profile="default"))
    assert "target_bad (an empty folder)" in text
    assert "check that the run wrote its dump there" in text


def test_the_version_is_told_first_and_other_labels_by_name():
    left = replace(a_report().left, labels={"net": "{Le}net", "device_target": "CPU", "ms_version": "2.10.0"})
    first, *_ = header_lines(left, a_report().right, pairs=1, profile="default")
    assert "(MindSpore 2.10.0, CPU, net {Le}net; reader mindspore)" in first


def test_swapped_sides_are_warned_of():
    left, right = a_report().left, a_report().right
    assert any("sides look swapped" in line for line in header_lines(right, left, pairs=1, profile="default"))
    for side in (left, right):
        assert not any("swapped" in line for line in header_lines(side, side, pairs=1, profile="default"))


def test_identical_sides_are_told():
    sentence = "the two sides are identical"
    assert sentence in "\n".join(summary_lines(a_report(samples.passed(), samples.passed())))
    assert sentence not in "\n".join(summary_lines(a_report(samples.passed(), samples.drifted())))
    assert sentence not in "\n".join(summary_lines(a_report()))


def test_equal_values_with_other_bits_are_not_identical():
    numbers = {"bitwise_mismatch": Measurement("bitwise_mismatch", 3)}
    record = replace(samples.passed(), comparison=samples.equal(measurements=numbers))
    assert "identical" not in "\n".join(summary_lines(a_report(record)))
    other_dtype = samples.passed(right_spec=TensorSpec("float64", samples.SHAPE))
    assert "identical" not in "\n".join(summary_lines(a_report(other_dtype)))


def test_warnings_are_told_few_times():
    warned = replace(samples.passed(), verdict=Verdict("warn", (Finding("warn", plain_text("accepted for a while")),)))
    lines = summary_lines(a_report(*[warned] * 5), width=120)
    assert sum("accepted for a while" in line for line in lines) == 3
    assert "and 2 more warnings; results.json has them all" in lines


@pytest.mark.parametrize("width", [60, 80])
def test_the_summary_and_the_match_report_fit(width):
    for report in (
        nothing_met(),
        a_report(
            widest(), samples.unreadable(), alone_left=[Unmatched("left", samples.left_ref(LONG), plain_text(LONG))]
        ),
    ):
        for line in (*summary_lines(report, width=width), *coverage_text(report, width=width).splitlines()):
            assert len(line) <= width
