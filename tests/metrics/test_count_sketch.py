"""Count sketches: the buckets that the published construction gives, and intervals that hold."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from kernels import EACH, needs_kernel

from pytest_msdump.capabilities.statistics.count_sketch import (
    BUCKETS,
    SEEDS,
    CountSketch,
    distance,
    packed,
    sketch_blocks,
    unpacked,
)

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SIZE = 40_000


def mixed(state):
    state = (state + GOLDEN) & WORD
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & WORD
    return state ^ (state >> 31)


def bucket_and_sign(element, m):
    """Where an element goes, number by number: no tables, no rows."""

    def base(stream):
        return mixed(mixed((SEEDS[m] * 0xD1342543DE82EF95 + stream) & WORD))

    chunk, row, place = element // (16 * m), element // m % 16, element % m
    turn = ((mixed((base(4) + row * GOLDEN) & WORD) >> 32) * m) >> 32
    at = (chunk % 64) * m + (mixed((base(5) + row * GOLDEN) & WORD) & 65535) + place
    word = mixed((base(1) + at // 64 * GOLDEN) & WORD)
    drawn = mixed((base(2) + chunk * GOLDEN) & WORD)
    sign = (-1 if word >> at % 64 & 1 else 1) * (-1 if drawn & 1 else 1)
    return (place + turn + (((drawn >> 32) * m) >> 32)) % m, sign


def sketch(values, m=BUCKETS, block=9_999):
    made = CountSketch(m)
    for start in range(0, values.size, block):
        made.add(values[start : start + block])
    return made


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("m", sorted(SEEDS))
def test_each_element_goes_to_its_bucket(kernel, m, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    for element in (0, 1, m - 1, m, 16 * m - 1, 16 * m, 64 * 16 * m + 12345, 65 * 16 * m - 1):
        values = np.zeros(element + 1, np.float32)
        values[element] = 3.0
        expected = np.zeros(m)
        bucket, sign = bucket_and_sign(element, m)
        expected[bucket] = 3.0 * sign
        assert np.array_equal(sketch(values, m, 2**20).values(), expected)


@needs_kernel
@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "?"])
@pytest.mark.full
def test_both_kernels_and_all_block_sizes_give_the_same_bits(dtype, monkeypatch):
    values = (np.random.default_rng(1).standard_normal(SIZE) * 40).astype(dtype)
    if values.dtype.kind == "f":
        values[[3, 20_000, 39_999]] = [np.nan, np.inf, -np.inf]
    found = []
    for kernel in ("numpy", "compiled"):
        monkeypatch.setenv("MSDUMP_KERNEL", kernel)
        # Blocks of one element take most of the time: one type shows them.
        found += [sketch(values, block=block) for block in (1 if dtype == "f4" else 7, 1000, SIZE)]
    for one in found[1:]:
        assert one.values().tobytes() == found[0].values().tobytes()


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "?"])
def test_statistics_are_those_of_the_tensor(kernel, dtype, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    values = (np.random.default_rng(2).standard_normal(SIZE) * 9).astype(dtype)
    found = sketch(values).statistics()
    doubles = values.astype(np.float64)
    assert found["minimum"] == values.min()
    assert found["maximum"] == values.max()
    assert found["mean"] == pytest.approx(math.fsum(doubles) / SIZE, abs=1e-12)
    assert found["l2_norm"] == pytest.approx(math.sqrt(math.fsum(doubles * doubles)), rel=1e-13)
    assert (found["count"], found["zero_count"]) == (SIZE, np.count_nonzero(values == 0))


@pytest.mark.parametrize("kernel", EACH)
def test_what_is_not_finite_is_counted_and_no_part_of_anything_else(kernel, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    values = np.array([np.nan, 3.0, np.inf, -4.0, -np.inf, np.inf, 0.0], np.float32)
    found = sketch(values)
    clean = sketch(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0))
    nothing = sketch(np.full(5, np.nan, np.float32)).statistics()
    assert np.array_equal(found.values(), clean.values())
    counts = ("nan_count", "positive_inf_count", "negative_inf_count", "zero_count", "minimum", "maximum", "mean")
    statistics = found.statistics()
    assert [statistics[name] for name in counts] == [1, 2, 1, 1, -4.0, 3.0, -1.0 / 3.0]
    assert nothing["minimum"] is nothing["mean"] is None
    assert math.isnan(nothing["l2_norm"])


def _spikes(draw, count):
    values = np.zeros(SIZE)
    values[draw.choice(SIZE, count, replace=False)] = 1.0
    return values


KINDS = {
    "white": lambda draw: draw.standard_normal(SIZE),
    "constant": lambda draw: np.full(SIZE, draw.random() + 0.1),
    "single": lambda draw: _spikes(draw, 1),
    "five spikes": lambda draw: _spikes(draw, 5),
    "fifty spikes": lambda draw: _spikes(draw, 50),
    "a channel": lambda draw: np.where(np.arange(SIZE) // 625 == draw.integers(64), draw.standard_normal(SIZE), 0.0),
    "a period": lambda draw: np.where(np.arange(SIZE) % 1024 == draw.integers(1024), 1.0, 0.0),
    "heavy tails": lambda draw: draw.standard_cauchy(SIZE),
    "a shift": lambda draw: np.diff(draw.standard_normal(SIZE + 1)),
    "a ramp": lambda draw: np.linspace(-1, 1, SIZE) * draw.random(),
    "huge": lambda draw: draw.standard_normal(SIZE) * 1e200,
    "tiny": lambda draw: draw.standard_normal(SIZE) * 1e-200,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full
def test_the_interval_holds_the_distance(kind):
    runs, missed = 120, 0
    draw = np.random.default_rng(zlib.crc32(kind.encode()))
    for _ in range(runs):
        difference = KINDS[kind](draw)
        # A right side is there so that both sketches are of tensors, as in a comparison.
        right = draw.standard_normal(SIZE) * np.abs(difference).max()
        left = right + difference
        found = distance(sketch(left).values(), sketch(right).values())
        scale = np.abs(difference).max()
        exact = math.sqrt(math.fsum(((left - right) / scale) ** 2)) * scale
        missed += not found.low <= exact <= found.high
        assert found.high < 2 * found.low
    # 98.5 % of very many; of so few at most as many as one run in a thousand would miss.
    assert missed <= 7


# -- norms of slices


def norms(array, groups):
    """The norms along the second axis, of so many neighbours together, number by number."""
    # Scaled, so that no square overflows or vanishes.
    scale = float(np.max(np.abs(array))) or 1.0
    others = tuple(axis for axis in range(array.ndim) if axis != 1)
    squares = (np.abs(array.astype("c16" if np.iscomplexobj(array) else "f8") / scale) ** 2).sum(axis=others)
    return [scale * math.sqrt(math.fsum(squares[at : at + groups])) for at in range(0, squares.size, groups)]


def norms_by_sketch(array, block):
    flat, dtype = array.reshape(-1), str(array.dtype)
    return sketch_blocks((flat[at : at + block] for at in range(0, flat.size, block)), dtype, array.shape)[1]


SHAPES = {
    (40, 130): 1,
    (40, 1000): 4,
    (2, 300, 3, 7): 2,
    (3, 513, 16): 3,
    (3, 5, 17, 20): 1,
    (2, 3, 1031): 1,
    (1, 1, 9000): 1,
    (1, 2, 300_000): 1,
}


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("block", [777, 2**17])
@pytest.mark.parametrize("shape", SHAPES)
def test_norms_of_slices_are_those_of_the_tensor(kernel, shape, block, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    array = np.random.default_rng(1).standard_normal(shape).astype("f4")
    found = norms_by_sketch(array, block).slices
    assert found.size <= 256
    np.testing.assert_allclose(found, norms(array, SHAPES[shape]), rtol=1e-12)


@pytest.mark.parametrize("m", sorted(SEEDS))
@pytest.mark.parametrize("channels", [1, 2, 255, 256, 257, 1000])
def test_what_is_saved_is_the_sketch(m, channels):
    array = np.random.default_rng(3).standard_normal((80, channels)).astype("f4") * 1e-30
    _, sketch = sketch_blocks([array.reshape(-1)], "float32", array.shape, buckets=m)
    kept = packed(sketch)
    found = unpacked(kept, sketch.norm, array.shape, "float32")
    assert (kept.dtype, kept.ndim, kept.nbytes <= 8 * m + 1024) == ("<f8", 1, True)
    np.testing.assert_array_equal(found.buckets, sketch.buckets)
    np.testing.assert_allclose(found.slices, sketch.slices, rtol=2.0**-24 * 1.01)
    # Of older recordings there are buckets alone.
    assert unpacked(kept[:m], sketch.norm, array.shape, "float32").slices is None
    # Not a sketch of such a tensor, or of none.
    negative = np.where(np.arange(kept.size) == m, np.full(2, -1.0, "f4").view("f8"), kept)
    for damaged in (kept[: m - 1], np.append(kept, 0.0), negative, np.where(np.arange(kept.size) == 7, np.nan, kept)):
        assert unpacked(damaged, sketch.norm, array.shape, "float32") is None


@pytest.mark.parametrize("m", sorted(SEEDS))
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_a_sketch_that_its_norm_contradicts_is_none(m, scale):
    array = np.random.default_rng(4).standard_normal(6000) * scale
    _, sketch = sketch_blocks([array], "float64", array.shape, buckets=m)
    kept, peak = packed(sketch), float(np.abs(array).max())
    assert unpacked(kept, sketch.norm, array.shape, "float64", peak=peak) is not None
    for factor in (1e30, 3.0):
        assert unpacked(kept, sketch.norm * factor, array.shape, "float64", peak=peak) is None
    assert unpacked(np.zeros_like(kept), sketch.norm, array.shape, "float64", peak=peak) is None
    # Two elements alone can cancel each other.
    pair = np.array([1.0, -1.0]) * scale
    assert unpacked(np.zeros(m), float(np.linalg.norm(pair)), pair.shape, "float64", peak=scale) is not None


def test_a_norm_is_held_against_the_buckets_of_any_tensor():
    rng = np.random.default_rng(5)
    for number in range(300):
        size = int(rng.integers(64, 20_000))
        array = rng.standard_t(rng.choice([1.5, 3, 30]), size) * np.where(rng.random(size) < rng.random(), 0, 1)
        array = array if number % 3 else np.full(size, rng.normal())
        _, sketch = sketch_blocks([array], "float64", array.shape)
        assert unpacked(packed(sketch), sketch.norm, array.shape, "float64", peak=float(np.abs(array).max(initial=0)))
