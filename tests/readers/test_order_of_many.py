"""The order of tensors is decided by the file's name where nothing else differs, and by time where time does."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from pytest_msdump.model.ordering import in_order
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.readers.repeats import numbered

# Equal, and yet not one object.
PLACES = [Coordinates(iteration=0, occurrence=0) for _ in range(3)]


def ref(path: str, time: int | None, *, name: str = "op", place: int | None = None, at: int = 0) -> TensorRef:
    key = TensorKey(OpKey(name, PLACES[at]), "output", 0)
    return TensorRef(key, TensorSpec(), TensorSource(Path(path), time), "npy-folder", place)


@pytest.mark.parametrize("place", [None, 4])
def test_of_tensors_alike_in_all_else_the_path_decides(place):
    alike = [ref("/d/b", 5, place=place), ref("/d/a", 5, place=place, at=1), ref("/c/z", 5, place=place, at=2)]
    for given in permutations(alike):
        assert [str(one.source.path) for one in in_order(given)] == ["/c/z", "/d/a", "/d/b"]


@pytest.mark.parametrize("times", [(3, 1, 2), (3, 1, 1), (None, None, 1)])
def test_tensors_come_in_time_and_ties_by_name(times):
    tensors = [ref(f"/d/{name}", time, name=name) for name, time in zip("xyz", times, strict=True)]
    expected = sorted(tensors, key=lambda one: (one.source.timestamp or 0, one.source.path.name))
    for given in permutations(tensors):
        assert list(numbered(given)) == expected
