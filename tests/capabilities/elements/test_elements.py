"""Errors of single elements, the largest of them, and their extent: against fractions, and block by block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.elements.cells import NEWER, OWN
from pytest_msdump.capabilities.elements.writing import Elements, Extents, Top, by_absolute, by_relative, elements

RNG = np.random.default_rng(6)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.array([75, 0, 255], np.uint8), np.array([76, 255, 0], np.uint8)),
        (np.array([2**53 + 1, -(2**63)]), np.array([2**53, 2**63 - 1])),
        (np.array([2**64 - 1, 0], np.uint64), np.array([0, 2**64 - 1], np.uint64)),
        (np.array([2**64 - 1, 3], np.uint64), np.array([-(2**63), 4])),
        (np.array([-128, 127], np.int8), np.array([127, -128], np.int8)),
    ],
    ids=["uint8", "int64", "uint64", "mixed", "int8"],
)
def test_fault_06_errors_of_integers_neither_wrap_nor_round(left, right):
    found = elements(left, right, 0)
    exact = [abs(int(one) - int(other)) for one, other in zip(left, right, strict=True)]
    assert [int(one) for one in found.absolute] == exact
    for one, other, relative in zip(exact, right.tolist(), found.relative.tolist(), strict=True):
        assert not other or relative == pytest.approx(float(Fraction(one, abs(other))), rel=1e-15)


def test_fault_06_errors_of_float16_are_not_rounded_to_float16():
    left, right = (RNG.standard_normal(500).astype(np.float16) for _ in range(2))
    found = elements(left, right, 0)
    for one, other, absolute in zip(left.tolist(), right.tolist(), found.absolute.tolist(), strict=True):
        assert Fraction(absolute) == abs(Fraction(one) - Fraction(other))


@pytest.mark.parametrize(
    ("left", "right", "absolute", "relative"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (INF, INF, 0.0, 0.0),
        (-INF, -INF, 0.0, 0.0),
        (INF, -INF, INF, NAN),
        (INF, 3.0, INF, INF),
        (3.0, INF, INF, NAN),
        (NAN, 3.0, NAN, NAN),
        (3.0, NAN, NAN, NAN),
        (NAN, NAN, NAN, NAN),
        (1e308, -1e308, INF, INF),
    ],
)
def test_nan_and_inf_are_kept(left, right, absolute, relative):
    found = elements(np.array([left]), np.array([right]), 0)
    assert found.absolute.tolist() == pytest.approx([absolute], nan_ok=True)
    assert found.relative.tolist() == pytest.approx([relative], nan_ok=True)


def texts_of(*blocks: Elements, style=NEWER):
    seen = Extents()
    for block in blocks:
        seen.add(block)
    return [text for _, text in seen.lines(style)]


def extremes(left, right, style=NEWER):
    return texts_of(elements(np.asarray(left, np.float32), np.asarray(right, np.float32), 0), style=style)


def test_fault_06_nan_and_inf_are_told_and_never_0():
    assert extremes([NAN, 1], [NAN, 1]) == ["nan"] * 4
    assert extremes([1, 1], [NAN, 1]) == ["nan"] * 4
    assert extremes([INF, 1], [2, 1]) == ["0.000000", "inf", "0.000000", "inf"]


def test_where_the_right_side_is_0_there_is_no_relative_error():
    assert extremes([1, 2], [0, 0]) == ["1.000000", "2.000000", "-", "-"]
    assert extremes([1, 2], [0, 1]) == ["1.000000", "1.000000", "1.000000", "1.000000"]
    assert extremes([0, 2], [0, 1]) == ["0.000000", "1.000000", "0.000000", "1.000000"]
    assert extremes([], []) == ["nan"] * 4


def test_numbers_of_ours_do_not_look_like_0():
    assert extremes([1e-9], [2e-9], OWN) == ["1.000000e-09", "1.000000e-09", "0.500000", "0.500000"]


def listed(left, right, count, rank, block=10**9):
    top = Top(count, rank)
    for start in range(0, left.size, block):
        top.add(elements(left[start : start + block], right[start : start + block], start))
    return [] if top.elements is None else top.elements.index.tolist()


@pytest.mark.parametrize("size", [1, 2, 7, 20, 21])
def test_fault_15_a_list_has_every_entry_there_is_room_for(size):
    left, right = RNG.standard_normal((2, size))
    for rank in (by_absolute, by_relative):
        assert len(listed(left, right, 20, rank)) == min(size, 20)


@pytest.mark.parametrize("rank", [by_absolute, by_relative])
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_list_is_the_beginning_of_a_sorted_one_however_it_is_read(rank, data):
    numbers = st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, NAN, INF])
    size = data.draw(st.integers(1, 40))
    left, right = (np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))) for _ in range(2))
    count, block = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 40))
    found = elements(left, right, 0)

    def place(number: int) -> tuple[int, float, int]:
        absolute, relative = float(found.absolute[number]), float(found.relative[number])
        if rank is by_relative and absolute == 0:
            return 1, 0.0, number
        if rank is by_relative and right[number] == 0:
            return 2, INF if math.isnan(absolute) else absolute, number
        error = absolute if rank is by_absolute else relative
        if math.isnan(error):
            return (0 if math.isnan(left[number]) and math.isnan(right[number]) else 4), 0.0, number
        return 3, error, number

    wanted = sorted(range(size), key=place, reverse=True)[:count]
    assert listed(left, right, count, rank, block) == wanted


def test_many_equal_errors_give_the_last_elements():
    left = np.ones(1000)
    assert listed(left, left * 2, 3, by_absolute, 100) == [999, 998, 997]
    assert listed(left, left, 3, by_relative, 100) == [999, 998, 997]


@given(block=st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_extents_do_not_depend_on_blocks(block):
    left, right = np.arange(60.0), np.arange(60.0)[::-1].copy()
    right[5] = 0
    starts = range(0, 60, block)
    blocks = [elements(left[start : start + block], right[start : start + block], start) for start in starts]
    assert texts_of(*blocks) == texts_of(elements(left, right, 0))


@pytest.mark.parametrize("order", [1, -1])
def test_nan_in_any_block_is_told(order):
    blocks = [elements(np.array([value]), np.array([3.0]), start) for start, value in enumerate([1.0, NAN, 2.0])]
    assert texts_of(*blocks[::order]) == ["nan"] * 4
