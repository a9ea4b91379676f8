"""The compiled kernel and numpy give one answer; which of them it is, is chosen and said.

``MSDUMP_KERNEL_CASES=10000`` tries as many pairs as the lane `sanitizer` of ``.ci/run`` does.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import needs_kernel

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.metrics import kernel
from pytest_msdump.core.metrics.c_kernel import CompiledDivergence, CompiledSums
from pytest_msdump.core.metrics.kernel import VARIABLE, choose_kernel, kernel_line
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.metrics.numpy_kernel import NOTHING, Span, Task
from pytest_msdump.core.model.comparison import Comparison, Measurement

Array = npt.NDArray[Any]

CASES = int(os.environ.get("MSDUMP_KERNEL_CASES", "250"))
FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
KINDS = (*FLOATS, *INTEGERS)
# Around a group of 32 elements, and one or more tiles of 1024.
SIZES = (1, 2, 7, 31, 32, 33, 63, 64, 500, 1023, 1024, 1025, 1057, 2047, 2048, 2049, 2081, 4096, 5000)
TOLERANCES = ((0.0, 0.0), (1.3e-6, 1e-5), (0.1, 0.0), (0.0, 0.5), (1e-3, 1e-300), (1e-200, 0.0))
# Extrema of single elements, which rounding does not touch; counts are integers anyway.
EXACT = ("max_absolute_error", "max_relative_error", "normalized_max_error")


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


# -- one answer --------------------------------------------------------------------------------------------------------


def by(name: str, left: Array, right: Array, **wanted: Any) -> Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, name)
        return measure(ArrayView(left), ArrayView(right), **wanted)


def assert_same(one: Comparison, other: Comparison) -> None:
    """Everything but sums exactly, sums to 1e-12 of themselves."""
    for field in fields(Comparison):
        if field.name not in ("measurements", "absolute_error_sum", "vendor", "dominated"):
            # As texts: NaN is not equal to itself, and an int is not to become a float.
            assert repr(getattr(one, field.name)) == repr(getattr(other, field.name)), field.name
    assert_close("absolute_error_sum", one.absolute_error_sum, other.absolute_error_sum)
    assert one.vendor.keys() == other.vendor.keys()
    for metric in one.vendor:
        assert_close(metric, one.vendor[metric], other.vendor[metric])
    assert_same_measurements(one.measurements, other.measurements)
    for found, expected in zip(one.dominated, other.dominated, strict=True):
        assert found[:4] == expected[:4]
        assert_same_measurements(found.measurements, expected.measurements)


def assert_same_measurements(one: Mapping[str, Measurement], other: Mapping[str, Measurement]) -> None:
    assert one.keys() == other.keys()
    for metric, a in one.items():
        b = other[metric]
        assert (a.undefined, a.applies, a.where) == (b.undefined, b.applies, b.where), metric
        assert_close(metric, a.value, b.value)


def assert_close(metric: str, a: Any, b: Any) -> None:
    assert type(a) is type(b), metric
    if isinstance(a, tuple):
        for at in (0, 2):
            # A mean may cancel, and a deviation be far below it: both are measured by what was added up.
            scale = 1e-12 * math.hypot(a[at], a[at + 1])
            assert a[at : at + 2] == pytest.approx(b[at : at + 2], rel=1e-12, abs=scale), metric
    elif not isinstance(a, float) or metric in EXACT:
        assert repr(a) == repr(b), metric
    else:
        # Cosine and divergence are what is left of numbers near 1, and so is the logarithm of the ratio of two sums.
        logarithms = ("cosine_similarity", "kl_divergence", "signal_to_noise_ratio")
        absolute = 1e-12 if metric in logarithms else 0.0
        assert a == pytest.approx(b, rel=1e-12, abs=absolute), metric


def side(kind: str, size: int, style: str, rng: np.random.Generator) -> Array:
    """One side's elements, at an odd address where that makes a difference."""
    dtype = np.dtype(kind)
    raw = rng.integers(0, 256, size * dtype.itemsize, dtype="uint8").tobytes()
    if style == "bits":
        return np.frombuffer(b"x" + raw, dtype, offset=1)
    if dtype.kind in "iub":
        return (np.frombuffer(raw, dtype) if style == "wide" else rng.integers(0, 3, size).astype(dtype)).copy()
    with np.errstate(all="ignore"):
        return STYLES[style](size, rng, np.finfo(dtype)).astype(dtype)


