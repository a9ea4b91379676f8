"""A run's own list of the iterations it dumped, held against the directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_msdump.capabilities.run_facts.indexing import disagreements
from pytest_msdump.core.dumps.run_history import RunHistory, parse_history, read_histories, run_once
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

REAL = Path(__file__).parents[1] / "data" / "run_facts"


def at(graph: int, iteration: int, rank: int = 0) -> TensorRef:
    key = TensorKey(OpKey("a", Coordinates(rank, "Net", graph, iteration, 0)), "output", 0)
    return TensorRef(key, TensorSpec(), TensorSource.of(Path("a.npy")), "mindspore")


def told(histories: dict[int, set[int]], *refs: TensorRef, ran_nothing: bool = False) -> list[str]:
    made = [RunHistory(f"h{graph}.csv", 0, graph, frozenset(numbers)) for graph, numbers in histories.items()]
    return list(disagreements(made, refs, ran_nothing=lambda *_: ran_nothing))


@pytest.mark.parametrize("text", ["a\n", "0\n-1\n", "0,1\n", "0\n1.5\n", "9" * 19])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line [12] is not an iteration"):
        parse_history(text)


def test_the_history_of_a_real_run_is_found_at_its_root_and_at_its_rank() -> None:
    for root in (REAL / "listed", REAL / "listed" / "rank_0"):
        (history,), notes = read_histories(root)
        assert notes == ()
        assert (history.rank, history.graph, history.iterations) == (0, 0, {0, 2, 3})
    # A part of a run cannot be held to the whole.
    assert read_histories(REAL / "listed" / "rank_0" / "Net") == ([], ())


def test_a_bad_history_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0" / "execution_order"
    folder.mkdir(parents=True)
    (folder / "ms_global_execution_order_graph_0.csv").write_text("x\n")
    histories, (note,) = read_histories(tmp_path)
    assert histories == []
    assert note == (
        "rank_0/execution_order/ms_global_execution_order_graph_0.csv is not an execution "
        "history: line 1 is not an iteration"
    )


def test_an_iteration_without_tensors_is_named() -> None:
    (note,) = told({0: {0, 1, 2, 3, 7}}, at(0, 0), at(0, 3))
    assert note == (
        "incomplete or mixed dump: h0.csv lists iterations 0-3, 7, but of iterations 1-2, 7 there is no tensor of "
        "graph 0"
    )


def test_an_iteration_that_is_not_listed_is_named() -> None:
    (note,) = told({0: {0}}, at(0, 0), at(0, 4))
    assert note == "incomplete or mixed dump: there are tensors of iteration 4, which h0.csv does not list"


def test_networks_that_take_turns_are_complete() -> None:
    # What MindSpore 2.10 wrote of two networks called a, b, a, b and once more with another shape.
    refs = [at(0, 0), at(1, 0), at(0, 1), at(1, 1), at(0, 2), at(1, 2)]
    assert told({0: {0}, 1: {1, 2}}, *refs) == []


def test_graphs_without_a_history_of_their_own_are_branches_of_one_that_has() -> None:
    assert told({0: {0, 1}}, at(0, 0), at(0, 1), at(3, 0), at(4, 1)) == []


def test_a_graph_that_had_nothing_to_dump_is_not_incomplete() -> None:
    assert told({0: {0}, 1: {0}}, at(0, 0), ran_nothing=True) == []
    assert len(told({0: {0}, 1: {0}}, at(0, 0), ran_nothing=False)) == 1


def test_ranks_are_held_to_their_own_histories() -> None:
    histories = [RunHistory("r0", 0, 0, frozenset({0})), RunHistory("r1", 1, 0, frozenset({0, 1}))]
    refs = [at(0, 0, 0), at(0, 0, 1)]
    (note,) = disagreements(histories, refs, ran_nothing=lambda *_: False)
    assert note.startswith("incomplete or mixed dump: r1 lists iterations 0-1, but of iteration 1 ")
    assert list(disagreements(histories, [*refs, at(0, 1, 1)], ran_nothing=lambda *_: False)) == []


def test_what_one_graph_notes_twice_ran_twice() -> None:
    first = RunHistory("a.csv", 0, 0, frozenset({0, 1, 2}), frozenset({1}))
    other = RunHistory("b.csv", 0, 1, frozenset({1, 2, 3}))
    apart = RunHistory("c.csv", 1, 0, frozenset({1}))
    assert run_once([first, other, apart]) == {(0, 0), (0, 2), (0, 3), (1, 1)}


def test_histories_of_real_runs_tell_once_from_twice() -> None:
    hazards = Path(__file__).parents[1] / "data" / "hazards"
    assert run_once(read_histories(hazards / "while_loop")[0]) == {(0, 0), (0, 1)}
    assert run_once(read_histories(hazards / "rerun_same_dir")[0]) == set()
