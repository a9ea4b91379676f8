"""Every memory format: there and back, against index-by-index formulas, with padding of NaN that nobody may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import lcm, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.core.layouts.blocks import place
from pytest_msdump.core.layouts.device_layout import logical, stored, target
from pytest_msdump.core.layouts.gather import BlockedView
from pytest_msdump.core.model.tensor import TensorSpec

ORDERS_4 = ("NCHW", "NHWC", "HWCN", "CHWN")
ORDERS_5 = ("NCDHW", "NDHWC", "DHWCN")


class StoredArray(ArrayView):
    """An array that says what a dump's header would."""

    def __init__(self, values: np.ndarray, memory_format: str, logical_shape=None, groups: int = 1) -> None:
        super().__init__(np.ascontiguousarray(values))
        self._said = TensorSpec("float32", values.shape, memory_format, logical_shape, groups)
        self.largest = 0

    @property
    def spec(self) -> TensorSpec:
        return self._said

    def read(self, start: int, stop: int):
        self.largest = max(self.largest, stop - start)
        return super().read(start, stop)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Every element another number, so that none can be taken for its neighbour."""
    return np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(shape)


def values_of(view, block: int = 10**9) -> np.ndarray:
    parts = [part.copy() for part in view.blocks(block)]
    return np.concatenate(parts).reshape(view.shape) if parts else np.empty(view.shape)


# -- the formulas of the vendor's documentation, one element at a time ------------------------------------------------

# Format → (shape, block) → the stored index of a logical one. Blocks of filters and rows are always 16.
FORMULAS: Mapping[str, Callable[..., tuple[int, ...]]] = {
    "NC1HWC0": lambda n, c, h, w, _, b: (n, c // b, h, w, c % b),
    "NC1HWC0_C04": lambda n, c, h, w, _, b: (n, c // b, h, w, c % b),
    "NHWC1C0": lambda n, c, h, w, _, b: (n, h, w, c // b, c % b),
    "C1HWNC0": lambda n, c, h, w, _, b: (c // b, h, w, n, c % b),
    "FRACTAL_Z": lambda n, c, h, w, s, b: (c // b * s[2] * s[3] + h * s[3] + w, n // 16, n % 16, c % b),
    "FRACTAL_Z_C04": lambda n, c, h, w, s, _: (
        ((h * s[3] + w) * 4 + c) // 16,
        n // 16,
        n % 16,
        ((h * s[3] + w) * 4 + c) % 16,
    ),
    "NHWC": lambda n, c, h, w, *_: (n, h, w, c),
    "HWCN": lambda n, c, h, w, *_: (h, w, c, n),
    "CHWN": lambda n, c, h, w, *_: (c, h, w, n),
    "NCHW": lambda n, c, h, w, *_: (n, c, h, w),
}
FORMULAS_5: Mapping[str, Callable[..., tuple[int, ...]]] = {
    "NDC1HWC0": lambda n, c, d, h, w, _, b: (n, d, c // b, h, w, c % b),
    "FRACTAL_Z_3D": lambda n, c, d, h, w, s, b: (
        ((d * -(-s[1] // b) + c // b) * s[3] + h) * s[4] + w,
        n // 16,
        n % 16,
        c % b,
    ),
    "NCDHW": lambda n, c, d, h, w, *_: (n, c, d, h, w),
    "NDHWC": lambda n, c, d, h, w, *_: (n, d, h, w, c),
    "DHWCN": lambda n, c, d, h, w, *_: (d, h, w, c, n),
    "DHWNC": lambda n, c, d, h, w, *_: (d, h, w, n, c),
}
MATRIX_FORMULAS: Mapping[str, Callable[..., tuple[int, ...]]] = {
    "FRACTAL_NZ": lambda i, j, b: (j // b, i // 16, i % 16, j % b),
    "FRACTAL_ZZ": lambda i, j, b: (i // 16, j // b, i % 16, j % b),
}


def test_every_row_has_its_formula():
    assert {*FORMULAS, *FORMULAS_5, *MATRIX_FORMULAS, "ND"} == set(MEMORY_FORMATS)


def block_of(name: str, asked: int) -> int:
    return 4 if "C04" in name else asked


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("block", [16, 32])
def test_four_axes_lie_where_the_formula_says(name, block):
    shape = (18, 3, 5, 7) if name == "FRACTAL_Z_C04" else (18, 35, 2, 3)
    values, block = numbered(shape), block_of(name, block)
    found = stored(values, name, logical_format="NCHW", c0=block)
    for index in product(*map(range, shape)):
        assert found[FORMULAS[name](*index, shape, block)] == values[index]


@pytest.mark.parametrize(
    ("groups", "filters", "channels", "spatial"),
    [
        (48, 1, 1, (3, 2)),
        (4, 16, 16, (1, 1)),
        (2, 3, 5, (3, 3)),
        (6, 4, 3, (2, 2)),
        (7, 5, 9, (1, 3)),
        (4, 3, 16, (1, 1)),
    ],
)
def test_groups_lie_where_the_formula_says_and_none_overwrites_another(groups, filters, channels, spatial):
    """Fault 7 of the vendor's tool: a depthwise 48x1x3x2 weight keeps 96 of its 288 values there."""
    height, width = spatial
    values = numbered((groups * filters, channels, *spatial))
    found = stored(values, "FRACTAL_Z", logical_format="NCHW", groups=groups, padding=np.nan)
    together = min(lcm(lcm(channels, 16) // channels, lcm(filters, 16) // filters), groups)
    blocks = -(-together * channels // 16)
    assert found.shape == (-(-groups // together) * blocks * height * width, -(-together * filters // 16), 16, 16)
    for g, n, c, h, w in product(range(groups), range(filters), range(channels), range(height), range(width)):
        e = g % together
        to_c, to_n = e * channels + c, e * filters + n
        first = (g // together) * blocks * height * width + (to_c // 16) * height * width + h * width + w
        assert found[first, to_n // 16, to_n % 16, to_c % 16] == values[g * filters + n, c, h, w]
    assert np.count_nonzero(~np.isnan(found)) == values.size
    back = logical(StoredArray(found, "FRACTAL_Z", values.shape, groups), logical_format="NCHW")
    assert np.array_equal(values_of(back, 29), values)
    turned = np.ascontiguousarray(values.transpose(2, 3, 1, 0))
    hwcn = StoredArray(stored(turned, "FRACTAL_Z", logical_format="HWCN", groups=groups), "FRACTAL_Z", groups=groups)
    assert np.array_equal(values_of(logical(hwcn, logical_shape=turned.shape, logical_format="HWCN")), turned)


# -- there and back ---------------------------------------------------------------------------------------------------


def orders_of(name: str) -> tuple[str | None, ...]:
    axes = MEMORY_FORMATS[name].axes
    if axes in ("", "IJ"):
        return (None,)
    return ORDERS_5 if len(axes) == 5 else ORDERS_4[:3] if axes == "NCS" else ORDERS_4


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str | None, tuple[int, ...], int]:
    name = draw(st.sampled_from(sorted(MEMORY_FORMATS)))
    order = draw(st.sampled_from(orders_of(name)))
    if order is None:
        shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
        return name, order, shape[:2] + tuple(min(4, length) for length in shape[2:]), draw(st.sampled_from([16, 32]))
    most = {"N": 20, "C": 4 if "C04" in name else 36, "D": 3, "H": 4, "W": 5}
    shape = tuple(draw(st.integers(1, most[letter])) for letter in order)
    return name, order, shape, block_of(name, draw(st.sampled_from([16, 32])))


@settings(deadline=None, max_examples=150)
@given(cases(), st.integers(1, 5000), st.sampled_from([1, 60, 2000, 2**20]), st.data())
@pytest.mark.full
def test_there_and_back_is_the_identity_and_padding_is_never_read(case, block, window, data):
    name, order, shape, c0 = case
    values = numbered(shape)
    lying = stored(values, name, logical_format=order or "", c0=c0, padding=np.nan)
    letters = order or ""
    full = shape
    if MEMORY_FORMATS[name].axes == "IJ" and len(shape) == 1:
        full = (1, *shape)
    found = BlockedView(StoredArray(lying, name), place(name, lying.shape, full, letters), window_elements=window)
    assert np.array_equal(values_of(found, block).reshape(shape), values)
    start = data.draw(st.integers(0, values.size))
    stop = data.draw(st.integers(start, values.size))
    assert np.array_equal(found.read(start, stop), values.reshape(-1)[start:stop])
    axes = tuple(data.draw(st.permutations(range(len(found.shape)))))
    turned = found.permuted(axes)
    assert np.array_equal(values_of(turned, block), values.reshape(found.shape).transpose(axes))
    through = logical(StoredArray(lying, name, shape), logical_shape=shape, logical_format=order)
    assert np.array_equal(values_of(through, block), values)
    turned = through.permuted(tuple(range(len(shape)))[::-1])
    assert np.array_equal(values_of(turned), values.T)


def test_memory_is_bounded_by_the_window():
    values = np.zeros((2, 64, 50, 60), np.float32)
    source = StoredArray(stored(values, "NC1HWC0", logical_format="NCHW"), "NC1HWC0", values.shape)
    view = BlockedView(source, place("NC1HWC0", source.shape, values.shape, "NCHW"), window_elements=10_000)
    values_of(view, 1000)
    assert source.largest <= 10_000


# -- which shape, which order -----------------------------------------------------------------------------------------


def spec_of(name: str, shape: tuple[int, ...], order: str, said: tuple[int, ...] | None) -> TensorSpec:
    lying = stored(np.zeros(shape, np.float32), name, logical_format=order)
    return TensorSpec("float32", lying.shape, name, said)


def test_an_origin_in_nhwc_is_found_out_by_its_padding():
    """Fault 1: the vendor's tool takes (2, 5, 7, 19) for NCHW and compares five channels of nineteen."""
    spec = spec_of("NC1HWC0", (2, 5, 7, 19), "NHWC", (2, 5, 7, 19))
    assert target(spec, rule_format=None, rule_shape=None) == ((2, 5, 7, 19), "NHWC")


def test_the_rules_order_goes_before_a_guess_and_the_headers_shape_before_the_rules():
    spec = spec_of("NC1HWC0", (2, 19, 5, 7), "NCHW", (2, 19, 5, 7))
    assert target(spec, rule_format="NCHW", rule_shape=(1, 19, 5, 7)) == ((2, 19, 5, 7), "NCHW")
    unsaid = spec_of("NC1HWC0", (2, 19, 5, 7), "NCHW", None)
    assert target(unsaid, rule_format="NHWC", rule_shape=(2, 5, 7, 19)) == ((2, 5, 7, 19), "NHWC")
    assert target(unsaid, rule_format=None, rule_shape=None) == (None, None)


def test_a_rule_that_cannot_be_is_passed_over_for_what_fits():
    spec = spec_of("NC1HWC0", (2, 19, 5, 7), "NCHW", (2, 19, 5, 7))
    assert target(spec, rule_format="NHWC", rule_shape=None) == ((2, 19, 5, 7), "NCHW")


def test_a_plain_format_is_brought_to_the_originals_order():
    values = numbered((2, 19, 5, 7))
    found = logical(StoredArray(values, "NCHW", (2, 5, 7, 19)), logical_shape=(2, 5, 7, 19), logical_format="NHWC")
    assert np.array_equal(values_of(found), values.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("name", "lying", "shape"),
    [
        ("NC1HWC0", (2, 2, 5, 7, 16), (2, 40, 5, 7)),
        ("NC1HWC0", (2, 2, 5, 7, 16), (2, 16, 5, 7)),
        ("NC1HWC0", (2, 2, 5, 7, 16), (2, 19, 5, 6)),
        ("NC1HWC0", (2, 2, 5, 7), (2, 19, 5, 7)),
        ("FRACTAL_NZ", (2, 2, 16, 16), (17, 33)),
        ("FRACTAL_NZ", (2, 2, 16, 16), (16, 17)),
        ("FRACTAL_NZ", (3, 2, 2, 16, 16), (2, 17, 17)),
        ("FRACTAL_Z", (18, 2, 16, 16), (33, 19, 3, 3)),
        ("FRACTAL_Z_C04", (3, 2, 16, 16), (18, 5, 3, 3)),
    ],
)
def test_what_cannot_be_is_refused_with_both_shapes(name, lying, shape):
    with pytest.raises(TensorShapeError) as caught:
        logical(StoredArray(np.zeros(lying, np.float32), name), logical_shape=shape)
    assert name in str(caught.value)
    assert str(shape) in str(caught.value)


def test_a_legal_int8_pad_of_32_is_no_fault():
    """Fault 31: (20, 33) in blocks of 32 columns is refused by the vendor's tool."""
    values = numbered((20, 33))
    lying = StoredArray(stored(values, "FRACTAL_NZ", c0=32, padding=np.nan), "FRACTAL_NZ", values.shape)
    assert np.array_equal(values_of(logical(lying)), values)


def test_nobody_telling_the_logical_shape_is_refused():
    with pytest.raises(TensorShapeError, match="its logical shape is unknown"):
        logical(StoredArray(np.zeros((1, 1, 2, 2, 16), np.float32), "NC1HWC0"))


def test_an_unknown_format_is_refused_unless_nothing_is_to_be_done():
    view = StoredArray(np.zeros((4, 4), np.float32), "FRACTAL_DECONV", (4, 4))
    assert logical(view) is view
    with pytest.raises(TensorShapeError, match="FRACTAL_DECONV"):
        logical(view, logical_shape=(3, 5))


# -- names ------------------------------------------------------------------------------------------------------------
