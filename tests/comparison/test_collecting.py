"""The garbage collector is held back from what stays, and is afterwards as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from pytest_msdump.comparison.collecting import collector_at_rest, past_set_aside


class Circle:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def _collector():
    gc.enable()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_searched_at_rest():
    with collector_at_rest():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def test_only_what_is_made_inside_is_searched():
    before = Circle()
    was = weakref.ref(before)
    with past_set_aside():
        del before
        inside = Circle()
        now = weakref.ref(inside)
        del inside
        gc.collect()
        assert now() is None
        assert was() is not None
    gc.collect()
    assert was() is None


@pytest.mark.parametrize(("often", "seldom"), [(700, 100_000), (200_000, 200_000), (0, 0)])
def test_what_is_made_inside_is_searched_seldom(often, seldom):
    before = gc.get_threshold()
    gc.set_threshold(often, 7, 7)
    try:
        with past_set_aside():
            assert gc.get_threshold()[:2] == (seldom, 7)
        assert gc.get_threshold()[:2] == (often, 7)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("held_back", [collector_at_rest, past_set_aside])
def test_an_error_ends_it_as_well(held_back):
    with pytest.raises(KeyError), held_back():
        raise KeyError
    assert gc.isenabled()
    assert not gc.get_freeze_count()


@pytest.mark.parametrize("held_back", [collector_at_rest, past_set_aside])
def test_what_somebody_else_has_frozen_stays_so(held_back):
    gc.freeze()
    with held_back():
        pass
    assert gc.get_freeze_count()


@pytest.mark.e2e
def test_what_is_left_to_the_end_is_not_taken_apart():
    # The collector may find it while there is one: whoever ends freezes what there is.
    program = (
        "import gc\n"
        "from pytest_msdump.comparison.collecting import left_to_the_end\n"
        "class Told:\n"
        "    def __del__(self): print('taken apart')\n"
        "def leave():\n"
        "    left_to_the_end(Told())\n"
        "leave()\n"
        "Told()\n"
        "gc.freeze()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("taken apart\n", "")
