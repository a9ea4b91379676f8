"""Memory for elements is handed out again as soon as nobody holds it, and never before."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pytest_msdump.core import pages as room
from pytest_msdump.core.pages import pages

BYTE = np.dtype(np.uint8)
LARGE = 2**18


@pytest.fixture(autouse=True)
def nothing_free(monkeypatch):
    monkeypatch.setattr(room, "_free", [])


def address(array):
    return array.ctypes.data


def test_elements_are_of_the_type_and_number_asked_for_and_begin_at_a_page():
    for count in (0, 1, 1000, 40_001, 10**6):
        found = pages(count, np.dtype("<f8"))
        assert (found.shape, found.dtype, found.flags.writeable) == ((count,), np.dtype("<f8"), True)
        assert found.nbytes < 2**16 or address(found) % 4096 == 0


def test_memory_that_nobody_holds_is_handed_out_again():
    first = address(pages(LARGE, BYTE))
    again, another = pages(LARGE - 5, BYTE), pages(LARGE, BYTE)
    assert address(again) == first
    assert address(another) != first


@pytest.mark.parametrize(
    "part",
    [
        lambda array: array[10:20],
        lambda array: array.view(np.float32).reshape(2, -1)[:, 3:].T,
        lambda array: memoryview(array),
        lambda array: np.frombuffer(memoryview(array)[8:], np.int16),
    ],
)
def test_memory_of_which_somebody_holds_a_part_is_not(part):
    array = pages(LARGE, BYTE)
    array[:] = 7
    kept = part(array)
    before = bytes(kept)
    del array
    for _ in range(3):
        pages(LARGE, BYTE)[:] = 9
    assert bytes(kept) == before


def test_a_longer_one_takes_the_place_of_one_that_is_too_short():
    for size in (LARGE, 2 * LARGE, 3 * LARGE):
        pages(size, BYTE)
    assert [len(mapping) for mapping in room._free] == [3 * LARGE]


def test_threads_never_get_the_same_memory():
    wrong = []

    def work(number):
        for _ in range(300):
            array = pages(LARGE // 2, BYTE)
            array[::4096] = number
            if (array[::4096] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
