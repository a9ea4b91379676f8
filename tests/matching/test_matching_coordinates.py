from __future__ import annotations

from typing import Any

import pytest
from matching.made import dump, reasons, run_tensor, tensor

from pytest_msdump.core.matching import Align, Selection, pair_dumps
from pytest_msdump.core.model.tensor import Pairing


def places(pairing: Pairing, name: str) -> list[tuple[Any, Any]]:
    return [(getattr(p.left.key.op.at, name), getattr(p.right.key.op.at, name)) for p in pairing.pairs]


def test_one_flat_reference_meets_every_rank_net_and_graph_and_is_covered_once() -> None:
    left = dump(
        *(run_tensor("a", rank=rank, net=net, graph=graph) for rank in (0, 1) for net in "XY" for graph in (0, 3))
    )
    pairing = pair_dumps(left, dump(tensor("a")))
    assert len(pairing.pairs) == 8
    assert not pairing.unmatched_left
    assert (pairing.right_paired, pairing.right_total, pairing.coverage) == (1, 1, 1.0)


def test_only_a_coordinate_that_can_be_aligned_is_answered_with_align() -> None:
    iteration = pair_dumps(dump(run_tensor("a", iteration=1)), dump(tensor("a"), tensor("b", iteration=2)))
    occurrence = pair_dumps(dump(run_tensor("a", occurrence=1)), dump(tensor("a")))
    assert "align" in iteration.unmatched_left[0].reason
    assert "align" not in occurrence.unmatched_left[0].reason


@pytest.mark.parametrize(
    ("left", "right", "notes"),
    [
        (1, 0, ("iteration 1 of the left meets iteration 0 of the right",)),
        (0, 7, ("iteration 0 of the left meets iteration 7 of the right",)),
        (3, 3, ()),
        (3, None, ()),
        (None, 3, ()),
        (None, None, ()),
    ],
)
def test_one_iteration_meets_one_or_none_whatever_their_numbers(left: Any, right: Any, notes: Any) -> None:
    pairing = pair_dumps(dump(run_tensor("a", iteration=left)), dump(run_tensor("a", iteration=right)))
    assert places(pairing, "iteration") == [(left, right)]
    assert pairing.notes == notes


def test_an_arrow_says_who_meets_whom() -> None:
    left = dump(run_tensor("a", iteration=9), run_tensor("a", iteration=10))
    right = dump(tensor("a"), tensor("a", iteration=1))
    pairing = pair_dumps(left, right, align=Align(iteration=((9, 0), (10, 1))))
    assert places(pairing, "iteration") == [(9, 0), (10, 1)]
    assert pairing.coverage == 1.0


def test_a_partner_outside_the_selection_is_named_as_such() -> None:
    left = dump(tensor("a"), run_tensor("b", rank=0), run_tensor("b", rank=1))
    right = dump(run_tensor("a", rank=1), run_tensor("b", rank=0))
    pairing = pair_dumps(left, right, selection=Selection(rank=frozenset({0})))
    assert (
        "(rank 1, net Net, graph 0, iteration 0, occurrence 0), which the selection leaves out"
        in (reasons(pairing)["a:output:0"])
    )


def test_occurrences_pair_in_their_order_and_the_surplus_says_so() -> None:
    left = dump(*(run_tensor("a", occurrence=n) for n in range(3)))
    right = dump(*(run_tensor("a", occurrence=n) for n in range(2)))
    pairing = pair_dumps(left, right)
    assert places(pairing, "occurrence") == [(0, 0), (1, 1)]
    assert "occurrence 0, occurrence 1" not in pairing.unmatched_left[0].reason
    assert "occurrence 0, 1 only, not in occurrence 2" in pairing.unmatched_left[0].reason
