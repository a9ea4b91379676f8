"""Threads ahead of who asks: the same results in the same order, nothing more at a time than was allowed."""

from __future__ import annotations

import threading

import pytest

from pytest_msdump.scheduling.serial import Ahead, Workers


class Watched:
    """A function that tells who called it, with what, and how many at a time."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.calls: list[tuple[int, str]] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._gate = gate

    def __call__(self, number: int) -> int:
        with self._lock:
            self.calls.append((number, threading.current_thread().name))
            self._now += 1
            self.most = max(self.most, self._now)
        if self._gate is not None:
            assert self._gate.wait(10)
        with self._lock:
            self._now -= 1
        if number == 13:
            raise ValueError("thirteen")
        return number * number


@pytest.fixture
def workers():
    made = Workers(2)
    yield made
    made.close()


def always(_number: int) -> bool:
    return True


def test_results_are_those_of_the_numbers_and_each_is_worked_out_once(workers):
    function = Watched()
    ahead = Ahead(workers, function, range(10), always)
    assert [ahead.take(number) for number in range(10)] == [number**2 for number in range(10)]
    assert sorted(number for number, _ in function.calls) == list(range(10))
    assert {name.partition("-")[0] for _, name in function.calls} == {"msdump"}


def test_no_more_work_at_a_time_than_there_are_workers(workers):
    gate = threading.Event()
    function = Watched(gate)
    ahead = Ahead(workers, function, range(10), always)
    threading.Timer(0.1, gate.set).start()
    assert [ahead.take(number) for number in range(10)] == [number**2 for number in range(10)]
    assert function.most == 2


def test_what_is_small_is_worked_out_by_who_asks(workers):
    function = Watched()
    ahead = Ahead(workers, function, range(6), lambda number: number % 2 == 0)
    assert [ahead.take(number) for number in range(6)] == [number**2 for number in range(6)]
    by_threads = {number for number, name in function.calls if name.startswith("msdump")}
    assert by_threads == {0, 2, 4}


def test_an_exception_is_raised_where_its_number_is_asked_for(workers):
    ahead = Ahead(workers, Watched(), range(11, 16), always)
    assert [ahead.take(11), ahead.take(12)] == [121, 144]
    with pytest.raises(ValueError, match="thirteen"):
        ahead.take(13)
    assert ahead.take(14) == 196


def test_work_does_not_run_away_from_who_asks(workers):
    function = Watched()
    ahead = Ahead(workers, function, range(1000), always)
    ahead.take(0)
    ahead.close()
    assert len(function.calls) <= 9


def test_numbers_that_nobody_asks_for_make_room_for_the_next(workers):
    function = Watched()
    ahead = Ahead(workers, function, range(100), always)
    assert [ahead.take(number) for number in (0, 50, 99)] == [0, 2500, 9801]


def test_a_number_asked_for_again_or_out_of_order_is_worked_out_anew(workers):
    function = Watched()
    ahead = Ahead(workers, function, range(5), always)
    assert [ahead.take(number) for number in (3, 3, 1, 77)] == [9, 9, 1, 5929]


def test_who_closes_waits_for_no_thread_and_nothing_more_is_begun():
    gate, function = threading.Event(), Watched()
    workers = Workers(1)
    stuck = workers.submit(gate.wait, 30)
    ahead = Ahead(workers, function, range(5), lambda number: number > 0)
    assert ahead.take(0) == 0
    ahead.close()
    workers.close()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("msdump"))
    gate.set()
    assert stuck.result(30)
    assert [number for number, _ in function.calls] == [0]
