"""Who may be whose partner, of names, places and differences alone."""

from __future__ import annotations

import itertools

from pytest_msdump.capabilities.suggest.choose_partners import Fit, Unpaired, suggest


def side(*names, **facts):
    return [Unpaired(name, place, **facts) for place, name in enumerate(names)]


def clear(found):
    return {one.right: (one.fits[0].left, one.how) for one in found if one.is_clear}


def all_fit(count, apart=1e-7):
    return [Fit(a, b, apart) for a, b in itertools.product(range(count), repeat=2)]


def test_a_tensor_that_fits_ten_times_better_is_the_partner():
    fits = [Fit(0, 0, 1e-3), Fit(1, 0, 1.1e-2)]
    assert clear(suggest(side("a", "b"), side("x"), fits)) == {0: (0, "values")}


def test_what_is_not_close_needs_a_name():
    far = [Fit(0, 0, 1e-2, is_close=False)]
    (one,) = suggest(side("op1"), side("add"), far)
    assert not one.is_clear
    assert clear(suggest(side("net/add-op1"), side("add"), far)) == {0: (0, "names")}


def test_two_that_fit_nearly_as_well_are_ambiguous_the_better_one_first():
    fits = [Fit(1, 0, 9e-3), Fit(0, 0, 1e-3)]
    (one,) = suggest(side("a", "b"), side("x"), fits)
    assert not one.is_clear
    assert [fit.left for fit in one.fits] == [0, 1]


def test_one_left_tensor_is_never_the_clear_partner_of_two():
    found = suggest(side("a"), side("x", "y"), [Fit(0, 0, 1e-7), Fit(0, 1, 1e-7)])
    assert clear(found) == {}
    assert [one.right for one in found] == [0, 1]


def test_names_choose_among_equal_values():
    found = suggest(side("net/flatten-op0", "net/pool-op0"), side("pool", "flatten"), all_fit(2))
    assert clear(found) == {0: (1, "names"), 1: (0, "names")}


def test_order_chooses_only_where_clear_pairs_are_in_one_order():
    left, right = side("a", "b", "c", "d"), side("w", "x", "y", "z")
    anchors = [Fit(0, 0, 1e-7), Fit(3, 3, 1e-7)]
    twins = [Fit(a, b, 1e-7) for a in (1, 2) for b in (1, 2)]
    assert clear(suggest(left, right, anchors + twins)) == {
        0: (0, "values"),
        1: (1, "order"),
        2: (2, "order"),
        3: (3, "values"),
    }
    crossed = [Fit(0, 3, 1e-7), Fit(3, 0, 1e-7)]
    assert sorted(clear(suggest(left, right, crossed + twins))) == [0, 3]
    assert sorted(clear(suggest(left, right, anchors[:1] + twins))) == [0]


def test_order_does_not_choose_where_clear_pairs_are_not_in_one_order():
    anchors = [Fit(0, 1, 1e-7), Fit(1, 0, 1e-7)]
    twins = [Fit(a, b, 1e-7) for a in (2, 3) for b in (2, 3)]
    assert sorted(clear(suggest(side(*"abcd"), side(*"wxyz"), anchors + twins))) == [0, 1]


def test_values_that_many_tensors_hold_need_a_name():
    plain = {"is_distinctive": False}
    assert clear(suggest(side("op1", **plain), side("mask", **plain), [Fit(0, 0, 0.0)])) == {}
    assert clear(suggest(side("net/mask", **plain), side("mask", **plain), [Fit(0, 0, 0.0)])) == {0: (0, "names")}


def test_names_alone_must_be_unique_on_both_sides():
    left = side("net/fc1/MatMul", "net/fc1/BiasAdd", "net/relu/ReLU")
    found = suggest(left, side("fc1", "relu"), [Fit(0, 0, None), Fit(1, 0, None), Fit(2, 1, None)])
    assert clear(found) == {1: (2, "names alone")}
    assert [fit.left for fit in found[0].fits] == [0, 1]


def test_values_leave_names_less_to_choose_from():
    left = side("net/fc1/MatMul", "net/fc1/BiasAdd")
    fits = [Fit(0, 1, 1e-7), Fit(0, 0, None), Fit(1, 0, None)]
    assert clear(suggest(left, side("fc1", "product"), fits)) == {0: (1, "names alone"), 1: (0, "values")}


def test_names_alone_do_not_cross_the_order():
    left, right = side("a", "relu", "c", "d"), side("x", "z", "y", "relu")
    anchors = [Fit(0, 0, 1e-7), Fit(2, 1, 1e-7), Fit(3, 2, 1e-7)]
    assert 3 not in clear(suggest(left, right, [*anchors, Fit(1, 3, None)]))
    assert 3 in clear(suggest(left, right, [anchors[0], Fit(1, 3, None)]))
