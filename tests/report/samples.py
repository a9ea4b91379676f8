"""Records and reports to write about, built by hand: small, and with the numbers of the failing port of a small CNN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_msdump.core.model.comparison import (
    Comparison,
    Finding,
    Limits,
    Measurement,
    Nonfinite,
    Verdict,
    WorstElement,
)
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.record import Check, record_of
from pytest_msdump.core.model.tensor import (
    Coordinates,
    Missing,
    OpKey,
    Pair,
    Pairing,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    Unmatched,
)
from pytest_msdump.core.report.record_json import from_json, to_json
from pytest_msdump.core.text import Message, plain_text

ROOTS = LEFT_ROOT, RIGHT_ROOT = Path("target_bad"), Path("reference")
RULE = "profile default (float32)"
SHAPE = (1, 12, 7, 7)


def left_ref(
    name="Default/conv2-Conv2d/BiasAdd-op0", op_type="BiasAdd", slot=0, dtype="float32", at=None, stamp=1795222395086104
):
    mangled = name.replace("/", "_")
    file = f"{op_type}.{mangled}.0.0.{stamp}.output.{slot}.DefaultFormat.{dtype.capitalize()}.npy"
    at = at or Coordinates(0, "Lenet", 0, 0, 0)
    return TensorRef(
        TensorKey(OpKey(mangled, at, op_type, name), "output", slot),
        TensorSpec(dtype, SHAPE, "DefaultFormat", SHAPE),
        TensorSource.of(LEFT_ROOT / "rank_0/Lenet/0/0" / file, stamp),
        "mindspore",
        4,
    )


def right_ref(name="conv2", slot=0, stamp=1795222342972874):
    return TensorRef(
        TensorKey(OpKey(name, Coordinates(iteration=0, occurrence=0)), "output", slot),
        TensorSpec(None, None),
        TensorSource.of(RIGHT_ROOT / f"{name}.{slot}.{stamp}.npy", stamp),
        "npy-folder",
    )


def pair(**changes):
    plain = Pair(left_ref(), right_ref(), "mapped", "msdump.toml [[msdump.map]] #3", order=4)
    return replace(plain, **changes)


# `pair` is also what the records below are made of.
_mapped = pair


def measured(**changes):
    """The numbers of the wrong convolution."""
    numbers = (
        Measurement("cosine_similarity", 0.390510547323438),
        Measurement("max_absolute_error", 1.374973714351654, where=(0, 3, 1, 2)),
        Measurement("accumulated_relative_error", 2411.8830154),
        Measurement("relative_euclidean_distance", 1.104056773570598),
        Measurement("kl_divergence", 0.1302244),
        Measurement("standard_deviation", (0.01244, 0.41203, -0.00031, 0.40511)),
        Measurement("mean_absolute_error", 0.3542217),
        Measurement("root_mean_square_error", 0.44810332),
        Measurement("max_relative_error", 311.62, where=(0, 7, 0, 4)),
        Measurement("mean_relative_error", 4.1018418),
        Measurement("normalized_max_error", 0.99123),
        Measurement("nonfinite_mismatch", 0),
        Measurement("saturated_count", 0),
        Measurement("allclose", 588),
        Measurement("bitwise_mismatch", 588),
    )
    plain = Comparison(
        elements=588,
        finite=588,
        differing=588,
        right_zero_mismatch=0,
        measurements={number.metric: number for number in numbers},
        nonfinite=Nonfinite(),
        worst=(
            WorstElement((0, 3, 1, 2), 0.12344391644001007, 1.4984176158905029, 75103.93),
            WorstElement((0, 3, 6, 6), -1.2079771757125854, 0.10123001784086227, 71220.4),
        ),
        rtol=1.3e-6,
        atol=1e-5,
        vendor={"mean_relative_error": 4.1018418},
    )
    return replace(plain, **changes)


def equal(**changes):
    """A pair whose every bit agrees."""
    numbers = {"cosine_similarity": 1.0, "max_absolute_error": 0.0, "bitwise_mismatch": 0}
    measurements = {metric: Measurement(metric, value) for metric, value in numbers.items()}
    return replace(Comparison(588, 588, 0, 0, measurements, Nonfinite()), **changes)


LIMITS = {
    "cosine_similarity": 0.999,
    "relative_euclidean_distance": 0.001,
    "normalized_max_error": 0.01,
    "nonfinite_mismatch": 0,
    "saturated_count": 0,
}
_FAILED = ("cosine_similarity", "relative_euclidean_distance", "normalized_max_error")


def checks(comparison, failed=_FAILED, rule=RULE):
    """The table of a comparison: what `failed` and what held."""
    for metric, number in comparison.measurements.items():
        if metric in LIMITS:
            yield Check(metric, number.value, LIMITS[metric], "fail", rule, "fail" if metric in failed else "ok")


SPEC = TensorSpec("float32", SHAPE, None, SHAPE)


def beyond(code, metric, value, limit, rule, place=None):
    """What judging says of a number beyond its limit."""
    detail = None if place is None else Message("detail_place", {"place": place})
    return Message(code, {"metric": metric, "value": value, "limit": limit, "rule": rule, "detail": detail})


def drifted(rule=RULE, *, pair=None, left_spec=SPEC, right_spec=SPEC, limits=None, **changes):
    """The record of the wrong convolution."""
    comparison = measured()
    findings = (
        Finding(
            "fail",
            beyond("below_limit", "cosine_similarity", 0.390510547323438, 0.999, rule),
            "cosine_similarity",
            0.390510547323438,
            0.999,
            rule,
        ),
        Finding(
            "fail",
            beyond("above_limit", "relative_euclidean_distance", 1.104056773570598, 0.001, rule),
            "relative_euclidean_distance",
            1.104056773570598,
            0.001,
            rule,
        ),
        Finding(
            "fail",
            beyond("above_limit", "normalized_max_error", 0.99123, 0.01, rule),
            "normalized_max_error",
            0.99123,
            0.01,
            rule,
        ),
    )
    bounds = {"cosine_similarity": 0.39, "relative_euclidean_distance": 1.11, "normalized_max_error": 0.992}
    plain = record_of(
        pair or _mapped(),
        Verdict("fail", findings, bounds),
        limits or Limits(rtol=1.3e-6, atol=1e-5),
        specs=(left_spec, right_spec),
        roots=ROOTS,
    )
    return replace(plain, **{"checks": tuple(checks(comparison, rule=rule)), "comparison": comparison, **changes})


def passed(**changes):
    comparison = equal()
    plain = {"verdict": Verdict("pass"), "comparison": comparison, "checks": tuple(checks(comparison, ()))}
    return drifted(**{**plain, **changes})


def unreadable(**changes):
    """A pair whose left file was cut off."""
    sentence = (
        "target_bad/rank_0/Lenet/0/0/BiasAdd.Default_conv2-Conv2d_BiasAdd-op0.0.0.1795222395086104.output.0."
        "DefaultFormat.Float32.npy: cut off: 1024 of 2352 bytes; the run was probably killed while writing, "
        "dump it again"
    )
    plain = {
        "left_spec": left_ref().spec,
        "right_spec": right_ref().spec,
        "verdict": Verdict("error", (Finding("error", plain_text(sentence)),)),
        "checks": (),
        "comparison": None,
    }
    return drifted(**{**plain, **changes})


def not_run():
    """A pair that was planned only."""
    return record_of(pair(), roots=ROOTS)


def entry(record):
    """The record as results.json has it."""
    return to_json(record)


def edited(record, **changes):
    """The record that is read where results.json has other values at some keys."""
    return from_json({**to_json(record), **changes})


def dumps(left_names=("Default/conv1/BiasAdd-op0", "Default/conv2-Conv2d/BiasAdd-op0"), right_names=("conv1", "conv2")):
    """Two dumps of a few operators."""
    left = Dump(
        LEFT_ROOT,
        "mindspore",
        tuple(left_ref(name) for name in left_names),
        labels=(("ms_version", "2.10.0"), ("device_target", "CPU")),
    )
    return left, Dump(RIGHT_ROOT, "npy-folder", tuple(right_ref(name) for name in right_names))


def pairing(pairs=(), unmatched_left=(), unmatched_right=(), missing=(), total=None, paired=None):
    paired = len(pairs) if paired is None else paired
    total = len(pairs) + len(unmatched_right) if total is None else total
    return Pairing(tuple(pairs), tuple(unmatched_left), tuple(unmatched_right), tuple(missing), total, paired)


__all__ = ["Missing", "Unmatched"]
