"""The order of tensors is decided by the file's name where nothing else differs, and by time where time does."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.reruns import number_occurrences, separate_runs
from pytest_msdump.core.model.dump import PARAMETER, in_order, placed_by_time
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

# Equal, and yet not one object.
PLACES = [Coordinates(iteration=0, occurrence=0) for _ in range(3)]


def ref(path: str, time: int | None, *, name: str = "op", place: int | None = None, at: int = 0) -> TensorRef:
    key = TensorKey(OpKey(name, PLACES[at]), "output", 0)
    return TensorRef(key, TensorSpec(), TensorSource.of(Path(path), time), "npy-folder", place)


@pytest.mark.parametrize("place", [None, 4])
def test_of_tensors_alike_in_all_else_the_path_decides(place):
    alike = [ref("/d/b", 5, place=place), ref("/d/a", 5, place=place, at=1), ref("/c/z", 5, place=place, at=2)]
    for listed in permutations(alike):
        assert [str(one.source.path) for one in in_order(listed)] == ["/c/z", "/d/a", "/d/b"]


@pytest.mark.parametrize("times", [(3, 1, 2), (3, 1, 1), (None, None, 1)])
def test_tensors_come_in_time_and_ties_by_name(times):
    tensors = [ref(f"/d/{name}", time, name=name) for name, time in zip("xyz", times, strict=True)]
    expected = sorted(tensors, key=lambda one: (one.source.timestamp or 0, one.source.path.name))
    for listed in permutations(tensors):
        assert list(number_occurrences(listed)) == expected


def of_one_run(times: list[int | None], names: list[str], places: list[int | None], *, shared: bool) -> list[TensorRef]:
    """Tensors of one run, whose coordinates are one object or one for each."""
    at = Coordinates(iteration=0, occurrence=0)
    return [
        TensorRef(
            TensorKey(OpKey(name, at if shared else Coordinates(*at), PARAMETER if name == "p" else None), "output", 0),
            TensorSpec(),
            TensorSource.of(Path(f"/d/{number}"), time),
            "npy-folder",
            place,
        )
        for number, (name, time, place) in enumerate(zip(names, times, places, strict=True))
    ]


def rising(count: int) -> st.SearchStrategy[list[int | None]]:
    """Numbers that mostly rise; some are not there."""
    steps = st.lists(st.sampled_from([1, 1, 1, 2, 0, -1, None]), min_size=count, max_size=count)
    return steps.map(lambda taken: [None if step is None else 2 * place + step for place, step in enumerate(taken)])


@st.composite
def runs(draw):
    names = draw(st.lists(st.sampled_from("abcdefgp"), max_size=5) | st.just([*"abcd"]))
    return draw(rising(len(names))), names, draw(rising(len(names)))


@settings(max_examples=300)
@given(runs())
def test_what_a_reader_thought_of_places_does_not_matter(run):
    times, names, places = run
    thought, unthought = (of_one_run(times, names, claimed, shared=True) for claimed in (places, [None] * len(names)))
    assert placed_by_time(thought) == placed_by_time(unthought)
    assert separate_runs(thought).older == separate_runs(unthought).older
    assert all(ref.place is None for ref in separate_runs(thought).older)


@st.composite
def tensors_of_steps(draw):
    """Tensors of several iterations and ranks, some of which are weights."""
    known = st.none() | st.integers(0, 2)
    at = st.builds(Coordinates, iteration=known, rank=known, occurrence=st.integers(0, 1))
    keys = st.tuples(at, st.sampled_from("abw"), st.integers(1, 9), st.none() | st.integers(0, 3))
    drawn = draw(st.lists(keys, max_size=12, unique_by=lambda key: key[:2]))
    return [
        TensorRef(
            TensorKey(OpKey(name, where, PARAMETER if name == "w" else None), "output", 0),
            TensorSpec(),
            TensorSource.of(Path(f"/d/{number}"), time),
            "npy-folder",
            None if name == "w" else place,
        )
        for number, (where, name, time, place) in enumerate(drawn)
    ]


def step_of(one: TensorRef) -> float:
    iteration = one.key.op.at.iteration
    return float("inf") if iteration is None else iteration


@settings(max_examples=300)
@given(tensors_of_steps())
def test_weights_and_what_has_no_place_come_last_within_their_iteration(tensors):
    for order in (in_order, placed_by_time):
        done = order(tensors)
        assert sorted(one.source.path for one in done) == sorted(one.source.path for one in tensors)
        assert [step_of(one) for one in done] == sorted(step_of(one) for one in tensors)
        for iteration in {step_of(one) for one in done}:
            here = [one for one in done if step_of(one) == iteration]
            assert [one.place is None for one in here] == sorted(one.place is None for one in here)
            placeless = [(one.source.timestamp, one.key.op.name) for one in here if one.place is None]
            assert placeless == sorted(placeless)
        assert in_order(done) == done
