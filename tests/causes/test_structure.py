"""Steps of two runs are paired by what they compute, in one order, and only where every best alignment agrees."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_msdump.capabilities.suggest.structure import (
    AlignedStep,
    align_steps,
    fused_steps,
    name_agreement,
    shapes_agree,
)


def steps(*kinds, shape=(2, 8), names=None):
    return [
        AlignedStep((number,), frozenset({(kind, 0)}), ((names or {}).get(number, ""),), (shape,))
        for number, kind in enumerate(kinds)
    ]


def certain_by_brute_force(left, right):
    """Pairs that are in every longest common subsequence of two words, by trying all of them."""

    @cache
    def best(one, other):
        if one == len(left) or other == len(right):
            return 0, frozenset({frozenset()})
        options = [best(one + 1, other), best(one, other + 1)]
        if left[one] == right[other]:
            length, ways = best(one + 1, other + 1)
            options.append((length + 1, frozenset(way | {(one, other)} for way in ways)))
        longest = max(length for length, _ in options)
        return longest, frozenset().union(*(ways for length, ways in options if length == longest))

    return set(frozenset.intersection(*best(0, 0)[1]))


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_a_pair_is_certain_exactly_if_it_is_in_every_best_alignment(left, right):
    found = align_steps(steps(*left), steps(*right), paired={})
    assert set(found.certain) == certain_by_brute_force(left, right)


def test_what_is_paired_already_is_not_crossed():
    left, right = steps("pooling", "softmax"), steps("softmax", "pooling")
    assert align_steps(left, right, paired={1: 0}).certain == ()
    assert align_steps(left, right, paired={}).certain == ()


def test_a_preferred_pair_decides_between_equals_and_never_against_more_pairs():
    left, right = steps("activation"), steps("activation", "activation")
    assert align_steps(left, right, paired={}).certain == ()
    assert align_steps(left, right, paired={}, preferred=[(0, 1)]).certain == ((0, 1),)
    left, right = steps("pooling", "activation"), steps("pooling", "activation", "pooling")
    assert align_steps(left, right, paired={}, preferred=[(0, 2)]).certain == ((0, 0), (1, 1))


def test_neighbours_that_compute_the_same_need_names():
    left, right = steps("linear", "linear"), steps("linear", "linear")
    assert align_steps(left, right, paired={}).certain == ()
    names = {0: "attn.q", 1: "attn.k"}
    left, right = steps("linear", "linear", names=names), steps("linear", "linear", names=names)
    assert align_steps(left, right, paired={}).certain == ((0, 0), (1, 1))


def test_a_normalisation_is_folded_only_where_the_other_side_has_none():
    plain, normalised = steps("convolution", "activation"), steps("convolution", "batch norm", "activation")
    assert [step.members for step in fused_steps(plain, normalised)[1]] == [(1,), (2,)]
    assert [step.members for step in fused_steps(normalised, plain)[0]] == [(1,), (2,)]
    assert [step.members for step in fused_steps(normalised, normalised)[0]] == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("left", "right", "agree"),
    [
        ([(1, 4, 6, 6)], [(1, 6, 6, 4)], True),
        ([(1, 4, 1, 1)], [(1, 4)], True),
        ([(1, 4)], [(1, 5)], False),
        ([(1, 24), (1, 4, 6)], [(4, 6)], True),
    ],
)
def test_shapes_agree_up_to_the_order_of_axes_and_axes_of_length_1(left, right, agree):
    assert shapes_agree(left, right) is agree


@pytest.mark.parametrize(
    ("one", "other", "agreement"),
    [
        ("layer 1 0 conv 1", "layer 1 layer 1 0 conv 1 conv", 3),
        ("relu", "layer 1 relu", 1),
        ("layer 1 0", "layer 0 1", 0),
        ("", "conv", 0),
    ],
)
def test_names_agree_where_one_is_within_the_other(one, other, agreement):
    assert name_agreement(one.split(), other.split()) == agreement
    assert name_agreement(other.split(), one.split()) == agreement