def few(size: int, rng: np.random.Generator, info: Any) -> Array:
    some = [0.0, -0.0, 1.0, 2.0, -3.0, 0.1, float(info.max), -float(info.max), float(info.smallest_subnormal)]
    return rng.choice(some, size)


def special(size: int, rng: np.random.Generator, info: Any) -> Array:
    return np.where(rng.random(size) < 0.1, rng.choice([math.nan, math.inf, -math.inf], size), few(size, rng, info))


def wide(size: int, rng: np.random.Generator, info: Any) -> Array:
    return rng.normal(size=size) * 2.0 ** rng.integers(info.minexp, info.maxexp, size)


STYLES: dict[str, Callable[[int, np.random.Generator, Any], Array]] = {
    "normal": lambda size, rng, _: rng.normal(size=size),
    "shifted": lambda size, rng, _: rng.normal(size=size) + 1e4,
    "wide": wide,
    "tiny": lambda size, rng, info: rng.normal(size=size) * float(info.tiny),
    "huge": lambda size, rng, info: rng.random(size) * float(info.max),
    "constant": lambda size, rng, _: np.full(size, rng.normal()),
    "few": few,
    "special": special,
}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    left = draw(st.sampled_from(KINDS))
    right = draw(st.sampled_from([left, *KINDS]))
    size = draw(st.sampled_from(SIZES))
    styles = st.sampled_from([*STYLES, "bits"])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    b = side(right, size, draw(styles), rng)
    a = side(left, size, draw(styles), rng)
    relation = draw(
        st.sampled_from(["free", "near", "partly equal", "equal", "equal for long", "multiple", "one class"])
    )
    with np.errstate(all="ignore"):
        if relation == "near" and left in FLOATS:
            a = (b * (1 + 1e-3 * rng.normal(size=size))).astype(left)
        if relation == "partly equal":
            a = np.where(rng.random(size) < 0.9, b.astype(left), a)
        if relation.startswith("equal"):
            cut = size if relation == "equal" else int(rng.integers(size + 1))
            a = np.concatenate([b[:cut].astype(left), a[cut:]])
        if relation == "multiple" and left in FLOATS:
            a = (b * np.float64(0.5)).astype(left)
        if relation == "one class" and left in FLOATS:
            a = a.copy()
            a[rng.integers(size)] = math.nan
    return a, b


