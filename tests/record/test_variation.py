"""Noise of the size of a rounding: how large, where, and that the order of tensors makes no difference."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from kernels import needs_kernel

from pytest_msdump.capabilities.record.calls import with_leaves
from pytest_msdump.capabilities.record.writer import sketch_dump
from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.record import Control, DumpWriter, Perturbation, RawArray

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "complex64": 2.0**-24, "complex128": 2.0**-53}
SHARE = (np.log(2) - 0.5) / np.log(2)


def values_of(dtype: str, count: int = 40_000):
    """Numbers whose logarithms are spread evenly, as those of models nearly are."""
    generator = np.random.default_rng(3)
    parts = np.exp2(generator.uniform(-3, 3, (2, count))) * generator.choice([-1, 1], (2, count))
    return (parts[0] + 1j * parts[1]).astype(dtype) if dtype.startswith("complex") else parts[0].astype(dtype)


def parts_of(array):
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


@pytest.mark.parametrize("dtype", UNITS)
def test_numbers_move_by_a_rounding_at_most_and_as_often_as_rounding_lets_them(dtype):
    before = values_of(dtype)
    after = Perturbation(1)("x", before)
    assert (after.dtype, after.shape) == (before.dtype, before.shape)
    old, new = parts_of(before), parts_of(after)
    assert np.abs(new - old).max() <= np.spacing(np.abs(old)).max()
    assert (np.abs(new - old) <= np.spacing(np.abs(old))).all()
    # x·u·ξ passes half of a unit in the last place with probability 1 - 1/m for a significand of m from 1 to 2.
    assert (old != new).mean() == pytest.approx(SHARE, abs=0.02)
    assert (new > old).sum() == pytest.approx((new < old).sum(), rel=0.06)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_larger_u_gives_uniform_noise_rounded_once(dtype):
    u = 2.0**-6
    before = values_of(dtype)
    after = Perturbation(7, u)("w", before).astype("float64")
    noise = (after / before.astype("float64") - 1) / u
    assert np.abs(noise).max() <= 1 + UNITS[dtype] / u
    assert noise.mean() == pytest.approx(0, abs=0.015)
    assert noise.std() == pytest.approx(3**-0.5, rel=0.02)


def test_bfloat16_is_rounded_once_to_the_nearest():
    bits = (values_of("float32").view("<u4") >> 16).astype("<u2")
    # Subnormal numbers have fewer bits, and none has more than eight.
    bits[:300] = np.arange(300)
    bits[300] = 0x7F7F
    perturb = Perturbation(2)
    made = perturb("x", RawArray(bits, bits.shape, "bfloat16"))
    assert (made.dtype, made.shape) == ("bfloat16", bits.shape)
    old, new = ((one.astype("<u4") << 16).view("<f4") for one in (bits, np.asarray(made.data)))
    assert np.isfinite(new).all()
    assert (old != new)[301:].mean() == pytest.approx(SHARE, abs=0.02)
    # The noise of float64 with the same draws, rounded by fractions.
    wide = Perturbation(2, 2.0**-8)("x", old.astype("float64"))
    for exact, rounded in zip(wide[:2000].tolist(), new[:2000].tolist(), strict=True):
        quantum = Fraction(2) ** (max(int(np.frexp(exact)[1]), -125) - 8)
        nearest = round(Fraction(exact) / quantum) * quantum
        assert Fraction(rounded) == nearest or nearest >= 2**128


def test_zeros_nan_and_infinite_numbers_stay_and_none_becomes_infinite():
    most = np.finfo("float32").max
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], "float32")
    assert Perturbation(1)("x", special).tobytes() == special.tobytes()
    after = Perturbation(1, 0.4)("x", np.array([most, -most] * 1000, "float32"))
    assert np.isfinite(after).all()
    assert (np.abs(after) < most).any()


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_what_is_no_floating_number_stays(dtype):
    array = np.ones(9, dtype)
    assert Perturbation(1)("x", array) is array


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex32"])
def test_types_without_arithmetic_stay(dtype):
    array = RawArray(b"\1\2\3\4" * 4, (4,) if dtype == "complex32" else (16,), dtype)
    assert Perturbation(1)("x", array) is array


@needs_kernel
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_kernel_and_numpy_draw_the_same_noise(monkeypatch, dtype):
    values = values_of(dtype, 70_001)
    values[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max]
    values[6:9] = np.finfo(dtype).smallest_subnormal
    made = {}
    for name in ("compiled", "numpy"):
        monkeypatch.setenv(VARIABLE, name)
        made[name] = [Perturbation(3, u)("w", values).tobytes() for u in (None, 0.25)]
    assert made["compiled"] == made["numpy"]


def test_noise_depends_on_seed_and_name_alone():
    ones = np.ones((50, 30), "float32")
    first = Perturbation(1)
    a, b = first("a", ones), first("b", ones)
    assert first("a", ones).tobytes() == a.tobytes()
    # Also in Fortran order: the noise is that of the element.
    assert first("a", np.asfortranarray(ones)).tobytes() == a.tobytes()
    assert len({one.tobytes() for one in (ones, a, b, Perturbation(2)("a", ones))}) == 4


def test_the_array_that_was_given_stays_as_it_was():
    array = np.ones(100, "float32")
    array.flags.writeable = False
    assert Perturbation(1)("a", array) is not array
    assert Perturbation(1)("a", np.float32(3).reshape(())).shape == ()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"seed": -1}, "seed of a perturbation is a whole number"),
        ({"seed": 1.0}, "seed of a perturbation is a whole number"),
        ({"seed": 1, "u": 0.0}, "between 0 and 1"),
        ({"seed": 1, "u": float("nan")}, "between 0 and 1"),
        ({"seed": 1, "what": "outputs"}, "known: input, input\\+weights"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, error):
    with pytest.raises(ConfigError, match=error):
        Perturbation(**wrong)


@pytest.mark.parametrize("name", ["threads=0", "threads=", "threads=-1", "threads=99999", "sdpa", "x" * 999, 3, ""])
def test_an_unknown_control_is_refused(name):
    with pytest.raises(UnknownNameError, match="no control is called"):
        Control(name)


def test_the_manifest_says_it_and_every_comparison_shows_it(tmp_path):
    from pytest_msdump import assert_dumps_close, open_dump

    said = {"u": 2.0**-24, "what": "input", "seed": 1}
    for name, perturbation in (("plain", None), ("perturbed", said)):
        with DumpWriter(tmp_path / name) as writer:
            writer.describe(**({} if perturbation is None else {"perturbation": perturbation}))
            writer.write("op", np.ones(2))
    sketch_dump(open_dump(tmp_path / "perturbed").dump, tmp_path / "sketch")
    for name in ("perturbed", "sketch"):
        assert open_dump(tmp_path / name).dump.manifest.perturbation == said
        report = assert_dumps_close(tmp_path / "plain", tmp_path / name)
        assert [note for note in report.right.notes if "perturbed" in note] == [
            "this run's inputs and weights were perturbed, to find what rounding does: it is no reference"
        ]
        assert report.left.notes == ()


def test_values_keep_their_kind_when_tensors_in_them_are_changed():
    from collections import namedtuple
    from dataclasses import dataclass

    Pair = namedtuple("Pair", "a b")

    @dataclass(frozen=True)
    class Held:
        x: object
        y: object

    value = {"p": Pair(1, "text"), "l": [2, (3, None)], "h": Held(4, 5.0)}
    names = []

    def change(name, number):
        names.append(name)
        return number * 10

    made = with_leaves("", value, lambda one: type(one) is int, change)
    assert made == {"p": Pair(10, "text"), "l": [20, (30, None)], "h": Held(40, 5.0)}
    assert type(made["p"]) is Pair
    assert names == ["p.a", "l.0", "l.1.0", "h.x"]
    assert value == {"p": Pair(1, "text"), "l": [2, (3, None)], "h": Held(4, 5.0)}
    assert with_leaves("", value, lambda one: type(one) is bytes, change) is value