@needs_kernel
@settings(deadline=None, max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(
    pair=pairs(),
    tolerance=st.sampled_from(TOLERANCES),
    block=st.sampled_from([1, 45, 2048, 10000]),
    worst=st.sampled_from([5, 0, 1, 16, 17]),
)
def test_kernel_and_numpy_give_one_answer(
    pair: tuple[Array, Array], tolerance: tuple[float, float], block: int, worst: int
) -> None:
    # Blocks of one element are slow, and tell nothing about many of them.
    cut = slice(0, 40 if block == 1 else None)
    left, right = pair[0][cut], pair[1][cut]
    wanted: dict[str, Any] = {"rtol": tolerance[0], "atol": tolerance[1], "worst": worst}
    assert_same(
        by("compiled", left, right, block_elements=block, **wanted),
        by("numpy", left, right, block_elements=512, **wanted),
    )


def blocks_of(size: int, scale: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(size)
    right = rng.normal(size=size) * scale
    return right + rng.normal(size=size) * scale * 1e-3, right


@needs_kernel
def test_the_kernel_is_what_measures() -> None:
    left, right = blocks_of(5000)
    pair = CompiledSums(Task("float64", "float64"), choose_kernel().library)
    assert pair.add(left[:3000], right[:3000], 0)
    assert pair.add(left[3000:], right[3000:], 3000)
    found = pair.partial()
    place = int(np.abs(left - right).argmax())
    largest = found.errors.largest
    assert (found.elements, largest.value, largest.element) == (5000, abs(left - right)[place], place)
    assert found.errors.absolute.value == pytest.approx(math.fsum(np.abs(left - right)), rel=1e-15)


@needs_kernel
@pytest.mark.parametrize("scale", [1e-95, 1e200, 5e-324])
def test_magnitudes_that_ask_for_scaled_sums_are_left_to_numpy(scale: float) -> None:
    pair = CompiledSums(Task("float64", "float64"), choose_kernel().library)
    usual, far = blocks_of(3000), blocks_of(3000, scale)
    assert pair.add(*usual, 0)
    before = pair.partial()
    mixed = [np.concatenate(sides) for sides in zip(usual, far, strict=True)]
    assert not pair.add(mixed[0], mixed[1], 3000)
    assert pair.partial() == before
    assert pair.add(*usual, 9000)
    assert_same(by("compiled", *mixed), by("numpy", *mixed))


@needs_kernel
def test_a_tensor_is_measured_by_both_where_only_a_part_of_it_is_far_away() -> None:
    near, far = blocks_of(4000), blocks_of(4000, 1e250)
    far[0][7], near[0][9] = math.nan, math.inf
    for order in ((near, far, near), (far, near, far)):
        left, right = (np.concatenate([sides[at] for sides in order]) for at in (0, 1))
        assert_same(by("compiled", left, right, block_elements=1000), by("numpy", left, right, block_elements=1000))


@needs_kernel
@pytest.mark.parametrize("kinds", [("complex64", "complex64"), ("int64", "float32"), ("uint64", "int64")])
def test_what_the_kernel_does_not_know_is_left_to_numpy(kinds: tuple[str, str]) -> None:
    left, right = (np.arange(9).astype(kind) for kind in kinds)
    pair = CompiledSums(Task(*kinds), choose_kernel().library)
    assert not pair.add(left, right, 0)
    assert pair.partial() == NOTHING
    assert_same(by("compiled", left, right), by("numpy", left, right))


@needs_kernel
def test_a_pair_is_the_same_bit_by_bit_however_it_is_measured() -> None:
    # What one machine writes into results.json, another one has to write, too: lanes are as many everywhere.
    left, right = (side.astype("float32") for side in blocks_of(10000))
    assert by("compiled", left, right) == by("compiled", left.copy(), right.copy(), block_elements=2048)


# One goes beyond (110, 100) and (2, 1) by its difference, the next by its relative error, by its ratio to what is
# allowed, and where nothing is allowed; the others by all of that, or by nothing.
@needs_kernel
@pytest.mark.parametrize("element", [(112, 100), (3, 1), (16, 10), (1, 0), (127, 3), (0, 127), (5, 5)])
@settings(deadline=None, max_examples=CASES // 5)
@given(
    kinds=st.sampled_from([*((kind, kind) for kind in (*INTEGERS, *FLOATS)), ("int8", "float32"), ("float64", "int8")]),
    # Beside one that is far off, the other may only be one of the worst.
    first=st.sampled_from([(110, 100), (127, 10)]),
    place=st.integers(0, 3216),
    tolerance=st.sampled_from([(0.0, 0.0), (0.1, 0.5), (0.1, 0.0), (0.0, 0.5)]),
    worst=st.sampled_from([5, 16]),
)
def test_what_goes_beyond_is_found_where_all_others_tie(
    element: tuple[int, int],
    kinds: tuple[str, str],
    first: tuple[int, int],
    place: int,
    tolerance: tuple[float, float],
    worst: int,
) -> None:
    left, right = (
        np.insert(np.resize(often, 3216), (0, place), once).astype(kind)
        for often, *once, kind in zip(([110, 2], [100, 1]), first, element, kinds, strict=True)
    )
    wanted: dict[str, Any] = {"rtol": tolerance[0], "atol": tolerance[1], "worst": worst}
    assert_same(by("compiled", left, right, **wanted), by("numpy", left, right, **wanted))


@needs_kernel
@pytest.mark.parametrize("tolerance", [(1e90, 0.0), (1e100, 1e100), (0.0, 1e99), (1e-100, 0.0), (0.0, 1e-100)])
@pytest.mark.parametrize(("kind", "scale"), [("float64", 1e80), ("float64", 1e-80), ("float32", 1e30)])
def test_tolerances_far_from_all_magnitudes_rank_alike(kind: str, scale: float, tolerance: tuple[float, float]) -> None:
    rng = np.random.default_rng(4)
    right = (rng.normal(size=1500) * scale).astype(kind)
    # Elements of no magnitude worth mentioning among the others.
    right[::3] *= np.finfo(kind).smallest_subnormal / scale
    left = (right * (1 + rng.normal(size=right.size))).astype(kind)
    wanted = {"rtol": tolerance[0], "atol": tolerance[1]}
    assert_same(by("compiled", left, right, **wanted), by("numpy", left, right, **wanted))


@needs_kernel
def test_float16_is_read_bit_by_bit() -> None:
    every = np.arange(65536, dtype="uint16").view("float16")
    exact = every.astype("float64")
    pair = CompiledSums(Task("float16", "float64"), choose_kernel().library)
    assert pair.add(every, exact, 0)
    found = pair.partial()
    assert (found.errors.differing, found.classes.mismatch, found.finite) == (0, 0, 63488)
    # Each by itself, so that no two mistakes hide each other.
    for value in every[np.isfinite(every)][::97]:
        one = CompiledSums(Task("float16", "float16"), choose_kernel().library)
        assert one.add(np.array([value]), np.zeros(1, "float16"), 0)
        assert one.partial().left[0].minimum == float(value)


# -- KL divergence -----------------------------------------------------------------------------------------------------


@needs_kernel
def test_every_logarithm_is_right_to_its_last_bits() -> None:
    # One element at a time, beside the 0 and 1 that fix the range: what is left is p·ln(p/q).
    rng = np.random.default_rng(3)
    p, q = 2.0 ** rng.uniform(-23, 0, 2000), 2.0 ** rng.uniform(-23, 0, 2000)
    p[:500] = q[:500] * (1 + rng.normal(size=500) * 10.0 ** rng.uniform(-15, -1, 500))
    p = np.clip(p, 2.0**-23, 1.0)
    spans = (Span(0.0, 1.0), Span(0.0, 1.0))
    worst = 0.0
    for a, b in zip(p, q, strict=True):
        one = CompiledDivergence.of(choose_kernel().library, p, q, spans, everything_finite=True)
        assert one is not None
        one.add(np.array([a]), np.array([b]))
        exact = a * _ln(a, b)
        if exact:
            worst = max(worst, abs(one.sums().weighted.value / exact - 1.0))
    assert worst < 2e-15


def _ln(p: float, q: float) -> float:
    """ln(p/q) out of an exact difference where p is near q, so that dividing loses nothing."""
    return math.log1p((p - q) / q) if 0.5 < p / q < 2 else math.log(p) - math.log(q)


@needs_kernel
@pytest.mark.parametrize("size", [2, 31, 32, 33, 2048, 2049, 2080, 4097])
def test_divergence_takes_every_element_once(size: int) -> None:
    left, right = (np.abs(side) for side in blocks_of(size))
    spans = (Span(left.min(), np.ptp(left)), Span(right.min(), np.ptp(right)))
    found = CompiledDivergence.of(choose_kernel().library, left, right, spans, everything_finite=False)
    assert found is not None
    found.add(left[: size // 2], right[: size // 2])
    found.add(left[size // 2 :], right[size // 2 :])
    p, q = (
        np.maximum((side - span.minimum) / span.width, 2.0**-23)
        for side, span in zip((left, right), spans, strict=True)
    )
    sums = found.sums()
    assert sums.left.value == pytest.approx(math.fsum(p), rel=1e-14)
    assert sums.right.value == pytest.approx(math.fsum(q), rel=1e-14)
    assert sums.weighted.value == pytest.approx(math.fsum(p * np.log(p / q)), rel=1e-12, abs=1e-15 * math.fsum(p))


@needs_kernel
def test_divergence_of_a_range_without_a_reciprocal_is_left_to_numpy() -> None:
    tiny = np.array([0.0, 5e-324])
    assert (
        CompiledDivergence.of(
            choose_kernel().library, tiny, tiny, (Span(0.0, 5e-324), Span(0.0, 1.0)), everything_finite=True
        )
        is None
    )
    assert_same(by("compiled", tiny, tiny[::-1]), by("numpy", tiny, tiny[::-1]))


# -- the choice --------------------------------------------------------------------------------------------------------


@needs_kernel
def test_the_header_says_nothing_of_a_kernel_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "a.npy", "a.npy"]) == 0
    assert "kernel" not in capsys.readouterr().out


@needs_kernel
def test_the_compiled_kernel_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_line() == "kernel: compiled"
    monkeypatch.setenv(VARIABLE, "compiled")
    assert choose_kernel().library is not None


def test_a_kernel_that_does_not_exist_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fortran")
    with pytest.raises(ConfigError, match=r"MSDUMP_KERNEL: there is no kernel 'fortran'; .* compiled, numpy"):
        choose_kernel()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "it was not built when the package was installed, which needs a C compiler"),
        (b"x", "it cannot be loaded"),
    ],
)
def test_without_the_library_numpy_measures_and_says_why(
    content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "_kernel.native.so").write_bytes(content)
    monkeypatch.setattr(kernel, "_LIBRARY", tmp_path / "_kernel.native.so")
    kernel._kernel.cache_clear()
    try:
        assert choose_kernel().name == "numpy"
        assert reason in kernel_line()
        with pytest.raises(ConfigError, match=reason):
            kernel._kernel("compiled")
    finally:
        kernel._kernel.cache_clear()


@needs_kernel
def test_a_library_of_another_state_of_the_source_does_not_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its structs may hold other fields than the ones that are read."""
    (tmp_path / "kernel.c").write_bytes(kernel._SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(kernel, "_SOURCE", tmp_path / "kernel.c")
    kernel._kernel.cache_clear()
    try:
        assert kernel_line() == "kernel: numpy (it was built from another state of its source)"
    finally:
        kernel._kernel.cache_clear()


@needs_kernel
def test_blocks_that_do_not_fit_are_refused() -> None:
    sums = CompiledSums(Task("float32", "float64"), choose_kernel().library)
    assert sums.add(np.zeros(4, "float32"), np.zeros(4), 0)
    divergence = CompiledDivergence.of(
        choose_kernel().library, np.zeros(4), np.zeros(4), (Span(0.0, 1.0), Span(0.0, 1.0)), True
    )
    assert divergence is not None
    for left, right in ((np.zeros(4, "float32"), np.zeros(3)), (np.zeros(4), np.zeros(4, "float32"))):
        with pytest.raises(ValueError, match="do not belong together"):
            sums.add(left, right, 4)
        with pytest.raises(ValueError, match="do not belong together"):
            divergence.add(left, right)
    assert sums.partial().elements == 4
    assert not CompiledSums(Task("float32", "float32", worst=17), choose_kernel().library).add(
        np.ones(3, "float32"), np.ones(3, "float32"), 0
    )


@needs_kernel
def test_sums_of_integers_beyond_64_bits_are_exact() -> None:
    sums = CompiledSums(Task("int32", "int32"), choose_kernel().library)
    left, right = np.full(70000, 2**31 - 1, "int32"), np.full(70000, -(2**31), "int32")
    for start in range(0, 2**20, left.size):
        assert sums.add(left, right, start)
    once = sums.partial()
    assert once == sums.partial()
    assert once.errors.exact == once.elements * (2**32 - 1)
    assert type(once.errors.largest.value) is int


def test_version_and_header_say_which_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "numpy")
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code in (0, None)
    assert re.fullmatch(r"msdump [\d.]+ \(kernel: numpy \(MSDUMP_KERNEL says so\)\)\n", capsys.readouterr().out)
    np.save(tmp_path / "a.npy", np.ones(3))
    files = [str(tmp_path / "a.npy")] * 2
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *files]) == 0
    assert " profile default; kernel: numpy (MSDUMP_KERNEL says so)\n" in capsys.readouterr().out
    monkeypatch.setenv(VARIABLE, "fortran")
    assert main(["compare", *files]) == 4
    assert "no kernel 'fortran'" in capsys.readouterr().err
